//! A NodeFence that somebody asks for in their own name (trigger `Manual`): as the node's policy fences, without its wait.
//!
//! `kubectl fence now` makes one as it is, `kubectl fence test --power-cycle` one whose machine is turned on again.

use super::fences;
use crate::api::fence::{
    DesiredState, FENCE_NAME_CHARS_MAX, NodeFence, NodeFenceSpec, Trigger, TriggerType,
};
use crate::api::policy::NodeFencingPolicy;
use crate::api::settings::{
    ApprovalSettings, FenceMode, FenceSettings, PowerOnSettings, RecoverySettings, ReleaseSettings,
};
use crate::core::hold::HeldBy;
use crate::core::observed::NodeView;
use crate::core::select::governing;
use kube::ResourceExt;

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
    if wish.mode.is_none() && fence.mode == FenceMode::Observe {
        return Err(format!(
            "policy {} of Node {name} only observes (`fence.mode`), and so would this: say how far to go, --mode ConfirmOnly proves that it is off and never turns it off, --mode PowerOff turns it off, --mode Observe only reports",
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

/// Another one is open, and the way to one's own.
fn open_already(open: &NodeFence) -> String {
    let (fence, node) = (open.name_any(), &open.spec.node_name);
    let follow = format!("`kubectl fence status {node} --watch` follows it");
    let way_out = match fences::held(open).and_then(HeldBy::named) {
        Some(HeldBy::OtherNodeFence) => follow,
        Some(hold) if hold.comes_first() => format!(
            "to have it fenced all the same, first let go of that one: kubectl fence release {fence} --reason WHY"
        ),
        Some(hold) if !hold.is_lifted_by_approval() => follow,
        Some(_) => format!(
            "{follow}, and an approval lifts what holds it: kubectl fence approve {node} --reason WHY"
        ),
        None => follow,
    };
    format!(
        "Node {node} is being fenced already by NodeFence {fence}, which is {}: {}; {way_out}",
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
