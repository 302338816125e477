//! What the operator may write to the status of a Node and of a pod (S24), each row of `early-detection.yaml`.

use super::policy::{self, Policy, Verdict};
use super::{patched, request};
use serde::Deserialize;
use serde_json::{Value, json};

/// `early-detection.yaml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatusTable {
    node: Value,
    pod: Value,
    pub rows: Vec<StatusRow>,
}

/// One of its rows.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatusRow {
    pub name: String,
    of: String,
    stored: Option<Value>,
    #[serde(default)]
    deleting: bool,
    #[serde(default = "operator")]
    user: String,
    #[serde(default, rename = "type")]
    body: String,
    #[serde(default = "status")]
    subresource: String,
    patch: Value,
    pub expect: String,
    pub message: Option<String>,
}

fn operator() -> String {
    "operator".to_owned()
}

fn status() -> String {
    "status".to_owned()
}

pub fn judge_status(policies: &[Policy], table: &StatusTable, row: &StatusRow) -> Verdict {
    let (object, resource) = match row.of.as_str() {
        "node" => (&table.node, "nodes"),
        "pod" => (&table.pod, "pods"),
        other => panic!("of what? {other}"),
    };
    let mut old = json!({"metadata": {"name": "n", "uid": "u"}, "spec": {}});
    json_patch::merge(&mut old, object);
    if let Some(stored) = &row.stored {
        json_patch::merge(&mut old, stored);
    }
    if row.deleting {
        old["metadata"]["deletionTimestamp"] = json!("2026-01-02T00:00:00Z");
    }
    let new = match row.body.as_str() {
        "strategic" => Some(strategic(&old, &row.patch)),
        _ => patched(&old, &row.patch),
    };
    let Some(mut new) = new else {
        return Verdict::refused("the server rejected our request due to an error in our request");
    };
    // What the API server makes of it before it asks a policy.
    if row.subresource == "status" {
        new["spec"] = old["spec"].clone();
    }
    let fields = new["status"].as_object_mut().expect("a status");
    fields.retain(|_, value| *value != json!([]));
    let mut request = request(&row.user, ("", resource));
    request.subresource.clone_from(&row.subresource);
    (request.old, request.new) = (old, new);
    policy::judge(policies, &request)
}

/// The stored object after a strategic merge, which finds a condition by its type.
fn strategic(old: &Value, patch: &Value) -> Value {
    let (mut new, mut patch) = (old.clone(), patch.clone());
    let fields = patch.get_mut("status").and_then(Value::as_object_mut);
    let conditions = fields.and_then(|fields| fields.remove("conditions"));
    json_patch::merge(&mut new, &patch);
    for condition in conditions
        .as_ref()
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let stored = new["status"]["conditions"].as_array_mut();
        let mut stored = stored.expect("conditions").iter_mut();
        let same = stored.find(|it| it["type"] == condition["type"]);
        json_patch::merge(same.expect("one of this type"), condition);
    }
    new
}
