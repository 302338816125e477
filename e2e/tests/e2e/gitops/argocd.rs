//! The Applications of docs/how-to/gitops-argo-cd.md as they stand there, but for where the charts are, by Argo CD's own controller and repo-server.
//! Whatever becomes of the Deployment's pods, a process of the lab is the operator, and is stopped and started where they would be. [`scene`] has
//! Argo CD at work.

mod scene;

use anyhow::{Context, Result, ensure};
use e2e::control_plane::{ControlPlane, Options};
use e2e::gitops::{Argo, Registry};
use e2e::lab::{LIMIT, Lab, Setup, has_taint, stage};
use e2e::operator::{self, NAMESPACE, Operator, SERVICE_ACCOUNT};
use e2e::proxy::writes::OUT_OF_SERVICE;
use fencing_testbed::debian;
use fencing_testbed::eventually::eventually;
use http::Method;
use serde_json::{Value, json};

use self::scene::{OPERATOR, POLICIES, Scene, chart};
use super::flux::with_another_definition;
use crate::flux::fence;
use crate::outage::{Outage, POD, approve, name};
use crate::verdict::{Body, must};

/// What the charts are called after an upgrade.
const NEXT: &str = "1.1.0";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "builds Argo CD, which takes minutes; `make gitops` and `make test-all` run it"]
async fn argo_cd_installs_from_http_and_oci_reverts_drift_and_prunes() -> Result<()> {
    let test = "argo_cd_installs_from_http_and_oci_reverts_drift_and_prunes";
    if !debian::available_to_test(test)? {
        return Ok(());
    }
    Argo::build().await?;
    let plane = ControlPlane::start(Options::named("argocd")).await?;
    let scene = Scene::set(&plane).await?;
    let operator = installed(&scene).await?;
    what_we_write_is_no_drift(&scene).await?;
    drift_stays_or_goes(&scene).await?;
    from_a_registry(&scene).await?;
    pruned(&scene).await?;
    operator.check()
}

/// Both at once, the one that needs the other's kinds first; with the health that the page names.
async fn installed(scene: &Scene<'_>) -> Result<Operator> {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "worker-3"}});
    let (admin, node) = (scene.plane.admin(), Some((Body::Object, &node)));
    must(&admin, Method::POST, "/api/v1/nodes", node).await?;
    for name in [POLICIES, OPERATOR] {
        let application = scene.application(name, &Value::Null)?;
        scene.argo.create(&application).await?;
    }
    scene.synced(OPERATOR).await?;
    scene.has_health(POLICIES, "Progressing").await?;
    scene
        .plane
        .wait_for_service_account(NAMESPACE, SERVICE_ACCOUNT)
        .await?;
    let operator = Operator::start(scene.plane, operator::Options::default()).await?;
    // The device's Secret is not there.
    scene.has_health(POLICIES, "Degraded").await?;
    for name in [OPERATOR, POLICIES] {
        scene.stays_synced(name).await?;
    }

    // Lists of objects, in which the API server would put what their schema has as defaults. And a device that waits for people.
    let window = json!({"name": "nights", "days": ["Mon"], "start": "22:00", "end": "06:00", "mode": "Observe"});
    let mut policy = scene.application(POLICIES, &Value::Null)?;
    let mut policy = policy["spec"]["source"]["helm"]["valuesObject"]["policies"][0].take();
    policy["spec"]["windows"] = json!([window]);
    policy["spec"]["fence"]["levels"] = json!([{"name": "bmc", "deviceSelector": {}}]);
    let device = json!({"name": "worker-3", "spec": {"nodeName": "worker-3", "manual": {}}});
    let values = json!({"policies": [policy], "devices": [device]});
    scene.has_values(POLICIES, &values).await?;
    scene.has_health(POLICIES, "Healthy").await?;
    let pruned = scene.shown("fdev/worker-3-bmc", ".metadata.name").await;
    ensure!(pruned.is_err(), "{pruned:?}");
    scene.stays_synced(POLICIES).await?;
    Ok(operator)
}

/// Neither by what the last apply had nor by a dry run of the next one.
async fn what_we_write_is_no_drift(scene: &Scene<'_>) -> Result<()> {
    for how in [json!("ServerSideDiff=true"), Value::Null] {
        let how = json!({"argocd.argoproj.io/compare-options": how});
        let how = json!({"metadata": {"annotations": how}});
        scene.argo.patch(POLICIES, &how).await?;
        scene.argo.patch(OPERATOR, &how).await?;
        let pause = "pause workers --for 2h --reason \"switches of rack 7\"";
        fence(scene.plane, pause).await?;
        scene.has_health(POLICIES, "Suspended").await?;
        scene.stays_synced(POLICIES).await?;
        scene.stays_synced(OPERATOR).await?;
        let paused = scene
            .shown("nfp/workers", ".spec.pauseRequests[*].reason")
            .await?;
        ensure!(paused == "switches of rack 7", "Argo CD took it: {paused}");
        fence(scene.plane, "resume workers --reason \"they are up\"").await?;
        scene.has_health(POLICIES, "Healthy").await?;
    }
    Ok(())
}

