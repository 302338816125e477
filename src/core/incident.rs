//! One incident: its frozen settings, what this process remembers of it, and what can be done next.
//!
//! [`Memory`] lives in this process only. After a crash it is empty, and the incident begins again from what the Node
//! and the NodeFence say: claim anew, quiesce anew, prove anew (S3).

use super::attempt::{Attempt, OffResult};
use super::delay::HeldCondition;
use super::observed::{LeaseView, PodView};
use super::proof::{DeviceReadings, IdentityRule, Require, Verification};
use super::quiesce::Quiesce;
use super::reading::Reading;
use super::stage::Stage;
use super::taint::NodePatch;
use super::word::Word;
use crate::api::settings::{
    ApprovalTimeout, FenceMode, PodDeletion, RecoveryStrategy, ReleaseMode,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// A device of a level, resolved for this node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Device {
    /// FenceDevice name.
    pub name: String,
    /// `<uid>/<generation>` of the FenceDevice: what was read from another version of it proves nothing.
    pub version: String,
    /// Who must answer there.
    pub identity: IdentityRule,
    /// A human answers for it, see [`super::word`].
    pub manual: bool,
    /// It reads outlets, and not the machine: one that has power says nothing of a machine that was switched off otherwise.
    pub outlets: bool,
}

/// One way to fence the node: AND or OR over its devices. Levels are tried one after the other (Pacemaker's topology).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Level {
    /// Name of the level in the policy.
    pub name: String,
    /// How many of its devices must be off.
    pub require: Require,
    /// Tries before the next level's turn.
    pub attempts_max: u32,
    /// Pause between two tries.
    pub retry_period: Duration,
    /// How long the level may take as a whole, its tries and the pauses between them.
    pub timeout: Duration,
    /// The devices that serve this node; a level without any is passed over.
    pub devices: Vec<Device>,
}

impl Level {
    /// Does it rest on a human's word alone?
    pub fn is_manual(&self) -> bool {
        self.devices.iter().all(|device| device.manual) && !self.devices.is_empty()
    }
}

/// A human's answer to the incident.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Approval {
    /// The policy asks for none, and nobody gave one.
    NotNeeded,
    /// The policy wants one.
    Awaited,
    /// Given, by this user.
    Approved(String),
    /// Refused, by this user, for this reason.
    Denied(String, String),
}

/// What the NodeFence's status says of the time before this process. Bookkeeping only: no taint and no power command
/// follows from it, it only ever makes the rest stricter (S3).
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Record {
    /// The evidence was stored: `out-of-service` of ours may have been set.
    pub evidence: bool,
    /// Devices whose readings of Off it holds, by the name of their level.
    pub proven_by: BTreeMap<String, Vec<String>>,
    /// `out-of-service` of ours was set for certain.
    pub tainted: bool,
    /// An off command was intended, and neither its failure nor its effect was written down: it may still land (S23).
    pub unresolved: bool,
    /// The policy's wait was over: nothing is written into the record before.
    pub due: bool,
    /// Attempts so far.
    pub attempts: u32,
    /// How long a human's word had been waited for.
    pub approval_waited: Duration,
    /// A human's word that the machine is off was refused for good, in these words.
    pub word_refuted: Option<String>,
    /// Life beside a device that read Off, in words, the first two (S22).
    pub contradictions: Vec<String>,
}

/// The frozen settings of an incident, and the few inputs that may still stop or narrow it (S15).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// NodeFence name.
    pub fence: String,
    /// Node name.
    pub node: String,
    /// UID of the Node; none: a human named only the node, and it is bound before the claim.
    pub node_uid: Option<String>,
    /// Boot that is to be fenced; none as above, or for an adopted taint.
    pub boot_id: Option<String>,
    /// A human asked for it: no waiting, no budget, but the same proof.
    pub human: bool,
    /// Made for an `out-of-service` of ours whose own NodeFence is lost: it only ever releases.
    pub adopted: bool,
    /// The node is not claimed before this moment (time since boot): the policy's wait is over then.
    pub not_before: Duration,
    /// The condition that has to hold until then; none: a human or another system asked.
    pub condition: Option<HeldCondition>,
    /// How far to go.
    pub mode: FenceMode,
    /// What to do with the proof.
    pub strategy: RecoveryStrategy,
    /// Who deletes the stuck pods.
    pub pod_deletion: PodDeletion,
    /// When the taint goes.
    pub release: ReleaseMode,
    /// Until the detach counts as stuck.
    pub detach_timeout: Duration,
    /// Until the release counts as stuck.
    pub release_timeout: Duration,
    /// The policy's demands on a proof.
    pub verification: Verification,
    /// Time between two readings.
    pub read_period: Duration,
    /// How long an off command of unknown outcome may still land.
    pub late_effect: Duration,
    /// Ways to fence.
    pub levels: Vec<Level>,
    /// A human's word.
    pub approval: Approval,
    /// How long it is waited for.
    pub approval_timeout: Duration,
    /// What happens when nobody gave one in time.
    pub approval_on_timeout: ApprovalTimeout,
    /// What the NodeFence asks for that this version cannot do: it is held.
    pub unsupported: Option<String>,
    /// A human's word that the machine is off.
    pub word: Option<Word>,
    /// `desiredState: Released`.
    pub released: bool,
    /// Stop before the taint, for this reason (policy gone, narrowed).
    pub stop: Option<String>,
    /// What the record says.
    pub record: Record,
}

