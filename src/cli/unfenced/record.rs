//! What the records say of an outage that is not over: everything was done, somebody has said no, or an incident of it has ended as it could.

use super::{Reason, Verdict, all_the_same, because};
use crate::api::fence::{ApprovalDecision, NodeFence};
use crate::api::policy::NodeFencingPolicy;
use crate::cli::fences;
use crate::cli::trail::released;
use crate::core::observed::NodeView;
use crate::core::stage::Stage;
use kube::ResourceExt;

/// Everything was done, and the kubelet has reported nothing since.
pub(super) fn cleared(fence: &NodeFence) -> Verdict<'_> {
    let (name, stage) = (fence.name_any(), fences::stage(fence));
    let words = match stage == Stage::ConfirmedDown.to_string() {
        true => format!(
            "NodeFence {name} has proven its machine down and ended: by `recovery.strategy: None` its pods and volumes are left to whoever goes by that proof, and the operator frees none of them"
        ),
        false => format!(
            "NodeFence {name} has proven it down in this boot and ended {stage}, and its kubelet has reported nothing since: mend the machine, and boot it"
        ),
    };
    // It leads: who reads no further must not go by it.
    let doubt = fences::doubt(fence).map(|it| format!("do not go by the proof: {it}; "));
    let doubt = doubt.unwrap_or_default();
    because(Reason::Cleared(fence), format!("{doubt}{words}"))
}

/// A human has said no.
pub(super) fn refused<'a>(
    fence: &'a NodeFence,
    policy: &NodeFencingPolicy,
    node: &NodeView,
) -> Verdict<'a> {
    let name = fence.name_any();
    let answer = fence.spec.approval.as_ref();
    let denied = answer.filter(|it| it.decision == ApprovalDecision::Denied);
    let by = released(fence).and_then(|it| it.noted);
    let (reason, words) = match (denied, by) {
        (Some(it), _) => (
            Reason::Denied(fence),
            format!("NodeFence {name} was denied by {}: {}", it.user, it.reason),
        ),
        (None, None) => (
            Reason::Released(fence),
            format!("NodeFence {name} was released by a human"),
        ),
        (None, Some((user, why))) => (
            Reason::Released(fence),
            format!("NodeFence {name} was released by {user}: {why}"),
        ),
    };
    over(reason, &words, fence, policy, node)
}

/// Its policy says nothing more of this outage.
pub(super) fn over<'a>(
    reason: Reason<'a>,
    words: &str,
    fence: &NodeFence,
    policy: &NodeFencingPolicy,
    node: &NodeView,
) -> Verdict<'a> {
    let doubt = fences::in_doubt(fence);
    let words = format!("{words}; its policy begins no other for this outage{doubt}");
    Verdict {
        more: Some(all_the_same(policy, node)),
        ..because(reason, words)
    }
}
