//! Metal3 on a real Ironic: cases 1 and 2 through all of it, and what a BareMetalHost says while Ironic does not reach the BMC. A machine counts as
//! off by what Ironic has read since, and never by what it knew before.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::lab::{LIMIT, Lab, Metal3OnIronic, Setup, condition, escalation};
use e2e::machine::Ailment;
use e2e::proxy::writes::QUARANTINE;
use e2e::workload::wait_node_ready;
use fencing_testbed::eventually::eventually;
use fencing_testbed::sushy::Sushy;
use kube::api::DynamicObject;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::hung_kubelet::hung_kubelet_until;
use crate::hypervisor::only;
use crate::outage::{Outage, POD};

/// Ironic looks at the power of its nodes by itself when the test is over. By default that is every two minutes.
const AFTER_THE_TEST: Duration = Duration::from_secs(3600);
/// As often as it can.
const ALL_THE_TIME: Duration = Duration::from_secs(1);

/// A human is called after one round in vain.
fn impatient() -> Value {
    let level =
        json!({"name": "bmc", "attempts": 1, "retryPeriodSeconds": 1, "timeoutSeconds": 40});
    json!({"fence": {"levels": [level]}})
}

/// The volume has moved, and its machine is off.
async fn is_recovered(outage: &Outage, times_tainted: usize) -> Result<DynamicObject> {
    let Outage { lab, node, .. } = outage;
    let workloads = &lab.workloads;
    workloads.wait_running_elsewhere(POD, node, LIMIT).await?;
    let fence = lab.wait_stage(node, "Recovered").await?;
    ensure!(condition(&fence, "NodeConfirmedDown").is_some_and(|it| it["status"] == "True"));
    ensure!(!outage.rig()?.machine.is_on());
    ensure!(lab.times_tainted(node).await? == times_tainted);
    lab.silent_after_proof(&fence).await?;
    Ok(fence)
}

fn hang(outage: &Outage, kubelet_hung: bool) -> Result<()> {
    outage.rig()?.machine.ail(Ailment {
        kubelet_hung,
        ..Ailment::default()
    });
    Ok(())
}

/// The node's BMC.
fn bmc<'a>(cluster: &'a mut Metal3OnIronic, outage: &Outage) -> Result<&'a mut Sushy> {
    let mut rigs = outage.lab.rigs.iter();
    let place = rigs.position(|rig| rig.machine.name() == outage.node);
    Ok(cluster.bmc(place.context("a machine")?))
}

/// The status of the host, once it is as wanted.
async fn host_is(
    cluster: &Metal3OnIronic,
    node: &str,
    what: &str,
    wanted: impl Fn(&Value) -> bool,
) -> Result<()> {
    eventually(what, LIMIT, async || {
        let status = &cluster.host(node).await?.data["status"];
        ensure!(
            wanted(status),
            "{status}; {}",
            cluster.ironic_node(node).await?
        );
        Ok(())
    })
    .await
}

