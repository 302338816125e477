//! What this version can be asked to do, and what only a later one will.
//!
//! The API is larger than the code: it was designed whole, so that it need not change under its users. A field that this version
//! does not act upon must not be ignored, because somebody relies on it. A policy that sets one does nothing at all, and says
//! which field it is and what to do; so does a NodeFence that a human made. The same holds for what takes rights that the operator does not
//! have: deleting a Node.

use crate::api::fence::NodeFenceSpec;
use crate::api::policy::NodeFencingPolicySpec;
use crate::api::settings::{PowerOnPolicy, PowerOnSettings, RecoverySettings, RecoveryStrategy};

/// What of this policy is not supported yet; none: it can act. `rights` says what the operator may not do that deleting a Node takes.
pub fn unsupported(spec: &NodeFencingPolicySpec, rights: Option<&str>) -> Option<String> {
    let windows = (!spec.windows.is_empty()).then_some(
        "`windows` (remove them, and use `pauseRequests` or `fence.approval.mode: Manual`)",
    );
    let fields = windows.into_iter().chain(settings(&spec.power_on));
    let so = "so the policy does nothing";
    named(fields.collect(), so).or_else(|| not_allowed(&spec.recovery, rights, so))
}

/// What of this NodeFence is not supported yet; none: it can be acted upon.
pub fn unsupported_fence(spec: &NodeFenceSpec, rights: Option<&str>) -> Option<String> {
    let fields = settings(&spec.power_on);
    let so = "so nothing is done; create another NodeFence without it";
    named(fields.collect(), so).or_else(|| {
        let so = "so nothing is done before that";
        not_allowed(&spec.recovery, rights, so)
    })
}

/// Does the policy, or the NodeFence, have its Nodes deleted?
pub fn deletes_nodes(recovery: &RecoverySettings) -> bool {
    recovery.strategy == RecoveryStrategy::DeleteNode
}

/// Of the settings that policies and NodeFences share.
fn settings(power_on: &PowerOnSettings) -> impl Iterator<Item = &'static str> {
    let is_set = power_on.policy != PowerOnPolicy::Never;
    let words =
        "`powerOn.policy: AfterRecovery` (set it to Never, and turn the machine on by hand)";
    is_set.then_some(words).into_iter()
}

fn not_allowed(recovery: &RecoverySettings, rights: Option<&str>, so: &str) -> Option<String> {
    let rights = rights.filter(|_| deletes_nodes(recovery))?;
    Some(format!(
        "`recovery.strategy: DeleteNode` takes rights of its own, and {rights}: set `rbac.deleteNode` in the chart, or add the component deploy/delete-node; or set `recovery.strategy` to OutOfServiceTaint, which needs none of them; {so}"
    ))
}

fn named(fields: Vec<&str>, so: &str) -> Option<String> {
    (!fields.is_empty()).then(|| {
        format!(
            "this version does not implement {} yet, {so}",
            fields.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const LACKS: &str = "RBAC does not grant the operator delete nodes";

    fn spec(extra: Value) -> NodeFencingPolicySpec {
        let mut whole = json!({"nodeSelector": {}});
        json_patch::merge(&mut whole, &extra);
        serde_json::from_value(whole).expect("a spec")
    }

    #[test]
    fn a_plain_policy_is_supported_whatever_rights_the_operator_lacks() {
        assert_eq!(unsupported(&spec(json!({})), Some(LACKS)), None);
    }

    #[test]
    fn each_field_is_named_with_its_way_out() {
        let window = json!({"name": "night", "days": ["Mon"], "start": "22:00", "end": "06:00", "mode": "Observe"});
        let table = [
            (json!({"windows": [window]}), "`windows`", "`pauseRequests`"),
            (
                json!({"powerOn": {"policy": "AfterRecovery"}}),
                "`powerOn.policy",
                "Never",
            ),
        ];
        for (extra, field, way_out) in table {
            let words = unsupported(&spec(extra), None).expect("unsupported");
            assert!(words.contains(field) && words.contains(way_out), "{words}");
        }
    }

    #[test]
    fn several_fields_are_named_at_once() {
        let window = json!({"name": "night", "days": ["Mon"], "start": "22:00", "end": "06:00", "mode": "Observe"});
        let both = json!({"powerOn": {"policy": "AfterRecovery"}, "windows": [window]});
        let words = unsupported(&spec(both), None).expect("unsupported");
        assert!(
            words.contains("powerOn") && words.contains("windows"),
            "{words}"
        );
    }

    /// A NodeFence that a human made.
    fn fence(extra: Value) -> NodeFenceSpec {
        let trigger = json!({"type": "Manual", "requestedBy": "alice", "reason": "dark"});
        let mut whole = json!({"nodeName": "w1", "trigger": trigger});
        json_patch::merge(&mut whole, &extra);
        serde_json::from_value(whole).expect("a spec")
    }

    #[test]
    fn a_humans_fence_is_judged_by_the_same_fields() {
        assert_eq!(unsupported_fence(&fence(json!({})), Some(LACKS)), None);
        let extra = json!({"powerOn": {"policy": "AfterRecovery"}});
        let words = unsupported_fence(&fence(extra), None).expect("unsupported");
        assert!(
            words.contains("`powerOn.policy") && words.contains("another NodeFence"),
            "{words}"
        );
    }

    /// No Node is deleted without the rights that somebody has to give: which, and where, is said.
    #[test]
    fn a_node_is_deleted_only_where_the_operator_may() {
        let deletes = json!({"recovery": {"strategy": "DeleteNode"}});
        assert_eq!(unsupported(&spec(deletes.clone()), None), None);
        assert_eq!(unsupported_fence(&fence(deletes.clone()), None), None);
        let of_policy = unsupported(&spec(deletes.clone()), Some(LACKS)).expect("words");
        let of_fence = unsupported_fence(&fence(deletes), Some(LACKS)).expect("words");
        for words in [of_policy, of_fence] {
            assert!(
                words.contains(LACKS) && words.contains("`rbac.deleteNode`"),
                "{words}"
            );
        }
    }
}
