//! Who may say in an annotation of a policy or a device that they have acted: each row of `notes.yaml` is tried on the real API server by the
//! user whom it names.

use anyhow::{Context, Result, bail};
use http::Method;
use kube::Client;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::admission::Guarded;
use crate::api::data;
use crate::verdict::{Body, Expect, Tally, Verdict, call, must};
use crate::words::People;

const GROUP: &str = "/apis/nodefencing.io/v1alpha1";

/// A row of `notes.yaml`.
#[derive(Deserialize)]
struct Row {
    name: String,
    user: String,
    object: String,
    #[serde(default)]
    notes: Map<String, Value>,
    #[serde(default)]
    pauses: Vec<Value>,
    #[serde(default)]
    created: bool,
    #[serde(default)]
    then: Map<String, Value>,
    #[serde(default, rename = "thenPauses")]
    then_pauses: Vec<Value>,
    #[serde(default, rename = "thenSpec")]
    then_spec: Map<String, Value>,
    expect: Expect,
    message: Option<String>,
}

/// Tries every row.
pub async fn try_all(guarded: &Guarded, people: &People, tally: &mut Tally) -> Result<()> {
    let rows: Vec<Row> = serde_saphyr::from_str(&data("notes.yaml")?)?;
    for (index, row) in rows.iter().enumerate() {
        let client = match row.user.as_str() {
            "admin" => &guarded.admin,
            other => people.client(other)?,
        };
        let verdict = attempt(guarded, client, &format!("note-{index}"), row)
            .await
            .with_context(|| row.name.clone())?;
        tally.judge(&row.name, row.expect, row.message.as_deref(), &verdict);
    }
    Ok(())
}

async fn attempt(guarded: &Guarded, client: &Client, name: &str, row: &Row) -> Result<Verdict> {
    let (kind, resource, spec) = match row.object.as_str() {
        "policy" => (
            "NodeFencingPolicy",
            "nodefencingpolicies",
            json!({"nodeSelector": {"matchLabels": {"nobody": "has"}}, "pauseRequests": row.pauses}),
        ),
        "device" => (
            "FenceDevice",
            "fencedevices",
            json!({"nodeName": "w", "manual": {}}),
        ),
        other => bail!("no object: {other}"),
    };
    let object = json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": kind,
        "metadata": {"name": name, "annotations": annotations(&row.notes)}, "spec": spec,
    });
    let path = format!("{GROUP}/{resource}");
    let create = Some((Body::Object, &object));
    if row.created {
        return call(client, Method::POST, &path, create).await;
    }
    must(&guarded.admin, Method::POST, &path, create).await?;
    let mut patch = json!({"metadata": {"annotations": annotations(&row.then)}});
    if row.object == "policy" {
        patch["spec"] = json!({"pauseRequests": row.then_pauses});
    }
    for (field, value) in &row.then_spec {
        patch["spec"][field] = value.clone();
    }
    let path = format!("{path}/{name}");
    call(client, Method::PATCH, &path, Some((Body::Merge, &patch))).await
}

/// With our prefix, which the tables leave out.
pub fn annotations(notes: &Map<String, Value>) -> Map<String, Value> {
    let ours = notes.iter();
    ours.map(|(key, value)| (format!("nodefencing.io/{key}"), value.clone()))
        .collect()
}
