//! `kubectl fence now`: have a node fenced without a policy's wait, in your own name.

use super::cluster::Cluster;
use super::dry_run::DryRun;
use super::manual_fence::{Wish, wanted};
use super::mode::Mode;
use super::trail::reason;
use super::unfenced::{Reason, World, verdict};
use super::{Done, Error, fences};
use crate::api::fence::NodeFence;
use crate::api::policy::NodeFencingPolicy;
use crate::api::settings::FenceMode;
use crate::core::observed::{NodeView, Ready};
use kube::ResourceExt;

const EXAMPLES: &str = "\
Examples:
  As the node's policy fences, only sooner:
      kubectl fence now worker-3 --reason \"smoke in rack 7\"

  Only prove that it is off, never turn it off:
      kubectl fence now worker-3 --mode ConfirmOnly --reason \"no power there\"

It takes the verb `fence` (ClusterRole node-fencing-fencer). The policy's wait, \
budget and exclusions do not count; a node that is Ready is never fenced, and \
the machine is proven down all the same.";

/// Have a node fenced now, without its policy's wait
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The node
    #[arg(value_parser = super::name::node)]
    node: String,

    /// Why, for the record
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    reason: String,

    /// How far to go [default: as its policy]
    #[arg(long, value_name = "MODE", ignore_case = true)]
    mode: Option<Mode>,

    /// Although somebody has denied the fence of this outage, and may be at the machine
    #[arg(long)]
    despite_denial: bool,

    #[command(flatten)]
    dry_run: DryRun,
}

/// Runs the command.
///
/// # Errors
/// [`Error`].
pub async fn run(cluster: &Cluster, args: Args) -> Done {
    let node = fences::node(cluster, &args.node).await?;
    let policies = cluster.ours::<NodeFencingPolicy>().await?;
    let fences = fences::fences(cluster).await?;
    refuse_ready(&node).map_err(Error::No)?;
    let wish = Wish {
        mode: args.mode.map(Mode::into),
        turns_on: None,
        user: cluster.asker().await?.name,
        reason: args.reason,
    };
    let fence = wanted(&node, &policies, &fences, wish).map_err(Error::No)?;
    if !args.despite_denial && fence.spec.fence.mode == FenceMode::PowerOff {
        // What somebody else has let go of since takes back no denial.
        let denied: Vec<NodeFence> = fences.into_iter().filter(fences::is_denied).collect();
        let world = World {
            policies: &policies,
            fences: &denied,
            now: cluster.now().await,
        };
        refuse_denied(&node, &world).map_err(Error::No)?;
    }
    let write = args.dry_run.write("node-fencing-fencer");
    let made: NodeFence = cluster.create(&fence, &write).await?;
    args.dry_run
        .told_to_go_on(&made.name_any(), &node.name, "created")
}

/// A Ready node is never fenced (S6).
fn refuse_ready(node: &NodeView) -> Result<(), String> {
    let name = &node.name;
    if node.ready() == Ready::True {
        return Err(format!(
            "Node {name} is Ready: a Ready node is never fenced; cut its power or stop its kubelet, wait until it is NotReady, then ask again"
        ));
    }
    Ok(())
}

/// Whoever has denied it in this outage may have their hands in the machine.
fn refuse_denied(node: &NodeView, world: &World<'_>) -> Result<(), String> {
    let Reason::Denied(fence) = verdict(node, None, world).reason else {
        return Ok(());
    };
    let denial = fence.spec.approval.as_ref();
    let by = denial.map(|it| format!(" by {}: {}", it.user, it.reason));
    Err(format!(
        "NodeFence {} of this outage of Node {} was denied{}: mode PowerOff turns the machine off, hard, whoever is at it; ask them, and add --despite-denial; --mode ConfirmOnly never turns it off",
        fence.name_any(),
        node.name,
        by.unwrap_or_default()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::slim::SlimNode;
    use serde_json::{Value, json};

    const SINCE: &str = "2027-01-02T18:00:00Z";

    /// What is said of a node that has been NotReady since then, of which this was decided on.
    fn refused(approval: Value) -> Result<(), String> {
        let node: SlimNode = serde_json::from_value(json!({
            "metadata": {"name": "w-1", "uid": "uid-1", "labels": {"pool": "workers"}},
            "status": {
                "conditions": [{"type": "Ready", "status": "Unknown", "lastTransitionTime": SINCE}],
                "nodeInfo": {"bootID": "boot-1"},
            },
        }))
        .expect("a Node");
        let policy: NodeFencingPolicy = serde_json::from_value(json!({
            "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFencingPolicy", "metadata": {"name": "workers"},
            "spec": {
                "nodeSelector": {"matchLabels": {"pool": "workers"}}, "fence": {"mode": "PowerOff"},
                "unhealthyConditions": [{"type": "Ready", "status": "Unknown", "durationSeconds": 10}],
            },
        }))
        .expect("a policy");
        let fence: NodeFence = serde_json::from_value(json!({
            "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence", "metadata": {"name": "w-1-5c0ffee5"},
            "spec": {
                "nodeName": "w-1", "nodeUID": "uid-1", "bootID": "boot-1", "policyName": "workers", "approval": approval,
                "trigger": {
                    "type": "NodeCondition", "conditionType": "Ready", "conditionStatus": "Unknown", "unhealthySinceTime": SINCE,
                },
            },
            "status": {"conditions": [{
                "type": "Succeeded", "status": "False", "reason": "Aborted", "message": "", "lastTransitionTime": SINCE,
            }]},
        }))
        .expect("a NodeFence");
        let world = World {
            policies: &[policy],
            fences: &[fence],
            now: "2027-01-02T18:01:00Z".parse().expect("a time"),
        };
        refuse_denied(&node.view(), &world)
    }

    #[test]
    fn who_has_denied_it_is_asked_before_the_machine_is_turned_off() {
        let denied =
            json!({"decision": "Denied", "user": "ann", "reason": "we work on it", "time": SINCE});
        let words = refused(denied).expect_err("somebody is at it");
        for part in [
            "denied by ann: we work on it",
            "--despite-denial",
            "--mode ConfirmOnly",
        ] {
            assert!(words.contains(part), "no `{part}` in {words}");
        }
        assert_eq!(refused(Value::Null), Ok(()));
    }
}
