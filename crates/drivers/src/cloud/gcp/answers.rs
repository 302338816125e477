//! What Compute Engine, and a metadata service, answer other than with a success.

use super::super::errors::{Answers, Meaning, row};
use crate::error::printable;
use crate::http::Reply;
use http::header::DATE;
use serde_json::Value;

/// Longest text of a metadata service that is shown, in characters.
const TEXT_CHARACTERS_MAX: usize = 100;

/// The permissions that the account needs, for messages.
pub(super) const RIGHT: &str = "compute.instances.get, list and stop (start for `powerOn`), and compute.zoneOperations.get in the project";

/// What an answer other than a success means: by status and reason together, since 403 is a denial, and a throttled request too. A 403 or a 400 of
/// another form may be by somebody between; Google's failures of its own are in no row: a command may have been carried out.
pub(super) const ANSWERS: Answers = Answers {
    table: &[
        row(401, "authError", "", Meaning::Login),
        row(401, "required", "", Meaning::Login),
        row(401, "UNAUTHENTICATED", "", Meaning::Login),
        row(403, "rateLimitExceeded", "", Meaning::Busy),
        row(403, "userRateLimitExceeded", "", Meaning::Busy),
        row(403, "RATE_LIMIT_EXCEEDED", "", Meaning::Busy),
        row(403, "resourceOperationRateExceeded", "", Meaning::Busy),
        row(403, "RESOURCE_OPERATION_RATE_EXCEEDED", "", Meaning::Busy),
        row(403, "quotaExceeded", "", Meaning::Busy),
        row(403, "forbidden", "", Meaning::Denied),
        row(403, "insufficientPermissions", "", Meaning::Denied),
        // The API is not enabled in the project.
        row(403, "accessNotConfigured", "", Meaning::Denied),
        row(403, "PERMISSION_DENIED", "", Meaning::Denied),
        row(404, "notFound", "", Meaning::Missing),
        // Another operation is at work on the instance.
        row(400, "resourceNotReady", "", Meaning::Busy),
        row(400, "invalid", "", Meaning::Refused),
        row(400, "badRequest", "", Meaning::Refused),
        row(400, "invalidUsage", "", Meaning::Refused),
        // A policy of the organisation.
        row(412, "conditionNotMet", "", Meaning::Refused),
        row(429, "", "", Meaning::Busy),
    ],
    words,
    right: RIGHT,
};

/// What a metadata service answers other than with a token: in plain text.
pub(super) const METADATA: Answers = Answers {
    table: &[
        row(400, "", "", Meaning::Denied),
        row(403, "", "", Meaning::Denied),
        row(404, "", "", Meaning::Denied),
        row(429, "", "", Meaning::Busy),
    ],
    words: text,
    right: "a service account by Workload Identity Federation for GKE",
};

/// Reason and message of an error of Google's form. Beside one that a wrong clock brings about stands what the service's clock shows.
fn words(reply: &Reply) -> (String, String) {
    let body = reply.body.as_deref().unwrap_or_default();
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let word = |at: &str| {
        let word = body.pointer(at).and_then(Value::as_str);
        word.filter(|it| !it.is_empty())
    };
    let code = word("/error/errors/0/reason").or_else(|| word("/error/status"));
    let message = word("/error/message").unwrap_or_default();
    let date = reply.headers.get(DATE).and_then(|it| it.to_str().ok());
    let message = match date.filter(|_| reply.status.as_u16() == 401) {
        Some(date) => format!("{message} (its clock shows {})", printable(date, 40)),
        None => message.to_owned(),
    };
    (code.unwrap_or_default().to_owned(), message)
}

fn text(reply: &Reply) -> (String, String) {
    let body = reply.body.as_deref().unwrap_or_default();
    let text = String::from_utf8_lossy(body);
    let line = text.lines().next().unwrap_or_default();
    (String::new(), printable(line.trim(), TEXT_CHARACTERS_MAX))
}
