//! Called by others: Medik8s' NodeHealthCheck and Cluster API's MachineHealthCheck have a node fenced by a NodeFenceRemediation.
//!
//! The caller does what their controllers do, step by step, and with the rights that they get: medik8s/node-healthcheck-operator v0.12.0
//! (internal/controller/resources/manager.go, nodehealthcheck_controller.go), kubernetes-sigs/cluster-api v1.14
//! (core/reconcilers/machinehealthcheck/machinehealthcheck_controller.go, controllers/external/util.go). The policy's wait is an hour: whatever is
//! fenced here was asked for.

use anyhow::{Context, Result, ensure};
use e2e::lab::{LIMIT, Lab, Setup, has_taint};
use e2e::machine::Ailment;
use e2e::operator::{self, Operator};
use e2e::proxy::writes::{CLAIM, OUT_OF_SERVICE};
use e2e::workload::wait_node_ready;
use fencing_testbed::eventually::eventually;
use fencing_testbed::paths::workspace;
use fencing_testbed::pki::User;
use http::Method;
use kube::Client;
use serde_json::{Value, json};

use crate::verdict::{Body, must};

const NAMESPACED: &str = "/apis/nodefencing.io/v1alpha1/namespaces/work";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const MACHINES: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/work";
const NODE: &str = "node-1";

struct Scene {
    lab: Lab,
    operator: Operator,
    caller: Client,
}

impl Scene {
    /// A template, and a caller whose role aggregates what has this label.
    async fn start(name: &str, label: &str) -> Result<Self> {
        let lab = Lab::start(Setup::new(name, 2).alone()).await?;
        let (plane, admin) = (&lab.control_plane, lab.control_plane.admin());
        lab.grant("callers").await?;
        let aggregated = workspace().join("deploy/callers/aggregated.yaml");
        let aggregated = aggregated.to_str().context("the path is not UTF-8")?;
        plane.kubectl_text(&["apply", "-f", aggregated]).await?;
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "caller"}, "rules": [],
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]},
        });
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "caller"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "caller"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "caller"}],
        });
        let template = json!({
            "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFenceRemediationTemplate",
            "metadata": {"name": "power", "namespace": "work"}, "spec": {"template": {}},
        });
        for (path, object) in [
            (format!("{RBAC}/clusterroles"), role),
            (format!("{RBAC}/clusterrolebindings"), binding),
            (
                format!("{NAMESPACED}/nodefenceremediationtemplates"),
                template,
            ),
        ] {
            must(&admin, Method::POST, &path, Some((Body::Object, &object))).await?;
        }
        let config = plane.client_config(&User::new("caller", None)).await?;
        let arguments = vec!["--callers".to_owned()];
        let options = operator::Options {
            arguments,
            ..operator::Options::default()
        };
        let operator = lab.operator_with(options).await?;
        lab.wait_protected().await?;
        Ok(Self {
            caller: Client::try_from(config)?,
            lab,
            operator,
        })
    }

    async fn policy(&self) -> Result<()> {
        let wait = json!([{"type": "Ready", "status": "Unknown", "durationSeconds": 3600}]);
        let policy = json!({"unhealthyConditions": wait});
        self.lab.policy("ConfirmOnly", policy).await
    }

    async fn wait_ready(&self, status: &str) -> Result<()> {
        let admin = self.lab.control_plane.admin();
        wait_node_ready(admin, NODE, status, LIMIT).await.map(drop)
    }

    /// Reads the template and makes a remediation of it, as soon as the caller's role has been aggregated.
    async fn ask(&self, metadata: Value) -> Result<()> {
        let template = format!("{NAMESPACED}/nodefenceremediationtemplates/power");
        let made = format!("{NAMESPACED}/nodefenceremediations");
        eventually("the caller asks", LIMIT, async || {
            let template = must(&self.caller, Method::GET, &template, None).await?;
            let remediation = json!({
                "apiVersion": template["apiVersion"], "kind": "NodeFenceRemediation", "metadata": metadata,
                "spec": template["spec"]["template"]["spec"],
            });
            let body = Some((Body::Object, &remediation));
            must(&self.caller, Method::POST, &made, body).await.map(drop)
        })
        .await
    }

    /// Waits until the remediation has both conditions for this reason.
    async fn wait_answer(&self, name: &str, succeeded: &str, reason: &str) -> Result<Value> {
        let path = format!("{NAMESPACED}/nodefenceremediations/{name}");
        eventually(reason, LIMIT, async || {
            let remediation = must(&self.caller, Method::GET, &path, None).await?;
            let conditions = remediation["status"]["conditions"].as_array();
            let of = |kind: &str| {
                let mut all = conditions.into_iter().flatten();
                all.find(|it| it["type"] == kind).cloned()
            };
            let processing = of("Processing").context("no answer yet")?;
            let found = of("Succeeded").context("no answer yet")?;
            let is_it = found["status"] == succeeded && found["reason"] == reason;
            ensure!(is_it, "it says {found}");
            ensure!(processing["status"] == "False", "it says {processing}");
            Ok(remediation)
        })
        .await
    }

    async fn withdraw(&self, name: &str) -> Result<()> {
        let path = format!("{NAMESPACED}/nodefenceremediations/{name}");
        let deleted = must(&self.caller, Method::DELETE, &path, None).await;
        deleted.map(drop)
    }

    async fn verdict(&self) -> Result<()> {
        self.operator.check()?;
        self.lab.verdict().await
    }
}

