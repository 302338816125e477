//! The Helm chart in Helm's own hands: what it refuses, that it is what `deploy/` is, and a release from its first installation to its last.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Output, Stdio};

use anyhow::{Context, Result, ensure};
use e2e::control_plane::{ControlPlane, Options};
use e2e::eventually::eventually;
use e2e::lab::LIMIT;
use e2e::operator::{self, NAMESPACE, Operator, SERVICE_ACCOUNT};
use e2e::toolchain::{Toolchain, workspace};
use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::verdict::{Body, must};

const RELEASE: &str = "node-fencing-operator";
const PODS: &str = "/api/v1/namespaces/node-fencing-system/pods";

fn chart() -> Result<String> {
    path(workspace().join("charts/node-fencing-operator"))
}

fn path(path: PathBuf) -> Result<String> {
    let path = path.into_os_string().into_string();
    path.ok().context("the path is not UTF-8")
}

/// Helm without a cluster.
async fn helm(arguments: &[&str]) -> Result<Output> {
    let toolchain = tokio::task::spawn_blocking(Toolchain::build).await??;
    let home = tempfile::tempdir()?;
    let output = Command::new(toolchain.program("helm"))
        .args(arguments)
        .env("HOME", home.path())
        .env_remove("KUBECONFIG")
        .output();
    Ok(output.await?)
}

