//! Parts of the control plane that are not there in the middle of a fence: the quorum of etcd (F46), the controller-manager (F55).

use anyhow::{Result, ensure};
use e2e::control_plane::Component;
use e2e::lab::{LIMIT, Lab, Setup, has_taint, stage};
use e2e::proxy::Record;
use e2e::proxy::writes::{self, OUT_OF_SERVICE};
use fencing_testbed::eventually::eventually;
use fencing_testbed::process::Signal;
use serde_json::json;

use crate::outage::{Outage, POD};

async fn outage(name: &str, mode: &str) -> Result<Outage> {
    let lab = Lab::start(Setup::new(name, 2).alone()).await?;
    Outage::of(lab, mode, json!({})).await
}

/// The API server that the operator talks to lives, and is cut off from the others: what it remembers it tells, what has to be agreed upon
/// it cannot. Everything else is done that comes before the command: the claim is to be read once more, which fails after longer than its
/// answer would be good for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_quorum_nothing_is_commanded() -> Result<()> {
    let outage = outage("minority", "PowerOff").await?;
    let rig = outage.rig()?;
    let look = outage.cut_and_hold_before_the_command().await?;
    outage
        .lab
        .control_plane
        .signal_component(Component::Etcd, Signal::STOP)?;
    let before = outage.proxy.log().len();
    look.release();
    // It has asked in vain, until it knows that it leads no more.
    eventually("it leads no more", LIMIT, async || {
        ensure!(!outage.operator.leads().await?, "it does");
        Ok(())
    })
    .await?;
    ensure!(rig.bmc.power_commands().is_empty(), "it has commanded");
    let asks = writes::read_node().of(&outage.node);
    let log = outage.proxy.log();
    let mut asked = log.iter().skip(before);
    let is_in_vain =
        |record: &Record| asks.matches(&record.seen) && record.upstream_status != Some(200);
    ensure!(asked.any(is_in_vain), "it has not asked");

    outage
        .lab
        .control_plane
        .signal_component(Component::Etcd, Signal::CONT)?;
    outage.lab.wait_stage(&outage.node, "Recovered").await?;
    ensure!(rig.bmc.power_commands().len() == 1);
    outage
        .lab
        .workloads
        .wait_running_elsewhere(POD, &outage.node, LIMIT)
        .await?;
    outage.verdict().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_controller_manager_the_taint_stays() -> Result<()> {
    let outage = outage("no-manager", "ConfirmOnly").await?;
    let taint = outage.proxy.hold(writes::taint());
    outage.power(false)?;
    taint.wait_arrived(LIMIT).await?;
    let plane = &outage.lab.control_plane;
    plane.stop_component(Component::ControllerManager)?;
    taint.release();
    // The node has come back, and still nobody has detached anything.
    outage.lab.wait_stage(&outage.node, "Detaching").await?;
    outage.restore().await?;
    let looks = outage.proxy.log().len();
    eventually("it looks again and again", LIMIT, async || {
        let log = outage.proxy.log();
        let reads = writes::read_node().of(&outage.node);
        let since = log.iter().skip(looks);
        let count = since.filter(|record| reads.matches(&record.seen)).count();
        ensure!(count >= 3, "{count} times");
        Ok(())
    })
    .await?;
    ensure!(has_taint(
        &outage.lab.node(&outage.node).await?,
        OUT_OF_SERVICE
    ));
    let open = outage.lab.fence_of(&outage.node).await?;
    ensure!(open.is_some_and(|open| stage(&open) == "Detaching"));

    plane.start_component(Component::ControllerManager).await?;
    outage.lab.wait_stage(&outage.node, "Recovered").await?;
    outage.lab.workloads.wait_running(POD, LIMIT).await?;
    outage.verdict().await
}
