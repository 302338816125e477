//! `kubectl fence status`: one screen that says who works, what is protected, and what every open incident waits for.

mod follow;
mod sight;

use super::cluster::Cluster;
use super::fences::Warning;
use super::output::{self, Content, Form, forms, print};
use super::table::{bar, or_none, table, wrapped};
use super::{Done, Error, fences};
use crate::api::conditions::{READY, find};
use crate::api::fence::NodeFence;
use crate::api::policy::NodeFencingPolicy;
use crate::shell::lease;
use crate::words::listed;
use crate::{api::policy::FenceMode, clock};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt;
use schemars::JsonSchema;
use serde::Serialize;
use sight::look;
use std::process::ExitCode;

/// Names in one line.
const NAMED_MAX: usize = 5;
/// Exit code where an incident is open.
const OPEN: u8 = 3;

const EXAMPLES: &str = "\
Examples:
  Everything on one screen:
      kubectl fence status

  One node, until its incident has ended:
      kubectl fence status worker-3 --watch

  For a script (the fields only ever become more):
      kubectl fence status -o json

Exit codes: 0 no incident is open, 3 one is, 1 failed, 2 the command line cannot be used.";

/// Show who works, what is protected, and what open incidents wait for
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A node, a policy or a NodeFence [default: all]
    name: Option<String>,

    /// Follow it live until no incident is open
    #[arg(short, long)]
    watch: bool,

    /// In which form
    #[arg(short, long, value_name = "FORM", default_value = "table",
        value_parser = forms(&[Form::Table, Form::Wide, Form::Json, Form::Yaml, Form::Name]))]
    output: Form,
}

/// What the command shows.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Who works.
    pub operator: Operator,
    /// The policies.
    pub policies: Vec<Policy>,
    /// The open incidents, the oldest first.
    pub incidents: Vec<Incident>,
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
    /// Why not, or what else the operator says of it.
    pub message: Option<String>,
    /// Nodes that it governs.
    pub selected: u32,
    /// Of these, those that can be fenced.
    pub protected: u32,
    /// Those that cannot, as many as the operator names.
    pub unprotected_nodes: Vec<String>,
    /// Open incidents.
    pub open: u32,
    /// Of these, those that are held.
    pub held: u32,
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
}

/// Runs the command.
///
/// # Errors
/// [`Error`].
pub async fn run(cluster: &Cluster, args: Args) -> Done {
    let sight = look(cluster, args.name.as_deref()).await?;
    let status = sight.status(args.name.as_deref());
    if args.watch && !status.incidents.is_empty() {
        return follow::follow(cluster, &args, sight).await;
    }
    print(&written(&status, &args)?)?;
    Ok(exit_code(&status))
}

fn exit_code(status: &Status) -> ExitCode {
    ExitCode::from(if status.incidents.is_empty() { 0 } else { OPEN })
}

/// What is printed.
fn written(status: &Status, args: &Args) -> Result<String, Error> {
    output::written(args.output, status, |_| {
        screen(status, args.name.as_deref(), clock::wall())
    })
}

/// What of it is about this node, policy or NodeFence.
fn of(status: Status, name: &str, governs: Option<&str>) -> Status {
    let incidents: Vec<Incident> = status
        .incidents
        .into_iter()
        .filter(|it| it.node == name || it.fence == name || it.policy.as_deref() == Some(name))
        .collect();
    let is_of = |policy: &Policy| {
        let of_incident = incidents
            .iter()
            .any(|it| it.policy.as_ref() == Some(&policy.name));
        policy.name == name || Some(policy.name.as_str()) == governs || of_incident
    };
    let policies = status.policies.into_iter().filter(is_of).collect();
    Status {
        policies,
        incidents,
        ..status
    }
}

fn operator(lease: Result<Option<Lease>, String>, namespace: &str) -> Operator {
    let known = |lease: Option<Lease>| {
        let spec = lease.and_then(|it| it.spec);
        let leader = spec.as_ref().and_then(|it| it.holder_identity.clone());
        let leader = leader.filter(|it| !it.is_empty());
        Operator {
            unknown: leader.is_none().then(|| {
                format!(
                    "no replica has the Lease {namespace}/{}: nothing is fenced; see kubectl -n {namespace} get pods, and name another namespace with --operator-namespace",
                    lease::NAME
                )
            }),
            renew_time: spec.and_then(|it| it.renew_time).map(|it| it.0),
            leader,
        }
    };
    lease.map_or_else(
        |words| Operator {
            leader: None,
            renew_time: None,
            unknown: Some(words),
        },
        known,
    )
}

