//! `kubectl fence status`: one screen with the leader, the policies, and what each open incident waits for.

mod follow;
mod screen;
mod sight;

use super::cluster::Cluster;
use super::control::Lack;
use super::fences::Warning;
use super::leader::Leader;
use super::name::{Kind, Name};
use super::output::{self, Content, Form, forms, print};
use super::timeline::{Moment, words_of_people};
use super::unfenced::Unfenced;
use super::{Done, Error, fences};
use fencing_api::conditions::{READY, find};
use fencing_api::fence::NodeFence;
use fencing_api::fence_status::PowerReading;
use fencing_api::names;
use fencing_api::policy::{FenceMode, NodeFencingPolicy};
use fencing_core::stage::Stage;
use fencing_core::{exclusions, window};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt;
use schemars::JsonSchema;
use screen::screen;
use serde::Serialize;
use sight::look;
use std::process::ExitCode;

/// Exit code where an incident is open.
const OPEN: u8 = 3;

const EXAMPLES: &str = "\
Examples:
  Everything on one screen:
      kubectl fence status

  One node, from when it is NotReady until its incident has ended:
      kubectl fence status worker-3 --watch

  With the readings of devices, and more of the policies:
      kubectl fence status --output wide

  For a script (fields are only added):
      kubectl fence status -o json

A NotReady node without an incident is shown with when its policy fences it, or \
why it does not.

Exit codes: 0 no open incident, 3 an open incident, 1 failed or invalid command \
line.";

/// Show the operator, the policies, and what open incidents wait for
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A node, a policy or a NodeFence [default: all]
    #[arg(value_parser = super::name::any)]
    name: Option<Name>,

    /// Watch until no incident is open, and none is due for a NotReady node
    #[arg(short, long)]
    watch: bool,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table",
        value_parser = forms(&[Form::Table, Form::Wide, Form::Json, Form::Yaml, Form::Name]))]
    output: Form,
}

/// What the command shows.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The Nodes on which nothing goes on by itself after a fence, and on which data may be at stake.
    pub stranded: Vec<StrandedNode>,
    /// Who works.
    pub operator: Operator,
    /// The policies.
    pub policies: Vec<Policy>,
    /// The open incidents, the oldest first.
    pub incidents: Vec<Incident>,
    /// The Nodes that are NotReady and have no open incident, the one that is NotReady longest first.
    pub unfenced: Vec<Unfenced>,
    /// Why not all of these are known.
    pub unfenced_unknown: Option<String>,
    /// The Node that was asked about by its name, if it is Ready and has no open incident.
    pub ready: Option<ReadyNode>,
    /// The devices whose Off proves nothing of a node that a policy governs (S25); null: not known, as with --watch.
    pub without_positive_control: Option<Vec<Lack>>,
}

/// A Node on which nothing goes on by itself.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StrandedNode {
    /// Its name.
    pub node: String,
    /// `SameBoot`: it is Ready in the boot that was confirmed off. `ClaimOrphaned`, `ClaimRestored`, `ClaimMissing`: it carries taints that no
    /// NodeFence handles.
    pub reason: String,
    /// What that means, and what comes first.
    pub message: String,
}

/// A Node that nothing is to be done about.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReadyNode {
    /// Its name.
    pub node: String,
    /// The policy that governs it.
    pub policy: Option<String>,
    /// Why none of those that select it governs it.
    pub conflict: Option<String>,
    /// Is it among those that cannot be fenced? None: the operator names no more than a part of them, or has not looked.
    pub is_unprotected: Option<bool>,
}

/// Who works.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Operator {
    /// The replica that has the Lease.
    pub leader: Option<String>,
    /// When it has last renewed it.
    #[schemars(with = "Option<String>")]
    pub renew_time: Option<Timestamp>,
    /// From when on it is taken for gone, unless it renews it.
    #[schemars(with = "Option<String>")]
    pub silent_from: Option<Timestamp>,
    /// Why that is not known.
    pub unknown: Option<String>,
}

