//! What is amiss while every node is well: a device and a policy that would not act, a pause without an end, and another component that may fence.

use anyhow::{Result, ensure};
use fencing_testbed::eventually::eventually;
use serde_json::json;

use super::scene::{LATE, Scene, node};

/// A FenceDevice whose Secret does not exist, beside that of a node which could not be fenced anyway.
const DEVICE: &str = "no-secret";
/// A policy of no node that takes rights which the operator has not been given.
const UNSUPPORTED: &str = "unsupported";
/// A policy of no node that is paused.
const PAUSED: &str = "paused";

impl Scene {
    pub async fn some_are_not_ready(&self) -> Result<()> {
        let device = json!({
            "nodeName": node("stranger")?,
            "credentialsRef": {"name": "missing"},
            "redfish": {"address": self.rig("stranger")?.bmc.url()},
        });
        self.lab.apply("FenceDevice", DEVICE, device).await?;
        let no_node = json!({"matchLabels": {"lab/case": "none"}});
        let unsupported = json!({"nodeSelector": no_node, "recovery": {"strategy": "DeleteNode"}});
        self.lab
            .policy_named(UNSUPPORTED, "PowerOff", unsupported)
            .await?;
        let paused = json!({"nodeSelector": no_node, "pauseRequests": [{"name": "lab"}]});
        self.lab.policy_named(PAUSED, "PowerOff", paused).await
    }

    pub async fn readiness_is_told(&self) -> Result<()> {
        let device = [("device", DEVICE), ("reason", "CredentialsInvalid")];
        self.fires("FenceDeviceNotReady", &device).await?;
        let policy = [("policy", UNSUPPORTED), ("reason", "Unsupported")];
        self.fires("NodeFencingPolicyNotReady", &policy).await?;
        let paused = [("policy", PAUSED)];
        self.fires("NodeFencingPausedWithoutEnd", &paused).await
    }

    /// Their series end with them.
    pub async fn all_are_ready_again(&self) -> Result<()> {
        for (kind, name) in [
            ("FenceDevice", DEVICE),
            ("NodeFencingPolicy", UNSUPPORTED),
            ("NodeFencingPolicy", PAUSED),
        ] {
            let objects = self.lab.api(kind);
            objects.delete(name, &Default::default()).await?;
        }
        self.resolves("FenceDeviceNotReady", &[("device", DEVICE)])
            .await?;
        self.resolves("NodeFencingPolicyNotReady", &[]).await?;
        self.resolves("NodeFencingPausedWithoutEnd", &[]).await
    }

    /// The policy of the spare node says so when it next looks at the caches, within a minute or so.
    pub async fn another_fencer_is_told(&self) -> Result<()> {
        let gauge = "node_fencing_other_fencers{policy=\"spare\", system=\"kured\"} == 1";
        eventually("kured is reported", LATE, async || {
            let found = self.prometheus.query(gauge).await?;
            ensure!(!found.is_empty(), "the gauge has no such series");
            Ok(())
        })
        .await
    }
}