impl Settings {
    /// The node's devices that are not of this level: where they answer, they may not speak against it.
    pub fn witnesses<'a>(&'a self, level: &'a Level) -> impl Iterator<Item = &'a Device> {
        let is_own = |device: &&Device| level.devices.iter().any(|own| own.name == device.name);
        let all = self.levels.iter().flat_map(|level| &level.devices);
        all.filter(move |device| !device.manual && !device.outlets && !is_own(device))
    }
}

/// Our claim on the Node, as this process wrote it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OwnClaim {
    /// Its value.
    pub value: String,
    /// UID of the claimed Node.
    pub uid: String,
    /// Boot ID of the claimed Node.
    pub boot_id: String,
    /// The API server has shown it on the Node.
    pub seen: bool,
}

/// Answer of a device to one question.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Sight {
    /// FenceDevice name.
    pub device: String,
    /// The reading, or why there is none.
    pub reading: Result<Reading, String>,
}

/// The first contradiction may be a slow machine, the second one is a device that lies; more of them say nothing new.
pub const CONTRADICTIONS_KEPT: usize = 2;

/// What this process remembers of an incident.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Memory {
    /// Stage shown last, and since when.
    pub stage: Option<(Stage, Duration)>,
    /// The policy's wait is over, and the condition held until then.
    pub is_due: bool,
    /// Our claim.
    pub claim: Option<OwnClaim>,
    /// We are taking the claim away: its absence is our doing.
    pub dropping: bool,
    /// Another process took our claim over and is left alone until then (time since boot).
    pub rival_until: Option<Duration>,
    /// Devices of each level when the node was claimed, by the level's name.
    pub devices_claimed: BTreeMap<String, Vec<String>>,
    /// How the incident ends once the claim is gone; none: it goes on from the beginning.
    pub ending: Option<(Stage, String)>,
    /// Whether a pod can still start on the node.
    pub quiesce: Quiesce,
    /// The devices have passed the check before the claim, so that only the budget is in the way.
    pub checked: bool,
    /// The level of a human's word has had its turn.
    pub word_heeded: bool,
    /// A device, the Lease or the kubelet has spoken against the word, in these words: it counts for nothing any more (S21).
    pub word_refuted: Option<String>,
    /// Level that is tried now: index into the settings' levels.
    pub level: usize,
    /// Tries of this level that failed.
    pub failures: u32,
    /// When its first try was begun (time since boot); none: not tried since its turn came, or it has answered well since.
    pub level_since: Option<Duration>,
    /// Times that every level has been tried in vain.
    pub rounds: u32,
    /// Not to try again before (time since boot).
    pub retry_at: Option<Duration>,
    /// Why the last try failed.
    pub last_failure: Option<String>,
    /// Why each level failed last, by the level's name.
    pub level_failures: BTreeMap<String, String>,
    /// The last try's failure calls for a human, for this reason, until a try succeeds.
    pub alarm: Option<&'static str>,
    /// Answers to the last look, all devices of the level.
    pub sights: Vec<Sight>,
    /// When that look had ended (time since boot). One that waited for a device that hangs is as old as its last answer: it would else
    /// begin again and again.
    pub looked_at: Duration,
    /// The off command of this try.
    pub attempt: Option<Attempt>,
    /// Off commands under any claim of this process.
    pub attempts: u32,
    /// Answers of the confirm engine.
    pub readings: Option<Vec<DeviceReadings>>,
    /// The node's pods, listed before the power was read last.
    pub pods: Option<Vec<PodView>>,
    /// A deletion of them failed: a new list has to tell which are left.
    pub relist: bool,
    /// The kubelet's Lease when the readings began.
    pub lease_before: Option<LeaseView>,
    /// Device work that is under way; an answer to an older order is not listened to.
    pub busy: Option<Busy>,
    /// Number of the last order.
    pub orders: u64,
    /// The evidence is in the NodeFence.
    pub evidence: bool,
    /// Names of the devices whose readings of Off that evidence holds, in order.
    pub proven_by: Vec<String>,
    /// The same of the evidence that is being stored.
    pub proving: Vec<String>,
    /// The stuck pods have been deleted.
    pub evicted: bool,
    /// What the devices of the other levels showed while these were read.
    pub others: Vec<DeviceReadings>,
    /// Something answered at the kubelet's port while the device's readings were taken (mode ConfirmOnly).
    pub kubelet_answered: bool,
    /// The readings have proven the machine down, and nothing answered at the kubelet's port beside them: it is asked once for each
    /// reading of the power, for a machine that is down takes its time not to answer.
    pub kubelet_silent: bool,
    /// Life beside a device that read Off, in words, the first two (S22).
    pub contradictions: Vec<String>,
    /// What is said of devices that may still turn off a machine that has come back.
    pub accused: Option<String>,
    /// An off may still land until then (time since boot, S23).
    pub unresolved_until: Option<Duration>,
    /// The record's unresolved attempt has been taken over.
    pub record_read: bool,
    /// This process has seen `out-of-service` under our claim.
    pub tainted: bool,
    /// We are taking the taint away: its absence is our doing.
    pub releasing: bool,
    /// Off commands while the taint stood.
    pub reoffs: u32,
    /// After a command under the taint: the machine is given until then to go down before it is looked at (time since boot). None: none was
    /// sent yet, or its answer has not been taken in.
    pub reoff_settles_at: Option<Duration>,
    /// Since when nothing is attached any more.
    pub drained: Option<Duration>,
    /// The next round makes the last check by quorum LIST.
    pub last_check: bool,
    /// Rounds of waiting, for the pace of polling.
    pub polls: u32,
    /// Why a write was refused, for the condition (F23, F24).
    pub denied: Option<String>,
    /// Writes in a row that failed.
    pub write_failures: u32,
    /// What the last of them was told.
    pub write_failure: String,
    /// No write before (time since boot).
    pub write_retry_at: Option<Duration>,
}

