//! Flux's controllers install, upgrade, prune and remove what docs/how-to/gitops-flux.md shows, by the objects of that page. [`scene`] has Flux at work.

mod scene;

use std::path::Path;

use anyhow::{Context, Result, ensure};
use e2e::control_plane::{ControlPlane, Options};
use e2e::lab::{LIMIT, Setup, has_taint};
use e2e::operator::{self, NAMESPACE, Operator};
use e2e::proxy::writes::{self, CLAIM};
use fencing_testbed::eventually::eventually;
use fencing_testbed::fetch::run;
use fencing_testbed::paths::workspace;
use http::Method;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use self::scene::{CHARTS, GIT, KUSTOMIZATIONS, OPERATOR, POLICIES, RELEASES, Scene, is_ready};
use crate::chart::release::{PODS, as_kubelet, has_ended, open_fence};
use crate::flux::{fence, pauses, policy};
use crate::outage::Watched;
use crate::verdict::{Body, call, must};

/// Blocks of the page, each by words that no other has.
const FROM_REGISTRY: &str = "url: oci://REGISTRY/charts/node-fencing-operator";
const POLICIES_FROM_REGISTRY: &str = "url: oci://REGISTRY/charts/node-fencing-policies";
const OVER_HTTP: &str = "kind: HelmRepository";
const TWO_STEPS: &str = "kind: Kustomization";
/// The definition that the tests change, in the chart.
const DEFINITION: &str = "files/crds/nodefencingpolicies.yaml";

const DEPLOYMENT: &str =
    "/apis/apps/v1/namespaces/node-fencing-system/deployments/node-fencing-operator";
const FENCE: &str = "/apis/nodefencing.io/v1alpha1/nodefences/by-hand";

/// Where no kubelet runs the Deployment's pods, Helm is not to wait for them.
fn without_wait(object: &mut Value) {
    if object["kind"] == "HelmRelease" {
        object["spec"]["install"] = json!({"disableWait": true});
        object["spec"]["upgrade"] = json!({"disableWait": true});
    }
}

