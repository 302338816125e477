//! What the admission policies of `deploy/` let the operator do, and what they keep from everybody else.
//!
//! First a thief tries the operator's token with the rights that it has. Then its account is bound to cluster-admin: nothing but the
//! policies stands in its way.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::control_plane::{Component, ControlPlane, Options, client};
use e2e::lab::LIMIT;
use e2e::operator::{NAMESPACE, SERVICE_ACCOUNT};
use fencing_testbed::eventually::eventually;
use http::Method;
use kube::Client;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::api::data;
use crate::verdict::{Body, Expect, Tally, Verdict, call, must};
use crate::{deletions, node_fields, stolen_token, turned_ready, words};

const CLAIM: &str = "nodefencing.io/claim";
const DETACHING: &str = "nodefencing.io/detaching";
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// A row of `admission.yaml`.
#[derive(Deserialize)]
struct Row {
    name: String,
    user: User,
    expect: Expect,
    message: Option<String>,
    warns: Option<String>,
    #[serde(default)]
    taints: Vec<Value>,
    ready: Option<String>,
    #[serde(default, rename = "bootID")]
    boot_id: String,
    patch: Option<Value>,
    #[serde(rename = "type")]
    body: Option<Body>,
    subresource: Option<String>,
    #[serde(default)]
    delete: bool,
    #[serde(default, rename = "asRead")]
    as_read: bool,
    #[serde(default)]
    create: bool,
    #[serde(default)]
    connect: bool,
}

/// Who tries what a row says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum User {
    #[default]
    Operator,
    Admin,
}

/// A control plane with `deploy/` applied, and both users' clients.
pub struct Guarded {
    pub plane: ControlPlane,
    pub admin: Client,
    pub operator: Client,
}

impl Guarded {
    /// The client of this user.
    pub fn client_of(&self, user: User) -> &Client {
        match user {
            User::Operator => &self.operator,
            User::Admin => &self.admin,
        }
    }

    async fn start(name: &str) -> Result<Self> {
        let plane = ControlPlane::start(Options::named(name)).await?;
        plane.apply_deploy().await?;
        plane.wait_for_service_account("default", "default").await?;
        // It would find that nobody renews the Leases of these nodes, and taint them.
        plane.stop_component(Component::ControllerManager)?;
        let path = plane.kubeconfig_for_service_account(NAMESPACE, SERVICE_ACCOUNT, None);
        let operator = client(&path.await?).await?;
        let admin = plane.admin();
        let guarded = Self {
            plane,
            admin,
            operator,
        };
        guarded.wait_for_policies().await?;
        Ok(guarded)
    }