/// Somebody's change of what Git has stays without `selfHeal`, and goes with it.
async fn drift_stays_or_goes(scene: &Scene<'_>) -> Result<()> {
    let heals = async |yes: bool| {
        let policy = json!({"syncPolicy": {"automated": {"selfHeal": yes}}});
        let policy = json!({"spec": policy});
        scene.argo.patch(POLICIES, &policy).await
    };
    let path = ".spec.nodeSelector.matchExpressions[0].key";
    let in_git = scene.shown("nfp/workers", path).await?;
    heals(false).await?;
    let selector = json!({"matchExpressions": [{"key": "lab/none", "operator": "Exists"}]});
    let changes = json!({"spec": {"nodeSelector": selector}}).to_string();
    let patch = ["patch", "nfp", "workers", "--type=merge", "-p", &changes];
    scene.plane.kubectl_text(&patch).await?;
    let is_seen = |it: &Value| it["status"]["sync"]["status"] == "OutOfSync";
    scene.argo.wait(POLICIES, "OutOfSync", is_seen).await?;
    for _ in 0..2 {
        let application = scene.argo.refresh(POLICIES).await?;
        ensure!(is_seen(&application), "{}", application["status"]);
    }
    let drifted = scene.shown("nfp/workers", path).await?;
    ensure!(drifted == "lab/none", "it is {drifted} again");
    heals(true).await?;
    eventually("it is reverted", LIMIT, async || {
        let found = scene.shown("nfp/workers", path).await?;
        ensure!(found == in_git, "it is {found}");
        Ok(())
    })
    .await?;
    scene.has_health(POLICIES, "Healthy").await
}

/// An upgrade to a version in a registry.
async fn from_a_registry(scene: &Scene<'_>) -> Result<()> {
    let registry = Registry::start(scene.plane).await?;
    let archive = scene
        .repository
        .add(scene.plane, &chart(OPERATOR), NEXT)
        .await?;
    registry.push(scene.plane, &archive).await?;
    let url = format!("{}/{OPERATOR}", registry.url());
    let plain = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "registry", "labels": {"argocd.argoproj.io/secret-type": "repository"}},
        "stringData": {"type": "oci", "url": url, "insecureOCIForceHttp": "true"},
    });
    let secrets = "/api/v1/namespaces/argocd/secrets";
    let (admin, plain) = (scene.plane.admin(), Some((Body::Object, &plain)));
    must(&admin, Method::POST, secrets, plain).await?;
    let source = json!({"repoURL": url, "path": ".", "chart": null, "targetRevision": NEXT});
    let source = json!({"spec": {"source": source}});
    scene.argo.patch(OPERATOR, &source).await?;
    scene.synced(OPERATOR).await?;
    let deployment = format!("deployment/{OPERATOR}");
    let label = ".metadata.labels.helm\\.sh/chart";
    let label = scene.shown(&deployment, label).await?;
    ensure!(label == format!("{OPERATOR}-{NEXT}"), "{label}");
    scene.stays_synced(OPERATOR).await
}

/// What Git has no longer goes, once that is confirmed where the page has Argo CD ask. The last of an Application does not.
async fn pruned(scene: &Scene<'_>) -> Result<()> {
    let (none, asks) = (
        json!([]),
        json!({"argocd.argoproj.io/sync-options": "Prune=confirm"}),
    );
    let asks = json!({"commonAnnotations": asks});
    scene.has_values(POLICIES, &asks).await?;
    scene.has_health(POLICIES, "Healthy").await?;
    scene
        .has_values(POLICIES, &json!({"policies": none}))
        .await?;
    let waits = |it: &Value| {
        let message = it["status"]["operationState"]["message"].as_str();
        message.is_some_and(|it| it.starts_with("Waiting for pruning confirmation"))
    };
    scene.argo.wait(POLICIES, "asking", waits).await?;
    scene.shown("nfp/workers", ".metadata.name").await?;
    scene.argo.confirm(POLICIES).await?;
    scene.synced(POLICIES).await?;
    let left = scene.shown("nfp/workers", ".metadata.name").await;
    ensure!(left.is_err(), "{left:?}");
    scene
        .has_values(POLICIES, &json!({"devices": none}))
        .await?;
    let refuses = |it: &Value| {
        let conditions = it["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        conditions.any(|it| {
            let message = it["message"].as_str().unwrap_or_default();
            message.ends_with("auto-sync will wipe out all resources")
        })
    };
    scene.argo.wait(POLICIES, "refused", refuses).await?;
    scene.shown("fdev/worker-3", ".metadata.name").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "builds Argo CD, which takes minutes; `make gitops` and `make test-all` run it"]
