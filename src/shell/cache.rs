//! What the operator keeps in memory of the cluster: five watches, each with its store.
//!
//! Caches only wake somebody up and fill in words; whatever destroys something reads again by quorum (S12). Every
//! watch ends and begins anew within a minute, so that a dead connection cannot blind us for long (the default notices
//! after 295 s), and says when it last heard of the API server. A watch that goes on where it ended never tells of an event
//! that got lost, nor of anything while its version is still to come, since the cluster went back: now and then, and when that is seen,
//! everything is listed anew.

mod attached;
mod objects;

use self::attached::Attached;
use super::revision::Revision;
use super::tampered::keeping_other_writers;
use fencing_api::device::FenceDevice;
use fencing_api::fence::NodeFence;
use fencing_api::policy::NodeFencingPolicy;
use fencing_cluster::client::AskError;
use fencing_cluster::slim::{CachedAttachment, CachedNode, SlimAttachment, SlimNode};
use fencing_drivers::clock;
use futures::{Stream, StreamExt, TryStreamExt, stream};
use kube::core::DeserializeGuard;
use kube::runtime::reflector::{self, Lookup, Store};
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Longest life of one watch, in seconds.
const WATCH_SECONDS_MAX: u32 = 45;
/// A change of which no watch has told is seen after this time at the latest (F18).
const LIST_PERIOD: Duration = Duration::from_mins(5);
/// The same in a cluster that went back: the first new list may come from an API server that does not know it yet.
const LIST_PERIOD_FROZEN: Duration = Duration::from_mins(1);

/// Something has changed that somebody may want to look at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Change {
    /// This Node was added, changed or deleted.
    Node(String),
    /// A VolumeAttachment of this node was added, changed or deleted.
    Attachment(String),
    /// This NodeFence was added, changed or deleted.
    Fence(String),
    /// A FenceDevice was added, changed or deleted.
    Device(String),
    /// A NodeFencingPolicy was added, changed or deleted.
    Policy(String),
}

/// The stores.
#[derive(Clone)]
pub struct Caches {
    /// All Nodes.
    pub nodes: Store<CachedNode>,
    /// All VolumeAttachments.
    pub attachments: Store<CachedAttachment>,
    /// All NodeFences, those that cannot be decoded included.
    pub fences: Store<DeserializeGuard<NodeFence>>,
    /// All FenceDevices, those that cannot be decoded included.
    pub devices: Store<DeserializeGuard<FenceDevice>>,
    /// All NodeFencingPolicies, those that cannot be decoded included.
    pub policies: Store<DeserializeGuard<NodeFencingPolicy>>,
    attached: Attached,
    heard: Heard,
}

/// When each watch last heard of the API server (time since boot).
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<BTreeMap<&'static str, Duration>>>);

impl Heard {
    fn now(&self, kind: &'static str) {
        if let Ok(mut heard) = self.0.lock() {
            heard.insert(kind, clock::since_boot());
        }
    }
}

impl Caches {
    /// Starts the five watches in `tasks`; every change is told to `changes`.
    ///
    /// The client must not repeat requests by itself: it would wait for as long as a laden API server asks for, ten minutes and more, and
    /// nobody would see a node fail meanwhile. A watch tries again by itself every 30 s at least.
    pub fn start(
        client: &Client,
        revision: &Revision,
        changes: &mpsc::UnboundedSender<Change>,
        tasks: &mut JoinSet<()>,
    ) -> Self {
        let heard = Heard::default();
        let mut watches = Watches {
            client,
            revision,
            changes,
            heard: &heard,
            tasks,
        };
        let (seen, attached) = (revision.clone(), Attached::default());
        let nodes = watches.start(
            "Node",
            |node: SlimNode| CachedNode::from(node),
            |node: &CachedNode| Change::Node(name(node)),
            move |event| note_version(&seen, event),
        );
        let index = attached.clone();
        let attachments = watches.start(
            "VolumeAttachment",
            |attachment: SlimAttachment| CachedAttachment::from(attachment),
            |attachment: &CachedAttachment| Change::Attachment(attachment.node.clone()),
            move |event| index.note(event),
        );
        let fences = watches.start(
            "NodeFence",
            keeping_other_writers,
            |fence: &DeserializeGuard<NodeFence>| Change::Fence(name(fence)),
            |_| {},
        );
        let devices = watches.start(
            "FenceDevice",
            keeping_other_writers,
            |device: &DeserializeGuard<FenceDevice>| Change::Device(name(device)),
            |_| {},
        );
        let policies = watches.start(
            "NodeFencingPolicy",
            keeping_other_writers,
            |policy: &DeserializeGuard<NodeFencingPolicy>| Change::Policy(name(policy)),
            |_| {},
        );
        Self {
            nodes,
            attachments,
            fences,
            devices,
            policies,
            attached,
            heard,
        }
    }

