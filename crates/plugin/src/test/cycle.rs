//! `kubectl fence test --power-cycle`: the whole protocol on a node that is drained, from the claim to the machine that is on again.
//!
//! It is a fence like any other, in the user's own name, and the operator has no other way to a machine's power: a node is claimed first, and one
//! that is Ready never (S6, S11). So the user stops the kubelet, as a test of a hung node does. What a fence does not ask and a test has to: that
//! nothing is lost if the machine goes off, and that etcd keeps its majority ([`etcd`]).

mod etcd;

use super::super::cluster::{Cluster, Error as ClusterError, Write};
use super::super::now::{Wish, wanted};
use super::super::output::print;
use super::super::prompt::typed;
use super::super::table::{count, wrapped};
use super::super::{Done, Error, explain, fences};
use super::{Args, PAUSE, devices, refuse_fenced};
use fencing_api::fence::NodeFence;
use fencing_api::policy::NodeFencingPolicy;
use fencing_api::settings::{FenceMode, PowerOnPolicy, PowerOnSettings};
use fencing_cluster::slim::SlimAttachment;
use fencing_cluster::text::listed;
use fencing_core::observed::{NodeView, Ready};
use fencing_drivers::clock;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::ListParams;
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::sleep;

/// Who may do it.
const ROLE: &str = "node-fencing-fencer";
/// Names in one message.
const NAMED_MAX: usize = 5;

/// Runs it.
///
/// # Errors
/// [`Error`].
pub(super) async fn run(cluster: &Cluster, args: Args) -> Done {
    let name = args.node.as_str();
    let node = fences::node(cluster, name).await?;
    refuse_fenced(cluster, name).await?;
    devices(cluster, &node, None).await?;
    refuse_used(cluster, &node).await?;
    let reason = format!("test: {}", args.reason.unwrap_or_default());
    // What would refuse it does so before anybody stops a kubelet.
    let looked_at = Write {
        dry_run: true,
        role: ROLE,
    };
    let fence = fence(cluster, &node, reason.clone()).await?;
    let seen: NodeFence = cluster.create(&fence, &looked_at).await?;
    if args.dry_run.is_on() {
        return args.dry_run.told(&seen, "created", []);
    }
    let is_to_be_typed = args.confirm_node.is_none();
    print(&opening(name, &cluster.clients.server, is_to_be_typed))?;
    if typed(name, args.confirm_node)? != name {
        return Err(Error::No(format!(
            "that is not the name of Node {name}; nothing was changed"
        )));
    }
    let limit = args.wait.unwrap_or(SignedDuration::from_mins(30));
    let until = clock::since_boot() + limit.unsigned_abs();
    let silent = silent(cluster, name, until).await?;
    let made = begin(cluster, &silent, reason, args.dry_run.write(ROLE)).await;
    let made = made.map_err(|error| {
        Error::No(format!(
            "{error}; nothing was changed: start the kubelet of Node {name} again"
        ))
    })?;
    args.dry_run.told(&made, "created", [])?;
    follow(cluster, &made.name_any(), until).await
}

/// What is about to be done, and what is left to the user: a cordoned node is not turned on, whoever asked for the fence (`leave_off`).
fn opening(node: &str, server: &str, is_to_be_typed: bool) -> String {
    let mut lines = vec![
        format!("The machine of Node {node} of the cluster {server} is powered off, confirmed off, and powered on again."),
        format!("It is powered on only after you uncordon the node, within 15 minutes: kubectl uncordon {node}"),
        "Do that from another terminal at stage PoweringOn: the machine is off, nothing is attached, and the quarantine keeps pods away until it has booted.".to_owned(),
    ];
    if is_to_be_typed {
        lines.push("Type the node's name to start:".to_owned());
    }
    lines.iter().map(|it| wrapped(it, 0)).collect()
}

/// Once the kubelet is given up. Meanwhile somebody may have uncordoned the node, or a policy may have begun with it.
async fn begin(
    cluster: &Cluster,
    node: &NodeView,
    reason: String,
    write: Write,
) -> Result<NodeFence, Error> {
    refuse_used(cluster, node).await?;
    refuse_fenced(cluster, &node.name).await?;
    let fence = fence(cluster, node, reason).await?;
    Ok(cluster.create(&fence, &write).await?)
}

/// The NodeFence, as the node's policy fences, but that its machine is turned on again.
async fn fence(cluster: &Cluster, node: &NodeView, reason: String) -> Result<NodeFence, Error> {
    let wish = Wish {
        mode: Some(FenceMode::PowerOff),
        turns_on: Some(PowerOnSettings {
            policy: PowerOnPolicy::AfterRecovery,
            delay_seconds: 0,
            ..PowerOnSettings::default()
        }),
        user: cluster.asker().await?.name,
        reason,
    };
    let policies = cluster.ours::<NodeFencingPolicy>().await?;
    let all = fences::fences(cluster).await?;
    wished(node, &policies, &all, wish).map_err(Error::No)
}

