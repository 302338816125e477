//! What a test waits for: a NodeFence's stage, a Node's taints, the protection of every machine.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DynamicObject};

use super::{LIMIT, Lab, stage, taints};

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
        let begin = Instant::now();
        loop {
            let fence = self.fence_of(node).await?;
            match fence {
                Some(fence) if wanted(&fence) => return Ok(fence),
                fence if begin.elapsed() > LIMIT => {
                    let shown = fence
                        .map(|fence| serde_json::to_string_pretty(&fence.data).unwrap_or_default());
                    bail!(
                        "the NodeFence of {node} did not become as wanted; it is {}",
                        shown.unwrap_or_else(|| "not there".to_owned())
                    )
                }
                _ => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
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
        let begin = Instant::now();
        loop {
            let node = self.node(name).await?;
            if wanted(&node) {
                return Ok(node);
            }
            ensure!(
                begin.elapsed() < LIMIT,
                "{name}: {what} did not come true; taints {:?}",
                taints(&node)
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until the operator has pinned the identity of every machine: it is protected from now on.
    pub async fn wait_protected(&self) -> Result<()> {
        let begin = Instant::now();
        loop {
            let devices = self.api("FenceDevice").list(&Default::default()).await?;
            let pinned = |device: &&DynamicObject| {
                device.data["status"]["systems"]
                    .as_array()
                    .is_some_and(|systems| !systems.is_empty())
            };
            if devices.items.iter().filter(pinned).count() >= self.rigs.len() {
                return Ok(());
            }
            ensure!(
                begin.elapsed() < LIMIT,
                "not all identities were pinned: {:#?}",
                devices
                    .items
                    .iter()
                    .map(|device| &device.data["status"])
                    .collect::<Vec<_>>()
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}
