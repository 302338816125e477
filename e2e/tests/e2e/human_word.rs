//! A human's word that a machine is off, where no device can say so: believed on a dark rack, refused by a device that reads On.

use anyhow::{Result, ensure};
use e2e::lab::{Kind, LIMIT, escalation};
use e2e::machine::Ailment;
use fencing_testbed::bmc::Line;
use jiff::Timestamp;
use kube::api::DynamicObject;
use serde_json::json;

use crate::outage::{Outage, POD, name};

/// What docs/how-to/manual.md says to do.
async fn confirm(outage: &Outage, fence: &DynamicObject) -> Result<()> {
    let kubectl = &outage.lab.control_plane;
    let me = [
        "auth",
        "whoami",
        "-o",
        "jsonpath={.status.userInfo.username}",
    ];
    let me = kubectl.kubectl_text(&me).await?;
    let node = outage.lab.node(&outage.node).await?;
    let word = json!({
        "statement": "IVerifiedTheNodeIsPoweredOff", "nodeUID": node.metadata.uid,
        "user": me, "reason": "both cables in my hand", "time": Timestamp::now().to_string(),
    });
    let patch = json!({"spec": {"manualConfirmation": word}}).to_string();
    let command = ["patch", "nf", name(fence)?, "--type", "merge", "-p", &patch];
    kubectl.kubectl_text(&command).await.map(drop)
}

/// A NodeFence that calls somebody for this reason, with words that say so.
pub async fn called(outage: &Outage, reason: &str, says: &str) -> Result<DynamicObject> {
    let Outage { lab, node, .. } = outage;
    let calls = |fence: &DynamicObject| {
        escalation(fence).is_some_and(|(why, words)| why == reason && words.contains(says))
    };
    lab.wait_fence(node, calls).await
}

async fn word_frees_the_volume_of_a_dark_rack(mode: &str) -> Result<()> {
    let levels = json!([{"name": "bmc", "attempts": 1, "retryPeriodSeconds": 1}]);
    let policy = json!({"fence": {"levels": levels}});
    let outage = Outage::prepare("human-word", mode, policy).await?;
    let Outage { lab, node, .. } = &outage;
    let rig = outage.rig()?;

    rig.bmc.set_line(Line::Dark)?;
    rig.machine.set_power(false);
    let fence = called(&outage, "DeviceFailed", "`spec.manualConfirmation`").await?;
    lab.hands_off().await?;

    confirm(&outage, &fence).await?;
    lab.workloads
        .wait_running_elsewhere(POD, node, LIMIT)
        .await?;
    let recovered = lab.wait_stage(node, "Recovered").await?;
    let evidence = &recovered.data["status"]["evidence"]["readings"];
    ensure!(
        evidence[0]["raw"] == "confirmed by admin",
        "the record must name who said so: {evidence:#}"
    );
    ensure!(rig.bmc.power_commands().is_empty());
    rig.bmc.set_line(Line::Up)?;
    rig.machine.set_power(true);
    lab.silent_after_proof(&recovered).await?;
    outage.verdict().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn word_frees_the_volume_of_a_dark_rack_in_confirm_only() -> Result<()> {
    word_frees_the_volume_of_a_dark_rack("ConfirmOnly").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn word_frees_the_volume_of_a_dark_rack_in_power_off() -> Result<()> {
    word_frees_the_volume_of_a_dark_rack("PowerOff").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn word_is_refused_while_a_device_reads_on() -> Result<()> {
    let outage = Outage::set("word-refused", Kind::Simulated, "ConfirmOnly").await?;
    let outage = outage.expect("simulated machines are always to be had");
    let Outage { lab, node, .. } = &outage;
    let machine = &outage.rig()?.machine;
    machine.ail(Ailment {
        partitioned: true,
        ..Ailment::default()
    });
    let fence = called(&outage, "StillOn", node).await?;
    // Whoever is about to give a word can see that.
    let read = &fence.data["status"]["powerReadings"];
    let device = json!(format!("{node}-bmc"));
    ensure!(
        read[0]["device"] == device && read[0]["powerState"] == "On" && read[1].is_null(),
        "{read:#}"
    );
    confirm(&outage, &fence).await?;
    let refused = called(
        &outage,
        "ConfirmationRefused",
        &format!("{node}-bmc reads On"),
    )
    .await?;
    lab.wait_told(&refused, "ConfirmationRefused").await?;
    lab.hands_off().await?;
    machine.ail(Ailment::default());
    lab.wait_stage(node, "SelfRecovered").await?;
    lab.hands_off().await?;
    outage.verdict().await
}