async fn an_incident_outlives_argo_cds_upgrade_and_removal_of_the_chart() -> Result<()> {
    let test = "an_incident_outlives_argo_cds_upgrade_and_removal_of_the_chart";
    if !debian::available_to_test(test)? {
        return Ok(());
    }
    Argo::build().await?;
    let lab = Lab::start(Setup::new("argocd-incident", 2).alone()).await?;
    let asks =
        json!({"fence": {"approval": {"mode": "Manual"}}, "release": {"mode": "AfterRecovery"}});
    let outage = Outage::of(lab, "PowerOff", asks).await?;
    let Outage { lab, node, .. } = &outage;
    let scene = Scene::set(&lab.control_plane).await?;
    // What `kubectl apply` has installed is Argo CD's from now on. Simulated kubelets run the Deployment's pods.
    let operator = scene.application(OPERATOR, &Value::Null)?;
    let policy = lab.api("NodeFencingPolicy").get("lab").await?;
    let policies = json!([{"name": "lab", "spec": policy.data["spec"]}]);
    let policies = json!({"policies": policies, "devices": []});
    for application in [&operator, &scene.application(POLICIES, &policies)?] {
        scene.argo.create(application).await?;
    }
    for name in [OPERATOR, POLICIES] {
        scene.has_health(name, "Healthy").await?;
    }

    outage.power(false)?;
    let fence = lab.wait_stage(node, "AwaitingApproval").await?;
    upgraded(&scene, &outage).await?;
    let same = lab.wait_stage(node, "AwaitingApproval").await?;
    ensure!(same.metadata.uid == fence.metadata.uid, "another incident");
    approve(lab, name(&fence)?).await?;
    lab.workloads
        .wait_running_elsewhere(POD, node, LIMIT)
        .await?;
    ensure!(has_taint(&lab.node(node).await?, OUT_OF_SERVICE));
    for name in [OPERATOR, POLICIES] {
        scene.stays_synced(name).await?;
    }
    removed(&scene, &outage).await?;

    scene.argo.create(&operator).await?;
    scene.synced(OPERATOR).await?;
    scene
        .plane
        .wait_for_service_account(NAMESPACE, SERVICE_ACCOUNT)
        .await?;
    let operator = lab.operator_behind(&outage.proxy).await?;
    outage.restore().await?;
    let record = lab.wait_stage(node, "Recovered").await?;
    ensure!(
        record.metadata.uid == fence.metadata.uid,
        "another incident"
    );
    ensure!(!has_taint(&lab.node(node).await?, OUT_OF_SERVICE));
    ensure!(lab.times_tainted(node).await? == 1);
    scene.argo.delete(POLICIES).await?;
    scene.argo.gone(POLICIES).await?;
    let left = scene.shown("nfp/lab", ".metadata.name").await;
    ensure!(left.is_err(), "{left:?}");
    operator.check()?;
    lab.verdict().await
}

/// To a chart with another CRD; the operator is started again, as its pods would be.
async fn upgraded(scene: &Scene<'_>, outage: &Outage) -> Result<()> {
    let folder = tempfile::tempdir()?;
    with_another_definition(folder.path())?;
    let changed = folder.path().join(OPERATOR);
    scene.repository.add(scene.plane, &changed, NEXT).await?;
    let next = json!({"spec": {"source": {"targetRevision": NEXT}}});
    scene.argo.patch(OPERATOR, &next).await?;
    scene.synced(OPERATOR).await?;
    eventually("the new definition is served", LIMIT, async || {
        scene.shown("fencepolicy/lab", ".metadata.name").await
    })
    .await?;
    outage.operator.stop(LIMIT).await?;
    outage.operator.start_again().await
}

/// While the node is tainted: once that is confirmed, the operator and its rights go all the same, and the taint, the record and the CRDs stay.
async fn removed(scene: &Scene<'_>, outage: &Outage) -> Result<()> {
    let Outage { lab, node, .. } = outage;
    let before = lab.fence_of(node).await?.context("no record")?;
    scene.argo.delete(OPERATOR).await?;
    let asks = "requires manual confirmation to delete";
    scene.argo.logs(asks).await?;
    let deployment = format!("deployment/{OPERATOR}");
    scene.shown(&deployment, ".metadata.name").await?;
    outage.operator.check()?;
    outage.operator.stop(LIMIT).await?;
    scene.argo.confirm(OPERATOR).await?;
    scene.argo.gone(OPERATOR).await?;
    for object in ["deployment", "serviceaccount", "clusterrole"] {
        let object = format!("{object}/{OPERATOR}");
        let left = scene.shown(&object, ".metadata.name").await;
        ensure!(left.is_err(), "{left:?}");
    }
    ensure!(has_taint(&lab.node(node).await?, OUT_OF_SERVICE));
    let after = lab.fence_of(node).await?.context("the record is gone")?;
    ensure!(
        (after.metadata.uid.as_ref(), stage(&after))
            == (before.metadata.uid.as_ref(), stage(&before)),
        "it is {}",
        after.data["status"]
    );
    Ok(())
}
