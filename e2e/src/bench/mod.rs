//! `make bench-failover`: how long a pod is away after its node lost power, stage by stage, and what the operator costs.
//!
//! One lab with two machines for each kind of node and each set of times. The pod of a StatefulSet moves back and forth: each cut takes the power
//! of the machine that it is on, waits until it runs on the other, turns the dark machine on again and waits until it takes
//! pods again. The first cut is made before the operator starts, so that the table says what Kubernetes does alone. Power is lost as when the mains
//! fail ([`Machine::go_dark`](crate::machine::Machine::go_dark)).
//!
//! What is measured and how is [`cut`], under what condition [`fencing_testbed::bench::awake`]; [`trace`] is for whoever wants to make the operator faster;
//! [`report`] prints a block of Markdown, made to be pasted into docs/figures.md as it is.

mod cut;
mod policy;
mod report;
pub mod rest;
pub mod scale;
mod trace;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fencing_testbed::bench::Cores;
use fencing_testbed::bench::awake::Awake;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use self::cut::Cut;
use self::policy::Policy;
use self::report::Column;
use crate::lab::{Kind, LIMIT, Lab, Setup, available, has_taint};
use crate::operator::Operator;
use crate::proxy::writes::QUARANTINE;
use crate::times::Times;
use crate::workload::{Template, node_of, ready_status};

/// The pod that moves.
const POD: &str = "database-0";

/// What to measure.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Power cuts with the operator, for each column of the table.
    pub runs: usize,
    /// The kinds of node.
    pub kinds: Vec<Kind>,
    /// The times of the control plane and of the kubelets.
    pub times: Vec<Times>,
    /// Also with `earlyDetection: Enabled`, which the operator has to know.
    pub early: bool,
    /// How long the pod is given without the operator.
    pub patience: Duration,
    /// Also prints what each fence did between the policy's deadline and the taint.
    pub verbose: bool,
}

/// Measures, and prints one block of Markdown; progress goes to standard error.
pub async fn failover(plan: &Plan) -> Result<()> {
    ensure!(plan.runs > 0, "no runs, no figures");
    let awake = Awake::every_core()?;
    let before = Cores::now();
    let mut columns = Vec::new();
    for kind in &plan.kinds {
        available(*kind)
            .map_err(anyhow::Error::msg)
            .with_context(|| format!("no machines of kind {kind:?} here"))?;
        for times in &plan.times {
            let measured = measure(plan, *kind, *times).await;
            columns.extend(measured.with_context(|| format!("{kind:?} nodes, {times:?} times"))?);
        }
    }
    awake.check()?;
    print!("{}", report::render(&columns, plan.runs, &before)?);
    Ok(())
}

/// One lab, the cut without the operator, and all cuts with it.
async fn measure(plan: &Plan, kind: Kind, times: Times) -> Result<Vec<Column>> {
    let setup = Setup::new("bench-failover", 2).on(kind).at(times);
    let lab = Lab::start(setup.alone()).await?;
    let template = Template::default();
    let volume = lab.workloads.stateful_set("database", &template).await?;
    lab.workloads.wait_running(POD, LIMIT).await?;
    let alone = without_operator(&lab, plan.patience).await?;
    eprintln!(
        "{kind:?} nodes, {} times, without the operator: {alone}",
        times.name()
    );

    let operator = lab.operator().await?;
    lab.wait_protected().await?;
    let idle_bytes = operator.usage()?.resident_bytes;
    let mut columns = Vec::new();
    for policy in Policy::under(times, plan.early) {
        policy.apply(&lab).await?;
        let series = Series {
            lab: &lab,
            operator: &operator,
            volume: &volume,
            policy,
        };
        columns.push(Column {
            kind,
            times,
            policy,
            alone: alone.clone(),
            idle_bytes,
            cuts: series.cuts(plan).await?,
        });
    }
    operator.check()?;
    lab.verdict().await?;
    Ok(columns)
}

/// Power cuts one after the other, all under one policy.
struct Series<'a> {
    lab: &'a Lab,
    operator: &'a Operator,
    /// The CSI handle of the pod's volume.
    volume: &'a str,
    policy: Policy,
}

impl Series<'_> {
    async fn cuts(&self, plan: &Plan) -> Result<Vec<Cut>> {
        let times = self.lab.control_plane.options().times;
        let title = format!("{} times, {}", times.name(), self.policy.name());
        let mut cuts = Vec::new();
        for number in 1..=plan.runs {
            tokio::time::sleep(times.phase(number)).await;
            let cut = Cut::measure(self)
                .await
                .with_context(|| format!("{title}, run {number}"))?;
            eprintln!(
                "{title}, run {number} of {}: {:.2} s to the taint, {:.2} s to Running elsewhere, {:.0} ms of them the operator's own",
                plan.runs,
                cut.taint_seconds(),
                cut.total_seconds(),
                cut.overhead_ms()
            );
            if plan.verbose {
                eprintln!("{}", cut.trace);
            }
            cuts.push(cut);
        }
        Ok(cuts)
    }
}

/// The same power cut with no operator: what Kubernetes does alone, in words.
async fn without_operator(lab: &Lab, patience: Duration) -> Result<String> {
    let pod = lab.workloads.wait_running(POD, LIMIT).await?;
    let node = node_of(&pod).to_owned();
    let cut = Timestamp::now();
    lab.rig_of(&node)?.machine.go_dark();
    let moved = lab
        .workloads
        .wait_running_elsewhere(POD, &node, patience * 2);
    let words = match tokio::time::timeout(patience, moved).await {
        Ok(moved) => {
            moved?;
            format!("{:.2} s", cut::ms(cut, Timestamp::now()) / 1000.0)
        }
        Err(_) => {
            let pod = lab.workloads.api::<Pod>().get(POD).await?;
            let how = match pod.metadata.deletion_timestamp {
                Some(_) => "Terminating",
                None => "bound",
            };
            let seconds = patience.as_secs();
            format!("not within {seconds} s: still {how} on the dead node")
        }
    };
    power_on(lab, &node).await?;
    lab.workloads.wait_running(POD, LIMIT).await?;
    Ok(words)
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
