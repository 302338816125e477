//! `kubectl fence now`: have a node fenced without a policy's wait, in your own name.

use super::cluster::Cluster;
use super::dry_run::DryRun;
use super::manual_fence::{Wish, wanted};
use super::mode::Mode;
use super::output::complain;
use super::trail::reason;
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

    /// Although somebody has denied a fence of the node in this boot, and may be at
    /// the machine (mode PowerOff asks for it)
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
    let denied = denied(&node, &fences).filter(|_| !args.despite_denial);
    let denied = denied.map(|it| past_denial(&it, fence.spec.fence.mode));
    let said = denied.transpose().map_err(Error::No)?;
    let write = args.dry_run.write("node-fencing-fencer");
    let made: NodeFence = cluster.create(&fence, &write).await?;
    let told = args
        .dry_run
        .told_to_go_on(&made.name_any(), &node.name, "created");
    if let Some(words) = said {
        complain(&words);
    }
    told
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

/// Whoever has denied a fence of the node as it runs, or does not run, may have their hands in the machine, whatever has become of that fence, and of the
/// condition that it was for.
fn denied(node: &NodeView, all: &[NodeFence]) -> Option<String> {
    let mut denied = all.iter().filter(|it| fences::is_denied(it));
    let fence = denied.find(|it| fences::is_of_boot(it, node))?;
    let denial = fence.spec.approval.as_ref();
    let by = denial.map(|it| format!(" by {} at {}: {}", it.user, it.time, it.reason));
    Some(format!(
        "NodeFence {} of Node {}, in this boot, was denied{}",
        fence.name_any(),
        node.name,
        by.unwrap_or_default()
    ))
}

/// What whoever goes past that is told.
///
/// # Errors
/// Why nobody does unasked.
fn past_denial(denied: &str, mode: FenceMode) -> Result<String, String> {
    match mode {
        FenceMode::PowerOff => Err(format!(
            "{denied}: mode PowerOff turns the machine off, hard, whoever is at it; ask them, and add --despite-denial; --mode ConfirmOnly never turns it off"
        )),
        FenceMode::ConfirmOnly | FenceMode::Observe => Ok(format!(
            "{denied}: mode {mode:?} turns nothing off; tell them all the same, for whoever is at the machine may turn it off or on"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::slim::SlimNode;
    use serde_json::{Value, json};

    const SINCE: &str = "2027-01-02T18:00:00Z";

    fn fence(name: &str, boot: Value, approval: &Value) -> NodeFence {
        let fence = json!({
            "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence", "metadata": {"name": name},
            "spec": {
                "nodeName": "w-1", "nodeUID": "uid-1", "bootID": boot, "approval": approval, "trigger": {"type": "Manual"},
            },
        });
        serde_json::from_value(fence).expect("a NodeFence")
    }

    /// Who has denied a fence of the node, by these NodeFences, whatever its kubelet says.
    fn said(fences: &[NodeFence]) -> Option<String> {
        let node: SlimNode = serde_json::from_value(json!({
            "metadata": {"name": "w-1", "uid": "uid-1"},
            "status": {
                "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": SINCE}],
                "nodeInfo": {"bootID": "boot-1"},
            },
        }))
        .expect("a Node");
        denied(&node.view(), fences)
    }

    #[test]
    fn who_has_denied_it_is_asked_before_the_machine_is_turned_off() {
        let none = Value::Null;
        let denied =
            json!({"decision": "Denied", "user": "ann", "reason": "we work on it", "time": SINCE});
        let approved =
            json!({"decision": "Approved", "user": "ann", "reason": "seen dark", "time": SINCE});
        for boot in [json!("boot-1"), Value::Null] {
            // What came of it, and what somebody else has let go of since, takes that back for nobody.
            let fences = [
                fence("w-1-later", none.clone(), &none),
                fence("w-1-5c0ffee5", boot, &denied),
            ];
            let said = said(&fences).expect("somebody is at it");
            let words = past_denial(&said, FenceMode::PowerOff).expect_err("it is asked for");
            for part in [
                "w-1-5c0ffee5 of Node w-1, in this boot, was denied by ann",
                ": we work on it",
                "--despite-denial",
                "--mode ConfirmOnly",
            ] {
                assert!(words.contains(part), "no `{part}` in {words}");
            }
            // What turns nothing off is done, and whoever asks for it hears of them.
            let words = past_denial(&said, FenceMode::ConfirmOnly).expect("it goes on");
            assert!(words.contains("was denied by ann"), "{words}");
        }
        assert_eq!(said(&[fence("w-1", json!("boot-0"), &denied)]), None);
        assert_eq!(said(&[fence("w-1", json!("boot-1"), &approved)]), None);
    }
}
