//! What this process remembers of an incident.
//!
//! It lives in this process only. After a crash it is empty, and the incident begins again from what the Node and the NodeFence say: claim
//! anew, quiesce anew, prove anew (S3).

mod commands;
mod late;
mod proven;
mod tries;
mod trust;
mod under_taint;
mod writes;

pub use {
    commands::{Busy, Commands},
    late::LateCommands,
    proven::ProvenOff,
    tries::{ConfirmationTurn, LevelTries},
    trust::{CONTRADICTIONS_KEPT, Trust},
    under_taint::UnderTaint,
    writes::Writes,
};

use super::device::{DeviceAnswer, DeviceReadings};
use super::observed::{LeaseView, PodView};
use super::power_on::TurningOn;
use super::quiesce::{Quiesce, coming_back};
use super::stage::Stage;
use std::collections::BTreeMap;
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

/// What this process remembers of an incident.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Memory {
    /// Stage shown last, and since when.
    pub stage: Option<(Stage, Duration)>,
    /// The policy's wait is over, and the condition held until then.
    pub is_due: bool,
    /// What the stored record says of attempts and readings has been taken over.
    pub record_read: bool,
    /// How the incident ends once the claim is gone; none: it goes on from the beginning.
    pub ending: Option<(Stage, String)>,
    /// What is reported of devices that may still turn off a machine that has come back, or that have read Off what never went down.
    /// It goes on with the sentence of the end, and begins with its own `, ` or `; `.
    pub accused: Option<String>,
    /// Our claim.
    pub claim: Option<OwnClaim>,
    /// What was learned for our claim, and goes with it.
    pub under_claim: ClaimScoped,
    /// Another process took our claim over and is left alone until then (time since boot).
    pub rival_until: Option<Duration>,
    /// Another NodeFence had claimed the Node while this one waited.
    pub superseded: bool,
    /// Pods found under a claim that has gone, which come back whatever stands there: until a newer list is without them the node is not
    /// claimed. They are no list of its pods, and allow nothing.
    pub found_back: Vec<PodView>,
    /// When the power was read last, which has ended (time since boot). A read that waited for a device that hangs is as old as its last
    /// answer: it would else begin again and again.
    pub read_at: Duration,
    /// The manual confirmation.
    pub confirmation: ConfirmationTurn,
    /// Which level is tried, and why tries have failed.
    pub tries: LevelTries,
    /// The orders to the devices.
    pub commands: Commands,
    /// What of them may still take effect, whoever has sent it.
    pub late: LateCommands,
    /// What the devices have read in this incident, and what spoke against it.
    pub trust: Trust,
    /// The power-off proof.
    pub proven: ProvenOff,
    /// What was learned under the taint.
    pub taint: UnderTaint,
    /// The machine is turned on again after the release.
    pub power_on: TurningOn,
    /// The writes that failed.
    pub writes: Writes,
}

/// What is learned for a claim and under it. It goes with it as a whole ([`Memory::forget_claim`]): before the next one the machine may have
/// run again, so nothing of this counts there (S3). Whatever else is learned for a proof belongs here too.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ClaimScoped {
    /// We are taking the claim away: its absence is our doing.
    pub dropping: bool,
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
    /// Something answered at the kubelet's port beside the readings; none: after a command it is asked when they are judged.
    pub kubelet_answered: Option<bool>,
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
    /// Of each pod (its UID) what its kubelet had written, from when on the Lease counts.
    pub written_before: BTreeMap<String, u64>,
    /// A pod whose kubelet has written something since.
    pub written: Option<String>,
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

impl ClaimScoped {
    /// What the kubelet writes counts from here on, its Lease and its pods; without a Lease, from the next one that is read.
    pub fn life_counts_from(&mut self, lease: Option<LeaseView>) {
        self.lease_before = lease;
        self.written_before.clear();
        self.written = None;
    }

    /// Takes note of what the kubelet has written of these pods.
    pub fn note_written(&mut self, pods: &[PodView]) {
        for pod in pods {
            let before = self.written_before.entry(pod.uid.clone());
            if *before.or_insert(pod.written) != pod.written {
                self.written.get_or_insert_with(|| pod.full_name());
            }
        }
    }
}

impl Memory {
    /// The Lease that a silent node had when it was claimed: another one forbids the first off command. None: that was waited for already, or a
    /// command has gone out, after which a renewal speaks against the device.
    pub fn lease_of_silence(&self) -> Option<&LeaseView> {
        let before = self.under_claim.lease_before.as_ref();
        before
            .filter(|_| self.under_claim.off_waits_until.is_none() && !self.commands.has_commanded)
    }

    /// Forgets the off command of this try. If it is still on its way, or was accepted and nothing was read since that shows its
    /// effect, it may land until `late` (time since boot, S23).
    pub fn drop_attempt(&mut self, late: Duration) {
        if self.commands.is_unsettled() {
            self.late.note_own_off(late);
        }
        self.commands.has_commanded = self.commands.may_have_turned_off_something();
        self.commands.attempt = None;
    }

    /// Forgets everything that was learned under a claim: a new claim begins from nothing, and not while a pod comes back that was found
    /// under this one. Its off command may land until `late` (time since boot), see [`Memory::drop_attempt`].
    pub fn forget_claim(&mut self, late: Duration) {
        self.drop_attempt(late);
        self.commands.busy = None;
        self.claim = None;
        // The list beside a reading has a second only: where it takes longer each time, the node would be claimed again and again.
        self.found_back = coming_back(&self.under_claim.quiesce.starting)
            .cloned()
            .collect();
        self.under_claim = ClaimScoped::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S22: what a kubelet wrote before the claim, or before its machine was turned off, is no life after it.
    #[test]
    fn only_what_a_kubelet_writes_anew_is_a_sign_of_life() {
        let pod = |name: &str, written: u64| PodView {
            name: name.to_owned(),
            uid: format!("uid-{name}"),
            written,
            ..PodView::default()
        };
        let mut scoped = ClaimScoped::default();
        scoped.note_written(&[pod("a", 1), pod("b", 0)]);
        scoped.note_written(&[pod("a", 1), pod("b", 0), pod("c", 5)]);
        assert_eq!(scoped.written, None, "pods that are seen first");
        let mut counted_anew = scoped.clone();
        let mut starts = scoped.clone();
        starts.note_written(&[pod("b", 2)]);
        assert_eq!(starts.written.as_deref(), Some("/b"), "it was taken up");
        scoped.note_written(&[pod("c", 6)]);
        assert_eq!(scoped.written.as_deref(), Some("/c"));
        scoped.life_counts_from(None);
        assert_eq!(scoped.written, None, "it was known");
        counted_anew.life_counts_from(None);
        counted_anew.note_written(&[pod("c", 6)]);
        assert_eq!(counted_anew.written, None);
    }
}
