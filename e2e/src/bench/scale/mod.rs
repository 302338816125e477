//! `make bench-scale`: what a fence and a storm of them take where the cluster is large, beside a small one in the same run.
//!
//! For each size, and each once without and once with a kube-controller-manager: Nodes of realistic size that this benchmark speaks for, each with
//! four VolumeAttachments; Redfish BMCs in a process of their own; the operator's release build. Nodes die by their machine being turned off and
//! `Ready=Unknown` being written at once, so that no time of Kubernetes is in the figures; there are no pods, and volumes detach at once.

pub mod cluster;
mod report;
pub mod storm;

use self::cluster::{Cluster, Setting};
use self::storm::Storm;
use crate::operator::Operator;
use anyhow::{Context, Result};
use fencing_testbed::bench::Cores;
use fencing_testbed::bench::awake::Awake;
use fencing_testbed::usage::Usage;
use std::time::{Duration, Instant};

/// Until what its start has set off is over.
const SETTLE: Duration = Duration::from_secs(20);
/// How long the operator is watched at rest.
const REST: Duration = Duration::from_secs(60);
/// A kubelet whose node does not change reports its status once in this time. Source: `nodeStatusReportFrequency` (KubeletConfiguration).
const STATUS_PERIOD: Duration = Duration::from_secs(300);

/// What to measure.
#[derive(Debug, Clone)]
pub struct Plan {
    /// How many Nodes, one cluster each.
    pub nodes: Vec<usize>,
    /// Without a kube-controller-manager, with one, or first the one and then the other.
    pub controllers: Vec<bool>,
    /// How many fences one after the other.
    pub runs: usize,
    /// How many Nodes die at once, one storm after the other; those that a cluster is too small for are left out.
    pub storms: Vec<usize>,
    /// Where perf writes what the operator does in the storms.
    pub profile: Option<std::path::PathBuf>,
}

/// One cluster, measured.
struct Measured {
    size: cluster::Size,
    controllers: bool,
    idle_percent: f64,
    idle: Usage,
    single: Vec<Storm>,
    storms: Vec<Storm>,
    end: Usage,
    terms_lost: usize,
}

/// Measures, and prints one block of Markdown; progress goes to standard error.
pub async fn run(plan: &Plan) -> Result<()> {
    let awake = Awake::every_core()?;
    let before = Cores::now();
    let mut columns = Vec::new();
    for nodes in &plan.nodes {
        for controllers in plan.controllers.iter().copied() {
            let size = cluster::Size::of(*nodes);
            let measured = measure(plan, size, controllers).await;
            columns.push(measured.with_context(|| format!("{nodes} nodes"))?);
        }
    }
    awake.check()?;
    println!("{}", report::render(&columns, plan, &before)?);
    Ok(())
}

async fn measure(plan: &Plan, size: cluster::Size, controllers: bool) -> Result<Measured> {
    let begun = Instant::now();
    let setting = Setting {
        name: "bench-scale",
        size,
        controllers,
        emulator: std::env::current_exe()?,
    };
    let mut cluster = Cluster::start(setting).await?;
    eprintln!("{size}: made in {:.0?}", begun.elapsed());
    let operator = cluster.operator().await?;
    let beats = cluster.beat(STATUS_PERIOD);
    tokio::time::sleep(SETTLE).await;
    let idle_percent = rest(&operator).await?;
    let idle = operator.usage()?;
    eprintln!("{size}: at rest {idle_percent:.2} % of a core");
    let mut single = Vec::new();
    for _ in 0..plan.runs {
        let storm = Storm::measure(&mut cluster, &operator, 1, idle_percent).await?;
        eprintln!("{size}: {storm}");
        single.push(storm);
    }
    let mut storms = Vec::new();
    for count in &plan.storms {
        if !cluster.has_left(*count) {
            continue;
        }
        let profile = plan
            .profile
            .as_ref()
            .map(|directory| directory.join(format!("{}-{count}-{controllers}.perf", size.nodes)));
        let perf = profile.map(|file| perf(&operator, &file)).transpose()?;
        let storm = Storm::measure(&mut cluster, &operator, *count, idle_percent).await;
        drop(perf);
        let storm = storm?;
        eprintln!("{size}: {storm}");
        storms.push(storm);
    }
    beats.abort();
    operator.check()?;
    Ok(Measured {
        size,
        controllers,
        idle_percent,
        idle,
        single,
        storms,
        end: operator.usage()?,
        terms_lost: terms_lost(&operator)?,
    })
}

/// CPU time of the operator while nothing happens but the nodes' own reports, in percent of one core.
async fn rest(operator: &Operator) -> Result<f64> {
    let (begun, before) = (Instant::now(), operator.usage()?.cpu);
    tokio::time::sleep(REST).await;
    let cpu = operator.usage()?.cpu - before;
    Ok(100.0 * cpu.as_secs_f64() / begun.elapsed().as_secs_f64())
}

/// How often it had to say that it leads no longer.
pub fn terms_lost(operator: &Operator) -> Result<usize> {
    let lines = operator.log_lines()?;
    let said = lines.iter().filter_map(|line| {
        let fields = &line["fields"];
        fields["message"]
            .as_str()
            .or_else(|| line["message"].as_str())
    });
    Ok(said
        .filter(|it| it.starts_with("no longer the leader"))
        .count())
}

/// Perf, until it is dropped.
struct Perf(std::process::Child);

fn perf(operator: &Operator, file: &std::path::Path) -> Result<Perf> {
    let mut command = std::process::Command::new("perf");
    command.args([
        "record",
        "--quiet",
        "-e",
        "cpu-clock",
        "-F",
        "299",
        "--call-graph",
        "dwarf",
    ]);
    command
        .args(["--pid", &operator.pid()?.to_string(), "--output"])
        .arg(file);
    Ok(Perf(command.spawn().context("perf (Debian: linux-perf)")?))
}

impl Drop for Perf {
    fn drop(&mut self) {
        // It writes its file when it is interrupted; killed, it writes none.
        let pid = rustix::process::Pid::from_child(&self.0);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
        let _ = self.0.wait();
    }
}
