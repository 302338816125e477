//! The answer to `status`: machines, and where the pods are.

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::ListParams;

use super::Prompt;
use crate::lab::{stage, taints};
use crate::workload::{is_ready, node_of, ready_status};

impl Prompt {
    /// Prints it.
    pub(super) async fn status(&self) -> Result<()> {
        println!("{:<10} {:<6} {:<9} taints", "node", "power", "Ready");
        for rig in &self.lab.rigs {
            let name = rig.machine.name();
            let node = self.lab.node(name).await?;
            let power = if rig.machine.is_on() { "on" } else { "OFF" };
            let ready = ready_status(&node).unwrap_or("-");
            let taints = taints(&node).join(" ");
            println!("{name:<10} {power:<6} {ready:<9} {taints}");
            let ailment = self.ailments.get(name);
            if let Some(ailment) = ailment.filter(|ailment| **ailment != Default::default()) {
                let (cable, kubelet) = (ailment.partitioned, ailment.kubelet_hung);
                println!("{:<10} partitioned: {cable}, kubelet hung: {kubelet}", "");
            }
            if let Some(fence) = self.lab.fence_of(name).await? {
                println!("{:<10} {}: {}", "", fence.name_any(), stage(&fence));
            }
        }
        let pods = self.lab.workloads.api::<Pod>();
        for pod in pods.list(&ListParams::default()).await? {
            let state = match (&pod.metadata.deletion_timestamp, is_ready(&pod)) {
                (Some(_), _) => "Terminating",
                (None, true) => "Running",
                (None, false) => "not ready",
            };
            println!("{} {state} on {}", pod.name_any(), node_of(&pod));
        }
        Ok(())
    }
}
