//! Case 4: a rack loses its power, and the BMC is as dark as its host. Silence is no proof.

use anyhow::{Result, ensure};
use e2e::lab::{LIMIT, escalation};
use fencing_testbed::bmc::Line;
use serde_json::{Value, json};

use crate::outage::{Outage, POD};

/// One try a round: somebody is called after the first round in vain.
pub fn impatient() -> Value {
    let levels = json!([{"name": "bmc", "attempts": 1, "retryPeriodSeconds": 1}]);
    json!({"fence": {"levels": levels}})
}

async fn rack_power_loss_waits_for_the_bmc(mode: &str) -> Result<()> {
    let outage = Outage::prepare("rack-power", mode, impatient()).await?;
    let bmc = &outage.rig()?.bmc;
    waits_for_the_bmc(&outage, |line| bmc.set_line(line)).await
}

/// The story, whatever the BMCs are.
pub async fn waits_for_the_bmc(
    outage: &Outage,
    set_line: impl Fn(Line) -> Result<()>,
) -> Result<()> {
    let Outage { lab, node, .. } = outage;
    let rig = outage.rig()?;

    set_line(Line::Dark)?;
    rig.machine.set_power(false);
    let names_it = |words: &str| words.contains(&format!("FenceDevice {node}-bmc"));
    let fence = lab
        .wait_fence(
            node,
            |fence| matches!(escalation(fence), Some(("DeviceFailed", words)) if names_it(words)),
        )
        .await?;
    let told = lab.wait_told(&fence, "DeviceFailed").await?;
    ensure!(names_it(&told), "the event says `{told}`");
    lab.hands_off().await?;

    // The BMC's power is back, and the machine stays off, as its restore policy wants it.
    set_line(Line::Up)?;
    lab.workloads
        .wait_running_elsewhere(POD, node, LIMIT)
        .await?;
    let recovered = lab.wait_stage(node, "Recovered").await?;
    ensure!(recovered.metadata.uid == fence.metadata.uid, "one incident");
    ensure!(escalation(&recovered).is_none());
    ensure!(lab.times_tainted(node).await? == 1);
    rig.machine.set_power(true);
    lab.silent_after_proof(&recovered).await?;
    outage.verdict().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rack_power_loss_waits_for_the_bmc_in_confirm_only() -> Result<()> {
    rack_power_loss_waits_for_the_bmc("ConfirmOnly").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rack_power_loss_waits_for_the_bmc_in_power_off() -> Result<()> {
    rack_power_loss_waits_for_the_bmc("PowerOff").await
}
