//! What kind of incident a configuration is about.

use crate::views::LATE_EFFECT;
use fencing_api::settings::{FenceMode, PodDeletion, Procedure, RecoveryStrategy, ReleaseMode};
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
    /// The kubelet may write of its pods.
    pub writes: bool,
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

    /// What its policy asks for.
    pub fn procedure(&self) -> Procedure {
        let mut procedure = Procedure::default();
        procedure.fence.mode = self.mode;
        procedure.fence.verification.late_effect_seconds =
            u32::try_from(LATE_EFFECT.as_secs()).expect("a few");
        procedure.recovery.strategy = self.strategy();
        if !self.expedited {
            procedure.recovery.pod_deletion = PodDeletion::PodGC;
        }
        procedure.release.mode = self.release;
        procedure.release.timeout_seconds = 900;
        procedure
    }
}
