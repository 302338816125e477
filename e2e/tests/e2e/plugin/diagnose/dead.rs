//! Nodes that have lost their power: one that no policy selects (D1), one whose fence waits for a human (D2), one whose storage does not detach
//! (D3), whose pod tolerates everything (D8), and whose Node is deleted in the end, under the attachment that is left (D7).

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use e2e::csi::{Fault, Faults};
use e2e::lab::{LIMIT, Lab, Setup, stage};
use e2e::workload::{is_ready, wait_node_ready};
use fencing_testbed::eventually::eventually;
use serde_json::json;

use super::{asked, found, ids};
use crate::outage::name;
use crate::plugin::scene::{bound, deployment, is_waiting, kubectl, make, on, pod, spec, wait_pod};
use crate::plugin::session::Session;

/// What the storage says.
const BUSY: &str = "LUN 7 has a reservation of another initiator";
/// The policy that governs a node by its label.
const POLICY: &str = "lab/policy";
/// Pods that had a node which dies: the node, the pod's workload, and what it is shown as before and after.
const MOVES: [(&str, &str, &str, &str); 3] = [
    ("node-1", "left", "left-old", "left-new"),
    ("node-2", "asks", "asks-old", "asks-new"),
    ("node-3", "acts", "acts-old", "acts-new"),
];

fn labels(number: usize) -> BTreeMap<String, String> {
    let policy = match number {
        2 => "asks",
        3 => "acts",
        _ => return BTreeMap::new(),
    };
    BTreeMap::from([(POLICY.to_owned(), policy.to_owned())])
}

/// A workload on each of the nodes that will die, which may move to the fourth; and two on the third that tolerate everything.
async fn workloads(lab: &Lab, session: &mut Session<'_>) -> Result<()> {
    lab.schedulable("node-4", false).await?;
    let moving = MOVES
        .iter()
        .map(|(node, app, ..)| (*app, on(&[*node, "node-4"])));
    let mut everything = on(&["node-3"]);
    everything["tolerations"] = json!([{"operator": "Exists"}]);
    for (app, more) in moving.chain([("stays", everything.clone())]) {
        bound(lab, app, "ReadWriteOnce").await?;
        make(lab, &[deployment(app, &spec(Some(app), more))]).await?;
    }
    bound(lab, "goes", "ReadWriteOnce").await?;
    make(lab, &[pod("goes", &spec(Some("goes"), everything))]).await?;
    let moving = MOVES.iter().map(|(_, app, old, _)| (*app, *old));
    for (app, shown) in moving.chain([("stays", "stays-pod"), ("goes", "goes")]) {
        session.shows(&wait_pod(lab, app, is_ready).await?, shown);
    }
    lab.schedulable("node-4", true).await
}

/// The new pod of a workload.
async fn moved(lab: &Lab, session: &mut Session<'_>, app: &str) -> Result<String> {
    let name = wait_pod(lab, app, is_waiting).await?;
    let row = MOVES.iter().find(|row| row.1 == app);
    if let Some((.., shown)) = row {
        session.shows(&name, shown);
    }
    Ok(format!("pod/{name}"))
}

/// D1 and D2: somebody has deleted the pods, one by force, as people do, and one as taint eviction would after five minutes.
async fn unfenced(lab: &Lab, session: &mut Session<'_>) -> Result<()> {
    kubectl(lab, "delete pod -n work -l app=left --force").await?;
    let pod = moved(lab, session, "left").await?;
    // The way out ends with a label, and from then on a policy governs the node, which only looks.
    found(lab, session, &pod, &["D1"]).await?;
    found(lab, session, "node/node-1", &["D1"]).await?;
    kubectl(lab, "delete pod -n work -l app=asks --wait=false").await?;
    moved(lab, session, "asks").await?;
    let fence = lab.wait_stage("node-2", "AwaitingApproval").await?;
    session.about(name(&fence)?);
    found(lab, session, "pvc/asks", &["D2"]).await
}

/// D3 and D8: the machine is proven down, the storage refuses, and a pod is not evicted.
async fn fenced(lab: &Lab, session: &mut Session<'_>) -> Result<()> {
    let fence = lab.wait_stage("node-3", "Detaching").await?;
    session.about(name(&fence)?);
    moved(lab, session, "acts").await?;
    // Attach/detach tries the new node as soon as it has asked the old one, and says so.
    eventually("the array refuses the new node, too", LIMIT, async || {
        let (_, answer) = asked(lab, "pvc/acts -n work").await?;
        let events = answer["checklist"]["pods"].to_string();
        ensure!(events.contains("is attached to node node-3"), "{events}");
        Ok(())
    })
    .await?;
    found(lab, session, "pvc/acts", &["D3"]).await?;
    found(lab, session, "pvc/stays", &["D8"]).await?;
    // This one tolerates everything, too. But somebody has deleted it, and so pod GC takes it under the taint.
    lab.workloads.wait_gone("goes", LIMIT).await
}

/// D7: the Node is deleted before that volume has detached.
async fn deleted(lab: &Lab, session: &mut Session<'_>) -> Result<()> {
    kubectl(lab, "delete node node-3").await?;
    // One that nobody has asked to go, as its pod is still there, and one that its driver refuses to let go.
    found(lab, session, "pvc/stays", &["D7"]).await?;
    found(lab, session, "pvc/acts", &["D7"]).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_keeps_pods_from_the_volumes_of_nodes_that_have_died_is_told() -> Result<()> {
    let lab = Lab::start(Setup {
        labels,
        ..Setup::new("diagnose-dead", 4)
    });
    let lab = &lab.await?;
    let operator = lab.operator().await?;
    lab.wait_protected().await?;
    let of = |policy: &str| json!({"nodeSelector": {"matchLabels": {POLICY: policy}}, "budget": {"maxConcurrent": 3}});
    let mut asks = of("asks");
    asks["fence"] = json!({"approval": {"mode": "Manual"}});
    lab.policy_named("asks", "ConfirmOnly", asks).await?;
    lab.policy_named("acts", "ConfirmOnly", of("acts")).await?;
    lab.policy_named("looks", "Observe", of("looks")).await?;
    let mut session = Session::new(
        lab,
        "node-1",
        "Nodes have lost their power, and pods wait for their volumes",
    );
    let said = &mut session;
    workloads(lab, said).await?;
    lab.control_plane
        .array()
        .set_faults(&Faults {
            detach: Fault::failure(BUSY).of_volume("acts"),
            ..Faults::default()
        })
        .await?;

    for (node, ..) in MOVES {
        lab.rig_of(node)?.machine.set_power(false);
    }
    for (node, ..) in MOVES {
        wait_node_ready(lab.control_plane.admin(), node, "Unknown", LIMIT).await?;
    }
    kubectl(lab, "delete pod -n work -l app=goes --wait=false").await?;
    unfenced(lab, said).await?;
    fenced(lab, said).await?;
    let (_, all) = asked(lab, "-A").await?;
    ensure!(ids(&all) == ["D1", "D2", "D3", "D8"], "{:?}", ids(&all));
    deleted(lab, said).await?;
    session.hold("diagnose/dead")?;

    lab.control_plane.array().clear_faults().await?;
    let ended = lab.wait_fence("node-3", |fence| stage(fence) == "Recovered");
    ended.await?;
    operator.check()?;
    lab.verdict().await
}
