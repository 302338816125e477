//! What a timeline tells about each kind of object.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::api::DynamicObject;
use kube::{Resource, ResourceExt};
use serde_json::Value;

use super::What;
use crate::workload;

/// A kind of object that timelines tell about.
pub(super) trait Told: Resource {
    /// How it is called in the timeline.
    fn subject(&self) -> String;
    /// What is true of it.
    fn facts(&self) -> BTreeSet<What>;
}

impl Told for Node {
    fn subject(&self) -> String {
        format!("node/{}", self.name_any())
    }

    fn facts(&self) -> BTreeSet<What> {
        let ready = workload::ready_status(self).map(|status| What::Ready(status.to_owned()));
        let info = self
            .status
            .as_ref()
            .and_then(|status| status.node_info.as_ref());
        let boot_id = info.map(|info| What::BootId(info.boot_id.clone()));
        let taints = self
            .spec
            .iter()
            .flat_map(|spec| spec.taints.iter().flatten());
        let taints = taints.map(|taint| {
            let value = taint
                .value
                .iter()
                .map(|value| format!("={value}"))
                .collect::<String>();
            What::Taint(format!("{}{value}:{}", taint.key, taint.effect))
        });
        ready.into_iter().chain(boot_id).chain(taints).collect()
    }
}

impl Told for Pod {
    fn subject(&self) -> String {
        format!("pod/{}", self.name_any())
    }

    fn facts(&self) -> BTreeSet<What> {
        let mut facts = BTreeSet::new();
        let node = workload::node_of(self).to_owned();
        if self.metadata.deletion_timestamp.is_some() {
            facts.insert(What::Terminating);
        } else if workload::is_ready(self) {
            facts.insert(What::Running(node.clone()));
        }
        if !node.is_empty() {
            facts.insert(What::Bound(node));
        }
        if let Some(status) = self
            .status
            .as_ref()
            .filter(|status| status.phase.as_deref() == Some("Failed"))
        {
            facts.insert(What::Failed(status.reason.clone().unwrap_or_default()));
        }
        facts
    }
}

impl Told for VolumeAttachment {
    fn subject(&self) -> String {
        let volume = self
            .spec
            .source
            .persistent_volume_name
            .as_deref()
            .unwrap_or("?");
        format!("volume/{volume} on {}", self.spec.node_name)
    }

    fn facts(&self) -> BTreeSet<What> {
        let mut facts = BTreeSet::new();
        let attached = self.status.as_ref().is_some_and(|status| status.attached);
        facts.insert(if attached {
            What::Attached
        } else {
            What::Attaching
        });
        if self.metadata.deletion_timestamp.is_some() {
            facts.remove(&What::Attaching);
            facts.insert(What::Detaching);
        }
        let error = self
            .status
            .as_ref()
            .and_then(|status| status.detach_error.as_ref());
        facts.extend(
            error
                .and_then(|error| error.message.clone())
                .map(What::DetachError),
        );
        facts
    }
}

/// A NodeFence: the lab does not know the operator's types.
impl Told for DynamicObject {
    fn subject(&self) -> String {
        format!("fence/{}", self.name_any())
    }

    fn facts(&self) -> BTreeSet<What> {
        let conditions = self
            .data
            .pointer("/status/conditions")
            .and_then(Value::as_array);
        let succeeded = conditions
            .into_iter()
            .flatten()
            .find(|condition| condition["type"] == "Succeeded");
        let stage = succeeded.and_then(|condition| condition["reason"].as_str());
        stage
            .map(|stage| What::Stage(stage.to_owned()))
            .into_iter()
            .collect()
    }
}