/// Waits until it is so that nothing is there.
async fn gone(plane: &ControlPlane, path: &str) -> Result<()> {
    let what = format!("{path} is gone");
    eventually(&what, LIMIT, async || {
        let found = call(&plane.admin(), Method::GET, path, None).await?;
        let refused = found.err().context("it is there")?;
        ensure!(refused.code == 404, "{}", refused.message);
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "builds Flux, which takes minutes; `make gitops` and `make test-all` run it"]
async fn flux_installs_both_charts_sees_drift_and_removes_none_during_a_fence() -> Result<()> {
    e2e::gitops::build().await?;
    let plane = ControlPlane::start(Options::named("flux-charts")).await?;
    plane
        .kubectl_text(&["create", "namespace", NAMESPACE])
        .await?;
    let scene = Scene::start(&plane).await?;
    scene.publish_both("0.1.0").await?;
    scene.apply(FROM_REGISTRY, without_wait).await?;
    let check = format!("/api/v1/namespaces/{NAMESPACE}/pods/node-fencing-operator-check");
    eventually("Flux tests what it has installed", 2 * LIMIT, async || {
        must(&plane.admin(), Method::GET, &check, None).await
    })
    .await?;
    plane.wait_for_definitions().await?;
    let operator = Operator::start(&plane, operator::Options::default()).await?;
    let log = as_kubelet(&plane, "node-fencing-operator-check").await?;
    let tested = scene.wait(RELEASES, OPERATOR, is_ready).await;
    tested.with_context(|| log)?;
    // Its policy is Ready, or Flux would wait.
    scene.apply(POLICIES_FROM_REGISTRY, |_| {}).await?;
    scene.wait(RELEASES, POLICIES, is_ready).await?;

    drift(&plane, &scene).await?;
    removal(&plane, &operator).await
}

/// The key of the policy's selector is what the values have it, and a change of its operator is drift.
async fn selects(plane: &ControlPlane) -> Result<Value> {
    Ok(policy(plane).await?["spec"]["nodeSelector"]["matchExpressions"][0]["operator"].clone())
}

async fn drift(plane: &ControlPlane, scene: &Scene<'_>) -> Result<()> {
    let pause = "pause workers --for 2h --reason \"switches of rack 7\"";
    fence(plane, pause).await?;
    for release in [OPERATOR, POLICIES] {
        scene.reconcile(RELEASES, release).await?;
    }
    ensure!(policy(plane).await?["status"].is_object());
    ensure!(pauses(plane).await? == 1, "Flux took the plugin's pause");

    let key = "node-role.kubernetes.io/control-plane";
    let all = json!({"matchExpressions": [{"key": key, "operator": "Exists"}]});
    let patch = json!({"spec": {"nodeSelector": all}}).to_string();
    let patch = ["patch", "nfp", "workers", "--type=merge", "-p", &patch];
    plane.kubectl_text(&patch).await?;
    scene.reconcile(RELEASES, POLICIES).await?;
    ensure!(selects(plane).await? == "DoesNotExist", "it is as patched");
    ensure!(pauses(plane).await? == 1, "the pause went with the patch");
    // Events come late: that of the patch, and none of anything before it.
    let patched = ["DriftCorrected", "DriftDetected"].map(|it| format!("{POLICIES} {it}"));
    eventually("Flux says what was drift", LIMIT, async || {
        let drifts = scene.drifts().await?;
        ensure!(drifts == patched, "{drifts:?}");
        Ok(())
    })
    .await?;

    let off = |object: &mut Value| {
        if object["kind"] == "HelmRelease" {
            object["spec"]["driftDetection"]["mode"] = json!("disabled");
        }
    };
    scene.apply(POLICIES_FROM_REGISTRY, off).await?;
    scene.reconcile(RELEASES, POLICIES).await?;
    plane.kubectl_text(&patch).await?;
    scene.reconcile(RELEASES, POLICIES).await?;
    ensure!(selects(plane).await? == "Exists", "it is as in the values");
    fence(plane, "resume workers --reason \"the switches are up\"").await
}

/// The policies' release goes at once, the operator's when no fence is open any more.
async fn removal(plane: &ControlPlane, operator: &Operator) -> Result<()> {
    let delete = async |release: &str| {
        let path = format!("{RELEASES}/{release}");
        must(&plane.admin(), Method::DELETE, &path, None).await?;
        anyhow::Ok(path)
    };
    let policies = delete(POLICIES).await?;
    gone(plane, &policies).await?;
    ensure!(policy(plane).await.is_err(), "the policy is left");

    open_fence(plane).await?;
    let release = delete(OPERATOR).await?;
    let log = as_kubelet(plane, "node-fencing-operator-uninstall").await?;
    let refused = "FAIL NodeFence by-hand of Node worker-9 is open: ";
    ensure!(log.starts_with(refused), "{log}");
    // By now it has tried again (and says nothing of it: Helm 4.2.2 in helm-controller 1.6.2 has no place for a failed hook's log, and panics).
    let pod = format!("{PODS}/node-fencing-operator-uninstall");
    eventually("Flux tries again", LIMIT, async || {
        let pod = must(&plane.admin(), Method::GET, &pod, None).await?;
        ensure!(pod["status"]["phase"] == "Pending", "{}", pod["status"]);
        Ok(())
    })
    .await?;
    must(&plane.admin(), Method::GET, &release, None).await?;
    must(&plane.admin(), Method::GET, DEPLOYMENT, None).await?;

    let released = json!({"spec": {"desiredState": "Released"}});
    let released = Some((Body::Merge, &released));
    must(&plane.admin(), Method::PATCH, FENCE, released).await?;
    has_ended(plane).await?;
    operator.stop(LIMIT).await?;
    let log = as_kubelet(plane, "node-fencing-operator-uninstall").await?;
    gone(plane, &release).await.with_context(|| log)?;
    gone(plane, DEPLOYMENT).await?;
    must(&plane.admin(), Method::GET, FENCE, None).await?;
    Ok(())
}

/// A copy of the operator's chart whose policies have one more short name.
pub fn with_another_definition(folder: &Path) -> Result<()> {
    let mut copy = std::process::Command::new("cp");
    let chart = workspace().join("charts").join(OPERATOR);
    run(copy.arg("-r").arg(chart).arg(folder))?;
    let file = folder.join(OPERATOR).join(DEFINITION);
    let text = std::fs::read_to_string(&file)?;
    let (before, after) = ("    - nfp\n", "    - nfp\n    - fencepolicy\n");
    ensure!(text.matches(before).count() == 1, "it has no such name");
    Ok(std::fs::write(file, text.replace(before, after))?)
}

/// Simulated kubelets run the Deployment's pods, which Flux waits for; the operator that works is the lab's. They would run the test's pod for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "builds Flux, which takes minutes; `make gitops` and `make test-all` run it"]
async fn an_incident_outlives_an_upgrade_by_flux_that_changes_a_definition() -> Result<()> {
    e2e::gitops::build().await?;
    let level = json!([{"name": "bmc", "retryPeriodSeconds": 1, "timeoutSeconds": 600}]);
    let patient = json!({"fence": {"levels": level}});
    let watched = Watched::set(Setup::new("flux-upgrade", 3).alone(), patient).await?;
    let (lab, plane) = (&watched.lab, &*watched.lab.control_plane);
    let scene = Scene::start(plane).await?;
    scene.publish_both("0.1.0").await?;
    let without_test = |object: &mut Value| {
        if object["kind"] == "HelmRelease" {
            object["spec"]["test"]["enable"] = json!(false);
        }
    };
    scene.apply(OVER_HTTP, without_test).await?;
    scene.wait(RELEASES, OPERATOR, is_ready).await?;

    let kept = watched.claimed(1).await?;
    let folder = tempfile::tempdir()?;
    with_another_definition(folder.path())?;
    scene
        .publish(&folder.path().join(OPERATOR), "0.1.1")
        .await?;
    scene.reconcile(CHARTS, "charts").await?;
    let upgraded = |release: &Value| {
        let version = &release["status"]["history"][0]["chartVersion"];
        version == "0.1.1" && is_ready(release)
    };
    scene.wait(RELEASES, OPERATOR, upgraded).await?;
    eventually("the new definition is served", LIMIT, async || {
        let get = ["get", "fencepolicy", "lab"];
        plane.kubectl_text(&get).await
    })
    .await?;
    // With drift corrected: the claim of the operator stays.
    scene.reconcile(RELEASES, OPERATOR).await?;
    ensure!(has_taint(&lab.node("node-1").await?, CLAIM), "no claim");

    kept.rule.remove();
    lab.wait_stage("node-1", "Recovered").await?;
    ensure!(lab.times_tainted("node-1").await? == 1);
    let drifts = scene.drifts().await?;
    ensure!(drifts.is_empty(), "what we write is drift: {drifts:?}");
    watched.operator.check()?;
    lab.verdict().await
}

/// What Git has, as the page names its folders: always the operator's, and this policy or none.
async fn commit(scene: &Scene<'_>, version: &str, policy: Option<&Value>) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let root = folder.path().join("node-fencing");
    let kept = |name: &str| {
        let meta = json!({"name": name, "namespace": "default"});
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
    };
    for name in ["operator", "objects"] {
        std::fs::create_dir_all(root.join(name))?;
        // JSON is YAML.
        let file = root.join(name).join("kept.yaml");
        std::fs::write(file, kept(name).to_string())?;
    }
    if let Some(policy) = policy {
        let file = root.join("objects/policy.yaml");
        std::fs::write(file, policy.to_string())?;
    }
    let chart = "apiVersion: v2\nname: node-fencing\nversion: 0.0.0\n";
    std::fs::write(root.join("Chart.yaml"), chart)?;
    scene.publish(&root, version).await
}

/// Waits until Flux has applied what Git has.
async fn sync(scene: &Scene<'_>) -> Result<()> {
    let source = scene.reconcile(GIT, "node-fencing").await?;
    let revision = &source["status"]["artifact"]["revision"];
    let applied = |it: &Value| it["status"]["lastAppliedRevision"] == *revision && is_ready(it);
    scene
        .wait(KUSTOMIZATIONS, "node-fencing", applied)
        .await
        .map(drop)
}

/// Git is an artifact in the registry, packaged as a chart for want of another program that pushes one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "builds Flux, which takes minutes; `make gitops` and `make test-all` run it"]
async fn a_policy_pruned_by_flux_stops_a_fence_before_the_taint_and_no_release() -> Result<()> {
    e2e::gitops::build().await?;
    let watched = Watched::set(Setup::new("flux-prune", 2).alone(), json!({})).await?;
    let (lab, plane) = (&watched.lab, &*watched.lab.control_plane);
    let policies = lab.api("NodeFencingPolicy");
    let found: DynamicObject = policies.get("lab").await?;
    let policy = json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFencingPolicy", "metadata": {"name": "lab"},
        "spec": found.data["spec"],
    });
    let scene = Scene::start(plane).await?;
    commit(&scene, "0.1.1", Some(&policy)).await?;
    scene.apply_git("node-fencing").await?;
    let from_registry = |object: &mut Value| {
        object["spec"]["sourceRef"] = json!({"kind": "OCIRepository", "name": "node-fencing"});
    };
    scene.apply(TWO_STEPS, from_registry).await?;
    sync(&scene).await?;

    let kept = watched.claimed(1).await?;
    commit(&scene, "0.1.2", None).await?;
    sync(&scene).await?;
    ensure!(policies.get_opt("lab").await?.is_none(), "it is not pruned");
    watched.given_up(1, kept, "was deleted").await?;

    commit(&scene, "0.1.3", Some(&policy)).await?;
    sync(&scene).await?;
    let kept = watched.claimed(2).await?;
    let release = watched.proxy.hold(writes::release());
    kept.rule.remove();
    release.wait_arrived(LIMIT).await?;
    commit(&scene, "0.1.4", None).await?;
    sync(&scene).await?;
    ensure!(policies.get_opt("lab").await?.is_none(), "it is not pruned");
    release.release();
    lab.wait_stage("node-2", "Recovered").await?;
    ensure!(lab.times_tainted("node-2").await? == 1);
    watched.operator.check()?;
    lab.verdict().await
}
