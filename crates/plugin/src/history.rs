//! `kubectl fence history`: the incidents of a node, or of all, the newest first.

use super::cluster::{Cluster, seen};
use super::output::{Content, Form, complain, forms, print, written};
use super::page;
use super::table::{age, duration, or_none, table};
use super::time::time;
use super::{Done, Error, fences};
use fencing_api::fence::NodeFence;
use fencing_cluster::slim::SlimNode;
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use schemars::JsonSchema;
use serde::Serialize;
use std::process::ExitCode;

const FORMS: [Form; 6] = [
    Form::Table,
    Form::Wide,
    Form::Json,
    Form::Yaml,
    Form::Name,
    Form::Html,
];

const EXAMPLES: &str = "\
Examples:
      kubectl fence history
      kubectl fence history worker-3 --since 30d -o wide

  One page for the post-mortem, which needs nothing beside itself:
      kubectl fence history worker-3 --since 1d -o html > worker-3.html

Policies keep 20 ended incidents, for 30 days, unless their `history` says \
otherwise.";

/// List incidents, the newest first
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The node [default: all]
    #[arg(value_parser = super::name::node)]
    node: Option<String>,

    /// Only those that began within this time, such as 12h or 30d
    #[arg(long, value_name = "TIME", value_parser = time)]
    since: Option<SignedDuration>,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table", value_parser = forms(&FORMS))]
    output: Form,
}

/// What the command shows.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct History {
    /// The incidents, the newest first.
    pub incidents: Vec<Incident>,
}

impl Content for History {
    const KIND: &'static str = "History";

    fn names(&self) -> Vec<String> {
        let fences = self.incidents.iter();
        fences.map(|it| fences::full_name(&it.fence)).collect()
    }
}

/// An incident.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Incident {
    /// The node.
    pub node: String,
    /// The NodeFence.
    pub fence: String,
    /// The policy; none: a human asked for it.
    pub policy: Option<String>,
    /// The stage, of an ended one how it ended.
    pub stage: String,
    /// What the operator says of it.
    pub message: String,
    /// When it began.
    #[schemars(with = "Option<String>")]
    pub began: Option<Timestamp>,
    /// When it ended.
    #[schemars(with = "Option<String>")]
    pub completion_time: Option<Timestamp>,
    /// Seconds from the first sign to the end.
    pub seconds: Option<i64>,
    /// Volumes that had detached.
    pub volumes_detached: Option<u32>,
    /// Off and on commands, and questions that were recorded.
    pub attempts: Option<u32>,
}

/// Runs the command.
///
/// # Errors
/// [`Error`].
pub async fn run(cluster: &Cluster, args: Args) -> Done {
    let fences = fences::fences(cluster).await?;
    let none = match &args.node {
        Some(node) => none_of(cluster, &fences, node).await?,
        None => "No incidents found".to_owned(),
    };
    let now = cluster.now().await;
    let is_meant = |fence: &&NodeFence| {
        let is_node = args
            .node
            .as_ref()
            .is_none_or(|it| *it == fence.spec.node_name);
        let began = fences::began(fence);
        let is_new = args
            .since
            .is_none_or(|since| began.is_some_and(|began| now.duration_since(began) <= since));
        is_node && is_new
    };
    let fences: Vec<&NodeFence> = fences.iter().filter(is_meant).collect();
    let page = || {
        let title = match &args.node {
            Some(node) => format!("Incidents of node {node}"),
            None => "Incidents of all nodes".to_owned(),
        };
        let server = &cluster.clients.server;
        page::incidents(&title, &fences, &page::Origin { server, now })
    };
    let incidents = fences.iter().map(|it| incident(it)).collect();
    let history = History { incidents };
    print(&written(args.output, &history, |form| match form {
        Form::Html => page(),
        Form::Wide => wide(&history, now),
        _ => short(&history, now),
    })?)?;
    if history.incidents.is_empty() && matches!(args.output, Form::Table | Form::Wide) {
        complain(&none);
    }
    Ok(ExitCode::SUCCESS)
}

/// What is said where no incident of this node is shown.
///
/// # Errors
/// Nobody knows the name: neither is there such a Node, nor is one of its incidents kept; [`Error`].
async fn none_of(cluster: &Cluster, fences: &[NodeFence], node: &str) -> Result<String, Error> {
    let is_there = match fences.iter().any(|it| it.spec.node_name == node) {
        true => Ok(true),
        false => seen(cluster.find(&cluster.api::<SlimNode>(), node).await)?.map(|it| it.is_some()),
    };
    told_of(node, is_there, fences).map_err(Error::No)
}

fn told_of(
    node: &str,
    is_there: Result<bool, String>,
    fences: &[NodeFence],
) -> Result<String, String> {
    let none = format!("No incidents of node {node} found");
    match is_there {
        Ok(true) => Ok(none),
        Err(unknown) => Ok(format!("{none}; its Node could not be read: {unknown}")),
        Ok(false) => Err(match fences.iter().find(|it| it.name_any() == node) {
            Some(fence) => format!(
                "`{node}` is a NodeFence, of Node {0}: see `kubectl fence explain {node}`, or `kubectl fence history {0}`",
                fence.spec.node_name
            ),
            None => format!(
                "there is no Node `{node}`, and no incident of such a Node; `kubectl get nodes` lists Nodes, `kubectl fence history` all incidents"
            ),
        }),
    }
}

fn incident(fence: &NodeFence) -> Incident {
    let status = fence.status.as_ref();
    let began = fences::began(fence);
    let completed = status.and_then(|it| it.completion_time);
    Incident {
        node: fence.spec.node_name.clone(),
        fence: fence.name_any(),
        policy: fence.spec.policy_name.clone(),
        stage: fences::stage(fence).to_owned(),
        message: fences::message(fence).to_owned(),
        began,
        completion_time: completed,
        seconds: completed
            .zip(began)
            .map(|(end, begin)| end.duration_since(begin).as_secs()),
        volumes_detached: status.and_then(|it| it.volumes_detached),
        attempts: status.and_then(|it| it.attempt_count),
    }
}

fn took(incident: &Incident) -> String {
    let seconds = incident.seconds.map(SignedDuration::from_secs);
    or_none(seconds.map(duration))
}

fn began(incident: &Incident, now: Timestamp) -> String {
    or_none(incident.began.map(|it| age(it, now)))
}

fn short(history: &History, now: Timestamp) -> String {
    let rows: Vec<_> = history
        .incidents
        .iter()
        .map(|it| {
            [
                it.node.clone(),
                it.fence.clone(),
                it.stage.clone(),
                took(it),
                began(it, now),
            ]
        })
        .collect();
    table(["NODE", "INCIDENT", "STAGE", "TOOK", "AGE"], &rows)
}

fn wide(history: &History, now: Timestamp) -> String {
    let rows: Vec<_> = history
        .incidents
        .iter()
        .map(|it| {
            [
                it.node.clone(),
                it.fence.clone(),
                or_none(it.policy.as_ref()),
                it.stage.clone(),
                took(it),
                or_none(it.volumes_detached),
                or_none(it.attempts),
                began(it, now),
                it.message.clone(),
            ]
        })
        .collect();
    table(
        [
            "NODE", "INCIDENT", "POLICY", "STAGE", "TOOK", "DETACHED", "ATTEMPTS", "AGE", "MESSAGE",
        ],
        &rows,
    )
}

#[cfg(test)]
mod tests;
