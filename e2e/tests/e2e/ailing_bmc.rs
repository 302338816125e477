//! A BMC that obeys late, and then undoes what it was told; over IPMI. The node is cut off, and its containers go on writing.
//!
//! The off command is accepted and lands when its time is long over: unresolved until then (S23), and nobody has to do anything
//! about it. When the node's volumes are being detached, the BMC powers the machine on, as its restore policy wants it, and does it again
//! after each command (F33 to F40): two are sent, and no third one.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::lab::{LIMIT, Lab, Setup, condition, escalation, has_taint};
use e2e::machine::Ailment;
use e2e::proxy::writes::OUT_OF_SERVICE;
use fencing_testbed::ipmi::{Effect, IpmiBmc};
use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::human_word::called;
use crate::ipmi;
use crate::outage::{Outage, POD};

/// From an off command that took effect until the BMC powers the machine on again.
const RESTORED_AFTER: Duration = Duration::from_secs(2);
/// A command that was decided on has been sent by then.
const COMMANDED_WITHIN: Duration = Duration::from_secs(2);

/// The first off command, as the record has it.
fn first_attempt(fence: &DynamicObject) -> Result<Value> {
    let attempts = fence.data["status"]["attempts"].as_array();
    let first = attempts.and_then(|attempts| attempts.first()).cloned();
    first.context("an off command stands in the record")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn off_that_lands_late_is_resolved_and_one_that_is_undone_is_sent_twice_more() -> Result<()> {
    let lab = Lab::start(Setup::new("stubborn-bmc", 2)).await?;
    let bmcs = ipmi::own(&lab).await?;
    let once =
        json!([{"name": "bmc", "attempts": 1, "retryPeriodSeconds": 1, "timeoutSeconds": 10}]);
    let outage = Outage::of(lab, "PowerOff", json!({"fence": {"levels": once}})).await?;
    let bmc = ipmi::of(&outage.lab, &bmcs, &outage.node)?;
    outage.rig()?.machine.ail(Ailment {
        partitioned: true,
        ..Ailment::default()
    });

    lands_late(&outage, bmc).await?;
    is_restored_again_and_again(&outage, bmc).await?;
    outage.verdict().await
}

/// What the BMC has accepted it does only when a human is on the way.
async fn lands_late(outage: &Outage, bmc: &IpmiBmc) -> Result<()> {
    let Outage { lab, node, .. } = outage;
    bmc.faults(|faults| faults.effect = Effect::Ignored);
    let unresolved = format!("power-off of FenceDevice {node}-bmc pending");
    let fence = called(outage, "DeviceFailed", &unresolved).await?;
    let told = lab.wait_told(&fence, "DeviceFailed").await?;
    ensure!(told.contains(&unresolved), "the event says `{told}`");
    let attempt = first_attempt(&fence)?;
    ensure!(
        attempt["result"] == "TimedOut" && attempt["completionTime"].is_null(),
        "it stays open: {attempt:#}"
    );
    ensure!(
        attempt["message"]
            .as_str()
            .is_some_and(|words| words.contains("power on")),
        "{attempt:#}"
    );
    ensure!(lab.times_tainted(node).await? == 0, "it was tainted");
    ensure!(outage.rig()?.machine.is_on());

    // It lands. The detach does not end, so that the taint stays for what follows.
    lab.control_plane.array().hang_detach().await?;
    outage.rig()?.machine.set_power(false);
    let is_resolved = |fence: &DynamicObject| {
        let escalated = condition(fence, "Escalated");
        let is_over =
            escalated.is_some_and(|it| it["status"] == "False" && it["reason"] == "Resolved");
        is_over && e2e::lab::stage(fence) == "Detaching"
    };
    lab.wait_fence(node, is_resolved).await?;
    Ok(())
}

/// Two commands, each undone, and then the taint stays and a human is called.
async fn is_restored_again_and_again(outage: &Outage, bmc: &IpmiBmc) -> Result<()> {
    let Outage { lab, node, .. } = outage;
    let machine = &outage.rig()?.machine;
    bmc.faults(|faults| {
        faults.effect = Effect::AtOnce;
        faults.restores_after = Some(RESTORED_AFTER);
    });
    let before = ipmi::commands(bmc).len();
    machine.set_power(true);
    let fence = called(outage, "FenceRegressed", "no further command is sent").await?;
    let told = lab.wait_told(&fence, "FenceRegressed").await?;
    ensure!(
        told.contains(&format!("{node}-bmc reads On")),
        "the event says `{told}`"
    );
    tokio::time::sleep(COMMANDED_WITHIN).await;
    let commands = ipmi::commands(bmc).split_off(before);
    ensure!(
        commands == [(ipmi::POWER_DOWN, true); 2],
        "off again, twice: {commands:?}"
    );
    ensure!(machine.is_on());
    ensure!(has_taint(&lab.node(node).await?, OUT_OF_SERVICE));
    lab.volumes_are_whole().await?;

    // Somebody pulls the plug, and the storage has done its work.
    machine.set_power(false);
    lab.control_plane.array().clear_faults().await?;
    lab.workloads
        .wait_running_elsewhere(POD, node, 3 * LIMIT)
        .await?;
    let recovered = lab.wait_stage(node, "Recovered").await?;
    ensure!(escalation(&recovered).is_none());
    ensure!(!first_attempt(&recovered)?["completionTime"].is_null());
    ensure!(lab.times_tainted(node).await? == 1);
    lab.silent_after_proof(&recovered).await
}
