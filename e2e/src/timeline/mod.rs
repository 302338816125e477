//! What happened in the cluster, as one list in time order: for the demo, for the benchmarks, and for the person who
//! has to find out why a test failed.
//!
//! A [`Timeline`] watches nodes, the pods of some namespaces, VolumeAttachments and NodeFences, turns each object into
//! the few [`What`]s that matter about it, and records those that come and go. What no watch can see (the power cut, a
//! step of a test) is told to it with [`Timeline::note`]. Times are those at which the change was seen, some milliseconds
//! after it was stored.

mod told;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::api::{ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use fencing_testbed::moment::Moment;
use told::Told;

/// Something that is true of an object for a while, or that happened.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// The Node's condition Ready has this status.
    Ready(String),
    /// The Node reports this boot ID.
    BootId(String),
    /// The Node has this taint, as `key=value:effect`.
    Taint(String),
    /// The pod is bound to this node.
    Bound(String),
    /// The pod is Ready, on this node.
    Running(String),
    /// The pod has a deletionTimestamp.
    Terminating,
    /// The pod ended with this reason.
    Failed(String),
    /// The VolumeAttachment exists, but the volume is not attached yet.
    Attaching,
    /// The volume is attached.
    Attached,
    /// The VolumeAttachment has a deletionTimestamp.
    Detaching,
    /// The last attempt to detach failed with this message.
    DetachError(String),
    /// The NodeFence's stage: the reason of its condition `Succeeded`.
    Stage(String),
    /// The object is there no more.
    Gone,
    /// This is no longer so (the end of a taint).
    Ended(Box<What>),
    /// Told by the caller.
    Note(String),
}

impl std::fmt::Display for What {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ready(status) => write!(f, "Ready={status}"),
            Self::BootId(id) => write!(f, "boot ID {}", id.get(..8).unwrap_or(id)),
            Self::Taint(taint) => write!(f, "+ taint {taint}"),
            Self::Bound(node) => write!(f, "bound to {node}"),
            Self::Running(node) => write!(f, "Running on {node}"),
            Self::Terminating => f.write_str("Terminating"),
            Self::Failed(reason) if reason.is_empty() => f.write_str("Failed"),
            Self::Failed(reason) => write!(f, "Failed: {reason}"),
            Self::Attaching => f.write_str("attaching"),
            Self::Attached => f.write_str("attached"),
            Self::Detaching => f.write_str("detaching"),
            Self::DetachError(message) => write!(f, "detach failed: {message}"),
            Self::Stage(stage) => f.write_str(stage),
            Self::Gone => f.write_str("gone"),
            Self::Ended(what) => match what.as_ref() {
                Self::Taint(taint) => write!(f, "- taint {taint}"),
                other => write!(f, "no longer: {other}"),
            },
            Self::Note(text) => f.write_str(text),
        }
    }
}

/// One line of a timeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// When it was seen.
    pub at: Moment,
    /// What it is about: `node/NAME`, `pod/NAME`, `volume/PV on NODE`, `fence/NAME`, or the caller's word.
    pub subject: String,
    /// What happened.
    pub what: What,
}

/// A recorder. Dropping it ends its watches.
pub struct Timeline {
    record: Arc<Record>,
    _watches: JoinSet<()>,
}

#[derive(Default)]
struct Record {
    state: Mutex<State>,
    /// How many watches know what there is.
    listed: watch::Sender<usize>,
}

struct State {
    start: Moment,
    entries: Vec<Entry>,
    listeners: Vec<mpsc::UnboundedSender<Entry>>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            start: Moment::now(),
            entries: Vec::new(),
            listeners: Vec::new(),
        }
    }
}

impl Timeline {
    /// Starts to record. What is there already is not told, only what changes after this returns. Pods are those of
    /// `namespaces`. NodeFences are watched as soon as their CustomResourceDefinition exists.
    pub async fn start(client: &Client, namespaces: &[&str]) -> Self {
        let record: Arc<Record> = Arc::default();
        let mut watches = JoinSet::new();
        let mut follow = |task| drop(watches.spawn(task));
        follow(boxed(
            record.clone().follow(Api::<Node>::all(client.clone())),
        ));
        follow(boxed(
            record
                .clone()
                .follow(Api::<VolumeAttachment>::all(client.clone())),
        ));
        for namespace in namespaces {
            let pods = Api::<Pod>::namespaced(client.clone(), namespace);
            follow(boxed(record.clone().follow(pods)));
        }
        let fence = GroupVersionKind::gvk("nodefencing.io", "v1alpha1", "NodeFence");
        let fences = ApiResource::from_gvk_with_plural(&fence, "nodefences");
        let fences = Api::<DynamicObject>::all_with(client.clone(), &fences);
        follow(boxed(record.clone().follow(fences)));
        let mut listed = record.listed.subscribe();
        let _ = listed.wait_for(|listed| *listed == watches.len()).await;
        Self {
            record,
            _watches: watches,
        }
    }

    /// Records something that only the caller knows, for example the power cut, and makes it the zero of the printed
    /// times if `is_start`.
    pub fn note(&self, subject: &str, text: impl Into<String>, is_start: bool) -> Moment {
        let at = Moment::now();
        if is_start {
            self.record.state().start = at;
        }
        self.record.add(at, subject, What::Note(text.into()));
        at
    }

