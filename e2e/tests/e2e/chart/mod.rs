//! The Helm chart in the hands of Helm 3 and of Helm 4: that every render is what an API server takes, and that it is what `deploy/` is.
//! [`values`] has what it makes of which values, [`archive`] what a release hands out, [`release`] lives through a release by the
//! book's own lines, [`replicas`] runs the operator from what was rendered, [`umbrella`] makes it a part of another chart,
//! [`policies`] has the chart of policies and devices.

mod archive;
mod conform;
mod policies;
pub mod release;
mod replicas;
mod typed;
mod umbrella;
mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Output;

use anyhow::{Context, Result, ensure};
use e2e::control_plane::{ControlPlane, Options};
use e2e::lab::LIMIT;
use e2e::operator::{NAMESPACE, SERVICE_ACCOUNT};
use e2e::prometheus_operator;
use e2e::toolchain::{Programs, Toolchain};
use fencing_testbed::eventually::eventually;
use fencing_testbed::paths::workspace;
use serde_json::{Value, json};
use tokio::process::Command;

const RELEASE: &str = "node-fencing-operator";
/// Helm 4 and Helm 3, as the toolchain calls them.
const HELMS: [&str; 2] = ["helm", "helm3"];
/// For renders without a cluster: a Helm 3 that was built without flags takes itself to be before 1.30.
const KUBE_VERSION: &str = "--kube-version=1.30";

fn chart() -> Result<String> {
    path(workspace().join("charts/node-fencing-operator"))
}

fn path(path: PathBuf) -> Result<String> {
    let path = path.into_os_string().into_string();
    path.ok().context("the path is not UTF-8")
}

/// A program of the toolchain, without a cluster.
async fn run(program: &str, arguments: &[&str]) -> Result<Output> {
    let toolchain = tokio::task::spawn_blocking(|| Toolchain::build(Programs::All)).await??;
    let home = tempfile::tempdir()?;
    let output = Command::new(toolchain.program(program))
        .args(arguments)
        .env("HOME", home.path())
        .env_remove("KUBECONFIG")
        .output();
    Ok(output.await?)
}

