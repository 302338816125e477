//! What takes more than the operator has been given: rights that nothing grants by itself.
//!
//! A field must not be ignored because the operator may not act upon it: somebody relies on it. A policy that has its Nodes deleted where
//! nobody has allowed that does nothing at all, and says what is missing and what to do; so does such a NodeFence of a human.

use fencing_api::fence::NodeFenceSpec;
use fencing_api::policy::NodeFencingPolicySpec;
use fencing_api::settings::{RecoverySettings, RecoveryStrategy};

/// What keeps this policy from acting; none: it can. `rights` says what the operator may not do that deleting a Node takes.
pub fn unsupported(spec: &NodeFencingPolicySpec, rights: Option<&str>) -> Option<String> {
    not_allowed(
        &spec.procedure.recovery,
        rights,
        "so the policy is inactive",
    )
}

/// What keeps this NodeFence from being acted upon; none: nothing does.
pub fn unsupported_fence(spec: &NodeFenceSpec, rights: Option<&str>) -> Option<String> {
    not_allowed(&spec.procedure.recovery, rights, "so nothing is done")
}

/// Does the policy, or the NodeFence, have its Nodes deleted?
pub fn deletes_nodes(recovery: &RecoverySettings) -> bool {
    recovery.strategy == RecoveryStrategy::DeleteNode
}

fn not_allowed(recovery: &RecoverySettings, rights: Option<&str>, so: &str) -> Option<String> {
    let rights = rights.filter(|_| deletes_nodes(recovery))?;
    Some(format!(
        "`recovery.strategy: DeleteNode` requires rights ({rights}), {so}; set `rbac.deleteNode` in the chart, add deploy/delete-node, or set `recovery.strategy` to OutOfServiceTaint"
    ))
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

    /// A NodeFence that a human made.
    fn fence(extra: Value) -> NodeFenceSpec {
        let trigger = json!({"type": "Manual", "requestedBy": "alice", "reason": "dark"});
        let mut whole = json!({"nodeName": "w1", "trigger": trigger});
        json_patch::merge(&mut whole, &extra);
        serde_json::from_value(whole).expect("a spec")
    }

    #[test]
    fn what_deletes_no_node_acts_whatever_rights_the_operator_lacks() {
        assert_eq!(unsupported(&spec(json!({})), Some(LACKS)), None);
        assert_eq!(unsupported_fence(&fence(json!({})), Some(LACKS)), None);
    }

    /// No Node is deleted without the rights that somebody has to give: which, and where, is said.
    #[test]
    fn a_node_is_deleted_only_where_the_operator_may() {
        let deletes = json!({"recovery": {"strategy": "DeleteNode"}});
        assert_eq!(unsupported(&spec(deletes.clone()), None), None);
        assert_eq!(unsupported_fence(&fence(deletes.clone()), None), None);
        let of_policy = unsupported(&spec(deletes.clone()), Some(LACKS)).expect("words");
        let of_fence = unsupported_fence(&fence(deletes), Some(LACKS)).expect("words");
        for message in [of_policy, of_fence] {
            assert!(
                message.contains(LACKS) && message.contains("`rbac.deleteNode`"),
                "{message}"
            );
        }
    }
}
