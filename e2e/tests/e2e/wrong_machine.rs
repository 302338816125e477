//! Case 8: another machine answers at the BMC's address. Nothing is commanded, and both UUIDs are named.

use anyhow::{Result, ensure};
use e2e::lab::{LIMIT, escalation};
use serde_json::json;

use crate::outage::{Outage, POD};

/// A machine that is not of the lab.
pub const STRANGER: &str = "d1a2b3c4-0e5f-4a6b-8c7d-9e0f1a2b3c4d";

async fn wrong_machine_is_refused(mode: &str) -> Result<()> {
    let outage = Outage::prepare("wrong-machine", mode, json!({})).await?;
    let bmc = &outage.rig()?.bmc;
    let swap = async || {
        bmc.faults(|faults| faults.uuid = Some(json!(STRANGER)));
        Ok(())
    };
    is_refused(&outage, swap, async |()| {
        let commands = bmc.power_commands();
        ensure!(
            commands.is_empty(),
            "another machine was commanded: {commands:?}"
        );
        bmc.heal()
    })
    .await
}

/// The story, whatever the BMCs are: how the cables are swapped, and put right again if nothing was commanded. What has to last
/// until the end of the story is handed over.
pub async fn is_refused<Stranger, Own>(
    outage: &Outage,
    swap: impl AsyncFnOnce() -> Result<Stranger>,
    put_right: impl AsyncFnOnce(Stranger) -> Result<Own>,
) -> Result<()> {
    let Outage { lab, node, .. } = outage;
    let rig = outage.rig()?;

    // Somebody has swapped two cables since the identity was pinned.
    let stranger = swap().await?;
    rig.machine.set_power(false);
    let own = rig.machine.system_uuid().to_lowercase();
    let names_both = |words: &str| {
        let words = words.to_lowercase();
        words.contains(STRANGER) && words.contains(&own)
    };
    let fence = lab
        .wait_fence(node, |fence| {
            matches!(escalation(fence), Some(("IdentityMismatch", words)) if names_both(words))
        })
        .await?;
    let told = lab.wait_told(&fence, "IdentityMismatch").await?;
    ensure!(names_both(&told), "the event says `{told}`");
    lab.hands_off().await?;
    let _own = put_right(stranger).await?;
    lab.workloads
        .wait_running_elsewhere(POD, node, LIMIT)
        .await?;
    let recovered = lab.wait_stage(node, "Recovered").await?;
    ensure!(recovered.metadata.uid == fence.metadata.uid, "one incident");
    rig.machine.set_power(true);
    lab.silent_after_proof(&recovered).await?;
    outage.verdict().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_machine_is_refused_in_confirm_only() -> Result<()> {
    wrong_machine_is_refused("ConfirmOnly").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_machine_is_refused_in_power_off() -> Result<()> {
    wrong_machine_is_refused("PowerOff").await
}
