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
    /// Type of the answer, where it is not JSON.
    pub accept: Option<&'static str>,
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
            accept: None,
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

    /// The same with this document of XML.
    #[must_use]
    pub fn with_xml(self, body: impl Into<Bytes>) -> Self {
        Self {
            content_type: Some("text/xml; charset=utf-8"),
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

    /// The same for an answer of this type.
    #[must_use]
    pub fn for_answer_of(self, accept: &'static str) -> Self {
        Self {
            accept: Some(accept),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NodeFacts;
    use crate::clock::Clock;
    use crate::cloud::fixtures::Service;
    use crate::http::{Client, Target};
    use std::sync::Arc;

    async fn client(service: &Service) -> Client {
        let secret = [("username", "u"), ("password", "p")];
        let parts = service.parts(NodeFacts::named("worker-1"), &secret);
        let target = Target {
            address: parts.address,
            tls: None,
            credentials: parts.credentials,
            rules: parts.rules,
        };
        Client::new(Arc::new(target), Clock::SYSTEM)
    }

    #[tokio::test]
    async fn a_redfish_service_is_sent_what_it_always_was() {
        let service = Service::new().await;
        let host = service.url.trim_start_matches("http://");
        let always = format!(
            "host: {host}\r\nuser-agent: node-fencing-operator/{}\r\naccept: application/json\r\n\
             accept-encoding: identity\r\nodata-version: 4.0\r\nauthorization: Basic dTpw\r\n",
            env!("CARGO_PKG_VERSION")
        );
        let mut client = client(&service).await;
        client.get("/redfish/v1/").await.expect("an answer");
        let body = Bytes::from_static(b"{}");
        client.post("/reset", body).await.expect("an answer");
        let json = "content-type: application/json\r\ncontent-length: 2\r\n";
        let expected = [
            format!("GET /redfish/v1/ HTTP/1.1\r\n{always}\r\n"),
            format!("POST /reset HTTP/1.1\r\n{always}{json}\r\n{{}}"),
        ];
        assert_eq!(service.asked(), expected);
    }

    #[tokio::test]
    async fn a_call_has_its_own_headers_form_and_limit() {
        let service = Service::new().await;
        service.answer(
            "PUT /stop",
            "200 OK",
            "X-Token: secret-token\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n",
            "12345",
        );
        let name = HeaderName::from_static("x-auth");
        let call = Call::new(Method::PUT, "/stop")
            .with_form("a=1")
            .with_header(name, HeaderValue::from_static("opens"));
        let mut client = client(&service).await;
        let reply = client.command(&call).await.expect("an answer");
        assert_eq!(reply.headers["x-token"], "secret-token");
        assert_eq!(reply.body.as_deref(), Ok(&b"12345"[..]));
        assert!(!format!("{:?}{call:?}", reply.headers).contains("secret-token"));
        assert_eq!(
            client.date().map(|it| it.time.as_second()),
            Some(784_111_777)
        );
        assert!(!format!("{call:?}").contains("opens"));
        let asked = service.asked().concat();
        for part in [
            "\r\nx-auth: opens\r\n",
            "\r\ncontent-type: application/x-www-form-urlencoded\r\n",
            "\r\n\r\na=1",
        ] {
            assert!(asked.contains(part), "{asked}");
        }
        for without in ["odata", "authorization"] {
            assert!(!asked.contains(without), "{asked}");
        }
        let short = call.with_body_of_at_most(4);
        let reply = client.ask(&short).await.expect("an answer");
        let error = reply.body.expect_err("too long");
        assert!(error.to_string().contains("longer than 4 bytes"), "{error}");
    }
}
