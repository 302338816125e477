//! Case 1: a node loses power, its BMC answers, and its StatefulSet runs elsewhere with its volume.

use std::time::Instant;

use anyhow::{Result, ensure};
use e2e::lab::{Kind, LIMIT, Lab, Setup, condition, has_taint};
use e2e::operator::Operator;
use e2e::proxy::writes::{CLAIM, OUT_OF_SERVICE, QUARANTINE};
use e2e::workload::{Template, node_of};
use jiff::Timestamp;
use kube::core::DynamicObject;
use serde_json::json;

async fn power_cut_moves_the_volume(kind: Kind) -> Result<()> {
    match Lab::start_if_available(Setup::new("power-cut", 2).on(kind)).await? {
        Some(lab) => power_cut(&lab).await,
        None => Ok(()),
    }
}

/// The story, whatever the machines and the BMCs are.
pub async fn power_cut(lab: &Lab) -> Result<()> {
    power_cut_before(lab, &lab.operator().await?).await
}

/// The same before an operator that runs.
pub async fn power_cut_before(lab: &Lab, operator: &Operator) -> Result<()> {
    lab.wait_protected().await?;
    lab.policy("ConfirmOnly", json!({})).await?;
    lab.workloads
        .stateful_set("db", &Template::default())
        .await?;
    let pod = lab.workloads.wait_running("db-0", LIMIT).await?;
    let node = node_of(&pod).to_owned();
    let rig = lab.rig_of(&node)?;

    let (cut, cut_at) = (Instant::now(), Timestamp::now());
    rig.machine.set_power(false);
    let moved = lab
        .workloads
        .wait_running_elsewhere("db-0", &node, LIMIT)
        .await?;
    eprintln!(
        "{:.1} s from power cut to Running on {}",
        cut.elapsed().as_secs_f64(),
        node_of(&moved)
    );
    let fence = lab.wait_stage(&node, "Recovered").await?;
    // The benchmark counts from this write.
    let unknown = lab.control_plane.audit().became_unknown(&node, cut_at)?;
    ensure!(
        unknown.user.username == "system:serviceaccount:kube-system:node-controller",
        "{}",
        unknown.summary()
    );
    ensure!(condition(&fence, "Succeeded").is_some_and(|succeeded| succeeded["status"] == "True"));
    ensure!(condition(&fence, "NodeConfirmedDown").is_some_and(|down| down["status"] == "True"));
    let readings = fence.data["status"]["evidence"]["readings"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    ensure!(
        readings.len() >= 2
            && readings
                .iter()
                .rev()
                .take(2)
                .all(|reading| reading["powerState"] == "Off")
    );

    let released = lab.node(&node).await?;
    ensure!(
        !has_taint(&released, OUT_OF_SERVICE)
            && !has_taint(&released, CLAIM)
            && has_taint(&released, QUARANTINE)
    );
    ensure!(
        lab.times_tainted(&node).await? == 1,
        "out-of-service was not set exactly once"
    );
    let nodes = lab.writes_to("nodes").await?;
    ensure!(
        nodes.len() == 3,
        "claim, taint and release are three writes, not {}",
        nodes.len()
    );

    back(lab, &node, &fence).await?;
    operator.check()?;
    lab.verdict().await
}

/// The machine has power again, and no sign of life was seen in between.
async fn back(lab: &Lab, node: &str, fence: &DynamicObject) -> Result<()> {
    lab.rig_of(node)?.machine.set_power(true);
    lab.wait_node(node, "the quarantine is lifted", |node| {
        !has_taint(node, QUARANTINE)
    })
    .await?;
    lab.silent_after_proof(fence).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn simulated_node_power_cut_moves_the_volume() -> Result<()> {
    power_cut_moves_the_volume(Kind::Simulated).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_node_power_cut_moves_the_volume() -> Result<()> {
    power_cut_moves_the_volume(Kind::Real).await
}

/// L1: the policy waits for ten minutes, and for no machine that is off.
async fn off_is_not_waited_for(kind: Kind, mode: &str) -> Result<()> {
    let Some(lab) = Lab::start_if_available(Setup::new("off-early", 2).on(kind)).await? else {
        return Ok(());
    };
    let operator = lab.operator().await?;
    lab.wait_protected().await?;
    let patient = json!({
        "unhealthyConditions": [{"type": "Ready", "status": "Unknown", "durationSeconds": 600}],
        "durationPolicy": "SkipIfOff",
    });
    lab.policy(mode, patient).await?;
    lab.workloads
        .stateful_set("db", &Template::default())
        .await?;
    let pod = lab.workloads.wait_running("db-0", LIMIT).await?;
    let node = node_of(&pod).to_owned();
    let rig = lab.rig_of(&node)?;

    let (cut, cut_at) = (Instant::now(), Timestamp::now());
    rig.machine.set_power(false);
    lab.workloads
        .wait_running_elsewhere("db-0", &node, LIMIT)
        .await?;
    let running = (cut.elapsed(), Timestamp::now());
    let fence = lab.wait_stage(&node, "Recovered").await?;
    let unknown = lab.control_plane.audit().became_unknown(&node, cut_at)?;
    eprintln!(
        "{mode}: Running elsewhere {:.1} s after the power cut, {:.1} s after Ready=Unknown",
        running.0.as_secs_f64(),
        running.1.duration_since(unknown.answered).as_secs_f64()
    );
    let early = fence.data["spec"]["trigger"]["earlySeconds"].as_u64();
    ensure!(
        early.is_some_and(|early| (400..=600).contains(&early)),
        "{early:?} s early"
    );

    back(&lab, &node, &fence).await?;
    operator.check()?;
    lab.verdict().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn simulated_node_whose_machine_is_off_is_not_waited_for() -> Result<()> {
    off_is_not_waited_for(Kind::Simulated, "PowerOff").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_node_whose_machine_is_off_is_not_waited_for() -> Result<()> {
    off_is_not_waited_for(Kind::Real, "ConfirmOnly").await
}
