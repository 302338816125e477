//! A decision: the one thing to do next, and what it tells people.

use super::attempt::{Attempt, OnAttempt};
use super::device::DeviceReadings;
use super::escalation::Escalation;
use super::hold::HeldBy;
use super::observed::PodView;
use super::reading::PowerState;
use super::stage::Stage;
use super::taint::{Detachment, NodeDeletion, NodePatch};
use std::time::Duration;

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
    /// They are a human's word.
    pub by_confirmation: bool,
    /// Readings per device.
    pub readings: Vec<DeviceReadings>,
}

impl Evidence {
    /// Does it show that a storage shuts the node out, and not that the machine is off?
    pub fn is_by_storage(&self) -> bool {
        let is_off = |it: &&DeviceReadings| {
            let last = it.readings.last();
            last.is_some_and(|last| last.state == PowerState::Off)
        };
        let mut off = self.readings.iter().filter(is_off).peekable();
        off.peek().is_some() && off.all(|it| it.covers.is_some())
    }
}

/// What to ask of the level's devices, or command them. The answer comes later, as a [`Reply`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum DeviceOrder {
    /// One reading of each.
    ReadPower,
    /// Off, by this attempt; the claim is read again right before each command goes out (F12).
    Off(Attempt),
    /// On, by this attempt; the Node and the NodeFence are read again right before each command goes out.
    On(OnAttempt),
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
    /// The same of an on command.
    RecordOn(OnAttempt),
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
    /// Set `out-of-service`, or the taint under which volumes are detached ([`super::taint::detaching`]).
    Taint(NodePatch),
    /// Delete VolumeAttachments.
    Detach(Detachment),
    /// Delete the Node.
    DeleteNode(NodeDeletion),
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
    pub message: String,
    /// What holds the incident back: metric label, and reason of the condition `Held`. None in stage Held: what did before, nothing new is
    /// known.
    pub held: Option<HeldBy>,
    /// A human is needed: `(reason, message)`.
    pub escalation: Option<(Escalation, String)>,
    /// Look again at this moment at the latest (time since boot).
    pub wake: Option<Duration>,
    /// The stage is late from this moment on (time since boot).
    pub deadline: Option<Duration>,
}

pub(crate) fn wait(stage: Stage, message: String) -> Decision {
    act(Effect::Wait, stage, message)
}

/// Nothing is done, for this reason.
pub(crate) fn held(reason: HeldBy, message: String) -> Decision {
    wait(Stage::Held, message).held(reason)
}

pub(crate) fn close(stage: Stage, message: String) -> Decision {
    act(Effect::Close, stage, message)
}

pub(crate) fn act(effect: Effect, stage: Stage, message: String) -> Decision {
    Decision {
        effect,
        stage,
        message,
        // It is the only stage beside Held that waits for somebody's leave, and for one thing only.
        held: (stage == Stage::AwaitingApproval).then_some(HeldBy::AwaitingApproval),
        escalation: None,
        wake: None,
        deadline: None,
    }
}

impl Decision {
    pub(crate) fn held(mut self, reason: HeldBy) -> Self {
        self.held = Some(reason);
        self
    }

    pub(crate) fn escalated(mut self, reason: Escalation, message: String) -> Self {
        self.escalation = Some((reason, message));
        self
    }

    pub(crate) fn until(mut self, wake: Duration) -> Self {
        self.wake = Some(wake);
        self
    }
}
