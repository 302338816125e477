//! The facts by the names under which a diagnosis asks for them: which pods use a claim, which volume is its, who has that attached.

use super::facts::{Facts, SCHEDULING};
use crate::fences;
use crate::table::age;
use fencing_api::fence::NodeFence;
use fencing_api::settings::FenceMode;
use fencing_cluster::slim::{SlimAttachment, SlimDeployment, SlimPod, WideNode};
use fencing_core::observed::{OUT_OF_SERVICE, Ready};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{
    CSIPersistentVolumeSource, Event, PersistentVolume, PersistentVolumeClaim,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use kube::api::{ObjectMeta, PartialObjectMeta};
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

/// Namespace and name.
type Key = (String, String);

/// The facts, by name.
pub struct Index<'a> {
    /// All of them.
    pub facts: &'a Facts,
    nodes: BTreeMap<&'a str, &'a WideNode>,
    claims: BTreeMap<Key, &'a PersistentVolumeClaim>,
    volumes: BTreeMap<&'a str, &'a PersistentVolume>,
    volumes_by_claim: BTreeMap<Key, &'a str>,
    users: BTreeMap<Key, Vec<&'a SlimPod>>,
    pods: BTreeMap<&'a str, Vec<&'a SlimPod>>,
    attachments: BTreeMap<&'a str, Vec<&'a SlimAttachment>>,
    attachments_on: BTreeMap<&'a str, Vec<&'a SlimAttachment>>,
    events: BTreeMap<Option<&'a str>, Vec<&'a Event>>,
    replica_sets: BTreeMap<Key, &'a PartialObjectMeta<ReplicaSet>>,
    rollouts: BTreeMap<Key, &'a SlimDeployment>,
}

/// Who makes a pod; of one that nothing makes, itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// As kubectl takes it.
    pub kind: String,
    /// Its name.
    pub name: String,
}

impl Owner {
    /// Does nothing make the pod?
    pub fn is_pod(&self) -> bool {
        self.kind == "pod"
    }

    /// Has it a number of pods that can be set?
    pub fn is_scaled(&self) -> bool {
        matches!(
            self.kind.as_str(),
            "deployment" | "replicaset" | "statefulset"
        )
    }
}

impl Display for Owner {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind, self.name)
    }
}

fn name(meta: &ObjectMeta) -> &str {
    meta.name.as_deref().unwrap_or_default()
}

fn key(meta: &ObjectMeta) -> Key {
    let namespace = meta.namespace.clone().unwrap_or_default();
    (namespace, name(meta).to_owned())
}

impl<'a> Index<'a> {
    /// Of these facts.
    pub fn of(facts: &'a Facts) -> Self {
        let pods = || facts.pods.items.iter().filter(|it| !it.is_finished());
        let attachments = || facts.attachments.items.iter();
        let (events, volumes) = (facts.events.items.iter(), facts.volumes.items.iter());
        let bound = volumes.filter_map(|it| Some((bound_to(it)?, name(&it.metadata))));
        let events = events.map(|it| (it.involved_object.uid.as_deref(), it));
        let mut users = groups(pods().flat_map(|pod| {
            let namespace = pod.namespace().unwrap_or_default();
            let claims = pod.claims().into_iter();
            claims.map(move |it| ((namespace.clone(), it), pod))
        }));
        for users in users.values_mut() {
            users.sort_by_key(|it| it.creation_timestamp());
        }
        Self {
            facts,
            nodes: by(&facts.nodes.items, |it| name(&it.metadata)),
            claims: by(&facts.claims.items, |it| key(&it.metadata)),
            volumes: by(&facts.volumes.items, |it| name(&it.metadata)),
            volumes_by_claim: bound.collect(),
            users,
            pods: groups(pods().map(|it| (it.spec.node_name.as_deref().unwrap_or_default(), it))),
            attachments: groups(attachments().map(|it| (it.volume().unwrap_or_default(), it))),
            attachments_on: groups(attachments().map(|it| (it.spec.node_name.as_str(), it))),
            events: groups(events),
            replica_sets: by(&facts.replica_sets.items, |it| key(&it.metadata)),
            rollouts: by(&facts.deployments.items, |it| key(&it.metadata)),
        }
    }

