//! Text that the API server hands on, where nothing else says what it means.

/// What the admission policy of `deploy/admission.yaml` says to a label on a Node.
pub const REFUSAL: &str = "the operator may change nothing of a Node but its taints";

/// Is a request refused because no role grants it? (`staging/src/k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/errors.go`: user, verb
/// and resource.)
#[must_use]
pub fn is_of_rbac(message: &str) -> bool {
    message.contains(" is forbidden: User ") && message.contains(" cannot ")
}

/// Is a request refused by that policy? Another refusal says nothing about the policy.
#[must_use]
pub fn is_of_guard(message: &str) -> bool {
    message.contains(REFUSAL)
}
