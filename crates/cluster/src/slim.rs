//! Kubernetes objects with only the fields that this operator reads, and what they are to the core.
//!
//! A full Node costs 135 KB in a cache, a VolumeAttachment 18 KB. What a cache keeps is made of the types of the quorum reads, so that a decision
//! and a cache can never read a field differently.

mod cached;
mod lease;
mod list;
mod meta;
mod pods;
mod wide;
mod workloads;

pub use cached::{CachedAttachment, CachedNode};
use fencing_core::early::mark;
use fencing_core::observed::{AttachmentView, ConditionView, NodeView, TaintView};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::Resource;
use kube::api::ObjectMeta;
pub use lease::{SlimLease, SlimLeaseSpec};
pub use list::{Attachments, ListHead, attachments_of};
pub use pods::pod_view;
use serde::{Deserialize, Deserializer};
pub use wide::WideNode;
pub use workloads::{SlimContainer, SlimDeployment, SlimPod};

/// Where a node's kubelet listens, as its Node says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kubelet {
    /// Name of the Node.
    pub node: String,
    /// An IP address, if the Node is right.
    pub address: String,
    /// Its port.
    pub port: u16,
}

/// A Node.
#[derive(Clone, Debug, Default, Deserialize, Resource)]
#[resource(inherit = Node)]
#[serde(default)]
pub struct SlimNode {
    /// Standard metadata, without `managedFields`.
    #[serde(deserialize_with = "meta::lean")]
    pub metadata: ObjectMeta,
    /// Spec.
    pub spec: SlimNodeSpec,
    /// Status.
    pub status: SlimNodeStatus,
}

/// Spec of a Node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SlimNodeSpec {
    /// Taints.
    pub taints: Option<Vec<SlimTaint>>,
    /// Cordoned.
    pub unschedulable: Option<bool>,
    /// Whose machine it is, for a cloud controller manager.
    #[serde(rename = "providerID")]
    pub provider_id: Option<String>,
}

/// A taint, with its time as text: it is tested for equality, never read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SlimTaint {
    /// Key.
    pub key: String,
    /// Value.
    pub value: Option<String>,
    /// Effect.
    pub effect: String,
    /// `timeAdded` as the API server prints it.
    pub time_added: Option<String>,
}

/// Status of a Node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SlimNodeStatus {
    /// Conditions.
    pub conditions: Option<Vec<SlimCondition>>,
    /// Boot ID and system UUID.
    pub node_info: SlimNodeInfo,
    /// Volumes that attach/detach believes attached.
    pub volumes_attached: Option<Vec<serde::de::IgnoredAny>>,
    /// Addresses, for the look at the kubelet's port, and to tell machines apart.
    pub addresses: Option<Vec<SlimAddress>>,
    /// Port of the kubelet.
    pub daemon_endpoints: SlimEndpoints,
}

/// A condition of a Node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SlimCondition {
    /// Type.
    #[serde(rename = "type")]
    pub type_: String,
    /// Status.
    pub status: String,
    /// When the status last changed, as text; null is allowed.
    pub last_transition_time: Option<String>,
    /// When it was last reported, as text; null is allowed.
    pub last_heartbeat_time: Option<String>,
    /// Its reason is [`mark::REASON`]. No other is kept.
    #[serde(rename = "reason", deserialize_with = "is_ours")]
    pub is_ours: bool,
}

fn is_ours<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    let reason = Option::<String>::deserialize(deserializer)?;
    Ok(reason.as_deref() == Some(mark::REASON))
}

/// What the kubelet says of its machine.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct SlimNodeInfo {
    /// Boot ID.
    #[serde(rename = "bootID")]
    pub boot_id: String,
    /// SMBIOS system UUID.
    #[serde(rename = "systemUUID")]
    pub system_uuid: String,
}

/// An address of a Node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct SlimAddress {
    /// Type, such as `InternalIP`.
    #[serde(rename = "type")]
    pub type_: String,
    /// Address.
    pub address: String,
}

/// Ports of a Node's daemons.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SlimEndpoints {
    /// The kubelet's.
    pub kubelet_endpoint: SlimPort,
}

/// A port.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct SlimPort {
    /// Number, 0 if unknown.
    #[serde(rename = "Port")]
    pub port: u16,
}

impl SlimNode {
    /// The Node as the core sees it.
    pub fn view(&self) -> NodeView {
        let is_going = self.metadata.deletion_timestamp.is_some();
        NodeView {
            name: self.metadata.name.clone().unwrap_or_default(),
            uid: self.metadata.uid.clone().unwrap_or_default(),
            labels: self.metadata.labels.clone().unwrap_or_default(),
            annotation_keys: self
                .metadata
                .annotations
                .iter()
                .flat_map(|annotations| annotations.keys().cloned())
                .collect(),
            unschedulable: self.spec.unschedulable.unwrap_or_default(),
            taints: self
                .spec
                .taints
                .iter()
                .flatten()
                .map(SlimTaint::view)
                .collect(),
            conditions: self
                .status
                .conditions
                .iter()
                .flatten()
                .map(SlimCondition::view)
                .collect(),
            boot_id: self.status.node_info.boot_id.clone(),
            system_uuid: self.status.node_info.system_uuid.clone(),
            provider_id: self.spec.provider_id.clone().unwrap_or_default(),
            addresses: self.ip_addresses(),
            volumes_attached: self.status.volumes_attached.as_ref().map_or(0, Vec::len),
            reported_early: self.is_reported_early(),
            resource_version: self.metadata.resource_version.clone().unwrap_or_default(),
            finalizers: self.metadata.finalizers.clone().unwrap_or_default(),
            deleting: is_going,
        }
    }

