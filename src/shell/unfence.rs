//! Lets nodes use their storage again once their fence is over ([`fencing_core::storage_fence`]): unfences each NetworkFence of ours, waits until
//! CSI-Addons says that it is, and only then deletes it, because a deletion alone leaves the storage as it is.
//!
//! No incident waits for this, and each object has all that is needed in its annotations, so the next leader takes it up as it stands. Objects are
//! listed only where the cluster serves CSI-Addons and the operator may see them: without that right its driver makes none.

use super::context::Context;
use super::events::{Note, node_reference};
use super::observe;
use super::own_cluster::{items, lacks_right, send};
use fencing_cluster::client::{AskError, MANAGER};
use fencing_cluster::preflight::{ON_NETWORK_FENCES, missing_of};
use fencing_core::assess::others::Served;
use fencing_core::observed::Read;
use fencing_core::storage_fence::{Purpose, Stays, is_over};
use fencing_core::stranded::Stranded;
use fencing_drivers::clock;
use fencing_drivers::network_fence::object::{
    GROUP, KIND, NODE, NetworkFence, PATH, SELECTOR, State, VERSION,
};
use http::Method;
use k8s_openapi::api::core::v1::ObjectReference;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::sleep;

/// Pause between two looks while there are such objects, and while there are none.
const PERIOD: Duration = Duration::from_secs(2);
const IDLE_PERIOD: Duration = Duration::from_secs(10);
/// Pause between two questions whether the operator may see them, while it may not.
const ASK_PERIOD: Duration = Duration::from_secs(60);
/// An unfencing that takes longer needs attention.
const UNFENCE_TIME_MAX: Duration = Duration::from_secs(60);
/// What needs attention is said again after so long.
const REMIND_PERIOD: Duration = Duration::from_secs(600);
/// Reason of the Events of what needs attention.
const STAYS: &str = "StorageFenceStays";
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

/// What is remembered of a look.
#[derive(Debug, Default)]
struct Book {
    /// The objects by UID.
    seen: BTreeMap<String, Seen>,
    /// The nodes that the metric shows.
    shown: BTreeSet<String>,
}

/// The operator may not see them.
#[derive(Debug, PartialEq, Eq)]
struct NotGranted;

/// Looks again and again. Only the replica that acts may run this.
pub async fn run(context: Arc<Context>, mut served: watch::Receiver<Served>) {
    let mut book = Book::default();
    let mut is_granted = false;
    loop {
        let is_served =
            matches!(&*served.borrow_and_update(), Served::Known(groups) if groups.contains(GROUP));
        if !is_served {
            if served.changed().await.is_err() {
                return std::future::pending().await;
            }
            continue;
        }
        if !is_granted {
            match may_look(&context).await {
                Ok(granted) => is_granted = granted,
                Err(error) => {
                    tracing::warn!(%error, "cannot ask whether the operator may list NetworkFences, trying again");
                    sleep(IDLE_PERIOD).await;
                    continue;
                }
            }
        }
        let pause = match is_granted {
            false => ASK_PERIOD,
            true => match look(&context, &mut book).await {
                Ok(true) => PERIOD,
                Ok(false) => IDLE_PERIOD,
                Err(NotGranted) => {
                    tracing::warn!(
                        "the operator may not list NetworkFences any more, so it takes none back; set `rbac.networkFence` in the chart, or add deploy/network-fence"
                    );
                    is_granted = false;
                    ASK_PERIOD
                }
            },
        };
        sleep(pause).await;
    }
}

/// May the operator see and change them? Where no device has their driver it has no such right, and sends nothing that is refused.
///
/// # Errors
/// The API server does not answer.
async fn may_look(context: &Context) -> Result<bool, AskError> {
    // What else the driver takes, a node that is shut out by now does not wait for.
    let asked = missing_of(&context.reads, "", &[ON_NETWORK_FENCES]).await;
    asked.map(|missing| missing.is_empty())
}

/// One look at all of them. Says whether there is any.
async fn look(context: &Context, book: &mut Book) -> Result<bool, NotGranted> {
    // Of a cluster that went back in time nothing is taken back (S18).
    if context.revision.frozen().is_some() {
        return Ok(true);
    }
    let path = format!("{PATH}?labelSelector={SELECTOR}");
    let list = match send(&context.reads, Method::GET, &path, None).await {
        Ok(list) => items(list),
        Err(error) if lacks_right(&error) => return Err(NotGranted),
        Err(error) => {
            tracing::warn!(%error, "cannot list the NetworkFences, trying again");
            return Ok(true);
        }
    };
    let Some(list) = list else {
        tracing::warn!("the list of NetworkFences is not complete, trying again");
        return Ok(true);
    };
    let uids: BTreeSet<&str> = list.iter().map(|it| text(it, "/metadata/uid")).collect();
    book.seen.retain(|uid, _| uids.contains(uid.as_str()));
    let mut staying = BTreeSet::new();
    for object in &list {
        let uid = text(object, "/metadata/uid").to_owned();
        let seen = book.seen.entry(uid).or_default();
        staying.extend(handle_any(context, object, seen).await);
    }
    show(context, &mut book.shown, staying);
    Ok(!list.is_empty())
}