/// As NodeHealthCheck does: the node's name twice, its label, and the name of the template. Its owner reference leads to a kind that is not here.
fn of_node_health_check() -> Value {
    json!({
        "name": NODE, "namespace": "work", "labels": {"app.kubernetes.io/part-of": "node-healthcheck-controller"},
        "annotations": {"remediation.medik8s.io/node-name": NODE, "remediation.medik8s.io/template-name": "power"},
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_health_check_has_a_node_fenced_and_learns_that_a_policy_is_missing() -> Result<()> {
    let label = "rbac.ext-remediation/aggregate-to-ext-remediation";
    let scene = Scene::start("callers-nhc", label).await?;
    let lab = &scene.lab;
    lab.rig(1).machine.set_power(false);
    scene.wait_ready("Unknown").await?;
    scene.ask(of_node_health_check()).await?;
    scene.wait_answer(NODE, "False", "NoPolicy").await?;
    lab.hands_off().await?;

    scene.policy().await?;
    let fence = lab.wait_stage(NODE, "Recovered").await?;
    let trigger = &fence.data["spec"]["trigger"];
    ensure!(trigger["remediation"]["name"] == NODE, "{trigger:#}");
    let remediation = scene.wait_answer(NODE, "True", "Recovered").await?;
    ensure!(remediation["status"]["fenceName"] == json!(fence.metadata.name));

    lab.rig(1).machine.set_power(true);
    scene.wait_ready("True").await?;
    scene.withdraw(NODE).await?;
    scene.verdict().await
}

/// The machine runs, so nothing can be proven: NodeHealthCheck tries its next remediator.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_health_check_stops_a_fence_before_its_taint() -> Result<()> {
    let label = "rbac.ext-remediation/aggregate-to-ext-remediation";
    let scene = Scene::start("callers-stopped", label).await?;
    let lab = &scene.lab;
    scene.policy().await?;
    let machine = &lab.rig(1).machine;
    machine.ail(Ailment {
        partitioned: true,
        ..Ailment::default()
    });
    scene.wait_ready("Unknown").await?;
    ensure!(lab.fence_of(NODE).await?.is_none(), "nothing asked for it");
    scene.ask(of_node_health_check()).await?;
    lab.wait_fence(NODE, |_| true).await?;

    let path = format!("{NAMESPACED}/nodefenceremediations/{NODE}");
    let timed_out = json!({"metadata": {"annotations": {"remediation.medik8s.io/nhc-timed-out": "2027-01-02T18:00:00Z"}}});
    let body = Some((Body::Merge, &timed_out));
    must(&scene.caller, Method::PATCH, &path, body).await?;
    lab.wait_stage(NODE, "Aborted").await?;
    scene.wait_answer(NODE, "False", "Aborted").await?;
    let node = lab.node(NODE).await?;
    ensure!(!has_taint(&node, CLAIM) && !has_taint(&node, OUT_OF_SERVICE));

    machine.ail(Ailment::default());
    scene.wait_ready("True").await?;
    scene.withdraw(NODE).await?;
    scene.verdict().await
}

/// Where Cluster API manages the cluster that it runs in: the remediation is the Machine's, whose status names the Node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn machine_health_check_has_the_node_of_a_machine_fenced() -> Result<()> {
    let scene = Scene::start("callers-mhc", "cluster.x-k8s.io/aggregate-to-manager").await?;
    let (lab, admin) = (&scene.lab, scene.lab.control_plane.admin());
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "machines.cluster.x-k8s.io"},
        "spec": {
            "group": "cluster.x-k8s.io", "scope": "Namespaced",
            "names": {"plural": "machines", "singular": "machine", "kind": "Machine", "listKind": "MachineList"},
            "versions": [{"name": "v1beta2", "served": true, "storage": true, "schema": schema}],
        },
    });
    let body = Some((Body::Object, &definition));
    must(&admin, Method::POST, CRDS, body).await?;
    lab.control_plane.wait_for_definitions().await?;
    let machine = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "metadata": {"name": "workers-x7k2p"},
        "spec": {"clusterName": "lab"}, "status": {"nodeRef": {"name": NODE}},
    });
    let body = Some((Body::Object, &machine));
    let machine = must(&admin, Method::POST, &format!("{MACHINES}/machines"), body).await?;
    scene.policy().await?;
    lab.rig(1).machine.set_power(false);
    scene.wait_ready("Unknown").await?;

    let name = "workers-x7k2p";
    let remediation = json!({
        "name": name, "namespace": "work", "labels": {"cluster.x-k8s.io/cluster-name": "lab"},
        "annotations": {
            "cluster.x-k8s.io/cloned-from-name": "power",
            "cluster.x-k8s.io/cloned-from-groupkind": "NodeFenceRemediationTemplate.nodefencing.io",
        },
        "ownerReferences": [{
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": name, "uid": machine["metadata"]["uid"],
        }],
    });
    scene.ask(remediation).await?;
    lab.wait_stage(NODE, "Recovered").await?;
    let answer = scene.wait_answer(name, "True", "Recovered").await?;
    ensure!(answer["status"]["nodeName"] == NODE, "{answer:#}");

    lab.rig(1).machine.set_power(true);
    scene.wait_ready("True").await?;
    scene.withdraw(name).await?;
    scene.verdict().await
}
