//! What Azure Resource Manager, Entra ID and the metadata service answer other than with a success.

use super::super::errors::{ANY_STATUS, Answers, Meaning, row, words_of_error};
use crate::http::Reply;
use serde_json::Value;

/// What Azure Resource Manager answers. Its code says what a status means; failures of its own are in no row: a command may have been carried out.
pub(super) const ANSWERS: Answers = Answers {
    table: &[
        row(429, "", "", Meaning::Busy),
        row(401, "AuthenticationFailed", "", Meaning::Login),
        row(401, "ExpiredAuthenticationToken", "", Meaning::Login),
        row(401, "InvalidAuthenticationToken", "", Meaning::Login),
        row(401, "InvalidAuthenticationTokenTenant", "", Meaning::Login),
        row(403, "AuthorizationFailed", "", Meaning::Denied),
        row(403, "LinkedAuthorizationFailed", "", Meaning::Denied),
        row(403, "RequestDisallowedByPolicy", "", Meaning::Denied),
        // A deny assignment, as managed applications and node resource groups have them.
        row(
            403,
            "DenyAssignmentAuthorizationFailed",
            "",
            Meaning::Denied,
        ),
        // A lock against all changes, which forbids commands too.
        row(409, "ScopeLocked", "", Meaning::Denied),
        row(409, "ReadOnlyDisabledSubscription", "", Meaning::Denied),
        row(404, "ResourceNotFound", "", Meaning::Missing),
        row(404, "ResourceGroupNotFound", "", Meaning::Missing),
        row(404, "ParentResourceNotFound", "", Meaning::Missing),
        row(404, "SubscriptionNotFound", "", Meaning::Missing),
        row(404, "NotFound", "", Meaning::Missing),
        // Said to a power-off alone, by machines that are being deallocated, too: the next readings tell which.
        row(
            409,
            "OperationNotAllowed",
            "is either deallocated or ",
            Meaning::Already,
        ),
        row(409, "OperationNotAllowed", "", Meaning::Refused),
        row(409, "SkuNotAvailable", "", Meaning::Refused),
        row(409, "Conflict", "concurrent request", Meaning::Busy),
        row(ANY_STATUS, "AllocationFailed", "", Meaning::Busy),
        row(ANY_STATUS, "ZonalAllocationFailed", "", Meaning::Busy),
    ],
    words: words_of_error,
    right: "the role of docs/how-to/azure.md on the machine: read, powerOff/action (start/action for `powerOn`)",
};

/// What Entra ID answers to the values of a Secret: whatever it refuses is in that.
pub(super) const SECRET: Answers = Answers {
    table: &[
        row(ANY_STATUS, "invalid_client", "", Meaning::Login),
        row(ANY_STATUS, "unauthorized_client", "", Meaning::Login),
        row(ANY_STATUS, "invalid_request", "", Meaning::Login),
        row(ANY_STATUS, "invalid_resource", "", Meaning::Denied),
        row(ANY_STATUS, "invalid_scope", "", Meaning::Denied),
        row(ANY_STATUS, "access_denied", "", Meaning::Denied),
        row(ANY_STATUS, "temporarily_unavailable", "", Meaning::Busy),
        row(429, "", "", Meaning::Busy),
    ],
    words: words_of_login,
    right: "an app registration of the tenant that may ask for tokens of Azure Resource Manager",
};

/// What Entra ID answers to the token of a pod. No account is locked by any of these, so none counts as a wrong password (F53).
pub(super) const POD: Answers = Answers {
    table: &[
        row(ANY_STATUS, "invalid_client", "", Meaning::Denied),
        row(ANY_STATUS, "unauthorized_client", "", Meaning::Denied),
        row(ANY_STATUS, "invalid_request", "", Meaning::Denied),
        row(ANY_STATUS, "invalid_grant", "", Meaning::Denied),
        row(ANY_STATUS, "invalid_resource", "", Meaning::Denied),
        row(ANY_STATUS, "invalid_scope", "", Meaning::Denied),
        row(ANY_STATUS, "access_denied", "", Meaning::Denied),
        row(ANY_STATUS, "temporarily_unavailable", "", Meaning::Busy),
        row(429, "", "", Meaning::Busy),
    ],
    words: words_of_login,
    right: "a federated credential of the identity in AZURE_CLIENT_ID that names the operator's service account",
};

/// What the metadata service of a node answers.
pub(super) const NODE: Answers = Answers {
    table: &[
        row(400, "", "", Meaning::Denied),
        row(403, "", "", Meaning::Denied),
        row(404, "", "", Meaning::Denied),
        // It is being updated.
        row(410, "", "", Meaning::Busy),
        row(429, "", "", Meaning::Busy),
    ],
    words: words_of_login,
    right: "workload identity for the operator's pod, a managed identity of its node, or a Secret in `credentialsRef`",
};

/// Code and message of a refused login (RFC 6749).
fn words_of_login(reply: &Reply) -> (String, String) {
    let body = reply.body.as_deref().unwrap_or_default();
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let word = |name: &str| body.get(name).and_then(Value::as_str).unwrap_or_default();
    // Behind the first line stand numbers for Microsoft's support.
    let message = word("error_description").lines().next();
    (
        word("error").to_owned(),
        message.unwrap_or_default().to_owned(),
    )
}
