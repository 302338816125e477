//! Who is woken by what: a change of a node wakes its incidents and the detector, an answer of a device its incident.
//!
//! The loops of the incidents are run by kube-runtime's applier, one at a time per NodeFence; the queue of names that
//! feeds it is ours, because most reasons to look again are no change of the NodeFence.

use super::cache::Change;
use super::context::Context;
use super::detect::Detector;
use super::incident::{self, Incidents};
use super::marks::{Marks, mark};
use super::undecodable::Undecodable;
use super::wakes::Reason;
use fencing_api::device::FenceDevice;
use fencing_api::fence::NodeFence;
use fencing_core::select;
use fencing_drivers::clock;
use futures::{Stream, StreamExt};
use kube::core::DeserializeGuard;
use kube::runtime::applier;
use kube::runtime::controller::{Action, Config, Error};
use kube::runtime::reflector::ObjectRef;
use kube::{Resource, ResourceExt};
use std::collections::{BTreeSet, HashMap};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Incidents whose loops run at the same time. A loop waits for the API server and for moments, never for a device.
const LOOPS_MAX: u16 = 64;
/// Fences that end within this time are looked at together: each look reads every quarantined Node anew.
const GATHER: Duration = Duration::from_secs(1);
/// The detector comes round at least this often, which is what liveness asks of it.
const LOOK_AGAIN: Duration = Duration::from_secs(20);

type Guard = DeserializeGuard<NodeFence>;

/// Runs the loop of every NodeFence that `names` wakes, until `names` ends.
pub async fn run_incidents(
    context: Arc<Context>,
    incidents: Arc<Incidents>,
    names: impl Stream<Item = String> + Send + 'static,
) {
    let store = context.caches.fences.clone();
    let queue = names.map(|name| Ok::<_, Infallible>(ObjectRef::<Guard>::new(&name)));
    let reconcile = |fence: Arc<Guard>, (context, incidents): (Arc<Context>, Arc<Incidents>)| async move {
        let pause = match &fence.0 {
            Ok(fence) => incident::run(&context, &incidents, fence).await,
            // The detector's loop has told of it.
            Err(_) => None,
        };
        Ok::<_, Infallible>(pause.map_or_else(Action::await_change, Action::requeue))
    };
    let shared = Arc::new((context.clone(), incidents.clone()));
    let config = Config::default().concurrency(LOOPS_MAX);
    let loops = applier(
        move |fence, shared: Arc<(Arc<Context>, Arc<Incidents>)>| {
            Box::pin(reconcile(fence, (*shared).clone()))
        },
        |_, never: &Infallible, _| match *never {},
        shared,
        store,
        queue,
        config,
    );
    let mut loops = std::pin::pin!(loops);
    while let Some(outcome) = loops.next().await {
        // A NodeFence that is not in the cache was deleted; its incident ends with it.
        if let Err(Error::ObjectNotFound(fence)) = outcome {
            incidents.end(&context, &fence.name);
            let _ = context.wakes.take(&fence.name);
        }
    }
}

/// Listens to the caches: wakes incidents, opens new ones, and tells `others` of every change too.
pub async fn run_detector(
    context: Arc<Context>,
    changes: &mut mpsc::UnboundedReceiver<Change>,
    others: [mpsc::UnboundedSender<Change>; 2],
) {
    let mut detector = Detector::new(context.clone());
    let mut undecodable = Undecodable::new(context.events.clone());
    let mut due = Due::default();
    let mut known = Known::default();
    loop {
        context.health.beat();
        let now = clock::since_boot();
        if due.is_now(now, changes.is_empty()) {
            look(&context, &mut detector, std::mem::take(&mut due)).await;
            continue;
        }
        let pause = detector
            .next_due()
            .map_or(LOOK_AGAIN, |due| due.saturating_sub(now).min(LOOK_AGAIN));
        tokio::select! {
            biased;
            change = changes.recv() => match change {
                Some(change) => {
                    // Nobody listens any more only while the operator ends.
                    for other in &others {
                        let _ = other.send(change.clone());
                    }
                    if let Change::Fence(name) = &change {
                        let fence = context.caches.fence_entry(name);
                        undecodable.look(&change, fence.as_deref());
                    }
                    if let Some(which) = changed(&context, &mut detector, &mut known, change).await {
                        due.add(which, now);
                    }
                }
                None => return,
            },
            () = tokio::time::sleep(pause) => detector.run_due().await,
        }
    }
}

/// Which Nodes are to be looked at again, and their incidents.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Which {
    All,
    /// That of an incident that has ended, or of a record that is gone.
    One(String),
}

/// What is to be looked at again, gathered.
#[derive(Debug, Default)]
struct Due {
    since: Option<Duration>,
    all: bool,
    nodes: BTreeSet<String>,
}

impl Due {
    fn add(&mut self, which: Which, now: Duration) {
        self.since.get_or_insert(now);
        match which {
            Which::All => self.all = true,
            Which::One(node) => {
                self.nodes.insert(node);
            }
        }
    }

