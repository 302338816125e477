//! `kubectl fence plan`: what if this node died now? Would it be fenced, how long would it take, and which of its pods would run again?
//!
//! Nothing is changed and no device is asked: it is a prediction from what the API server shows. The verdict ([`verdict`]) comes from the
//! operator's own functions, the timeline ([`timeline`]) from settings and from what was measured ([`basis`]), and what becomes of the pods
//! ([`pods`], [`volumes`], [`place`]) from Kubernetes' rules. All of these are pure; [`facts`] alone reads.

mod basis;
mod facts;
pub mod headroom;
mod place;
mod pods;
mod present;
mod quantity;
mod timeline;
mod told;
mod verdict;
mod volumes;

use super::Done;
use super::cluster::Cluster;
use super::output::{Content, Form, forms, print, written};
use super::time::time;
use super::unfenced::World;
use facts::Facts;
use fencing_api::policy::FenceMode;
use fencing_cluster::slim::pod_view;
use fencing_core::early::{is_control_plane, wants_reports};
use fencing_core::observed::PodView;
use fencing_core::support::deletes_nodes;
use jiff::SignedDuration;
use pods::{Outcome, PodPlan};
use present::{Present, present};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeSet;
use std::process::ExitCode;
use timeline::{Basis, Course, Known, Timeline};
use verdict::{Fleet, Judged, Verdict};
use volumes::Fate;

/// Exit code where something does not recover by itself.
const NOT_ALL: u8 = 2;
/// How long another replica waits before it leads where nothing says so, and how often it looks (`leaderElection` of the chart).
const TAKEOVER: (f64, f64) = (15.0, 2.0);

const EXAMPLES: &str = "\
Examples:
  What if worker-3 lost power now?
      kubectl fence plan worker-3

  With another grace period of the control plane than the default:
      kubectl fence plan worker-3 --grace 20s

  Which of its pods would not run again, in a script:
      kubectl fence plan worker-3 -o json |
        jq -r '.pods[] | select(.outcome == \"Waits\") | .name'

Pods that belong to the node (of a DaemonSet, static ones) and those that have \
ended are not missed: they do not count against it. -o name prints the pods \
that would not recover by themselves.

Of a node that is down already, or has an open incident, it says first what \
becomes of that; the prediction is then of its next power loss.

Exit codes: 0 everything recovers by itself, 2 not everything does (or it is \
not known), 1 failed or invalid command line.";

/// Predict what would happen if a node lost power now
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The node
    #[arg(value_parser = crate::name::node)]
    node: String,

    /// --node-monitor-grace-period of kube-controller-manager, such as 20s
    /// [default: its flag where its pod can be read, else Kubernetes' own]
    #[arg(long, value_name = "TIME", value_parser = time)]
    grace: Option<SignedDuration>,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table",
        value_parser = forms(&[Form::Table, Form::Json, Form::Yaml, Form::Name]))]
    output: Form,
}

/// What the command shows.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// The node.
    pub node: String,
    /// How it stands now, where it is NotReady or has an incident: all else is then of its next power loss, once it has been Ready again.
    pub present: Option<Present>,
    /// Does everything recover by itself, what is down now, too?
    pub recovers: bool,
    /// Predicted seconds from the power loss until the last of those pods that recover runs; none: it is held, or there is no such pod.
    pub recovered_seconds: Option<f64>,
    /// Would it be fenced?
    pub verdict: Verdict,
    /// When what would happen.
    pub timeline: Timeline,
    /// Its pods, as if the fence went through; those that are not well first.
    pub pods: Vec<PodPlan>,
    /// What could not be read, and why.
    pub unknown: Vec<String>,
}

impl Content for Plan {
    const KIND: &'static str = "Plan";

    /// Those of its pods that would not recover by themselves.
    fn names(&self) -> Vec<String> {
        let missing = self.pods.iter().filter(|it| !it.outcome.is_well());
        missing.map(|it| format!("pod/{}", it.name)).collect()
    }
}

/// Runs the command.
///
/// # Errors
/// [`super::Error`].
pub async fn run(cluster: &Cluster, args: Args) -> Done {
    let facts = facts::read(cluster, &args.node).await?;
    let grace = args.grace.map(|it| it.as_secs_f64());
    let plan = plan(&facts, grace, cluster.now().await);
    print(&written(args.output, &plan, |_| told::told(&plan))?)?;
    Ok(match plan.recovers {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(NOT_ALL),
    })
}

