//! What this process remembers of an incident.
//!
//! It lives in this process only. After a crash it is empty, and the incident begins again from what the Node and the NodeFence say: claim
//! anew, quiesce anew, prove anew (S3).

use super::attempt::{Attempt, OffResult};
use super::device::{DeviceAnswer, DeviceReadings};
use super::escalation::Escalation;
use super::observed::{LeaseView, NodeView, PodView};
use super::power_history::PowerHistory;
use super::power_on::TurningOn;
use super::proof_source::ProofSource;
use super::quiesce::{Quiesce, coming_back};
use super::settings::ForeignCommands;
use super::stage::Stage;
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

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
    /// Another NodeFence had claimed the Node while this one waited.
    pub superseded: bool,
    /// What was learned for our claim, and goes with it.
    pub under_claim: ClaimScoped,
    /// Pods found under a claim that has gone, which come back whatever stands there: until a newer list is without them the node is not
    /// claimed. They are no list of its pods, and allow nothing.
    pub found_back: Vec<PodView>,
    /// The Node is gone, and a pod or a volume was found that its deletion would have waited for: it was not this operator's.
    pub attached_again: bool,
    /// How the incident ends once the claim is gone; none: it goes on from the beginning.
    pub ending: Option<(Stage, String)>,
    /// The devices have passed the check before the claim, so that only the budget is in the way.
    pub checked: bool,
    /// The level of a human's word has had its turn: after this order.
    pub confirmation_tried: Option<u64>,
    /// A device, the Lease or the kubelet has spoken against the word, in these words: it counts for nothing any more (S21).
    pub confirmation_refused: Option<String>,
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
    pub alarm: Option<Escalation>,
    /// When the last look had ended (time since boot). One that waited for a device that hangs is as old as its last answer: it would else
    /// begin again and again.
    pub read_at: Duration,
    /// The off command of this try.
    pub attempt: Option<Attempt>,
    /// Off commands under any claim of this process.
    pub attempts: u32,
    /// A command of an earlier try has turned the machine off, or may have.
    pub has_commanded: bool,
    /// Device work that is under way; an answer to an older order is not listened to.
    pub busy: Option<Busy>,
    /// Number of the last order.
    pub orders: u64,
    /// What each device of the node has said last of its power, since the incident began.
    pub power_history: PowerHistory,
    /// The devices that were silent in this incident, or reported a fault: one of them may have been restarted.
    pub silent: BTreeSet<String>,
    /// Life beside a device that read Off, in words, the first two (S22).
    pub contradictions: Vec<String>,
    /// Who has proven the machine down, by whatever claim: each is of the boot that was fenced.
    pub proven_off_by: Option<ProofSource>,
    /// The kubelet's last report then, as it dates it ([`NodeView::last_report`]); none: not known.
    pub proven_report: Option<Timestamp>,
    /// A proof is stored, by this process or the one before it: others go by it.
    pub proof_published: bool,
    /// Its node was Ready in that very boot since, or was made anew in it.
    pub proof_refuted: bool,
    /// There was a sign of life since, in words: whether the machine is down is not known before it is proven anew.
    pub proof_doubted: Option<String>,
    /// What is said of devices that may still turn off a machine that has come back, or that have read Off what never went down.
    /// It goes on with the sentence of the end, and begins with its own `, ` or `; `.
    pub accused: Option<String>,
    /// An off of this incident may still land until then (time since boot, S23).
    pub own_off_until: Option<Duration>,
    /// An on of another NodeFence may still land until then (time since boot).
    pub may_go_on_until: Option<Duration>,
    /// An off that another NodeFence has sent, or one whose record is gone, may still land until then (time since boot, S23).
    pub others_off_until: Option<Duration>,
    /// What of others is waited for by these two.
    pub known_foreign_commands: ForeignCommands,
    /// What the stored record says of attempts and readings has been taken over.
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
    /// Since when no pod with a volume is left but those in `terminating`, where the operator deletes VolumeAttachments itself.
    pub pods_gone_at: Option<Duration>,
    /// UIDs of the pods that were left then, all of them being deleted.
    pub terminating: BTreeSet<String>,
    /// The next round lists the VolumeAttachments by quorum, to delete them.
    pub lists_attachments: bool,
    /// Since when nothing is attached any more.
    pub detached_at: Option<Duration>,
    /// The next round makes the last check by quorum LIST.
    pub last_check: bool,
    /// The machine is turned on again after the release.
    pub power_on: TurningOn,
    /// Why a write was refused, for the condition (F23, F24).
    pub denied: Option<String>,
    /// Writes in a row that failed.
    pub write_failures: u32,
    /// What the last of them was told.
    pub write_failure: String,
    /// No write before (time since boot).
    pub write_retry_at: Option<Duration>,
}

