//! What the status of an answer means, other than the few that say success.

use super::SYSTEMS;
use super::parse::ROOT;
use super::said::words;
use crate::DeviceError;
use crate::error::{UPDATE_FIRMWARE, printable};
use crate::http::Reply;
use http::StatusCode;

/// What an account needs that is to switch.
pub(super) const OPERATOR: &str = "the Operator role";

/// Does it say that the request was not carried out? A redirect does, but for 303, which names the result of what was done (RFC 9110,
/// section 15.4.4).
#[must_use]
pub fn is_refusal(status: StatusCode) -> bool {
    status.is_client_error() || status.is_redirection() && status != StatusCode::SEE_OTHER
}

/// What a status other than success means, for any request, in the device's words where it has some; `shown` takes secrets out of a text.
/// `is_named`: the path stands in the settings.
#[must_use]
pub fn error(
    endpoint: String,
    method: &str,
    path: &str,
    is_named: bool,
    reply: &Reply,
    shown: impl Fn(&str) -> String,
) -> DeviceError {
    let status = reply.status;
    let way_out = not_found(path, is_named);
    let path = shown(&printable(path, 120));
    let body = reply.body.as_deref().unwrap_or_default();
    let said = match words(body) {
        Some(words) => format!("{}: {}", status.as_u16(), shown(&words)),
        None => status.as_u16().to_string(),
    };
    let request = format!("{method} {path}");
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN if has_expired(body) => {
            DeviceError::PasswordExpired { endpoint, said }
        }
        StatusCode::UNAUTHORIZED if reply.offers_other_login => {
            DeviceError::BasicNotOffered { endpoint, said }
        }
        StatusCode::UNAUTHORIZED => DeviceError::AuthFailed { endpoint, said },
        StatusCode::FORBIDDEN => DeviceError::PermissionDenied {
            endpoint,
            request,
            said,
            right: match method {
                "POST" => OPERATOR,
                _ => "a role that may read it",
            },
        },
        StatusCode::NOT_FOUND => DeviceError::NotFound {
            endpoint,
            path,
            way_out,
        },
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
            DeviceError::Protocol {
                endpoint,
                problem,
                way_out: "set the address to the host and port where the service itself is",
            }
        }
        _ => DeviceError::Protocol {
            endpoint,
            problem: format!("{request} has the status {said}"),
            way_out: UPDATE_FIRMWARE,
        },
    }
}

/// What to look at where a path is not there.
fn not_found(path: &str, is_named: bool) -> &'static str {
    let path = path.trim_end_matches('/');
    match is_named {
        true => "set `redfish.systemID` to a system that the device has",
        false if path == SYSTEMS || path == ROOT.trim_end_matches('/') => {
            "check that Redfish is enabled there, and that the address is that of the device"
        }
        false => {
            "restart its BMC if this lasts: it returned this path itself, and is asked again later"
        }
    }
}

/// Does the service ask for another password before anything else (DSP0266)? Whichever of its messages says so.
fn has_expired(body: &[u8]) -> bool {
    String::from_utf8_lossy(body).contains("PasswordChangeRequired")
}
