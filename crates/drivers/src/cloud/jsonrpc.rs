//! Calls of JSON-RPC 2.0, whose failures have the status of a success.

use super::Sent;
use super::errors::{Answers, Failed};
use super::io::Io;
use super::operation::Operation;
use crate::DeviceError;
use crate::address::Address;
use crate::http::{Call, Reply};
use http::{Method, StatusCode};
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Value, json};
use std::fmt;

/// Texts of one list that are kept.
const TEXTS_MAX: usize = 16;
/// Longest answer in bytes that is read for a failure where its status is not that of a success: such a one is short, or not from this service.
const FAILURE_BYTES_MAX: usize = 64 << 10;

/// A service.
#[derive(Debug, Clone, Copy)]
pub(super) struct JsonRpc {
    /// Its path.
    pub(super) path: &'static str,
    /// What its failures mean.
    pub(super) answers: &'static Answers,
    /// Longest answer in bytes.
    pub(super) bytes_max: usize,
}

impl JsonRpc {
    /// What a method that only reads returns, or why it failed.
    ///
    /// # Errors
    /// No answer was understood.
    pub(super) async fn ask<T: DeserializeOwned>(
        self,
        io: &mut Io,
        at: &Address,
        method: &str,
        params: &[Value],
    ) -> Result<Result<T, Failed>, DeviceError> {
        let call = self.call(method, params);
        let reply = io.ask(at, &call).await?;
        self.returned(io, at, method, &call, reply)
    }

    /// Sends a power command, which returns the name of an operation.
    ///
    /// # Errors
    /// It was certainly not carried out, unless no answer was understood ([`Io::sent`]).
    pub(super) async fn order(
        self,
        io: &mut Io,
        at: &Address,
        method: &str,
        params: &[Value],
    ) -> Result<Sent, DeviceError> {
        let call = self.call(method, params);
        let reply = io.command(at, &call).await?;
        let at = at.clone();
        match self.returned(io, &at, method, &call, reply) {
            Ok(Ok(path)) => Ok(Sent::Operation(Operation { at, path })),
            Ok(Err(failed)) => failed.of_command(self.answers.table),
            Err(error) => Ok(Sent::Unclear(error)),
        }
    }

    fn call(self, method: &str, params: &[Value]) -> Call {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let call = Call::new(Method::POST, self.path).with_json(body.to_string());
        call.with_body_of_at_most(self.bytes_max)
    }

    fn returned<T: DeserializeOwned>(
        self,
        io: &Io,
        at: &Address,
        method: &str,
        call: &Call,
        reply: Reply,
    ) -> Result<Result<T, Failed>, DeviceError> {
        #[derive(Deserialize)]
        struct Answer<T> {
            result: T,
        }
        let failed = io.failed(at, call, &reply, self.answers);
        if reply.status != StatusCode::OK || !failed.code.is_empty() {
            let request = method.to_owned();
            return Ok(Err(Failed { request, ..failed }));
        }
        let Answer { result } = io.listed(at, reply)?;
        Ok(Ok(result))
    }
}

/// The message of a failure, which is a code, and its data: `{"error": {"code": 1, "message": "HOST_IS_SLAVE", "data": ["10.0.0.1"]}}`.
pub(super) fn words(reply: &Reply) -> (String, String) {
    #[derive(Deserialize)]
    struct Failure {
        error: Error,
    }
    #[derive(Deserialize)]
    struct Error {
        message: String,
        #[serde(default)]
        data: Texts,
    }
    let body = reply.body.as_deref().unwrap_or_default();
    if reply.status != StatusCode::OK && body.len() > FAILURE_BYTES_MAX {
        return Default::default();
    }
    let Ok(Failure { error }) = serde_json::from_slice(body) else {
        return Default::default();
    };
    (error.message, error.data.0.join(", "))
}

/// A text, or the texts of a list; whatever else stands there is skipped. A `Value` takes hundreds of bytes for each empty object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Texts(Vec<String>);

impl Texts {
    /// Is it this text and no other?
    pub(super) fn is(&self, text: &str) -> bool {
        self.0 == [text]
    }
}

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self::default())
    }
}

impl<'de> Visitor<'de> for Texts {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(mut self, text: &str) -> Result<Self, E> {
        self.0.push(text.to_owned());
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Self, A::Error> {
        while self.0.len() < TEXTS_MAX {
            match items.next_element::<Self>()? {
                Some(Self(texts)) => self.0.extend(texts),
                None => return Ok(self),
            }
        }
        self.0.truncate(TEXTS_MAX);
        IgnoredAny.visit_seq(items)?;
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<Self, A::Error> {
        IgnoredAny.visit_map(entries)?;
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderMap;

    fn words_of(status: StatusCode, body: &str) -> (String, String) {
        words(&Reply {
            status,
            phrase: None,
            retry_after: None,
            offers_other_login: false,
            location: None,
            headers: HeaderMap::new(),
            body: Ok(body.to_owned().into()),
        })
    }

    fn failure(data: &Value) -> String {
        json!({"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "CODE", "data": data}})
            .to_string()
    }

    #[test]
    fn of_what_a_failure_is_about_texts_are_kept_and_nothing_else() {
        let of = |data: Value| {
            let (code, about) = words_of(StatusCode::OK, &failure(&data));
            assert_eq!(code, "CODE", "{data}");
            about
        };
        let mixed = json!(["a", {}, 1, -1, 1.5, null, true, {"x": ["y"]}, ["b"]]);
        assert_eq!(of(mixed), "a, b");
        assert_eq!(of(json!("a")), "a");
        for none in [json!(null), json!({"a": "b"}), json!(7), json!([])] {
            assert_eq!(of(none), "");
        }
        let many = json!(vec!["a"; 100]);
        assert_eq!(of(many.clone()).len(), "a, ".len() * TEXTS_MAX - 2);
        assert_eq!(of(json!([many, many])).len(), "a, ".len() * TEXTS_MAX - 2);
        assert_eq!(of(json!(vec![json!({}); 100_000])), "");
        let none = words_of(StatusCode::OK, r#"{"error": {"message": "CODE"}}"#);
        assert_eq!(none, ("CODE".to_owned(), String::new()));
    }

    #[test]
    fn a_long_answer_with_the_status_of_an_error_is_not_read() {
        let long = failure(&json!(["a".repeat(FAILURE_BYTES_MAX)]));
        assert_eq!(words_of(StatusCode::OK, &long).0, "CODE");
        assert_eq!(words_of(StatusCode::BAD_GATEWAY, &long).0, "");
        let short = failure(&json!(["a"]));
        assert_eq!(words_of(StatusCode::BAD_GATEWAY, &short).0, "CODE");
    }
}
