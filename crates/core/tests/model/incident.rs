//! What kind of incident a configuration is about.

use fencing_api::settings::{FenceMode, RecoveryStrategy, ReleaseMode};
use fencing_core::control::Control;

/// Which incident it is, and what its node carries.
#[derive(Debug, Clone, Copy)]
pub struct Incident {
    /// How far to go.
    pub mode: FenceMode,
    /// The second pod tolerates `out-of-service`.
    pub tolerates: bool,
    /// When the taint goes.
    pub release: ReleaseMode,
    /// Are stuck pods deleted by force before the taint?
    pub expedited: bool,
    /// Is the machine turned on again after the release?
    pub turns_on: bool,
    /// `recovery.strategy: DeleteNode`.
    pub deletes: bool,
    /// The second pod uses the volume.
    pub shares: bool,
    /// What the device has read of the running machine before: if it was not On, it reads Off whatever the machine does (S25).
    pub control: Control,
}

impl Incident {
    /// What is done with the proof.
    pub fn strategy(&self) -> RecoveryStrategy {
        match self.deletes {
            true => RecoveryStrategy::DeleteNode,
            false => RecoveryStrategy::OutOfServiceTaint,
        }
    }
}
