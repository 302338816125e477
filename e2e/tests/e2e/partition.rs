//! Case 3: a node is cut off from the API server only. Its machine runs, its containers write, and nothing may be done.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use e2e::lab::{Kind, LIMIT, escalation};
use e2e::machine::Ailment;
use fencing_testbed::eventually::eventually;
use k8s_openapi::api::core::v1::Pod;

use crate::outage::{Outage, POD};

async fn partition_is_left_alone(kind: Kind) -> Result<()> {
    let Some(outage) = Outage::set("partition", kind, "ConfirmOnly").await? else {
        return Ok(());
    };
    let Outage { lab, node, .. } = &outage;
    let rig = outage.rig()?;

    rig.machine.ail(Ailment {
        partitioned: true,
        ..Ailment::default()
    });
    let still_on = |words: &str| words.contains(&format!("{node}-bmc reads On"));
    let fence = lab
        .wait_fence(
            node,
            |fence| matches!(escalation(fence), Some(("StillOn", words)) if still_on(words)),
        )
        .await?;
    let told = lab.wait_told(&fence, "StillOn").await?;
    ensure!(still_on(&told), "the event says `{told}`");
    // Each look at the power is a connection of its own: two more.
    let written = lab.volumes.writes(&outage.volume)?.len();
    let looks = || {
        let entries = rig.bmc.log().into_iter();
        let power = entries.filter(|entry| entry.path == rig.bmc.system_path());
        BTreeSet::from_iter(power.map(|entry| entry.connection)).len()
    };
    let before = looks();
    eventually("two more looks", LIMIT, async || {
        ensure!(looks() >= before + 2, "{before} looks, now {}", looks());
        Ok(())
    })
    .await?;
    ensure!(
        lab.volumes.writes(&outage.volume)?.len() > written,
        "the containers of the partitioned node must go on writing, or nothing was shown"
    );
    lab.hands_off().await?;

    rig.machine.ail(Ailment::default());
    let healed = lab.wait_stage(node, "SelfRecovered").await?;
    ensure!(healed.metadata.uid == fence.metadata.uid, "one incident");
    ensure!(
        escalation(&healed).is_none(),
        "nobody is called any more: {:?}",
        escalation(&healed)
    );
    lab.wait_told(&fence, "SelfRecovered").await?;
    let stayed = lab.workloads.api::<Pod>().get(POD).await?;
    ensure!(
        stayed.metadata.uid == outage.pod.metadata.uid
            && stayed.metadata.deletion_timestamp.is_none(),
        "the pod must have stayed"
    );
    lab.hands_off().await?;
    ensure!(rig.bmc.power_commands().is_empty());
    outage.verdict().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn simulated_node_partition_is_left_alone() -> Result<()> {
    partition_is_left_alone(Kind::Simulated).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_node_partition_is_left_alone() -> Result<()> {
    partition_is_left_alone(Kind::Real).await
}
