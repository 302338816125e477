//! What every control loop shares: two clients, the caches, the devices, and the brakes.

use super::cache::Caches;
use super::devices::Devices;
use super::events::Events;
use super::health::Health;
use super::metrics::IncidentRow;
use super::metrics::Metrics;
use crate::api::policy::NodeFencingPolicy;
use crate::clock;
use crate::core::budget::{self, Cluster, Hold, Open};
use crate::core::observed::NodeView;
use crate::core::select;
use kube::Client;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;

/// Hard limit of one request to the API server.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// What the loops share.
pub struct Context {
    /// For reads; retries by itself.
    pub reads: Client,
    /// For guarded writes; never retries (DESIGN §5).
    pub writes: Client,
    /// Caches.
    pub caches: Caches,
    /// Fence devices.
    pub devices: Arc<Devices>,
    /// Event publisher.
    pub events: Events,
    /// Metrics.
    pub metrics: Arc<Metrics>,
    /// Open incidents, as the metrics show them.
    pub board: Board,
    /// The node that we run on.
    pub own_node: Option<String>,
    /// Wakes the loop of a NodeFence, by name.
    pub wake: mpsc::UnboundedSender<String>,
    /// Who may act.
    pub brakes: Brakes,
    /// Has the cluster gone back in time?
    pub revision: Revision,
    /// What the probes of the kubelet are told.
    pub health: Health,
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

/// Which incidents have been admitted. Judged under one lock, so that two incidents cannot both take the last place.
#[derive(Default)]
pub struct Brakes(Mutex<Admissions>);

#[derive(Default)]
struct Admissions {
    admitted: BTreeSet<String>,
    times: BTreeMap<String, Vec<Duration>>,
}

impl Brakes {
    /// Admits the incident, or says what holds it. An admitted incident stays admitted until it has ended.
    pub fn admit(
        &self,
        context: &Context,
        mine: &Open,
        policy: Option<&NodeFencingPolicy>,
        approved: bool,
    ) -> Result<(), Hold> {
        let mut admissions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if admissions.admitted.contains(&mine.fence) {
            return Ok(());
        }
        let nodes: Vec<NodeView> = context
            .caches
            .nodes
            .state()
            .iter()
            .map(|node| node.view())
            .collect();
        let selected = |policy: &NodeFencingPolicy| {
            let selector = &policy.spec.node_selector;
            nodes
                .iter()
                .filter(|node| select::matches(selector, &node.labels))
                .map(|node| node.name.clone())
                .collect()
        };
        let selected: Vec<String> = policy.map(selected).unwrap_or_default();
        let open = context.open(&admissions.admitted);
        let none = Vec::new();
        let cluster = Cluster {
            nodes: &nodes,
            selected: &selected,
            open: &open,
            admissions: admissions.times.get(&mine.policy).unwrap_or(&none),
            own_node: context.own_node.as_deref(),
        };
        let budget = policy
            .map(|policy| policy.spec.budget.clone())
            .unwrap_or_default();
        let mode = policy.map_or(crate::api::settings::FenceMode::PowerOff, |policy| {
            policy.spec.fence.mode
        });
        let now = clock::since_boot();
        budget::admit(
            mine,
            mode,
            approved || policy.is_none(),
            &budget,
            &cluster,
            now,
        )?;
        admissions.admitted.insert(mine.fence.clone());
        admissions
            .times
            .entry(mine.policy.clone())
            .or_default()
            .push(now);
        Ok(())
    }

    /// An incident that holds a claim on its Node was admitted by the process before us.
    pub fn readmit(&self, fence: &str) {
        let mut admissions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        admissions.admitted.insert(fence.to_owned());
    }

    /// The incident has ended: its place is free.
    pub fn end(&self, fence: &str) {
        let mut admissions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        admissions.admitted.remove(fence);
    }
}

impl Context {
    /// All open incidents that want a place in a budget.
    fn open(&self, admitted: &BTreeSet<String>) -> Vec<Open> {
        let priorities: BTreeMap<String, i32> = self
            .caches
            .policies()
            .into_iter()
            .map(|policy| {
                (
                    policy.metadata.name.unwrap_or_default(),
                    policy.spec.priority,
                )
            })
            .collect();
        self.caches
            .fences()
            .iter()
            .filter(|fence| !super::status::is_ended(fence))
            .map(|fence| open(fence, admitted, &priorities))
            .collect()
    }
}

/// A NodeFence as the budget sees it.
pub fn open(
    fence: &crate::api::fence::NodeFence,
    admitted: &BTreeSet<String>,
    priorities: &BTreeMap<String, i32>,
) -> Open {
    let name = fence.metadata.name.clone().unwrap_or_default();
    let policy = fence.spec.policy_name.clone().unwrap_or_default();
    Open {
        admitted: admitted.contains(&name),
        node: fence.spec.node_name.clone(),
        priority: priorities.get(&policy).copied().unwrap_or_default(),
        created: fence
            .metadata
            .creation_timestamp
            .as_ref()
            .map(|time| time.0.to_string())
            .unwrap_or_default(),
        fence: name,
        policy,
    }
}

/// The newest resourceVersion seen. A quorum LIST that is older means that etcd was restored from a backup (DESIGN S18); the
/// numbers are comparable since Kubernetes 1.35 by contract (KEP-5504) and before by implementation.
#[derive(Default)]
pub struct Revision(Mutex<(u64, Option<String>)>);

impl Revision {
    /// The newest resourceVersion so far: to be asked before a LIST is sent, because answers may overtake each other.
    pub fn newest(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0
    }

    /// Takes note of the resourceVersion of a quorum LIST that was sent when `newest` was the newest.
    pub fn note(&self, newest: u64, resource_version: Option<&str>) {
        let Some(number) = resource_version.and_then(|text| text.parse::<u64>().ok()) else {
            return;
        };
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if number < newest && state.1.is_none() {
            let words = format!(
                "the cluster's resourceVersion went back from {newest} to {number}: etcd was restored to an older state; check what runs where, then restart the operator to go on"
            );
            tracing::error!(%words, "frozen");
            state.1 = Some(words);
        }
        state.0 = state.0.max(number);
    }

    /// Why every destructive step is frozen, if it is.
    pub fn frozen(&self) -> Option<String> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .1
            .clone()
    }
}
