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
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

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
        data: Value,
    }
    let body = reply.body.as_deref().unwrap_or_default();
    let Ok(Failure { error }) = serde_json::from_slice(body) else {
        return Default::default();
    };
    let all = error.data.as_array().into_iter().flatten();
    let all: Vec<&str> = all.filter_map(Value::as_str).collect();
    (error.message, all.join(", "))
}
