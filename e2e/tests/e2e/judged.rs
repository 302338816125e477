//! What the API server cannot refuse, because it cannot know of devices, the judge finds at the end of a test.

use anyhow::{Context, Result, ensure};
use e2e::control_plane::client;
use e2e::lab::{LIMIT, Lab, Setup, taints};
use e2e::machine::Ailment;
use e2e::operator::{NAMESPACE, SERVICE_ACCOUNT};
use e2e::proxy::writes::{CLAIM, OUT_OF_SERVICE};
use e2e::workload::wait_node_ready;
use http::Method;
use serde_json::{Value, json};

use crate::verdict::{Body, must};

/// With the operator's token, in the form that the admission policies want.
async fn taint_without_proof(lab: &Lab, node: &str) -> Result<()> {
    let plane = &lab.control_plane;
    let path = plane.kubeconfig_for_service_account(NAMESPACE, SERVICE_ACCOUNT, None);
    let operator = client(&path.await?).await?;
    let patch = async |patch: &Value| {
        let path = format!("/api/v1/nodes/{node}");
        must(&operator, Method::PATCH, &path, Some((Body::Json, patch))).await
    };
    let both = |node: &_| taints(node).len() == 2;
    let found = lab
        .wait_node(node, "both taints of unreachable", both)
        .await?;
    let uid = found.metadata.uid.context("it has a uid")?;
    let test_uid = json!({"op": "test", "path": "/metadata/uid", "value": uid});
    let taint = |key: &str, value: &str| json!({"key": key, "value": value, "effect": "NoExecute", "timeAdded": "2026-01-02T00:00:00Z"});
    let claim = taint(CLAIM, "nothing-1");
    let add_claim = json!({"op": "add", "path": "/spec/taints/-", "value": claim});
    patch(&json!([test_uid, add_claim])).await?;
    let taint = taint(OUT_OF_SERVICE, "nodeshutdown");
    let test_claim = json!({"op": "test", "path": "/spec/taints/2", "value": claim});
    let add_taint = json!({"op": "add", "path": "/spec/taints/-", "value": taint});
    patch(&json!([test_uid, test_claim, add_taint])).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_taint_for_which_nothing_was_proven_is_found_by_the_verdict() -> Result<()> {
    // A cluster all of whose nodes are away gets no NoExecute taints.
    let lab = Lab::start(Setup::new("judged", 2)).await?;
    let machine = &lab.rig(1).machine;
    machine.ail(Ailment {
        partitioned: true,
        ..Ailment::default()
    });
    wait_node_ready(lab.control_plane.admin(), machine.name(), "Unknown", LIMIT).await?;
    taint_without_proof(&lab, machine.name()).await?;

    let error = lab.verdict().await.expect_err("nothing was proven");
    let error = format!("{error:#}");
    for rule in [
        "S10-same-node: Node node-1 at ",
        "S17-evidence-first: Node node-1 at ",
    ] {
        ensure!(error.contains(rule), "not found: {rule}\n{error}");
    }
    Ok(())
}
