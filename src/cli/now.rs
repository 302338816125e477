//! `kubectl fence now`: have a node fenced without a policy's wait, in your own name.

use super::answer::DryRun;
use super::cluster::Cluster;
use super::{Done, Error, fleet};
use crate::api::fence::{
    DesiredState, FENCE_NAME_CHARS_MAX, NodeFence, NodeFenceSpec, Trigger, TriggerType,
};
use crate::api::policy::NodeFencingPolicy;
use crate::api::settings::{
    ApprovalSettings, FenceMode, FenceSettings, PowerOnSettings, RecoverySettings, ReleaseSettings,
};
use crate::core::observed::{NodeView, Ready};
use crate::core::select::governing;
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
    node: String,

    /// Why, for the record
    #[arg(long, value_name = "TEXT")]
    reason: String,

    /// How far to go: PowerOff, ConfirmOnly, Observe [default: as its policy]
    #[arg(long, value_name = "MODE", value_parser = mode)]
    mode: Option<FenceMode>,

    #[command(flatten)]
    dry_run: DryRun,
}

fn mode(text: &str) -> Result<FenceMode, String> {
    let modes = [
        FenceMode::PowerOff,
        FenceMode::ConfirmOnly,
        FenceMode::Observe,
    ];
    let is_named = |it: &FenceMode| format!("{it:?}").eq_ignore_ascii_case(text);
    let found = modes.into_iter().find(is_named);
    found.ok_or_else(|| "must be PowerOff, ConfirmOnly or Observe".to_owned())
}

/// Runs the command.
///
/// # Errors
/// [`Error`].
pub async fn run(cluster: &Cluster, args: Args) -> Done {
    let node = fleet::node(cluster, &args.node).await?;
    let policies = cluster.ours::<NodeFencingPolicy>().await?;
    let fences = fleet::fences(cluster).await?;
    refuse_ready(&node).map_err(Error::No)?;
    let wish = Wish {
        mode: args.mode,
        turns_on: None,
        user: cluster.asker().await?.name,
        reason: args.reason,
    };
    let fence = wanted(&node, &policies, &fences, wish).map_err(Error::No)?;
    let write = args.dry_run.write("node-fencing-fencer");
    let made: NodeFence = cluster.create(&fence, &write).await?;
    args.dry_run.told("nodefence", &made.name_any(), "created")
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

/// What somebody wants of a NodeFence in their own name.
pub struct Wish {
    /// How far it goes; none: as the policy says.
    pub mode: Option<FenceMode>,
    /// Whether the machine is turned on afterwards; none: as the policy says.
    pub turns_on: Option<PowerOnSettings>,
    /// Who wants it.
    pub user: String,
    /// Why.
    pub reason: String,
}

/// The NodeFence that does it, or why it would do nothing.
///
/// # Errors
/// What is in the way, in words.
pub fn wanted(
    node: &NodeView,
    policies: &[NodeFencingPolicy],
    fences: &[NodeFence],
    wish: Wish,
) -> Result<NodeFence, String> {
    let name = &node.name;
    let of_node = |it: &&NodeFence| it.spec.node_name == *name && !it.is_ended();
    if let Some(open) = fences.iter().find(of_node)
        && open.spec.fence.mode != FenceMode::Observe
    {
        return Err(format!(
            "Node {name} is being fenced already by NodeFence {}, which is {}: {}; `kubectl fence status {name}` follows it, and an approval (`kubectl fence approve {name}`) lifts the brakes of a budget",
            open.name_any(),
            fleet::stage(open),
            fleet::message(open)
        ));
    }
    let policy = governing(policies, node).map_err(|it| it.to_string())?;
    let Some(policy) = policy else {
        return Err(format!(
            "no policy selects Node {name}, so nobody has said by which devices it is fenced; write a NodeFence by hand, as docs/how-to/people.md has it"
        ));
    };
    let spec = &policy.spec;
    let fence = FenceSettings {
        mode: wish.mode.unwrap_or(spec.fence.mode),
        // Who asks for it now does not want to be asked.
        approval: ApprovalSettings::default(),
        ..spec.fence.clone()
    };
    let turns_on = fence.mode == FenceMode::PowerOff;
    let spec = NodeFenceSpec {
        node_name: name.clone(),
        node_uid: Some(node.uid.clone()),
        boot_id: Some(node.boot_id.clone()).filter(|it| !it.is_empty()),
        policy_name: None,
        policy_generation: None,
        trigger: Trigger {
            type_: TriggerType::Manual,
            condition_type: None,
            condition_status: None,
            unhealthy_since_time: None,
            due_time: None,
            requested_by: Some(wish.user),
            reason: Some(wish.reason),
        },
        fence,
        // The machine is turned on again only by this release, after this remedy.
        recovery: match wish.turns_on {
            Some(_) => RecoverySettings::default(),
            None => spec.recovery.clone(),
        },
        release: match wish.turns_on {
            Some(_) => ReleaseSettings::default(),
            None => spec.release.clone(),
        },
        power_on: match turns_on {
            true => wish.turns_on.unwrap_or_else(|| spec.power_on.clone()),
            false => PowerOnSettings::default(),
        },
        desired_state: DesiredState::Fenced,
        approval: None,
        manual_confirmation: None,
    };
    let mut made = NodeFence::new("", spec);
    made.metadata.name = None;
    // What the type adds is about its definition (`helm.sh/resource-policy`).
    made.metadata.annotations = None;
    made.metadata.generate_name = Some(prefix(name));
    Ok(made)
}

/// What the API server makes a name of, with five characters of its own: no longer than a claim may name.
fn prefix(node: &str) -> String {
    let room = FENCE_NAME_CHARS_MAX - "-now-".len() - 5;
    let kept = node.get(..room).unwrap_or(node);
    format!("{}-now-", kept.trim_end_matches(['.', '-']))
}
