//! What is learned under the taint: the volumes that detach, the power that is watched, the last check.

use std::collections::BTreeSet;
use std::time::Duration;

/// What is learned under the taint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct UnderTaint {
    /// This process has seen `out-of-service` under our claim.
    pub seen: bool,
    /// We are taking the taint away: its absence is our doing.
    pub releasing: bool,
    /// Off commands while the taint stood.
    pub reoffs: u32,
    /// After a command under the taint: the machine is given until then to go down before the power is read (time since boot). None: none was
    /// sent yet, or its answer has not been taken in.
    pub settles_at: Option<Duration>,
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
    /// The Node is gone, and a pod or a volume was found that its deletion would have waited for: it was not this operator's.
    pub attached_again: bool,
}

impl UnderTaint {
    /// Since when what is next asks for a reading of its own, the release or the deletion of VolumeAttachments.
    pub fn reads_since(&self) -> Option<Duration> {
        self.detached_at.or(self.pods_gone_at)
    }

    /// Has the machine had its time to go down after the last command under the taint?
    pub fn has_settled(&self, now: Duration) -> bool {
        self.settles_at.is_none_or(|at| now >= at)
    }
}
