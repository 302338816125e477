//! A request, taken apart.

use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What somebody asks the API server.
#[derive(Debug, Clone)]
pub struct Request {
    /// Who asks.
    pub actor: Arc<str>,
    /// Method.
    pub method: Method,
    /// Path, without the query.
    pub path: String,
    /// The query's parameters, decoded.
    pub query: BTreeMap<String, String>,
    /// `Content-Type`, without parameters.
    pub content_type: String,
    /// `Accept`, with its parameters.
    pub accept: String,
    /// Body.
    pub body: Bytes,
}

impl Request {
    /// Reads a request to its end.
    ///
    /// # Errors
    /// The body's.
    pub async fn read<B: http_body::Body>(
        actor: Arc<str>,
        request: http::Request<B>,
    ) -> Result<Self, B::Error> {
        let (parts, body) = request.into_parts();
        let header = |name| {
            let value = parts.headers.get(name);
            let value = value.and_then(|value: &http::HeaderValue| value.to_str().ok());
            value.unwrap_or_default().to_owned()
        };
        let content_type = header(http::header::CONTENT_TYPE);
        Ok(Self {
            actor,
            method: parts.method,
            path: parts.uri.path().to_owned(),
            query: query(parts.uri.query().unwrap_or_default()),
            content_type: content_type
                .split(';')
                .next()
                .unwrap_or_default()
                .to_owned(),
            accept: header(http::header::ACCEPT),
            body: body.collect().await?.to_bytes(),
        })
    }

    /// A parameter that is not empty.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let value = self.query.get(name).map(String::as_str);
        value.filter(|value| !value.is_empty())
    }

    /// Does it ask for a watch?
    #[must_use]
    pub fn is_watch(&self) -> bool {
        matches!(self.parameter("watch"), Some("true" | "1"))
    }

    /// Is what a cache has new enough for it?
    #[must_use]
    pub fn takes_any_version(&self) -> bool {
        self.parameter("resourceVersion") == Some("0")
    }

    /// Is nothing to come of it?
    #[must_use]
    pub fn is_dry(&self) -> bool {
        self.parameter("dryRun") == Some("All")
    }

    /// Does it want the metadata alone?
    #[must_use]
    pub fn wants_metadata(&self) -> bool {
        self.accept.contains("as=PartialObjectMetadata")
    }

    /// Does it only read?
    #[must_use]
    pub fn is_read(&self) -> bool {
        self.method == Method::GET
    }
}

fn query(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decoded(name), decoded(value))
    };
    pairs.map(pair).collect()
}

fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let hex = text.get(at + 1..at + 3);
        let escaped = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (byte, escaped) {
            (b'%', Some(byte)) => {
                decoded.push(byte);
                at += 2;
            }
            (b'+', _) => decoded.push(b' '),
            (byte, _) => decoded.push(*byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_decoded() {
        let query = query("fieldSelector=spec.nodeName%3Da&limit=500&x");
        assert_eq!(query["fieldSelector"], "spec.nodeName=a");
        assert_eq!(query["limit"], "500");
        assert_eq!(query["x"], "");
    }
}
