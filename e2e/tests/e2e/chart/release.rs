//! A release from its first installation to its last, by either Helm.

use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use e2e::control_plane::{ControlPlane, Options};
use e2e::eventually::eventually;
use e2e::lab::LIMIT;
use e2e::operator::{self, NAMESPACE, Operator, SERVICE_ACCOUNT};
use http::Method;
use serde_json::{Value, json};
use tokio::process::Command;

use super::{RELEASE, chart};
use crate::verdict::{Body, must};

const PODS: &str = "/api/v1/namespaces/node-fencing-system/pods";

/// A release and who has it in hand.
struct Release<'a> {
    plane: &'a ControlPlane,
    helm: &'static str,
    chart: String,
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

    async fn install(&self) -> Result<String> {
        self.helm(&["install", RELEASE, &self.chart, "--create-namespace"])
            .await
    }

    /// How it ended, and what the pod of the hook said.
    async fn uninstall(&self) -> Result<(Result<String>, String)> {
        let arguments = ["uninstall", RELEASE, "--timeout=100s"];
        let (ended, said) = tokio::join!(
            self.helm(&arguments),
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

/// Installed, asked, upgraded, rolled back, not removed while a node is being fenced, upgraded all the same, removed, and installed again over
/// what stayed.
async fn life(helm: &'static str) -> Result<()> {
    let plane = ControlPlane::start(Options::named(&format!("chart-{helm}"))).await?;
    let release = Release {
        plane: &plane,
        helm,
        chart: chart()?,
    };
    let notes = release.install().await?;
    ensure!(
        notes.contains("nothing is watched until you write one"),
        "{notes}"
    );
    plane.wait_for_definitions().await?;
    plane
        .wait_for_service_account(NAMESPACE, SERVICE_ACCOUNT)
        .await?;

    let operator = Operator::start(&plane, operator::Options::default()).await?;
    let test = ["test", RELEASE, "--timeout=100s"];
    let (asked, log) = tokio::join!(
        release.helm(&test),
        as_kubelet(&plane, "node-fencing-operator-check")
    );
    let log = log?;
    asked.with_context(|| log.clone())?;
    ensure!(
        log.lines().all(|line| line.starts_with("ok   ")) && log.lines().count() == 4,
        "{log}"
    );

    let upgrade = ["upgrade", RELEASE, &release.chart, "--set=replicaCount=3"];
    release.helm(&upgrade).await?;
    ensure!(release.replicas().await? == 3);
    release.helm(&["rollback", RELEASE, "1"]).await?;
    ensure!(release.replicas().await? == 2);

    open_fence(&plane).await?;
    let (refused, log) = release.uninstall().await?;
    ensure!(refused.is_err(), "it went: {log}");
    ensure!(
        log.starts_with("FAIL NodeFence by-hand of Node worker-9 is open: "),
        "{log}"
    );
    ensure!(release.replicas().await? == 2, "the Deployment is gone");
    // Helm calls the release `uninstalling` from now on and upgrades nothing until it is told where it stood.
    ensure!(release.helm(&upgrade).await.is_err());
    release.helm(&["rollback", RELEASE, "3"]).await?;
    release.helm(&upgrade).await?;
    ensure!(release.replicas().await? == 3);

    end_fence(&plane).await?;
    // As its pods are by the time that its roles go: what it asks for then is denied, and counts as a right that it lacks.
    operator.stop(LIMIT).await?;
    let (gone, log) = release.uninstall().await?;
    gone.context(log)?;
    // The records outlive the release, and the next one takes their CRDs over.
    plane.kubectl_text(&["get", "nf", "by-hand"]).await?;
    release.install().await?;
    plane.kubectl_text(&["get", "nf", "by-hand"]).await?;
    Ok(())
}

async fn end_fence(plane: &ControlPlane) -> Result<()> {
    let released = r#"{"spec":{"desiredState":"Released"}}"#;
    plane
        .kubectl_text(&["patch", "nf", "by-hand", "--type=merge", "-p", released])
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
    .await
}

/// A fence that waits for its approval.
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
