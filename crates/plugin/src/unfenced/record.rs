//! What the records say of an outage that is not over: everything was done, somebody has said no, or an incident of it has ended as it could.

use super::{Reason, Verdict, because};
use crate::fences;
use crate::trail::released;
use fencing_api::fence::{ApprovalDecision, NodeFence};
use fencing_core::stage::Stage;
use fencing_drivers::manual;
use kube::ResourceExt;

/// Everything was done, and the kubelet has reported nothing since.
pub(super) fn cleared(fence: &NodeFence) -> Verdict<'_> {
    let (name, stage) = (fence.name_any(), fences::stage(fence));
    let words = match stage == Stage::ConfirmedDown.to_string() {
        true => format!(
            "NodeFence {name} has proven its machine down and ended: by `recovery.strategy: None` its pods and volumes are left to whoever goes by that proof, and the operator frees none of them"
        ),
        false => format!(
            "NodeFence {name} {} in this boot and ended {stage}, and its kubelet has reported nothing since: mend the machine, and boot it",
            took(fence)
        ),
    };
    because(Reason::Cleared(fence), format!("{}{words}", doubt(fence)))
}

/// A word alone is no proof.
fn took(fence: &NodeFence) -> &'static str {
    let evidence = fence.status.as_ref().and_then(|it| it.evidence.as_ref());
    let mut readings = evidence.into_iter().flat_map(|it| &it.readings).peekable();
    match readings.peek().is_some() && readings.all(|it| manual::is_word(&it.raw)) {
        true => "has taken it for down by a human's word",
        false => "has proven it down",
    }
}

/// A human has said no.
pub(super) fn refused(fence: &NodeFence) -> Verdict<'_> {
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
    over(reason, &words, fence)
}

/// It leads: who reads no further must not go by the proof.
fn doubt(fence: &NodeFence) -> String {
    let doubt = fences::doubt(fence).map(|it| format!("do not go by the proof: {it}; "));
    doubt.unwrap_or_default()
}

/// Its policy says nothing more of this outage.
pub(super) fn over<'a>(reason: Reason<'a>, words: &str, fence: &NodeFence) -> Verdict<'a> {
    let words = format!(
        "{}{words}; its policy begins no other for this outage",
        doubt(fence)
    );
    Verdict {
        more: Some(format!(
            "to {} all the same: {} --reason WHY",
            fences::once_more(fence),
            fences::anew(fence)
        )),
        ..because(reason, words)
    }
}
