//! What every control loop shares: two clients, the caches, the devices, and the brakes.

use super::cache::Caches;
use super::devices::Devices;
use super::events::Events;
use super::health::Health;
use super::metrics::IncidentRow;
use super::metrics::Metrics;
use crate::api::fence::NodeFence;
use crate::api::policy::NodeFencingPolicy;
use crate::api::settings::FenceMode;
use crate::clock;
use crate::core::budget::{self, Cluster, Hold, Open};
use crate::core::delay::Delayed;
use crate::core::observed::NodeView;
use crate::core::select;
use kube::{Client, ResourceExt};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;

/// What the loops share.
pub struct Context {
    /// For reads; retries by itself.
    pub reads: Client,
    /// For guarded writes; never retries.
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
    /// Unhealthy nodes that have to wait, as the statuses of the policies show them.
    pub delays: Delays,
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

/// Unhealthy nodes that have to wait, by name, as the statuses of the policies show them.
#[derive(Clone, Default)]
pub struct Delays(Arc<Mutex<BTreeMap<String, Delayed>>>);

impl Delays {
    /// Shows a wait, and says whether it is news. The words of one that is known stay.
    pub fn show(&self, delayed: Delayed) -> bool {
        let mut delays = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = delays.get(&delayed.node);
        let is_news = known
            .is_none_or(|known| (&known.policy, known.until) != (&delayed.policy, delayed.until));
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

/// Which incidents have been admitted. Judged under one lock, so that two incidents cannot both take the last place.
#[derive(Default)]
pub struct Brakes(Mutex<Admissions>);

#[derive(Default)]
struct Admissions {
    /// NodeFences that may act.
    admitted: BTreeSet<String>,
    /// NodeFences that nothing but the budget keeps from acting.
    waiting: BTreeSet<String>,
    /// Policy and first admission of each NodeFence of the last hour, by name.
    times: BTreeMap<String, (String, Duration)>,
}

/// Whom the budget is asked for.
pub struct Applicant<'a> {
    /// The incident.
    pub fence: &'a NodeFence,
    /// Its policy; a human's NodeFence may have none.
    pub policy: Option<&'a NodeFencingPolicy>,
    /// A human wants it, or has approved it.
    pub approved: bool,
}

impl Brakes {
    /// What would hold the incident if it wanted to act now.
    pub fn look(&self, context: &Context, applicant: &Applicant<'_>) -> Result<(), Hold> {
        let admissions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        admissions.judge(context, applicant)
    }

    /// Takes a place for the incident, which it keeps until [`Self::end`], or says what holds it.
    pub fn admit(&self, context: &Context, applicant: &Applicant<'_>) -> Result<(), Hold> {
        let mut admissions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        admissions.judge(context, applicant)?;
        let (name, now) = (applicant.fence.name_any(), clock::since_boot());
        let policy = applicant.fence.spec.policy_name.clone();
        let is_recent = |at: Duration| now.saturating_sub(at) < budget::HOUR;
        admissions.times.retain(|_, (_, at)| is_recent(*at));
        let times = &mut admissions.times;
        times
            .entry(name.clone())
            .or_insert((policy.unwrap_or_default(), now));
        admissions.waiting.remove(&name);
        admissions.admitted.insert(name);
        Ok(())
    }

    /// Whether the budget is all that keeps the incident from acting.
    pub fn waits(&self, fence: &str, waits: bool) {
        let mut admissions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if waits {
            admissions.waiting.insert(fence.to_owned());
        } else {
            admissions.waiting.remove(fence);
        }
    }

    /// An incident that holds a claim on its Node was admitted by the process before us.
    pub fn readmit(&self, fence: &str) {
        let mut admissions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        admissions.admitted.insert(fence.to_owned());
    }

