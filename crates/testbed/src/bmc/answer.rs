//! An answer of the BMC before it becomes bytes, and the errors of the Redfish specification.

use http::{
    Response,
    header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderName, HeaderValue},
};
use serde_json::{Value, json};

use crate::https::{Body, body_of};

/// Status, headers and JSON text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its headers.
    pub headers: Vec<(HeaderName, String)>,
    /// Its body.
    pub text: String,
}

impl Answer {
    /// 200 and this resource.
    pub(super) fn resource(resource: &Value) -> Self {
        Self::text(200, resource.to_string()).with(ALLOW, "GET, HEAD")
    }

    /// This status and this body.
    pub fn text(status: u16, text: impl Into<String>) -> Self {
        Self {
            status,
            headers: Vec::new(),
            text: text.into(),
        }
    }

    /// The same with this header.
    #[must_use]
    pub fn with(mut self, name: HeaderName, value: impl Into<String>) -> Self {
        self.headers.retain(|(other, _)| *other != name);
        self.headers.push((name, value.into()));
        self
    }

    /// An error as DSP0266 has it. The message's id is `registry.version.key`.
    pub(super) fn error(status: u16, message_id: &str, message: &str) -> Self {
        let severity = if status >= 500 { "Critical" } else { "Warning" };
        let error = json!({"error": {
            "code": "Base.1.18.GeneralError",
            "message": "A general error has occurred. See ExtendedInfo for more information.",
            "@Message.ExtendedInfo": [{
                "@odata.type": "#Message.v1_2_1.Message",
                "MessageId": message_id,
                "Message": message,
                "MessageArgs": [],
                "MessageSeverity": severity,
                "Resolution": "None.",
            }],
        }});
        Self::text(status, error.to_string())
    }

    pub(super) fn headers_into(&self, response: &mut Response<Body>) {
        let headers = response.headers_mut();
        headers.insert("OData-Version", HeaderValue::from_static("4.0"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        if !self.text.is_empty() {
            headers.insert(
                CONTENT_TYPE,
                HeaderValue::from_static("application/json; charset=utf-8"),
            );
        }
        for (name, value) in &self.headers {
            let value = HeaderValue::from_str(value).expect("a header of the BMC is text");
            headers.insert(name, value);
        }
        if self.status == 200 && !headers.contains_key(ETAG) {
            headers.insert(ETAG, HeaderValue::from_static("W/\"1\""));
        }
    }

    pub(crate) fn into_response(self) -> Response<Body> {
        let mut response = Response::new(body_of(self.text.clone()));
        *response.status_mut() =
            http::StatusCode::from_u16(self.status).expect("a status of the BMC is one");
        self.headers_into(&mut response);
        response
    }
}

/// What a service says of a status that a test wants to see.
pub(super) fn error_for(status: u16) -> Answer {
    let (message_id, message) = match status {
        400 => (
            "Base.1.18.MalformedJSON",
            "The request body submitted was malformed JSON.",
        ),
        401 => (
            "Base.1.18.NoValidSession",
            "There is no valid session established with the implementation.",
        ),
        403 => (
            "Base.1.18.InsufficientPrivilege",
            "The account does not have the privileges for this operation.",
        ),
        404 => (
            "Base.1.18.ResourceMissingAtURI",
            "The resource at the URI was not found.",
        ),
        405 => (
            "Base.1.18.OperationNotAllowed",
            "The HTTP method is not allowed on this resource.",
        ),
        406 => (
            "Base.1.18.HeaderInvalid",
            "Header Accept or OData-Version is missing or not acceptable.",
        ),
        409 => (
            "IDRAC.2.8.PSU501",
            "Unable to complete the operation because the server is already in that state.",
        ),
        412 => (
            "Base.1.18.PreconditionFailed",
            "The ETag supplied did not match the one of the resource.",
        ),
        415 => (
            "Base.1.18.UnsupportedMediaType",
            "The content type of the request is not application/json.",
        ),
        429 => (
            "Base.1.18.ServiceTemporarilyUnavailable",
            "Too many requests. Retry later.",
        ),
        503 => (
            "IDRAC.2.8.RAC0218",
            "The maximum number of user sessions is reached. Retry later.",
        ),
        _ => (
            "Base.1.18.InternalError",
            "The request failed due to an internal service error.",
        ),
    };
    Answer::error(status, message_id, message)
}