/// What is learned for a claim and under it. It goes with it as a whole ([`Memory::forget_claim`]): before the next one the machine may have
/// run again, so nothing of this counts there (S3). Whatever else is learned for a proof belongs here too.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ClaimScoped {
    /// Devices of each level when the node was claimed, by the level's name.
    pub devices_claimed: BTreeMap<String, Vec<String>>,
    /// Whether a pod can still start on the node.
    pub quiesce: Quiesce,
    /// Answers to the last look, all devices of the level.
    pub answers: Vec<DeviceAnswer>,
    /// Answers of the confirm engine.
    pub readings: Option<Vec<DeviceReadings>>,
    /// What the devices of the other levels showed while these were read.
    pub others: Vec<DeviceReadings>,
    /// Something answered at the kubelet's port while the device's readings were taken (in mode ConfirmOnly, and beside a human's
    /// word).
    pub kubelet_answered: bool,
    /// These readings have proven the machine down once: the kubelet's port is not asked again beside them, for a machine that is down
    /// takes its time not to answer.
    pub judged_down: bool,
    /// The node's pods, listed before the power was read last.
    pub pods: Option<Vec<PodView>>,
    /// A deletion of them failed: a new list has to tell which are left.
    pub relist: bool,
    /// The kubelet's Lease with which later ones are compared. It counts from the claim on, and anew from the first reading after an off, from a
    /// word's turn, and from each contradiction: what was renewed before that is known, or was allowed.
    pub lease_before: Option<LeaseView>,
    /// It was read after the off command of this try: until then the kubelet was allowed to live, and from then on it is not.
    pub lease_after_off: bool,
    /// It had moved before the first off command of a silent node: none is sent until then (time since boot).
    pub off_waits_until: Option<Duration>,
    /// This process took the claim over before a command was written down, and reads no sooner (time since boot) that the Lease has not moved.
    pub taken_over_until: Option<Duration>,
    /// What the other NodeFences have sent was listed under this claim, beside which nobody sends an on: all that may still land is known.
    pub others_listed: bool,
    /// The evidence is in the NodeFence.
    pub evidence: bool,
    /// It holds the readings that are judged now.
    pub evidence_is_new: bool,
    /// Names of the devices whose readings of Off that evidence holds, in order.
    pub proven_by: Vec<String>,
    /// The same of the evidence that is being stored.
    pub proving: Vec<String>,
    /// The stuck pods have been deleted.
    pub evicted: bool,
    /// Rounds of waiting, for the pace of polling.
    pub polls: u32,
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
    /// The Lease that a silent node had when it was claimed: another one forbids the first off command. None: that was waited for already, or a
    /// command has gone out, after which a renewal speaks against the device.
    pub fn lease_of_silence(&self) -> Option<&LeaseView> {
        let before = self.under_claim.lease_before.as_ref();
        before.filter(|_| self.under_claim.off_waits_until.is_none() && !self.has_commanded)
    }

    /// Device work begins: its answer has to carry this order's number.
    pub fn begin(&mut self, commands: bool) {
        self.orders += 1;
        self.busy = Some(Busy {
            order: self.orders,
            commands,
        });
    }

    /// Something else is in the way now: no write is tried, and what was refused before is not why.
    pub fn forget_denial(&mut self) {
        self.denied = None;
    }

    /// A device has lied twice: nothing is commanded any more, by whatever device (S22, mode PowerOff).
    pub fn is_contradicted(&self) -> bool {
        self.contradictions.len() >= CONTRADICTIONS_KEPT
    }

    /// A command has gone out, or may have, and has not answered yet.
    pub fn commanding(&self) -> bool {
        self.busy.is_some_and(|busy| busy.commands)
    }

    /// An off command of this try has turned off what this device tells of, or may have: an outlet by its own command, the machine by
    /// anybody's.
    pub fn may_have_turned_off(&self, device: &str, is_outlet: bool) -> bool {
        let results = self.attempt.iter().flat_map(|it| &it.results);
        let mut results = results.filter(|(name, _)| !is_outlet || *name == device);
        let own = self.attempt.iter().find_map(|it| it.results.get(device));
        own != Some(&OffResult::AlreadyOff) && results.any(|(_, it)| it.may_turn_off())
    }

    /// Has the kubelet reported since the machine was proven down? No, where nobody knows when it had reported last.
    pub fn has_reported(&self, node: &NodeView) -> bool {
        self.reports(node).is_some_and(|(then, now)| then != now)
    }

    /// Is what the kubelet has reported last what it had when the machine was proven down?
    pub fn has_not_reported(&self, node: &NodeView) -> bool {
        self.reports(node).is_some_and(|(then, now)| then == now)
    }

    /// The kubelet's last report when the machine was proven down, and now.
    fn reports(&self, node: &NodeView) -> Option<(Timestamp, Timestamp)> {
        self.proven_report.zip(node.last_report().parse().ok())
    }

    /// An off of this incident may still land until then (time since boot), or until a later moment that is known already.
    pub fn note_own_off(&mut self, until: Duration) {
        self.own_off_until = self.own_off_until.max(Some(until));
    }

    /// The same of one that another NodeFence has sent, or that no record names.
    pub fn note_others_off(&mut self, until: Duration) {
        self.others_off_until = self.others_off_until.max(Some(until));
    }

    /// Until when an off may still land (time since boot), whoever has sent it.
    pub fn may_land_until(&self) -> Option<Duration> {
        self.own_off_until.max(self.others_off_until)
    }

    /// The same, as long as that moment is still to come.
    pub fn late_off_until(&self, now: Duration) -> Option<Duration> {
        self.may_land_until().filter(|until| now < *until)
    }

    /// That off, in words.
    pub fn late_off_message(&self) -> &'static str {
        match self.own_off_until >= self.others_off_until {
            true => "an off command may still land late (`status.attempts`)",
            false => {
                "an off command that another NodeFence has sent, or that no record names, may still land late"
            }
        }
    }

    /// May an off of this incident still land?
    pub fn own_off_may_land(&self, now: Duration) -> bool {
        self.own_off_until.is_some_and(|until| now < until)
    }

    /// Forgets the off command of this try. If it is still on its way, or was accepted and nothing was read since that shows its
    /// effect, it may land until `late` (time since boot, S23).
    pub fn drop_attempt(&mut self, late: Duration) {
        let results = self.attempt.iter().flat_map(|it| it.results.values());
        let is_unseen = results.into_iter().any(|it| *it == OffResult::Accepted);
        if self.commanding() || is_unseen {
            self.note_own_off(late);
        }
        self.has_commanded = self.may_have_commanded();
        self.attempt = None;
    }

    /// Has an off command of this process turned something off, or may one have?
    pub fn may_have_commanded(&self) -> bool {
        let mut results = self.attempt.iter().flat_map(|it| it.results.values());
        self.has_commanded || self.commanding() || results.any(OffResult::may_turn_off)
    }

    /// Forgets everything that was learned under a claim: a new claim begins from nothing, and not while a pod comes back that was found
    /// under this one. Its off command may land until `late` (time since boot), see [`Memory::drop_attempt`].
    pub fn forget_claim(&mut self, late: Duration) {
        self.drop_attempt(late);
        self.busy = None;
        self.claim = None;
        self.dropping = false;
        // The list beside a look has a second only: where it takes longer each time, the node would be claimed again and again.
        self.found_back = coming_back(&self.under_claim.quiesce.starting)
            .cloned()
            .collect();
        self.under_claim = ClaimScoped::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    /// S4: only after a command that was taken, or may have been, may a device have fallen silent with its machine.
    #[test]
    fn who_took_no_command_has_turned_nothing_off() {
        let message = || "words".to_owned();
        for (result, is_off) in [
            (OffResult::Accepted, true),
            (OffResult::Landed, true),
            (OffResult::Unknown(message()), true),
            (OffResult::Late(message()), true),
            (OffResult::AlreadyOff, false),
            (OffResult::NotSent(message()), false),
        ] {
            let attempt = Attempt {
                results: [("bmc".to_owned(), result.clone())].into(),
                ..fixtures::attempt()
            };
            let memory = Memory {
                attempt: Some(attempt),
                ..Memory::default()
            };
            assert_eq!(
                memory.may_have_turned_off("bmc", true),
                is_off,
                "{result:?}"
            );
            // The machine may be off by whatever device, an outlet by its own command only.
            assert_eq!(memory.may_have_turned_off("bmc-2", false), is_off);
            assert!(!memory.may_have_turned_off("outlet", true));
            // By another one's command, but who said that it was off already was.
            let mut both = memory.clone();
            let results = both.attempt.iter_mut().map(|it| &mut it.results);
            for results in results {
                results.insert("bmc-2".to_owned(), OffResult::AlreadyOff);
            }
            assert!(!both.may_have_turned_off("bmc-2", false));
        }
        assert!(!Memory::default().may_have_turned_off("bmc", false));
    }
}