/// The plan from what was read.
fn plan(facts: &Facts, grace: Option<f64>, now: jiff::Timestamp) -> Plan {
    let grace = basis::grace(grace, facts.managers.as_deref(), facts.version.as_deref());
    let views: Vec<PodView> = facts.pods.iter().map(pod_view).collect();
    let judged = verdict::judge(&Fleet {
        policies: &facts.policies,
        nodes: &facts.nodes,
        node: &facts.node,
        created: facts.created.unwrap_or(now),
        pods: &views,
        devices: &facts.devices,
        fences: &facts.fences,
        replicas: facts.replicas,
        cap: facts.cap,
        grace: grace.seconds,
        now,
    });
    let mut pods = pods::judge(&facts.pods, scene(facts, &judged));
    let (timeline, marks) = timeline::predict(&course(facts, grace, &judged, &pods));
    if let Some(marks) = marks {
        pods::date(&mut pods, marks);
    }
    let world = World {
        policies: &facts.policies,
        fences: &facts.fences,
        now,
    };
    let present = present(&facts.node, facts.created, &world);
    let is_well = present.as_ref().is_none_or(Present::goes_on)
        && judged.verdict.obstacles.is_empty()
        && pods.iter().all(|it| it.outcome.is_well());
    let after = pods.iter().filter_map(|it| it.after_seconds);
    Plan {
        node: facts.node.name.clone(),
        recovered_seconds: after.reduce(f64::max),
        present,
        recovers: is_well,
        verdict: judged.verdict,
        timeline,
        pods,
        unknown: facts.unknown.clone(),
    }
}

fn scene<'a>(facts: &'a Facts, judged: &Judged<'_>) -> pods::Scene<'a> {
    pods::Scene {
        dead: &facts.node.name,
        nodes: &facts.nodes,
        machines: facts.machines.clone(),
        storage: &facts.storage,
        budgets: &facts.budgets,
        rolling: &facts.rolling,
        deletes_node: judged
            .policy
            .is_some_and(|it| deletes_nodes(&it.spec.procedure.recovery)),
        reports_early: reports_early(facts, judged),
    }
}

/// Would the operator report the node before Kubernetes notices? Its leader's own node it would not, nor one of the control plane.
fn reports_early(facts: &Facts, judged: &Judged<'_>) -> bool {
    let is_leader = facts.replicas.is_some_and(|it| it.leader_is_here);
    judged.policy.is_some_and(wants_reports)
        && judged.verdict.mode != Some(FenceMode::Observe)
        && !is_leader
        && !is_control_plane(&facts.node)
}

/// What the timeline is predicted from.
fn course<'a>(facts: &Facts, grace: Known, judged: &'a Judged<'a>, pods: &[PodPlan]) -> Course<'a> {
    let verdict = &judged.verdict;
    let name = verdict.policy.as_deref().unwrap_or_default();
    let leaves = |it: &&PodPlan| {
        !matches!(
            it.outcome,
            Outcome::OfTheNode | Outcome::Stays | Outcome::Finished
        )
    };
    let leaving: Vec<&PodPlan> = pods.iter().filter(leaves).collect();
    let drivers = leaving
        .iter()
        .flat_map(|it| &it.volumes)
        .filter(|it| it.fate == Fate::Moves);
    let drivers: BTreeSet<String> = drivers.map(|it| it.source.clone()).collect();
    let working = verdict.levels.iter().find(|it| it.ready);
    let devices = working
        .iter()
        .flat_map(|it| &it.devices)
        .map(|it| it.name.clone());
    let starts = leaving
        .iter()
        .filter(|it| it.outcome == Outcome::Recovers)
        .filter_map(|it| it.last_start_seconds);
    let is_leader = facts.replicas.is_some_and(|it| it.leader_is_here);
    let obstacles: Vec<&str> = verdict
        .obstacles
        .iter()
        .map(|it| it.reason.as_str())
        .collect();
    Course {
        grace,
        policy: judged.policy.map(|it| (name, &it.spec)),
        mode: verdict.mode.unwrap_or(FenceMode::Observe),
        wait: judged.wait.clone(),
        reads_off: judged.reads_off,
        reports_early: judged.reads_off && reports_early(facts, judged),
        delay: judged.delay.clone(),
        takeover: is_leader.then(|| facts.lease_seconds.unwrap_or(TAKEOVER.0) + TAKEOVER.1),
        passed_over: judged.passed_over,
        hold: (!obstacles.is_empty()).then(|| {
            format!(
                "until none of these obstacles is left: {}",
                obstacles.join(", ")
            )
        }),
        pods: leaving.len(),
        moves: !drivers.is_empty(),
        off: basis::off(&facts.fences, &devices.collect()),
        detach: basis::detach(&facts.fences, &drivers),
        start: starts.reduce(f64::max).map(|seconds| Known {
            seconds,
            basis: Basis::Records,
            because:
                "what the slowest of its pods took when it last started, from its scheduling on"
                    .to_owned(),
        }),
    }
}
