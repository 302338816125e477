//! `make bench-failover`: how long a pod is away after its node lost power, stage by stage, and what the operator costs.
//!
//! One lab with two machines and one operator. The pod of a StatefulSet moves back and forth: each run cuts the power of
//! the machine that it is on, waits until it runs on the other, turns the dark machine on again and waits until it takes
//! pods again. The first cut is made before there is a policy, so that the table says what Kubernetes does alone.
//!
//! What the API server stored is timed by its audit log, to the microsecond, and not by when somebody saw it. The policy
//! counts from when the operator first sees `Ready=Unknown`; here it counts from the controller-manager's next write, its
//! `unreachable` taint, because the audit log keeps no bodies of status writes. That is some 20 ms late, under load more, so
//! the operator's overhead comes out too small by as much.

mod table;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::audit::Request;
use crate::lab::{Kind, LIMIT, Lab, Setup, has_taint, resource};
use crate::operator::{self, Operator};
use crate::toolchain::KUBERNETES_VERSION;
use crate::workload::{Template, node_of, ready_status};
use table::Table;

const CLAIM: &str = "nodefencing.io/claim";
const QUARANTINE: &str = "nodefencing.io/quarantine";
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
/// The pod that moves.
const POD: &str = "database-0";
/// `durationSeconds` of the policy, the shortest that the API allows.
const POLICY_WAIT: Duration = Duration::from_secs(10);
/// `readPeriodSeconds` times one less than `consecutiveOffReads`: the time that the proof takes by its definition.
const STABILITY_WINDOW: Duration = Duration::from_secs(1);
/// How long the pod is given without the operator.
const PATIENCE: Duration = Duration::from_secs(60);

/// One power cut with the operator.
#[derive(Debug)]
struct Run {
    /// Power loss, `Ready=Unknown`, the policy's deadline, claim, taint, Running elsewhere.
    cut: Timestamp,
    unknown: Timestamp,
    deadline: Timestamp,
    claimed: Timestamp,
    tainted: Timestamp,
    running: Timestamp,
    /// Writes of the operator by resource, `pods` for their deletions; Events are not among them.
    writes: BTreeMap<String, usize>,
    /// The operator's memory after it.
    resident_bytes: u64,
}

impl Run {
    /// From the policy's deadline to the taint, without the time that the proof takes by its definition.
    fn overhead_ms(&self) -> f64 {
        ms(self.deadline, self.tainted) - STABILITY_WINDOW.as_secs_f64() * 1000.0
    }

    fn writes(&self, of: &[&str]) -> f64 {
        of.iter()
            .map(|resource| self.writes.get(*resource).copied().unwrap_or_default())
            .sum::<usize>() as f64
    }
}

/// Measures, and prints one table.
pub async fn failover(runs: usize, kind: Kind) -> Result<()> {
    ensure!(runs > 0, "no runs, no figures");
    let lab = Lab::start(Setup::new("bench-failover", 2).on(kind)).await?;
    let operator = lab.operator().await?;
    lab.wait_protected().await?;
    lab.workloads
        .stateful_set("database", &Template::default())
        .await?;
    lab.workloads.wait_running(POD, LIMIT).await?;
    let idle_bytes = operator.resident_bytes()?;

    let alone = without_policy(&lab).await?;
    eprintln!("without a policy: {alone}");
    let reads =
        json!({"fence": {"verification": {"consecutiveOffReads": 2, "readPeriodSeconds": 1}}});
    lab.policy("ConfirmOnly", reads).await?;
    let mut done = Vec::new();
    for number in 1..=runs {
        let run = with_policy(&lab, &operator)
            .await
            .with_context(|| format!("run {number}"))?;
        eprintln!(
            "run {number} of {runs}: {:.2} s to Running elsewhere, {:.0} ms of them the operator's own",
            ms(run.cut, run.running) / 1000.0,
            run.overhead_ms()
        );
        done.push(run);
    }
    operator.check()?;
    lab.verdict().await?;
    print!("{}", report(kind, &done, &alone, idle_bytes)?);
    Ok(())
}

/// The same power cut with the operator running and no policy: what Kubernetes does alone, in words.
async fn without_policy(lab: &Lab) -> Result<String> {
    let pod = lab.workloads.wait_running(POD, LIMIT).await?;
    let node = node_of(&pod).to_owned();
    let cut = Timestamp::now();
    lab.rig_of(&node)?.machine.set_power(false);
    let moved = lab.workloads.wait_running_elsewhere(POD, &node, LIMIT);
    let words = match tokio::time::timeout(PATIENCE, moved).await {
        Ok(moved) => {
            moved?;
            format!("{:.2} s", ms(cut, Timestamp::now()) / 1000.0)
        }
        Err(_) => {
            let pod = lab.workloads.api::<Pod>().get(POD).await?;
            let how = match pod.metadata.deletion_timestamp {
                Some(_) => "Terminating",
                None => "bound",
            };
            format!(
                "not within {} s (the pod is still {how} on the dark node)",
                PATIENCE.as_secs()
            )
        }
    };
    let touched = writes_since(lab, cut).await?;
    let touched = touched.iter().find(|write| resource(write) == "nodes");
    if let Some(write) = touched {
        anyhow::bail!("a write to a Node without a policy: {}", write.summary());
    }
    power_on(lab, &node).await?;
    lab.workloads.wait_running(POD, LIMIT).await?;
    Ok(words)
}