    /// A policy guards some moments after it is stored. Each is seen to refuse something but that of pods, which cannot be tried
    /// without a pod.
    async fn wait_for_policies(&self) -> Result<()> {
        let claimed = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": "probe"},
            "spec": {"taints": [{"key": CLAIM, "value": "a", "effect": "NoExecute"}]},
        });
        let fence = |spec: Value| {
            json!({
                "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence", "metadata": {"name": "probe"}, "spec": spec,
            })
        };
        let nobody = json!({
            "user": "nobody", "reason": "a", "time": "2026-11-21T01:02:00Z",
            "decision": "Denied", "statement": "IVerifiedTheNodeIsPoweredOff", "nodeUID": "u",
        });
        let own = json!({"type": "Manual", "requestedBy": "admin", "reason": "a"});
        let with = |field: &str| {
            let mut spec = json!({"nodeName": "w", "trigger": own, "fence": {"mode": "Observe"}});
            spec[field] = nobody.clone();
            fence(spec)
        };
        let trigger = json!({"type": "Manual", "requestedBy": "nobody", "reason": "a"});
        let manual =
            fence(json!({"nodeName": "w", "trigger": trigger, "fence": {"mode": "Observe"}}));
        let mut released = fence(
            json!({"nodeName": "w", "trigger": own, "fence": {"mode": "Observe"}, "desiredState": "Released"}),
        );
        released["metadata"]["annotations"] = json!({"nodefencing.io/released-by": "nobody"});
        let (nodes, fences) = ("/api/v1/nodes", "/apis/nodefencing.io/v1alpha1/nodefences");
        for (client, path, object) in [
            (&self.admin, nodes, &claimed),
            (&self.admin, fences, &with("approval")),
            (&self.admin, fences, &with("manualConfirmation")),
            (&self.admin, fences, &manual),
            (&self.admin, fences, &released),
            (&self.operator, fences, &manual),
        ] {
            let path = format!("{path}?dryRun=All");
            eventually("the admission policies guard", LIMIT, async || {
                let body = Some((Body::Object, object));
                let answer = call(client, Method::POST, &path, body).await?;
                ensure!(answer.is_err(), "accepted: {object}");
                Ok(())
            })
            .await?;
        }
        // One watch brings all of them, but they are compiled one by one.
        sleep(Duration::from_millis(500)).await;
        Ok(())
    }

    /// Lifts every limit but the policies.
    async fn bind_to_cluster_admin(&self) -> Result<()> {
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": "too-much"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": SERVICE_ACCOUNT, "namespace": NAMESPACE}],
        });
        let path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
        must(
            &self.admin,
            Method::POST,
            path,
            Some((Body::Object, &binding)),
        )
        .await?;
        eventually("the binding takes effect", LIMIT, async || {
            let answer = call(&self.operator, Method::GET, "/api/v1/secrets", None).await?;
            ensure!(answer.is_ok(), "Secrets may not be listed");
            Ok(())
        })
        .await
    }

    /// Stores a Node with these taints, each written by whoever may write it.
    pub async fn node(&self, name: &str, taints: &[Value], ready: &str, boot: &str) -> Result<()> {
        let node =
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {}});
        must(
            &self.admin,
            Method::POST,
            "/api/v1/nodes",
            Some((Body::Object, &node)),
        )
        .await?;
        self.report(name, "Unknown", marked_boot(taints).unwrap_or(boot))
            .await?;
        let claimed = taints.iter().any(|taint| taint["key"] == CLAIM);
        let own = |taint: &&Value| {
            let is_effect =
                [OUT_OF_SERVICE, DETACHING].contains(&taint["key"].as_str().unwrap_or_default());
            taint["key"] == CLAIM || claimed && is_effect
        };
        let mut now: Vec<Value> = taints.iter().filter(|taint| !own(taint)).cloned().collect();
        // The API server gives every new Node a taint; this replaces it.
        self.set_taints(&self.admin, name, &now).await?;
        for key in [CLAIM, OUT_OF_SERVICE, DETACHING] {
            for taint in taints
                .iter()
                .filter(own)
                .filter(|taint| taint["key"] == key)
            {
                now.push(taint.clone());
                let is_of_claim = taints
                    .iter()
                    .any(|it| it["key"] == CLAIM && it["timeAdded"] == taint["timeAdded"]);
                let is_human =
                    key == OUT_OF_SERVICE && (taint["value"] != "nodeshutdown" || !is_of_claim);
                let client = if is_human {
                    &self.admin
                } else {
                    &self.operator
                };
                self.set_taints(client, name, &now).await?;
            }
        }
        self.report(name, ready, boot).await
    }

    async fn set_taints(&self, client: &Client, node: &str, taints: &[Value]) -> Result<()> {
        let patch = json!({"spec": {"taints": taints}});
        let path = format!("/api/v1/nodes/{node}");
        must(client, Method::PATCH, &path, Some((Body::Merge, &patch))).await?;
        Ok(())
    }

    /// What the node-lifecycle controller or the kubelet would report.
    async fn report(&self, node: &str, ready: &str, boot: &str) -> Result<()> {
        let condition = json!({"type": "Ready", "status": ready, "reason": "Test", "message": ""});
        let patch = json!({"status": {"conditions": [condition], "nodeInfo": {"bootID": boot}}});
        let path = format!("/api/v1/nodes/{node}/status");
        must(
            &self.admin,
            Method::PATCH,
            &path,
            Some((Body::Strategic, &patch)),
        )
        .await?;
        Ok(())
    }
}

