//! Answers, and the errors among them in the API server's own words.

use crate::kinds::Kind;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use serde_json::{Value, json};
use std::convert::Infallible;

/// The body of a response.
pub type Body = UnsyncBoxBody<Bytes, Infallible>;

/// What the server answers.
pub enum Answer {
    /// Status and body.
    Whole(u16, Bytes),
    /// A watch: lines of JSON, without an end of its own.
    Watch(BoxStream<'static, Bytes>),
}

impl Answer {
    /// This object.
    #[must_use]
    pub fn object(code: u16, object: &Value) -> Self {
        Self::Whole(code, object.to_string().into())
    }

    /// The HTTP status.
    #[must_use]
    pub fn code(&self) -> u16 {
        match self {
            Self::Whole(code, _) => *code,
            Self::Watch(_) => 200,
        }
    }

    /// As an HTTP response.
    #[must_use]
    pub fn into_response(self) -> http::Response<Body> {
        let code = self.code();
        let body = match self {
            Self::Whole(_, bytes) => Full::new(bytes).boxed_unsync(),
            Self::Watch(lines) => {
                StreamBody::new(lines.map(|line| Ok(Frame::data(line)))).boxed_unsync()
            }
        };
        let mut response = http::Response::new(body);
        *response.status_mut() = http::StatusCode::from_u16(code).unwrap_or_default();
        let json = http::HeaderValue::from_static("application/json");
        let headers = response.headers_mut();
        headers.insert(http::header::CONTENT_TYPE, json);
        response
    }
}

/// A refusal, as the API server words it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// HTTP status.
    pub code: u16,
    /// `reason`.
    pub reason: &'static str,
    /// `message`.
    pub message: String,
}

impl Refusal {
    /// With this status, reason and message.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
        }
    }

    /// There is no such object.
    #[must_use]
    pub fn not_found(kind: &Kind, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", kind.resource());
        Self::new(404, "NotFound", message)
    }

    /// There is one of this name already.
    #[must_use]
    pub fn exists(kind: &Kind, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", kind.resource());
        Self::new(409, "AlreadyExists", message)
    }

    /// A precondition does not hold.
    #[must_use]
    pub fn conflict(kind: &Kind, name: &str, why: &str) -> Self {
        let resource = kind.resource();
        let message = format!("Operation cannot be fulfilled on {resource} \"{name}\": {why}");
        Self::new(409, "Conflict", message)
    }

    /// The object would not be valid.
    #[must_use]
    pub fn invalid(kind: &Kind, name: &str, causes: &[String]) -> Self {
        let group = match kind.group {
            "" => String::new(),
            group => format!(".{group}"),
        };
        let causes = match causes {
            [one] => one.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        let message = format!("{}{group} \"{name}\" is invalid: {causes}", kind.kind);
        Self::new(422, "Invalid", message)
    }

    /// As an object of kind Status.
    #[must_use]
    pub fn status(&self) -> Value {
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
        })
    }
}

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Self {
        Self::object(refusal.code, &refusal.status())
    }
}