/// Whoever has denied a fence may be at the machine, which would go off, and on again, under their hands.
fn wished(
    node: &NodeView,
    policies: &[NodeFencingPolicy],
    all: &[NodeFence],
    wish: Wish,
) -> Result<NodeFence, String> {
    let Some(denied) = fences::denied(node, all) else {
        return wanted(node, policies, all, wish);
    };
    let until = match denied.ends_with_boot {
        true => "valid until the machine boots or its NodeFence is deleted",
        false => "valid until its NodeFence is deleted",
    };
    Err(format!(
        "{}, {until}; ask that person, then: kubectl delete nodefence {} (its policy may then fence the node again)",
        denied.words, denied.fence
    ))
}

/// What would be lost if the machine went off, as an error with the way out.
async fn refuse_used(cluster: &Cluster, node: &NodeView) -> Result<(), Error> {
    let name = &node.name;
    let drain =
        format!("drain it first: kubectl drain {name} --ignore-daemonsets --delete-emptydir-data");
    if !node.unschedulable {
        return Err(Error::No(format!("Node {name} is not cordoned; {drain}")));
    }
    etcd::refuse_majority(cluster, name).await?;
    let there = ListParams::default().fields(&format!("spec.nodeName={name}"));
    let pods = cluster.list(&cluster.api::<Pod>(), &there).await?;
    let work: Vec<String> = pods.iter().filter(|it| is_work(it)).map(told).collect();
    if !work.is_empty() {
        return Err(Error::No(format!(
            "{} on Node {name} would be lost: {}; {drain}",
            count(work.len(), "pod", "pods"),
            listed(&work, "", NAMED_MAX)
        )));
    }
    let all = ListParams::default();
    let attachments = cluster.list(&cluster.api::<SlimAttachment>(), &all).await?;
    let attached = attachments.iter().filter(|it| it.spec.node_name == *name);
    let attached: Vec<String> = attached.map(|it| it.view().name).collect();
    match attached.is_empty() {
        true => Ok(()),
        false => Err(Error::No(format!(
            "{} attached to Node {name}: {}; wait until detached, or see `kubectl fence diagnose node {name}`",
            count(attached.len(), "volume is", "volumes are"),
            listed(&attached, "", NAMED_MAX)
        ))),
    }
}

/// Neither a daemon of the node, nor static, nor at its end: what `kubectl drain` takes away.
fn is_work(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|it| it.phase.as_deref());
    let is_over = matches!(phase, Some("Succeeded" | "Failed"));
    let owners = pod.metadata.owner_references.iter().flatten();
    let is_daemon = owners
        .filter(|it| it.controller == Some(true))
        .any(|it| it.kind == "DaemonSet");
    let is_static = pod
        .annotations()
        .contains_key("kubernetes.io/config.mirror");
    !is_over && !is_daemon && !is_static
}

fn told(pod: &Pod) -> String {
    format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any())
}

/// Waits until the kubelet is given up.
async fn silent(cluster: &Cluster, name: &str, until: Duration) -> Result<NodeView, Error> {
    let mut is_told = false;
    loop {
        let node = fences::node(cluster, name).await?;
        if node.ready() != Ready::True {
            return Ok(node);
        }
        if !is_told {
            let fact = format!("Node {name} is Ready, and a Ready node is never fenced.");
            let hint = "Stop its kubelet now (systemctl stop kubelet); this continues once the node is NotReady, in about 50 s.";
            print(&(wrapped(&fact, 0) + &wrapped(hint, 0)))?;
            is_told = true;
        }
        if clock::since_boot() >= until {
            return Err(Error::No(format!(
                "Node {name} is still Ready, nothing was changed; stop its kubelet and try again"
            )));
        }
        sleep(PAUSE).await;
    }
}

/// Tells what becomes of it, each stage once, until it has ended.
async fn follow(cluster: &Cluster, name: &str, until: Duration) -> Done {
    let mut told = String::new();
    loop {
        let fence = cluster.find_ours::<NodeFence>(name).await?;
        let fence = fence.ok_or_else(|| ClusterError::Absent {
            kind: "NodeFence".to_owned(),
            name: name.to_owned(),
            way_out: "it was deleted; check the taints of the node (kubectl describe node)"
                .to_owned(),
        })?;
        let line = wrapped(
            &format!("{}: {}", fences::stage(&fence), fences::message(&fence)),
            0,
        );
        if line != told {
            print(&line)?;
            told = line;
        }
        if fence.is_ended() {
            print(&format!("\n{}", explain::told(&fence)))?;
            let is_well =
                fences::stage(&fence) == "Recovered" && fences::escalated(&fence).is_none();
            return Ok(ExitCode::from(u8::from(!is_well)));
        }
        if clock::since_boot() >= until {
            return Err(Error::No(format!(
                "NodeFence {name} has not ended in time, and continues; follow it: kubectl fence status {name} --watch"
            )));
        }
        sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests;
