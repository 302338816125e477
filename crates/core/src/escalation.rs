//! Why a human is called: the reasons of the condition `Escalated`.

use super::hold::HeldBy;
use std::fmt;

/// Reason: the device has not read On while the Node was Ready in this boot.
pub const NO_POSITIVE_CONTROL: &str = "NoPositiveControl";
/// Reason: the device read Off while the kubelet renewed its Lease.
pub const OFF_WHILE_RUNNING: &str = "OffWhileRunning";

/// What calls a human.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Escalation {
    /// What holds the incident back is for people to settle.
    Held(HeldBy),
    /// The operator lacks the rights for what the policy wants.
    Unsupported,
    /// An approval was not answered in time.
    ApprovalOverdue,
    /// No FenceDevice serves the node.
    NoDevice,
    /// Every level has been tried in vain.
    DeviceFailed,
    /// The machine is not off, and nothing may turn it off (ConfirmOnly).
    StillOn,
    /// Another machine answers at the device.
    IdentityMismatch,
    /// The device's machine was not pinned.
    IdentityNotPinned,
    /// The device has not shown that it can read On (S25).
    NoPositiveControl,
    /// The device read Off of the running machine (S25).
    OffWhileRunning,
    /// A manual confirmation was given and does not count.
    ConfirmationRefused,
    /// The API server denies a write.
    AdmissionDenied,
    /// Writes fail again and again.
    WriteFailed,
    /// The claim was taken away from beside a mark.
    ClaimRemoved,
    /// The claim has lost its date.
    ClaimUndated,
    /// A device took the machine for off, or turned it off, and it lives (S22).
    FenceContradiction,
    /// The machine came back while its volumes were detaching.
    FenceRegressed,
    /// Pods that could start on the node are not being deleted, or come again and again.
    QuiesceStuck,
    /// The node is not out of service in time.
    FenceStuck,
    /// Volumes are not detached in time.
    DetachStuck,
    /// The node is not released in time.
    ReleaseStuck,
    /// The machine is not on again in time.
    PowerOnFailed,
}

impl Escalation {
    /// The reason, as people, alerts and the log read it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Held(by) => by.as_str(),
            Self::Unsupported => "Unsupported",
            Self::ApprovalOverdue => "ApprovalOverdue",
            Self::NoDevice => "NoDevice",
            Self::DeviceFailed => "DeviceFailed",
            Self::StillOn => "StillOn",
            Self::IdentityMismatch => "IdentityMismatch",
            Self::IdentityNotPinned => "IdentityNotPinned",
            Self::NoPositiveControl => NO_POSITIVE_CONTROL,
            Self::OffWhileRunning => OFF_WHILE_RUNNING,
            Self::ConfirmationRefused => "ConfirmationRefused",
            Self::AdmissionDenied => "AdmissionDenied",
            Self::WriteFailed => "WriteFailed",
            Self::ClaimRemoved => "ClaimRemoved",
            Self::ClaimUndated => "ClaimUndated",
            Self::FenceContradiction => "FenceContradiction",
            Self::FenceRegressed => "FenceRegressed",
            Self::QuiesceStuck => "QuiesceStuck",
            Self::FenceStuck => "FenceStuck",
            Self::DetachStuck => "DetachStuck",
            Self::ReleaseStuck => "ReleaseStuck",
            Self::PowerOnFailed => "PowerOnFailed",
        }
    }
}

impl fmt::Display for Escalation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}
