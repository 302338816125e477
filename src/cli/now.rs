//! `kubectl fence now`: have a node fenced without a policy's wait, in your own name.

use super::cluster::Cluster;
use super::dry_run::DryRun;
use super::manual_fence::{Wish, wanted};
use super::mode::Mode;
use super::trail::reason;
use super::{Done, Error, fences};
use crate::api::fence::NodeFence;
use crate::api::policy::NodeFencingPolicy;
use crate::api::settings::FenceMode;
use crate::core::observed::{NodeView, Ready};

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
    let all = fences::fences(cluster).await?;
    refuse_ready(&node).map_err(Error::No)?;
    let wish = Wish {
        mode: args.mode.map(Mode::into),
        turns_on: None,
        user: cluster.asker().await?.name,
        reason: args.reason,
    };
    let fence = wanted(&node, &policies, &all, wish).map_err(Error::No)?;
    let denied = fences::denied(&node, &all).filter(|_| !args.despite_denial);
    let denied = denied.map(|it| past_denial(&it.words, fence.spec.fence.mode));
    let said = denied.transpose().map_err(Error::No)?;
    let write = args.dry_run.write("node-fencing-fencer");
    let made: NodeFence = cluster.create(&fence, &write).await?;
    let notes = args.dry_run.follow(&node.name).into_iter().chain(said);
    args.dry_run.told(&made, "created", notes)
}

/// A Ready node is never fenced (S6). Somebody may have typed another's name.
fn refuse_ready(node: &NodeView) -> Result<(), String> {
    let name = &node.name;
    if node.ready() == Ready::True {
        return Err(format!(
            "Node {name} is Ready, and a Ready node is never fenced: is it the node that you mean? kubectl fence status shows those that are NotReady; pods leave one that runs by kubectl drain {name}"
        ));
    }
    Ok(())
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

    #[test]
    fn who_has_denied_it_is_asked_before_the_machine_is_turned_off() {
        let denied = "NodeFence w-1-5c0ffee5 of Node w-1, in this boot, was denied by ann";
        let refused = past_denial(denied, FenceMode::PowerOff).expect_err("it is asked for");
        for part in [denied, "--despite-denial", "--mode ConfirmOnly"] {
            assert!(refused.contains(part), "no `{part}` in {refused}");
        }
        // What turns nothing off is done, and whoever asks for it hears of them.
        let said = past_denial(denied, FenceMode::ConfirmOnly).expect("it goes on");
        assert!(said.contains(denied), "{said}");
    }
}
