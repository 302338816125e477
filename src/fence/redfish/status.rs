//! What the status of an answer means, other than the few that say success.

use super::said::words;
use crate::fence::DeviceError;
use crate::fence::error::printable;
use crate::fence::http::Reply;
use http::StatusCode;

/// Does it say that the request was not carried out? A redirect does, but for 303, which names the result of what was done (RFC 9110,
/// section 15.4.4).
#[must_use]
pub fn is_refusal(status: StatusCode) -> bool {
    status.is_client_error() || status.is_redirection() && status != StatusCode::SEE_OTHER
}

/// What a status other than success means, for any request, in the device's words where it has some; `shown` takes secrets out of a text.
#[must_use]
pub fn error(
    endpoint: String,
    method: &str,
    path: &str,
    reply: &Reply,
    shown: impl Fn(&str) -> String,
) -> DeviceError {
    let status = reply.status;
    let path = shown(&printable(path, 120));
    let said = match words(reply.body.as_deref().unwrap_or_default()) {
        Some(words) => format!("{}: {}", status.as_u16(), shown(&words)),
        None => status.as_u16().to_string(),
    };
    let request = format!("{method} {path}");
    match status {
        StatusCode::UNAUTHORIZED if reply.offers_other_login => {
            DeviceError::BasicNotOffered { endpoint, said }
        }
        StatusCode::UNAUTHORIZED => DeviceError::AuthFailed { endpoint, said },
        StatusCode::FORBIDDEN => DeviceError::PermissionDenied {
            endpoint,
            request,
            said,
        },
        StatusCode::NOT_FOUND => DeviceError::NotFound { endpoint, path },
        _ if status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() => {
            DeviceError::Busy {
                endpoint,
                request,
                said,
                retry_after: reply.retry_after,
            }
        }
        _ if status.is_redirection() => {
            let problem =
                format!("{request} is answered by a redirect ({said}), which is never followed");
            DeviceError::Protocol { endpoint, problem }
        }
        _ => DeviceError::Protocol {
            endpoint,
            problem: format!("{request} has the status {said}"),
        },
    }
}
