//! Case 13: the Node is deleted in the middle of its incident, and its machine registers anew under the same name. The
//! incident ends, and nothing of it lands on the new Node (S10, F43, F44).

use anyhow::{Context, Result, ensure};
use e2e::lab::{LIMIT, condition, stage, taints};
use e2e::proxy::writes;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::DynamicObject;
use serde_json::json;

use crate::outage::{Outage, claim_after};

/// Deletes the Node, as a human.
async fn delete(outage: &Outage) -> Result<String> {
    let nodes: Api<Node> = Api::all(outage.lab.control_plane.admin());
    let uid = uid(&outage.lab.node(&outage.node).await?)?;
    nodes.delete(&outage.node, &Default::default()).await?;
    Ok(uid)
}

fn uid(node: &Node) -> Result<String> {
    node.metadata.uid.clone().context("a Node has a uid")
}

/// The incident has ended without another write to a Node, and its words say why.
async fn ended(outage: &Outage, stage: &str, why: &str) -> Result<String> {
    let fence = outage.lab.wait_stage(&outage.node, stage).await?;
    let words = condition(&fence, "Succeeded").map(|ended| ended["message"].to_string());
    ensure!(
        words.as_ref().is_some_and(|words| words.contains(why)),
        "{words:?}"
    );
    fence.metadata.name.context("it has a name")
}

/// The new Node is another one, is left alone, and gets an incident of its own with its next outage.
async fn begins_from_zero(outage: &Outage, old_uid: &str, old_fence: &str) -> Result<()> {
    outage.restore_and_probe().await?;
    let writes = outage.node_writes().await?.len();
    outage
        .stays("nothing of ours on the new Node", |node| {
            taints(node)
                .iter()
                .all(|key| !key.contains("nodefencing.io") && !key.contains("out-of-service"))
        })
        .await?;
    ensure!(outage.node_writes().await?.len() == writes);
    let new_uid = uid(&outage.lab.node(&outage.node).await?)?;
    ensure!(new_uid != old_uid);

    outage.cut().await?;
    let recovered = |fence: &DynamicObject| {
        fence.metadata.name.as_deref() != Some(old_fence) && stage(fence) == "Recovered"
    };
    let fence = outage.lab.wait_fence(&outage.node, recovered).await?;
    ensure!(fence.data["spec"]["nodeUID"] == new_uid.as_str());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_deleted_before_the_taint_ends_the_incident() -> Result<()> {
    let outage = Outage::prepare("deleted-claimed", "ConfirmOnly", json!({})).await?;
    outage.cut().await?;
    let kept = outage.keep_before_the_evidence().await?;
    let old_uid = delete(&outage).await?;
    let old_fence = ended(&outage, "Aborted", "was deleted").await?;
    kept.remove();
    ensure!(outage.node_writes().await?.len() == 1, "the claim alone");
    begins_from_zero(&outage, &old_uid, &old_fence).await?;
    outage.verdict().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_deleted_after_the_taint_ends_the_incident() -> Result<()> {
    let outage = Outage::prepare("deleted-tainted", "ConfirmOnly", json!({})).await?;
    let array = outage.lab.control_plane.array();
    array.hang_detach().await?;
    outage.cut().await?;
    outage.lab.wait_stage(&outage.node, "Detaching").await?;
    let old_uid = delete(&outage).await?;
    array.clear_faults().await?;
    outage
        .lab
        .workloads
        .wait_running_elsewhere("db-0", &outage.node, LIMIT)
        .await?;
    // Not an abort: the machine was proven down, and what it held is free. (Without its Node the attacher lets go at once.)
    let old_fence = ended(&outage, "Recovered", "was deleted under its taint").await?;
    ensure!(outage.node_writes().await?.len() == 2, "claim and taint");
    begins_from_zero(&outage, &old_uid, &old_fence).await?;
    outage.verdict().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_taint_under_way_to_a_node_that_was_created_anew_is_refused() -> Result<()> {
    let outage = Outage::prepare("recreated-midway", "ConfirmOnly", json!({})).await?;
    let taint = outage.proxy.hold(writes::taint());
    outage.cut().await?;
    taint.wait_arrived(LIMIT).await?;
    let old_uid = delete(&outage).await?;
    outage.restore().await?;
    taint.release();
    let old_fence = ended(&outage, "Aborted", "").await?;
    let refused = outage.lab.writes().await?.into_iter().any(|write| {
        write.verb == "patch" && write.object_ref.resource == "nodes" && !write.succeeded()
    });
    ensure!(refused, "the taint never arrived");
    let landed = outage.node_writes().await?;
    ensure!(landed.len() == 1 && landed.iter().all(|write| claim_after(write).is_some()));
    begins_from_zero(&outage, &old_uid, &old_fence).await?;
    outage.verdict().await
}
