//! `kubectl fence release`: let go of an open incident. To stop is safe, so it takes no verb of its own.

use super::cluster::Cluster;
use super::dry_run::DryRun;
use super::output::complain;
use super::trail::{RELEASE, reason};
use super::{Done, Error, fences};
use crate::api::fence::{DesiredState, NodeFence, TriggerType};
use kube::ResourceExt;
use serde_json::json;

const EXAMPLES: &str = "\
Examples:
      kubectl fence release worker-3 --reason \"back from the dead\"

Before the taint that ends the incident; an off command that has gone out \
cannot be called back, and is waited for. After the taint the node is seen \
through to its release, which still asks for a machine that is off or has \
booted anew.";

/// Let go of an open incident, for good
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The NodeFence, or the node of an open one
    #[arg(value_parser = super::name::incident)]
    name: super::name::Name,

    /// Why, for the record
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    reason: String,

    /// Although an off command may still land: the machine may go down after you have let go
    #[arg(long)]
    despite_late_off: bool,

    #[command(flatten)]
    dry_run: DryRun,
}

/// Runs the command.
///
/// # Errors
/// [`Error`].
pub async fn run(cluster: &Cluster, args: Args) -> Done {
    let fence = fences::open(cluster, &args.name).await?;
    refuse(&fence, args.despite_late_off)?;
    let asker = cluster.asker().await?;
    // Whoever may patch a NodeFence may let go of it: this is the least of the roles that may.
    let write = args.dry_run.write("node-fencing-approver");
    let fence = fences::change(cluster, &fence, &write, |fence| {
        refuse(fence, args.despite_late_off)?;
        Ok(json!({
            "metadata": {"annotations": RELEASE.of(&asker, &args.reason)},
            "spec": {"desiredState": DesiredState::Released},
        }))
    })
    .await?;
    let told = args
        .dry_run
        .told("nodefence", &fence.name_any(), "released");
    if let Some(words) = not_let_go(&fence) {
        complain(&words);
    }
    told
}

/// What whoever lets go of it after the taint has not let go of.
fn not_let_go(fence: &NodeFence) -> Option<String> {
    let node = &fence.spec.node_name;
    // Of a mark without a record no device is asked.
    let until = match fence.spec.trigger.type_ {
        TriggerType::External => "has booted anew, or is off by a human's word",
        TriggerType::NodeCondition | TriggerType::Manual => "is read off or has booted anew",
    };
    fence.is_out_of_service().then(|| {
        format!(
            "Node {node} is out of service, and stays so until its pods and volumes are free and its machine {until}; kubectl fence status {node} says what that waits for"
        )
    })
}

/// It is released already, or a machine may go down in the hands of whoever lets go of it.
fn refuse(fence: &NodeFence, despite_late_off: bool) -> Result<(), Error> {
    let name = fence.name_any();
    if fence.spec.desired_state == DesiredState::Released {
        return Err(Error::No(format!(
            "NodeFence {name} is released already, it is {}: {}",
            fences::stage(fence),
            fences::message(fence)
        )));
    }
    if may_go_down(fence) && !despite_late_off {
        return Err(Error::No(format!(
            "an off command of NodeFence {name} may still land (`status.attempts`): a machine that you let go of now may go down in your hands; wait until kubectl fence explain {name} tells what became of it, or add --despite-late-off"
        )));
    }
    Ok(())
}

/// Before the taint, and a command is out of which nobody knows what became.
pub(super) fn may_go_down(fence: &NodeFence) -> bool {
    let status = fence.status.as_ref();
    let is_tainted = status.is_some_and(|it| it.taint_applied_time.is_some());
    !is_tainted && fence.commands_that_may_land().next().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_lets_go_after_the_taint_is_told_that_the_node_stays_out_of_service() {
        let of = |trigger: &str, status: serde_json::Value| {
            let fence = json!({
                "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence", "metadata": {"name": "w-1-5c0ffee5"},
                "spec": {"nodeName": "w-1", "trigger": {"type": trigger}}, "status": status,
            });
            not_let_go(&serde_json::from_value(fence).expect("a NodeFence"))
        };
        let at = "2027-01-02T18:00:00Z";
        assert_eq!(of("Manual", json!({})), None);
        for (trigger, until) in [
            ("Manual", "its machine is read off or has booted anew;"),
            (
                "External",
                "its machine has booted anew, or is off by a human's word;",
            ),
        ] {
            let words = of(trigger, json!({"taintAppliedTime": at})).expect("the taint stands");
            assert!(words.starts_with("Node w-1 is out of service, and stays so"));
            assert!(words.contains(until), "{words}");
        }
        let over = json!({"taintAppliedTime": at, "taintRemovedTime": at});
        assert_eq!(of("Manual", over), None);
    }
}
