//! The fields of a Node that the operator must not change: those of its status, and all of its spec but the taints.

use anyhow::{Context, Result, ensure};
use fencing_testbed::paths::workspace;
use http::Method;
use serde_json::json;

use crate::admission::Guarded;
use crate::verdict::{Body, call, must};

/// A field that Kubernetes adds to a Node has to be added to the policy (S7): it cannot compare all but one.
pub async fn the_policy_names_every_one(guarded: &Guarded) -> Result<()> {
    // What the API server itself keeps from changing, or changes with every write.
    const KEPT: [&str; 10] = [
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "generation",
        "managedFields",
        "name",
        "namespace",
        "resourceVersion",
        "selfLink",
        "uid",
    ];
    let api = must(&guarded.admin, Method::GET, "/openapi/v3/api/v1", None).await?;
    let policy = std::fs::read_to_string(workspace().join("deploy/admission.yaml"))?;
    let mut unnamed = Vec::new();
    for (schema, path, others) in [
        ("io.k8s.api.core.v1.NodeSpec", "spec", &["taints"][..]),
        (
            "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta",
            "metadata",
            &KEPT,
        ),
    ] {
        let properties = api["components"]["schemas"][schema]["properties"].as_object();
        for field in properties.with_context(|| format!("no {schema}"))?.keys() {
            let compared = format!("object.{path}.?{field} == oldObject.{path}.?{field}");
            if !others.contains(&field.as_str()) && !policy.contains(&compared) {
                unnamed.push(format!("{path}.{field}"));
            }
        }
    }
    ensure!(
        unnamed.is_empty(),
        "the policy does not compare {unnamed:?}"
    );
    Ok(())
}

/// The API server itself drops a status in a write to a Node; no policy has to.
pub async fn a_write_to_a_node_leaves_its_status(guarded: &Guarded) -> Result<()> {
    guarded.node("status", &[], "Unknown", "").await?;
    let conditions =
        json!([{"type": "Ready", "status": "True", "reason": "Forged", "message": ""}]);
    let patch = json!({"status": {"conditions": conditions}});
    let path = "/api/v1/nodes/status";
    let client = &guarded.operator;
    let verdict = call(client, Method::PATCH, path, Some((Body::Strategic, &patch))).await?;
    ensure!(verdict.is_ok(), "{verdict:?}");
    let node = must(&guarded.admin, Method::GET, path, None).await?;
    ensure!(
        node["status"]["conditions"][0]["status"] == "Unknown",
        "the status was written: {node}"
    );
    Ok(())
}
