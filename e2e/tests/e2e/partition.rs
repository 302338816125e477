//! Case 3: a node is cut off from the API server only. Its machine runs, its containers write, and nothing may be done.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::lab::{Kind, LIMIT, Lab, Setup, escalation};
use e2e::machine::Ailment;
use e2e::workload::{Template, node_of};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

async fn partition_is_left_alone(kind: Kind) -> Result<()> {
    let setup = Setup::new("partition", 2).on(kind);
    let Some(lab) = Lab::start_if_available(setup).await? else {
        return Ok(());
    };
    let operator = lab.operator().await?;
    lab.wait_protected().await?;
    lab.policy("ConfirmOnly", json!({})).await?;
    let volume = lab
        .workloads
        .stateful_set("db", &Template::default())
        .await?;
    let pod = lab.workloads.wait_running("db-0", LIMIT).await?;
    let node = node_of(&pod).to_owned();
    let rig = lab.rig_of(&node)?;

    rig.machine.ail(Ailment {
        partitioned: true,
        ..Ailment::default()
    });
    let still_on = |words: &str| words.contains(&format!("{node}-bmc reads On"));
    let fence = lab
        .wait_fence(
            &node,
            |fence| matches!(escalation(fence), Some(("StillOn", words)) if still_on(words)),
        )
        .await?;
    let told = lab.wait_told(&fence, "StillOn").await?;
    ensure!(still_on(&told), "the event says `{told}`");
    // It is looked at again every 5 s: twice more.
    let written = lab.volumes.writes(&volume)?.len();
    tokio::time::sleep(Duration::from_secs(11)).await;
    ensure!(
        lab.volumes.writes(&volume)?.len() > written,
        "the containers of the partitioned node must go on writing, or nothing was shown"
    );
    lab.hands_off().await?;

    rig.machine.ail(Ailment::default());
    let healed = lab.wait_stage(&node, "SelfRecovered").await?;
    ensure!(healed.metadata.uid == fence.metadata.uid, "one incident");
    ensure!(
        escalation(&healed).is_none(),
        "nobody is called any more: {:?}",
        escalation(&healed)
    );
    lab.wait_told(&fence, "SelfRecovered").await?;
    let stayed = lab.workloads.api::<Pod>().get("db-0").await?;
    ensure!(
        stayed.metadata.uid == pod.metadata.uid && stayed.metadata.deletion_timestamp.is_none(),
        "the pod must have stayed"
    );
    lab.hands_off().await?;
    ensure!(rig.bmc.power_commands().is_empty());
    operator.check()?;
    lab.verdict().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn simulated_node_partition_is_left_alone() -> Result<()> {
    partition_is_left_alone(Kind::Simulated).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_node_partition_is_left_alone() -> Result<()> {
    partition_is_left_alone(Kind::Real).await
}
