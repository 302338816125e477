//! Who is woken by what: a change of a node wakes its incidents and the detector, an answer of a device its incident.
//!
//! The loops of the incidents are run by kube-runtime's applier, one at a time per NodeFence; the queue of names that
//! feeds it is ours, because most reasons to look again are no change of the NodeFence.

use super::cache::Change;
use super::context::Context;
use super::detect::Detector;
use super::incident::{self, Incidents};
use super::undecodable::Undecodable;
use crate::api::fence::NodeFence;
use crate::clock;
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
    loop {
        context.health.beat();
        let now = clock::since_boot();
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
                    changed(&context, &mut detector, change).await;
                }
                None => return,
            },
            () = tokio::time::sleep(pause) => detector.run_due().await,
        }
    }
}

async fn changed(context: &Context, detector: &mut Detector, change: Change) {
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
            if ended_or_gone {
                // Its place in the budget is free, and its node may need another look.
                detector.all_changed().await;
                wake(context, |_| true);
            }
        }
        Change::Device(_) => wake(context, |_| true),
        Change::Policy(_) => {
            detector.all_changed().await;
            wake(context, |_| true);
        }
    }
}

/// Wakes the loops of the open incidents that this concerns.
fn wake(context: &Context, concerns: impl Fn(&NodeFence) -> bool) {
    for name in context.caches.open_fences(concerns) {
        let _ = context.wake.send(name);
    }
}
