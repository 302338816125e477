//! S22: BMCs that accept the off command and say Off while their nodes' machines run on, and containers write: one over Redfish, wired to
//! another machine, which really is off from then on; one over IPMI, which has said nothing but Off for long.
//!
//! The kubelets hang, so neither Ready nor boot ID nor Lease will ever tell: all that is left is that the kubelet's port
//! answers. Real nodes only, since simulated ones have no port.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::lab::{Kind, LIMIT, Lab, Setup, escalation, has_taint, stage};
use e2e::machine::Ailment;
use e2e::operator::Operator;
use e2e::proxy::writes::CLAIM;
use e2e::workload::{Template, node_of};
use fencing_testbed::bmc::{Effect, Entry, Reading};
use fencing_testbed::eventually::eventually;
use fencing_testbed::ipmi::{IpmiBmc, PowerBit, Suite};
use serde_json::{Value, json};

use crate::ipmi::{POWER_DOWN, commands};
use crate::outage::name;

/// The gauge of an alert for whatever calls for a human.
const ESCALATED: &str = "node_fencing_incident_escalated";
const REDFISH: &str = "node-1";
const IPMI: &str = "node-2";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_nodes_whose_bmcs_say_off_while_they_run_are_not_tainted() -> Result<()> {
    let setup = Setup::new("lying-bmc", 2).on(Kind::Real);
    let Some(lab) = Lab::start_if_available(setup).await? else {
        return Ok(());
    };
    let ipmi = lab.ipmi(2, Suite::Seventeen).await?;
    let operator = lab.operator().await?;
    lab.wait_protected().await?;
    lab.policy("PowerOff", json!({"budget": {"maxConcurrent": 2}}))
        .await?;
    let volumes = [
        database(&lab, "one", REDFISH, IPMI).await?,
        database(&lab, "two", IPMI, REDFISH).await?,
    ];

    lie(&lab, &ipmi).await?;
    for node in [REDFISH, IPMI] {
        is_contradicted(&lab, &operator, node).await?;
    }
    for volume in &volumes {
        let written = lab.volumes.writes(volume)?.len();
        tokio::time::sleep(Duration::from_secs(1)).await;
        ensure!(
            lab.volumes.writes(volume)?.len() > written,
            "the containers must go on writing, or nothing was shown"
        );
    }
    commanded_once(&lab, &ipmi)?;

    // The BMCs are wired right, and the kubelets come back by themselves.
    ipmi.heal()?;
    for node in [REDFISH, IPMI] {
        let rig = lab.rig_of(node)?;
        rig.bmc.heal()?;
        rig.machine.ail(Ailment::default());
        let closed = |stage: &str| ["SelfRecovered", "Aborted"].contains(&stage);
        lab.wait_fence(node, |fence| closed(stage(fence))).await?;
        lab.wait_node(node, "the claim is gone", |node| !has_taint(node, CLAIM))
            .await?;
        ensure!(lab.times_tainted(node).await? == 0, "it was tainted");
    }
    eventually("the alert goes with its incident", LIMIT, async || {
        let (_, metrics) = operator.get("/metrics").await?;
        ensure!(!metrics.contains(ESCALATED), "{metrics}");
        Ok(())
    })
    .await?;
    operator.check()?;
    lab.verdict().await
}

/// A StatefulSet whose pod runs on this node and not on the other one. Returns its volume.
async fn database(lab: &Lab, set: &str, node: &str, other: &str) -> Result<String> {
    lab.schedulable(other, false).await?;
    let volume = lab
        .workloads
        .stateful_set(set, &Template::default())
        .await?;
    let pod = lab
        .workloads
        .wait_running(&format!("{set}-0"), LIMIT)
        .await?;
    ensure!(node_of(&pod) == node);
    lab.schedulable(other, true).await?;
    Ok(volume)
}

/// The commands are taken, and nothing comes of them.
async fn lie(lab: &Lab, ipmi: &IpmiBmc) -> Result<()> {
    ipmi.faults(|faults| {
        faults.effect = Effect::Ignored;
        faults.power = PowerBit::Says(false);
    });
    let redfish = &lab.rig_of(REDFISH)?.bmc;
    redfish.faults(|faults| faults.effect = Effect::Ignored);
    for node in [REDFISH, IPMI] {
        lab.rig_of(node)?.machine.ail(Ailment {
            kubelet_hung: true,
            ..Ailment::default()
        });
    }
    let is_off = |entry: &Entry| entry.reset_type.is_some();
    redfish.wait_for(LIMIT, is_off).await?;
    redfish.faults(|faults| faults.power_state = Reading::Says(json!("Off")));
    // It reads Off already, and is told all the same.
    let is_off = |entry: &fencing_testbed::ipmi::Entry| entry.power_command() == Some(POWER_DOWN);
    ipmi.wait_for(LIMIT, is_off).await.map(drop)
}

/// Condition, Event and metric say it, and which device lies.
async fn is_contradicted(lab: &Lab, operator: &Operator, node: &str) -> Result<()> {
    let lies = format!("the kubelet's port answers while FenceDevice {node}-bmc reads Off");
    let fence = lab
        .wait_fence(node, |fence| {
            matches!(escalation(fence), Some(("FenceContradiction", words)) if words.contains(&lies))
        })
        .await?;
    let told = lab.wait_told(&fence, "FenceContradiction").await?;
    ensure!(told.contains(&lies), "the event says `{told}`");
    let series = format!(
        r#"{ESCALATED}{{incident="{}",node="{node}",policy="lab",reason="FenceContradiction"}} 1"#,
        name(&fence)?
    );
    let (_, metrics) = operator.get("/metrics").await?;
    ensure!(metrics.contains(&series), "no {series} in\n{metrics}");
    let attempts = &fence.data["status"]["attempts"];
    let of_it = |attempt: &Value| attempt["device"] == json!(format!("{node}-bmc"));
    ensure!(attempts.as_array().is_some_and(|all| all.iter().all(of_it)));
    Ok(())
}

/// Each got the command, and after the contradiction no other: it would go to whatever machine the device is wired to.
fn commanded_once(lab: &Lab, ipmi: &IpmiBmc) -> Result<()> {
    let redfish = lab.rig_of(REDFISH)?.bmc.power_commands();
    ensure!(
        matches!(redfish.as_slice(), [only] if only.reset_type == "ForceOff" && only.accepted),
        "{redfish:?}"
    );
    let ipmi = commands(ipmi);
    ensure!(ipmi == [(POWER_DOWN, true)], "{ipmi:?}");
    Ok(())
}