    /// Tells `changes` of everything that is there, as if it had just come.
    pub fn tell_all(&self, changes: &mpsc::UnboundedSender<Change>) {
        let nodes = self.nodes.state().into_iter();
        let fences = self.fences.state().into_iter();
        let devices = self.devices.state().into_iter();
        let policies = self.policies.state().into_iter();
        let all = nodes
            .map(|it| Change::Node(name(&*it)))
            .chain(fences.map(|it| Change::Fence(name(&*it))))
            .chain(devices.map(|it| Change::Device(name(&*it))))
            .chain(policies.map(|it| Change::Policy(name(&*it))));
        for change in all {
            // Nobody listens any more only while the operator ends.
            let _ = changes.send(change);
        }
    }

    /// Waits until every store has been filled once.
    pub async fn ready(&self) -> Result<(), reflector::store::WriterDropped> {
        self.nodes.wait_until_ready().await?;
        self.attachments.wait_until_ready().await?;
        self.fences.wait_until_ready().await?;
        self.devices.wait_until_ready().await?;
        self.policies.wait_until_ready().await
    }

    /// Per kind, how long ago its watch last heard of the API server.
    pub fn ages(&self) -> Vec<(&'static str, Duration)> {
        let now = clock::since_boot();
        let heard = self
            .heard
            .0
            .lock()
            .map(|heard| heard.clone())
            .unwrap_or_default();
        heard
            .into_iter()
            .map(|(kind, at)| (kind, now.saturating_sub(at)))
            .collect()
    }

    /// The Node, as the cache has it.
    pub fn node(&self, name: &str) -> Option<Arc<CachedNode>> {
        self.nodes.get(&reflector::ObjectRef::new(name))
    }

    /// The name of some Node, if there is one.
    pub fn any_node(&self) -> Option<String> {
        Some(name(&**self.nodes.state().first()?))
    }

    /// The names of all Nodes.
    pub fn node_names(&self) -> BTreeSet<String> {
        let nodes = self.nodes.state();
        nodes.iter().map(|node| node.view.name.clone()).collect()
    }

    /// The Nodes that the operator itself has reported (`earlyDetection`), and whose kubelets have not reported since.
    pub fn reported_early(&self) -> Vec<Arc<CachedNode>> {
        self.nodes.state_filter(|node| node.view.reported_early)
    }
}

fn name<K: Lookup>(object: &K) -> String {
    object.name().unwrap_or_default().into_owned()
}

/// Starts watches that share everything but their kind.
struct Watches<'a> {
    client: &'a Client,
    revision: &'a Revision,
    changes: &'a mpsc::UnboundedSender<Change>,
    heard: &'a Heard,
    tasks: &'a mut JoinSet<()>,
}

impl Watches<'_> {
    /// `keep` is what the store has of each object.
    fn start<K, V>(
        &mut self,
        kind: &'static str,
        keep: fn(K) -> V,
        change: impl Fn(&V) -> Change + Send + 'static,
        note: impl Fn(&Event<V>) + Send + 'static,
    ) -> Store<V>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
        V: Lookup<DynamicType = ()> + Clone + Debug + Send + Sync + 'static,
    {
        let (store, writer) = reflector::store();
        let config = watcher::Config::default().timeout(WATCH_SECONDS_MAX);
        let heard = self.heard.clone();
        let api = Api::<K>::all(self.client.clone());
        let revision = self.revision.clone();
        let is_old = move || old_or_back(&revision);
        let objects = listed_anew(is_old, move || watcher(api.clone(), config.clone()))
            .map_ok(move |event| map_event(event, keep))
            .inspect_ok(move |event| {
                // It comes before any request.
                if !matches!(event, Event::Init) {
                    heard.now(kind);
                }
                note(event);
            })
            .default_backoff();
        let events = reflector::reflector(writer, objects);
        let (known, changes) = (store.clone(), self.changes.clone());
        self.tasks.spawn(tell(kind, events, known, changes, change));
        store
    }
}

