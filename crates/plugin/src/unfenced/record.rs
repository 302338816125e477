//! What the records say of an outage that is not over: everything was done, somebody has said no, or an incident of it has ended as it could.

use crate::fences;
use crate::trail::released;
use fencing_api::fence::{ApprovalDecision, NodeFence};
use fencing_core::protection::Obstacle;
use fencing_core::stage::Stage;
use fencing_drivers::manual;
use kube::ResourceExt;

/// What the record says that is in the way, and what else is said where no steps follow; none: it is no record that has ended.
pub(super) fn words(obstacle: &Obstacle<'_>) -> Option<(String, Option<String>)> {
    match obstacle {
        Obstacle::Cleared(fence) => Some((cleared(fence), None)),
        Obstacle::Refused(fence) => Some(over(&refused(fence), fence)),
        Obstacle::Ended(fence) => {
            let words = format!(
                "NodeFence {} of this outage has ended {}: {}",
                fence.name_any(),
                fences::stage(fence),
                fences::message(fence)
            );
            Some(over(&words, fence))
        }
        _ => None,
    }
}

/// Everything was done, and the kubelet has reported nothing since.
fn cleared(fence: &NodeFence) -> String {
    let (name, stage) = (fence.name_any(), fences::stage(fence));
    let words = match stage == Stage::ConfirmedDown.to_string() {
        true => format!(
            "NodeFence {name} confirmed its machine off and ended (`recovery.strategy: None`): the consumer of that proof, not the operator, frees its volumes"
        ),
        false => format!(
            "NodeFence {name} {} in this boot and ended {stage}, and its kubelet has not reported since; repair the machine, and boot it",
            took(fence)
        ),
    };
    format!("{}{words}", doubt(fence))
}

/// A word alone is no proof.
fn took(fence: &NodeFence) -> &'static str {
    let evidence = fence.status.as_ref().and_then(|it| it.evidence.as_ref());
    let mut readings = evidence.into_iter().flat_map(|it| &it.readings).peekable();
    match readings.peek().is_some() && readings.all(|it| manual::is_word(&it.raw)) {
        true => "had it confirmed off by hand",
        false => "confirmed it off",
    }
}

/// A human has said no.
fn refused(fence: &NodeFence) -> String {
    let name = fence.name_any();
    let answer = fence.spec.approval.as_ref();
    let denied = answer.filter(|it| it.decision == ApprovalDecision::Denied);
    let by = released(fence).and_then(|it| it.noted);
    match (denied, by) {
        (Some(it), _) => format!("NodeFence {name} was denied by {}: {}", it.user, it.reason),
        (None, None) => format!("NodeFence {name} was released by a user"),
        (None, Some((user, why))) => format!("NodeFence {name} was released by {user}: {why}"),
    }
}

/// It leads: who reads no further must not go by the proof.
fn doubt(fence: &NodeFence) -> String {
    let doubt = fences::doubt(fence).map(|it| format!("do not rely on the proof: {it}; "));
    doubt.unwrap_or_default()
}

/// Its policy says nothing more of this outage.
fn over(words: &str, fence: &NodeFence) -> (String, Option<String>) {
    let words = format!(
        "{}{words}; its policy opens no other for this outage",
        doubt(fence)
    );
    let more = format!(
        "to {} anyway: {} --reason WHY",
        fences::once_more(fence),
        fences::anew(fence)
    );
    (words, Some(more))
}
