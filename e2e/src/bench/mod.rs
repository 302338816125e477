//! `make bench-failover`: how long a pod is away after its node lost power, stage by stage, and what the operator costs.
//!
//! One lab with two machines for each kind of node. The pod of a StatefulSet moves back and forth: each cut takes the power
//! of the machine that it is on, waits until it runs on the other, turns the dark machine on again and waits until it takes
//! pods again. The first cut is made before the operator starts, so that the table says what Kubernetes does alone.
//!
//! What is measured and how is [`cut`], under what condition [`fencing_testbed::bench::awake`]; [`trace`] is for whoever wants to make the operator faster;
//! [`report`] prints a block of Markdown, made to be pasted into docs/figures.md as it is.

mod cut;
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
use self::report::Section;
use crate::lab::{Kind, LIMIT, Lab, Setup, available, has_taint};
use crate::proxy::writes::QUARANTINE;
use crate::workload::{Template, node_of, ready_status};

/// The pod that moves.
const POD: &str = "database-0";
/// How long the pod is given without the operator.
const PATIENCE: Duration = Duration::from_secs(60);

/// What to measure.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Power cuts with the operator, for each kind of node.
    pub runs: usize,
    /// The kinds of node.
    pub kinds: Vec<Kind>,
    /// Also prints what each fence did between the policy's deadline and the taint.
    pub verbose: bool,
}

/// Measures, and prints one block of Markdown; progress goes to standard error.
pub async fn failover(plan: &Plan) -> Result<()> {
    ensure!(plan.runs > 0, "no runs, no figures");
    let awake = Awake::every_core()?;
    let before = Cores::now();
    let mut sections = Vec::new();
    for kind in &plan.kinds {
        available(*kind)
            .map_err(anyhow::Error::msg)
            .with_context(|| format!("no machines of kind {kind:?} here"))?;
        let section = measure(plan, *kind).await;
        sections.push(section.with_context(|| format!("{kind:?} nodes"))?);
    }
    awake.check()?;
    print!("{}", report::render(&sections, plan.runs, &before)?);
    Ok(())
}

/// One lab, the cut without the operator, and all cuts with it.
async fn measure(plan: &Plan, kind: Kind) -> Result<Section> {
    let lab = Lab::start(Setup::new("bench-failover", 2).on(kind).alone()).await?;
    let template = Template::default();
    lab.workloads.stateful_set("database", &template).await?;
    lab.workloads.wait_running(POD, LIMIT).await?;
    let alone = without_operator(&lab).await?;
    eprintln!("{kind:?} nodes, without the operator: {alone}");

    let operator = lab.operator().await?;
    lab.wait_protected().await?;
    let idle_bytes = operator.usage()?.resident_bytes;
    lab.policy("ConfirmOnly", cut::policy()).await?;
    let mut cuts = Vec::new();
    for number in 1..=plan.runs {
        let cut = Cut::measure(&lab, &operator)
            .await
            .with_context(|| format!("run {number}"))?;
        eprintln!(
            "{kind:?} nodes, run {number} of {}: {:.2} s to Running elsewhere, {:.0} ms of them the operator's own",
            plan.runs,
            cut.total_seconds(),
            cut.overhead_ms()
        );
        if plan.verbose {
            eprintln!("{}", cut.trace);
        }
        cuts.push(cut);
    }
    operator.check()?;
    lab.verdict().await?;
    Ok(Section {
        kind,
        alone,
        idle_bytes,
        cuts,
    })
}

/// The same power cut with no operator: what Kubernetes does alone, in words.
async fn without_operator(lab: &Lab) -> Result<String> {
    let pod = lab.workloads.wait_running(POD, LIMIT).await?;
    let node = node_of(&pod).to_owned();
    let cut = Timestamp::now();
    lab.rig_of(&node)?.machine.set_power(false);
    let moved = lab.workloads.wait_running_elsewhere(POD, &node, LIMIT);
    let words = match tokio::time::timeout(PATIENCE, moved).await {
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
            let seconds = PATIENCE.as_secs();
            format!("not within {seconds} s: still {how} on the dark node")
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