    /// The Node.
    pub fn node(&self, name: &str) -> Option<&'a WideNode> {
        self.nodes.get(name).copied()
    }

    /// A node's `Ready`, since when and how it is marked, in words.
    pub fn state(&self, node: &WideNode) -> String {
        let view = node.view();
        let ready = view.condition("Ready");
        let status = ready.map_or("missing", |it| it.status.as_str());
        let since = ready.and_then(|it| it.transition.parse::<Timestamp>().ok());
        let since = since.map(|it| format!(" for {}", age(it, self.facts.now)));
        let mark = match view.marked_by() {
            Some(OUT_OF_SERVICE) => ", out of service",
            Some(_) => ", being deleted by the operator",
            None => "",
        };
        let since = since.unwrap_or_default();
        format!("Ready {status}{since}{mark}")
    }

    /// The same, with its name.
    pub fn told(&self, node: &WideNode) -> String {
        format!("node {} has {}", node.name_any(), self.state(node))
    }

    /// The claim.
    pub fn claim(&self, namespace: &str, name: &str) -> Option<&'a PersistentVolumeClaim> {
        let key = (namespace.to_owned(), name.to_owned());
        self.claims.get(&key).copied()
    }

    /// The volume.
    pub fn volume(&self, name: &str) -> Option<&'a PersistentVolume> {
        self.volumes.get(name).copied()
    }

    /// The volume that is bound to the claim.
    pub fn volume_of(&self, namespace: &str, claim: &str) -> Option<&'a str> {
        let found = self.claim(namespace, claim);
        let bound = found.and_then(|it| it.spec.as_ref()?.volume_name.as_deref());
        let key = (namespace.to_owned(), claim.to_owned());
        let by_volume = || self.volumes_by_claim.get(&key).copied();
        bound.filter(|it| !it.is_empty()).or_else(by_volume)
    }

    /// The volumes of the pod's claims.
    pub fn volumes(&self, pod: &SlimPod) -> Vec<&'a str> {
        let namespace = pod.namespace().unwrap_or_default();
        let claims = pod.claims().into_iter();
        claims
            .filter_map(|it| self.volume_of(&namespace, &it))
            .collect()
    }

    /// The claim, as `(namespace, name)`, that the volume is bound to.
    pub fn claim_of(&self, volume: &str) -> Option<Key> {
        bound_to(self.volume(volume)?)
    }

    /// The pod.
    pub fn pod(&self, namespace: &str, name: &str) -> Option<&'a SlimPod> {
        let mut pods = self.facts.pods.items.iter();
        pods.find(|it| it.name_any() == name && it.namespace().as_deref() == Some(namespace))
    }

    /// Pods that use the claim and have not ended, the oldest first.
    pub fn users(&self, namespace: &str, claim: &str) -> &[&'a SlimPod] {
        let key = (namespace.to_owned(), claim.to_owned());
        self.users.get(&key).map_or(&[], Vec::as_slice)
    }

    /// Pods of the node that have not ended.
    pub fn pods(&self, node: &str) -> &[&'a SlimPod] {
        self.pods.get(node).map_or(&[], Vec::as_slice)
    }

    /// VolumeAttachments of the volume.
    pub fn attachments(&self, volume: &str) -> &[&'a SlimAttachment] {
        self.attachments.get(volume).map_or(&[], Vec::as_slice)
    }

    /// Is the volume attached to the pod's own node?
    pub fn is_attached(&self, volume: &str, pod: &SlimPod) -> bool {
        let mut attached = self
            .attachments(volume)
            .iter()
            .filter(|it| it.status.attached);
        attached.any(|it| pod.is_on(&it.spec.node_name))
    }

    /// VolumeAttachments of the node.
    pub fn attachments_on(&self, node: &str) -> &[&'a SlimAttachment] {
        self.attachments_on.get(node).map_or(&[], Vec::as_slice)
    }

    /// The volume as kubelet and attach/detach call it; none: it is not a CSI volume.
    pub fn unique_name(&self, volume: &str) -> Option<String> {
        let csi = self.csi(volume)?;
        Some(format!(
            "kubernetes.io/csi/{}^{}",
            csi.driver, csi.volume_handle
        ))
    }

    /// The CSI driver of the volume.
    pub fn driver(&self, volume: &str) -> Option<&'a str> {
        self.csi(volume).map(|it| it.driver.as_str())
    }

    /// What the volume is to its CSI driver.
    pub fn csi(&self, volume: &str) -> Option<&'a CSIPersistentVolumeSource> {
        self.volume(volume)?.spec.as_ref()?.csi.as_ref()
    }

    /// May it be attached to several nodes?
    pub fn is_shared(&self, volume: &str) -> bool {
        let modes = self
            .volume(volume)
            .and_then(|it| it.spec.as_ref()?.access_modes.as_ref());
        let mut modes = modes.into_iter().flatten();
        modes.any(|it| it == "ReadWriteMany" || it == "ReadOnlyMany")
    }

    /// The latest event of a pod for this reason that says so.
    pub fn event(
        &self,
        pod: &SlimPod,
        reason: &str,
        says: impl Fn(&str) -> bool,
    ) -> Option<&'a str> {
        let events = self.events(pod).into_iter().rev();
        let mut events = events.filter(|it| it.reason.as_deref() == Some(reason));
        events.find_map(|it| it.message.as_deref().filter(|it| says(it)))
    }

    /// What the scheduler says of a pod without a node, if it says so: by the pod's condition, and where that has no words by Events.
    pub fn refusal<'p>(&self, pod: &'p SlimPod, says: impl Fn(&str) -> bool) -> Option<&'p str>
    where
        'a: 'p,
    {
        match pod.unschedulable() {
            Some(words) => Some(words).filter(|it| says(it)),
            None => self.event(pod, SCHEDULING, says),
        }
    }

    /// All events of a pod, the latest last.
    pub fn events(&self, pod: &SlimPod) -> Vec<&'a Event> {
        let uid = pod.metadata.uid.as_deref();
        let mut events = self.events.get(&uid).cloned().unwrap_or_default();
        events.sort_by_key(|it| time(it));
        events
    }

    /// Who makes the pod.
    pub fn owner(&self, pod: &SlimPod) -> Owner {
        let (kind, name) = match (self.rollout(pod), controller(&pod.metadata)) {
            (Some(rollout), _) => ("deployment".to_owned(), rollout.name_any()),
            (None, Some(owner)) => (owner.kind.to_lowercase(), owner.name.clone()),
            (None, None) => ("pod".to_owned(), pod.name_any()),
        };
        Owner { kind, name }
    }

    /// The Deployment that makes the pod.
    pub fn rollout(&self, pod: &SlimPod) -> Option<&'a SlimDeployment> {
        let namespace = pod.namespace()?;
        let set = controller(&pod.metadata).filter(|it| it.kind == "ReplicaSet")?;
        let set = self
            .replica_sets
            .get(&(namespace.clone(), set.name.clone()))?;
        let owner = controller(&set.metadata).filter(|it| it.kind == "Deployment")?;
        self.rollouts.get(&(namespace, owner.name.clone())).copied()
    }

    /// Is it of the same revision as that one: made by the same controller?
    pub fn is_replica(&self, one: &SlimPod, other: &SlimPod) -> bool {
        let uid = |pod: &SlimPod| controller(&pod.metadata).map(|it| it.uid.clone());
        let maker = uid(one);
        maker.is_some() && maker == uid(other)
    }

    /// The open NodeFence by whose proof the machine of this node is down, if it stands and nothing here speaks against it.
    pub fn proof(&self, node: &WideNode) -> Option<&'a NodeFence> {
        let view = node.view();
        let fence = self.fence(&view.name)?;
        let evidence = fence.status.as_ref()?.evidence.as_ref()?;
        let is_same = evidence.node_uid == view.uid && evidence.node_boot_id == view.boot_id;
        let is_silent = view.ready() == Ready::Unknown;
        (is_same && is_silent && fences::is_proven(fence)).then_some(fence)
    }

    /// Is it about this Node, in the boot that its machine is in, as far as that is known?
    pub fn is_about(&self, fence: &NodeFence, node: &WideNode) -> bool {
        let view = node.view();
        let boot = Some(view.boot_id.as_str()).filter(|it| !it.is_empty());
        fence.may_be_about(&view.name, Some(&view.uid), boot)
    }

    /// The open NodeFence of a node that does more than observe.
    pub fn fence(&self, node: &str) -> Option<&'a NodeFence> {
        let fences = self.facts.fences.items.iter();
        let mut open = fences.filter(|it| it.spec.node_name == node && !it.is_ended());
        open.find(|it| it.spec.procedure.fence.mode != FenceMode::Observe)
    }
}