/// The boot for which the node is detaching: the one that it reports while that is written.
fn marked_boot(taints: &[Value]) -> Option<&str> {
    let mark = taints.iter().find(|taint| taint["key"] == DETACHING)?;
    mark["value"].as_str()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_server_guards_nodes_and_pods() -> Result<()> {
    let guarded = Guarded::start("admission").await?;
    let mut tally = Tally::default();
    stolen_token::try_all(&guarded, &mut tally).await?;
    println!("{} tries with a stolen token", tally.judged());
    turned_ready::with_the_rights(&guarded, &mut tally).await?;
    guarded.bind_to_cluster_admin().await?;
    let rows: Vec<Row> = serde_saphyr::from_str(&data("admission.yaml")?)?;
    for (index, row) in rows.iter().enumerate() {
        let verdict = attempt(&guarded, &format!("node-{index}"), row)
            .await
            .with_context(|| row.name.clone())?;
        tally.judge(&row.name, row.expect, row.message.as_deref(), &verdict);
    }
    deletions::pods(&guarded, &mut tally).await?;
    deletions::attachments(&guarded, &mut tally).await?;
    words::try_all(&guarded, &mut tally).await?;
    turned_ready::try_all(&guarded, &mut tally).await?;
    node_fields::a_write_to_a_node_leaves_its_status(&guarded).await?;
    node_fields::the_policy_names_every_one(&guarded).await?;
    tally.finish(301)
}

/// Sets a row's Node up and tries what the row says.
async fn attempt(guarded: &Guarded, name: &str, row: &Row) -> Result<Verdict> {
    let client = guarded.client_of(row.user);
    if row.create {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
        return call(
            client,
            Method::POST,
            "/api/v1/nodes",
            Some((Body::Object, &node)),
        )
        .await;
    }
    let ready = row.ready.as_deref().context("no `ready`")?;
    guarded.node(name, &row.taints, ready, &row.boot_id).await?;
    let mut path = format!("/api/v1/nodes/{name}");
    if row.connect {
        return call(client, Method::GET, &format!("{path}/proxy/pods"), None).await;
    }
    if row.delete {
        let node = must(&guarded.admin, Method::GET, &path, None).await?;
        let (uid, version) = (
            &node["metadata"]["uid"],
            &node["metadata"]["resourceVersion"],
        );
        let as_read = json!({"preconditions": {"uid": uid, "resourceVersion": version}});
        let options = row.as_read.then_some((Body::Object, &as_read));
        return call(client, Method::DELETE, &path, options).await;
    }
    if let Some(subresource) = &row.subresource {
        path = format!("{path}/{subresource}");
    }
    let patch = row.patch.as_ref().context("no `patch`")?;
    let body = row.body.context("no `type`")?;
    if let Some(words) = &row.warns {
        let warning = warning(client, &path, patch).await?;
        ensure!(warning.contains(words), "the warning is {warning:?}");
    }
    let before = must(&guarded.admin, Method::GET, &path, None).await?;
    let verdict = call(client, Method::PATCH, &path, Some((body, patch))).await?;
    if verdict.is_err() {
        let after = must(&guarded.admin, Method::GET, &path, None).await?;
        ensure!(before == after, "denied, and yet the Node changed");
    }
    Ok(verdict)
}

/// What the API server warns of when this is tried as a dry run.
async fn warning(client: &Client, path: &str, patch: &Value) -> Result<String> {
    let request = http::Request::patch(format!("{path}?dryRun=All"))
        .header(http::header::CONTENT_TYPE, "application/merge-patch+json")
        .body(serde_json::to_vec(patch)?.into())?;
    let answer = client.send(request).await?;
    let warning = answer.headers().get(http::header::WARNING);
    Ok(warning
        .map(|it| it.to_str())
        .transpose()?
        .unwrap_or_default()
        .to_owned())
}