/// Device work under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Busy {
    /// Number of the order.
    pub order: u64,
    /// A command that may change the machine, not just a question.
    pub commands: bool,
}

impl Memory {
    /// Device work begins: its answer has to carry this order's number.
    pub fn begin(&mut self, commands: bool) {
        self.orders += 1;
        self.busy = Some(Busy {
            order: self.orders,
            commands,
        });
    }

    /// A device has lied twice: nothing is commanded any more, by whatever device (S22, mode PowerOff).
    pub fn is_contradicted(&self) -> bool {
        self.contradictions.len() >= CONTRADICTIONS_KEPT
    }

    /// A command has gone out, or may have, and has not answered yet.
    pub fn commanding(&self) -> bool {
        self.busy.is_some_and(|busy| busy.commands)
    }

    /// An off may still land until then (time since boot), or until a later moment that is known already.
    pub fn may_land(&mut self, until: Duration) {
        self.unresolved_until = self.unresolved_until.max(Some(until));
    }

    /// Forgets the off command of this try. If it is still on its way, or was accepted and nothing was read since that shows its
    /// effect, it may land until `late` (time since boot, S23).
    pub fn drop_attempt(&mut self, late: Duration) {
        let results = self.attempt.iter().flat_map(|it| it.results.values());
        let is_unseen = results.into_iter().any(|it| *it == OffResult::Accepted);
        if self.commanding() || is_unseen {
            self.may_land(late);
        }
        self.attempt = None;
    }

    /// Forgets everything that was learned under a claim: a new claim begins from nothing. Its off command may land until `late`
    /// (time since boot), see [`Memory::drop_attempt`].
    pub fn forget_claim(&mut self, late: Duration) {
        self.drop_attempt(late);
        self.busy = None;
        self.claim = None;
        self.dropping = false;
        self.quiesce = Quiesce::default();
        self.readings = None;
        self.others.clear();
        self.kubelet_answered = false;
        self.kubelet_silent = false;
        self.pods = None;
        self.relist = false;
        self.devices_claimed.clear();
        self.lease_before = None;
        self.evidence = false;
        self.proven_by.clear();
        self.proving.clear();
        self.evicted = false;
        self.sights.clear();
        self.polls = 0;
    }
}