    /// Everything recorded so far, oldest first.
    pub fn entries(&self) -> Vec<Entry> {
        let mut entries = self.record.state().entries.clone();
        entries.sort_by_key(|entry| entry.at);
        entries
    }

    /// The first entry at or after `since` for which `is_it` holds.
    pub fn find(&self, since: Moment, is_it: impl Fn(&Entry) -> bool) -> Option<Entry> {
        self.entries()
            .into_iter()
            .find(|entry| entry.at >= since && is_it(entry))
    }

    /// Every entry from now on, as it is recorded.
    pub fn subscribe(&self) -> mpsc::UnboundedReceiver<Entry> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.record.state().listeners.push(sender);
        receiver
    }

    /// One entry as a line: seconds since the start, subject, what.
    pub fn line(&self, entry: &Entry) -> String {
        let Entry { at, subject, what } = entry;
        let seconds = at.seconds_since(self.record.state().start);
        format!("{seconds:>9.3}  {subject:<34}  {what}")
    }
}

impl std::fmt::Display for Timeline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.entries()
            .iter()
            .try_for_each(|entry| writeln!(f, "{}", self.line(entry)))
    }
}

type Task = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

fn boxed(task: impl Future<Output = ()> + Send + 'static) -> Task {
    Box::pin(task)
}

/// How long to wait before a broken watch, or that of a kind which does not exist yet, is tried again.
const RETRY: Duration = Duration::from_millis(250);

impl Record {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, at: Moment, subject: &str, what: What) {
        let entry = Entry {
            at,
            subject: subject.to_owned(),
            what,
        };
        let mut state = self.state();
        state
            .listeners
            .retain(|listener| listener.send(entry.clone()).is_ok());
        state.entries.push(entry);
    }

    async fn follow<K>(self: Arc<Self>, api: Api<K>)
    where
        K: Told + Clone + DeserializeOwned + Debug + Send + 'static,
    {
        let mut known: BTreeMap<String, (String, BTreeSet<What>)> = BTreeMap::new();
        let (mut listed, mut is_first_list) = (BTreeSet::new(), true);
        let mut events = std::pin::pin!(watcher(api, watcher::Config::default()));
        while let Some(event) = events.next().await {
            let at = Moment::now();
            match event {
                Ok(Event::Init) => listed.clear(),
                Ok(Event::InitApply(object)) => {
                    let uid = object.uid().unwrap_or_default();
                    listed.insert(uid.clone());
                    if is_first_list {
                        known.insert(uid, (object.subject(), object.facts()));
                    } else {
                        self.compare(at, &mut known, &object);
                    }
                }
                Ok(Event::InitDone) => {
                    self.count_list(&mut is_first_list);
                    let gone = known.extract_if(.., |uid, _| !listed.contains(uid));
                    gone.for_each(|(_, (subject, _))| self.add(at, &subject, What::Gone));
                }
                Ok(Event::Apply(object)) => self.compare(at, &mut known, &object),
                Ok(Event::Delete(object)) => {
                    known.remove(&object.uid().unwrap_or_default());
                    self.add(at, &object.subject(), What::Gone);
                }
                Err(error) => {
                    if matches!(&error, watcher::Error::InitialListFailed(kube::Error::Api(refusal)) if refusal.code == 404)
                    {
                        self.count_list(&mut is_first_list); // no such kind yet, so no such objects
                    }
                    tracing::trace!(%error, "a watch of the timeline broke");
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }

    fn count_list(&self, is_first_list: &mut bool) {
        if std::mem::replace(is_first_list, false) {
            self.listed.send_modify(|listed| *listed += 1);
        }
    }

    /// Records what has changed about `object`.
    fn compare<K: Told>(
        &self,
        at: Moment,
        known: &mut BTreeMap<String, (String, BTreeSet<What>)>,
        object: &K,
    ) {
        let (subject, facts) = (object.subject(), object.facts());
        let known = known.entry(object.uid().unwrap_or_default());
        let (_, before) = known.or_insert_with(|| (subject.clone(), BTreeSet::new()));
        for ended in before
            .difference(&facts)
            .filter(|what| matches!(what, What::Taint(_)))
        {
            self.add(at, &subject, What::Ended(Box::new(ended.clone())));
        }
        for what in facts.difference(before) {
            self.add(at, &subject, what.clone());
        }
        *before = facts;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn node(taints: serde_json::Value, ready: &str) -> Node {
        let status = json!({"conditions": [{"type": "Ready", "status": ready}]});
        let node = json!({"metadata": {"name": "n", "uid": "u"}, "spec": {"taints": taints}, "status": status});
        serde_json::from_value(node).expect("a Node")
    }

    #[test]
    fn only_what_changed_is_told_and_the_end_of_a_taint_too() {
        let (record, mut known) = (Record::default(), BTreeMap::new());
        let taint = json!([{"key": "k", "value": "v", "effect": "NoExecute"}]);
        for node in [
            node(json!([]), "True"),
            node(taint.clone(), "True"),
            node(taint, "Unknown"),
            node(json!([]), "Unknown"),
        ] {
            record.compare(Moment::now(), &mut known, &node);
        }
        let told: Vec<String> = record
            .state()
            .entries
            .iter()
            .map(|entry| entry.what.to_string())
            .collect();
        assert_eq!(
            told,
            [
                "Ready=True",
                "+ taint k=v:NoExecute",
                "Ready=Unknown",
                "- taint k=v:NoExecute"
            ]
        );
    }
}
