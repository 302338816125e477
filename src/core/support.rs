//! What this version can be asked to do, and what only a later one will.
//!
//! The API is larger than the code: it was designed whole, so that it need not change under its users. A field that this version
//! does not act upon must not be ignored, because somebody relies on it. A policy that sets one does nothing at all, and says
//! which field it is and what to do.

use crate::api::policy::NodeFencingPolicySpec;
use crate::api::settings::{PowerOnPolicy, RecoveryStrategy};

/// What of this policy is not supported yet; none: it can act.
pub fn unsupported(spec: &NodeFencingPolicySpec) -> Option<String> {
    let fields = [
        (
            !spec.windows.is_empty(),
            "`windows` (remove them, and use `pauseRequests` or `fence.approval.mode: Manual`)",
        ),
        (
            spec.power_on.policy != PowerOnPolicy::Never,
            "`powerOn.policy: AfterRecovery` (set it to Never, and turn the machine on by hand)",
        ),
        (
            spec.recovery.strategy == RecoveryStrategy::DeleteNode,
            "`recovery.strategy: DeleteNode` (set it to OutOfServiceTaint)",
        ),
    ];
    let named = fields
        .into_iter()
        .filter_map(|(is_set, name)| is_set.then_some(name));
    let named: Vec<&str> = named.collect();
    (!named.is_empty()).then(|| {
        format!(
            "this version does not implement {} yet, so the policy does nothing",
            named.join(", ")
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
}
