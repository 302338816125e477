//! What the operator may write to the status of a Node and of a pod (S24), and what a thief gets where its rights include those of
//! `deploy/early-detection`: a Ready node out of service, by three writes, and nothing else of any status.

use anyhow::{Context, Result, ensure};
use e2e::lab::LIMIT;
use fencing_testbed::eventually::eventually;
use fencing_testbed::paths::workspace;
use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::admission::{Guarded, User};
use crate::api::data;
use crate::verdict::{Body, Expect, Tally, Verdict, call, must};

const NODES: &str = "/api/v1/nodes";
const PODS: &str = "/api/v1/namespaces/default/pods";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

/// `early-detection.yaml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    node: Value,
    pod: Value,
    rows: Vec<Row>,
}

/// One of its rows.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    of: Of,
    stored: Option<Value>,
    #[serde(default)]
    deleting: bool,
    #[serde(default)]
    user: User,
    #[serde(default = "json_patch", rename = "type")]
    body: Body,
    #[serde(default = "status")]
    subresource: String,
    patch: Value,
    expect: Expect,
    message: Option<String>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Of {
    Node,
    Pod,
}

fn json_patch() -> Body {
    Body::Json
}

fn status() -> String {
    "status".to_owned()
}

/// Tries each row of the table, with an account whose only limit are the policies.
pub async fn try_all(guarded: &Guarded, tally: &mut Tally) -> Result<()> {
    let table: Table = serde_saphyr::from_str(&data("early-detection.yaml")?)?;
    for (index, row) in table.rows.iter().enumerate() {
        let name = format!("turned-{index}");
        let verdict = attempt(guarded, &table, &name, row).await;
        let verdict = verdict.with_context(|| row.name.clone())?;
        tally.judge(&row.name, row.expect, row.message.as_deref(), &verdict);
    }
    Ok(())
}

/// Stores a row's object and tries what the row says. Fails where more has changed than the verdict says.
async fn attempt(guarded: &Guarded, table: &Table, name: &str, row: &Row) -> Result<Verdict> {
    let path = store(guarded, table, name, row).await?;
    let before = must(&guarded.admin, Method::GET, &path, None).await?;
    let client = guarded.client_of(row.user);
    let target = format!("{path}/{}", row.subresource);
    let patch = Some((row.body, &row.patch));
    let verdict = call(client, Method::PATCH, &target, patch).await?;
    let after = must(&guarded.admin, Method::GET, &path, None).await?;
    if verdict.is_err() {
        ensure!(before == after, "denied, and yet it has changed: {after}");
    } else if row.user == User::Operator {
        let (before, after) = (parted(&before)?, parted(&after)?);
        ensure!(before.0 == after.0, "it changed {before:?} to {after:?}");
        ensure!(before.1 != after.1, "Ready is as it was: {after:?}");
    }
    Ok(verdict)
}

/// Stores the object of a row as its kubelet would have, and returns its path.
async fn store(guarded: &Guarded, table: &Table, name: &str, row: &Row) -> Result<String> {
    let (collection, kind, reported) = match row.of {
        Of::Node => (NODES, "Node", &table.node),
        Of::Pod => (PODS, "Pod", &table.pod),
    };
    let mut object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
    for part in [Some(reported), row.stored.as_ref()].into_iter().flatten() {
        ::json_patch::merge(&mut object, part);
    }
    let body = Some((Body::Object, &object));
    must(&guarded.admin, Method::POST, collection, body).await?;
    let path = format!("{collection}/{name}");
    let status = json!({"status": object["status"]});
    let body = Some((Body::Merge, &status));
    must(
        &guarded.admin,
        Method::PATCH,
        &format!("{path}/status"),
        body,
    )
    .await?;
    if row.deleting {
        must(&guarded.admin, Method::DELETE, &path, None).await?;
    }
    Ok(path)
}