/// A policy, in numbers.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Policy {
    /// Its name.
    pub name: String,
    /// How far it may go now.
    pub mode: FenceMode,
    /// Would it act as it says?
    pub ready: bool,
    /// Why not, in a word.
    pub reason: Option<String>,
    /// Why not, or what else the operator says of it.
    pub message: Option<String>,
    /// Who has paused it, why and until when, if it is paused now.
    pub paused: Option<String>,
    /// Whose these pauses are, as `kubectl fence resume --name` takes it.
    pub paused_by: Vec<String>,
    /// Nodes that it governs, as the operator has counted; none, here and of those that can be fenced and the budget: it has not yet.
    pub selected: Option<u32>,
    /// Of these, those that can be fenced.
    pub protected: Option<u32>,
    /// Those that cannot, as many as the operator names.
    pub unprotected_nodes: Vec<String>,
    /// Open incidents, counted here: the operator's own number comes later than they do.
    pub open: Option<u32>,
    /// Of these, those that are held.
    pub held: Option<u32>,
    /// Fences that its budget has room for.
    pub budget_remaining: Option<u32>,
}

/// An open incident.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Incident {
    /// Its node.
    pub node: String,
    /// Its NodeFence.
    pub fence: String,
    /// Its policy.
    pub policy: Option<String>,
    /// How far it may go.
    pub mode: FenceMode,
    /// Its stage.
    pub stage: String,
    /// Since when.
    #[schemars(with = "Option<String>")]
    pub stage_start_time: Option<Timestamp>,
    /// When it escalates.
    #[schemars(with = "Option<String>")]
    pub stage_deadline_time: Option<Timestamp>,
    /// What it waits for.
    pub message: String,
    /// Why a human is called.
    pub escalated: Option<String>,
    /// What a person has to know before they go by it, with that.
    pub warnings: Vec<Warning>,
    /// What people have said of it: their answer, their word, that they let go of it.
    pub said: Vec<Moment>,
    /// What its devices have said last of the machine's power.
    pub power_readings: Vec<PowerReading>,
    /// Who has denied another fence of the node, in this boot or in one that it does not name, and may be at the machine.
    pub denied: Option<String>,
    /// What an approval does, by its mode, if it waits for one.
    pub approval: Option<String>,
    /// What holds it that an approval lifts.
    pub brake: Option<String>,
    /// What may be typed about it now.
    pub commands: Vec<String>,
}

/// Runs the command.
///
/// # Errors
/// [`Error`].
pub async fn run(cluster: &Cluster, args: Args) -> Done {
    let sight = look(cluster, args.name.as_ref()).await?;
    let now = sight.now();
    let status = sight.status(args.name.as_ref(), now);
    if args.watch && is_going_on(&status) {
        return follow::follow(cluster, &args, sight).await;
    }
    print(&written(&status, &args, now)?)?;
    Ok(exit_code(&status))
}

/// Is an incident open, or still to come?
fn is_going_on(status: &Status) -> bool {
    !status.incidents.is_empty() || status.unfenced.iter().any(Unfenced::waits)
}

fn exit_code(status: &Status) -> ExitCode {
    ExitCode::from(if status.incidents.is_empty() { 0 } else { OPEN })
}

/// What is printed.
fn written(status: &Status, args: &Args, now: Timestamp) -> Result<String, Error> {
    output::written(args.output, status, |form| {
        screen(status, args.name.as_ref(), form == Form::Wide, now)
    })
}

/// What of it is about this node, policy or NodeFence; `governs`: the policies of its node.
fn of(status: Status, name: &Name, governs: &[String]) -> Status {
    let is_policy = |it: Option<&String>| it.is_some_and(|it| name.is(Kind::Policy, it));
    let incidents = status.incidents.into_iter().filter(|it| {
        let is_own = name.is(Kind::Node, &it.node) || name.is(Kind::NodeFence, &it.fence);
        is_own || is_policy(it.policy.as_ref())
    });
    let incidents: Vec<Incident> = incidents.collect();
    let is_of = |policy: &Policy| {
        let of_incident = incidents
            .iter()
            .any(|it| it.policy.as_ref() == Some(&policy.name));
        name.is(Kind::Policy, &policy.name) || governs.contains(&policy.name) || of_incident
    };
    let policies = status.policies.into_iter().filter(is_of).collect();
    let stranded = status.stranded.into_iter();
    let stranded = stranded.filter(|it| name.is(Kind::Node, &it.node));
    let unfenced = status.unfenced.into_iter();
    let unfenced =
        unfenced.filter(|it| name.is(Kind::Node, &it.node) || is_policy(it.policy.as_ref()));
    let lacks = status.without_positive_control.map(|all| {
        let of_it = |it: &Lack| name.is(Kind::Node, &it.node) || is_policy(Some(&it.policy));
        all.into_iter().filter(of_it).collect()
    });
    Status {
        stranded: stranded.collect(),
        without_positive_control: lacks,
        policies,
        unfenced: unfenced.collect(),
        incidents,
        ..status
    }
}

