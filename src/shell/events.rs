//! Kubernetes Events: what `kubectl describe` shows of an incident.
//!
//! An Event is told, never waited for: [`Events::publish`] puts it in a bounded queue and returns at once, and a task of its
//! own speaks to the API server, so that a slow one never delays a fence. The time of an Event is that of `publish`.
//!
//! kube's own `Recorder` is not used because it counts a repetition by reason and action and keeps the first message: two
//! different failures of one kind would show as one. Here only the very same words are a repetition.

use super::metrics::{EventLoss, Metrics};
use fencing_cluster::client::{AskError, ask_within};
use fencing_cluster::stop::{EFFECTS_END, Stop};
use fencing_cluster::text;
use fencing_drivers::clock;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use serde_json::json;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Longest message in bytes (API server validation).
const MESSAGE_BYTES_MAX: usize = 1024;
/// Longest reason, action and name of the reporting instance in bytes (API server validation).
const WORD_BYTES_MAX: usize = 128;
/// Longest part of an Event's name that comes from the object, so that the whole stays below 253 characters.
const NAME_BYTES_MAX: usize = 200;
/// An Event waits this long: the writes that it tells of, and those that follow them at once, are in more of a hurry.
const LAG: Duration = Duration::from_millis(250);
/// Events that wait; more are dropped and counted.
const QUEUE_MAX: usize = 1024;
/// How long the API server may take over one Event.
const CALL_TIME_MAX: Duration = Duration::from_secs(10);
/// Tries for one Event, with [`RETRY_PAUSE`] between them.
const TRIES_MAX: u32 = 3;
/// Pause between two tries.
const RETRY_PAUSE: Duration = Duration::from_secs(2);
/// The same words about the same object within this time are counted on the first Event.
const SERIES_TIME_MAX: Duration = Duration::from_secs(360);
/// Events remembered for that.
const SERIES_MAX: usize = 256;
/// Events of objects without a namespace go there, as the API server demands.
const CLUSTER_NAMESPACE: &str = "default";
/// Who reports.
const CONTROLLER: &str = "node-fencing-operator";

/// Something worth telling about an object.
#[derive(Debug, Clone, PartialEq)]
pub struct Note {
    /// The object: a NodeFence, a FenceDevice, a NodeFencingPolicy, a Node.
    pub regarding: ObjectReference,
    /// The second object, usually the Node.
    pub related: Option<ObjectReference>,
    /// Somebody should look at it.
    pub warning: bool,
    /// Why, in one PascalCase word.
    pub reason: String,
    /// What was done, in one PascalCase word.
    pub action: String,
    /// For a human. Cut at 1,024 bytes.
    pub message: String,
}

impl Note {
    /// A warning about a Node.
    pub fn of_node(node: &str, reason: &str, message: String) -> Self {
        Self {
            regarding: node_reference(node),
            related: None,
            warning: true,
            reason: reason.to_owned(),
            action: "Fence".to_owned(),
            message,
        }
    }
}

/// An object of ours, as Events name it.
pub fn reference<K: Resource<DynamicType = ()>>(metadata: &ObjectMeta) -> ObjectReference {
    ObjectReference {
        api_version: Some(K::api_version(&()).into_owned()),
        kind: Some(K::kind(&()).into_owned()),
        name: metadata.name.clone(),
        uid: metadata.uid.clone(),
        ..ObjectReference::default()
    }
}

/// A Node, as Events name it.
pub fn node_reference(name: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Node".to_owned()),
        name: Some(name.to_owned()),
        // The kubelet's own events name the Node where others give its uid, and kubectl describe looks for that.
        uid: Some(name.to_owned()),
        ..ObjectReference::default()
    }
}

/// What is to be told.
struct HandedIn {
    /// When it was.
    at: Timestamp,
    /// Not to be sent before (time since boot).
    due: Duration,
    note: Note,
}

/// Where Events are handed in. Cheap to clone.
#[derive(Clone)]
pub struct Events {
    queue: mpsc::Sender<HandedIn>,
    metrics: Arc<Metrics>,
}

impl Events {
    /// The queue, and the publisher that empties it: to be spawned.
    #[must_use]
    pub fn new(client: Client, instance: Option<&str>, metrics: Arc<Metrics>) -> (Self, Publisher) {
        let (sender, receiver) = mpsc::channel(QUEUE_MAX);
        let publisher = Publisher {
            queue: receiver,
            client,
            instance: text::shortened(instance.unwrap_or(CONTROLLER), WORD_BYTES_MAX),
            metrics: Arc::clone(&metrics),
            told: VecDeque::new(),
        };
        let events = Self {
            queue: sender,
            metrics,
        };
        (events, publisher)
    }

    /// Tells. Never waits: when the queue is full, the Event is dropped and counted.
    pub fn publish(&self, note: Note) {
        let handed_in = HandedIn {
            at: clock::wall(),
            due: clock::since_boot() + LAG,
            note,
        };
        if let Err(error) = self.queue.try_send(handed_in) {
            let (reason, HandedIn { note, .. }) = match error {
                mpsc::error::TrySendError::Full(lost) => (EventLoss::QueueFull, lost),
                mpsc::error::TrySendError::Closed(lost) => (EventLoss::Stopped, lost),
            };
            dropped(&self.metrics, reason, &note, "");
        }
    }
}