fn map_event<K, V>(event: Event<K>, keep: fn(K) -> V) -> Event<V> {
    match event {
        Event::Apply(object) => Event::Apply(keep(object)),
        Event::Delete(object) => Event::Delete(keep(object)),
        Event::Init => Event::Init,
        Event::InitApply(object) => Event::InitApply(keep(object)),
        Event::InitDone => Event::InitDone,
    }
}

/// S18: a Node that is read later is no older than this.
fn note_version(revision: &Revision, event: &Event<CachedNode>) {
    match event {
        Event::Apply(node) | Event::InitApply(node) => {
            let node = &node.view;
            revision.saw_node(&node.name, &node.uid, &node.resource_version);
        }
        Event::Delete(node) => revision.forget_node(&name(node)),
        Event::Init | Event::InitDone => {}
    }
}

/// Comes when a watch that is begun now is to end.
fn old_or_back(revision: &Revision) -> impl Future<Output = ()> + Send + use<> {
    let went_back = revision.went_back();
    let period = match revision.frozen() {
        Some(_) => LIST_PERIOD_FROZEN,
        None => LIST_PERIOD,
    };
    async move {
        // Which of the two it was makes no difference.
        let _ = timeout(period, went_back).await;
    }
}

/// A watch in place of which another one is begun whenever it is old. It begins with a list.
fn listed_anew<S: Stream, F: Future<Output = ()>>(
    is_old: impl Fn() -> F,
    watch: impl Fn() -> S,
) -> impl Stream<Item = S::Item> {
    stream::repeat_with(watch).flat_map(move |watch| watch.take_until(is_old()))
}

/// Tells of each change once it is in the store. A list that is begun anew after a watch was lost gets there as a whole, at its end: then
/// everything in it has changed, and everything that was in the store before and may be gone.
async fn tell<K>(
    kind: &'static str,
    events: impl Stream<Item = Result<watcher::Event<K>, watcher::Error>> + Send,
    known: Store<K>,
    changes: mpsc::UnboundedSender<Change>,
    change: impl Fn(&K) -> Change + Send,
) where
    K: Lookup<DynamicType = ()> + Clone + 'static,
{
    let mut listed = BTreeSet::new();
    let mut events = std::pin::pin!(events);
    while let Some(event) = events.next().await {
        // Nobody listens any more only while the operator ends.
        match event {
            Ok(Event::Apply(object) | Event::Delete(object)) => {
                let _ = changes.send(change(&object));
            }
            Ok(Event::Init) => listed = known.state().iter().map(|it| change(it)).collect(),
            Ok(Event::InitApply(object)) => {
                listed.insert(change(&object));
            }
            Ok(Event::InitDone) => {
                for change in std::mem::take(&mut listed) {
                    let _ = changes.send(change);
                }
            }
            Err(error) => {
                let error = interrupted(error);
                tracing::warn!(kind, %error, "watch interrupted, reconnecting")
            }
        }
    }
}

