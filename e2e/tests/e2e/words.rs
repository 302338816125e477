//! Who may give a word in a NodeFence, or create one: each row of `words.yaml` is tried on the real API server by the user whom it names.

use anyhow::{Context, Result, ensure};
use e2e::lab::LIMIT;
use fencing_testbed::eventually::eventually;
use fencing_testbed::pki::User;
use http::Method;
use kube::Client;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::admission::Guarded;
use crate::api::data;
use crate::notes::{self, annotations};
use crate::verdict::{Body, Expect, Tally, Verdict, call, must};

const FENCES: &str = "/apis/nodefencing.io/v1alpha1/nodefences";
const POLICIES: &str = "/apis/nodefencing.io/v1alpha1/nodefencingpolicies";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// A row of `words.yaml`.
#[derive(Deserialize)]
struct Row {
    name: String,
    user: String,
    fence: Value,
    #[serde(default)]
    notes: Map<String, Value>,
    then: Option<Value>,
    #[serde(default, rename = "thenNotes")]
    then_notes: Map<String, Value>,
    delete: Option<Delete>,
    expect: Expect,
    message: Option<String>,
}

#[derive(Deserialize)]
struct Delete {
    ended: bool,
    #[serde(rename = "byUID")]
    by_uid: bool,
}

/// Tries every row. The operator's account must be bound to cluster-admin.
pub async fn try_all(guarded: &Guarded, tally: &mut Tally) -> Result<()> {
    let people = People::bind(guarded).await?;
    let rows: Vec<Row> = serde_saphyr::from_str(&data("words.yaml")?)?;
    for (index, row) in rows.iter().enumerate() {
        let client = match row.user.as_str() {
            "operator" => &guarded.operator,
            "admin" => &guarded.admin,
            other => people.client(other)?,
        };
        let verdict = attempt(guarded, client, &format!("row-{index}"), row)
            .await
            .with_context(|| row.name.clone())?;
        tally.judge(&row.name, row.expect, row.message.as_deref(), &verdict);
    }
    notes::try_all(guarded, &people, tally).await
}

async fn attempt(guarded: &Guarded, client: &Client, name: &str, row: &Row) -> Result<Verdict> {
    let fence = json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence",
        "metadata": {"name": name, "annotations": annotations(&row.notes)}, "spec": row.fence,
    });
    let create = Some((Body::Object, &fence));
    let path = format!("{FENCES}/{name}");
    match (&row.then, &row.delete) {
        (None, None) => call(client, Method::POST, FENCES, create).await,
        (Some(then), _) => {
            must(&guarded.admin, Method::POST, FENCES, create).await?;
            let metadata = json!({"annotations": annotations(&row.then_notes)});
            let patch = json!({"metadata": metadata, "spec": then});
            call(client, Method::PATCH, &path, Some((Body::Merge, &patch))).await
        }
        (None, Some(delete)) => {
            let stored = must(&guarded.admin, Method::POST, FENCES, create).await?;
            if delete.ended {
                end(guarded, &path).await?;
            }
            let mut options = json!({"kind": "DeleteOptions", "apiVersion": "v1"});
            if delete.by_uid {
                options["preconditions"] = json!({"uid": stored["metadata"]["uid"]});
            }
            let body = Some((Body::Object, &options));
            call(client, Method::DELETE, &path, body).await
        }
    }
}

/// What the operator writes at the end of an incident.
async fn end(guarded: &Guarded, path: &str) -> Result<()> {
    let succeeded = json!({
        "type": "Succeeded", "status": "True", "reason": "Recovered", "message": "",
        "lastTransitionTime": "2026-11-21T01:02:00Z",
    });
    let patch = json!({"status": {"conditions": [succeeded]}});
    let path = format!("{path}/status");
    let body = Some((Body::Merge, &patch));
    must(&guarded.operator, Method::PATCH, &path, body)
        .await
        .map(drop)
}

/// People who are bound to the roles of `deploy/people.yaml`, and one who is not.
pub struct People(Vec<(&'static str, Client)>);

impl People {
    async fn bind(guarded: &Guarded) -> Result<Self> {
        role(guarded, "without-verbs", json!(["nodefences"])).await?;
        role(
            guarded,
            "edits",
            json!(["nodefencingpolicies", "fencedevices"]),
        )
        .await?;
        let mut people = Vec::new();
        for (name, role) in [
            ("ann", "node-fencing-approver"),
            ("conrad", "node-fencing-confirmer"),
            ("fred", "node-fencing-fencer"),
            ("paula", "node-fencing-pauser"),
            ("petra", "node-fencing-prober"),
            ("eve", "without-verbs"),
            ("olga", "edits"),
        ] {
            bind(&guarded.admin, name, role).await?;
            let config = guarded.plane.client_config(&User::new(name, None)).await?;
            let client = Client::try_from(config)?;
            let what = format!("the rights of {name} take effect");
            eventually(&what, LIMIT, async || {
                let kind = if role == "edits" { POLICIES } else { FENCES };
                let path = format!("{kind}/none");
                let answer = call(&client, Method::GET, &path, None).await?;
                ensure!(answer.is_err_and(|status| status.code == 404));
                Ok(())
            })
            .await?;
            people.push((name, client));
        }
        Ok(Self(people))
    }

    /// Who is called so.
    pub fn client(&self, name: &str) -> Result<&Client> {
        let mut people = self.0.iter();
        let found = people.find(|(other, _)| *other == name);
        Ok(&found.with_context(|| format!("nobody is called {name}"))?.1)
    }
}

/// A ClusterRole that may write these, and has none of the verbs.
async fn role(guarded: &Guarded, name: &str, resources: Value) -> Result<()> {
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name},
        "rules": [{"apiGroups": ["nodefencing.io"], "resources": resources, "verbs": ["get", "create", "patch"]}],
    });
    let path = format!("{RBAC}/clusterroles");
    let body = Some((Body::Object, &role));
    must(&guarded.admin, Method::POST, &path, body)
        .await
        .map(drop)
}

async fn bind(admin: &Client, user: &str, role: &str) -> Result<()> {
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": user},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    });
    let path = format!("{RBAC}/clusterrolebindings");
    must(admin, Method::POST, &path, Some((Body::Object, &binding)))
        .await
        .map(drop)
}
