//! A pause outlives the rounds of Flux, by Flux's own library against a real API server: what `kubectl fence` writes into an object that stands in
//! Git stays, and what a field manager wrote whose name begins with `kubectl` goes.

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

/// A round of Flux: what it says that it did to the policy.
async fn flux(plane: &ControlPlane) -> Result<String> {
    let program = tokio::task::spawn_blocking(e2e::flux::apply).await??;
    let mut command = Command::new(program);
    plane.equip(&mut command);
    let mut running = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut input = running.stdin.take().context("it has an input")?;
    input.write_all(IN_GIT.as_bytes()).await?;
    drop(input);
    let output = running.wait_with_output().await?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{complaint}");
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

async fn policy(plane: &ControlPlane) -> Result<Value> {
    let kind = GroupVersionKind::gvk("nodefencing.io", "v1alpha1", "NodeFencingPolicy");
    let policies: Api<DynamicObject> = Api::all_with(plane.admin(), &ApiResource::from_gvk(&kind));
    Ok(serde_json::to_value(policies.get("workers").await?)?)
}

/// How many entries pause the policy.
async fn pauses(plane: &ControlPlane) -> Result<usize> {
    let policy = policy(plane).await?;
    let entries = policy["spec"]["pauseRequests"].as_array();
    Ok(entries.map_or(0, Vec::len))
}

async fn fence(plane: &ControlPlane, line: &str) -> Result<()> {
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