/// Ironic would turn the machine on again, had it looked before: the operator turns off, through it, what is off.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute, which CI has no time for; `make peers` and `make test-all` run it"]
async fn power_cut_moves_the_volume_by_metal3_on_ironic() -> Result<()> {
    let lab = Lab::start(Setup::new("ironic-cut", 2)).await?;
    let cluster = lab.metal3_on_ironic(AFTER_THE_TEST).await?;
    let outage = Outage::of(lab, "PowerOff", json!({})).await?;
    let Outage { lab, node, .. } = &outage;
    let switched = |machine| cluster.switched(machine);
    outage.power(false)?;
    is_recovered(&outage, 1).await?;
    // Ironic has found it off.
    only(lab, &switched, node, &[])?;

    cluster.release(node).await?;
    outage.wait_no_taint(QUARANTINE).await?;
    only(lab, &switched, node, &[true])?;
    outage.verdict().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute, which CI has no time for; `make peers` and `make test-all` run it"]
async fn hung_kubelet_is_turned_off_by_metal3_on_ironic() -> Result<()> {
    let lab = Lab::start(Setup::new("ironic-hung", 2)).await?;
    let cluster = lab.metal3_on_ironic(AFTER_THE_TEST).await?;
    let node =
        hung_kubelet_until(&lab, async |rig| cluster.release(rig.machine.name()).await).await?;
    only(
        &lab,
        &|machine| cluster.switched(machine),
        &node,
        &[false, true],
    )
}

/// Ironic knew On, and the BMC dies. Power-offs are taken, have their events, and come to nothing. Ironic gives the BMC up, and the host shows its
/// old On beside `Manageable: False`. When the BMC answers again, all goes on by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes, which CI has no time for; `make peers` and `make test-all` run it"]
async fn dead_bmc_behind_ironic_is_waited_for() -> Result<()> {
    let lab = Lab::start(Setup::new("ironic-bmc", 2)).await?;
    let mut cluster = lab.metal3_on_ironic(ALL_THE_TIME).await?;
    let outage = Outage::of(lab, "PowerOff", impatient()).await?;
    let Outage { lab, node, .. } = &outage;
    bmc(&mut cluster, &outage)?.process().kill()?;
    hang(&outage, true)?;
    let called = |fence: &DynamicObject| {
        escalation(fence).is_some_and(|(reason, _)| reason == "DeviceFailed")
    };
    lab.wait_fence(node, called).await?;
    let failed = |status: &Value| {
        status["poweredOn"] == true && status["errorType"] == "power management error"
    };
    host_is(&cluster, node, "the power-off has failed", failed).await?;
    let given_up = |status: &Value| {
        status["poweredOn"] == true && status["conditions"][0]["status"] == "False"
    };
    host_is(&cluster, node, "Ironic has given the BMC up", given_up).await?;
    let known = cluster.ironic_node(node).await?;
    ensure!(known["power_state"].is_null(), "{known}");
    ensure!(outage.rig()?.machine.is_on() && lab.times_tainted(node).await? == 0);

    bmc(&mut cluster, &outage)?.restart().await?;
    // Metal3 pauses between two tries.
    let workloads = &lab.workloads;
    let moved = workloads.wait_running_elsewhere(POD, node, 3 * LIMIT);
    moved.await?;
    is_recovered(&outage, 1).await?;
    hang(&outage, false)?;
    cluster.release(node).await?;
    outage.wait_no_taint(QUARANTINE).await?;
    outage.verdict().await
}

/// Ironic knew Off, after our power-off; then the BMC hangs and the machine is turned on by hand. The host goes on showing Off, and all that an Off
/// needs: the node runs in another boot by then, in which nothing has read On (S25).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes, which CI has no time for; `make peers` and `make test-all` run it"]
async fn old_off_of_ironic_is_no_off_of_the_next_boot() -> Result<()> {
    let lab = Lab::start(Setup::new("ironic-old", 2)).await?;
    let mut cluster = lab.metal3_on_ironic(AFTER_THE_TEST).await?;
    let outage = Outage::of(lab, "PowerOff", impatient()).await?;
    let Outage { lab, node, .. } = &outage;
    hang(&outage, true)?;
    let first = is_recovered(&outage, 1).await?;

    bmc(&mut cluster, &outage)?.process().pause()?;
    hang(&outage, false)?;
    outage.restore().await?;
    outage.wait_no_taint(QUARANTINE).await?;
    eventually("the old Off is found out", LIMIT, async || {
        let device = lab.api("FenceDevice").get("fleet").await?;
        let rows = device.data["status"]["positiveControls"].as_array();
        let mut rows = rows.into_iter().flatten();
        let row = rows.find(|row| row["nodeName"] == json!(node));
        ensure!(row.is_some_and(|row| row["powerState"] == "Off"), "{row:?}");
        Ok(())
    })
    .await?;
    hang(&outage, true)?;
    let admin = lab.control_plane.admin();
    wait_node_ready(admin, node, "Unknown", LIMIT).await?;
    let called = |fence: &DynamicObject| {
        fence.metadata.uid != first.metadata.uid
            && escalation(fence).is_some_and(|(reason, _)| reason == "OffWhileRunning")
    };
    lab.wait_fence(node, called).await?;
    let old = |status: &Value| {
        let is_manageable = status["conditions"][0]["status"] == "True";
        status["poweredOn"] == false && status["operationalStatus"] == "OK" && is_manageable
    };
    host_is(&cluster, node, "Metal3 shows the old Off", old).await?;
    ensure!(outage.rig()?.machine.is_on() && lab.times_tainted(node).await? == 1);

    // A human lets Metal3 turn it on, which finds that it is: by that On its next Off counts.
    let hung = bmc(&mut cluster, &outage)?.process();
    hung.signal(Signal::CONT)?;
    cluster.release(node).await?;
    is_recovered(&outage, 2).await?;
    hang(&outage, false)?;
    cluster.release(node).await?;
    outage.wait_no_taint(QUARANTINE).await?;
    outage.verdict().await
}