    /// When it was created.
    pub fn created(&self) -> Option<Timestamp> {
        self.metadata.creation_timestamp.as_ref().map(|time| time.0)
    }

    /// Is its Ready True?
    pub fn is_ready(&self) -> bool {
        let mut conditions = self.status.conditions.iter().flatten();
        conditions.any(|it| it.type_ == "Ready" && it.status == "True")
    }

    /// Is its Ready what the operator itself has set (`earlyDetection`)?
    pub fn is_reported_early(&self) -> bool {
        let mut conditions = self.status.conditions.iter().flatten();
        conditions.any(|it| it.type_ == "Ready" && it.is_ours && it.status != "True")
    }

    /// Its addresses that are no names.
    fn ip_addresses(&self) -> Vec<String> {
        let all = self.status.addresses.iter().flatten();
        let of_machine = all.filter(|it| ["InternalIP", "ExternalIP"].contains(&it.type_.as_str()));
        of_machine.map(|it| it.address.clone()).collect()
    }

    /// Where the kubelet listens, if it reported that.
    pub fn kubelet(&self) -> Option<Kubelet> {
        let port = self.status.daemon_endpoints.kubelet_endpoint.port;
        let addresses = self.status.addresses.as_ref()?;
        let address = addresses
            .iter()
            .find(|address| address.type_ == "InternalIP")?;
        (port != 0).then(|| Kubelet {
            node: self.metadata.name.clone().unwrap_or_default(),
            address: address.address.clone(),
            port,
        })
    }

    /// Drops what nobody reads before the object goes into a cache: annotation values.
    pub fn trim(&mut self) {
        for value in self
            .metadata
            .annotations
            .iter_mut()
            .flat_map(|map| map.values_mut())
        {
            *value = String::new();
        }
    }
}

impl SlimTaint {
    fn view(&self) -> TaintView {
        TaintView {
            key: self.key.clone(),
            value: self.value.clone(),
            effect: self.effect.clone(),
            time_added: self.time_added.clone(),
        }
    }
}

impl SlimCondition {
    fn view(&self) -> ConditionView {
        ConditionView {
            kind: self.type_.clone(),
            status: self.status.clone(),
            transition: self.last_transition_time.clone().unwrap_or_default(),
            heartbeat: self.last_heartbeat_time.clone().unwrap_or_default(),
        }
    }
}

/// A VolumeAttachment.
#[derive(Clone, Debug, Default, Deserialize, Resource)]
#[resource(inherit = VolumeAttachment)]
#[serde(default)]
pub struct SlimAttachment {
    /// Standard metadata, without `managedFields`.
    #[serde(deserialize_with = "meta::lean")]
    pub metadata: ObjectMeta,
    /// Spec.
    pub spec: SlimAttachmentSpec,
    /// Status.
    pub status: SlimAttachmentStatus,
}

/// Spec of a VolumeAttachment.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SlimAttachmentSpec {
    /// CSI driver.
    pub attacher: String,
    /// Node.
    pub node_name: String,
    /// Volume.
    pub source: SlimSource,
}

/// What is attached.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SlimSource {
    /// PersistentVolume; none for an inline volume.
    pub persistent_volume_name: Option<String>,
}

/// Status of a VolumeAttachment.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SlimAttachmentStatus {
    /// It is attached.
    pub attached: bool,
    /// Why the last attach failed.
    pub attach_error: Option<Box<SlimError>>,
    /// Why the last detach failed.
    pub detach_error: Option<Box<SlimError>>,
}

/// An error of attacher or driver.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct SlimError {
    /// In the driver's words.
    pub message: Option<String>,
}

impl SlimAttachment {
    /// The VolumeAttachment as the core sees it.
    pub fn view(&self) -> AttachmentView {
        let detach_error = self.status.detach_error.as_ref();
        AttachmentView {
            name: self.metadata.name.clone().unwrap_or_default(),
            uid: self.metadata.uid.clone().unwrap_or_default(),
            attacher: self.spec.attacher.clone(),
            volume: self.volume().unwrap_or_default().to_owned(),
            deleting: self.is_deleting(),
            detach_error: detach_error.map(|error| error.message.clone().unwrap_or_default()),
        }
    }

    /// The PersistentVolume; none for an inline volume.
    pub fn volume(&self) -> Option<&str> {
        self.spec.source.persistent_volume_name.as_deref()
    }

    /// Is it being deleted?
    pub fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Why the last detach failed.
    pub fn refusal(&self) -> Option<&str> {
        self.status.detach_error.as_ref()?.message.as_deref()
    }
}

#[cfg(test)]
mod tests;
