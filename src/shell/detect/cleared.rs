//! Is there anything left to do about a node that is down? Not if it was proven down in this boot, and everything is off it.

use crate::api::fence::NodeFence;
use crate::api::fence_status::Evidence;
use crate::core::observed::NodeView;
use crate::core::taint::is_quarantined;
use jiff::Timestamp;

/// An incident, a human's perhaps, has put the machine out of service and everything is off it, and its kubelet has reported nothing since: a
/// second one would find nothing to do, and turn off what somebody repairs. Ready may still change, when node-lifecycle notices that the
/// kubelet is silent. A machine that reports anything in the boot that was fenced never went down (S22), and is fenced again.
pub(super) fn was_cleared(fences: &[NodeFence], node: &NodeView) -> bool {
    let reported: Option<Timestamp> = node.last_report().parse().ok();
    let unready = node.condition("Ready").filter(|it| it.status != "True");
    let unready_since: Option<Timestamp> = unready.and_then(|it| it.transition.parse().ok());
    let is_all_that_was_heard = |fence: &NodeFence| {
        let status = fence.status.as_ref();
        let evidence = status.and_then(|status| status.evidence.as_ref());
        let is_last = |evidence: &Evidence| match evidence.ready_heartbeat_time {
            Some(last) => reported == Some(last),
            // The record of an operator, or of a CRD, that does not keep it: then it is enough that Ready has not changed since the end.
            None => {
                let ended = status.and_then(|status| status.completion_time);
                unready_since
                    .zip(ended)
                    .is_some_and(|(since, ended)| since <= ended)
            }
        };
        let is_tainted = status.is_some_and(|it| it.taint_applied_time.is_some());
        is_tainted && evidence.is_some_and(|it| it.node_uid == node.uid && is_last(it))
    };
    is_quarantined(node) && fences.iter().any(is_all_that_was_heard)
}
