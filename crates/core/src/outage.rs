//! Which outage of a node is this, and is there anything left to do about it? Not if it was proven down in this boot, and everything is off it; nor if a human
//! has said no.

use super::observed::NodeView;
use super::stage::Stage;
use super::taint::is_quarantined;
use super::window::Effective;
use fencing_api::conditions::{SUCCEEDED, find};
use fencing_api::fence::{ApprovalDecision, DesiredState, NodeFence};
use fencing_api::fence_status::Evidence;
use fencing_api::policy::{NodeFencingPolicy, UnhealthyCondition};
use jiff::Timestamp;
use sha2::{Digest, Sha256};

/// Characters of the node's name in the name of its NodeFence; a hash of the outage follows.
const NODE_NAME_CHARACTERS: usize = 40;

/// `<node>-<hash of the outage>`. The outage is the Node, its boot, the transition of the condition, and what the policy said
/// at the time, with since when its windows say so: the same for everybody who looks, another one for the next outage.
pub fn fence_name(
    node: &NodeView,
    policy: &NodeFencingPolicy,
    effective: &Effective,
    condition: &UnhealthyCondition,
) -> String {
    name_of(node, policy, effective, condition, None)
}

/// The same of an incident that a NodeFenceRemediation with this UID asks for. It is another record: if it ends because the remediation is
/// withdrawn, the policy opens its own once its wait is over.
pub fn asked_fence_name(
    node: &NodeView,
    policy: &NodeFencingPolicy,
    effective: &Effective,
    condition: &UnhealthyCondition,
    remediation: &str,
) -> String {
    name_of(node, policy, effective, condition, Some(remediation))
}

fn name_of(
    node: &NodeView,
    policy: &NodeFencingPolicy,
    effective: &Effective,
    condition: &UnhealthyCondition,
    remediation: Option<&str>,
) -> String {
    let transition = node
        .condition(&condition.type_)
        .map(|now| now.transition.clone())
        .unwrap_or_default();
    let generation = policy.metadata.generation.unwrap_or_default().to_string();
    let parts = [
        node.uid.as_str(),
        &node.boot_id,
        &transition,
        policy.metadata.uid.as_deref().unwrap_or_default(),
        &generation,
    ];
    let since = effective.since.map(|since| since.to_string());
    let mut hash = Sha256::new();
    let further = since.as_deref().into_iter().chain(remediation);
    for part in parts.into_iter().chain(further) {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    let digest: String = hash
        .finalize()
        .iter()
        .take(4)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let short: String = node.name.chars().take(NODE_NAME_CHARACTERS).collect();
    format!("{}-{digest}", short.trim_end_matches(['-', '.']))
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;
    use crate::taint::{claim_fence, claim_value};
    use fencing_api::fence::FENCE_NAME_CHARS_MAX;
    use serde_json::json;

    /// Two Nodes may differ in what is cut off only: the hash is of their UIDs.
    #[test]
    fn a_node_name_of_253_characters_is_cut_and_hashed_into_the_record_s() {
        let spec = json!({"nodeSelector": {}});
        let policy = NodeFencingPolicy::new("p", serde_json::from_value(spec).expect("a spec"));
        let condition: UnhealthyCondition = serde_json::from_value(
            json!({"type": "Ready", "status": "Unknown", "durationSeconds": 60}),
        )
        .expect("a condition");
        let label = "n".repeat(39);
        let long = [
            label.as_str(),
            &"x".repeat(63),
            &"y".repeat(63),
            &"z".repeat(63),
            "end",
        ]
        .join(".");
        let long = format!("{long}{}", "e".repeat(253 - long.len()));
        assert_eq!(long.len(), 253);
        let name_of = |uid: &str| {
            let node = NodeView {
                name: long.clone(),
                uid: uid.to_owned(),
                ..fixtures::node()
            };
            let effective = Effective::without_windows(&policy);
            fence_name(&node, &policy, &effective, &condition)
        };
        let name = name_of("uid-1");
        assert!(name.len() <= FENCE_NAME_CHARS_MAX, "{name}");
        assert!(
            name.starts_with(&format!("{label}-")),
            "{name}: no dot before the hyphen"
        );
        assert_eq!(name, name_of("uid-1"));
        assert_ne!(name, name_of("uid-2"));
        let claim = claim_value(&name, "deadbeef");
        assert!(claim.len() <= 63, "{claim} is no value of a taint");
        assert_eq!(claim_fence(&claim), Some(name.as_str()));
    }
}
