//! Everything that guides to storage have a reader look up by hand, of one pod, claim or node: its events, who uses the volume and where, what the
//! volume is, who has it attached, and whether somebody is there who would detach it.

mod text;

use super::attachers;
use super::backends::{self, Backend};
use super::facts::Facts;
use super::index::{Index, time};
use super::scope::{Kind, Scope};
use fencing_cluster::slim::{SlimAttachment, SlimPod, WideNode};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::ResourceExt;
use schemars::JsonSchema;
use serde::Serialize;

/// Events of a pod that are shown, the latest.
const EVENTS_MAX: usize = 5;

/// The checklist.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Checklist {
    /// The node that was asked about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeSheet>,
    /// The pods: the one that was asked about, or those of the claim.
    pub pods: Vec<PodSheet>,
    /// The claims.
    pub claims: Vec<ClaimSheet>,
    /// Of which objects not all could be read: that they are not shown says nothing.
    pub gaps: Vec<Gap>,
}

/// Objects of which not all could be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub enum Gap {
    /// Pods.
    Pods,
    /// VolumeAttachments.
    Attachments,
    /// NodeFences.
    Fences,
}

fn gaps(facts: &Facts) -> Vec<Gap> {
    let all = [
        (Gap::Pods, facts.pods.is_complete()),
        (Gap::Attachments, facts.attachments.is_complete()),
        // Where they are no kind of the cluster, there is none.
        (
            Gap::Fences,
            facts.fences.is_complete() || !facts.is_installed(),
        ),
    ];
    let gaps = all.into_iter().filter(|(_, is_complete)| !is_complete);
    gaps.map(|(gap, _)| gap).collect()
}

/// A node.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeSheet {
    /// Its name.
    pub name: String,
    /// Ready, since when, and whether it is marked.
    pub state: String,
    /// It is not Ready.
    #[serde(skip)]
    pub is_down: bool,
    /// The open NodeFence of it.
    pub fence: Option<String>,
    /// Volumes that the kubelet has mounted.
    pub volumes_in_use: usize,
    /// VolumeAttachments of it.
    pub attachments: Vec<AttachmentSheet>,
}

/// A pod.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodSheet {
    /// `namespace/name`.
    pub name: String,
    /// Its phase, or Terminating.
    pub state: String,
    /// Its node.
    pub node: Option<String>,
    /// How that is.
    pub node_state: Option<String>,
    /// Who makes it.
    pub owner: String,
    /// How a Deployment replaces it.
    pub strategy: Option<String>,
    /// Why the scheduler finds no node for it, by its latest look.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<String>,
    /// What has been said of it, the latest last.
    pub events: Vec<EventSheet>,
}

/// An event.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventSheet {
    /// When it was last seen.
    #[schemars(with = "Option<String>")]
    pub time: Option<Timestamp>,
    /// Its reason.
    pub reason: String,
    /// Its words.
    pub message: String,
}

/// A claim, and all that hangs on it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimSheet {
    /// `namespace/name`.
    pub name: String,
    /// Its phase.
    pub phase: String,
    /// Its access modes.
    pub access_modes: Vec<String>,
    /// The StorageClass, with provisioner, binding and reclaim policy.
    pub storage_class: Option<String>,
    /// The PersistentVolume.
    pub volume: Option<VolumeSheet>,
    /// Pods that use it.
    pub pods: Vec<String>,
    /// Its VolumeAttachments.
    pub attachments: Vec<AttachmentSheet>,
    /// Its CSI driver.
    pub driver: Option<DriverSheet>,
    /// Its row of the backend matrix.
    pub backend: Option<&'static Backend>,
}

/// A volume.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSheet {
    /// Its name.
    pub name: String,
    /// Its phase.
    pub phase: String,
    /// What the storage calls it.
    pub handle: Option<String>,
    /// It can be reached from some nodes only.
    pub node_affinity: bool,
}

/// A VolumeAttachment.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AttachmentSheet {
    /// Its name.
    pub name: String,
    /// Its volume.
    pub volume: Option<String>,
    /// Its node.
    pub node: String,
    /// Attached, attaching, or detaching.
    pub state: &'static str,
    /// The driver's last error.
    pub error: Option<String>,
}

/// A CSI driver.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DriverSheet {
    /// Its name.
    pub name: String,
    /// Are its volumes attached, by its CSIDriver? None: there is none.
    pub attach_required: Option<bool>,
    /// Nodes that have it.
    pub nodes: usize,
    /// Nodes of this claim's pods that do not.
    pub missing_on: Vec<String>,
    /// Who attaches and detaches for it.
    pub attachers: Vec<String>,
    /// Is it known that they are this driver's?
    pub attachers_known: bool,
}

/// Of the object that was asked about; none: of no one object.
pub fn checklist(index: &Index<'_>, scope: &Scope) -> Option<Checklist> {
    let Scope::One(kind, namespace, name) = scope else {
        return None;
    };
    let (pods, claims): (Vec<&SlimPod>, Vec<String>) = match kind {
        Kind::Node => {
            let node = index.node(name)?;
            return Some(Checklist {
                node: Some(of_node(index, node)),
                gaps: gaps(index.facts),
                ..Checklist::default()
            });
        }
        Kind::Claim => (index.users(namespace, name).to_vec(), vec![name.clone()]),
        Kind::Pod => {
            let pod = index.pod(namespace, name);
            let claims = pod.map(SlimPod::claims);
            (pod.into_iter().collect(), claims.unwrap_or_default())
        }
    };
    Some(Checklist {
        node: None,
        pods: pods.iter().map(|it| of_pod(index, it)).collect(),
        claims: claims
            .iter()
            .map(|it| of_claim(index, namespace, it))
            .collect(),
        gaps: gaps(index.facts),
    })
}

