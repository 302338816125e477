//! New NodeFences: the record of an incident before anything has been done about it.
//!
//! The name is made from the outage itself, so that two operators, or one that has crashed, open one record and not two.

use super::client::MANAGER;
use crate::api::fence::{NodeFence, NodeFenceSpec, Trigger, TriggerType};
use crate::api::policy::{
    FenceMode, NodeFencingPolicy, PowerOnPolicy, PowerOnSettings, UnhealthyCondition,
};
use crate::core::observed::NodeView;
use crate::core::taint;
use crate::core::window::Effective;
use jiff::Timestamp;
use kube::ResourceExt;
use sha2::{Digest, Sha256};

/// Characters of the node's name in the name of its NodeFence; a hash of the outage follows.
const NODE_NAME_CHARACTERS: usize = 40;

/// The record of a new incident: the policy's settings as they hold now, frozen, and when its wait is over.
pub fn new_fence(
    node: &NodeView,
    policy: &NodeFencingPolicy,
    effective: &Effective,
    condition: &UnhealthyCondition,
    due: Timestamp,
) -> NodeFence {
    let since = node
        .condition(&condition.type_)
        .and_then(|now| now.transition.parse().ok());
    let trigger = Trigger {
        type_: TriggerType::NodeCondition,
        condition_type: Some(condition.type_.clone()),
        condition_status: Some(condition.status),
        unhealthy_since_time: since,
        due_time: Some(due),
        requested_by: None,
        reason: effective.window.is_some().then(|| effective.words()),
    };
    let mut fence = policy.spec.fence.clone();
    fence.mode = effective.mode;
    fence.approval.mode = effective.approval;
    let spec = NodeFenceSpec {
        node_name: node.name.clone(),
        node_uid: Some(node.uid.clone()),
        boot_id: Some(node.boot_id.clone()),
        policy_name: Some(policy.name_any()),
        policy_generation: policy.metadata.generation,
        trigger,
        fence,
        recovery: policy.spec.recovery.clone(),
        release: policy.spec.release.clone(),
        power_on: power_on(policy, effective.mode),
        desired_state: Default::default(),
        approval: None,
        manual_confirmation: None,
    };
    NodeFence::new(&fence_name(node, policy, effective, condition), spec)
}

/// Nothing is turned on where a window keeps the operator from turning it off: the API server takes no such record.
fn power_on(policy: &NodeFencingPolicy, mode: FenceMode) -> PowerOnSettings {
    let asked = &policy.spec.power_on;
    match mode {
        FenceMode::PowerOff => asked.clone(),
        FenceMode::Observe | FenceMode::ConfirmOnly => PowerOnSettings {
            policy: PowerOnPolicy::Never,
            ..asked.clone()
        },
    }
}

/// A record for a taint of ours whose own record is lost. It never leads to a taint: its mode only observes. The boot that was fenced is told by the
/// mark of a deletion, and by nothing where `out-of-service` stands.
pub fn adopting_fence(node: &NodeView, name: &str) -> NodeFence {
    let trigger = Trigger {
        type_: TriggerType::External,
        condition_type: None,
        condition_status: None,
        unhealthy_since_time: None,
        due_time: None,
        requested_by: Some(MANAGER.to_owned()),
        reason: Some(format!(
            "{} of this operator was found without its NodeFence",
            taint::in_words(taint::mark_key_of_claim(node))
        )),
    };
    let fenced = taint::detaching_of_claim(node).and_then(|(_, mark)| mark.value.clone());
    let fenced = fenced.filter(|boot| !boot.is_empty());
    let spec = NodeFenceSpec {
        node_name: node.name.clone(),
        node_uid: Some(node.uid.clone()),
        boot_id: fenced,
        policy_name: None,
        policy_generation: None,
        trigger,
        fence: Default::default(),
        recovery: Default::default(),
        release: Default::default(),
        power_on: Default::default(),
        desired_state: Default::default(),
        approval: None,
        manual_confirmation: None,
    };
    NodeFence::new(name, spec)
}

/// `<node>-<hash of the outage>`. The outage is the Node, its boot, the transition of the condition, and what the policy said
/// at the time, with since when its windows say so: the same for everybody who looks, another one for the next outage.
pub fn fence_name(
    node: &NodeView,
    policy: &NodeFencingPolicy,
    effective: &Effective,
    condition: &UnhealthyCondition,
) -> String {
    let transition = node
        .condition(&condition.type_)
        .map(|now| now.transition.clone())
        .unwrap_or_default();
    let generation = policy.metadata.generation.unwrap_or_default().to_string();
    let parts = [
        &node.uid,
        &node.boot_id,
        &transition,
        &policy.uid().unwrap_or_default(),
        &generation,
    ];
    let since = effective.since.map(|since| since.to_string());
    let mut hash = Sha256::new();
    for part in parts.into_iter().chain(&since) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::fence::FENCE_NAME_CHARS_MAX;
    use crate::core::fixtures;
    use crate::core::observed::{CLAIM, DETACHING, TaintView};
    use crate::core::taint::{claim_fence, claim_value};
    use serde_json::json;

    /// S22: who adopts the mark of a deletion knows by it which boot was fenced.
    #[test]
    fn an_adopted_mark_tells_which_boot_was_fenced() {
        let node = |mark: TaintView| NodeView {
            taints: vec![
                fixtures::dated(fixtures::taint(CLAIM, "fence-n1", "NoExecute")),
                mark,
            ],
            boot_id: "boot-2".to_owned(),
            ..fixtures::node()
        };
        let mark = fixtures::dated(fixtures::taint(DETACHING, "boot-1", "NoExecute"));
        for (mark, boot, found) in [
            (mark, Some("boot-1"), DETACHING),
            (fixtures::out_of_service(), None, "out-of-service"),
        ] {
            let fence = adopting_fence(&node(mark), "fence");
            assert_eq!(fence.spec.boot_id.as_deref(), boot);
            let reason = fence.spec.trigger.reason.expect("a reason");
            assert!(reason.starts_with(found), "{reason}");
        }
    }

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

    #[test]
    fn what_a_window_does_not_let_us_turn_off_is_not_turned_on() {
        let spec = json!({"nodeSelector": {}, "fence": {"mode": "PowerOff"}, "powerOn": {"policy": "AfterRecovery"}});
        let policy = NodeFencingPolicy::new("p", serde_json::from_value(spec).expect("a spec"));
        for (mode, expected) in [
            (FenceMode::PowerOff, PowerOnPolicy::AfterRecovery),
            (FenceMode::ConfirmOnly, PowerOnPolicy::Never),
            (FenceMode::Observe, PowerOnPolicy::Never),
        ] {
            assert_eq!(power_on(&policy, mode).policy, expected, "{mode:?}");
        }
    }
}
