//! `kubectl fence explain`: what happened in one incident, with the evidence, in the order in which it happened.

use super::cluster::Cluster;
use super::fences::Warning;
use super::output::{Content, Form, forms, print, written};
use super::page;
use super::table::{duration, wrapped};
use super::timeline::{Moment, timeline};
use super::{Done, fences};
use fencing_api::fence::NodeFence;
use kube::ResourceExt;
use schemars::JsonSchema;
use serde::Serialize;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  The open incident of a node, or its last one:
      kubectl fence explain worker-3

  A certain one:
      kubectl fence explain worker-3-5c0ffee5 -o json

  One page for the post-mortem, which needs nothing beside itself:
      kubectl fence explain worker-3 -o html > worker-3.html";

/// Explain an incident and its power-off proof
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A NodeFence, or a node
    #[arg(value_parser = super::name::incident)]
    name: super::name::Name,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table",
        value_parser = forms(&[Form::Table, Form::Json, Form::Yaml, Form::Name, Form::Html]))]
    output: Form,
}

/// What the command shows.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The node.
    pub node: String,
    /// The NodeFence.
    pub fence: String,
    /// The policy.
    pub policy: Option<String>,
    /// The stage.
    pub stage: String,
    /// What the operator says of it.
    pub message: String,
    /// Why a human is or was called.
    pub escalated: Option<String>,
    /// What devices have said that cannot be true.
    pub contradictions: Vec<String>,
    /// What a person has to know before they go by it, with the two above.
    pub warnings: Vec<Warning>,
    /// What happened, oldest first.
    pub timeline: Vec<Moment>,
}

impl Content for Explanation {
    const KIND: &'static str = "Explanation";

    fn names(&self) -> Vec<String> {
        vec![fences::full_name(&self.fence)]
    }
}

/// Runs the command.
///
/// # Errors
/// [`super::Error`].
pub async fn run(cluster: &Cluster, args: Args) -> Done {
    let fences = fences::fences(cluster).await?;
    let fence =
        fences::meant(&fences, &args.name).ok_or_else(|| fences::absent(&fences, &args.name))?;
    let now = cluster.now().await;
    let page = || {
        let title = format!("Incident of node {}", fence.spec.node_name);
        let server = &cluster.clients.server;
        page::incidents(&title, &[fence], &page::Origin { server, now })
    };
    let explanation = explanation(fence);
    print(&written(args.output, &explanation, |form| match form {
        Form::Html => page(),
        _ => narrative(&explanation),
    })?)?;
    Ok(ExitCode::SUCCESS)
}

/// The same for people, of a record that was read already.
pub fn told(fence: &NodeFence) -> String {
    narrative(&explanation(fence))
}

fn explanation(fence: &NodeFence) -> Explanation {
    let status = fence.status.as_ref();
    Explanation {
        node: fence.spec.node_name.clone(),
        fence: fence.name_any(),
        policy: fence.spec.policy_name.clone(),
        stage: fences::stage(fence).to_owned(),
        message: fences::message(fence).to_owned(),
        escalated: fences::escalated(fence).map(|(reason, words)| format!("{reason}: {words}")),
        contradictions: status.map_or_else(Vec::new, |it| it.contradictions.clone()),
        warnings: fences::warnings(fence),
        timeline: timeline(fence),
    }
}

/// Each moment with the time since the first.
fn narrative(of: &Explanation) -> String {
    let policy = of.policy.as_deref().map(|it| format!(", policy {it}"));
    let policy = policy.unwrap_or_default();
    let mut text = wrapped(
        &format!(
            "Node {} (nodefence/{}{policy}): {}",
            of.node, of.fence, of.stage
        ),
        0,
    );
    text += &wrapped(&of.message, 2);
    text += &fences::warned(&of.warnings);
    let Some(first) = of.timeline.first() else {
        return text;
    };
    text += &format!("\n{}\n", first.time.strftime("%F %T UTC"));
    for moment in &of.timeline {
        let since = duration(moment.time.duration_since(first.time));
        let line = wrapped(&moment.words, 10);
        // The time stands where the first line is indented.
        text += &format!("  {:<8}{}", format!("+{since}"), line.trim_start());
    }
    text
}

#[cfg(test)]
mod tests;
