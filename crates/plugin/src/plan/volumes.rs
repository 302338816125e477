//! What becomes of a pod's volumes when its node dies: which of them the next pod has again, and which stay behind.
//!
//! Listed is what holds data. What a kubelet makes anew from the API for each pod (ConfigMaps, Secrets, tokens, images) is there again
//! wherever the pod starts, and is not named.

use super::place;
use fencing_core::observed::NodeView;
use k8s_openapi::api::core::v1::{
    NodeSelector, PersistentVolume, PersistentVolumeClaim, Pod, Volume,
};
use kube::ResourceExt;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The label of zones, and its name from before 1.17.
const ZONES: [&str; 2] = [
    "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/zone",
];
/// What names one node.
const ONE_NODE: [&str; 2] = ["kubernetes.io/hostname", "metadata.name"];

/// What becomes of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub enum Fate {
    /// Is detached from the dead node, and attached where the next pod starts.
    Moves,
    /// Any node has it at any time: nothing is attached, or by several at once.
    Shared,
    /// Is on the dead node's own disk, and can be reached from there only.
    OnTheNode,
    /// Can be reached from nodes with certain labels only, and there is no other one.
    OutOfReach,
    /// The data stays on the dead node; the next pod finds what its own node has at that path.
    StaysBehind,
    /// Begins empty: what was in it is lost.
    Lost,
    /// The user may not read what it is.
    Unknown,
}

/// A volume of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VolumePlan {
    /// Its name in the pod.
    pub name: String,
    /// Its PersistentVolumeClaim.
    pub claim: Option<String>,
    /// Its PersistentVolume.
    pub persistent_volume: Option<String>,
    /// The CSI driver, or what else it is.
    pub source: String,
    /// Access modes of the PersistentVolume.
    pub access_modes: Vec<String>,
    /// What becomes of it.
    pub fate: Fate,
    /// That, in words.
    pub message: String,
}

/// The cluster's storage, as far as it can be read.
#[derive(Debug, Default)]
pub struct Storage {
    /// PersistentVolumeClaims by namespace and name.
    pub claims: Option<BTreeMap<(String, String), PersistentVolumeClaim>>,
    /// PersistentVolumes by name.
    pub volumes: Option<BTreeMap<String, PersistentVolume>>,
    /// CSI drivers that attach nothing (`attachRequired: false`).
    pub unattached: BTreeSet<String>,
}

impl Storage {
    /// The pod's volumes that hold data.
    pub fn of_pod(&self, pod: &Pod, nodes: &[NodeView], dead: &str) -> Vec<VolumePlan> {
        let volumes = pod.spec.iter().flat_map(|it| it.volumes.iter().flatten());
        volumes
            .filter_map(|it| self.one(pod, it, nodes, dead))
            .collect()
    }

    /// Where the pod's PersistentVolumes can be reached.
    pub fn reach(&self, plans: &[VolumePlan]) -> Vec<&NodeSelector> {
        let names = plans.iter().filter_map(|it| it.persistent_volume.as_ref());
        names
            .filter_map(|it| affinity(self.volumes.as_ref()?.get(it)?))
            .collect()
    }

    fn one(
        &self,
        pod: &Pod,
        volume: &Volume,
        nodes: &[NodeView],
        dead: &str,
    ) -> Option<VolumePlan> {
        let name = &volume.name;
        let plain = |source: &str, fate, message: String| VolumePlan {
            name: name.clone(),
            claim: None,
            persistent_volume: None,
            source: source.to_owned(),
            access_modes: Vec::new(),
            fate,
            message,
        };
        if let Some(of_claim) = &volume.persistent_volume_claim {
            return Some(self.claimed(pod, name, &of_claim.claim_name, nodes, dead));
        }
        if volume.ephemeral.is_some() {
            let message = format!(
                "volume {name} belongs to this pod alone: it is deleted with it, and the next pod gets an empty one"
            );
            return Some(plain("ephemeral", Fate::Lost, message));
        }
        if volume.empty_dir.is_some() {
            let message = format!("emptyDir {name} starts empty: its data is lost");
            return Some(plain("emptyDir", Fate::Lost, message));
        }
        if let Some(path) = &volume.host_path {
            return match is_written(pod, name) {
                true => {
                    let message = format!(
                        "hostPath {} stays on Node {dead} with its data; elsewhere the pod reads that node's path",
                        path.path
                    );
                    Some(plain("hostPath", Fate::StaysBehind, message))
                }
                false => None,
            };
        }
        let (source, fate) = inline(volume)?;
        let message = match fate {
            Fate::Shared => format!("{source} {name} is mounted wherever the pod starts"),
            _ => format!(
                "{source} {name} is named in the pod itself: it is detached here and attached where the pod starts"
            ),
        };
        Some(plain(source, fate, message))
    }

