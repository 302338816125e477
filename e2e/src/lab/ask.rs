//! What a test asks of a lab besides the verdict: what was told, what was written to whom, who may take pods.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::events::v1::Event;
use kube::ResourceExt;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use serde_json::json;

use super::{LIMIT, Lab, condition, resource};
use crate::audit::Request;
use crate::proxy::writes::OUT_OF_SERVICE;
use crate::workload::node_of;
use fencing_testbed::eventually::eventually;

impl Lab {
    /// Waits for an Event about this object, with this reason, and returns its words.
    pub async fn wait_told(&self, object: &DynamicObject, reason: &str) -> Result<String> {
        self.wait_told_of(&object.name_any(), reason).await
    }

    /// The same about the object of this name.
    pub async fn wait_told_of(&self, name: &str, reason: &str) -> Result<String> {
        let events: Api<Event> = Api::all(self.control_plane.admin());
        let what = format!("an Event {reason} about {name}");
        eventually(&what, LIMIT, async || {
            let mut told = events.list(&ListParams::default()).await?.items;
            told.retain(|event| {
                let regarding = event.regarding.as_ref();
                regarding.is_some_and(|it| it.name.as_deref() == Some(name))
            });
            let reasons: Vec<_> = told.iter().map(|event| event.reason.clone()).collect();
            let is_it = |event: &Event| event.reason.as_deref() == Some(reason);
            let found = told.into_iter().find(is_it);
            let found = found.with_context(|| format!("there are {reasons:?}"))?;
            Ok(found.note.unwrap_or_default())
        })
        .await
    }

    /// The operator's writes to objects of one kind, such as `nodes`, successful or not.
    pub async fn writes_to(&self, plural: &str) -> Result<Vec<Request>> {
        let mut writes = self.writes().await?;
        writes.retain(|write| resource(write) == plural);
        Ok(writes)
    }

    /// The operator has written to no Node, deleted no pod and touched no VolumeAttachment, not even in vain.
    pub async fn hands_off(&self) -> Result<()> {
        for plural in ["nodes", "pods", "volumeattachments"] {
            let writes = self.writes_to(plural).await?;
            let summaries: Vec<_> = writes.iter().map(Request::summary).collect();
            ensure!(
                writes.is_empty(),
                "the operator wrote to {plural}: {summaries:?}"
            );
        }
        Ok(())
    }

    /// How often the operator has set `out-of-service` on this Node.
    pub async fn times_tainted(&self, node: &str) -> Result<usize> {
        let sets_it = |write: &Request| {
            let operations = write.request_object.as_array().cloned().unwrap_or_default();
            write.succeeded()
                && write.object_ref.name == node
                && operations
                    .iter()
                    .any(|one| one["op"] == "add" && one["value"]["key"] == OUT_OF_SERVICE)
        };
        let writes = self.writes_to("nodes").await?;
        Ok(writes.iter().filter(|write| sets_it(write)).count())
    }

    /// Whether the scheduler may bind pods to this node.
    pub async fn schedulable(&self, node: &str, yes: bool) -> Result<()> {
        let nodes: Api<Node> = Api::all(self.control_plane.admin());
        let patch = json!({"spec": {"unschedulable": !yes}});
        nodes
            .patch(node, &PatchParams::default(), &Patch::Merge(&patch))
            .await?;
        Ok(())
    }

    /// Names of the workloads' pods on this node.
    pub async fn pods_on(&self, node: &str) -> Result<Vec<String>> {
        let pods = self
            .workloads
            .api::<Pod>()
            .list(&ListParams::default())
            .await?;
        let here = pods.items.into_iter().filter(|pod| node_of(pod) == node);
        Ok(here.map(|pod| pod.name_any()).collect())
    }
}

/// Why a human is called to this NodeFence, if one is: reason and words.
pub fn escalation(fence: &DynamicObject) -> Option<(&str, &str)> {
    let escalated =
        condition(fence, "Escalated").filter(|condition| condition["status"] == "True")?;
    Some((
        escalated["reason"].as_str()?,
        escalated["message"].as_str()?,
    ))
}
