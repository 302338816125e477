//! A release from its first installation, of an older chart, to its last, by either Helm. Whatever the book has people type is typed here as
//! it stands on its pages ([`super::typed`]): every line of theirs that calls Helm.

use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use e2e::control_plane::{ControlPlane, Options};
use e2e::lab::LIMIT;
use e2e::operator::{self, NAMESPACE, Operator, SERVICE_ACCOUNT};
use fencing_testbed::eventually::eventually;
use fencing_testbed::paths::workspace;
use http::Method;
use serde_json::{Value, json};
use tokio::process::Command;

use super::typed::Desk;
use super::{RELEASE, chart, path, policies};
use crate::verdict::{Body, call, must};

pub const PODS: &str = "/api/v1/namespaces/node-fencing-system/pods";
const POLICIES: &str = "/apis/nodefencing.io/v1alpha1/nodefencingpolicies";
const DEVICES: &str = "/apis/nodefencing.io/v1alpha1/fencedevices";
const FENCES: &str = "/apis/nodefencing.io/v1alpha1/nodefences";
/// What it is, and how it was made: tests/data/chart/README.md.
const OLDER: &str = "tests/data/chart/node-fencing-operator-0.0.9.tgz";
/// Pages with lines to be typed.
const INSTALL: &str = "docs/how-to/install.md";
const UPGRADE: &str = "docs/how-to/upgrade.md";
const UNINSTALL: &str = "docs/how-to/uninstall.md";
const WATCH: &str = "docs/how-to/watch.md";
const AIR_GAP: &str = "docs/how-to/air-gap.md";
/// The line of that page that installs the operator.
const OF_OPERATOR: &str = "helm install node-fencing-operator";
/// A line is typed as it stands there.
const AS_IT_IS: (&str, &str) = ("", "");
/// By the present chart, with something to see it by.
const THREE_REPLICAS: &str = "--set=replicaCount=3";

/// A release and who has it in hand.
struct Release<'a> {
    plane: &'a ControlPlane,
    helm: &'static str,
    chart: String,
    desk: Desk<'a>,
}

