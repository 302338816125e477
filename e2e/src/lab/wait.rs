//! What a test waits for: a NodeFence's stage, a Node's taints, the protection of every machine.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DynamicObject};
use serde_json::Value;

use super::{LIMIT, Lab, stage, taints};
use fencing_testbed::eventually::eventually;

impl Lab {
    /// The newest NodeFence of a node.
    pub async fn fence_of(&self, node: &str) -> Result<Option<DynamicObject>> {
        let all = self.api("NodeFence").list(&Default::default()).await?;
        let of_node = all
            .items
            .into_iter()
            .filter(|fence| fence.data["spec"]["nodeName"] == node);
        Ok(of_node.max_by_key(|fence| fence.metadata.creation_timestamp.clone()))
    }

    /// Waits until the newest NodeFence of a node is as wanted, and returns it.
    pub async fn wait_fence(
        &self,
        node: &str,
        wanted: impl Fn(&DynamicObject) -> bool,
    ) -> Result<DynamicObject> {
        let what = format!("the NodeFence of {node} is as wanted");
        eventually(&what, LIMIT, async || {
            let fence = self.fence_of(node).await?.context("it is not there")?;
            ensure!(
                wanted(&fence),
                "it is {}",
                serde_json::to_string_pretty(&fence.data)?
            );
            Ok(fence)
        })
        .await
    }

    /// Waits until the newest NodeFence of a node is in this stage.
    pub async fn wait_stage(&self, node: &str, wanted: &str) -> Result<DynamicObject> {
        let wanted = wanted.to_owned();
        let waiting_for = wanted.clone();
        self.wait_fence(node, move |fence| stage(fence) == wanted)
            .await
            .with_context(|| format!("waited for stage {waiting_for}"))
    }

    /// The Node.
    pub async fn node(&self, name: &str) -> Result<Node> {
        Ok(Api::<Node>::all(self.control_plane.admin())
            .get(name)
            .await?)
    }

    /// Waits until the Node is as wanted.
    pub async fn wait_node(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(&Node) -> bool,
    ) -> Result<Node> {
        let what = format!("{name}: {what}");
        eventually(&what, LIMIT, async || {
            let node = self.node(name).await?;
            ensure!(wanted(&node), "its taints are {:?}", taints(&node));
            Ok(node)
        })
        .await
    }

    /// Waits until the operator has pinned the identity of every machine: it is protected from now on. Where no device can name one, until a
    /// device has read On of each.
    pub async fn wait_protected(&self) -> Result<()> {
        eventually("all machines are protected", LIMIT, async || {
            let devices = self
                .api("FenceDevice")
                .list(&Default::default())
                .await?
                .items;
            let is_named = devices.iter().any(names_machines);
            let rows = |device: &DynamicObject| -> Vec<Value> {
                let status = &device.data["status"];
                let rows = match is_named {
                    true => status["systems"].as_array(),
                    false => status["positiveControls"].as_array(),
                };
                rows.cloned().unwrap_or_default()
            };
            let rows = devices.iter().flat_map(rows);
            let counted = rows.filter(|row| is_named || row["powerState"] == "On");
            let statuses: Vec<_> = devices.iter().map(|it| &it.data["status"]).collect();
            ensure!(counted.count() >= self.rigs.len(), "they are {statuses:#?}");
            Ok(())
        })
        .await
    }
}

/// Has the device to name the system that it is asked for? (`identityCheck: Required`, the default.)
fn names_machines(device: &DynamicObject) -> bool {
    let check = device.data["spec"]["identityCheck"].as_str();
    check.is_none_or(|it| it == "Required")
}
