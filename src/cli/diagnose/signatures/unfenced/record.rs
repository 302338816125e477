//! What the records say of an outage that is not over: everything was done, somebody has said no, or an incident of it has ended as it could.

use super::super::super::finding::{Step, step};
use super::super::super::index::Index;
use super::due::left;
use super::{Why, doubt, shown, under, with_last};
use crate::api::fence::{ApprovalDecision, NodeFence};
use crate::api::policy::{NodeFencingPolicy, UnhealthyCondition};
use crate::cli::fences;
use crate::core::observed::NodeView;
use crate::core::stage::Stage;
use crate::core::window::{Effective, effective};
use crate::shell::detect::refused_by;
use crate::shell::draft::fence_name;
use kube::ResourceExt;

/// Everything was done in this boot of the machine, and its kubelet has reported nothing since.
pub(super) fn cleared(fence: &NodeFence, view: &NodeView) -> Why {
    let name = fence.name_any();
    let confirmed = Stage::ConfirmedDown.to_string();
    let words = match fences::stage(fence) == confirmed {
        true => format!(
            "NodeFence {name} has proven its machine down and ended: by `recovery.strategy: None` its pods and volumes are left to whoever goes by that proof, and the operator frees none of them"
        ),
        false => format!(
            "NodeFence {name} has put it out of service and ended {}, and its kubelet has reported nothing since: no other is begun in this boot",
            fences::stage(fence)
        ),
    };
    Why {
        words: format!("{words}{}", doubt(fence)),
        steps: vec![
            step(
                "by which readings, and what speaks against them by now: whoever takes its volumes goes by that",
                format!("kubectl fence explain {name}"),
            ),
            step(
                "whether the machine is off now: nobody has looked since",
                format!("kubectl fence test {}", view.name),
            ),
        ],
    }
}

/// Of this outage somebody has said no, or an incident has ended already. Otherwise the conditions that the node shows and of which nobody has.
pub(super) fn spoken<'a>(
    index: &Index<'_>,
    policy: &'a NodeFencingPolicy,
    view: &NodeView,
) -> Result<Why, Vec<&'a UnhealthyCondition>> {
    let (fences, now) = (&index.facts.fences.items, index.facts.now);
    let conditions = policy.spec.unhealthy_conditions.iter();
    let is_shown = |it: &&UnhealthyCondition| left(it, view, now).is_some();
    let shown_by_node: Vec<&UnhealthyCondition> = conditions.filter(is_shown).collect();
    let refusals = shown_by_node.iter();
    let refusals: Vec<&NodeFence> = refusals
        .filter_map(|it| refused_by(fences, view, it))
        .collect();
    if let Some(fence) = refusals.first()
        && refusals.len() == shown_by_node.len()
    {
        return Ok(said_no(fence, policy, view));
    }
    let open = shown_by_node
        .into_iter()
        .filter(|it| refused_by(fences, view, it).is_none());
    let open: Vec<&UnhealthyCondition> = open.collect();
    let effective = effective(policy, now).unwrap_or_else(|_| Effective::without_windows(policy));
    let names: Vec<String> = open
        .iter()
        .map(|it| fence_name(view, policy, &effective, it))
        .collect();
    let is_of_outage = |it: &&NodeFence| names.contains(&it.name_any());
    let is_open = |it: &&NodeFence| it.spec.node_name == view.name && !it.is_ended();
    if let Some(fence) = fences.iter().find(is_open) {
        let words = format!(
            "NodeFence {}, which only observes, is open for it: policy {} begins no other beside it",
            fence.name_any(),
            policy.name_any()
        );
        return Ok(Why {
            words: with_last(index, view, words),
            steps: vec![shown(policy), under(policy, &view.name)],
        });
    }
    match fences.iter().find(is_of_outage) {
        Some(fence) => Ok(over(fence, policy, view)),
        None => Err(open),
    }
}

fn said_no(fence: &NodeFence, policy: &NodeFencingPolicy, view: &NodeView) -> Why {
    let denied = fence.spec.approval.as_ref();
    let denied = denied.filter(|it| it.decision == ApprovalDecision::Denied);
    let who = match denied {
        Some(it) => format!("{} has denied", it.user),
        None => "a human has let go of".to_owned(),
    };
    let why = denied.map(|it| format!(" (\"{}\")", it.reason));
    Why {
        words: format!(
            "{who} NodeFence {} of this outage{}, so policy {} begins no other while it lasts{}",
            fence.name_any(),
            why.unwrap_or_default(),
            policy.name_any(),
            doubt(fence)
        ),
        steps: vec![
            explained(fence),
            step(
                "if that holds no more: have it fenced now, its machine is proven down all the same",
                under(policy, &view.name).command,
            ),
        ],
    }
}

/// Its name is made of the outage, so the operator begins it once.
fn over(fence: &NodeFence, policy: &NodeFencingPolicy, view: &NodeView) -> Why {
    Why {
        words: format!(
            "NodeFence {} of this outage has ended {}: {}; policy {} begins no other while it lasts{}",
            fence.name_any(),
            fences::stage(fence),
            fences::message(fence),
            policy.name_any(),
            doubt(fence)
        ),
        steps: vec![explained(fence), under(policy, &view.name)],
    }
}

fn explained(fence: &NodeFence) -> Step {
    step(
        "what happened in it",
        format!("kubectl fence explain {}", fence.name_any()),
    )
}
