//! `powerOn.policy: AfterRecovery`: what the operator has turned off it turns on again after the release, unless somebody says no.

use anyhow::{Result, ensure};
use e2e::lab::{LIMIT, condition, has_taint};
use e2e::machine::Ailment;
use e2e::proxy::writes::{CLAIM, OUT_OF_SERVICE, QUARANTINE};
use e2e::workload::wait_node_ready;
use fencing_testbed::bmc::Bmc;
use fencing_testbed::ipmi::Effect;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::ipmi;
use crate::outage::{Outage, let_go, name};

/// Chassis Control, power up.
const POWER_UP: u8 = 1;

/// Turned on so long after the release.
pub fn after(seconds: u32) -> Value {
    json!({"powerOn": {"policy": "AfterRecovery", "delaySeconds": seconds, "timeoutSeconds": 300}})
}

/// The kubelet hangs, and the volume has moved elsewhere.
async fn hangs_and_is_fenced(outage: &Outage) -> Result<()> {
    outage.rig()?.machine.ail(Ailment {
        kubelet_hung: true,
        ..Ailment::default()
    });
    let workloads = &outage.lab.workloads;
    workloads
        .wait_running_elsewhere("db-0", &outage.node, LIMIT)
        .await
        .map(drop)
}

/// The node is Ready again in another boot, nothing of ours is on it, and the record tells of an off and an on.
async fn comes_back(outage: &Outage, boot: &str) -> Result<DynamicObject> {
    let Outage { lab, node, .. } = outage;
    let fence = lab.wait_stage(node, "Recovered").await?;
    wait_node_ready(lab.control_plane.admin(), node, "True", LIMIT).await?;
    ensure!(outage.rig()?.machine.boot_id() != boot, "it has not booted");
    let is_free = |node: &_| {
        [CLAIM, OUT_OF_SERVICE, QUARANTINE].map(|key| has_taint(node, key)) == [false; 3]
    };
    lab.wait_node(node, "nothing of ours", is_free).await?;
    let says = condition(&fence, "Succeeded").and_then(|it| it["message"].as_str());
    ensure!(
        says.is_some_and(|says| says.contains("its machine was turned on")),
        "{says:?}"
    );
    let attempts = fence.data["status"]["attempts"].as_array().cloned();
    let attempts = attempts.unwrap_or_default();
    let told: Vec<_> = attempts
        .iter()
        .map(|it| (&it["action"], &it["result"]))
        .collect();
    let (off, on) = (json!("PowerOff"), json!("PowerOn"));
    let succeeded = json!("Succeeded");
    ensure!(
        told == [(&off, &succeeded), (&on, &succeeded)],
        "{attempts:#?}"
    );
    Ok(fence)
}

/// The reset types that a BMC has received.
pub fn resets(bmc: &Bmc) -> Vec<String> {
    let commands = bmc.power_commands().into_iter();
    commands.map(|command| command.reset_type).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn simulated_node_is_turned_on_again_over_redfish() -> Result<()> {
    let outage = Outage::prepare("turned-on-redfish", "PowerOff", after(2)).await?;
    let boot = outage.rig()?.machine.boot_id();
    hangs_and_is_fenced(&outage).await?;
    let fence = comes_back(&outage, &boot).await?;
    ensure!(resets(&outage.rig()?.bmc) == ["ForceOff", "On"]);
    outage.lab.silent_after_proof(&fence).await?;
    outage.verdict().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn simulated_node_is_turned_on_again_over_ipmi() -> Result<()> {
    let (outage, bmcs) = Outage::by("turned-on-ipmi", "PowerOff", after(2), async |lab| {
        ipmi::own(lab).await
    })
    .await?;
    let boot = outage.rig()?.machine.boot_id();
    hangs_and_is_fenced(&outage).await?;
    comes_back(&outage, &boot).await?;
    let bmc = ipmi::of(&outage.lab, &bmcs, &outage.node)?;
    let commands = ipmi::commands(bmc);
    ensure!(
        commands == [(ipmi::POWER_DOWN, true), (POWER_UP, true)],
        "{commands:?}"
    );
    outage.verdict().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_device_that_ignores_the_on_is_told_twice_and_somebody_is_called() -> Result<()> {
    let outage = Outage::prepare("on-ignored", "PowerOff", after(5)).await?;
    let Outage { lab, node, .. } = &outage;
    hangs_and_is_fenced(&outage).await?;
    lab.wait_stage(node, "PoweringOn").await?;
    let bmc = &outage.rig()?.bmc;
    bmc.faults(|faults| faults.effect = Effect::Ignored);
    let is_called = |fence: &DynamicObject| {
        let escalated = condition(fence, "Escalated");
        escalated.is_some_and(|it| it["status"] == "True" && it["reason"] == "PowerOnFailed")
    };
    let fence = lab.wait_fence(node, is_called).await?;
    let told = lab.wait_told(&fence, "PowerOnFailed").await?;
    ensure!(
        told.contains(&format!("{node}-bmc")) && told.contains("2 of 2 commands"),
        "the event says `{told}`"
    );
    ensure!(resets(bmc) == ["ForceOff", "On", "On"], "{:?}", resets(bmc));
    // Whoever has seen to it lets the incident go.
    let_go(lab, name(&fence)?).await?;
    lab.wait_stage(node, "Recovered").await?;
    ensure!(resets(bmc).len() == 3 && !outage.rig()?.machine.is_on());
    ensure!(has_taint(&lab.node(node).await?, QUARANTINE));
    outage.verdict().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_lets_go_within_the_pause_finds_the_machine_off() -> Result<()> {
    let outage = Outage::prepare("released-before-on", "PowerOff", after(600)).await?;
    let Outage { lab, node, .. } = &outage;
    hangs_and_is_fenced(&outage).await?;
    let fence = lab.wait_stage(node, "PoweringOn").await?;
    ensure!(!has_taint(&lab.node(node).await?, OUT_OF_SERVICE));
    let_go(lab, name(&fence)?).await?;
    let ended = lab.wait_stage(node, "Recovered").await?;
    let says = condition(&ended, "Succeeded").and_then(|it| it["message"].as_str());
    ensure!(
        says.is_some_and(|says| says.contains("not turned on") && says.contains("Released")),
        "{says:?}"
    );
    ensure!(resets(&outage.rig()?.bmc) == ["ForceOff"]);
    ensure!(!outage.rig()?.machine.is_on());
    ensure!(has_taint(&lab.node(node).await?, QUARANTINE));
    outage.verdict().await
}
