//! What one HTTP request has of its own.

use super::BODY_BYTES_MAX;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method};
use std::fmt;

/// A request.
#[derive(Clone)]
pub struct Call {
    /// Its method.
    pub method: Method,
    /// Path and query.
    pub path: String,
    /// Headers beside those that every request has. Values that open something are marked sensitive.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Type of its body; none: it has none.
    pub content_type: Option<&'static str>,
    /// Its body.
    pub body: Bytes,
    /// Largest body of an answer in bytes.
    pub body_bytes_max: usize,
}

/// Shows neither headers nor body: both may hold what opens the service.
impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("method", &self.method)
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl Call {
    /// A request without a body.
    #[must_use]
    pub fn new(method: Method, path: &str) -> Self {
        Self {
            method,
            path: path.to_owned(),
            headers: Vec::new(),
            content_type: None,
            body: Bytes::new(),
            body_bytes_max: BODY_BYTES_MAX,
        }
    }

    /// The same with this body of JSON.
    #[must_use]
    pub fn with_json(self, body: impl Into<Bytes>) -> Self {
        Self {
            content_type: Some("application/json"),
            body: body.into(),
            ..self
        }
    }

    /// The same with the fields of a form, which are empty where there is nothing to say.
    #[must_use]
    pub fn with_form(self, body: impl Into<Bytes>) -> Self {
        Self {
            content_type: Some("application/x-www-form-urlencoded"),
            body: body.into(),
            ..self
        }
    }

    /// The same with one header more.
    #[must_use]
    pub fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// The same for answers that may be longer, or must be shorter.
    #[must_use]
    pub fn with_body_of_at_most(self, body_bytes_max: usize) -> Self {
        Self {
            body_bytes_max,
            ..self
        }
    }
}