async fn text(program: &str, arguments: &[&str]) -> Result<String> {
    let output = run(program, arguments).await?;
    ensure!(
        output.status.success(),
        "{program} {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?)
}

/// Tells the cluster the kinds of the Prometheus Operator that the chart knows, and gives their names.
async fn monitoring(plane: &ControlPlane) -> Result<[&'static str; 3]> {
    let definitions = tokio::task::spawn_blocking(prometheus_operator::definitions);
    let definitions = definitions.await??;
    for (_, file) in &definitions {
        let create = ["create", "-f", &path(file.clone())?];
        plane.kubectl_text(&create).await?;
    }
    plane.wait_for_definitions().await?;
    Ok(definitions.map(|(kind, _)| kind))
}

/// Strictly, and whatever the values: the API server takes each object as it is, with no field that it does not know.
#[tokio::test(flavor = "multi_thread")]
async fn every_render_is_what_the_api_server_takes() -> Result<()> {
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
    let monitors = monitoring(&plane).await?;
    let schemas = schemas(&plane, &monitors).await?;
    let mut rendered = BTreeSet::new();
    for file in ci_values()? {
        let render = render("fencing", &["-f", &file]).await?;
        let kinds = render.iter().filter_map(|it| it["kind"].as_str());
        rendered.extend(kinds.map(str::to_owned));
        schemas.hold(&render).await.with_context(|| file.clone())?;
        let list = json!({"apiVersion": "v1", "kind": "List", "items": render});
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
    for kind in monitors {
        ensure!(rendered.contains(kind), "no values make a {kind}");
    }
    Ok(())
}

/// The schemas of the API server, once it publishes these kinds as well. Fails if they take whatever they get.
async fn schemas(plane: &ControlPlane, kinds: &[&str]) -> Result<conform::Schemas> {
    let schemas = eventually("every kind is published", LIMIT, async || {
        let schemas = conform::Schemas::of(plane).await?;
        for kind in kinds {
            let has = schemas.has("monitoring.coreos.com", "v1", kind);
            ensure!(has, "not {kind}");
        }
        Ok(schemas)
    })
    .await?;
    let meta = json!({"name": "a"});
    for unknown in [
        json!({"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"colour": "red"}}),
        json!({"apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor", "metadata": meta, "spec": {"selector": {}, "endpoints": [{"prot": "http"}]}}),
        json!({"apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule", "metadata": meta, "spec": {"groups": [{"name": "a", "rules": [{"alert": "a"}]}]}}),
    ] {
        let taken = schemas.hold(std::slice::from_ref(&unknown)).await.is_ok();
        ensure!(!taken, "it takes {unknown}");
    }
    Ok(schemas)
}

#[tokio::test(flavor = "multi_thread")]
async fn helm_finds_no_fault_with_any_of_the_ci_values() -> Result<()> {
    let chart = chart()?;
    for helm in HELMS {
        text(helm, &["lint", "--strict", &chart]).await?;
        for file in ci_values()? {
            let lint = ["lint", "--strict", &chart, KUBE_VERSION, "-f", &file];
            text(helm, &lint).await?;
        }
    }
    Ok(())
}

/// What `deploy/` and the chart give to whoever has one of Kubernetes' own roles is never a human's word, nor all verbs.
#[tokio::test(flavor = "multi_thread")]
async fn no_aggregated_role_of_any_render_has_a_human_s_word() -> Result<()> {
    let mut aggregated = 0;
    for file in ci_values()? {
        for role in render(NAMESPACE, &["-f", &file]).await? {
            let labels = role["metadata"]["labels"].as_object();
            let is_aggregated = labels
                .into_iter()
                .flatten()
                .any(|(name, _)| name.starts_with("rbac.authorization.k8s.io/aggregate-to-"));
            if !is_aggregated {
                continue;
            }
            aggregated += 1;
            let rules = role["rules"].as_array().into_iter().flatten();
            for verb in rules.flat_map(|rule| rule["verbs"].as_array().into_iter().flatten()) {
                let verb = verb.as_str().unwrap_or("?");
                let is_plain = [
                    "get", "list", "watch", "create", "update", "patch", "delete",
                ];
                ensure!(is_plain.contains(&verb), "{file}: {verb} in {role}");
            }
        }
    }
    ensure!(aggregated >= 2, "only {aggregated} roles are aggregated");
    Ok(())
}

/// The values that the chart is rendered with: charts/node-fencing-operator/ci.
fn ci_values() -> Result<Vec<String>> {
    let files = std::fs::read_dir(PathBuf::from(chart()?).join("ci"))?;
    let mut files = files
        .map(|entry| path(entry?.path()))
        .collect::<Result<Vec<_>>>()?;
    files.sort();
    ensure!(files.len() >= 8, "{files:?}");
    Ok(files)
}

/// The objects that the chart makes of these values, in this namespace: whichever Helm makes them.
async fn render(namespace: &str, arguments: &[&str]) -> Result<Vec<Value>> {
    let [by_helm_4, by_helm_3] = HELMS.map(|helm| render_by(helm, namespace, arguments));
    let (by_helm_4, by_helm_3) = tokio::try_join!(by_helm_4, by_helm_3)?;
    ensure!(
        by_name(by_helm_3) == by_name(by_helm_4.clone()),
        "Helm 3 and Helm 4 render {arguments:?} differently"
    );
    Ok(by_helm_4)
}

/// The same by this one.
async fn render_by(helm: &str, namespace: &str, arguments: &[&str]) -> Result<Vec<Value>> {
    let chart = chart()?;
    let mut all = vec!["template", RELEASE, &chart, KUBE_VERSION];
    all.extend(["--namespace", namespace]);
    all.extend(arguments);
    documents(&text(helm, &all).await?)
}

fn documents(text: &str) -> Result<Vec<Value>> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text)?;
    Ok(documents.into_iter().filter(|it| !it.is_null()).collect())
}

/// Two ways to install, one operator: but for the labels of a release, its hooks, and the namespace, which Helm makes by itself.
#[tokio::test(flavor = "multi_thread")]
async fn the_chart_installs_what_deploy_installs() -> Result<()> {
    let folder = path(workspace().join("deploy"))?;
    let mut deploy = by_name(documents(&text("kubectl", &["kustomize", &folder]).await?)?);
    let in_one_file = std::fs::read_to_string(workspace().join("deploy/install.yaml"))?;
    ensure!(
        by_name(documents(&in_one_file)?) == deploy,
        "deploy/install.yaml is not what deploy/ is"
    );
    let mut chart = by_name(render(NAMESPACE, &[]).await?);
    let version =
        |object: &Value| object["metadata"]["labels"]["app.kubernetes.io/version"].clone();
    for (name, object) in &mut deploy {
        // `kubectl fence check` reads it, however the operator was installed.
        if object["kind"] == "Deployment" {
            let of_chart = chart.get(name).map(version);
            ensure!(
                version(object).is_string() && of_chart == Some(version(object)),
                "{name} shows another version in the chart: {of_chart:?}"
            );
            let labels = object["metadata"]["labels"].as_object_mut();
            labels
                .context("no labels")?
                .remove("app.kubernetes.io/version");
        }
    }
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
        "app.kubernetes.io/component",
        "app.kubernetes.io/part-of",
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