async fn helm_text(arguments: &[&str]) -> Result<String> {
    let output = helm(arguments).await?;
    ensure!(
        output.status.success(),
        "helm {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?)
}

/// A row of `bad-values.yaml`.
#[derive(Deserialize)]
struct BadValues {
    values: Value,
    says: String,
}

#[tokio::test(flavor = "multi_thread")]
async fn every_bad_value_is_refused_with_the_words_of_the_table() -> Result<()> {
    let rows = std::fs::read_to_string(workspace().join("tests/data/chart/bad-values.yaml"))?;
    let rows: Vec<BadValues> = serde_saphyr::from_str(&rows)?;
    ensure!(rows.len() >= 20, "only {} rows", rows.len());
    let directory = tempfile::tempdir()?;
    let mut wrong = Vec::new();
    for (number, row) in rows.iter().enumerate() {
        let file = directory.path().join(format!("{number}.json"));
        std::fs::write(&file, row.values.to_string())?;
        let output = helm(&["template", RELEASE, &chart()?, "-f", &path(file)?]).await?;
        let said = String::from_utf8(output.stderr)?;
        if output.status.success() || !said.contains(&row.says) {
            wrong.push(format!("{}: {said}", row.values));
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// Strictly, and whatever the values: the API server takes each object as it is, with no field that it does not know.
#[tokio::test(flavor = "multi_thread")]
async fn every_render_is_what_the_api_server_takes() -> Result<()> {
    helm_text(&["lint", "--strict", &chart()?]).await?;
    let plane = ControlPlane::start(Options::named("chart-renders")).await?;
    plane.apply_deploy().await?;
    // Of the user's own, without a Pod Security level that forbids the host's network.
    plane
        .kubectl_text(&["create", "namespace", "fencing"])
        .await?;
    // A dry run leaves no account behind, and a pod needs one.
    for account in [SERVICE_ACCOUNT, "fencer"] {
        let create = ["create", "serviceaccount", account, "-n", "fencing"];
        plane.kubectl_text(&create).await?;
    }
    let mut files: Vec<PathBuf> = std::fs::read_dir(PathBuf::from(chart()?).join("ci"))?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    files.sort();
    ensure!(files.len() >= 8, "{files:?}");
    for file in files {
        let file = path(file)?;
        let render = render("fencing", &["-f", &file]).await?;
        // Nobody here knows the kinds of the Prometheus Operator.
        let known = render
            .iter()
            .filter(|it| it["apiVersion"] != "monitoring.coreos.com/v1");
        let list = json!({"apiVersion": "v1", "kind": "List", "items": known.collect::<Vec<_>>()});
        let manifest = plane.files().directory().join("render.json");
        std::fs::write(&manifest, list.to_string())?;
        let apply = [
            "apply",
            "--server-side",
            "--force-conflicts",
            "--dry-run=server",
            "--validate=strict",
            "-f",
            &path(manifest)?,
        ];
        plane.kubectl_text(&apply).await.with_context(|| file)?;
    }
    Ok(())
}

/// The objects that the chart makes of these values, in this namespace.
async fn render(namespace: &str, arguments: &[&str]) -> Result<Vec<Value>> {
    let chart = chart()?;
    let mut all = vec!["template", RELEASE, &chart, "--namespace", namespace];
    all.extend(arguments);
    documents(&helm_text(&all).await?)
}

fn documents(text: &str) -> Result<Vec<Value>> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text)?;
    Ok(documents.into_iter().filter(|it| !it.is_null()).collect())
}

/// Two ways to install, one operator: but for the labels of a release, its hooks, and the namespace, which Helm makes by itself.
#[tokio::test(flavor = "multi_thread")]
async fn the_chart_installs_what_deploy_installs() -> Result<()> {
    let toolchain = tokio::task::spawn_blocking(Toolchain::build).await??;
    let kustomize = Command::new(toolchain.program("kubectl"))
        .args(["kustomize", &path(workspace().join("deploy"))?])
        .output();
    let deploy = by_name(documents(&String::from_utf8(kustomize.await?.stdout)?)?);
    let image = "image.repository=node-fencing-operator";
    let mut chart = by_name(render(NAMESPACE, &["--set", image]).await?);
    for object in chart.values_mut() {
        without_release(object);
    }
    chart.retain(|_, object| object["metadata"]["annotations"]["helm.sh/hook"].is_null());
    let mut wrong = Vec::new();
    for (name, object) in &deploy {
        if object["kind"] == "Namespace" {
            continue;
        }
        match chart.remove(name) {
            Some(other) if other == *object => {}
            Some(other) => wrong.push(format!("{name}: deploy/ has {object}\nthe chart {other}")),
            None => wrong.push(format!("only in deploy/: {name}")),
        }
    }
    wrong.extend(
        chart
            .keys()
            .map(|name| format!("only in the chart: {name}")),
    );
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

fn by_name(objects: Vec<Value>) -> BTreeMap<String, Value> {
    let named = |object: Value| {
        let meta = &object["metadata"];
        let name = format!("{} {}/{}", object["kind"], meta["namespace"], meta["name"]);
        (name, object)
    };
    objects.into_iter().map(named).collect()
}

/// Takes away what a release adds.
fn without_release(object: &mut Value) {
    let is_definition = object["kind"] == "CustomResourceDefinition";
    let Some(labels) = object["metadata"]["labels"].as_object_mut() else {
        return;
    };
    for label in [
        "app.kubernetes.io/instance",
        "app.kubernetes.io/version",
        "app.kubernetes.io/managed-by",
        "helm.sh/chart",
    ] {
        labels.remove(label);
    }
    if is_definition {
        labels.remove("app.kubernetes.io/name");
    }
    if labels.is_empty()
        && let Some(metadata) = object["metadata"].as_object_mut()
    {
        metadata.remove("labels");
    }
}

/// Installed, asked, upgraded, rolled back, not removed while a node is being fenced, removed, and installed again over what stayed.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_from_its_first_installation_to_its_last() -> Result<()> {
    let plane = ControlPlane::start(Options::named("chart-release")).await?;
    let (chart, in_namespace) = (chart()?, ["--namespace", NAMESPACE]);
    let with = |verb: &[&str], more: &[&str]| -> Vec<String> {
        [verb, &in_namespace, more]
            .concat()
            .iter()
            .map(|it| (*it).to_owned())
            .collect()
    };
    let install = with(&["install", RELEASE, &chart], &["--create-namespace"]);
    let notes = ran(&plane, &install).await?;
    ensure!(
        notes.contains("nothing is watched until you write one"),
        "{notes}"
    );
    plane.wait_for_definitions().await?;
    plane
        .wait_for_service_account(NAMESPACE, SERVICE_ACCOUNT)
        .await?;

    let operator = Operator::start(&plane, operator::Options::default()).await?;
    let test = with(&["test", RELEASE], &["--timeout=100s"]);
    let (asked, log) = tokio::join!(
        ran(&plane, &test),
        as_kubelet(&plane, "node-fencing-operator-check")
    );
    let log = log?;
    asked.with_context(|| log.clone())?;
    ensure!(
        log.lines().all(|line| line.starts_with("ok   ")) && log.lines().count() == 4,
        "{log}"
    );

    let upgrade = with(&["upgrade", RELEASE, &chart], &["--set", "replicaCount=3"]);
    ran(&plane, &upgrade).await?;
    ensure!(replicas(&plane).await? == 3);
    ran(&plane, &with(&["rollback", RELEASE, "1"], &[])).await?;
    ensure!(replicas(&plane).await? == 2);

    open_fence(&plane).await?;
    let uninstall = with(&["uninstall", RELEASE], &["--timeout=100s"]);
    let (refused, log) = tokio::join!(
        ran(&plane, &uninstall),
        as_kubelet(&plane, "node-fencing-operator-uninstall")
    );
    let log = log?;
    ensure!(refused.is_err(), "it went: {log}");
    ensure!(
        log.starts_with("FAIL NodeFence by-hand of Node worker-9 is open: "),
        "{log}"
    );
    ensure!(replicas(&plane).await? == 2, "the Deployment is gone");

    let release = r#"{"spec":{"desiredState":"Released"}}"#;
    plane
        .kubectl_text(&["patch", "nf", "by-hand", "--type=merge", "-p", release])
        .await?;
    eventually("it has ended", LIMIT, async || {
        let fence = plane
            .kubectl_text(&["get", "nf", "by-hand", "-o", "json"])
            .await?;
        let fence: Value = serde_json::from_str(&fence)?;
        let conditions = fence["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let ended = |it: &Value| it["type"] == "Succeeded" && it["status"] != "Unknown";
        ensure!(conditions.iter().any(ended), "{conditions:?}");
        Ok(())
    })
    .await?;
    // As its pods are by the time that its roles go: what it asks for then is denied, and counts as a right that it lacks.
    operator.stop(LIMIT).await?;
    let (gone, log) = tokio::join!(
        ran(&plane, &uninstall),
        as_kubelet(&plane, "node-fencing-operator-uninstall")
    );
    gone.with_context(|| log.unwrap_or_default())?;
    // The records outlive the release, and the next one takes their CRDs over.
    plane.kubectl_text(&["get", "nf", "by-hand"]).await?;
    ran(&plane, &install).await?;
    plane.kubectl_text(&["get", "nf", "by-hand"]).await?;
    Ok(())
}

async fn ran(plane: &ControlPlane, arguments: &[String]) -> Result<String> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let output = plane.helm(&arguments).await?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "helm {arguments:?}: {said}");
    Ok(String::from_utf8(output.stdout)?)
}

async fn replicas(plane: &ControlPlane) -> Result<u64> {
    let path = "/apis/apps/v1/namespaces/node-fencing-system/deployments/node-fencing-operator";
    let deployment = must(&plane.admin(), Method::GET, path, None).await?;
    deployment["spec"]["replicas"].as_u64().context("none")
}

/// A fence that waits: of a node that does not exist.
async fn open_fence(plane: &ControlPlane) -> Result<()> {
    let fence = json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence", "metadata": {"name": "by-hand"},
        "spec": {
            "nodeName": "worker-9",
            "trigger": {"type": "Manual", "reason": "a test", "requestedBy": "admin"},
            "fence": {"mode": "ConfirmOnly", "levels": [{"name": "bmc", "deviceSelector": {}}], "approval": {"mode": "Manual"}},
        },
    });
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "worker-9"}});
    must(
        &plane.admin(),
        Method::POST,
        "/api/v1/nodes",
        Some((Body::Object, &node)),
    )
    .await?;
    let path = "/apis/nodefencing.io/v1alpha1/nodefences";
    must(
        &plane.admin(),
        Method::POST,
        path,
        Some((Body::Object, &fence)),
    )
    .await?;
    Ok(())
}