fn of_node(index: &Index<'_>, node: &WideNode) -> NodeSheet {
    let name = node.name_any();
    let attachments = index.attachments_on(&name).iter();
    NodeSheet {
        state: index.state(node),
        is_down: node.is_down(),
        fence: index.fence(&name).map(ResourceExt::name_any),
        volumes_in_use: node.status.volumes_in_use.as_ref().map_or(0, Vec::len),
        attachments: attachments.map(|it| of_attachment(it)).collect(),
        name,
    }
}

fn of_pod(index: &Index<'_>, pod: &SlimPod) -> PodSheet {
    let node = pod.spec.node_name.clone();
    let machine = node.as_deref().and_then(|it| index.node(it));
    let events = index.events(pod);
    let events = events.iter().rev().take(EVENTS_MAX).rev();
    PodSheet {
        name: pod.full_name(),
        state: match pod.is_deleting() {
            true => "Terminating".to_owned(),
            false => pod.status.phase.clone(),
        },
        node_state: machine.map(|it| index.state(it)),
        node,
        owner: index.owner(pod).to_string(),
        strategy: index.rollout(pod).map(|it| it.strategy().to_owned()),
        scheduler: pod.unschedulable().map(ToOwned::to_owned),
        events: events
            .map(|it| EventSheet {
                time: time(it),
                reason: it.reason.clone().unwrap_or_default(),
                message: it.message.clone().unwrap_or_default(),
            })
            .collect(),
    }
}

fn of_claim(index: &Index<'_>, namespace: &str, name: &str) -> ClaimSheet {
    let claim = index.claim(namespace, name);
    let status = claim.and_then(|it| it.status.as_ref());
    let spec = claim.and_then(|it| it.spec.as_ref());
    let volume = index.volume_of(namespace, name);
    let object = volume.and_then(|it| index.volume(it));
    let users = index.users(namespace, name);
    let attachments = volume.map(|it| index.attachments(it)).unwrap_or_default();
    let driver = volume.and_then(|it| index.driver(it));
    let class = claim.and_then(|it| class(index, it));
    let provisioner = class.as_ref().map(|(provisioner, _)| provisioner.as_str());
    let by_class = || provisioner.and_then(backends::of_provisioner);
    ClaimSheet {
        name: format!("{namespace}/{name}"),
        phase: status
            .and_then(|it| it.phase.clone())
            .unwrap_or_else(|| "not known".to_owned()),
        access_modes: spec
            .and_then(|it| it.access_modes.clone())
            .unwrap_or_default(),
        volume: object.map(of_volume),
        pods: users.iter().map(|it| it.full_name()).collect(),
        attachments: attachments.iter().map(|it| of_attachment(it)).collect(),
        driver: driver.map(|it| of_driver(index, it, users)),
        backend: object.and_then(backends::of_volume).or_else(by_class),
        storage_class: class.map(|(_, words)| words),
    }
}

/// Its provisioner, and all of it in words.
fn class(index: &Index<'_>, claim: &PersistentVolumeClaim) -> Option<(String, String)> {
    let name = claim.spec.as_ref()?.storage_class_name.as_ref()?;
    let mut classes = index.facts.classes.items.iter();
    let class = classes.find(|it| it.name_any() == *name)?;
    let binding = class.volume_binding_mode.as_deref().unwrap_or("Immediate");
    let reclaim = class.reclaim_policy.as_deref().unwrap_or("Delete");
    let words = format!(
        "{name}: {}, {binding}, reclaim {reclaim}",
        class.provisioner
    );
    Some((class.provisioner.clone(), words))
}

fn of_volume(volume: &PersistentVolume) -> VolumeSheet {
    let spec = volume.spec.as_ref();
    let csi = spec.and_then(|it| it.csi.as_ref());
    let phase = volume.status.as_ref().and_then(|it| it.phase.clone());
    VolumeSheet {
        name: volume.name_any(),
        phase: phase.unwrap_or_default(),
        handle: csi.map(|it| it.volume_handle.clone()),
        node_affinity: spec.is_some_and(|it| it.node_affinity.is_some()),
    }
}

fn of_attachment(attachment: &SlimAttachment) -> AttachmentSheet {
    let status = &attachment.status;
    let error = status
        .detach_error
        .as_ref()
        .or(status.attach_error.as_ref());
    AttachmentSheet {
        name: attachment.name_any(),
        volume: attachment.volume().map(ToOwned::to_owned),
        node: attachment.spec.node_name.clone(),
        state: match (attachment.is_deleting(), status.attached) {
            (true, _) => "detaching",
            (false, true) => "attached",
            (false, false) => "attaching",
        },
        error: error.and_then(|it| it.message.clone()),
    }
}

fn of_driver(index: &Index<'_>, name: &str, users: &[&SlimPod]) -> DriverSheet {
    let mut drivers = index.facts.drivers.items.iter();
    let object = drivers.find(|it| it.name_any() == name);
    let csi_nodes = index.facts.csi_nodes.items.iter();
    let having = csi_nodes.filter(|it| it.spec.drivers.iter().any(|it| it.name == name));
    let having: Vec<String> = having.map(ResourceExt::name_any).collect();
    let nodes = users.iter().filter_map(|it| it.spec.node_name.clone());
    let is_complete = index.facts.csi_nodes.is_complete();
    let serving = attachers::of(index, name);
    let attachers = serving.pods.iter();
    DriverSheet {
        name: name.to_owned(),
        attach_required: object.map(|it| it.spec.attach_required.unwrap_or(true)),
        nodes: having.len(),
        missing_on: nodes
            .filter(|it| is_complete && !having.contains(it))
            .collect(),
        attachers: attachers.map(|it| attachers::told(index, it)).collect(),
        attachers_known: serving.is_sure,
    }
}
