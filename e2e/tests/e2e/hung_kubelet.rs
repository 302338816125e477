//! Case 2: a kubelet hangs, its containers go on writing, and the policy may turn the machine off.

use anyhow::{Context, Result, ensure};
use e2e::lab::{Kind, LIMIT, Lab, Rig, Setup, condition, has_taint};
use e2e::machine::Ailment;
use e2e::operator::Operator;
use e2e::proxy::writes::QUARANTINE;
use e2e::workload::{Template, node_of};
use fencing_testbed::bmc::Bmc;
use kube::api::DynamicObject;
use serde_json::json;

/// The story, whatever the machines and the BMCs are. Returns the name of the node.
pub async fn hung_kubelet(lab: &Lab) -> Result<String> {
    hung_kubelet_until(lab, async |rig| {
        rig.machine.set_power(true);
        Ok(())
    })
    .await
}

/// The same where this turns the machine on again.
pub async fn hung_kubelet_until(
    lab: &Lab,
    turn_on: impl AsyncFnOnce(&Rig) -> Result<()>,
) -> Result<String> {
    let operator = lab.operator().await?;
    lab.wait_protected().await?;
    lab.policy("PowerOff", json!({})).await?;
    let volume = lab
        .workloads
        .stateful_set("db", &Template::default())
        .await?;
    let pod = lab.workloads.wait_running("db-0", LIMIT).await?;
    let node = node_of(&pod).to_owned();
    let rig = lab.rig_of(&node)?;
    let boot = rig.machine.boot_id();

    rig.machine.ail(Ailment {
        kubelet_hung: true,
        ..Ailment::default()
    });
    let written = lab.volumes.writes(&volume)?.len();
    lab.workloads
        .wait_running_elsewhere("db-0", &node, LIMIT)
        .await?;
    let fence = lab.wait_stage(&node, "Recovered").await?;
    ensure!(
        !rig.machine.is_on(),
        "the machine must have been turned off"
    );
    ensure!(condition(&fence, "NodeConfirmedDown").is_some_and(|down| down["status"] == "True"));
    let attempts = fence.data["status"]["attempts"].as_array().cloned();
    let results: Vec<_> = attempts
        .iter()
        .flatten()
        .map(|attempt| (&attempt["action"], &attempt["result"]))
        .collect();
    ensure!(
        results == [(&json!("PowerOff"), &json!("Succeeded"))],
        "one off command, whose end is known: {results:?}"
    );
    let by_this_boot = lab.volumes.writes(&volume)?;
    let by_this_boot = by_this_boot.iter().filter(|write| write.boot == boot);
    ensure!(
        by_this_boot.count() > written,
        "the containers of the hung node must have gone on writing, or nothing was shown"
    );
    ensure!(lab.times_tainted(&node).await? == 1);
    lab.silent_after_proof(&fence).await?;
    is_logged(&operator, &fence)?;

    rig.machine.ail(Ailment::default());
    turn_on(rig).await?;
    lab.wait_node(&node, "the quarantine is lifted", |node| {
        !has_taint(node, QUARANTINE)
    })
    .await?;
    lab.silent_after_proof(&fence).await?;
    operator.check()?;
    lab.verdict().await?;
    Ok(node)
}

/// The BMC was sent one `ForceOff`, accepted it, and was sent nothing else.
fn turned_off_once(bmc: &Bmc) -> Result<()> {
    let commands = bmc.power_commands();
    ensure!(
        matches!(commands.as_slice(), [only] if only.reset_type == "ForceOff" && only.accepted),
        "one ForceOff was to be sent: {commands:?}"
    );
    Ok(())
}

async fn is_turned_off(kind: Kind) -> Result<()> {
    let setup = Setup::new("hung-kubelet", 2).on(kind);
    let Some(lab) = Lab::start_if_available(setup).await? else {
        return Ok(());
    };
    let node = hung_kubelet(&lab).await?;
    turned_off_once(&lab.rig_of(&node)?.bmc)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn simulated_node_with_a_hung_kubelet_is_turned_off() -> Result<()> {
    is_turned_off(Kind::Simulated).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_node_with_a_hung_kubelet_is_turned_off() -> Result<()> {
    is_turned_off(Kind::Real).await
}

/// Each stage is a line that says whose it is, and by which command.
fn is_logged(operator: &Operator, fence: &DynamicObject) -> Result<()> {
    let lines = operator.log_lines()?;
    let mut stages = lines
        .iter()
        .filter(|line| line["fence"] == json!(fence.metadata.name) && line["stage"] == "Recovered");
    let line = stages.next().context("the end is a line of the log")?;
    let attempt = &fence.data["status"]["attempts"][0];
    for (field, expected) in [
        ("node", &fence.data["spec"]["nodeName"]),
        ("policy", &fence.data["spec"]["policyName"]),
        ("device", &attempt["device"]),
        ("attempt", &attempt["id"]),
    ] {
        ensure!(
            line[field] == *expected,
            "`{field}` of {line} is not {expected}"
        );
    }
    Ok(())
}