/// Does what a kubelet does with a hook's pod: runs the operator with the pod's arguments, as the pod's account, and says how it ended. Gives
/// what it printed.
async fn as_kubelet(plane: &ControlPlane, pod: &str) -> Result<String> {
    let path = format!("{PODS}/{pod}");
    let pod = eventually("the hook's pod is made", LIMIT, async || {
        let pod = must(&plane.admin(), Method::GET, &path, None).await?;
        ensure!(pod["status"]["phase"] == "Pending", "it has ended");
        Ok(pod)
    })
    .await?;
    let container = &pod["spec"]["containers"][0];
    let arguments = container["args"].as_array().context("no arguments")?;
    let account = pod["spec"]["serviceAccountName"]
        .as_str()
        .context("no account")?;
    let kubeconfig = plane
        .kubeconfig_for_service_account(NAMESPACE, account, None)
        .await?;
    let output = Command::new(tokio::task::spawn_blocking(operator::binary).await??)
        .args(arguments.iter().filter_map(Value::as_str))
        .env("KUBECONFIG", kubeconfig)
        .env("POD_NAMESPACE", NAMESPACE)
        .stdin(Stdio::null())
        .output()
        .await?;
    let phase = if output.status.success() {
        "Succeeded"
    } else {
        "Failed"
    };
    let status = json!({"status": {"phase": phase}});
    must(
        &plane.admin(),
        Method::PATCH,
        &format!("{path}/status"),
        Some((Body::Merge, &status)),
    )
    .await?;
    Ok(String::from_utf8(output.stdout)? + &String::from_utf8(output.stderr)?)
}
