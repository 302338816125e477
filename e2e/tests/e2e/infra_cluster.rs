//! Case 2 on hosts of Metal3: the operator has no BMC, only the API server on which their BareMetalHosts are.

use anyhow::{Result, ensure};
use e2e::lab::{LIMIT, Lab, Setup, has_taint};
use e2e::machine::Ailment;
use e2e::proxy::writes::QUARANTINE;
use e2e::workload::{Template, node_of};
use serde_json::json;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hung_kubelet_is_turned_off_by_metal3() -> Result<()> {
    let lab = Lab::start(Setup::new("metal3-hung", 2).alone()).await?;
    let metal3 = lab.metal3().await?;
    let operator = lab.operator().await?;
    lab.wait_protected().await?;
    lab.policy("PowerOff", json!({})).await?;
    lab.workloads
        .stateful_set("db", &Template::default())
        .await?;
    let pod = lab.workloads.wait_running("db-0", LIMIT).await?;
    let node = node_of(&pod).to_owned();
    let rig = lab.rig_of(&node)?;
    rig.machine.ail(Ailment {
        kubelet_hung: true,
        ..Ailment::default()
    });
    lab.workloads
        .wait_running_elsewhere("db-0", &node, LIMIT)
        .await?;
    let fence = lab.wait_stage(&node, "Recovered").await?;
    ensure!(
        !rig.machine.is_on(),
        "the machine must have been turned off"
    );
    for other in &lab.rigs {
        let name = other.machine.name();
        ensure!(metal3.is_held(name).await? == (name == node), "{name}");
    }
    ensure!(lab.times_tainted(&node).await? == 1);
    lab.silent_after_proof(&fence).await?;

    // Metal3 keeps it off until the annotation is gone, and turns it on then.
    rig.machine.ail(Ailment::default());
    metal3.release(&node).await?;
    lab.wait_node(&node, "the quarantine is lifted", |node| {
        !has_taint(node, QUARANTINE)
    })
    .await?;
    operator.check()?;
    lab.verdict().await
}
