//! A Node with what only the plugin reads of it: what it has to give, and what kubelet and attach/detach say of its volumes. No cache holds it.

use super::{SlimNode, SlimNodeSpec, SlimNodeStatus};
use fencing_core::observed::{NodeView, Ready};
use k8s_openapi::api::core::v1::{AttachedVolume, Node};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::Resource;
use kube::api::ObjectMeta;
use serde::Deserialize;
use std::collections::BTreeMap;

/// A Node.
#[derive(Clone, Debug, Default, Deserialize, Resource)]
#[resource(inherit = Node)]
#[serde(default)]
pub struct WideNode {
    /// Standard metadata.
    pub metadata: ObjectMeta,
    /// Spec.
    pub spec: SlimNodeSpec,
    /// Status.
    pub status: WideNodeStatus,
}

/// Status of a Node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct WideNodeStatus {
    /// What the operator reads of it.
    #[serde(flatten)]
    pub known: SlimNodeStatus,
    /// What it has to give.
    pub allocatable: BTreeMap<String, Quantity>,
    /// What attach/detach believes attached, by unique name, such as `kubernetes.io/csi/DRIVER^HANDLE`.
    pub volumes_attached: Option<Vec<AttachedVolume>>,
    /// What the kubelet has mounted, by unique name.
    pub volumes_in_use: Option<Vec<String>>,
}

impl WideNode {
    /// The Node as the core sees it.
    pub fn view(&self) -> NodeView {
        let node = SlimNode {
            metadata: self.metadata.clone(),
            spec: self.spec.clone(),
            status: self.status.known.clone(),
        };
        NodeView {
            volumes_attached: self.status.volumes_attached.as_ref().map_or(0, Vec::len),
            ..node.view()
        }
    }

    /// Is its kubelet silent, or not ready?
    pub fn is_down(&self) -> bool {
        self.view().ready() != Ready::True
    }

    /// Does it bear `out-of-service`, or what the operator sets in its place?
    pub fn is_marked(&self) -> bool {
        self.view().marked_by().is_some()
    }

    /// Is it neither down nor marked?
    pub fn is_well(&self) -> bool {
        !self.is_down() && !self.is_marked()
    }

    /// Does the kubelet say that it has the volume mounted?
    pub fn has_in_use(&self, unique: &str) -> bool {
        let mut names = self.status.volumes_in_use.iter().flatten();
        names.any(|it| it == unique)
    }

    /// Does attach/detach believe it attached there?
    pub fn has_attached(&self, unique: &str) -> bool {
        let mut volumes = self.status.volumes_attached.iter().flatten();
        volumes.any(|it| it.name == unique)
    }
}
