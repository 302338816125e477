//! Lets nodes use their storage again once their fence is over ([`fencing_core::storage_fence`]): unfences each NetworkFence of ours, waits until
//! CSI-Addons says that it is, and only then deletes it, because a deletion alone leaves the storage as it is.
//!
//! No incident waits for this, and each object has all that is needed in its annotations, so the next leader takes it up as it stands. Objects are
//! listed only where the cluster serves CSI-Addons.

use super::context::Context;
use super::events::{Note, node_reference};
use super::observe;
use super::own_cluster::{items, send};
use fencing_cluster::client::{AskError, MANAGER};
use fencing_core::assess::others::Served;
use fencing_core::observed::Read;
use fencing_core::storage_fence::{Purpose, Stays, is_over};
use fencing_drivers::clock;
use fencing_drivers::network_fence::object::{GROUP, NetworkFence, PATH, SELECTOR, State};
use http::Method;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::sleep;

/// Pause between two looks while there are such objects, and while there are none.
const PERIOD: Duration = Duration::from_secs(2);
const IDLE_PERIOD: Duration = Duration::from_secs(10);
/// An unfencing that takes longer needs attention.
const UNFENCE_TIME_MAX: Duration = Duration::from_secs(60);
/// What needs attention is said again after so long.
const REMIND_PERIOD: Duration = Duration::from_secs(600);
/// Longest answer of CSI-Addons in a message, in characters.
const SAID_CHARACTERS_MAX: usize = 200;

/// What is remembered of an object: nothing that anything is decided by.
#[derive(Debug, Clone, Default)]
struct Seen {
    /// Since when it is to be unfenced (time since boot).
    since: Option<Duration>,
    /// What was said of it last, and when.
    told: Option<(String, Duration)>,
}

/// The objects by UID.
type Book = BTreeMap<String, Seen>;

/// Looks again and again. Only the replica that acts may run this.
pub async fn run(context: Arc<Context>, mut served: watch::Receiver<Served>) {
    let mut book = Book::new();
    loop {
        let is_served =
            matches!(&*served.borrow_and_update(), Served::Known(groups) if groups.contains(GROUP));
        if !is_served {
            if served.changed().await.is_err() {
                return std::future::pending().await;
            }
            continue;
        }
        let any = look(&context, &mut book).await;
        sleep(if any { PERIOD } else { IDLE_PERIOD }).await;
    }
}

/// One look at all of them. Says whether there is any.
async fn look(context: &Context, book: &mut Book) -> bool {
    // Of a cluster that went back in time nothing is taken back (S18).
    if context.revision.frozen().is_some() {
        return true;
    }
    let path = format!("{PATH}?labelSelector={SELECTOR}");
    let list = match send(&context.reads, Method::GET, &path, None).await {
        Ok(list) => items(list),
        Err(error) => {
            tracing::warn!(%error, "cannot list the NetworkFences, trying again");
            return true;
        }
    };
    let Some(list) = list else {
        tracing::warn!("the list of NetworkFences is not complete, trying again");
        return true;
    };
    let fences = list
        .into_iter()
        .filter_map(|it| serde_json::from_value(it).ok());
    let fences: Vec<NetworkFence> = fences.collect();
    book.retain(|uid, _| fences.iter().any(|it| it.metadata.uid == *uid));
    for fence in &fences {
        if let Some(purpose) = fence.purpose() {
            let seen = book.entry(fence.metadata.uid.clone()).or_default();
            handle(context, fence, &purpose, seen).await;
        }
    }
    !fences.is_empty()
}

/// Does for one object what is next.
async fn handle(context: &Context, fence: &NetworkFence, purpose: &Purpose, seen: &mut Seen) {
    // The record before the Node: a claim that it has given up never comes back.
    let record = observe::fence(context, &purpose.fence).await;
    let node = match observe::node(context, &purpose.node).await {
        Read::Present(node) => Read::Present(node.view()),
        Read::Absent => Read::Absent,
        Read::Failed(reason) => Read::Failed(reason),
        Read::NotRead => Read::NotRead,
    };
    match is_over(purpose, &node, &record) {
        Ok(()) => {}
        Err(Stays::ForNow) => return,
        Err(Stays::ForPeople(message)) => {
            let message = format!("NetworkFence {} stays: {message}", fence.metadata.name);
            return tell(context, purpose, seen, message);
        }
    }
    let now = clock::since_boot();
    let since = *seen.since.get_or_insert(now);
    let outcome = match fence.state() {
        State::Fenced | State::Fencing(_) => unfence(context, fence).await,
        State::Unfenced => delete(context, fence).await,
        State::Unfencing(_) | State::Deleting => Ok(()),
        // Changed by others: its result may not be of its state now.
        State::Spoilt(why) => Err(format!("{why}; unfence and delete it by hand")),
    };
    let problem = match outcome {
        Err(problem) => problem,
        Ok(()) if now.saturating_sub(since) < UNFENCE_TIME_MAX => return,
        Ok(()) => match fence.state() {
            State::Unfencing(said) => format!("CSI-Addons reports `{}`", shown(&said)),
            _ => "it is still there".to_owned(),
        },
    };
    let name = &fence.metadata.name;
    let message =
        format!("NetworkFence {name} is not undone, so the node gets no volumes: {problem}");
    tell(context, purpose, seen, message);
}

/// Asks CSI-Addons to let the node in, if it is this very object, which is fenced.
async fn unfence(context: &Context, fence: &NetworkFence) -> Result<(), String> {
    let patch = fence.unfencing();
    let path = format!("{PATH}/{}?fieldManager={MANAGER}", fence.metadata.name);
    let patched = send(&context.writes, Method::PATCH, &path, Some(patch)).await;
    tracing::info!(
        name = fence.metadata.name,
        ?patched,
        "NetworkFence unfenced"
    );
    settled(patched)
}

/// It has let the node in: nothing is left of it.
async fn delete(context: &Context, fence: &NetworkFence) -> Result<(), String> {
    let preconditions = json!({
        "preconditions": {"uid": fence.metadata.uid, "resourceVersion": fence.metadata.resource_version},
    });
    let path = format!("{PATH}/{}", fence.metadata.name);
    let deleted = send(&context.writes, Method::DELETE, &path, Some(preconditions)).await;
    tracing::info!(name = fence.metadata.name, ?deleted, "NetworkFence deleted");
    settled(deleted)
}

/// Gone, or changed since it was read: the next look tells.
fn settled(outcome: Result<Value, AskError>) -> Result<(), String> {
    match outcome {
        Ok(_)
        | Err(AskError::Refused {
            code: 404 | 409 | 422,
            ..
        }) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// An Event of the Node, once for the same words within a while.
fn tell(context: &Context, purpose: &Purpose, seen: &mut Seen, message: String) {
    let now = clock::since_boot();
    let is_told = |(words, at): &(String, Duration)| {
        *words == message && now.saturating_sub(*at) < REMIND_PERIOD
    };
    if seen.told.as_ref().is_some_and(is_told) {
        return;
    }
    tracing::warn!(node = purpose.node, message);
    context.events.publish(Note {
        regarding: node_reference(&purpose.node),
        related: None,
        warning: true,
        reason: "StorageFenceStays".to_owned(),
        action: "Unfence".to_owned(),
        message: message.clone(),
    });
    seen.told = Some((message, now));
}

fn shown(said: &str) -> String {
    match said {
        "" => "nothing yet".to_owned(),
        said => fencing_drivers::error::printable(said, SAID_CHARACTERS_MAX),
    }
}

#[cfg(test)]
mod tests;