impl Release<'_> {
    /// Runs Helm in the release's namespace, and gives what it printed.
    async fn helm(&self, arguments: &[&str]) -> Result<String> {
        let all = [arguments, &["--namespace", NAMESPACE]].concat();
        let output = self.plane.run(self.helm, &all).await?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{} {all:?}: {said}", self.helm);
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Types the line of a page that has these words.
    async fn types(&self, page: &str, words: &str) -> Result<String> {
        self.desk.types(page, words, AS_IT_IS).await
    }

    /// Upgrades to the present chart by the page.
    async fn upgrade_by_the_book(&self) -> Result<()> {
        self.types(UPGRADE, "helm get values").await?;
        self.types(UPGRADE, "helm upgrade").await.map(drop)
    }

    async fn upgrade(&self, flags: &[&str]) -> Result<String> {
        let upgrade = ["upgrade", RELEASE, &self.chart];
        self.helm(&[&upgrade, flags].concat()).await
    }

    /// How it ended, and what the pod of the hook said.
    async fn uninstall(&self) -> Result<(Result<String>, String)> {
        let (ended, said) = tokio::join!(
            self.types(UNINSTALL, "helm uninstall"),
            as_kubelet(self.plane, "node-fencing-operator-uninstall")
        );
        Ok((ended, said?))
    }

    async fn replicas(&self) -> Result<u64> {
        let path = "/apis/apps/v1/namespaces/node-fencing-system/deployments/node-fencing-operator";
        let deployment = must(&self.plane.admin(), Method::GET, path, None).await?;
        deployment["spec"]["replicas"].as_u64().context("none")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_of_helm_4_from_its_first_installation_to_its_last() -> Result<()> {
    life("helm").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_of_helm_3_from_its_first_installation_to_its_last() -> Result<()> {
    life("helm3").await
}

/// Installed from an older chart, upgraded to this one and back; asked; not removed while a node is being fenced, upgraded all the same; removed
/// by force, and installed again by who ends what was left open; removed, and installed again over what stayed.
async fn life(helm: &'static str) -> Result<()> {
    let plane = ControlPlane::start(Options::named(&format!("chart-{helm}"))).await?;
    let release = Release {
        plane: &plane,
        helm,
        chart: chart()?,
        desk: Desk::furnish(&plane, helm).await?,
    };
    from_an_older_chart(&release).await?;

    let operator = Operator::start(&plane, operator::Options::default()).await?;
    let (asked, log) = tokio::join!(
        release.types(INSTALL, "helm test"),
        as_kubelet(&plane, "node-fencing-operator-check")
    );
    let log = log?;
    asked.with_context(|| log.clone())?;
    ensure!(
        log.lines().all(|line| line.starts_with("ok   ")) && log.lines().count() == 4,
        "{log}"
    );
    let asked = format!("{PODS}/node-fencing-operator-check");
    let left = call(&plane.admin(), Method::GET, &asked, None).await?;
    ensure!(left.is_err(), "the pod of the test stays: {left:?}");
    release.upgrade(&[THREE_REPLICAS]).await?; // 5
    ensure!(release.replicas().await? == 3);
    back_to(&release, "4").await?; // 6
    ensure!(release.replicas().await? == 2);

    open_fence(&plane).await?;
    refused(&release, "6").await?;
    let operator = left_open(&release, operator).await?;

    // As its pods are by the time that its roles go: what it asks for then is denied, and counts as a right that it lacks.
    operator.stop(LIMIT).await?;
    let (gone, log) = release.uninstall().await?;
    gone.context(log)?;
    // The records outlive the release, and the next one takes their CRDs over.
    plane.kubectl_text(&["get", "nf", "by-hand"]).await?;
    release.types(INSTALL, OF_OPERATOR).await?;
    plane.kubectl_text(&["get", "nf", "by-hand"]).await?;
    watched_and_not(&release).await?;
    policies::by_the_book(&plane, helm, &release.desk).await?;
    through_an_air_gap(&release).await?;
    release.desk.has_typed_all()
}

/// The values that a page has somebody set are those of the release, and no others.
async fn watched_and_not(release: &Release<'_>) -> Result<()> {
    for value in ["true", "false"] {
        let words = format!("metrics.serviceMonitor.enabled={value}");
        release.types(WATCH, &words).await?;
        let values = release.helm(&["get", "values", RELEASE]).await?;
        let set = values.matches(&format!("enabled: {value}")).count();
        ensure!(set == 3, "{values}");
        ensure!(
            values.contains("repository: registry.example.com/"),
            "{values}"
        );
    }
    Ok(())
}

/// Removed, and installed from the one file that is carried over, with the values of the page.
async fn through_an_air_gap(release: &Release<'_>) -> Result<()> {
    let (gone, log) = release.uninstall().await?;
    gone.context(log)?;
    release.types(AIR_GAP, "helm package").await?;
    release.desk.writes(AIR_GAP, "values.yaml")?;
    release.types(AIR_GAP, "helm install").await?;
    let values = release.helm(&["get", "values", RELEASE]).await?;
    ensure!(values.contains("repository: INSIDE/"), "{values}");
    Ok(())
}

/// Puts the release back to a revision.
async fn back_to(release: &Release<'_>, revision: &str) -> Result<()> {
    let change = ("REVISION", revision);
    let line = release.desk.types(UNINSTALL, "helm rollback", change);
    line.await.map(drop)
}

/// Four revisions: the older chart, this one, the older one again, this one again. Objects stay what they are, a new field is there with its
/// CRD, and one that nobody has written since comes back with it.
async fn from_an_older_chart(release: &Release<'_>) -> Result<()> {
    let (plane, admin) = (release.plane, release.plane.admin());
    let older = path(workspace().join(OLDER))?;
    let install = ["install", RELEASE, &older, "--create-namespace"];
    let notes = release.helm(&install).await?;
    ensure!(
        notes.contains("nothing is watched until you write one"),
        "{notes}"
    );
    plane.wait_for_definitions().await?;
    plane
        .wait_for_service_account(NAMESPACE, SERVICE_ACCOUNT)
        .await?;

    let object = |kind: &str, spec: Value| json!({"apiVersion": "nodefencing.io/v1alpha1", "kind": kind, "metadata": {"name": "kept"}, "spec": spec});
    let too_new = json!({"nodeSelector": {}, "exclusions": {"maintenance": "Fence"}});
    let too_new = object("NodeFencingPolicy", too_new);
    let strict = format!("{POLICIES}?fieldValidation=Strict");
    let refused = call(
        &admin,
        Method::POST,
        &strict,
        Some((Body::Object, &too_new)),
    )
    .await?;
    let status = refused.err().context("the older chart knows the field")?;
    let words = "unknown field \"spec.exclusions.maintenance\"";
    ensure!(status.message.contains(words), "{}", status.message);
    let policy = object("NodeFencingPolicy", json!({"nodeSelector": {}}));
    let device = object("FenceDevice", json!({"nodeName": "worker-9", "manual": {}}));
    let mut written = Vec::new();
    for (path, body) in [(POLICIES, &policy), (DEVICES, &device)] {
        let object = must(&admin, Method::POST, path, Some((Body::Object, body))).await?;
        written.push((format!("{path}/kept"), object["metadata"]["uid"].clone()));
    }
    let kept = async || {
        for (path, uid) in &written {
            let object = must(&admin, Method::GET, path, None).await?;
            ensure!(object["metadata"]["uid"] == *uid, "{path} is another");
        }
        anyhow::Ok(())
    };

    let kept_policy = format!("{POLICIES}/kept");
    let maintenance = async |expected: Value, write: Option<&Value>| {
        eventually("the field is as its CRD has it", LIMIT, async || {
            let body = write.map(|patch| (Body::Merge, patch));
            let method = body.map_or(Method::GET, |_| Method::PATCH);
            let policy = must(&admin, method, &kept_policy, body).await?;
            let found = &policy["spec"]["exclusions"]["maintenance"];
            ensure!(*found == expected, "{found}");
            Ok(())
        })
        .await
    };
    release.upgrade_by_the_book().await?;
    kept().await?;
    let fence = json!({"spec": {"exclusions": {"maintenance": "Fence"}}});
    maintenance(json!("Fence"), Some(&fence)).await?;
    release.types(UPGRADE, "helm rollback").await?;
    maintenance(Value::Null, None).await?;
    kept().await?;
    release.upgrade_by_the_book().await?;
    maintenance(json!("Fence"), None).await?;
    kept().await
}

/// While a fence is open, `helm uninstall` leaves everything where it is, and the release can be put back to this revision.
async fn refused(release: &Release<'_>, revision: &str) -> Result<()> {
    let (refused, log) = release.uninstall().await?;
    ensure!(refused.is_err(), "it went: {log}");
    ensure!(
        log.starts_with("FAIL NodeFence by-hand of Node worker-9 is open: "),
        "{log}"
    );
    ensure!(release.replicas().await? == 2, "the Deployment is gone");
    // Helm calls the release `uninstalling` from now on, and upgrades nothing until it is told where it stood: not by `--install` either.
    let status = release.helm(&["status", RELEASE]).await?;
    ensure!(status.contains("STATUS: uninstalling"), "{status}");
    for flags in [&[THREE_REPLICAS][..], &[THREE_REPLICAS, "--install"]] {
        let said = release.upgrade(flags).await.err();
        let said = format!("{:#}", said.context("it was upgraded")?);
        ensure!(said.contains("has no deployed releases"), "{said}");
    }
    let history = release.types(UNINSTALL, "helm history").await?;
    let last = history.lines().last().unwrap_or_default();
    ensure!(
        last.split_whitespace().next() == Some(revision),
        "{history}"
    );
    back_to(release, revision).await?;
    release.upgrade(&[THREE_REPLICAS]).await?;
    ensure!(release.replicas().await? == 3);
    Ok(())
}

/// Removed all the same: the open NodeFence stays as it is, and a human's word about it waits for the next installation, which ends it.
async fn left_open(release: &Release<'_>, operator: Operator) -> Result<Operator> {
    let plane = release.plane;
    operator.stop(LIMIT).await?;
    let fence = format!("{FENCES}/by-hand");
    let before = must(&plane.admin(), Method::GET, &fence, None).await?;
    ensure!(succeeded(&before) == Some("Unknown"), "it is not open");
    let all_the_same = ("", "--no-hooks");
    let line = release
        .desk
        .types(UNINSTALL, "helm uninstall", all_the_same);
    line.await?;
    ensure!(release.replicas().await.is_err(), "it is still there");
    let released = json!({"spec": {"desiredState": "Released"}});
    let after = Some((Body::Merge, &released));
    let after = must(&plane.admin(), Method::PATCH, &fence, after).await?;
    ensure!(
        (&after["metadata"]["uid"], &after["status"])
            == (&before["metadata"]["uid"], &before["status"]),
        "it has changed from {before} to {after}"
    );

    release.types(INSTALL, OF_OPERATOR).await?;
    plane
        .wait_for_service_account(NAMESPACE, SERVICE_ACCOUNT)
        .await?;
    let operator = Operator::start(plane, operator::Options::default()).await?;
    has_ended(plane).await?;
    Ok(operator)
}

pub async fn has_ended(plane: &ControlPlane) -> Result<()> {
    eventually("it has ended", LIMIT, async || {
        let fence = plane
            .kubectl_text(&["get", "nf", "by-hand", "-o", "json"])
            .await?;
        let fence: Value = serde_json::from_str(&fence)?;
        let succeeded = succeeded(&fence);
        let has_ended = succeeded.is_some_and(|it| it != "Unknown");
        ensure!(has_ended, "{}", fence["status"]);
        Ok(())
    })
    .await
}

/// Its condition Succeeded, which is Unknown until it has ended.
fn succeeded(fence: &Value) -> Option<&str> {
    let conditions = fence["status"]["conditions"].as_array()?;
    let condition = conditions.iter().find(|it| it["type"] == "Succeeded")?;
    condition["status"].as_str()
}

/// A fence that waits for its approval.
pub async fn open_fence(plane: &ControlPlane) -> Result<()> {
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
    must(
        &plane.admin(),
        Method::POST,
        FENCES,
        Some((Body::Object, &fence)),
    )
    .await?;
    Ok(())
}

/// Does what a kubelet does with a hook's pod: runs the operator with the pod's arguments, as the pod's account, and says how it ended. Gives
/// what it printed.
pub async fn as_kubelet(plane: &ControlPlane, pod: &str) -> Result<String> {
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
