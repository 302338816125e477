//! Levels: a BMC that is dark gives way to the PDU in its rack, and a machine with two supplies is off when both outlets are.
//!
//! The PDUs are net-snmp's agent. The node's kubelet hangs and its containers go on writing, so that the volume would tell.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use e2e::lab::{LIMIT, Lab, escalation};
use e2e::machine::Ailment;
use fencing_testbed::bmc::Line;
use fencing_testbed::snmpd::Pdu;
use serde_json::{Value, json};

use crate::outage::{Outage, POD};

/// Machines that may run the pod.
const MACHINES: [usize; 2] = [1, 2];

/// The BMC first, then all the outlets.
fn policy() -> Value {
    let no_tier = json!({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]});
    let pdus = json!({"matchLabels": {"tier": "pdu"}});
    let level = |name: &str, selector: &Value| json!({"name": name, "deviceSelector": selector, "attempts": 1, "retryPeriodSeconds": 1, "timeoutSeconds": 20});
    json!({"fence": {"levels": [level("bmc", &no_tier), level("pdus", &pdus)]}})
}

/// Two PDUs in the rack, each feeding one supply of each machine by the outlet of the machine's number.
async fn two_pdus(lab: &Lab) -> Result<[Pdu; 2]> {
    let feeds: BTreeMap<u32, _> = MACHINES
        .into_iter()
        .map(|number| Ok((u32::try_from(number)?, lab.feed(number))))
        .collect::<Result<_>>()?;
    let pdus = [lab.pdu(feeds.clone()).await?, lab.pdu(feeds).await?];
    for number in MACHINES {
        for (pdu, side) in pdus.iter().zip(["left", "right"]) {
            let name = format!("node-{number}-{side}");
            lab.outlets(&name, number, pdu, &[u32::try_from(number)?])
                .await?;
        }
    }
    Ok(pdus)
}

/// Outlet of the outage's node.
fn outlet(outage: &Outage) -> Result<u32> {
    let number = outage
        .node
        .strip_prefix("node-")
        .context("a node of the lab")?;
    Ok(number.parse()?)
}

fn hang(outage: &Outage) -> Result<()> {
    let rig = outage.rig()?;
    rig.bmc.set_line(Line::Dark)?;
    rig.machine.ail(Ailment {
        kubelet_hung: true,
        ..Ailment::default()
    });
    Ok(())
}

/// Running elsewhere, by the second level's proof, and nothing was written any more.
async fn recovered_by_the_outlets(outage: &Outage) -> Result<()> {
    let Outage { lab, node, .. } = outage;
    lab.workloads
        .wait_running_elsewhere(POD, node, LIMIT)
        .await?;
    let fence = lab.wait_stage(node, "Recovered").await?;
    ensure!(!outage.rig()?.machine.is_on());
    let readings = fence.data["status"]["evidence"]["readings"]
        .as_array()
        .cloned();
    for reading in readings.iter().flatten() {
        ensure!(
            reading["level"] == "pdus",
            "the record names the level that succeeded: {reading}"
        );
    }
    for side in ["left", "right"] {
        let name = format!("{node}-{side}");
        let mut readings = readings.iter().flatten();
        ensure!(
            readings.any(|reading| reading["device"] == json!(name)),
            "{name} is in the record"
        );
    }
    ensure!(lab.times_tainted(node).await? == 1);
    lab.silent_after_proof(&fence).await?;
    outage.verdict().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dark_bmc_gives_way_to_the_outlets_of_both_supplies() -> Result<()> {
    let (outage, pdus) = Outage::by("levels-dark", "PowerOff", policy(), two_pdus).await?;
    hang(&outage)?;
    recovered_by_the_outlets(&outage).await?;
    for pdu in &pdus {
        ensure!(!pdu.is_on(outlet(&outage)?)?);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_two_supplies_that_stays_on_is_no_proof() -> Result<()> {
    let (outage, pdus) = Outage::by("levels-half", "PowerOff", policy(), two_pdus).await?;
    let Outage { lab, node, .. } = &outage;
    let [left, right] = &pdus;
    right.ignore_commands(true)?;
    hang(&outage)?;
    let names_it = |words: &str| words.contains(&format!("FenceDevice {node}-right"));
    let stuck =
        |fence: &_| matches!(escalation(fence), Some(("DeviceFailed", words)) if names_it(words));
    lab.wait_fence(node, stuck).await?;
    ensure!(!left.is_on(outlet(&outage)?)?, "one is off");
    ensure!(
        outage.rig()?.machine.is_on(),
        "and the machine has power all the same"
    );
    ensure!(lab.times_tainted(node).await? == 0);
    // Somebody mends the PDU.
    right.ignore_commands(false)?;
    recovered_by_the_outlets(&outage).await
}
