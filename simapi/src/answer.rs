//! Answers, and the errors among them in the API server's own words.

use crate::kinds::Kind;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::fmt::{self, Display};

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

/// The path of what is about no field.
pub const NOWHERE: &str = "<nil>";

/// One thing that is wrong with an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// The path of the field, or [`NOWHERE`].
    pub field: String,
    /// `reason`, of which the API server has a few.
    pub reason: &'static str,
    /// `message`, without the field.
    pub message: String,
}

impl Cause {
    /// With this reason and message.
    pub fn new(field: &str, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            field: field.to_owned(),
            reason,
            message: message.into(),
        }
    }

    /// It is not there.
    #[must_use]
    pub fn required(field: &str) -> Self {
        Self::new(field, "FieldValueRequired", "Required value")
    }

    /// This value is wrong, for this reason.
    pub fn invalid(field: &str, value: &Value, why: impl Display) -> Self {
        Self::wrong(field, format!("{value}: {why}"))
    }

    /// It is wrong, for this reason; the value is not said.
    pub fn wrong(field: &str, why: impl Display) -> Self {
        Self::new(field, "FieldValueInvalid", format!("Invalid value: {why}"))
    }

    /// The value breaks a rule of the schema.
    pub fn in_body(field: &str, value: &Value, why: impl Display) -> Self {
        Self::invalid(field, value, format!("{} in body {why}", in_body(field)))
    }

    /// It is not of this type, but this.
    #[must_use]
    pub fn of_type(field: &str, value: &Value, wanted: &str, found: &str) -> Self {
        let why = format!("must be of type {wanted}: \"{found}\"");
        Self {
            reason: "FieldValueTypeInvalid",
            ..Self::in_body(field, value, why)
        }
    }

    /// It is of another type of JSON than this.
    #[must_use]
    pub fn of_json_type(field: &str, value: &Value, wanted: &str) -> Self {
        let found = match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(number) if number.is_f64() => "number",
            Value::Number(_) => "integer",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        Self::of_type(field, &json!(found), wanted, found)
    }

    /// It is there twice.
    #[must_use]
    pub fn duplicate(field: &str, value: &Value) -> Self {
        let message = format!("Duplicate value: {value}");
        Self::new(field, "FieldValueDuplicate", message)
    }

    /// It is none of these words.
    #[must_use]
    pub fn unsupported(field: &str, value: &Value, words: &[Value]) -> Self {
        let words: Vec<String> = words.iter().map(Value::to_string).collect();
        let message = format!(
            "Unsupported value: {value}: supported values: {}",
            words.join(", ")
        );
        Self::new(field, "FieldValueNotSupported", message)
    }

    /// Does it keep the API server from looking any further? Whoever reads the rules can rely on what the schema says of types and lengths.
    #[must_use]
    pub fn ends_it(&self) -> bool {
        let kinds = [
            "NotSupported",
            "Required",
            "TooLong",
            "TooMany",
            "TypeInvalid",
        ];
        let kind = self.reason.strip_prefix("FieldValue");
        kind.is_some_and(|kind| kinds.contains(&kind))
    }
}

/// The path of a field as the schema's own words have it: a status is checked alone.
fn in_body(field: &str) -> &str {
    field.strip_prefix("status.").unwrap_or(field)
}

impl Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
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
    /// What is wrong, one thing after the other.
    pub causes: Vec<Cause>,
}

impl Refusal {
    /// With this status, reason and message.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            causes: Vec::new(),
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
    pub fn invalid(kind: &Kind, name: &str, causes: Vec<Cause>) -> Self {
        let group = match kind.group {
            "" => String::new(),
            group => format!(".{group}"),
        };
        let words: Vec<String> = causes.iter().map(Cause::to_string).collect();
        let words = match words.as_slice() {
            [one] => one.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        let message = format!("{}{group} \"{name}\" is invalid: {words}", kind.kind);
        Self {
            causes,
            ..Self::new(422, "Invalid", message)
        }
    }

    /// As an object of kind Status.
    #[must_use]
    pub fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
        });
        let cause =
            |it: &Cause| json!({"reason": it.reason, "message": it.message, "field": it.field});
        if !self.causes.is_empty() {
            let causes = self.causes.iter().map(cause);
            status["details"] = json!({"causes": causes.collect::<Vec<_>>()});
        }
        status
    }
}

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Self {
        Self::object(refusal.code, &refusal.status())
    }
}