/// One power cut with a policy, and the way back to two machines that take pods.
async fn with_policy(lab: &Lab, operator: &Operator) -> Result<Run> {
    let pod = lab.workloads.wait_running(POD, LIMIT).await?;
    let node = node_of(&pod).to_owned();
    let cut = Timestamp::now();
    lab.rig_of(&node)?.machine.set_power(false);
    let replacement = lab
        .workloads
        .wait_running_elsewhere(POD, &node, LIMIT)
        .await?;
    let running = Timestamp::now();
    let fence = lab.wait_stage(&node, "Recovered").await?;
    lab.silent_after_proof(&fence).await?;
    power_on(lab, &node).await?;

    // A pod that was deleted comes back under another uid, so this one never was.
    let now = lab.workloads.wait_running(POD, LIMIT).await?;
    ensure!(
        now.uid() == replacement.uid(),
        "the replacement pod was deleted: its uid was {:?} and is {:?}",
        replacement.uid(),
        now.uid()
    );
    let mut writes = BTreeMap::new();
    for write in writes_since(lab, cut).await? {
        *writes.entry(resource(&write)).or_default() += 1;
    }
    let of_node = lab.control_plane.audit().writes_to("nodes")?;
    let first = |what: &str, is_it: &dyn Fn(&Value) -> bool| {
        let mut since = of_node.iter().filter(|write| {
            write.object_ref.name == node && write.received >= cut && write.succeeded()
        });
        let write = since.find(|write| is_it(&write.response_object));
        write.with_context(|| format!("the audit log of {node} shows no {what}"))
    };
    let unknown = first("Ready=Unknown", &is_unknown)?.received;
    Ok(Run {
        cut,
        unknown,
        deadline: unknown + POLICY_WAIT,
        claimed: first("claim", &|node| is_tainted(node, CLAIM))?.answered,
        tainted: first("taint", &|node| is_tainted(node, OUT_OF_SERVICE))?.answered,
        running,
        writes,
        resident_bytes: operator.resident_bytes()?,
    })
}

/// Turns a machine on, and waits until its node takes pods again.
async fn power_on(lab: &Lab, node: &str) -> Result<()> {
    lab.rig_of(node)?.machine.set_power(true);
    lab.wait_node(node, "Ready and free of quarantine", |node| {
        let unreachable = has_taint(node, "node.kubernetes.io/unreachable");
        ready_status(node) == Some("True") && !has_taint(node, QUARANTINE) && !unreachable
    })
    .await
    .map(drop)
}

async fn writes_since(lab: &Lab, since: Timestamp) -> Result<Vec<Request>> {
    let mut writes = lab.writes().await?;
    writes.retain(|write| write.received >= since);
    Ok(writes)
}

fn is_unknown(node: &Value) -> bool {
    let conditions = node["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "Unknown")
}

fn is_tainted(node: &Value, key: &str) -> bool {
    let taints = node["spec"]["taints"].as_array();
    taints
        .into_iter()
        .flatten()
        .any(|taint| taint["key"] == key)
}

/// Milliseconds from one time to another.
fn ms(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64() * 1000.0
}

fn report(kind: Kind, runs: &[Run], alone: &str, idle_bytes: u64) -> Result<String> {
    let (runs_number, cores) = (runs.len(), std::thread::available_parallelism()?);
    let nodes = match kind {
        Kind::Simulated => "simulated kubelets",
        Kind::Real => "real kubelets and containers",
    };
    let binary = operator::binary()?;
    let profile = binary.parent().and_then(|parent| parent.file_name());
    let profile = profile.unwrap_or_default().to_string_lossy().into_owned();
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or_default();
    let mut table = Table::new(format!(
        "{runs_number} power cuts, Kubernetes {KUBERNETES_VERSION}, two nodes ({nodes}), {profile} build of the operator; \
         {cores} cores for all of it, load average {load} at the end."
    ));
    let mut stage = |name: &str, from: fn(&Run) -> Timestamp, to: fn(&Run) -> Timestamp| {
        let seconds = runs.iter().map(|run| ms(from(run), to(run)) / 1000.0);
        table.row(name, "s", 2, seconds);
    };
    stage(
        "power loss to `Ready=Unknown`",
        |run| run.cut,
        |run| run.unknown,
    );
    stage(
        "to the policy's deadline",
        |run| run.unknown,
        |run| run.deadline,
    );
    stage("to the claim", |run| run.deadline, |run| run.claimed);
    stage("to the taint", |run| run.claimed, |run| run.tainted);
    stage("to Running elsewhere", |run| run.tainted, |run| run.running);
    stage(
        "**power loss to Running elsewhere**",
        |run| run.cut,
        |run| run.running,
    );
    table.words("the same cut without a policy", alone);
    table.row(
        "operator's own: deadline to taint, less the 1 s window",
        "ms",
        0,
        runs.iter().map(Run::overhead_ms),
    );
    let a_fence = ["nodes", "nodefences"];
    table.row(
        "API writes to the Node and the NodeFence",
        "",
        0,
        runs.iter().map(|run| run.writes(&a_fence)),
    );
    let states = ["fencedevices", "nodefencingpolicies"];
    table.row(
        "API writes to the status of devices and policies",
        "",
        0,
        runs.iter().map(|run| run.writes(&states)),
    );
    table.row(
        "pods deleted by the operator",
        "",
        0,
        runs.iter().map(|run| run.writes(&["pods"])),
    );
    table.words("replacement pods deleted by anybody", "0");
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    table.row(
        "operator's resident memory after a fence",
        "MiB",
        1,
        runs.iter().map(|run| mib(run.resident_bytes)),
    );
    table.words(
        "the same before the first",
        &format!("{:.1} MiB", mib(idle_bytes)),
    );
    Ok(table.to_string())
}