    fn claimed(
        &self,
        pod: &Pod,
        name: &str,
        claim: &str,
        nodes: &[NodeView],
        dead: &str,
    ) -> VolumePlan {
        let plan = |volume: Option<&PersistentVolume>, fate, message| VolumePlan {
            name: name.to_owned(),
            claim: Some(claim.to_owned()),
            persistent_volume: volume.map(ResourceExt::name_any),
            source: volume.map_or_else(String::new, source),
            access_modes: volume.map(modes).unwrap_or_default(),
            fate,
            message,
        };
        let key = (pod.namespace().unwrap_or_default(), claim.to_owned());
        let (Some(claims), Some(volumes)) = (&self.claims, &self.volumes) else {
            let message = format!(
                "PersistentVolumeClaim {claim} could not be resolved (you may not list claims or PersistentVolumes)"
            );
            return plan(None, Fate::Unknown, message);
        };
        let bound = claims
            .get(&key)
            .and_then(|it| it.spec.as_ref()?.volume_name.as_ref());
        let Some(volume) = bound.and_then(|it| volumes.get(it)) else {
            let message = format!(
                "PersistentVolumeClaim {claim} is bound to no existing PersistentVolume, so the next pod waits; see kubectl -n {} describe pvc {claim}",
                key.0
            );
            return plan(None, Fate::OutOfReach, message);
        };
        let (fate, message) = self.judge(claim, volume, nodes, dead);
        plan(Some(volume), fate, message)
    }

    fn judge(
        &self,
        claim: &str,
        volume: &PersistentVolume,
        nodes: &[NodeView],
        dead: &str,
    ) -> (Fate, String) {
        let (name, source) = (volume.name_any(), source(volume));
        let others = || nodes.iter().filter(|it| it.name != dead);
        let within_reach =
            affinity(volume).is_none_or(|reach| others().any(|it| place::selects(reach, it)));
        let named = format!("PersistentVolume {name} of claim {claim}");
        if !within_reach {
            return out_of_reach(&named, volume, nodes, dead);
        }
        if volume.spec.as_ref().is_some_and(|it| it.local.is_some()) {
            let message = format!(
                "{named} is a local path, and its nodeAffinity admits other nodes, where its data is not"
            );
            return (Fate::StaysBehind, message);
        }
        if volume
            .spec
            .as_ref()
            .is_some_and(|it| it.host_path.is_some())
        {
            let message = format!(
                "{named} is a hostPath: its data stays on Node {dead}, and elsewhere the pod reads that node's path"
            );
            return (Fate::StaysBehind, message);
        }
        let modes = modes(volume).join(", ");
        let is_shared = is_for_many(volume);
        let attaches_nothing = self.unattached.contains(&source) || is_of_network(volume);
        match (is_shared, attaches_nothing) {
            (true, _) => (
                Fate::Shared,
                format!("{named} ({source}, {modes}) is mounted on the new node without a detach"),
            ),
            (false, true) => (
                Fate::Shared,
                format!(
                    "{named} ({source}, {modes}) is not attached: the new node mounts it with the pod"
                ),
            ),
            (false, false) => (
                Fate::Moves,
                format!(
                    "{named} ({source}, {modes}) is detached from Node {dead} under the taint, and attached where the pod starts"
                ),
            ),
        }
    }
}

