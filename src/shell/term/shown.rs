//! What the gauges show: of a leader its term, of a replica that stands by what it can reach.

use super::Replica;
use crate::shell::cache::Caches;
use crate::shell::context::Context;
use crate::shell::headroom::Headroom;
use crate::shell::metrics::{ReadyCondition, Snapshot};
use crate::shell::policy_status::PolicyStatuses;
use crate::shell::probe::Prober;
use fencing_api::device::FenceDevice;
use kube::ResourceExt;
use std::sync::Arc;

impl Replica {
    /// The gauges show what the caches and the incidents are at the moment of a scrape.
    pub(super) fn shows_term(
        &self,
        context: &Context,
        prober: &Arc<Prober>,
        policies: &Arc<PolicyStatuses>,
        headroom: Option<Arc<Headroom>>,
    ) {
        let (board, delays) = (context.board.clone(), context.delays.clone());
        let (stranded, caches) = (context.stranded.clone(), self.caches.clone());
        let (prober, policies) = (Arc::clone(prober), Arc::clone(policies));
        self.shows(true, move || {
            let guard_missing = policies.guard_missing();
            let (policies, protected) = policies.snapshot();
            Snapshot {
                incidents: board.rows(),
                kept_off: delays.kept_off(),
                stranded: stranded.rows(),
                devices: prober.snapshot(),
                devices_ready: devices_ready(&caches),
                policies,
                protected,
                recoverable: headroom.as_ref().map_or_else(Vec::new, |it| it.rows()),
                guard_missing,
                ..Snapshot::default()
            }
        });
    }

    /// The gauges show what is seen without leading.
    pub(super) fn shows_standby(&self) {
        let standby = Arc::clone(&self.standby);
        self.shows(false, move || Snapshot {
            standby: standby.rows(),
            ..Snapshot::default()
        });
    }

    /// What the gauges show from now on.
    fn shows(&self, leads: bool, gauges: impl Fn() -> Snapshot + Send + Sync + 'static) {
        let (caches, revision) = (self.caches.clone(), self.revision.clone());
        self.equipment.metrics.gauges_from(move || Snapshot {
            leads,
            frozen: revision.frozen().is_some(),
            watches: caches.ages(),
            nodes: Some(caches.node_names()),
            ..gauges()
        });
    }
}

/// Each FenceDevice with what its status says of it.
fn devices_ready(caches: &Caches) -> Vec<(String, ReadyCondition)> {
    let guards = caches.devices.state();
    let devices = guards.iter().filter_map(|guard| guard.0.as_ref().ok());
    let row = |device: &FenceDevice| {
        let status = device.status.as_ref()?;
        let ready = ReadyCondition::of(&status.conditions)?;
        Some((device.name_any(), ready))
    };
    devices.filter_map(row).collect()
}