/// An object without Ready and what changes with every write, and its Ready.
fn parted(object: &Value) -> Result<(Value, Vec<Value>)> {
    let mut object = object.clone();
    let metadata = object["metadata"].as_object_mut().context("no metadata")?;
    metadata.retain(|key, _| !["managedFields", "resourceVersion"].contains(&key.as_str()));
    let conditions = object["status"]["conditions"].take();
    let conditions = conditions.as_array().cloned().unwrap_or_default();
    let is_ready = |condition: &Value| condition["type"] == "Ready";
    let (ready, others) = conditions.into_iter().partition(is_ready);
    object["status"]["conditions"] = Value::Array(others);
    Ok((object, ready))
}

/// Grants the account what `deploy/early-detection` has, and tries what a thief would: to replace a status, or to write a Lease, is not
/// among it. What is given up with it is shown, too.
pub async fn with_the_rights(guarded: &Guarded, tally: &mut Tally) -> Result<()> {
    let rights = workspace().join("deploy/early-detection/rbac.yaml");
    let rights = rights
        .to_str()
        .context("the workspace's path is not UTF-8")?;
    let apply = ["apply", "--server-side", "-f", rights];
    guarded.plane.kubectl_text(&apply).await?;
    eventually("the rights take effect", LIMIT, async || {
        let answer = call(&guarded.operator, Method::GET, LEASES, None).await?;
        ensure!(answer.is_ok(), "Leases may not be listed");
        for collection in [NODES, PODS] {
            let (path, nothing) = (format!("{collection}/none/status"), json!([]));
            let body = Some((Body::Json, &nothing));
            let answer = call(&guarded.operator, Method::PATCH, &path, body).await?;
            let code = answer.err().map(|status| status.code);
            ensure!(code == Some(404), "{path}: {code:?}");
        }
        Ok(())
    })
    .await?;
    guarded.node("stolen-early", &[], "True", "b").await?;
    let path = format!("{NODES}/stolen-early");
    let node = must(&guarded.admin, Method::GET, &path, None).await?;
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "stolen-early"},
    });
    let status = format!("{path}/status");
    for (name, method, path, body) in [
        ("replace the status of a Node", Method::PUT, &*status, &node),
        ("write a Lease", Method::POST, LEASES, &lease),
    ] {
        let verdict = call(&guarded.operator, method, path, Some((Body::Object, body))).await?;
        let name = format!("stolen token with early detection: {name}");
        tally.judge(&name, Expect::Deny, Some("cannot "), &verdict);
    }
    out_of_service(guarded, tally, &path).await?;
    must(&guarded.admin, Method::DELETE, &path, None).await?;
    Ok(())
}

/// No policy can ask for how long a node has been Unknown: SECURITY.md says what follows for who grants these rights.
async fn out_of_service(guarded: &Guarded, tally: &mut Tally, node: &str) -> Result<()> {
    let date = "2026-01-02T00:00:00Z";
    let claim = json!({"key": "nodefencing.io/claim", "value": "f-1", "effect": "NoExecute", "timeAdded": date});
    let effect = json!({
        "key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute", "timeAdded": date,
    });
    let unknown = json!([
        {"op": "test", "path": "/status/conditions/0/type", "value": "Ready"},
        {"op": "replace", "path": "/status/conditions/0/status", "value": "Unknown"},
        {"op": "replace", "path": "/status/conditions/0/reason", "value": "PoweredOff"},
    ]);
    let claim = json!([{"op": "add", "path": "/spec/taints", "value": [claim]}]);
    let effect = json!([{"op": "add", "path": "/spec/taints/-", "value": effect}]);
    let s6 = Some("S6: a Ready node may not be claimed");
    for (name, expect, message, path, patch) in [
        (
            "claim a Ready node",
            Expect::Deny,
            s6,
            node.to_owned(),
            &claim,
        ),
        (
            "turn a Ready node",
            Expect::Allow,
            None,
            format!("{node}/status"),
            &unknown,
        ),
        ("claim it", Expect::Allow, None, node.to_owned(), &claim),
        (
            "put it out of service",
            Expect::Allow,
            None,
            node.to_owned(),
            &effect,
        ),
    ] {
        let body = Some((Body::Json, patch));
        let verdict = call(&guarded.operator, Method::PATCH, &path, body).await?;
        let name = format!("stolen token with early detection: {name}");
        tally.judge(&name, expect, message, &verdict);
    }
    Ok(())
}