fn operator(lease: Result<Option<Lease>, String>, namespace: &str) -> Operator {
    let known = |lease: Option<Lease>| {
        let found = Leader::of(lease.as_ref());
        Operator {
            unknown: found.is_none().then(|| {
                format!(
                    "no replica has the Lease {namespace}/{}, nothing is fenced; see kubectl -n {namespace} get pods, or set --operator-namespace",
                    names::LEASE
                )
            }),
            renew_time: found.as_ref().map(|it| it.renewed),
            silent_from: found.as_ref().and_then(|it| it.silent_from),
            leader: found.map(|it| it.name),
        }
    };
    lease.map_or_else(Operator::unknown, known)
}

impl Operator {
    /// Why nobody can say who leads.
    fn unknown(words: String) -> Self {
        Self {
            leader: None,
            renew_time: None,
            silent_from: None,
            unknown: Some(words),
        }
    }
}

fn policy(policy: &NodeFencingPolicy, fences: &[NodeFence], now: Timestamp) -> Policy {
    let name = policy.name_any();
    let is_of = |it: &&NodeFence| it.spec.policy_name.as_ref() == Some(&name);
    let open = || fences.iter().filter(|it| !it.is_ended()).filter(is_of);
    let counted = |many: usize| u32::try_from(many).ok();
    let status = policy.status.clone().unwrap_or_default();
    let ready = find(&status.conditions, READY);
    let is_ready = ready.is_some_and(|it| it.status == "True");
    let nodes = status.nodes.as_ref();
    let standing = exclusions::active_requests(policy, now);
    Policy {
        name: name.clone(),
        mode: window::mode(policy, now),
        ready: is_ready,
        reason: ready.map(|it| it.reason.clone()),
        message: ready.map(|it| it.message.clone()),
        paused: (!standing.is_empty()).then(|| exclusions::named(&standing)),
        paused_by: standing.iter().map(|it| it.name.clone()).collect(),
        selected: nodes.map(|it| it.selected),
        protected: nodes.map(|it| it.protected),
        unprotected_nodes: status.unprotected_nodes,
        open: counted(open().count()),
        held: counted(open().filter(|it| is_held(it)).count()),
        budget_remaining: status.budget_remaining,
    }
}

/// As the operator counts them: it also waits for an answer before it is held.
fn is_held(fence: &NodeFence) -> bool {
    let waits = [Stage::Held, Stage::AwaitingApproval].map(|it| it.to_string());
    fences::held(fence).is_some() || waits.iter().any(|it| it == fences::stage(fence))
}

/// `denied`: who has denied another fence of its node.
fn incident(fence: &NodeFence, denied: Option<String>) -> Incident {
    let status = fence.status.as_ref();
    Incident {
        node: fence.spec.node_name.clone(),
        fence: fence.name_any(),
        policy: fence.spec.policy_name.clone(),
        mode: fence.spec.procedure.fence.mode,
        stage: fences::stage(fence).to_owned(),
        stage_start_time: status.and_then(|it| it.stage_start_time),
        stage_deadline_time: status
            .filter(|_| !fence.is_ended())
            .and_then(|it| it.stage_deadline_time),
        message: fences::message(fence).to_owned(),
        escalated: fences::escalated(fence).map(|(reason, words)| format!("{reason}: {words}")),
        warnings: fences::warnings(fence),
        said: words_of_people(fence),
        power_readings: status.map_or_else(Vec::new, |it| it.power_readings.clone()),
        approval: fences::is_awaited(fence)
            .then(|| fences::what_a_yes_does(fence.spec.procedure.fence.mode).to_owned()),
        brake: fences::brake(fence).map(str::to_owned),
        commands: fences::commands(fence, denied.is_some()),
        denied,
    }
}

impl Incident {
    /// What a person has to know of the commands before they type one.
    fn before_commands(&self) -> Vec<String> {
        // It is there for the case that many machines only seem to be dead.
        let only = self.brake.as_ref().map(|brake| {
            format!(
                "Only if this machine is known to be down: an approval lifts the hold ({brake})"
            )
        });
        let denied = self
            .denied
            .iter()
            .map(|denied| format!("Another fence was denied, ask that person first: {denied}"));
        denied
            .chain(self.approval.iter().cloned())
            .chain(only)
            .collect()
    }
}

impl Content for Status {
    const KIND: &'static str = "Status";

    fn names(&self) -> Vec<String> {
        let fences = self.incidents.iter();
        fences.map(|it| fences::full_name(&it.fence)).collect()
    }
}

#[cfg(test)]
mod tests;
