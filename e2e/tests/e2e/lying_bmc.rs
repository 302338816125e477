//! S22: a BMC that is wired to another machine accepts the off command, and says Off ever after.
//!
//! The node's own machine runs on, and its containers write. Its kubelet hangs, so neither Ready nor boot ID nor Lease will
//! ever tell: all that is left is that the kubelet's port answers. Real nodes only, since simulated ones have no port.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::bmc::{Effect, Entry, Reading};
use e2e::lab::{Kind, LIMIT, Lab, Setup, escalation, has_taint, stage};
use e2e::machine::Ailment;
use e2e::proxy::writes::CLAIM;
use e2e::workload::{Template, node_of};
use serde_json::json;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_node_whose_bmc_turned_another_machine_off_is_not_tainted() -> Result<()> {
    let setup = Setup::new("lying-bmc", 2).on(Kind::Real);
    let Some(lab) = Lab::start_if_available(setup).await? else {
        return Ok(());
    };
    let operator = lab.operator().await?;
    lab.wait_protected().await?;
    lab.policy("PowerOff", json!({})).await?;
    let volume = lab
        .workloads
        .stateful_set("db", &Template::default())
        .await?;
    let pod = lab.workloads.wait_running("db-0", LIMIT).await?;
    let node = node_of(&pod).to_owned();
    let rig = lab.rig_of(&node)?;

    rig.bmc.faults(|faults| faults.effect = Effect::Ignored);
    rig.machine.ail(Ailment {
        kubelet_hung: true,
        ..Ailment::default()
    });
    let is_off = |entry: &Entry| entry.reset_type.is_some();
    rig.bmc.wait_for(LIMIT, is_off).await?;
    rig.bmc
        .faults(|faults| faults.power_state = Reading::Says(json!("Off")));
    let by_its_port = |words: &str| words.contains("the kubelet's port answers");
    let fence = lab
        .wait_fence(&node, |fence| {
            matches!(escalation(fence), Some(("FenceContradiction", words)) if by_its_port(words))
        })
        .await?;
    let told = lab.wait_told(&fence, "FenceContradiction").await?;
    ensure!(by_its_port(&told), "the event says `{told}`");
    let written = lab.volumes.writes(&volume)?.len();
    tokio::time::sleep(Duration::from_secs(1)).await;
    ensure!(
        lab.volumes.writes(&volume)?.len() > written,
        "the containers must go on writing, or nothing was shown"
    );

    // The BMC is wired right, and the kubelet comes back by itself.
    rig.bmc.heal()?;
    rig.machine.ail(Ailment::default());
    let closed = |stage: &str| ["SelfRecovered", "Aborted"].contains(&stage);
    lab.wait_fence(&node, |fence| closed(stage(fence))).await?;
    lab.wait_node(&node, "the claim is gone", |node| !has_taint(node, CLAIM))
        .await?;
    ensure!(lab.times_tainted(&node).await? == 0, "it was tainted");
    operator.check()?;
    lab.verdict().await
}