/// A pod to delete by force, by name and uid, while the proof lives.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Eviction {
    /// The pods.
    pub pods: Vec<PodView>,
    /// Not to be sent after this moment (time since boot).
    pub valid_until: Duration,
}

/// The facts a proof rests on, for the record.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Evidence {
    /// The claim under which it was won.
    pub claim: String,
    /// UID of the Node.
    pub node_uid: String,
    /// Boot that was fenced.
    pub boot_id: String,
    /// The kubelet's last Lease.
    pub lease_renew_time: String,
    /// The kubelet's last report ([`super::observed::NodeView::last_report`]).
    pub last_report: String,
    /// Name of the level whose devices gave them.
    pub level: String,
    /// Readings per device.
    pub readings: Vec<DeviceReadings>,
}

/// What to ask of the level's devices, or command them. The answer comes later, as a [`Reply`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum DeviceOrder {
    /// One reading of each.
    Look,
    /// Off, by this attempt; the claim is read again right before each command goes out (F12).
    Off(Attempt),
    /// Readings in a session of its own until they could prove it, over this window at least, or time is up.
    Confirm {
        /// First answer to last question.
        window: Duration,
    },
}

/// The one thing to do next.
#[derive(Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing until something changes, or until the decision's `wake`.
    Wait,
    /// Write a human's incident down as bound to this Node and boot.
    Bind {
        /// Node UID.
        uid: String,
        /// Boot ID.
        boot_id: String,
    },
    /// Put our claim on the Node.
    Claim(NodePatch),
    /// Take our claim away.
    DropClaim(NodePatch),
    /// Write the attempt down before its commands go out.
    RecordIntent(Attempt),
    /// Device work with the devices of this level, under this number.
    Device {
        /// Question or command.
        order: DeviceOrder,
        /// Index of the level in the settings.
        level: usize,
        /// How long it may take.
        limit: Duration,
        /// To be given back with the answer.
        number: u64,
    },
    /// Write the evidence down before anything destructive.
    StoreEvidence(Box<Evidence>),
    /// Delete the stuck pods.
    Evict(Eviction),
    /// Set `out-of-service`.
    Taint(NodePatch),
    /// Take `out-of-service` and the claim away.
    Release(NodePatch),
    /// End the incident in the decision's stage.
    Close,
}

/// A decision, and the words that explain it.
#[derive(Debug, PartialEq, Eq)]
pub struct Decision {
    /// What to do.
    pub effect: Effect,
    /// Where the incident stands.
    pub stage: Stage,
    /// Why, for the NodeFence, the event and the log.
    pub words: String,
    /// A human is needed: `(reason, words)`.
    pub escalation: Option<(&'static str, String)>,
    /// Look again at this moment at the latest (time since boot).
    pub wake: Option<Duration>,
    /// The stage is late from this moment on (time since boot).
    pub deadline: Option<Duration>,
}

/// What became of an effect.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Reply {
    /// The API server did it.
    Done,
    /// The API server refused: nothing was written. HTTP status and message.
    Refused(u16, String),
    /// The request was never sent, for this reason: nothing was written.
    NotSent(String),
    /// No definite answer: it may have been written, or may still be (F21).
    Unknown(String),
    /// Device work has ended: the order's number and its answer.
    Device(u64, DeviceReply),
}

/// The node's pods, and when all of them were known.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PodList {
    /// The pods, complete.
    pub pods: Vec<PodView>,
    /// When the list was answered (time since boot).
    pub answered: Duration,
}

/// Answer of the devices.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum DeviceReply {
    /// To [`DeviceOrder::Look`].
    Looked {
        /// What each device showed.
        sights: Vec<Sight>,
        /// The node's pods, listed meanwhile; none: they have to be listed under the claim.
        pods: Option<Vec<PodView>>,
    },
    /// To [`DeviceOrder::Off`], per device.
    Commanded(BTreeMap<String, OffResult>),
    /// To [`DeviceOrder::Confirm`].
    Confirmed {
        /// What the devices said.
        readings: Vec<DeviceReadings>,
        /// Why it ended without an Off run, per device.
        failures: Vec<String>,
        /// What the devices of the node's other levels showed meanwhile, as far as they answered.
        others: Vec<DeviceReadings>,
        /// Something answered at the kubelet's port meanwhile.
        kubelet_answers: bool,
        /// The node's pods, listed meanwhile, oldest first.
        pods: Vec<PodList>,
    },
}

#[cfg(test)]
mod tests;
