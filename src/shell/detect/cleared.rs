//! Is there anything left to do about a node that is down? Not if it was proven down in this boot, and everything is off it; nor if a human
//! has said no.

use crate::api::conditions::{SUCCEEDED, find};
use crate::api::fence::{ApprovalDecision, DesiredState, NodeFence};
use crate::api::fence_status::Evidence;
use crate::api::policy::UnhealthyCondition;
use crate::core::observed::NodeView;
use crate::core::stage::Stage;
use crate::core::taint::is_quarantined;
use jiff::Timestamp;

/// An incident, a human's perhaps, has put the machine out of service and everything is off it, or has proven it down for somebody else to
/// free what is on it (`recovery.strategy: None`), and its kubelet has reported nothing since: a second one would find nothing to do, and turn
/// off what somebody repairs. Ready may still change, when node-lifecycle notices that the
/// kubelet is silent. A machine that reports anything in the boot that was fenced never went down (S22), and is fenced again.
pub fn cleared_by<'a>(fences: &'a [NodeFence], node: &NodeView) -> Option<&'a NodeFence> {
    let reported: Option<Timestamp> = node.last_report().parse().ok();
    let unready = node.condition("Ready").filter(|it| it.status != "True");
    let unready_since: Option<Timestamp> = unready.and_then(|it| it.transition.parse().ok());
    let is_all_that_was_heard = |fence: &&NodeFence| {
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
        let succeeded = status.and_then(|status| find(&status.conditions, SUCCEEDED));
        // What a human has only asked for leaves the policy's own fence to come.
        let is_left_as_it_is = fence.spec.policy_name.is_some()
            && succeeded.is_some_and(|it| it.reason == Stage::ConfirmedDown.to_string());
        (is_tainted && is_quarantined(node) || is_left_as_it_is)
            && evidence.is_some_and(|it| it.node_uid == node.uid && is_last(it))
    };
    fences.iter().find(is_all_that_was_heard)
}

/// A human has denied or released an incident before anything was done, and this condition was there by then: it is the outage of which the
/// human has spoken. Whatever the policy, or another one, says by now, which gives the record of a new incident another name: who wants a
/// fence all the same asks for one.
///
/// The condition for which it was opened is the same outage if it has the date that it had: that date is the Node's own. Of any other one only
/// the date of the end tells, which another clock has written.
pub fn refused_by<'a>(
    fences: &'a [NodeFence],
    node: &NodeView,
    condition: &UnhealthyCondition,
) -> Option<&'a NodeFence> {
    let now = node.condition(&condition.type_);
    let since: Option<Timestamp> = now.and_then(|it| it.transition.parse().ok());
    let was_there = |fence: &NodeFence| {
        let trigger = &fence.spec.trigger;
        let is_its_own = trigger.condition_type.as_ref() == Some(&condition.type_)
            && trigger.condition_status == Some(condition.status);
        let ended = fence.status.as_ref().and_then(|it| it.completion_time);
        match trigger.unhealthy_since_time.filter(|_| is_its_own) {
            Some(then) => since == Some(then),
            None => since.is_some_and(|since| Some(since) <= ended),
        }
    };
    let is_refused = |fence: &&NodeFence| {
        let (spec, status) = (&fence.spec, fence.status.as_ref());
        let approval = spec.approval.as_ref();
        let denied = approval.is_some_and(|it| it.decision == ApprovalDecision::Denied);
        let is_tainted = status.is_some_and(|it| it.taint_applied_time.is_some());
        (denied || spec.desired_state == DesiredState::Released)
            && !is_tainted
            && spec.node_uid.as_deref() == Some(&node.uid)
            && spec.boot_id.as_deref() == Some(&node.boot_id)
            && was_there(fence)
    };
    fences.iter().find(is_refused)
}
