//! S24, `earlyDetection`: a machine that went dark is fenced before Kubernetes has noticed, and the pods that stay on it leave their Services. A
//! kubelet that hangs on a machine that runs is reported by nothing, whatever its BMC says.
//!
//! Real nodes only: where a simulated machine has no power, the kernel of the lab refuses connections to its port, and a machine that refuses runs.

use anyhow::{Result, ensure};
use e2e::audit::OPERATOR;
use e2e::lab::{Kind, LIMIT, Lab, Setup};
use e2e::machine::Ailment;
use e2e::workload::{Template, node_of};
use fencing_testbed::bmc::Reading;
use fencing_testbed::eventually::eventually;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use crate::outage::{Outage, POD};

/// A policy that waits for nothing.
fn early() -> Value {
    json!({"earlyDetection": "Enabled", "durationPolicy": "SkipIfOff"})
}

async fn prepared(name: &str, mode: &str) -> Result<Option<Outage>> {
    let setup = Setup::new(name, 2).on(Kind::Real);
    let Some(lab) = Lab::start_if_available(setup).await? else {
        return Ok(None);
    };
    lab.grant("early-detection").await?;
    Outage::of(lab, mode, early()).await.map(Some)
}

fn ready(pod: &Pod) -> Option<(&str, &str)> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions.iter().find(|it| it.type_ == "Ready")?;
    let reason = ready.reason.as_deref().unwrap_or_default();
    Some((ready.status.as_str(), reason))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_node_that_goes_dark_is_reported_before_kubernetes_notices() -> Result<()> {
    let Some(outage) = prepared("early", "PowerOff").await? else {
        return Ok(());
    };
    let (lab, node) = (&outage.lab, outage.node.as_str());
    let stays = Template {
        tolerates_all: true,
        node: Some(node.to_owned()),
        ..Template::default()
    };
    lab.workloads.pod("stays", &stays).await?;
    lab.workloads.wait_running("stays", LIMIT).await?;

    let cut = Timestamp::now();
    outage.rig()?.machine.go_dark();
    let moved = lab
        .workloads
        .wait_running_elsewhere(POD, node, LIMIT)
        .await?;
    let took = Timestamp::now().duration_since(cut).as_secs_f64();
    let fence = lab.wait_stage(node, "Recovered").await?;
    let unknown = lab.control_plane.audit().became_unknown(node, cut)?;
    let reported = unknown.received.duration_since(cut).as_secs_f64();
    eprintln!(
        "{took:.1} s from the dark to Running on {}, reported after {reported:.1} s",
        node_of(&moved)
    );
    ensure!(unknown.user.username == OPERATOR, "{}", unknown.summary());
    ensure!(fence.data["spec"]["trigger"]["reportedBy"] == "Operator");
    let told = lab.wait_told_of(node, "ReportedPoweredOff").await?;
    ensure!(told.contains("-bmc reads Off"), "{told}");
    let pod = lab.workloads.api::<Pod>().get("stays").await?;
    ensure!(
        ready(&pod) == Some(("False", "NodePoweredOff")),
        "{:?}",
        ready(&pod)
    );

    // Its kubelet takes both back.
    outage.restore().await?;
    eventually("the pod is Ready again", LIMIT, async || {
        let pod = lab.workloads.api::<Pod>().get("stays").await?;
        ensure!(
            matches!(ready(&pod), Some(("True", _))),
            "{:?}",
            ready(&pod)
        );
        Ok(())
    })
    .await?;
    let (_, metrics) = outage.operator.get("/metrics").await?;
    ensure!(
        !metrics.contains("node_fencing_early_reports_refuted_total{policy=\"lab\"} 1"),
        "a new boot refutes nothing"
    );
    outage.verdict().await
}

/// The kernel takes connections at its port: the report has to wait for Kubernetes, and so has the fence, which finds the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_node_that_runs_under_a_bmc_that_says_off_is_not_reported() -> Result<()> {
    let Some(outage) = prepared("early-lie", "ConfirmOnly").await? else {
        return Ok(());
    };
    let (lab, node) = (&outage.lab, outage.node.as_str());
    let rig = outage.rig()?;
    let begun = Timestamp::now();
    rig.machine.ail(Ailment {
        kubelet_hung: true,
        ..Ailment::default()
    });
    rig.bmc
        .faults(|faults| faults.power_state = Reading::Says(json!("Off")));
    let noticed = |node: &k8s_openapi::api::core::v1::Node| !is_ready(node);
    lab.wait_node(node, "Kubernetes notices", noticed).await?;
    let unknown = lab.control_plane.audit().became_unknown(node, begun)?;
    ensure!(unknown.user.username != OPERATOR, "{}", unknown.summary());
    rig.bmc.heal()?;
    rig.machine.ail(Ailment::default());
    lab.wait_node(node, "it is Ready again", is_ready).await?;
    outage.verdict().await
}

fn is_ready(node: &k8s_openapi::api::core::v1::Node) -> bool {
    let status = node.status.as_ref();
    let conditions = status.and_then(|it| it.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|it| it.type_ == "Ready" && it.status == "True")
}
