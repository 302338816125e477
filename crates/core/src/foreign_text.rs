//! Text that the API server writes for people, where nothing else says what it means.

/// Are these the API server's words for the denial of an admission policy or a webhook, or for a webhook that does not answer? Only RBAC
/// is known by its 403: a policy that names no reason denies with 422, a webhook with 400, and one that does not answer is 500
/// (`k8s.io/apiserver/pkg/admission/plugin/{policy/validating,webhook}`, v1.36).
#[must_use]
pub fn is_denial(message: &str) -> bool {
    let phrases = [
        " denied request: ",
        " denied the request",
        "failed calling webhook ",
    ];
    phrases.iter().any(|phrase| message.contains(phrase))
}
