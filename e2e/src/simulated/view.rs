//! What the API server shows to the simulated nodes: one watch of pods, one of nodes and one of VolumeAttachments for the
//! whole fleet, handed out by node.
//!
//! Hundreds of kubelets with watches of their own would be most of the load on a control plane that shares two cores with
//! them. Each node gets a [`Sight`] of its own in a channel instead, and looks at it when it can reach the API server; a
//! partitioned node simply goes on with the sight that it took last. A sight may be some milliseconds old, as a
//! kubelet's cache is.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// What the API server shows about one node.
#[derive(Debug, Clone, Default)]
pub(super) struct Sight {
    /// The Node, unless there is none.
    pub node: Option<Arc<Node>>,
    /// The pods bound to it, by UID.
    pub pods: BTreeMap<String, Arc<Pod>>,
    /// The PersistentVolumes that are attached to it according to their VolumeAttachments (which a CSI volume waits
    /// for, besides `status.volumesAttached` of the Node), by name of the VolumeAttachment.
    pub attached: BTreeMap<String, String>,
}

/// The watches of a fleet and what they have shown so far.
#[derive(Debug)]
pub(super) struct View {
    nodes: Mutex<HashMap<String, watch::Sender<Sight>>>,
}

impl View {
    /// Starts the three watches as tasks of `tasks`.
    pub(super) fn start(client: &Client, tasks: &mut JoinSet<()>) -> Arc<Self> {
        let view = Arc::new(Self {
            nodes: Mutex::default(),
        });
        let bound = watcher::Config::default().fields("spec.nodeName!=");
        let (client, all) = (client.clone(), watcher::Config::default());
        tasks.spawn(Arc::clone(&view).follow(Api::<Pod>::all(client.clone()), bound));
        tasks.spawn(Arc::clone(&view).follow(Api::<Node>::all(client.clone()), all.clone()));
        tasks.spawn(Arc::clone(&view).follow(Api::<VolumeAttachment>::all(client), all));
        view
    }

    /// What is shown of the node called `name`, now and from now on.
    pub(super) fn of(&self, name: &str) -> watch::Receiver<Sight> {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        nodes.entry(name.to_owned()).or_default().subscribe()
    }

    async fn follow<K: Shown>(self: Arc<Self>, api: Api<K>, config: watcher::Config) {
        let mut events = std::pin::pin!(watcher(api, config));
        let mut listed = BTreeSet::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => listed.clear(),
                Ok(Event::InitApply(object)) => {
                    listed.insert(object.key());
                    self.show(object);
                }
                Ok(Event::InitDone) => self.each(|sight| K::retain(sight, &listed)),
                Ok(Event::Apply(object)) => self.show(object),
                Ok(Event::Delete(object)) => {
                    let node = object.node();
                    self.change(&node, |sight| K::hide(sight, &object.key()));
                }
                Err(error) => {
                    tracing::debug!(%error, kind = std::any::type_name::<K>(), "a watch broke, it starts again");
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }

    fn show<K: Shown>(&self, mut object: K) {
        object.managed_fields_mut().clear();
        let node = object.node();
        self.change(&node, |sight| object.put(sight));
    }

    fn change(&self, node: &str, change: impl FnOnce(&mut Sight)) {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        nodes
            .entry(node.to_owned())
            .or_default()
            .send_modify(change);
    }

    fn each(&self, change: impl Fn(&mut Sight) -> bool) {
        let nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        for sight in nodes.values() {
            sight.send_if_modified(&change);
        }
    }
}

/// How long to wait before a broken watch is tried again.
const RETRY: Duration = Duration::from_millis(200);

/// A kind of object that a node sees.
trait Shown:
    Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
    /// The node whose sight it belongs to.
    fn node(&self) -> String;
    /// Its key in the sight.
    fn key(&self) -> String;
    /// Puts it into the sight.
    fn put(self, sight: &mut Sight);
    /// Takes the object with `key` out of the sight.
    fn hide(sight: &mut Sight, key: &str);
    /// Takes all objects out of the sight that are not `listed`; whether there were any.
    fn retain(sight: &mut Sight, listed: &BTreeSet<String>) -> bool;
}

impl Shown for Pod {
    fn node(&self) -> String {
        self.spec
            .as_ref()
            .and_then(|spec| spec.node_name.clone())
            .unwrap_or_default()
    }

    fn key(&self) -> String {
        self.uid().unwrap_or_default()
    }

    fn put(self, sight: &mut Sight) {
        sight.pods.insert(self.key(), Arc::new(self));
    }

    fn hide(sight: &mut Sight, key: &str) {
        sight.pods.remove(key);
    }

    fn retain(sight: &mut Sight, listed: &BTreeSet<String>) -> bool {
        let before = sight.pods.len();
        sight.pods.retain(|key, _| listed.contains(key));
        sight.pods.len() != before
    }
}

impl Shown for Node {
    fn node(&self) -> String {
        self.name_any()
    }

    fn key(&self) -> String {
        self.uid().unwrap_or_default()
    }

    fn put(self, sight: &mut Sight) {
        sight.node = Some(Arc::new(self));
    }

    fn hide(sight: &mut Sight, key: &str) {
        sight.node = sight.node.take().filter(|node| node.key() != key);
    }

    fn retain(sight: &mut Sight, listed: &BTreeSet<String>) -> bool {
        let had = sight.node.is_some();
        sight.node = sight
            .node
            .take()
            .filter(|node| listed.contains(&node.key()));
        had && sight.node.is_none()
    }
}

impl Shown for VolumeAttachment {
    fn node(&self) -> String {
        self.spec.node_name.clone()
    }

    fn key(&self) -> String {
        self.name_any()
    }

    fn put(self, sight: &mut Sight) {
        let attached = self.status.as_ref().is_some_and(|status| status.attached);
        match &self.spec.source.persistent_volume_name {
            Some(volume) if attached => sight.attached.insert(self.key(), volume.clone()),
            _ => sight.attached.remove(&self.key()),
        };
    }

    fn hide(sight: &mut Sight, key: &str) {
        sight.attached.remove(key);
    }

    fn retain(sight: &mut Sight, listed: &BTreeSet<String>) -> bool {
        let before = sight.attached.len();
        sight.attached.retain(|key, _| listed.contains(key));
        sight.attached.len() != before
    }
}