fn policy(policy: &NodeFencingPolicy) -> Policy {
    let status = policy.status.clone().unwrap_or_default();
    let ready = find(&status.conditions, READY);
    let is_ready = ready.is_some_and(|it| it.status == "True");
    let nodes = status.nodes.as_ref();
    let effective = status.effective.as_ref();
    Policy {
        name: policy.name_any(),
        mode: effective.map_or(policy.spec.fence.mode, |it| it.mode),
        ready: is_ready,
        message: ready.map(|it| it.message.clone()),
        selected: nodes.map_or(0, |it| it.selected),
        protected: nodes.map_or(0, |it| it.protected),
        unprotected_nodes: status.unprotected_nodes,
        open: status.open_incidents.unwrap_or_default(),
        held: status.held_incidents.unwrap_or_default(),
        budget_remaining: status.budget_remaining,
    }
}

fn incident(fence: &NodeFence) -> Incident {
    let status = fence.status.as_ref();
    Incident {
        node: fence.spec.node_name.clone(),
        fence: fence.name_any(),
        policy: fence.spec.policy_name.clone(),
        stage: fences::stage(fence).to_owned(),
        stage_start_time: status.and_then(|it| it.stage_start_time),
        stage_deadline_time: status
            .filter(|_| !fence.is_ended())
            .and_then(|it| it.stage_deadline_time),
        message: fences::message(fence).to_owned(),
        escalated: fences::escalated(fence).map(|(reason, words)| format!("{reason}: {words}")),
        warnings: fences::warnings(fence),
    }
}

impl Content for Status {
    const KIND: &'static str = "Status";

    fn names(&self) -> Vec<String> {
        let fences = self.incidents.iter();
        fences.map(|it| fences::full_name(&it.fence)).collect()
    }
}

/// The screen.
fn screen(status: &Status, about: Option<&str>, now: Timestamp) -> String {
    let mut text = match (&status.operator.leader, &status.operator.renew_time) {
        (Some(leader), Some(renewed)) => wrapped(
            &format!(
                "Operator: {leader} leads, its Lease was renewed {} ago",
                super::table::age(*renewed, now)
            ),
            0,
        ),
        (Some(leader), None) => format!("Operator: {leader} leads\n"),
        (None, _) => wrapped(
            &format!("Operator: {}", or_none(status.operator.unknown.as_ref())),
            0,
        ),
    };
    text += "\n";
    match about {
        _ if !status.policies.is_empty() => {}
        Some(name) => {
            text += &wrapped(
                &format!(
                    "No policy governs {name}: see `kubectl fence status` for all policies, and their `spec.nodeSelector`"
                ),
                0,
            )
        }
        None => {
            text += "No policy: no node is protected (see `kubectl explain nodefencingpolicy`)\n"
        }
    }
    let rows: Vec<_> = status.policies.iter().map(policy_row).collect();
    text += &table(
        [
            "POLICY",
            "MODE",
            "NODES",
            "PROTECTED",
            "OPEN",
            "HELD",
            "BUDGET",
        ],
        &rows,
    );
    for policy in status.policies.iter().filter(|it| !it.ready) {
        let words = or_none(policy.message.as_ref());
        text += &wrapped(&format!("{}: {words}", policy.name), 2);
    }
    for policy in &status.policies {
        text += &bare(policy);
    }
    text += "\n";
    if status.incidents.is_empty() {
        text += "No incident is open\n";
    }
    for incident in &status.incidents {
        text += &told(incident, now);
    }
    text
}

/// Who is not among the protected.
fn bare(policy: &Policy) -> String {
    let nodes = &policy.unprotected_nodes;
    match nodes.is_empty() {
        true => String::new(),
        false => wrapped(
            &format!(
                "{}: not protected: {}; `kubectl fence plan NODE` says why",
                policy.name,
                listed(nodes, "", NAMED_MAX)
            ),
            2,
        ),
    }
}

fn policy_row(policy: &Policy) -> [String; 7] {
    [
        policy.name.clone(),
        format!("{:?}", policy.mode),
        policy.selected.to_string(),
        policy.protected.to_string(),
        policy.open.to_string(),
        policy.held.to_string(),
        or_none(policy.budget_remaining),
    ]
}

/// An incident, with its way and what it waits for.
fn told(incident: &Incident, now: Timestamp) -> String {
    let since = incident.stage_start_time;
    let lasts = since.map(|it| format!(" for {}", super::table::age(it, now)));
    let left = incident.stage_deadline_time.map(|at| match at >= now {
        true => format!(
            ", escalates in {}",
            super::table::duration(at.duration_since(now))
        ),
        false => format!(
            ", late for {}",
            super::table::duration(now.duration_since(at))
        ),
    });
    let mut text = wrapped(
        &format!(
            "Node {} (nodefence/{}): {}{}{}",
            incident.node,
            incident.fence,
            incident.stage,
            lasts.unwrap_or_default(),
            left.unwrap_or_default()
        ),
        0,
    );
    text += &wrapped(&bar(&incident.stage), 2);
    text += &wrapped(&incident.message, 2);
    text + &fences::warned(&incident.warnings)
}

#[cfg(test)]
mod tests;