/// Why a watch has ended, for people.
fn interrupted(error: watcher::Error) -> String {
    use watcher::Error::{InitialListFailed, WatchError, WatchFailed, WatchStartFailed};
    let (what, error) = match error {
        InitialListFailed(error) => ("its list failed", error),
        WatchStartFailed(error) => ("it could not begin", error),
        WatchFailed(error) => ("it broke", error),
        WatchError(status) => ("the API server ended it", kube::Error::Api(status)),
        error => return error.to_string(),
    };
    format!("{what}: {}", AskError::from(error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_watch_that_is_refused_says_so_without_a_value_of_rust() {
        let status = || {
            let status = kube::core::Status::failure("nodes is forbidden", "Forbidden");
            Box::new(status.with_code(403))
        };
        let refused = || kube::Error::Api(status());
        for (error, said) in [
            (
                watcher::Error::InitialListFailed(refused()),
                "its list failed: nodes is forbidden (403)",
            ),
            (
                watcher::Error::WatchStartFailed(refused()),
                "it could not begin: nodes is forbidden (403)",
            ),
            (
                watcher::Error::WatchFailed(refused()),
                "it broke: nodes is forbidden (403)",
            ),
            (
                watcher::Error::WatchError(status()),
                "the API server ended it: nodes is forbidden (403)",
            ),
        ] {
            assert_eq!(interrupted(error), said);
        }
    }

    fn node(name: &str) -> CachedNode {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
        let node: SlimNode = serde_json::from_value(node).expect("a Node");
        CachedNode::from(node)
    }

    /// S18: a Node that is read is compared with the newest that was shown, whatever the store has by then.
    #[test]
    fn the_versions_of_nodes_that_a_watch_shows_are_kept_until_they_are_deleted() {
        let version = |number: &str| {
            let mut node = node("a");
            node.view.uid = "uid-1".to_owned();
            node.view.resource_version = number.to_owned();
            node
        };
        let revision = Revision::default();
        let newest = |event: Event<CachedNode>| {
            note_version(&revision, &event);
            revision.node("a").map(|(_, newest)| newest)
        };
        assert_eq!(newest(Event::InitApply(version("120"))), Some(120));
        assert_eq!(newest(Event::Apply(version("130"))), Some(130));
        assert_eq!(newest(Event::Init), Some(130));
        assert_eq!(newest(Event::InitApply(version("90"))), Some(130));
        assert_eq!(newest(Event::Delete(version("140"))), None);
    }

    /// What is told of these events of a watch.
    async fn told(events: Vec<Event<CachedNode>>) -> Vec<Change> {
        let (store, writer) = reflector::store();
        let events = reflector::reflector(writer, stream::iter(events.into_iter().map(Ok)));
        let (changes, mut changed) = mpsc::unbounded_channel();
        tell("Node", events, store, changes, |it: &CachedNode| {
            Change::Node(name(it))
        })
        .await;
        let mut told = vec![];
        changed.recv_many(&mut told, 100).await;
        told
    }

    /// F18: a list is in the store as a whole, at its end. Whoever is told of it sooner looks at what was there before, and what was deleted
    /// while the watch was lost is in no list.
    #[tokio::test]
    async fn what_a_new_list_has_changed_is_told_once_it_is_in_the_store() {
        let list = |names: [&str; 2]| {
            let [first, second] = names.map(|name| Event::InitApply(node(name)));
            vec![Event::Init, first, second, Event::InitDone]
        };
        let change = |name: &str| Change::Node(name.to_owned());
        let mut cut_off = list(["a", "b"]);
        cut_off.pop();
        assert_eq!(told(cut_off).await, []);
        let twice = [list(["a", "b"]), list(["b", "c"])].concat();
        assert_eq!(told(twice).await, ["a", "b", "a", "b", "c"].map(change));
        let after = [list(["a", "b"]), vec![Event::Delete(node("b"))]].concat();
        assert_eq!(told(after).await, ["a", "b", "b"].map(change));
    }

    /// F18: nothing else tells of a change whose event got lost.
    #[tokio::test(start_paused = true)]
    async fn a_watch_that_has_nothing_to_tell_is_begun_anew_with_a_list() {
        let silent = || stream::iter([Ok::<_, watcher::Error>("list")]).chain(stream::pending());
        let is_old = || tokio::time::sleep(Duration::from_millis(5));
        let anew = listed_anew(is_old, silent);
        let three = tokio::time::timeout(Duration::from_secs(60), anew.take(3).count()).await;
        assert_eq!(three.ok(), Some(3));
    }

    /// S18: a watch that goes on from a version which is still to come tells of nothing.
    #[tokio::test(start_paused = true)]
    async fn a_watch_is_begun_anew_when_the_cluster_goes_back_and_each_minute_from_then_on() {
        let revision = Revision::default();
        let silent = || stream::iter(["list"]).chain(stream::pending());
        let mut anew = std::pin::pin!(listed_anew(|| old_or_back(&revision), silent));
        // A stream that never goes on would hang: the clock stands still when nothing waits for it.
        let mut next = async || timeout(Duration::from_hours(1), anew.next()).await;
        assert_eq!(next().await, Ok(Some("list")));
        revision.note(120, Some("90"));
        let begun = tokio::time::Instant::now();
        assert_eq!(next().await, Ok(Some("list")));
        assert_eq!(begun.elapsed(), Duration::ZERO);
        assert_eq!(next().await, Ok(Some("list")));
        assert_eq!(begun.elapsed(), LIST_PERIOD_FROZEN);
    }
}
