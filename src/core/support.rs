//! What this version can be asked to do, and what only a later one will.
//!
//! The API is larger than the code: it was designed whole, so that it need not change under its users. A field that this version
//! does not act upon must not be ignored, because somebody relies on it. A policy that sets one does nothing at all, and says
//! which field it is and what to do; so does a NodeFence that a human made.

use crate::api::fence::NodeFenceSpec;
use crate::api::policy::NodeFencingPolicySpec;
use crate::api::settings::{PowerOnPolicy, PowerOnSettings, RecoverySettings, RecoveryStrategy};

/// What of this policy is not supported yet; none: it can act.
pub fn unsupported(spec: &NodeFencingPolicySpec) -> Option<String> {
    let fields = settings(&spec.power_on, &spec.recovery);
    named(fields.collect(), "so the policy does nothing")
}

/// What of this NodeFence is not supported yet; none: it can be acted upon.
pub fn unsupported_fence(spec: &NodeFenceSpec) -> Option<String> {
    let fields = settings(&spec.power_on, &spec.recovery);
    named(
        fields.collect(),
        "so nothing is done; create another NodeFence without it",
    )
}

/// Of the settings that policies and NodeFences share.
fn settings(
    power_on: &PowerOnSettings,
    recovery: &RecoverySettings,
) -> impl Iterator<Item = &'static str> {
    let fields = [
        (
            power_on.policy != PowerOnPolicy::Never,
            "`powerOn.policy: AfterRecovery` (set it to Never, and turn the machine on by hand)",
        ),
        (
            recovery.strategy == RecoveryStrategy::DeleteNode,
            "`recovery.strategy: DeleteNode` (set it to OutOfServiceTaint)",
        ),
    ];
    fields
        .into_iter()
        .filter_map(|(is_set, name)| is_set.then_some(name))
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

    fn spec(extra: Value) -> NodeFencingPolicySpec {
        let mut whole = json!({"nodeSelector": {}});
        json_patch::merge(&mut whole, &extra);
        serde_json::from_value(whole).expect("a spec")
    }

    #[test]
    fn a_plain_policy_is_supported() {
        assert_eq!(unsupported(&spec(json!({}))), None);
    }

    #[test]
    fn each_field_is_named_with_its_way_out() {
        let table = [
            (
                json!({"powerOn": {"policy": "AfterRecovery"}}),
                "`powerOn.policy",
                "Never",
            ),
            (
                json!({"recovery": {"strategy": "DeleteNode"}}),
                "`recovery.strategy",
                "OutOfServiceTaint",
            ),
        ];
        for (extra, field, way_out) in table {
            let words = unsupported(&spec(extra)).expect("unsupported");
            assert!(words.contains(field) && words.contains(way_out), "{words}");
        }
    }

    #[test]
    fn several_fields_are_named_at_once() {
        let both =
            json!({"powerOn": {"policy": "AfterRecovery"}, "recovery": {"strategy": "DeleteNode"}});
        let words = unsupported(&spec(both)).expect("unsupported");
        assert!(
            words.contains("powerOn") && words.contains("recovery"),
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
        assert_eq!(unsupported_fence(&fence(json!({}))), None);
        for (extra, field) in [
            (
                json!({"powerOn": {"policy": "AfterRecovery"}}),
                "`powerOn.policy",
            ),
            (
                json!({"recovery": {"strategy": "DeleteNode"}}),
                "`recovery.strategy",
            ),
        ] {
            let words = unsupported_fence(&fence(extra)).expect("unsupported");
            assert!(
                words.contains(field) && words.contains("another NodeFence"),
                "{words}"
            );
        }
    }
}
