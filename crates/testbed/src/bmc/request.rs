//! A request as the service sees it.

use http::Method;
use serde_json::Value;

use super::{
    answer::{Answer, error_for},
    faults::{BmcFaults, Which},
    log::{Auth, SentHeaders},
};

/// Method, path, headers and body, and where it stands in the log.
pub(super) struct Asked {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) query: String,
    pub(super) auth: Auth,
    pub(super) headers: SentHeaders,
    pub(super) content_type: String,
    pub(super) body: bytes::Bytes,
    /// Index in the log.
    pub(super) index: usize,
}

impl Asked {
    /// `ResetType` of the request, if it is a reset; `?` if it does not say.
    pub(super) fn reset_type(&self) -> Option<String> {
        let is_reset = self.method == Method::POST && self.path.ends_with("/ComputerSystem.Reset");
        is_reset.then(|| {
            let body: Value = serde_json::from_slice(&self.body).unwrap_or_default();
            body["ResetType"].as_str().unwrap_or("?").to_owned()
        })
    }

    /// Is it one of these?
    pub(super) fn is(&self, which: &Which) -> bool {
        let is_read = self.method == Method::GET;
        let reset_type = self.reset_type();
        match which {
            Which::Any => true,
            Which::Read => is_read,
            Which::SystemRead => {
                let id = self.path.strip_prefix("/redfish/v1/Systems/");
                is_read && id.is_some_and(|id| !id.contains('/'))
            }
            Which::Reset => reset_type.is_some(),
            Which::PowerOn => matches!(reset_type.as_deref(), Some("On" | "ForceOn")),
            Which::ForceOff => reset_type.as_deref() == Some("ForceOff"),
            Which::PathEndsWith(end) => self.path.ends_with(end),
        }
    }

    /// Why it is refused for its headers, if it is.
    pub(super) fn refuse_headers(&self, faults: &BmcFaults) -> Option<Answer> {
        let version = self.headers.odata_version.as_deref();
        let accept = self.headers.accept.as_deref();
        if version.is_some_and(|version| version != "4.0") {
            return Some(error_for(412));
        }
        let acceptable =
            |accept: &str| accept.contains("application/json") || accept.contains("*/*");
        if accept.is_some_and(|accept| !acceptable(accept)) {
            return Some(error_for(406));
        }
        (faults.strict_headers && (version.is_none() || accept.is_none())).then(|| error_for(406))
    }
}
