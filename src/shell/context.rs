//! What every control loop shares: two clients, the caches, the devices, and the brakes.

use super::brakes::Brakes;
use super::cache::Caches;
use super::callers::Callers;
use super::devices::Devices;
use super::events::Events;
use super::found_off::FoundOff;
use super::health::Health;
use super::lease::TermEnd;
use super::metrics::{IncidentRow, Metrics};
use super::observe::AttachmentLists;
use super::optional_rights::OptionalRights;
use super::outside::Outside;
use super::revision::Revision;
use super::wakes::Wakes;
use fencing_api::device::FenceDevice;
use fencing_core::control;
use fencing_core::delay::{Delayed, Why};
use fencing_core::stranded::Stranded;
use fencing_drivers::FenceDriver;
use kube::Client;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

/// What the loops share.
pub struct Context {
    /// For reads; retries by itself.
    pub reads: Client,
    /// For guarded writes; never retries.
    pub writes: Client,
    /// Caches.
    pub caches: Caches,
    /// Reads VolumeAttachments for all incidents.
    pub attachments: AttachmentLists,
    /// Fence devices.
    pub devices: Arc<Devices>,
    /// The way to the ports of kubelets.
    pub outside: Outside,
    /// Event publisher.
    pub events: Events,
    /// Metrics.
    pub metrics: Arc<Metrics>,
    /// Open incidents, as the metrics show them.
    pub board: Board,
    /// Unhealthy nodes that have to wait or are left alone, as the statuses of the policies show them.
    pub delays: Delays,
    /// Nodes on which nothing goes on by itself.
    pub stranded: StrandedNodes,
    /// Silent nodes whose machines a probe has read Off.
    pub found_off: FoundOff,
    /// Other controllers that ask for fences.
    pub callers: Callers,
    /// The node that we run on.
    pub own_node: Option<String>,
    /// How many fences may be under way in the whole cluster; none: as many as the policies allow.
    pub max_concurrent: Option<u32>,
    /// Wakes the loop of a NodeFence.
    pub wakes: Wakes,
    /// Who may act.
    pub brakes: Brakes,
    /// May the operator delete Nodes?
    pub deletion: OptionalRights,
    /// May the operator report Nodes early?
    pub early_detection: OptionalRights,
    /// Has the cluster gone back in time?
    pub revision: Revision,
    /// When this replica leads no more.
    pub term_end: TermEnd,
    /// What the probes of the kubelet are told.
    pub health: Health,
}

impl Context {
    /// The device's driver for the incident of this node, if its password may be used for that Node at all.
    ///
    /// # Errors
    /// Why there is none, in words; nothing was sent to any device.
    pub async fn driver(
        &self,
        device: &FenceDevice,
        node: &str,
    ) -> Result<Arc<dyn FenceDriver>, String> {
        let known = self.caches.node(node);
        if !control::may_log_in(device, known.as_deref().map(|it| &it.view)) {
            return Err(format!(
                "this FenceDevice has not answered for Node {node} while it was Ready, so its Secret is not used; create a FenceDevice with `nodeName: {node}`"
            ));
        }
        let driver = self.devices.driver(device, node).await;
        driver.map_err(|error| error.to_string())
    }
}

/// Open incidents, by NodeFence name, as the metrics show them.
#[derive(Clone, Default)]
pub struct Board(Arc<Mutex<BTreeMap<String, IncidentRow>>>);

impl Board {
    /// Shows an incident as it stands now.
    pub fn show(&self, row: IncidentRow) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(row.fence.clone(), row);
    }

    /// The incident has ended: its series vanish.
    pub fn end(&self, fence: &str) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(fence);
    }

    /// The NodeFences that something holds back.
    pub fn held(&self) -> BTreeSet<String> {
        let rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let held = rows.values().filter(|row| row.held_reason.is_some());
        held.map(|row| row.fence.clone()).collect()
    }

    /// All rows.
    pub fn rows(&self) -> Vec<IncidentRow> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .values()
            .cloned()
            .collect()
    }
}

/// Nodes on which nothing goes on by itself, and why, as the metrics show them.
#[derive(Clone, Default)]
pub struct StrandedNodes(Arc<Mutex<BTreeSet<(String, Stranded)>>>);

impl StrandedNodes {
    /// Whether this is so of the node.
    pub fn set(&self, node: &str, reason: Stranded, is_so: bool) {
        let mut rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let row = (node.to_owned(), reason);
        if is_so {
            rows.insert(row);
        } else {
            rows.remove(&row);
        }
    }

    /// The Node is gone.
    pub fn forget(&self, node: &str) {
        let mut rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        rows.retain(|(name, _)| name != node);
    }

    /// All rows.
    pub fn rows(&self) -> Vec<(String, &'static str)> {
        let rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let row = |(node, reason): &(String, Stranded)| (node.clone(), reason.as_str());
        rows.iter().map(row).collect()
    }
}

/// Unhealthy nodes that have to wait or are left alone, by name, as the statuses of the policies show them.
#[derive(Clone, Default)]
pub struct Delays(Arc<Mutex<BTreeMap<String, Delayed>>>);

impl Delays {
    /// Shows a wait, and says whether it is news. The words of a wait that is known stay, what keeps off a node may say others.
    pub fn show(&self, delayed: Delayed) -> bool {
        let mut delays = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = delays.get(&delayed.node);
        let is_news = known.is_none_or(|known| {
            let is_same = (&known.policy, known.why) == (&delayed.policy, delayed.why);
            !is_same || (matches!(delayed.why, Why::KeptOff(_)) && known.message != delayed.message)
        });
        if is_news {
            delays.insert(delayed.node.clone(), delayed);
        }
        is_news
    }

    /// The node need not wait any more, or is not unhealthy any more.
    pub fn over(&self, node: &str) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(node);
    }

    /// The policy of each node that is left alone, and why.
    pub fn kept_off(&self) -> Vec<(String, &'static str)> {
        let kept_off = self.all().into_iter().filter_map(|it| match it.why {
            Why::KeptOff(reason) => Some((it.policy, reason.as_str())),
            Why::Wait(_) => None,
        });
        kept_off.collect()
    }

    /// All waits.
    pub fn all(&self) -> Vec<Delayed> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .values()
            .cloned()
            .collect()
    }
}
