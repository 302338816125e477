//! The settings of an incident, frozen when it is opened, what the record says of the time before this process, and the few inputs that may still
//! stop or narrow it.

use super::delay::{HeldCondition, Since};
use super::device::{Device, Level};
use super::observed::{DETACHING, NodeView, OUT_OF_SERVICE};
use super::power_on::{PowerOn, Tries};
use super::taint;
use super::verification::Verification;
use fencing_api::settings::{FenceMode, Procedure, RecoveryStrategy};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;

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

impl Approval {
    /// Who has refused it and why, in words.
    pub fn denial(&self) -> Option<String> {
        match self {
            Self::Denied(user, reason) => Some(format!("denied by {user}: {reason}")),
            Self::NotNeeded | Self::Awaited | Self::Approved(_) => None,
        }
    }
}

/// What was confirmed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManualConfirmation {
    /// Who.
    pub user: String,
    /// UID of the Node that it is about.
    pub node_uid: String,
    /// When.
    pub given: Since,
    /// It was dated later than it was heard of.
    pub is_ahead: bool,
}

/// What the NodeFence's status says of the time before this process. Bookkeeping only: no taint and no power command
/// follows from it, it only ever makes the rest stricter (S3).
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Record {
    /// The evidence was stored: `out-of-service` of ours may have been set.
    pub evidence: bool,
    /// When the kubelet had last reported by then, as it says itself.
    pub reported: Option<Timestamp>,
    /// Devices whose readings of Off it holds, by the name of their level.
    pub proven_by: BTreeMap<String, Vec<String>>,
    /// `out-of-service` of ours was set for certain.
    pub tainted: bool,
    /// Off commands since.
    pub reoffs: u32,
    /// An off command was intended, and neither its failure nor its effect was written down: it may still land (S23).
    pub unresolved: bool,
    /// The policy's wait was over: nothing is written into the record before.
    pub due: bool,
    /// Attempts so far.
    pub attempts: u32,
    /// How long a human's word had been waited for.
    pub approval_waited: Duration,
    /// A human's word that the machine is off was refused for good, in these words.
    pub confirmation_refused: Option<String>,
    /// Life beside a device that read Off, in words, the first two (S22).
    pub contradictions: Vec<String>,
    /// FenceDevices that said On when others had read Off: nothing is proven before they read Off.
    pub contradicting: Vec<String>,
    /// FenceDevices that were asked.
    pub asked: Vec<String>,
    /// What may be on its way to the machine though this record does not name it.
    pub foreign_commands: ForeignCommands,
    /// FenceDevices that an off command has gone to, or may have, each as it was then ([`Device::version`]).
    pub turned_off: BTreeMap<String, String>,
    /// What was done to turn the machine on again, by FenceDevice.
    pub turned_on: BTreeMap<String, Tries>,
    /// Everything had detached under the taint.
    pub detached: bool,
    /// `out-of-service` of ours was taken away again.
    pub released: bool,
    /// How long ago that was.
    pub released_for: Duration,
}

/// Commands that another record names, or none (S23). No date tells how old they are: whoever begins waits as if they had just been sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct ForeignCommands {
    /// It is what the watch has told, which may be late; otherwise a quorum LIST.
    pub by_watch: bool,
    /// Another NodeFence of this Node and boot has an off whose outcome nobody knows.
    pub off: bool,
    /// The same of an on.
    pub on: bool,
    /// Nobody knows what was sent under the Node's claim: the NodeFence that it names was deleted or cannot be decoded; or it names this one, and
    /// neither its record nor this process knows the claim (an earlier NodeFence had the name).
    pub orphaned: bool,
    /// How long after it was sent such a command may land at most, by the settings of its own NodeFence: the time of its levels, and its
    /// `lateEffectSeconds`.
    pub window: Duration,
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
    /// It is, where its machine reads Off (`durationPolicy: SkipIfOff`).
    pub claims_off_early: bool,
    /// The condition that has to hold until then; none: a human or another system asked.
    pub condition: Option<HeldCondition>,
    /// What the policy asks for, as the NodeFence has frozen it.
    pub procedure: Procedure,
    /// The machine is turned on again after the release; none: never.
    pub power_on: Option<PowerOn>,
    /// The policy's demands on a proof.
    pub verification: Verification,
    /// Time between two readings.
    pub read_period: Duration,
    /// Ways to fence.
    pub levels: Vec<Level>,
    /// A human's word.
    pub approval: Approval,
    /// What the NodeFence asks for that this version cannot do: it is held.
    pub unsupported: Option<String>,
    /// A human's word that the machine is off.
    pub confirmation: Option<ManualConfirmation>,
    /// `desiredState: Released`.
    pub released: bool,
    /// Stop before the taint, for this reason (policy gone, narrowed).
    pub stop: Option<String>,
    /// What the record says.
    pub record: Record,
}

impl Settings {
    /// How far to go.
    pub fn mode(&self) -> FenceMode {
        self.procedure.fence.mode
    }

    /// How long an off command of unknown outcome may still land.
    pub fn late_effect(&self) -> Duration {
        seconds(self.procedure.fence.verification.late_effect_seconds)
    }

    /// How long an approval is waited for.
    pub fn approval_timeout(&self) -> Duration {
        seconds(self.procedure.fence.approval.timeout_seconds)
    }

    /// Until the detach counts as stuck.
    pub fn detach_timeout(&self) -> Duration {
        seconds(self.procedure.recovery.detach_timeout_seconds)
    }

    /// Until the release counts as stuck.
    pub fn release_timeout(&self) -> Duration {
        seconds(self.procedure.release.timeout_seconds)
    }

    /// Are the volumes detached by the operator, and the Node deleted then?
    pub fn deletes_node(&self) -> bool {
        self.procedure.recovery.strategy == RecoveryStrategy::DeleteNode
    }

    /// Is the machine only proven down, for others to free what is on it (`NodeConfirmedDown`)? They go by it from then on.
    pub fn only_proves(&self) -> bool {
        self.procedure.recovery.strategy == RecoveryStrategy::None
    }

    /// The key of the mark that it sets.
    pub fn mark_key(&self) -> &'static str {
        match self.deletes_node() {
            true => DETACHING,
            false => OUT_OF_SERVICE,
        }
    }

    /// The key of the mark on this Node that the incident may have set. It sets one of the two and never the other; whoever has adopted one does
    /// not know which.
    pub fn mark_on(&self, node: &NodeView) -> Option<&'static str> {
        let found = node.marked_by().filter(|_| self.adopted);
        let own = || node.taint(self.mark_key()).map(|_| self.mark_key());
        found.or_else(own)
    }

    /// The mark that it sets, as it is called in sentences.
    pub fn mark(&self) -> &'static str {
        taint::display_name(self.mark_key())
    }

    /// The node's devices that are not of this level: where they answer, they may not speak against it.
    pub fn other_devices<'a>(&'a self, level: &'a Level) -> impl Iterator<Item = &'a Device> {
        let is_own = |device: &&Device| level.devices.iter().any(|own| own.name == device.name);
        let all = self.levels.iter().flat_map(|level| &level.devices);
        all.filter(move |device| !device.manual && !device.outlets && !is_own(device))
    }
}

fn seconds(count: u32) -> Duration {
    Duration::from_secs(count.into())
}

#[cfg(test)]
mod tests;
