//! The operator says whether the admission policies hold it to its limits, and works with them and without.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::audit::OPERATOR;
use e2e::control_plane::{Component, ControlPlane, Options};
use e2e::lab::LIMIT;
use e2e::operator::{self, Operator};
use fencing_testbed::eventually::eventually;
use fencing_testbed::paths::workspace;
use http::Method;
use serde_json::{Value, json};

use crate::verdict::{Body, must};

/// A look each minute, a second one 5 s later, and at most 15 s between two writes of a policy's status; and a busy machine.
const TOLD: Duration = Duration::from_secs(150);
const POLICIES: &str = "/apis/nodefencing.io/v1alpha1/nodefencingpolicies";
const NODE: &str = "/api/v1/nodes/node-1";

struct Scene {
    plane: ControlPlane,
    operator: Operator,
}

impl Scene {
    /// The gauge, or -1 without one, and the status of the policy's condition, if it has one.
    async fn told(&self) -> Result<(f64, Option<String>)> {
        let (_, metrics) = self.operator.get("/metrics").await?;
        let name = "node_fencing_admission_guard_missing ";
        let gauge = metrics.lines().find_map(|line| line.strip_prefix(name));
        let gauge = gauge.map_or(Ok(-1.0), str::parse)?;
        let (admin, path) = (self.plane.admin(), format!("{POLICIES}/all"));
        let policy = must(&admin, Method::GET, &path, None).await?;
        let conditions = policy["status"]["conditions"].as_array();
        let conditions = conditions.context("no conditions yet")?;
        let missing = conditions
            .iter()
            .find(|condition| condition["type"] == "AdmissionGuardMissing");
        let status = missing.and_then(|condition| condition["status"].as_str());
        Ok((gauge, status.map(str::to_owned)))
    }

    async fn wait_told(&self, what: &str, gauge: f64, status: Option<&str>) -> Result<()> {
        eventually(what, TOLD, async || {
            let told = self.told().await?;
            ensure!(
                told == (gauge, status.map(str::to_owned)),
                "it says {told:?}"
            );
            Ok(())
        })
        .await
    }

    async fn manifest(&self, verb: &str) -> Result<()> {
        let path = workspace().join("deploy/admission.yaml");
        let path = path.to_str().context("the workspace's path is not UTF-8")?;
        self.plane.kubectl_text(&[verb, "-f", path]).await.map(drop)
    }

    async fn restart(&self) -> Result<()> {
        self.operator.kill()?;
        self.operator.start_again().await?;
        self.operator.ready(LIMIT).await
    }

    /// The dry run leaves the Node as it is.
    async fn node(&self) -> Result<Value> {
        let mut node = must(&self.plane.admin(), Method::GET, NODE, None).await?;
        Ok(node["metadata"].take())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_guard_is_told_and_stops_nothing() -> Result<()> {
    let plane = ControlPlane::start(Options::named("guard")).await?;
    plane.apply_deploy().await?;
    let admin = plane.admin();
    // It would find that the Node's kubelet does not report.
    plane.stop_component(Component::ControllerManager)?;
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "labels": {"a": "b"}}});
    must(
        &admin,
        Method::POST,
        "/api/v1/nodes",
        Some((Body::Object, &node)),
    )
    .await?;
    let policy = json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFencingPolicy", "metadata": {"name": "all"},
        "spec": {"nodeSelector": {}},
    });
    must(
        &admin,
        Method::POST,
        POLICIES,
        Some((Body::Object, &policy)),
    )
    .await?;
    let operator = Operator::start(&plane, operator::Options::default()).await?;
    let scene = Scene { plane, operator };
    scene.wait_told("the guard stands", 0.0, None).await?;

    scene.manifest("delete").await?;
    scene.wait_told("it is missed", 1.0, Some("True")).await?;
    scene.restart().await?;
    scene
        .wait_told("it is missed at the start", 1.0, Some("True"))
        .await?;
    let log = scene.operator.log_lines()?;
    let says = |line: &&Value| {
        let words = line["fields"]["message"]
            .as_str()
            .or(line["message"].as_str());
        words.is_some_and(|words| words.contains("that deploy/admission.yaml forbids the operator"))
    };
    ensure!(
        log.iter().filter(says).count() == 2,
        "each process says it once"
    );

    scene.manifest("create").await?;
    scene.restart().await?;
    scene
        .wait_told("it stands again", 0.0, Some("False"))
        .await?;

    let labels = scene.node().await?["labels"].take();
    ensure!(
        labels == json!({"a": "b"}),
        "the Node has changed: {labels}"
    );
    let audit = scene.plane.audit();
    audit.settled().await?;
    let writes = audit.writes_of(OPERATOR)?;
    let others = writes
        .iter()
        .filter(|write| write.object_ref.resource != "nodefencingpolicies");
    let others: Vec<_> = others.map(e2e::audit::Request::summary).collect();
    ensure!(others.is_empty(), "it wrote {others:?}");
    let used = e2e::rights::lines(&scene.plane)?;
    ensure!(used.contains("used list core nodes *"), "{used:?}");
    ensure!(
        used.iter().all(|line| !line.starts_with("denied")),
        "{used:?}"
    );
    Ok(())
}
