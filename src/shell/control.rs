//! Who is woken by what: a change of a node wakes its incidents and the detector, an answer of a device its incident.
//!
//! The loops of the incidents are run by kube-runtime's applier, one at a time per NodeFence; the queue of names that
//! feeds it is ours, because most reasons to look again are no change of the NodeFence.

use super::cache::Change;
use super::context::Context;
use super::detect::Detector;
use super::incident::{self, Incidents};
use super::undecodable::Undecodable;
use fencing_api::fence::NodeFence;
use fencing_drivers::clock;
use futures::{Stream, StreamExt};
use kube::core::DeserializeGuard;
use kube::runtime::applier;
use kube::runtime::controller::{Action, Config, Error};
use kube::runtime::reflector::ObjectRef;
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
        let begun = clock::since_boot();
        let pause = match &fence.0 {
            Ok(fence) => incident::run(&context, &incidents, fence).await,
            // The detector's loop has told of it.
            Err(_) => None,
        };
        context
            .metrics
            .reconcile_duration(clock::since_boot().saturating_sub(begun));
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
    // Since when every node is to be looked at again.
    let mut all_due: Option<Duration> = None;
    loop {
        context.health.beat();
        let now = clock::since_boot();
        if let Some(since) = all_due
            && (changes.is_empty() || now.saturating_sub(since) >= GATHER)
        {
            all_due = None;
            detector.all_changed().await;
            wake(&context, |_| true);
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
                    if changed(&context, &mut detector, change).await {
                        all_due.get_or_insert(now);
                    }
                }
                None => return,
            },
            () = tokio::time::sleep(pause) => detector.run_due().await,
        }
    }
}

/// Is every node to be looked at again?
async fn changed(context: &Context, detector: &mut Detector, change: Change) -> bool {
    match change {
        Change::Node(node) => {
            wake(context, |fence| fence.spec.node_name == node);
            detector.node_changed(&node).await;
        }
        Change::Attachment(node) => wake(context, |fence| fence.spec.node_name == node),
        Change::Fence(fence) => {
            let ended_or_gone = !context.caches.has_open_fence(&fence);
            // Nobody listens any more only while the operator ends.
            let _ = context.wake.send(fence);
            // Its place in the budget is free, and its node may need another look.
            return ended_or_gone;
        }
        Change::Device(_) => wake(context, |_| true),
        Change::Policy(_) => return true,
    }
    false
}

/// Wakes the loops of the open incidents that this concerns.
fn wake(context: &Context, concerns: impl Fn(&NodeFence) -> bool) {
    for name in context.caches.open_fences(concerns) {
        let _ = context.wake.send(name);
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
            json!([{"key": QUARANTINE, "value": "boot-1", "effect": "NoSchedule"}]);
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
}
