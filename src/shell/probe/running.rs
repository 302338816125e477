//! Is the machine running of which its device reads Off? The kubelet answers that, by renewing its Lease.
//!
//! A machine that has just lost its power leaves its Node Ready for most of a minute, so an Off beside a Ready Node is no accusation yet. It becomes
//! one when the Lease was renewed after the device had read Off, and the device then reads Off again, in the same boot. No clocks are
//! compared: the Lease was read twice, and has changed in between.

use super::Prober;
use crate::core::control;
use crate::core::observed::{LeaseView, Ready, Seen};
use crate::fence::{DeviceError, Probe};
use crate::shell::observe;

/// A device has read Off beside a Ready Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Doubt {
    /// The boot of that Node.
    pub boot_id: String,
    /// The kubelet's Lease, read after the device had answered.
    lease: LeaseView,
}

impl Prober {
    /// Has the kubelet renewed its Lease since the doubt arose?
    pub(super) async fn has_renewed(&self, node: &str, doubt: Option<&Doubt>) -> bool {
        let Some(doubt) = doubt else {
            return false;
        };
        match observe::lease(&self.client, node).await {
            Seen::Present(lease) => lease != doubt.lease,
            Seen::Absent | Seen::Failed(_) | Seen::NotRead => false,
        }
    }

    /// The doubt that this answer leaves, or that it leaves standing.
    pub(super) async fn doubt(
        &self,
        node: &str,
        outcome: &Result<Probe, DeviceError>,
        before: Option<Doubt>,
    ) -> Option<Doubt> {
        let probe = outcome.as_ref().ok()?;
        if !control::reads_off(&probe.reading) {
            return None;
        }
        let view = self.caches.node(node)?.view();
        if view.ready() != Ready::True {
            return None;
        }
        let standing = before.filter(|doubt| doubt.boot_id == view.boot_id);
        if standing.is_some() {
            return standing;
        }
        match observe::lease(&self.client, node).await {
            Seen::Present(lease) => Some(Doubt {
                boot_id: view.boot_id,
                lease,
            }),
            Seen::Absent | Seen::Failed(_) | Seen::NotRead => None,
        }
    }
}
