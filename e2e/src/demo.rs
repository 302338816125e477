//! `make demo`: two nodes lose power before the user's eyes, one with the operator's protection and one without.
//!
//! Everything on the screen is what a real API server said: which node runs the pod, when the taint came and went, and why
//! the unprotected volume still waits. The demo judges itself at the end by the volumes' own files.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::json;

use crate::lab::{Kind, LIMIT, Lab, Setup, available, condition, stage};
use crate::timeline::Timeline;
use crate::toolchain::{Programs, kubernetes_version};
use crate::workload::{Template, node_of};

/// Nodes with this label are the policy's.
const LABEL: &str = "demo/protected";
/// How long the unprotected pod is watched after the protected one runs again.
const WATCHED_LONGER: Duration = Duration::from_secs(15);

/// Runs the demo and prints it.
pub async fn run() -> Result<()> {
    let kind = match available(Kind::Real) {
        Ok(()) => Kind::Real,
        Err(reason) => {
            println!("(no real kubelets here: {reason}; the nodes are simulated)");
            Kind::Simulated
        }
    };
    let mut setup = Setup::new("demo", 3).on(kind).alone();
    // The default of 300 s until a pod of an unreachable node is deleted would make the demo long; nothing else changes.
    setup.control_plane.toleration_seconds = Some(5);
    setup.control_plane.programs = Programs::Cluster;
    setup.labels = |number| match number {
        1 => BTreeMap::from([(LABEL.to_owned(), "yes".to_owned())]),
        _ => BTreeMap::new(),
    };
    say("Starting a Kubernetes control plane, three machines with BMCs, and the operator ...");
    let lab = Lab::start(setup).await?;
    let operator = lab.operator().await?;
    lab.wait_protected().await?;
    let nodes = match kind {
        Kind::Real => "real kubelets and containers",
        Kind::Simulated => "simulated kubelets",
    };
    say(&format!(
        "Kubernetes {} is up in {:.1} s: node-1, node-2 and node-3 are {nodes}.",
        kubernetes_version(),
        lab.control_plane.startup().as_secs_f64()
    ));
    workloads(&lab).await?;
    policy(&lab).await?;

    let client = lab.control_plane.admin();
    let timeline = Timeline::start(&client, &["work"]).await;
    let mut lines = timeline.subscribe();
    timeline.note("node-1, node-2", "POWER CUT", true);
    lab.rig(1).machine.set_power(false);
    lab.rig(2).machine.set_power(false);
    let moved = lab
        .workloads
        .wait_running_elsewhere("database-0", "node-1", LIMIT);
    let mut moved = std::pin::pin!(moved);
    let pod = loop {
        tokio::select! {
            pod = &mut moved => break pod?,
            Some(entry) = lines.recv() => println!("  {}", timeline.line(&entry)),
        }
    };
    let fence = lab.wait_stage("node-1", "Recovered").await?;
    let until = tokio::time::sleep(WATCHED_LONGER);
    let mut until = std::pin::pin!(until);
    loop {
        tokio::select! {
            () = &mut until => break,
            Some(entry) = lines.recv() => println!("  {}", timeline.line(&entry)),
        }
    }
    operator.check()?;
    println!();
    println!(
        "  with the operator     node-1 is dark, database-0 runs on {} with its volume",
        node_of(&pod)
    );
    println!(
        "  without the operator  node-2 is dark, {}",
        unprotected(&lab).await?
    );
    println!();
    println!(
        "  The record of the incident, in short (NodeFence {}):",
        name(&fence)
    );
    println!("    stage    {}", stage(&fence));
    println!(
        "    because  {}",
        condition(&fence, "Succeeded")
            .and_then(|it| it["message"].as_str())
            .unwrap_or_default()
    );
    for reading in fence.data["status"]["evidence"]["readings"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let text = |field: &str| reading[field].as_str().unwrap_or_default().to_owned();
        println!(
            "    evidence {} {} said \"{}\" for system {}",
            text("time"),
            text("device"),
            text("raw"),
            text("systemUUID")
        );
    }
    lab.silent_after_proof(&fence).await?;
    lab.verdict().await?;
    println!();
    say(
        "No volume was written by two machines, and no write came after the proof: every line in them was checked.",
    );
    Ok(())
}