/// No other node has the labels that the volume wants.
fn out_of_reach(
    named: &str,
    volume: &PersistentVolume,
    nodes: &[NodeView],
    dead: &str,
) -> (Fate, String) {
    let keys = affinity(volume).map(place::keys).unwrap_or_default();
    let own = nodes.iter().find(|it| it.name == dead);
    let zone = ZONES.into_iter().find(|it| keys.contains(it));
    let is_on_one = ONE_NODE.into_iter().any(|it| keys.contains(it))
        || volume.spec.as_ref().is_some_and(|it| it.local.is_some());
    match (is_on_one, zone) {
        (true, _) => (
            Fate::OnTheNode,
            format!(
                "{named} is on the disk of Node {dead} alone (nodeAffinity), so the next pod waits for the machine; restore it elsewhere, or use replicated storage"
            ),
        ),
        (false, Some(key)) => {
            let zone = own
                .and_then(|it| it.labels.get(key))
                .map_or("its zone", String::as_str);
            (
                Fate::OutOfReach,
                format!(
                    "{named} can be reached only in zone {zone}, which has no other node, so the next pod waits; add a node there"
                ),
            )
        }
        (false, None) => {
            let keys: Vec<&str> = keys.into_iter().collect();
            (
                Fate::OutOfReach,
                format!(
                    "{named} requires a node with labels {}, and there is no other one, so the next pod waits",
                    keys.join(", ")
                ),
            )
        }
    }
}

fn affinity(volume: &PersistentVolume) -> Option<&NodeSelector> {
    volume
        .spec
        .as_ref()?
        .node_affinity
        .as_ref()?
        .required
        .as_ref()
}

fn modes(volume: &PersistentVolume) -> Vec<String> {
    let modes = volume.spec.as_ref().and_then(|it| it.access_modes.clone());
    modes.unwrap_or_default()
}

/// May several nodes have it at once? Upstream's attach/detach asks the volume, and not the claim (`IsMultiAttachAllowed`,
/// `pkg/volume/util/util.go`, v1.36); of one without access modes it does not know either, and here that one moves.
fn is_for_many(volume: &PersistentVolume) -> bool {
    let modes = modes(volume);
    modes
        .iter()
        .any(|it| it == "ReadWriteMany" || it == "ReadOnlyMany")
}

/// The CSI driver, or the kind of the volume.
fn source(volume: &PersistentVolume) -> String {
    let Some(spec) = &volume.spec else {
        return String::new();
    };
    let csi = spec.csi.as_ref().map(|it| it.driver.clone());
    let other = [
        (spec.local.is_some(), "local"),
        (spec.host_path.is_some(), "hostPath"),
        (spec.nfs.is_some(), "nfs"),
        (spec.iscsi.is_some(), "iscsi"),
        (spec.fc.is_some(), "fc"),
    ];
    let other = || other.into_iter().find_map(|(is, what)| is.then_some(what));
    csi.unwrap_or_else(|| other().unwrap_or("of Kubernetes' own plugins").to_owned())
}

/// File servers that nothing is attached for.
fn is_of_network(volume: &PersistentVolume) -> bool {
    volume.spec.as_ref().is_some_and(|it| it.nfs.is_some())
}

/// A volume that the pod names itself, if it holds data: what it is, and what becomes of it.
fn inline(volume: &Volume) -> Option<(&'static str, Fate)> {
    let held = [
        (volume.nfs.is_some(), "nfs", Fate::Shared),
        (volume.cephfs.is_some(), "cephfs", Fate::Shared),
        (volume.glusterfs.is_some(), "glusterfs", Fate::Shared),
        (volume.csi.is_some(), "inline csi", Fate::Shared),
        (volume.iscsi.is_some(), "iscsi", Fate::Moves),
        (volume.fc.is_some(), "fc", Fate::Moves),
        (volume.rbd.is_some(), "rbd", Fate::Moves),
    ];
    held.into_iter()
        .find_map(|(is, what, fate)| is.then_some((what, fate)))
}

/// Does a container mount the volume so that it may write to it?
fn is_written(pod: &Pod, volume: &str) -> bool {
    let spec = pod.spec.as_ref();
    let containers = spec.iter().flat_map(|it| {
        it.containers
            .iter()
            .chain(it.init_containers.iter().flatten())
    });
    let mut mounts = containers.flat_map(|it| it.volume_mounts.iter().flatten());
    mounts.any(|it| it.name == volume && it.read_only != Some(true))
}