/// The claim that a volume is bound to.
fn bound_to(volume: &PersistentVolume) -> Option<Key> {
    let claim = volume.spec.as_ref()?.claim_ref.as_ref()?;
    Some((claim.namespace.clone()?, claim.name.clone()?))
}

fn groups<'a, K: Ord, T>(items: impl Iterator<Item = (K, &'a T)>) -> BTreeMap<K, Vec<&'a T>> {
    let mut groups: BTreeMap<K, Vec<&'a T>> = BTreeMap::new();
    for (key, item) in items {
        groups.entry(key).or_default().push(item);
    }
    groups
}

fn by<'a, K: Ord, T>(items: &'a [T], key: impl Fn(&'a T) -> K) -> BTreeMap<K, &'a T> {
    items.iter().map(|it| (key(it), it)).collect()
}

fn controller(meta: &ObjectMeta) -> Option<&OwnerReference> {
    let mut owners = meta.owner_references.iter().flatten();
    owners.find(|it| it.controller == Some(true))
}

/// When an event was last seen, by whichever of its times it has.
pub fn time(event: &Event) -> Option<Timestamp> {
    let series = event
        .series
        .as_ref()
        .and_then(|it| it.last_observed_time.as_ref());
    let micro = series.or(event.event_time.as_ref()).map(|it| it.0);
    let last = event.last_timestamp.as_ref().map(|it| it.0);
    let made = event.metadata.creation_timestamp.as_ref().map(|it| it.0);
    last.max(micro).or(made)
}