    fn is_now(&self, now: Duration, is_quiet: bool) -> bool {
        let is_over = |since: Duration| now.saturating_sub(since) >= GATHER;
        self.since.is_some_and(|since| is_quiet || is_over(since))
    }
}

/// Looks at them. Whoever is held has another look too: there may be a place in a budget now. Those that wait for a device have not, or a storm whose
/// fences end one after the other would read the Node of each of them each time.
async fn look(context: &Context, detector: &mut Detector, due: Due) {
    if due.all {
        detector.all_changed().await;
        wake(context, &Reason::Other, |_| true);
        return;
    }
    for node in &due.nodes {
        detector.node_changed(node).await;
    }
    let held = context.board.held();
    wake(context, &Reason::Other, |fence| {
        due.nodes.contains(&fence.spec.node_name) || held.contains(&fence.name_any())
    });
}

/// What is known of objects beside the caches.
#[derive(Debug, Default)]
struct Known {
    /// Devices and policies without their statuses, which are written often, and of which nothing follows for a Node that they are not about.
    specs: Marks,
    /// What an incident goes by in the statuses of devices.
    findings: Marks,
    /// The Node of each NodeFence, for when that is gone.
    nodes: HashMap<String, String>,
}

/// Which Nodes are to be looked at again, beside what is looked at already.
async fn changed(
    context: &Context,
    detector: &mut Detector,
    known: &mut Known,
    change: Change,
) -> Option<Which> {
    match &change {
        Change::Node(node) => {
            let cached = context.caches.node(node);
            let version = cached.map(|it| it.view.resource_version.clone());
            let reason = version.map_or(Reason::Other, Reason::Node);
            wake(context, &reason, |fence| fence.spec.node_name == *node);
            detector.node_changed(node).await;
        }
        Change::Attachment(node) => wake(context, &Reason::Attachment, |fence| {
            fence.spec.node_name == *node
        }),
        Change::Fence(fence) => {
            let guard = context.caches.fence_entry(fence);
            let version = guard.as_deref().and_then(|it| it.0.as_ref().ok());
            let version = version.and_then(|it| it.metadata.resource_version.clone());
            let reason = version.map_or(Reason::Other, Reason::Fence);
            context.wakes.wake(fence.clone(), reason);
            // Its place in the budget is free, and its node may need another look: that of a record which was never decoded may be any.
            return match guard.as_deref().map(|guard| &guard.0) {
                Some(Ok(record)) => {
                    let node = &record.spec.node_name;
                    known.nodes.insert(fence.clone(), node.clone());
                    record.is_ended().then(|| Which::One(node.clone()))
                }
                Some(Err(_)) => Some(Which::All),
                None => Some(known.nodes.remove(fence).map_or(Which::All, Which::One)),
            };
        }
        Change::Device(name) => {
            let guard = context.caches.device_entry(name);
            let device = guard.as_deref().and_then(|guard| guard.0.as_ref().ok());
            let is_news = known.specs.differs(change.clone(), device.map(spec_mark));
            let finding = device.map(finding_mark);
            let is_found = known.findings.differs(change.clone(), finding);
            let Some(device) = device.filter(|_| !is_news) else {
                wake(context, &Reason::Other, |_| true);
                return None;
            };
            if !is_found {
                return None;
            }
            let serves = |node: &str| {
                let node = context.caches.node(node);
                node.is_none_or(|node| select::serves(device, &node.view))
            };
            wake(context, &Reason::Other, |fence| {
                serves(&fence.spec.node_name)
            });
        }
        Change::Policy(name) => {
            let policy = context.caches.policy(name);
            let mark = policy.as_ref().map(spec_mark);
            let is_news = known.specs.differs(change.clone(), mark);
            return is_news.then_some(Which::All);
        }
    }
    None
}

/// Of everything but the status.
fn spec_mark<K: Resource>(object: &K) -> u64 {
    let meta = object.meta();
    let is_going = meta.deletion_timestamp.is_some();
    mark((
        &meta.uid,
        meta.generation,
        &meta.labels,
        &meta.annotations,
        is_going,
    ))
}

/// Of what an incident goes by in the status: whose machine it is, whether it has read On of it, and whether it can be used. Most of what the probes
/// write there is times and readings, which an incident takes itself.
fn finding_mark(device: &FenceDevice) -> u64 {
    let finding = device.status.as_ref().map(|status| {
        let machines = (&status.systems, &status.positive_controls);
        let machines = (machines, &status.nodes, &status.not_ready_nodes);
        let machines = serde_json::to_string(&machines).unwrap_or_default();
        let conditions = status.conditions.iter();
        let conditions = conditions.map(|it| (&it.type_, &it.status, &it.reason));
        let conditions: Vec<_> = conditions.collect();
        (
            status.observed_generation,
            status.last_on_time,
            machines,
            conditions,
        )
    });
    mark(finding)
}

