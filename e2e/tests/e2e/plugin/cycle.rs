//! `kubectl fence test --power-cycle`: refused while anything would be lost, and then the whole protocol, from the claim to a machine that is on
//! again in another boot.

use anyhow::{Context, Result, ensure};
use e2e::lab::{LIMIT, Lab, Setup};
use e2e::machine::Ailment;
use fencing_testbed::eventually::eventually;
use serde_json::json;

use super::session::{Session, typed};
use super::terminal::{CTRL_C, Terminal, disagree};
use crate::outage::{Outage, POD};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drained_node_goes_through_the_whole_protocol_once() -> Result<()> {
    let lab = Lab::start(Setup::new("plugin-cycle", 2)).await?;
    let outage = Outage::of(lab, "ConfirmOnly", json!({})).await?;
    let lab = &outage.lab;
    let mut session = Session::new(lab, &outage.node, "A test of a drained node");
    let line = "test {node} --power-cycle --reason \"new firmware\"";
    session.types(line).await?;
    lab.schedulable(&outage.node, false).await?;
    session.types(line).await?;
    lab.workloads.delete_pod(POD, None).await?;
    lab.workloads
        .wait_running_elsewhere(POD, &outage.node, LIMIT)
        .await?;
    eventually("its volume has detached", LIMIT, async || {
        let all = lab
            .control_plane
            .kubectl_text(&[
                "get",
                "volumeattachments",
                "-o",
                "jsonpath={.items[*].spec.nodeName}",
            ])
            .await?;
        ensure!(!all.split_whitespace().any(|it| it == outage.node), "{all}");
        Ok(())
    })
    .await?;
    session.types(line).await?;
    session
        .types(&format!("{line} --confirm-node worker-9"))
        .await?;
    session.types("test {node} --power-cycle").await?;
    session.hold("cycle")?;
    nothing_is_cut_at_a_terminal(&outage).await?;
    let before = lab.node(&outage.node).await?;
    let boot = |node: &k8s_openapi::api::core::v1::Node| {
        let info = node.status.as_ref().and_then(|it| it.node_info.as_ref());
        info.map(|it| it.boot_id.clone())
    };
    let typed_line = line.replace("{node}", &outage.node);
    let typed_line = format!("{typed_line} --confirm-node {}", outage.node);
    let (typed, ()) = tokio::try_join!(typed(lab, &typed_line), async {
        // It asks for that: nobody turns off a Ready node.
        outage.rig()?.machine.ail(Ailment {
            kubelet_hung: true,
            ..Ailment::default()
        });
        lab.wait_stage(&outage.node, "PoweringOn").await?;
        outage.rig()?.machine.ail(Ailment::default());
        // A cordoned node is not turned on: somebody may work there.
        lab.schedulable(&outage.node, true).await
    })?;
    let (code, said, complained) = typed;
    ensure!(code == 0, "{code}: {said}{complained}");
    for words in ["Stop its kubelet now", "powered on again", "Recovered"] {
        ensure!(said.contains(words), "no `{words}` in {said}");
    }
    let after = lab.node(&outage.node).await?;
    ensure!(boot(&before) != boot(&after), "it has not booted");
    let log = outage.rig()?.bmc.log();
    let commands: Vec<&str> = log
        .iter()
        .filter_map(|it| it.reset_type.as_deref())
        .collect();
    ensure!(commands == ["ForceOff", "On"], "{commands:?}");
    let fence = lab.fence_of(&outage.node).await?.context("its record")?;
    let asked = &fence.data["spec"]["trigger"];
    ensure!(asked["requestedBy"] == "admin", "{asked}");
    ensure!(asked["reason"] == "test: new firmware", "{asked}");
    outage.verdict().await
}

/// Whoever does not type the name, or goes away before the kubelet has stopped, has done nothing.
async fn nothing_is_cut_at_a_terminal(outage: &Outage) -> Result<()> {
    let (lab, node) = (&outage.lab, &outage.node);
    let line = format!("test {node} --power-cycle --reason \"new firmware\"");
    // The last of what is asked.
    let question = "start:";
    disagree(&lab.control_plane, &line, question, "worker-9").await?;
    let mut terminal = Terminal::open(&lab.control_plane, &line, &[]).await?;
    terminal.reads(question).await?;
    terminal.types(&format!("{node}\n")).await?;
    terminal.reads("Stop its kubelet now").await?;
    terminal.types(CTRL_C).await?;
    let (status, seen) = terminal.ends().await?;
    ensure!(!status.success(), "{seen}");
    let fence = lab.fence_of(node).await?;
    ensure!(fence.is_none(), "{fence:?}");
    let log = outage.rig()?.bmc.log();
    ensure!(log.iter().all(|it| it.reset_type.is_none()), "{log:?}");
    Ok(())
}