fn dropped(metrics: &Metrics, reason: EventLoss, note: &Note, why: &str) {
    metrics.event_dropped(reason);
    tracing::warn!(
        object = note.regarding.name.as_deref().unwrap_or_default(),
        event = note.reason,
        message_lost = note.message,
        "an Event was not published: {reason:?} {why}"
    );
}

/// Empties the queue into the API server.
pub struct Publisher {
    queue: mpsc::Receiver<HandedIn>,
    client: Client,
    instance: String,
    metrics: Arc<Metrics>,
    told: VecDeque<Event>,
}

impl Publisher {
    /// Publishes until nobody can tell anything more, or until [`EFFECTS_END`] after the end has begun.
    pub async fn run(mut self, stop: Stop) {
        let end = async {
            stop.wait().await;
            tokio::time::sleep(EFFECTS_END).await;
        };
        let work = async {
            while let Some(HandedIn { at, due, note }) = self.queue.recv().await {
                tokio::time::sleep(due.saturating_sub(clock::since_boot())).await;
                self.tell(at, &note).await;
            }
        };
        tokio::select! {
            biased;
            () = end => {}
            () = work => {}
        }
    }

    async fn tell(&mut self, at: Timestamp, note: &Note) {
        let event = event(at, note, &self.instance);
        self.forget(at);
        let repeated = self.told.iter().position(|told| is_same(told, &event));
        let event = match repeated.and_then(|at| self.told.remove(at)) {
            Some(told) => counted(told, at),
            None => event,
        };
        match self.deliver(&event).await {
            Ok(()) => self.told.push_back(event),
            Err((reason, why)) => dropped(&self.metrics, reason, note, &why),
        }
    }

    /// Sends an Event, several times if need be. The error says why it was not published.
    async fn deliver(&self, event: &Event) -> Result<(), (EventLoss, String)> {
        let mut tries = 1;
        loop {
            let why = match ask_within(CALL_TIME_MAX, self.send(event)).await {
                Ok(()) => return Ok(()),
                // Refused for good: asking again would change nothing.
                Err(error @ AskError::Refused { .. }) => {
                    return Err((EventLoss::Refused, error.to_string()));
                }
                Err(error) => error.to_string(),
            };
            if tries == TRIES_MAX {
                return Err((EventLoss::Unreachable, why));
            }
            tries += 1;
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    async fn send(&self, event: &Event) -> Result<(), kube::Error> {
        let namespace = event.metadata.namespace.as_deref();
        let events: Api<Event> =
            Api::namespaced(self.client.clone(), namespace.unwrap_or(CLUSTER_NAMESPACE));
        if let (Some(series), Some(name)) = (&event.series, &event.metadata.name) {
            let patch = Patch::Merge(json!({"series": series}));
            events.patch(name, &PatchParams::default(), &patch).await?;
            return Ok(());
        }
        match events.create(&PostParams::default(), event).await {
            Ok(_) => Ok(()),
            // An earlier try got through and its answer was lost.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// What is too old, or too many, is not counted on any more.
    fn forget(&mut self, now: Timestamp) {
        self.told.retain(|event| {
            let last = event
                .series
                .as_ref()
                .map(|series| &series.last_observed_time);
            last.or(event.event_time.as_ref())
                .is_some_and(|last| now.duration_since(last.0).unsigned_abs() <= SERIES_TIME_MAX)
        });
        while self.told.len() >= SERIES_MAX {
            self.told.pop_front();
        }
    }
}

fn event(at: Timestamp, note: &Note, instance: &str) -> Event {
    let namespace = note.regarding.namespace.as_deref();
    let name = note.regarding.name.as_deref().unwrap_or(CONTROLLER);
    let name = name.get(..NAME_BYTES_MAX).unwrap_or(name);
    let name = name.trim_end_matches(['.', '-']);
    Event {
        metadata: ObjectMeta {
            namespace: Some(namespace.unwrap_or(CLUSTER_NAMESPACE).to_owned()),
            name: Some(format!("{name}.{:x}", at.as_nanosecond())),
            ..ObjectMeta::default()
        },
        event_time: Some(MicroTime(at)),
        reporting_controller: Some(CONTROLLER.to_owned()),
        reporting_instance: Some(instance.to_owned()),
        type_: Some(if note.warning { "Warning" } else { "Normal" }.to_owned()),
        reason: Some(text::shortened(&note.reason, WORD_BYTES_MAX)),
        action: Some(text::shortened(&note.action, WORD_BYTES_MAX)),
        note: Some(text::shortened(&note.message, MESSAGE_BYTES_MAX)),
        regarding: Some(note.regarding.clone()),
        related: note.related.clone(),
        ..Event::default()
    }
}

/// The same words about the same object.
fn is_same(told: &Event, event: &Event) -> bool {
    told.note == event.note
        && told.reason == event.reason
        && told.action == event.action
        && told.type_ == event.type_
        && told.regarding == event.regarding
        && told.related == event.related
}

/// The Event, seen once more.
fn counted(mut event: Event, at: Timestamp) -> Event {
    let before = event.series.as_ref().map_or(1, |series| series.count);
    event.series = Some(EventSeries {
        count: before.saturating_add(1),
        last_observed_time: MicroTime(at),
    });
    event
}

#[cfg(test)]
mod tests;