/// A protected StatefulSet on node-1, and an unprotected Deployment on node-2. Cordons only steer where they begin.
async fn workloads(lab: &Lab) -> Result<()> {
    cordon(lab, &[("node-2", true), ("node-3", true)]).await?;
    lab.workloads
        .stateful_set("database", &Template::default())
        .await?;
    lab.workloads.wait_running("database-0", LIMIT).await?;
    cordon(lab, &[("node-1", true), ("node-2", false)]).await?;
    lab.workloads.volume("unprotected").await?;
    lab.workloads
        .deployment("unprotected", 1, &Template::with_claim("unprotected"))
        .await?;
    let begin = std::time::Instant::now();
    while running(lab, "unprotected").await?.is_none() {
        ensure!(
            begin.elapsed() < LIMIT,
            "the unprotected pod does not start"
        );
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    cordon(lab, &[("node-1", false), ("node-3", false)]).await?;
    say(
        "StatefulSet database runs on node-1, Deployment unprotected on node-2, each with a ReadWriteOnce volume.",
    );
    Ok(())
}

async fn policy(lab: &Lab) -> Result<()> {
    let selector = json!({"nodeSelector": {"matchLabels": {LABEL: "yes"}}});
    lab.policy("ConfirmOnly", selector).await?;
    say("A NodeFencingPolicy selects node-1, not node-2. Now both lose power:");
    println!();
    Ok(())
}

async fn cordon(lab: &Lab, nodes: &[(&str, bool)]) -> Result<()> {
    let api = Api::<Node>::all(lab.control_plane.admin());
    for (node, unschedulable) in nodes {
        let patch = Patch::Merge(json!({"spec": {"unschedulable": unschedulable}}));
        api.patch(node, &PatchParams::default(), &patch)
            .await
            .with_context(|| format!("failed to cordon {node}"))?;
    }
    Ok(())
}

async fn pods(lab: &Lab, app: &str) -> Result<Vec<Pod>> {
    let params = ListParams::default().labels(&format!("app={app}"));
    Ok(lab.workloads.api::<Pod>().list(&params).await?.items)
}

async fn running(lab: &Lab, app: &str) -> Result<Option<Pod>> {
    let is_running = |pod: &Pod| {
        pod.status
            .as_ref()
            .and_then(|status| status.phase.as_deref())
            == Some("Running")
    };
    Ok(pods(lab, app).await?.into_iter().find(is_running))
}

/// What became of the unprotected workload: in the words of Kubernetes' own event, if there is one.
async fn unprotected(lab: &Lab) -> Result<String> {
    let waiting = pods(lab, "unprotected")
        .await?
        .into_iter()
        .find(|pod| pod.metadata.deletion_timestamp.is_none());
    let Some(waiting) = waiting else {
        return Ok("its pod hangs in Terminating, and no other starts".to_owned());
    };
    let name = waiting.metadata.name.unwrap_or_default();
    let params = ListParams::default().fields(&format!(
        "involvedObject.name={name},reason=FailedAttachVolume"
    ));
    let events = lab.workloads.api::<Event>().list(&params).await?;
    let words = events.items.last().and_then(|event| event.message.clone());
    Ok(format!(
        "{name} waits: {}",
        words.unwrap_or_else(|| "its volume is still attached to node-2".to_owned())
    ))
}

fn name(object: &kube::api::DynamicObject) -> &str {
    object.metadata.name.as_deref().unwrap_or_default()
}

fn say(text: &str) {
    println!("{text}");
}
