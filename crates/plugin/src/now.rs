//! `kubectl fence now`: fence a node without its policy's wait, in your own name.

use super::cluster::Cluster;
use super::dry_run::DryRun;
use super::mode::Mode;
use super::trail::reason;
use super::{Done, Error, fences};
use fencing_api::fence::{
    DesiredState, FENCE_NAME_CHARS_MAX, NodeFence, NodeFenceSpec, Trigger, TriggerType,
};
use fencing_api::policy::NodeFencingPolicy;
use fencing_api::settings::{
    ApprovalSettings, FenceMode, FenceSettings, PowerOnSettings, Procedure, RecoverySettings,
    ReleaseSettings,
};
use fencing_core::hold::HeldBy;
use fencing_core::observed::{NodeView, Ready};
use fencing_core::select::governing;
use kube::ResourceExt;

const EXAMPLES: &str = "\
Examples:
  As the node's policy does, without its wait:
      kubectl fence now worker-3 --reason \"smoke in rack 7\"

  Only verify that it is off, never power it off:
      kubectl fence now worker-3 --mode ConfirmOnly --reason \"no power there\"

It needs the verb `fence` (ClusterRole node-fencing-fencer). The policy's wait, \
budget and exclusions are ignored; a Ready node is never fenced, and the \
machine is still confirmed off first.";

/// Fence a node now, without its policy's wait
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

    /// Fence although another fence of the node was denied in this boot (needed in
    /// mode PowerOff)
    #[arg(long)]
    override_denial: bool,

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
    let denied = fences::denied(&node, &all).filter(|_| !args.override_denial);
    let denied = denied.map(|it| past_denial(&it.words, fence.spec.procedure.fence.mode));
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
            "Node {name} is Ready, and a Ready node is never fenced; list NotReady nodes: kubectl fence status, or move its pods: kubectl drain {name}"
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
            "{denied}; mode PowerOff powers the machine off: ask that person first, then add --override-denial, or take --mode ConfirmOnly"
        )),
        FenceMode::ConfirmOnly | FenceMode::Observe => Ok(format!(
            "{denied}; mode {mode:?} powers nothing off, but tell that person"
        )),
    }
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
    let of_node = |it: &&NodeFence| it.spec.node_name == *name && it.may_act();
    if let Some(open) = fences.iter().find(of_node) {
        return Err(open_already(open));
    }
    let policy = governing(policies, node).map_err(|it| it.to_string())?;
    let Some(policy) = policy else {
        return Err(format!(
            "no policy selects Node {name}, so its devices are not known; write a NodeFence by hand (docs/how-to/people.md)"
        ));
    };
    let spec = &policy.spec.procedure;
    let fence = FenceSettings {
        mode: wish.mode.unwrap_or(spec.fence.mode),
        // Who asks for it now does not want to be asked.
        approval: ApprovalSettings::default(),
        ..spec.fence.clone()
    };
    if wish.mode.is_none() && fence.mode == FenceMode::Observe {
        return Err(format!(
            "policy {} of Node {name} is in mode Observe; add --mode ConfirmOnly, PowerOff or Observe",
            policy.name_any()
        ));
    }
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
            early_seconds: None,
            reported_by: None,
            remediation: None,
            requested_by: Some(wish.user),
            reason: Some(wish.reason),
        },
        procedure: Procedure {
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
        },
        desired_state: DesiredState::Fenced,
        approval: None,
        manual_confirmation: None,
    };
    let mut made = NodeFence::new("", spec);
    made.metadata.name = None;
    made.metadata.generate_name = Some(prefix(name));
    Ok(made)
}

/// Another one is open, and the way to one's own.
fn open_already(open: &NodeFence) -> String {
    let (fence, node) = (open.name_any(), &open.spec.node_name);
    let follow = format!("`kubectl fence status {node} --watch` follows it");
    let way_out = match fences::held(open).and_then(HeldBy::named) {
        Some(HeldBy::OtherNodeFence) => follow,
        Some(hold) if hold.comes_first() => {
            format!("to fence it, first cancel that one: {}", fences::stop(open))
        }
        Some(hold) if !hold.is_lifted_by_approval() => follow,
        Some(_) => format!(
            "{follow}, and an approval lifts its hold: kubectl fence approve {node} --reason WHY"
        ),
        None => follow,
    };
    format!(
        "Node {node} is already being fenced by NodeFence {fence}, which is {}: {}; {way_out}",
        fences::stage(open),
        fences::message(open)
    )
}

/// What the API server makes a name of, with five characters of its own: no longer than a claim may name.
fn prefix(node: &str) -> String {
    let room = FENCE_NAME_CHARS_MAX - "-now-".len() - 5;
    let kept = node.get(..room).unwrap_or(node);
    format!("{}-now-", kept.trim_end_matches(['.', '-']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_denied_it_is_asked_before_the_machine_is_turned_off() {
        let denied = "NodeFence w-1-5c0ffee5 of Node w-1, in this boot, was denied by ann";
        let refused = past_denial(denied, FenceMode::PowerOff).expect_err("it is asked for");
        for part in [denied, "--override-denial", "--mode ConfirmOnly"] {
            assert!(refused.contains(part), "no `{part}` in {refused}");
        }
        // What turns nothing off is done, and whoever asks for it hears of them.
        let said = past_denial(denied, FenceMode::ConfirmOnly).expect("it goes on");
        assert!(said.contains(denied), "{said}");
    }
}
