//! What the answers to a session's requests mean.

use super::super::Sent;
use super::super::errors::{Answers, Failed, SEE_PROVIDER};
use super::super::operation::Operation;
use super::Io;
use crate::DeviceError;
use crate::address::Address;
use crate::http::{Call, Reply};
use crate::{error::printable, json};
use http::StatusCode;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Longest answer in bytes that is read for the words of a failure.
const FAILURE_BYTES_MAX: usize = 64 << 10;

/// Longest message of an answer that is kept, in characters.
const MESSAGE_CHARACTERS_MAX: usize = 300;

impl Io {
    /// The document of a success.
    ///
    /// # Errors
    /// It is none.
    pub fn document(&self, at: &Address, reply: Reply) -> Result<Value, DeviceError> {
        let document = json::document(&reply.body?, "a provider");
        document.map_err(|problem| self.protocol(at, &problem))
    }

    /// The same in this form.
    ///
    /// # Errors
    /// It has another.
    pub fn typed<T: DeserializeOwned>(&self, at: &Address, reply: Reply) -> Result<T, DeviceError> {
        let document = self.document(at, reply)?;
        self.formed(at, serde_json::from_value(document))
    }

    /// The same of a document that may be long, of which only what the form names is kept: for probes.
    ///
    /// # Errors
    /// As [`Io::typed`].
    pub fn listed<T: DeserializeOwned>(
        &self,
        at: &Address,
        reply: Reply,
    ) -> Result<T, DeviceError> {
        self.formed(at, json::kept(&reply.body?))
    }

    fn formed<T>(&self, at: &Address, read: serde_json::Result<T>) -> Result<T, DeviceError> {
        read.map_err(|error| self.protocol(at, &format!("its body has another form ({error})")))
    }

    /// Has the account requests to spare, as far as the header `RateLimit-Remaining` tells? So many are kept for fences.
    ///
    /// # Errors
    /// It has fewer.
    pub fn spares(&self, reply: &Reply, kept: u32) -> Result<(), DeviceError> {
        let left = reply.headers.get("ratelimit-remaining");
        let left: Option<u32> = left.and_then(|it| it.to_str().ok()?.parse().ok());
        match left.filter(|left| *left < kept) {
            None => Ok(()),
            Some(left) => Err(DeviceError::Busy {
                endpoint: self.main().to_string(),
                request: "a list of all machines".to_owned(),
                said: format!("that {left} requests are left, and {kept} are kept for fences"),
                retry_after: None,
            }),
        }
    }

    /// The answer to a request that only reads, where it has this status.
    ///
    /// # Errors
    /// What any other answer means, or none was understood.
    pub async fn read(
        &mut self,
        at: &Address,
        call: &Call,
        status: StatusCode,
        answers: &Answers,
    ) -> Result<Reply, DeviceError> {
        let reply = self.ask(at, call).await?;
        match reply.status == status {
            true => Ok(reply),
            false => {
                let failed = self.failed(at, call, &reply, answers);
                Err(failed.of_read(answers.table))
            }
        }
    }

    /// The answer to a power command that has this status, or what any other answer makes of it.
    ///
    /// # Errors
    /// It was certainly not carried out, unless no answer was understood ([`Io::sent`]).
    pub async fn switch(
        &mut self,
        at: &Address,
        call: &Call,
        status: StatusCode,
        answers: &Answers,
    ) -> Result<Result<Reply, Sent>, DeviceError> {
        self.switch_to_any(at, call, &[status], answers).await
    }

    /// The same where several statuses are a success.
    ///
    /// # Errors
    /// As [`Io::switch`].
    pub async fn switch_to_any(
        &mut self,
        at: &Address,
        call: &Call,
        statuses: &[StatusCode],
        answers: &Answers,
    ) -> Result<Result<Reply, Sent>, DeviceError> {
        let reply = self.command(at, call).await?;
        match statuses.contains(&reply.status) {
            true => Ok(Ok(reply)),
            false => {
                let failed = self.failed(at, call, &reply, answers);
                failed.of_command(answers.table).map(Err)
            }
        }
    }

    /// Sends a power command whose answer, with this status, names an operation: `path` reads where.
    ///
    /// # Errors
    /// As [`Io::switch`].
    pub async fn order(
        &mut self,
        at: &Address,
        call: &Call,
        status: StatusCode,
        answers: &Answers,
        path: impl FnOnce(&Self, Reply) -> Result<String, DeviceError>,
    ) -> Result<Sent, DeviceError> {
        let reply = match self.switch(at, call, status, answers).await? {
            Ok(reply) => reply,
            Err(sent) => return Ok(sent),
        };
        let (at, path) = (at.clone(), path(self, reply));
        Ok(path.map_or_else(Sent::Unclear, |path| {
            Sent::Operation(Operation { at, path })
        }))
    }

    /// An answer that is no success, as the provider has it.
    pub(in crate::cloud) fn failed(
        &self,
        at: &Address,
        call: &Call,
        reply: &Reply,
        answers: &Answers,
    ) -> Failed {
        // A failure is short: what is longer has no words, and is not read.
        let body = reply.body.as_deref().unwrap_or_default();
        let is_readable = reply.status.is_success() || body.len() <= FAILURE_BYTES_MAX;
        let words = is_readable.then(|| (answers.words)(reply));
        let (code, message) = words.unwrap_or_default();
        // What is behind it says which fields are wanted, and no person looks for those.
        let path = call.path.split('?').next().unwrap_or_default();
        Failed {
            endpoint: at.to_string(),
            request: self.shown(&format!("{} {path}", call.method)),
            status: reply.status.as_u16(),
            code: self.shown(&code),
            message: self.shown(&message),
            retry_after: reply.retry_after,
            right: answers.right,
        }
    }

    /// An answer that cannot be understood.
    #[must_use]
    pub fn protocol(&self, at: &Address, problem: &str) -> DeviceError {
        DeviceError::Protocol {
            endpoint: at.to_string(),
            problem: self.shown(problem),
            way_out: SEE_PROVIDER,
        }
    }

    /// A text of the provider, without what opens the account.
    #[must_use]
    pub fn shown(&self, text: &str) -> String {
        let text = self.account.without_token(text);
        let text = printable(&text, MESSAGE_CHARACTERS_MAX);
        self.target.credentials.without_secrets(&text)
    }
}
