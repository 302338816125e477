//! Case 7: without a policy, and with one that only observes, the operator writes to no Node, pod or VolumeAttachment.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::lab::{LIMIT, Lab, Setup, condition, stage};
use e2e::workload::{Template, node_of, wait_node_ready};
use serde_json::json;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hands_off_without_a_policy_and_while_observing() -> Result<()> {
    let lab = Lab::start(Setup::new("hands-off", 2)).await?;
    let operator = lab.operator().await?;
    lab.wait_protected().await?;
    lab.workloads
        .stateful_set("db", &Template::default())
        .await?;
    let pod = lab.workloads.wait_running("db-0", LIMIT).await?;
    let node = node_of(&pod).to_owned();
    let rig = lab.rig_of(&node)?;
    let admin = || lab.control_plane.admin();

    // Nobody asked for anything.
    rig.machine.set_power(false);
    wait_node_ready(admin(), &node, "Unknown", LIMIT).await?;
    tokio::time::sleep(Duration::from_secs(12)).await; // a policy of the lab would have acted after 10 s
    ensure!(lab.fence_of(&node).await?.is_none(), "nobody asked");
    lab.hands_off().await?;
    rig.machine.set_power(true);
    wait_node_ready(admin(), &node, "True", LIMIT).await?;

    // Somebody wants to see what would be done.
    lab.policy("Observe", json!({})).await?;
    rig.machine.set_power(false);
    let fence = lab.wait_stage(&node, "Observing").await?;
    let words = condition(&fence, "Succeeded").map(|stage| stage["message"].clone());
    let words = words.as_ref().and_then(|words| words.as_str());
    let words = words.unwrap_or_default();
    ensure!(
        words.contains("would be fenced") && words.contains("Observe"),
        "it says `{words}`"
    );
    let told = lab.wait_told(&fence, "Observing").await?;
    ensure!(told == words, "the event says `{told}`");
    // It stays so for as long as the node is down.
    tokio::time::sleep(Duration::from_secs(5)).await;
    lab.wait_stage(&node, "Observing").await?;
    lab.hands_off().await?;
    rig.machine.set_power(true);
    let closed = lab
        .wait_fence(&node, |fence| {
            condition(fence, "Succeeded").is_some_and(|succeeded| succeeded["status"] == "False")
        })
        .await?;
    ensure!(closed.metadata.uid == fence.metadata.uid, "one incident");
    ensure!(
        matches!(stage(&closed), "SelfRecovered" | "Aborted"),
        "closed as {}",
        stage(&closed)
    );
    wait_node_ready(admin(), &node, "True", LIMIT).await?;

    lab.hands_off().await?;
    for rig in &lab.rigs {
        ensure!(rig.bmc.power_commands().is_empty());
    }
    operator.check()?;
    lab.verdict().await
}