/// The nodes that their storage does not let in, as the metric shows them.
fn show(context: &Context, shown: &mut BTreeSet<String>, staying: BTreeSet<String>) {
    let set = |node: &String, is_so| {
        let reason = Stranded::StorageFenceStays;
        context.stranded.set(node, reason, is_so);
    };
    shown.difference(&staying).for_each(|node| set(node, false));
    // Each time: who follows the Nodes forgets one that is gone.
    staying.iter().for_each(|node| set(node, true));
    *shown = staying;
}

/// Does for one object what is next. Says which node it keeps from its storage until a human acts, if that is so.
async fn handle_any(context: &Context, object: &Value, seen: &mut Seen) -> Option<String> {
    let fence = match serde_json::from_value::<NetworkFence>(object.clone()) {
        Ok(fence) => fence,
        Err(error) => {
            let fact = format!("it cannot be decoded ({error}), so the operator does not undo it");
            return give_up(context, object, "Undecodable", &fact, seen);
        }
    };
    let Some(purpose) = fence.purpose() else {
        let fact = "its annotations do not name Node, boot and NodeFence, so the operator does not undo it";
        return give_up(context, object, STAYS, fact, seen);
    };
    let problem = handle(context, &fence, &purpose, seen).await.err()?;
    let regarding = node_reference(&purpose.node);
    tell(context, regarding, STAYS, seen, problem);
    Some(purpose.node)
}

/// Says of one that bears our label that only a human can undo it. Gives the node that it names, if any.
fn give_up(
    context: &Context,
    object: &Value,
    reason: &'static str,
    fact: &str,
    seen: &mut Seen,
) -> Option<String> {
    let regarding = ObjectReference {
        api_version: Some(format!("{GROUP}/{VERSION}")),
        kind: Some(KIND.to_owned()),
        name: Some(text(object, "/metadata/name").to_owned()),
        uid: Some(text(object, "/metadata/uid").to_owned()),
        ..ObjectReference::default()
    };
    let message = format!("{fact}; set `fenceState: Unfenced` by hand once its node has rebooted");
    tell(context, regarding, reason, seen, message);
    let node = object.pointer("/metadata/annotations")?.get(NODE)?;
    Some(node.as_str()?.to_owned())
}

fn text<'a>(object: &'a Value, at: &str) -> &'a str {
    let found = object.pointer(at).and_then(Value::as_str);
    found.unwrap_or_default()
}

/// Does for one object what is next.
///
/// # Errors
/// What keeps it, for people.
async fn handle(
    context: &Context,
    fence: &NetworkFence,
    purpose: &Purpose,
    seen: &mut Seen,
) -> Result<(), String> {
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
        Err(Stays::ForNow) => return Ok(()),
        Err(Stays::ForPeople(message)) => {
            let name = &fence.metadata.name;
            return Err(format!("NetworkFence {name} stays: {message}"));
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
        Ok(()) if now.saturating_sub(since) < UNFENCE_TIME_MAX => return Ok(()),
        Ok(()) => match fence.state() {
            State::Unfencing(said) => format!("CSI-Addons reports `{}`", shown(&said)),
            _ => "it is still there".to_owned(),
        },
    };
    let name = &fence.metadata.name;
    Err(format!(
        "NetworkFence {name} is not undone, so the node gets no volumes: {problem}"
    ))
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

/// An Event, once for the same words within a while.
fn tell(
    context: &Context,
    regarding: ObjectReference,
    reason: &'static str,
    seen: &mut Seen,
    message: String,
) {
    let now = clock::since_boot();
    let is_told = |(words, at): &(String, Duration)| {
        *words == message && now.saturating_sub(*at) < REMIND_PERIOD
    };
    if seen.told.as_ref().is_some_and(is_told) {
        return;
    }
    let name = regarding.name.as_deref().unwrap_or_default();
    tracing::warn!(name, reason, message);
    context.events.publish(Note {
        regarding,
        related: None,
        warning: true,
        reason: reason.to_owned(),
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