/// Wakes the loops of the open incidents that this concerns.
fn wake(context: &Context, reason: &Reason, concerns: impl Fn(&NodeFence) -> bool) {
    for name in context.caches.open_fences(concerns) {
        context.wakes.wake(name, reason.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::fake::{self, Cluster};
    use fencing_core::observed::QUARANTINE;
    use serde_json::json;

    const NODE: &str = "GET /api/v1/nodes/worker-1";

    /// Each look reads every quarantined Node anew, one after the other: for 90 fences that end together that would be 8,100 reads.
    #[tokio::test]
    async fn fences_that_end_together_are_one_look_at_every_node() {
        let cluster = Cluster::new().await;
        let mut node = fake::node();
        node["spec"]["taints"] =
            json!([{"key": QUARANTINE, "value": "boot-0", "effect": "NoSchedule"}]);
        cluster.put(
            "GET /api/v1/nodes",
            200,
            fake::list("Node", "7", &[node.clone()]),
        );
        cluster.put(NODE, 200, node);
        let (context, _watches) = cluster.watching();
        let nodes = context.caches.nodes.clone();
        nodes.wait_until_ready().await.expect("the nodes");
        let (changes, mut heard) = mpsc::unbounded_channel();
        for number in 0..90 {
            let ended = Change::Fence(format!("fence-{number}"));
            changes.send(ended).expect("the receiver is open");
        }
        drop(changes);
        let others = [mpsc::unbounded_channel().0, mpsc::unbounded_channel().0];
        run_detector(context, &mut heard, others).await;
        let requests = cluster.requests();
        let reads = requests.iter().filter(|it| *it == NODE).count();
        assert_eq!(reads, 1);
    }

    /// Records are cleared away long after their fences, by the dozen: each would be a look at all Nodes.
    #[tokio::test]
    async fn a_record_that_is_gone_is_one_look_at_its_node() {
        let context = Cluster::new().await.context();
        let (mut detector, mut known) = (Detector::new(context.clone()), Known::default());
        known.nodes.insert("gone".to_owned(), "worker-1".to_owned());
        for which in [Which::One("worker-1".to_owned()), Which::All] {
            let change = Change::Fence("gone".to_owned());
            let looked = changed(&context, &mut detector, &mut known, change).await;
            assert_eq!(looked, Some(which));
        }
    }

    /// A storm writes the status of each of its devices: of all incidents only that of the device's node has another look.
    #[tokio::test]
    async fn what_is_written_of_a_device_wakes_the_incidents_of_its_nodes() {
        let cluster = Cluster::new().await;
        let device = json!({
            "apiVersion": "nodefencing.io/v1alpha1", "kind": "FenceDevice",
            "metadata": {"name": "bmc", "uid": "uid-bmc", "generation": 1},
            "spec": {
                "nodeName": "worker-1", "redfish": {"address": "https://127.0.0.1"}, "credentialsRef": {"name": "bmc"},
            },
        });
        let open = |name: &str, node: &str| {
            json!({
                "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence",
                "metadata": {"name": name, "uid": format!("uid-{name}")},
                "spec": {
                    "nodeName": node, "trigger": {"type": "Manual"},
                    "fence": {"mode": "PowerOff"}, "recovery": {}, "release": {}, "powerOn": {},
                },
            })
        };
        let of = "/apis/nodefencing.io/v1alpha1";
        let fences = [open("own", "worker-1"), open("other", "worker-2")];
        let mut other = fake::node();
        other["metadata"]["name"] = json!("worker-2");
        let nodes = fake::list("Node", "7", &[fake::node(), other]);
        cluster.put("GET /api/v1/nodes", 200, nodes);
        let fences = fake::list("NodeFence", "7", &fences);
        cluster.put(&format!("GET {of}/nodefences"), 200, fences);
        let devices = fake::list("FenceDevice", "7", &[device]);
        cluster.put(&format!("GET {of}/fencedevices"), 200, devices);
        let (context, _watches) = cluster.watching();
        let caches = &context.caches;
        caches.nodes.wait_until_ready().await.expect("the nodes");
        caches.fences.wait_until_ready().await.expect("the fences");
        caches
            .devices
            .wait_until_ready()
            .await
            .expect("the devices");
        let (mut detector, mut known) = (Detector::new(context.clone()), Known::default());
        let device = caches.device("bmc");
        assert!(device.is_some(), "it can be decoded");
        let mut woken = async |known: &mut Known| {
            let change = Change::Device("bmc".to_owned());
            let which = changed(&context, &mut detector, known, change).await;
            assert_eq!(which, None);
            let woken = |name: &&str| context.wakes.take(name).is_some();
            ["own", "other"]
                .into_iter()
                .filter(woken)
                .collect::<Vec<_>>()
        };
        assert_eq!(woken(&mut known).await, ["own", "other"], "it is new");
        assert_eq!(woken(&mut known).await, [""; 0], "it says the same");
        known.findings = Marks::default();
        assert_eq!(woken(&mut known).await, ["own"], "it says something else");
    }
}
