//! Why readings prove nothing, in the words that end up in the NodeFence: each names the device, the value, the rule and the way out.

use super::verification::PROOF_LIFE;

/// Why there is no proof, in words for people.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub enum NotProven {
    /// The Node no longer is the one that was claimed, or shows life.
    #[error("{0}")]
    Alive(String),
    /// The kubelet's Lease moved although the device reads Off (S22).
    #[error(
        "the kubelet's Lease was renewed ({before} -> {now}) while {devices} reads Off (wrong reading or machine)"
    )]
    LeaseMoved {
        /// The devices that read Off.
        devices: String,
        /// renewTime when the readings began.
        before: String,
        /// renewTime now.
        now: String,
    },
    /// The kubelet wrote of a pod although the device reads Off (S22).
    #[error(
        "the kubelet has written the status of pod {pod} while {devices} reads Off (wrong reading or machine)"
    )]
    PodWritten {
        /// The devices that read Off.
        devices: String,
        /// `namespace/name`.
        pod: String,
    },
    /// The kubelet answers although the device reads Off (S22).
    #[error("the kubelet's port answers while {devices} reads Off (wrong reading or machine)")]
    KubeletAnswers {
        /// The devices that read Off.
        devices: String,
    },
    /// A device of another level says that the machine is on (S22).
    #[error(
        "FenceDevice {other} reads {raw} while {devices} reads Off (one is wrong, or wired to another machine)"
    )]
    OtherReadsOn {
        /// The devices that read Off.
        devices: String,
        /// FenceDevice name of the one that does not.
        other: String,
        /// What it says, word for word.
        raw: String,
    },
    /// A device of the node said that the machine is on when others had read Off, and has not said Off since (S4, S22).
    #[error(
        "FenceDevice {other} read {raw}, which contradicts Off of {devices}, and has not read Off since; confirm (`spec.manualConfirmation`) only once you have seen that the machine has no power"
    )]
    OnWhileOff {
        /// The devices that read Off.
        devices: String,
        /// FenceDevice name of the one that did not.
        other: String,
        /// What it said, word for word.
        raw: String,
    },
    /// Another machine answers at the device's address.
    #[error(
        "FenceDevice {device}: the device reports system UUID {found}, the pinned one is {expected}; correct the device's address or `systemID`, of a VM the Node's `spec.providerID`"
    )]
    WrongMachine {
        /// FenceDevice name.
        device: String,
        /// The UUID that was pinned.
        expected: String,
        /// The UUID that answered.
        found: String,
    },
    /// Nobody knows which machine should answer.
    #[error(
        "FenceDevice {device}: no system UUID was pinned while the node was Ready (`identityCheck` is Required); set it to BestEffort to accept the Node's own `systemUUID`"
    )]
    IdentityNotPinned {
        /// FenceDevice name.
        device: String,
    },
    /// Whoever answers cannot be told apart from another machine.
    #[error("FenceDevice {device}: {why}")]
    IdentityRefused {
        /// FenceDevice name.
        device: String,
        /// Why, and the way out.
        why: String,
    },
    /// The device has not read On while the node was running, so its Off says nothing (S25).
    #[error(
        "FenceDevice {device} has not read On in the node's current boot, so its Off proves nothing; add a level with another device for later incidents"
    )]
    NoPositiveControl {
        /// FenceDevice name.
        device: String,
    },
    /// The device read Off while the node was running (S25).
    #[error(
        "FenceDevice {device} read Off while the node was running, so its Off proves nothing; correct its address, `systemID` or outlets, or add a level with another device"
    )]
    OffWhileRunning {
        /// FenceDevice name.
        device: String,
    },
    /// A device has not read Off often and long enough.
    #[error(
        "FenceDevice {device} read Off {off} of {needed} times over {span_ms} of {window_ms} ms; last reading: {last}"
    )]
    NotOffLongEnough {
        /// FenceDevice name.
        device: String,
        /// Off readings at the end.
        off: usize,
        /// What they span, in milliseconds.
        span_ms: u128,
        /// How many are needed.
        needed: usize,
        /// What they must span, in milliseconds.
        window_ms: u128,
        /// The last reading, word for word, and what the device reports beside it.
        last: String,
    },
    /// Each device has read Off long enough, but not at the same time: the machine may have had power all along, from one supply after
    /// the other.
    #[error("{devices} read Off together for {together_ms} ms, {window_ms} ms required")]
    NotOffTogether {
        /// The devices.
        devices: String,
        /// What their runs of Off have in common, in milliseconds.
        together_ms: u128,
        /// What they must have in common, in milliseconds.
        window_ms: u128,
    },
    /// The readings are too old.
    #[error(
        "the last Off reading of FenceDevice {device} is {age_ms} ms old, at most {} ms allowed",
        PROOF_LIFE.as_millis()
    )]
    Stale {
        /// FenceDevice name.
        device: String,
        /// Its age in milliseconds.
        age_ms: u128,
    },
    /// The human's word that the level rests on counts no more.
    #[error("{0}")]
    NoConfirmation(String),
    /// The level has no device.
    #[error("no FenceDevice was read")]
    NoDevice,
}

impl NotProven {
    /// Life beside a device that reads Off (S22): it stops the fence, everything else is tried again.
    pub fn is_contradiction(&self) -> bool {
        matches!(
            self,
            Self::LeaseMoved { .. }
                | Self::PodWritten { .. }
                | Self::KubeletAnswers { .. }
                | Self::OtherReadsOn { .. }
                | Self::OnWhileOff { .. }
        )
    }

    /// What of the node shows life, without a judgement about who reads Off; of anything but a contradiction all its words.
    pub fn sign_of_life(&self) -> String {
        match self {
            Self::LeaseMoved { before, now, .. } => {
                format!("the kubelet's Lease was renewed ({before} -> {now})")
            }
            Self::PodWritten { pod, .. } => {
                format!("the kubelet has written the status of pod {pod}")
            }
            Self::KubeletAnswers { .. } => "the kubelet's port answers".to_owned(),
            Self::OtherReadsOn { other, raw, .. } => format!("FenceDevice {other} reads {raw}"),
            Self::OnWhileOff { other, raw, .. } => format!("FenceDevice {other} read {raw}"),
            reason => reason.to_string(),
        }
    }
}
