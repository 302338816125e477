//! Case 9: humans and other controllers have hands too. Their `out-of-service` is never ours; what they take away from us
//! is not set again (S8, F54).

use anyhow::{Result, ensure};
use e2e::lab::{LIMIT, condition, has_taint, stage};
use e2e::proxy::writes::{CLAIM, OUT_OF_SERVICE};
use serde_json::json;

use crate::outage::{Outage, approve, claim_after, name};

const SET: &str = "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute";
const REMOVE: &str = "node.kubernetes.io/out-of-service-";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_a_human_put_out_of_service_is_left_to_them() -> Result<()> {
    let outage = Outage::prepare("human-first", "ConfirmOnly", json!({})).await?;
    outage.cut().await?;
    outage.kubectl_taint(SET).await?;
    let words = outage
        .lab
        .wait_told_of(&outage.node, "ForeignOutOfService")
        .await?;
    let said = format!(
        "Node {} already has taint `out-of-service`, set by others, and is not fenced until they remove it",
        outage.node
    );
    ensure!(words == said, "{words}");
    outage
        .lab
        .workloads
        .wait_running_elsewhere("db-0", &outage.node, LIMIT)
        .await?;
    outage
        .stays("the human's taint", |node| {
            has_taint(node, OUT_OF_SERVICE) && !has_taint(node, CLAIM)
        })
        .await?;
    ensure!(outage.lab.fence_of(&outage.node).await?.is_none());
    ensure!(outage.node_writes().await?.is_empty());

    // Theirs is gone, the node is still down: now it is a case for the operator.
    outage.kubectl_taint(REMOVE).await?;
    outage.lab.wait_stage(&outage.node, "Recovered").await?;
    outage.verdict().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_human_who_is_faster_than_an_open_incident_holds_it() -> Result<()> {
    let manual = json!({"fence": {"approval": {"mode": "Manual"}}});
    let outage = Outage::prepare("human-faster", "ConfirmOnly", manual).await?;
    outage.cut().await?;
    let fence = outage
        .lab
        .wait_stage(&outage.node, "AwaitingApproval")
        .await?;
    outage.kubectl_taint(SET).await?;
    let held = outage.lab.wait_stage(&outage.node, "Held").await?;
    let says = condition(&held, "Held").map(|held| held["message"].to_string());
    ensure!(says.is_some_and(|says| says.contains("set by others")));
    let reason = condition(&held, "Held").map(|held| held["reason"].to_string());
    ensure!(reason.is_some_and(|reason| reason.contains("ForeignOutOfService")));
    outage.lab.wait_told(&fence, "Held").await?;
    ensure!(outage.node_writes().await?.is_empty());

    approve(&outage.lab, name(&fence)?).await?;
    outage.kubectl_taint(REMOVE).await?;
    outage.lab.wait_stage(&outage.node, "Recovered").await?;
    outage.verdict().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_human_who_taints_under_our_claim_gets_the_node() -> Result<()> {
    let outage = Outage::prepare("human-midway", "ConfirmOnly", json!({})).await?;
    outage.cut().await?;
    let kept = outage.keep_before_the_evidence().await?;
    // Without evidence on record nobody can take this taint for ours.
    outage.kubectl_taint(SET).await?;
    outage.wait_no_taint(CLAIM).await?;
    outage.lab.wait_stage(&outage.node, "Held").await?;
    kept.remove();
    outage
        .stays("the human's taint", |node| {
            has_taint(node, OUT_OF_SERVICE) && !has_taint(node, CLAIM)
        })
        .await?;
    ensure!(outage.node_writes().await?.len() == 2, "claim, and back");

    outage.kubectl_taint(REMOVE).await?;
    outage.lab.wait_stage(&outage.node, "Recovered").await?;
    outage.verdict().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_human_who_removes_our_taint_ends_the_incident() -> Result<()> {
    let outage = Outage::prepare("taint-removed", "ConfirmOnly", json!({})).await?;
    outage.lab.control_plane.array().hang_detach().await?;
    outage.cut().await?;
    outage.lab.wait_stage(&outage.node, "Detaching").await?;
    outage.kubectl_taint(REMOVE).await?;
    let ended = outage.lab.wait_stage(&outage.node, "Aborted").await?;
    let words = condition(&ended, "Succeeded").map(|ended| ended["message"].to_string());
    ensure!(words.is_some_and(|words| words.contains("by others")));
    outage
        .stays("no taint of ours", |node| {
            !has_taint(node, OUT_OF_SERVICE) && !has_taint(node, CLAIM)
        })
        .await?;
    let last = outage.lab.fence_of(&outage.node).await?;
    ensure!(last.is_some_and(|last| last.metadata.name == ended.metadata.name));
    ensure!(
        outage.node_writes().await?.len() == 3,
        "claim, taint, and the claim back"
    );
    outage.lab.control_plane.array().clear_faults().await?;
    outage.verdict().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_human_who_removes_our_claim_before_the_taint_stops_the_fence() -> Result<()> {
    let outage = Outage::prepare("claim-removed", "ConfirmOnly", json!({})).await?;
    outage.cut().await?;
    let kept = outage.keep_before_the_evidence().await?;
    outage.kubectl_taint("nodefencing.io/claim-").await?;
    kept.remove();
    let ended = outage.lab.wait_stage(&outage.node, "Aborted").await?;
    outage
        .stays("no taint of ours", |node| {
            !has_taint(node, OUT_OF_SERVICE) && !has_taint(node, CLAIM)
        })
        .await?;
    let last = outage.lab.fence_of(&outage.node).await?;
    ensure!(last.is_some_and(|last| last.metadata.name == ended.metadata.name));
    ensure!(outage.node_writes().await?.len() == 1, "the claim alone");

    // The next outage is another matter.
    outage.restore_and_probe().await?;
    outage.cut().await?;
    let next = outage.lab.wait_stage(&outage.node, "Recovered").await?;
    ensure!(next.metadata.name != ended.metadata.name);
    outage.verdict().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_human_who_removes_our_claim_after_the_taint_has_to_remove_the_taint() -> Result<()> {
    let outage = Outage::prepare("claim-removed-late", "ConfirmOnly", json!({})).await?;
    outage.lab.control_plane.array().hang_detach().await?;
    outage.cut().await?;
    let fence = outage.lab.wait_stage(&outage.node, "Detaching").await?;
    outage.kubectl_taint("nodefencing.io/claim-").await?;
    let warned = |reason: &str| {
        let reason = reason.to_owned();
        move |fence: &kube::api::DynamicObject| {
            condition(fence, "Escalated").is_some_and(|it| it["reason"] == reason.as_str())
        }
    };
    outage
        .lab
        .wait_fence(&outage.node, warned("ClaimRemoved"))
        .await?;
    outage.lab.wait_told(&fence, "ClaimRemoved").await?;
    outage.lab.control_plane.array().clear_faults().await?;
    outage
        .lab
        .workloads
        .wait_running_elsewhere("db-0", &outage.node, LIMIT)
        .await?;
    outage
        .stays("the taint, which is nobody's", |node| {
            has_taint(node, OUT_OF_SERVICE) && !has_taint(node, CLAIM)
        })
        .await?;
    let open = outage.lab.fence_of(&outage.node).await?;
    ensure!(open.is_some_and(|open| stage(&open) == "AwaitingRelease"));

    outage.kubectl_taint(REMOVE).await?;
    outage.lab.wait_stage(&outage.node, "Aborted").await?;
    let writes = outage.node_writes().await?;
    ensure!(writes.len() == 2 && writes.iter().all(|write| claim_after(write).is_some()));
    outage.verdict().await
}
