//! Flux, by its own libraries against a real API server. A pause outlives its rounds: what `kubectl fence` writes into an object that stands in Git
//! stays, and what a field manager wrote whose name begins with `kubectl` goes. And it waits until the operator has assessed what it applied.

use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use e2e::control_plane::{ControlPlane, Options};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::plugin::{kubectl_fence, words};

/// The policy as Git has it.
const IN_GIT: &str = "apiVersion: nodefencing.io/v1alpha1
kind: NodeFencingPolicy
metadata: {name: workers}
spec:
  nodeSelector: {}
  fence: {mode: Observe}
";
const NAME: &str = "NodeFencingPolicy/workers";

/// What Flux's program says of this input.
async fn run(plane: &ControlPlane, arguments: &[&str], objects: &str) -> Result<String> {
    let program = tokio::task::spawn_blocking(e2e::flux::apply).await??;
    let mut command = Command::new(program);
    plane.equip(&mut command);
    let mut running = command
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut input = running.stdin.take().context("it has an input")?;
    input.write_all(objects.as_bytes()).await?;
    drop(input);
    let output = running.wait_with_output().await?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{complaint}");
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// A round of Flux: what it says that it did to the policy.
async fn flux(plane: &ControlPlane) -> Result<String> {
    run(plane, &[], IN_GIT).await
}

/// What kstatus, by which Flux waits, makes of the policy as the API server has it.
async fn kstatus(plane: &ControlPlane) -> Result<String> {
    let object = policy(plane).await?.to_string();
    run(plane, &["status"], &object).await
}

pub async fn policy(plane: &ControlPlane) -> Result<Value> {
    let kind = GroupVersionKind::gvk("nodefencing.io", "v1alpha1", "NodeFencingPolicy");
    let policies: Api<DynamicObject> = Api::all_with(plane.admin(), &ApiResource::from_gvk(&kind));
    Ok(serde_json::to_value(policies.get("workers").await?)?)
}

/// How many entries pause the policy.
pub async fn pauses(plane: &ControlPlane) -> Result<usize> {
    let policy = policy(plane).await?;
    let entries = policy["spec"]["pauseRequests"].as_array();
    Ok(entries.map_or(0, Vec::len))
}

pub async fn fence(plane: &ControlPlane, line: &str) -> Result<()> {
    let output = kubectl_fence(plane, &words(line), &[]).await?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{line}: {complaint}");
    Ok(())
}

/// By hand, as these options of kubectl have it written.
async fn patch(plane: &ControlPlane, pauses: &Value, options: &[&str]) -> Result<()> {
    let body = json!({"spec": {"pauseRequests": pauses}}).to_string();
    let line = ["patch", "nfp", "workers", "--type=merge", "-p", &body];
    plane
        .kubectl_text(&[&line, options].concat())
        .await
        .map(drop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_of_the_plugin_outlives_a_round_of_flux_and_one_of_kubectl_does_not() -> Result<()>
{
    let plane = ControlPlane::start(Options::named("flux")).await?;
    plane.apply_deploy().await?;
    ensure!(flux(&plane).await? == format!("{NAME} created"));

    fence(
        &plane,
        "pause workers --for 2h --reason \"switches of rack 7\"",
    )
    .await?;
    ensure!(flux(&plane).await? == format!("{NAME} unchanged"));
    ensure!(pauses(&plane).await? == 1, "Flux took the plugin's pause");
    fence(&plane, "resume workers --reason \"the switches are up\"").await?;
    ensure!(flux(&plane).await? == format!("{NAME} unchanged"));
    ensure!(pauses(&plane).await? == 0);
    let by = &policy(&plane).await?["metadata"]["annotations"]["nodefencing.io/resumed-by"];
    ensure!(by == "admin", "Flux took the plugin's annotation: {by}");

    // What docs/how-to/gitops-flux.md says of pauses that are written by hand.
    let entry = json!([{"name": "racks", "reason": "switches of rack 7"}]);
    let managers = [
        (vec!["--field-manager=nodefencing-cli"], 1),
        (vec!["--field-manager=kubectl-fence"], 0),
        (vec![], 0),
    ];
    for (options, stay) in managers {
        patch(&plane, &entry, &options).await?;
        ensure!(pauses(&plane).await? == 1);
        let did = flux(&plane).await?;
        let left = pauses(&plane).await?;
        ensure!(left == stay, "{options:?}: {left} left; {did}");
        patch(&plane, &json!([]), &options).await?;
    }
    Ok(())
}

/// No operator runs here: what it would write is written by hand (tests/contract/kstatus.rs has what it writes when).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flux_waits_until_the_operator_has_assessed_what_it_applied() -> Result<()> {
    let plane = ControlPlane::start(Options::named("flux-wait")).await?;
    plane.apply_deploy().await?;
    ensure!(flux(&plane).await? == format!("{NAME} created"));
    let found = kstatus(&plane).await?;
    ensure!(found == "workers InProgress", "of a new policy: {found}");
    ensure!(flux(&plane).await? == format!("{NAME} unchanged"));

    let condition = |kind: &str, status: &str, reason: &str| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    let ready = |status: &str, reason: &str| condition("Ready", status, reason);
    for (conditions, expected) in [
        (vec![ready("True", "Observing")], "Current"),
        (vec![ready("False", "NoReadyDevice")], "InProgress"),
        (
            vec![
                ready("False", "Conflict"),
                condition("Stalled", "True", "Conflict"),
            ],
            "Failed",
        ),
    ] {
        let status = json!({"observedGeneration": 1, "conditions": conditions});
        let body = json!({"status": status}).to_string();
        let line = ["patch", "nfp", "workers", "--subresource=status"];
        let what = [
            "--field-manager=node-fencing-operator",
            "--type=merge",
            "-p",
            &body,
        ];
        plane.kubectl_text(&[&line[..], &what[..]].concat()).await?;
        let found = kstatus(&plane).await?;
        ensure!(
            found == format!("workers {expected}"),
            "{conditions:?}: {found}"
        );
        ensure!(flux(&plane).await? == format!("{NAME} unchanged"));
    }
    Ok(())
}