    /// The incident has ended, or given its claim back: its place is free.
    pub fn end(&self, fence: &str) {
        let mut admissions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        admissions.admitted.remove(fence);
        admissions.waiting.remove(fence);
    }
}

impl Admissions {
    fn judge(&self, context: &Context, applicant: &Applicant<'_>) -> Result<(), Hold> {
        let (fence, policy) = (applicant.fence, applicant.policy);
        let mine = self.open(fence);
        if self.admitted.contains(&mine.fence) {
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
        let fences = context.caches.fences();
        let open = fences.iter().filter(|fence| !fence.is_ended());
        let open: Vec<Open> = open.map(|fence| self.open(fence)).collect();
        let times = self.times_of(&mine.policy, &fences);
        let cluster = Cluster {
            nodes: &nodes,
            selected: &selected,
            open: &open,
            admissions: &times,
            own_node: context.own_node.as_deref(),
        };
        let budget = policy.map(|policy| policy.spec.budget.clone());
        let mode = policy.map_or(FenceMode::PowerOff, |policy| policy.spec.fence.mode);
        budget::admit(
            &mine,
            mode,
            applicant.approved || policy.is_none(),
            &budget.unwrap_or_default(),
            &cluster,
            clock::since_boot(),
        )
    }

    /// When incidents of the policy were admitted: by this process, or by one before it that wrote it down.
    fn times_of(&self, policy: &str, fences: &[NodeFence]) -> Vec<Duration> {
        let (now, wall_now) = (clock::since_boot(), clock::wall());
        let ours = self.times.values().filter(|(of, _)| of == policy);
        let written = fences.iter().filter_map(|fence| {
            let is_other = !self.times.contains_key(&fence.name_any());
            let at = fence.status.as_ref()?.approved_time?;
            let age = Duration::try_from(wall_now.duration_since(at)).ok()?;
            (is_other && fence.spec.policy_name.as_deref() == Some(policy))
                .then(|| now.checked_sub(age))?
        });
        ours.map(|(_, at)| *at).chain(written).collect()
    }

    /// A NodeFence as the budget sees it.
    fn open(&self, fence: &NodeFence) -> Open {
        let name = fence.name_any();
        let created = fence.metadata.creation_timestamp.as_ref();
        Open {
            admitted: self.admitted.contains(&name) || was_admitted(fence),
            waits: self.waiting.contains(&name),
            node: fence.spec.node_name.clone(),
            policy: fence.spec.policy_name.clone().unwrap_or_default(),
            created: created.map(|time| time.0.to_string()).unwrap_or_default(),
            fence: name,
        }
    }
}

/// Admitted by a process before us: it has claimed the node, or more.
fn was_admitted(fence: &NodeFence) -> bool {
    let status = fence.status.as_ref();
    status.is_some_and(|status| status.claim.is_some() || status.taint_applied_time.is_some())
}

/// The newest resourceVersion seen. A quorum LIST that is older means that etcd was restored from a backup (S18); the
/// numbers are comparable since Kubernetes 1.35 by contract (KEP-5504) and before by implementation.
#[derive(Default)]
pub struct Revision(Mutex<(u64, Option<String>)>);

impl Revision {
    /// The newest resourceVersion so far: to be asked before a LIST is sent, because answers may overtake each other.
    pub fn newest(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0
    }

    /// Takes note of the resourceVersion of an object that a watch has shown. It may be an old one, but it has been.
    pub fn saw(&self, resource_version: Option<&str>) {
        let number = resource_version.and_then(|text| text.parse::<u64>().ok());
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 = state.0.max(number.unwrap_or_default());
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::fake::{self, Cluster};
    use serde_json::{Value, json};
    use tokio::task::JoinSet;

    /// A NodeFence of policy `prod`, each of a node of its own.
    fn fence(name: &str, status: Value) -> Value {
        json!({
            "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence",
            "metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {
                "nodeName": format!("node-of-{name}"), "policyName": "prod",
                "trigger": {"type": "NodeCondition"},
                "fence": {"mode": "PowerOff"}, "recovery": {}, "release": {}, "powerOn": {},
            },
            "status": status,
        })
    }

    /// The brakes of a process that has just begun and whose cache has these NodeFences.
    struct Lab {
        context: Arc<Context>,
        _watches: JoinSet<()>,
    }

