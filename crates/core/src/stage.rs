//! Where an incident stands, in the words that kubectl shows: the reason of the condition `Succeeded`.

use std::fmt;

/// A stage of an incident. An ended one never changes again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stage {
    /// Mode Observe: only reported.
    Observing,
    /// Waits for the budget, for a foreign taint to be removed, or for a policy that can act.
    Held,
    /// Waits for an approval or denial.
    AwaitingApproval,
    /// Asks the device who it is and whether the machine already is off, before anything is written.
    Checking,
    /// Puts the claim on the Node.
    Claiming,
    /// Waits until no pod can start on the node any more.
    Quiescing,
    /// Turns the machine off.
    Fencing,
    /// Reads the power until it is proven off.
    Verifying,
    /// Stores the evidence, deletes the stuck pods, sets the taint.
    Tainting,
    /// Waits for pods and VolumeAttachments to go.
    Detaching,
    /// All volumes detached; the release rule requires more (a new boot, a release by hand, a power reading).
    AwaitingRelease,
    /// Pods and volumes are free and the taint is gone again; the machine is turned on, as the policy wants (`powerOn.policy`).
    PoweringOn,
    /// Ended: pods and volumes are free, the taint is gone again.
    Recovered,
    /// Ended: the machine is confirmed off, and `recovery.strategy: None` requires nothing more. No pod and no volume was freed.
    ConfirmedDown,
    /// Ended: the node came back before it was fenced.
    SelfRecovered,
    /// Ended without a fence, for the reason in the message.
    Aborted,
}

impl Stage {
    /// No step follows.
    pub fn is_ended(self) -> bool {
        matches!(
            self,
            Self::Recovered | Self::ConfirmedDown | Self::SelfRecovered | Self::Aborted
        )
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, formatter)
    }
}
