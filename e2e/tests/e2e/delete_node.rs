//! Case 14: `recovery.strategy: DeleteNode`. The volume leaves the machine by the operator's own hand, the Node goes last, and the machine
//! comes back under a Node of its own. Without the rights for it, which nobody has by default, nothing is begun.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::audit::Request;
use e2e::lab::{LIMIT, Lab, Setup, taints};
use e2e::proxy::writes::{DETACHING, OUT_OF_SERVICE};
use e2e::workload::{node_of, wait_node_ready};
use fencing_testbed::eventually::eventually;
use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::devices::{message, shown};
use crate::outage::{Outage, POD};

/// The component with the rights that `rbac.deleteNode` of the chart gives too.
const DELETES: &str = "delete-node";

fn deletes() -> Value {
    json!({"recovery": {"strategy": "DeleteNode"}})
}

fn uid(node: &Node) -> Result<String> {
    node.metadata.uid.clone().context("a Node has a uid")
}

/// The operator's deletions of this resource that were granted.
async fn deletions(lab: &Lab, resource: &str) -> Result<Vec<Request>> {
    let writes = lab.writes().await?.into_iter();
    let granted = |write: &Request| {
        write.verb == "delete" && write.object_ref.resource == resource && write.succeeded()
    };
    Ok(writes.filter(granted).collect())
}

/// The Node with the old uid has gone, and its machine has made another, which bears nothing of ours.
async fn back_as_another(outage: &Outage, old_uid: &str) -> Result<()> {
    outage.restore().await?;
    let node = outage.lab.node(&outage.node).await?;
    ensure!(uid(&node)? != old_uid, "it is the Node that was fenced");
    let ours = |key: &String| key.contains("nodefencing.io") || key == OUT_OF_SERVICE;
    ensure!(!taints(&node).iter().any(ours), "{:?}", taints(&node));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn simulated_node_is_deleted_and_its_volume_moves() -> Result<()> {
    let lab = Lab::start(Setup::new("delete-node", 2)).await?;
    lab.grant(DELETES).await?;
    let outage = Outage::of(lab, "ConfirmOnly", deletes()).await?;
    let (lab, node) = (&outage.lab, &outage.node);
    let old_uid = uid(&lab.node(node).await?)?;

    let cut = Instant::now();
    outage.power(false)?;
    let moved = lab
        .workloads
        .wait_running_elsewhere(POD, node, LIMIT)
        .await?;
    eprintln!(
        "{:.1} s from power cut to Running on {}",
        cut.elapsed().as_secs_f64(),
        node_of(&moved)
    );
    let fence = lab.wait_stage(node, "Recovered").await?;
    ensure!(fence.data["status"]["evidence"]["nodeUID"] == old_uid.as_str());
    let (volumes, nodes) = (
        deletions(lab, "volumeattachments").await?,
        deletions(lab, "nodes").await?,
    );
    ensure!(
        volumes.len() == 1 && nodes.len() == 1,
        "{volumes:?} {nodes:?}"
    );
    ensure!(
        volumes.iter().all(|it| it.received < nodes[0].received),
        "the Node went before its volume"
    );
    let patches = lab.writes_to("nodes").await?;
    let marks = |write: &&Request| write.request_object.to_string().contains(DETACHING);
    ensure!(patches.iter().filter(marks).count() == 1, "{patches:?}");
    let set = |write: &Request| write.request_object.to_string().contains(OUT_OF_SERVICE);
    ensure!(!patches.iter().any(set), "it was put out of service");

    back_as_another(&outage, &old_uid).await?;
    lab.silent_after_proof(&fence).await?;
    outage.verdict().await
}

/// The machine is powered on when its volume is leaving it: nothing starts there before that is over, and its Node is kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn simulated_node_that_comes_back_while_it_is_detaching_is_kept() -> Result<()> {
    let lab = Lab::start(Setup::new("delete-node-back", 2)).await?;
    lab.grant(DELETES).await?;
    let outage = Outage::of(lab, "ConfirmOnly", deletes()).await?;
    let (lab, node) = (&outage.lab, &outage.node);
    let old_uid = uid(&lab.node(node).await?)?;
    let array = lab.control_plane.array();
    array.hang_detach().await?;
    outage.cut().await?;
    eventually("the VolumeAttachment is deleted", LIMIT, async || {
        let deleted = deletions(lab, "volumeattachments").await?;
        ensure!(!deleted.is_empty(), "none was");
        Ok(())
    })
    .await?;
    outage.power(true)?;
    let admin = lab.control_plane.admin();
    let back = wait_node_ready(admin, node, "True", LIMIT).await?;
    ensure!(
        taints(&back).iter().any(|key| key == DETACHING),
        "{:?}",
        taints(&back)
    );
    array.clear_faults().await?;
    let fence = lab.wait_stage(node, "Recovered").await?;
    ensure!(deletions(lab, "nodes").await?.is_empty(), "it was deleted");
    let kept = lab.node(node).await?;
    ensure!(uid(&kept)? == old_uid);
    let ours = |key: &String| key.contains("nodefencing.io");
    ensure!(!taints(&kept).iter().any(ours), "{:?}", taints(&kept));
    lab.workloads.wait_running(POD, LIMIT).await?;
    lab.silent_after_proof(&fence).await?;
    outage.verdict().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_rights_no_node_is_fenced_until_somebody_grants_them() -> Result<()> {
    let lab = Lab::start(Setup::new("delete-node-rights", 2)).await?;
    let outage = Outage::of(lab, "ConfirmOnly", deletes()).await?;
    let (lab, node) = (&outage.lab, &outage.node);
    // Until the operator has asked for its rights, the policy says that it is asking.
    eventually(
        "the policy names the rights that are missing",
        LIMIT,
        async || {
            let policy = lab.api("NodeFencingPolicy").get("lab").await?;
            ensure!(
                shown(&policy, "Ready") == "False/Unsupported",
                "{:?}",
                policy.data
            );
            let words = message(&policy, "Ready");
            for part in [
                "`recovery.strategy: DeleteNode`",
                "delete nodes, delete volumeattachments.storage.k8s.io",
                "`rbac.deleteNode`",
            ] {
                ensure!(words.contains(part), "{words}");
            }
            Ok(())
        },
    )
    .await?;
    outage.cut().await?;
    // Longer than the policy waits.
    sleep(Duration::from_secs(15)).await;
    let fences = lab.api("NodeFence").list(&Default::default()).await?.items;
    ensure!(fences.is_empty(), "{fences:?}");

    lab.grant(DELETES).await?;
    lab.wait_stage(node, "Recovered").await?;
    ensure!(deletions(lab, "nodes").await?.len() == 1);
    outage.verdict().await
}
