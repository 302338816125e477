//! What this version can be asked to do, and what only a later one will.
//!
//! The API is larger than the code: it was designed whole, so that it need not change under its users. A field that this version
//! does not act upon must not be ignored, because somebody relies on it. A policy that sets one does nothing at all, and says
//! which field it is and what to do; so does a NodeFence that a human made.

use crate::api::fence::NodeFenceSpec;
use crate::api::policy::NodeFencingPolicySpec;
use crate::api::settings::{RecoverySettings, RecoveryStrategy};

/// What of this policy is not supported yet; none: it can act.
pub fn unsupported(spec: &NodeFencingPolicySpec) -> Option<String> {
    let windows = (!spec.windows.is_empty()).then_some(
        "`windows` (remove them, and use `pauseRequests` or `fence.approval.mode: Manual`)",
    );
    let fields = windows.into_iter().chain(settings(&spec.recovery));
    named(fields.collect(), "so the policy does nothing")
}

/// What of this NodeFence is not supported yet; none: it can be acted upon.
pub fn unsupported_fence(spec: &NodeFenceSpec) -> Option<String> {
    let fields = settings(&spec.recovery);
    named(
        fields.into_iter().collect(),
        "so nothing is done; create another NodeFence without it",
    )
}

/// Of the settings that policies and NodeFences share.
fn settings(recovery: &RecoverySettings) -> Option<&'static str> {
    (recovery.strategy == RecoveryStrategy::DeleteNode)
        .then_some("`recovery.strategy: DeleteNode` (set it to OutOfServiceTaint)")
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
        let window = json!({"name": "night", "days": ["Mon"], "start": "22:00", "end": "06:00", "mode": "Observe"});
        let table = [
            (json!({"windows": [window]}), "`windows`", "`pauseRequests`"),
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
        let window = json!({"name": "night", "days": ["Mon"], "start": "22:00", "end": "06:00", "mode": "Observe"});
        let both = json!({"windows": [window], "recovery": {"strategy": "DeleteNode"}});
        let words = unsupported(&spec(both)).expect("unsupported");
        assert!(
            words.contains("windows") && words.contains("recovery"),
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
        let delete = json!({"recovery": {"strategy": "DeleteNode"}});
        let words = unsupported_fence(&fence(delete)).expect("unsupported");
        assert!(
            words.contains("`recovery.strategy") && words.contains("another NodeFence"),
            "{words}"
        );
    }
}