    impl Lab {
        async fn new(fences: &[Value]) -> Self {
            let cluster = Cluster::new().await;
            let list = fake::list("NodeFence", "7", fences);
            cluster.put("GET /apis/nodefencing.io/v1alpha1/nodefences", 200, list);
            let (context, watches) = cluster.watching();
            let fences = &context.caches.fences;
            fences.wait_until_ready().await.expect("the NodeFences");
            Self {
                context,
                _watches: watches,
            }
        }

        /// Why the incident of this name is held, if it is: to look, or to take a place.
        fn judged(&self, name: &str, takes: bool) -> Option<&'static str> {
            let budget = json!({"maxConcurrent": 1, "maxPerHour": 3, "minHealthy": 0});
            let spec = json!({"nodeSelector": {}, "budget": budget, "fence": {"mode": "PowerOff"}});
            let spec = serde_json::from_value(spec).expect("a spec");
            let policy = NodeFencingPolicy::new("prod", spec);
            let fence = serde_json::from_value(fence(name, json!({}))).expect("a NodeFence");
            let applicant = Applicant {
                fence: &fence,
                policy: Some(&policy),
                approved: false,
            };
            let (brakes, context) = (&self.context.brakes, &self.context);
            let judged = match takes {
                true => brakes.admit(context, &applicant),
                false => brakes.look(context, &applicant),
            };
            judged.err().map(|hold| hold.reason)
        }
    }

    /// S13: both have looked before either acts.
    #[tokio::test]
    async fn two_incidents_cannot_both_take_the_last_place() {
        let lab = Lab::new(&[fence("a", json!({})), fence("b", json!({}))]).await;
        assert_eq!([lab.judged("a", false), lab.judged("b", false)], [None; 2]);
        assert_eq!(lab.judged("a", true), None);
        assert_eq!(lab.judged("b", true), Some("MaxConcurrent"));
        // Its own place holds nobody.
        assert_eq!(lab.judged("a", true), None);
        lab.context.brakes.end("a");
        assert_eq!(lab.judged("b", true), None);
    }

    /// S13: what a process before this one has begun goes on, and counts.
    #[tokio::test]
    async fn what_was_admitted_before_a_restart_counts() {
        let ago = |hours: i64| clock::wall() - jiff::SignedDuration::from_hours(hours);
        let ended = |hours: i64| {
            let succeeded = json!({
                "type": "Succeeded", "status": "True", "reason": "Recovered", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            });
            json!({"conditions": [succeeded], "approvedTime": ago(hours).to_string()})
        };
        let claimed = json!({"claim": "a-n1"});
        let tainted = json!({"taintAppliedTime": ago(0).to_string()});
        let table = [
            (vec![json!({})], None),
            (vec![claimed], Some("MaxConcurrent")),
            (vec![tainted], Some("MaxConcurrent")),
            (vec![ended(0), ended(0)], None),
            (vec![ended(0), ended(0), ended(0)], Some("MaxPerHour")),
            (vec![ended(0), ended(0), ended(2)], None),
        ];
        for (before, held) in table {
            let numbered = before.iter().enumerate();
            let fences: Vec<Value> = numbered
                .map(|(number, status)| fence(&format!("a{number}"), status.clone()))
                .collect();
            let lab = Lab::new(&fences).await;
            assert_eq!(lab.judged("b", false), held, "{before:?}");
        }
    }

    /// S18: a quorum LIST older than what was seen before it was sent means that etcd was restored.
    #[test]
    fn a_cluster_that_went_back_is_frozen() {
        let revision = Revision::default();
        revision.saw(Some("120"));
        revision.saw(Some("90"));
        revision.note(revision.newest(), Some("121"));
        assert_eq!(revision.frozen(), None);
        revision.note(revision.newest(), Some("100"));
        let words = revision.frozen().unwrap_or_default();
        assert!(words.contains("121") && words.contains("100"), "{words}");
    }

    /// Answers may overtake each other: what was seen after a LIST was sent says nothing about it.
    #[test]
    fn an_answer_that_was_overtaken_freezes_nothing() {
        let revision = Revision::default();
        let newest = revision.newest();
        revision.saw(Some("120"));
        revision.note(newest, Some("119"));
        assert_eq!(revision.frozen(), None);
    }
}
