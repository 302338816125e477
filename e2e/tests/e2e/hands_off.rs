//! Case 7: without a policy, and with one that only observes, the operator writes to no Node, pod or VolumeAttachment.

use anyhow::{Context, Result, ensure};
use e2e::lab::{LIMIT, Lab, Setup, condition, stage};
use e2e::workload::{Template, node_of, wait_node_ready};
use serde_json::json;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hands_off_without_a_policy_and_while_observing() -> Result<()> {
    let lab = Lab::start(Setup::new("hands-off", 3)).await?;
    let operator = lab.operator().await?;
    lab.wait_protected().await?;
    lab.workloads
        .stateful_set("db", &Template::default())
        .await?;
    let pod = lab.workloads.wait_running("db-0", LIMIT).await?;
    let node = node_of(&pod).to_owned();
    let rig = lab.rig_of(&node)?;
    let mut others = lab.rigs.iter().map(|rig| &rig.machine);
    let other = others.find(|other| other.name() != node);
    let other = other.context("there are three machines")?;
    let admin = || lab.control_plane.admin();

    // Nobody asked for anything.
    rig.machine.set_power(false);
    wait_node_ready(admin(), &node, "Unknown", LIMIT).await?;
    // Another node fails later, and about that one somebody asks: when it is looked at, it would have been this one's turn.
    other.set_power(false);
    wait_node_ready(admin(), other.name(), "Unknown", LIMIT).await?;
    let only_other =
        json!({"nodeSelector": {"matchLabels": {"kubernetes.io/hostname": other.name()}}});
    lab.policy("Observe", only_other).await?;
    lab.wait_stage(other.name(), "Observing").await?;
    ensure!(lab.fence_of(&node).await?.is_none(), "nobody asked");
    lab.hands_off().await?;
    for machine in [&rig.machine, other] {
        machine.set_power(true);
        wait_node_ready(admin(), machine.name(), "True", LIMIT).await?;
    }

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
    // It stays so for as long as the node is down, while another one's outage comes and is seen.
    other.set_power(false);
    lab.wait_stage(other.name(), "Observing").await?;
    let still = lab.fence_of(&node).await?;
    ensure!(still.is_some_and(|still| stage(&still) == "Observing"));
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
