//! What the API servers of our own have in common: who is let in, how they refuse, and lists in pages.

use http::header::{ACCEPT, AUTHORIZATION};
use serde_json::{Value, json};

use super::View;
use crate::{bmc::Answer, https::Call};

/// The token of the account.
pub const TOKEN: &str = "eyJhbGciOiJSUzI1NiJ9-infra-token";

/// A kubeconfig with the token, for the API server at this URL.
pub fn kubeconfig(url: &str) -> String {
    KUBECONFIG.replace("$URL", url)
}

/// The same with `$URL` in the place of the URL.
pub const KUBECONFIG: &str = "apiVersion: v1\nkind: Config\ncurrent-context: infra\n\
    clusters: [{name: infra, cluster: {server: '$URL'}}]\n\
    contexts: [{name: infra, context: {cluster: infra, user: fence}}]\n\
    users: [{name: fence, user: {token: eyJhbGciOiJSUzI1NiJ9-infra-token}}]\n";

/// The kind of a list of metadata alone.
const HEADS: &str = "PartialObjectMetadataList";
/// Where an account asks what it may do.
pub const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// Has the request the token?
pub(super) fn has_token(call: &Call) -> bool {
    let header = call.head.headers.get(AUTHORIZATION);
    header.is_some_and(|it| it.as_bytes() == format!("Bearer {TOKEN}").as_bytes())
}

/// A document.
pub(super) fn json(value: &Value) -> Answer {
    Answer::text(200, value.to_string())
}

/// What an account that may do all of it is told.
pub(super) fn allowed() -> Answer {
    let review = json!({
        "kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "metadata": {},
        "status": {"allowed": true},
    });
    Answer::text(201, review.to_string())
}

/// An error without the object that it is about.
pub(super) fn error(status: u16, words: &str) -> Answer {
    failure(status, words, json!({}))
}

/// There is no such object.
pub(super) fn absent(group: &str, resource: &str, name: &str) -> Answer {
    let full = match group {
        "" => resource.to_owned(),
        group => format!("{resource}.{group}"),
    };
    let details = json!({"name": name, "group": group, "kind": resource});
    failure(404, &format!("{full} \"{name}\" not found"), details)
}

fn failure(status: u16, words: &str, details: Value) -> Answer {
    let reason = match status {
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        422 => "Invalid",
        _ => "InternalError",
    };
    let failure = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": words, "reason": reason,
        "details": details, "code": status,
    });
    Answer::text(status, failure.to_string())
}

/// A page of a list, as `limit` and `continue` want it.
pub(super) fn list(kind: &str, items: impl Iterator<Item = Value>, view: &View<'_>) -> Answer {
    let query = view.head.uri.query().unwrap_or_default();
    let of = |name: &str| {
        let mut all = query.split('&').filter_map(|it| it.split_once('='));
        let value = all.find_map(|(key, value)| (key == name).then_some(value));
        value.and_then(|it| it.parse::<usize>().ok())
    };
    let (size, begin) = (
        of("limit").unwrap_or(usize::MAX),
        of("continue").unwrap_or(0),
    );
    let accepts = view.head.headers.get(ACCEPT);
    let accepts = accepts.and_then(|it| it.to_str().ok()).unwrap_or_default();
    let is_heads = accepts.contains(HEADS);
    // Metadata alone, where that is what is accepted.
    let shown = |item: Value| match is_heads {
        true => json!({"metadata": item["metadata"]}),
        false => item,
    };
    let kind = if is_heads { HEADS } else { kind };
    let mut rest = items.skip(begin);
    let page: Vec<Value> = rest.by_ref().take(size).map(shown).collect();
    let mut metadata = json!({"resourceVersion": "100"});
    if rest.next().is_some() {
        metadata["continue"] = json!((begin + page.len()).to_string());
    }
    json(&json!({"kind": kind, "apiVersion": "v1", "metadata": metadata, "items": page}))
}
