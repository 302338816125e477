//! Driver `webhook`: whatever switches the machines, behind a service of the user's own that keeps a contract of JSON over HTTPS.
//!
//! The service is trusted to tell the truth, and with nothing else: an Off counts only with the word `Off`, the machine named, and a report
//! that is a few seconds old, in the answer to this very request (`requestID`). Everything that the contract does not have is a fault, and an
//! answer to a command that it does not have leaves open whether the command was carried out (S23).

pub mod conformance;
mod facts;

use super::errors::{Answers, Meaning, row};
use super::io::Io;
use super::kind::{self, Fields, split};
use super::operation::{Follow, Operation};
use super::{Cloud, Machine, MachineId, Provider, Sent};
use crate::address::{Address, AddressError};
use crate::credentials::{CERTIFICATE, Credentials};
use crate::http::{Call, Reply};
use crate::json;
use crate::{DeviceError, DriverKind, FenceDriver, NodeFacts, Parts};
use facts::Outcome;
use fencing_api::device::{TlsSettings, WebhookAuthentication, WebhookDriver};
use fencing_core::reading::Identity;
use http::header::AUTHORIZATION;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use std::sync::Arc;

/// The version of the contract, and the kinds of its documents.
pub const API_VERSION: &str = "webhook.nodefencing.io/v1";
const REQUEST: &str = "FenceRequest";
const RESPONSE: &str = "FenceResponse";
/// The key of the Secret with the token.
const TOKEN: [&str; 1] = ["token"];
/// Longest answer in bytes.
const ANSWER_BYTES_MAX: usize = 16 << 10;

const FIELDS: Fields = Fields {
    address: "webhook.url",
    ca: "webhook.tls.caRef",
};

/// What an answer other than 200 means. A code stands in a document of the contract alone: what a proxy answers on the way has none, and says
/// nothing of what has become of a command.
const ANSWERS: Answers = Answers {
    table: &[
        row(400, "BadRequest", "", Meaning::Refused),
        row(401, "", "", Meaning::Login),
        row(403, "", "", Meaning::Denied),
        row(404, "UnknownNode", "", Meaning::Missing),
        row(409, "Refused", "", Meaning::Refused),
        row(429, "", "", Meaning::Busy),
        row(503, "Busy", "", Meaning::Busy),
    ],
    words,
    right: "the actions `status`, `off` and `on`",
};

/// The same of a command: only a document of the contract says that it was not carried out.
const COMMANDED: Answers = Answers {
    table: &[
        row(400, "BadRequest", "", Meaning::Refused),
        row(401, "Unauthorized", "", Meaning::Login),
        row(403, "Forbidden", "", Meaning::Denied),
        row(404, "UnknownNode", "", Meaning::Missing),
        row(409, "Refused", "", Meaning::Refused),
        row(503, "Busy", "", Meaning::Busy),
    ],
    ..ANSWERS
};

/// A service, asked for one Node.
#[derive(Debug, Clone)]
struct Webhook {
    path: String,
    node: NodeFacts,
    has_token: bool,
}

impl Webhook {
    fn new(settings: &WebhookDriver, node: NodeFacts) -> Self {
        let path = split(&settings.url).1;
        Self {
            path: if path.is_empty() { "/" } else { path }.to_owned(),
            node,
            has_token: settings.authentication == WebhookAuthentication::Token,
        }
    }

    /// A request for this action, with an ID that no answer to another one has.
    fn request(&self, action: &str, machine: Option<&Identity>) -> (String, Value) {
        let id = request_id();
        let mut request = json!({
            "apiVersion": API_VERSION,
            "kind": REQUEST,
            "requestID": id,
            "action": action,
            "node": {
                "name": self.node.name,
                "providerID": self.node.provider_id,
                "systemUUID": self.node.system_uuid,
            },
        });
        if let (Some(machine), Some(request)) = (machine, request.as_object_mut()) {
            let machine = json!({
                "systemUUID": machine.system_uuid,
                "machineID": machine.serial_number,
            });
            request.insert("machine".to_owned(), machine);
        }
        (id, request)
    }

    /// The same as it is sent.
    fn call(&self, request: &Value, credentials: &Credentials) -> Result<Call, DeviceError> {
        let call = Call::new(Method::POST, &self.path)
            .with_json(request.to_string())
            .with_body_of_at_most(ANSWER_BYTES_MAX);
        Ok(match self.has_token {
            true => call.with_header(AUTHORIZATION, credentials.bearer(TOKEN[0])?),
            false => call,
        })
    }

    /// Sends one command for the machine that was read. The service is told which that was, and refuses it for another.
    async fn switch(
        &self,
        io: &mut Io,
        machine: &Machine,
        action: &str,
    ) -> Result<Sent, DeviceError> {
        let (id, request) = self.request(action, Some(&machine.identity));
        let call = self.call(&request, &io.credentials())?;
        let (at, path) = (machine.at.clone(), machine.path.clone());
        let reply = match io.switch(&at, &call, StatusCode::OK, &COMMANDED).await? {
            Ok(reply) => reply,
            Err(sent) => return Ok(sent),
        };
        let answer = io.document(&at, reply);
        let outcome = answer.and_then(|answer| {
            facts::outcome(&answer, &id).map_err(|problem| io.protocol(&at, &problem))
        });
        Ok(match outcome {
            Ok(Outcome::Accepted) => Sent::Operation(Operation { at, path }),
            Ok(Outcome::Already) => Sent::Already("Already".to_owned()),
            Err(error) => Sent::Unclear(error),
        })
    }
}

impl Provider for Webhook {
    const NAME: &'static str = "webhook";

    /// The service finds it by what it is told of the Node.
    fn machine(&self, node: &NodeFacts) -> Result<MachineId, DeviceError> {
        Ok(machine_id(node))
    }

    async fn read(&self, io: &mut Io, _: &MachineId) -> Result<Machine, DeviceError> {
        let (id, request) = self.request("status", None);
        let call = self.call(&request, &io.credentials())?;
        let at = io.main();
        let reply = io.read(&at, &call, StatusCode::OK, &ANSWERS).await?;
        let answer = io.document(&at, reply)?;
        facts::check(&answer, &id).map_err(|problem| io.protocol(&at, &problem))?;
        Ok(Machine {
            said: facts::said(&answer),
            identity: facts::identity(&answer),
            at,
            path: self.path.clone(),
            place: None,
            restarter: facts::restarter(&answer),
            model: None,
        })
    }

    async fn off(&self, io: &mut Io, machine: &Machine) -> Result<Sent, DeviceError> {
        self.switch(io, machine, "off").await
    }

    async fn on(&self, io: &mut Io, machine: &Machine) -> Result<Sent, DeviceError> {
        self.switch(io, machine, "on").await
    }

    /// What was accepted has no operation: what comes of it is read from the power.
    async fn follow(&self, _: &mut Io, _: &Operation) -> Result<Follow, DeviceError> {
        Ok(Follow::Done)
    }
}

impl DriverKind for WebhookDriver {
    fn credential_keys(&self) -> &'static [&'static str] {
        match self.authentication {
            WebhookAuthentication::Token => &TOKEN,
            WebhookAuthentication::ClientCertificate => &CERTIFICATE,
        }
    }

    fn written(&self) -> &str {
        &self.url
    }

    fn expand(&self, _: &str) -> Result<Address, AddressError> {
        Address::parse(split(&self.url).0)
    }

    fn targets(&self, node: &NodeFacts) -> Vec<String> {
        let address = self.expand(&node.name).ok();
        let named = address.map(|address| kind::target(&address, &machine_id(node)));
        named.into_iter().collect()
    }

    fn tls(&self) -> Option<&TlsSettings> {
        Some(&self.tls)
    }

    fn make(&self, parts: Parts) -> Result<Arc<dyn FenceDriver>, DeviceError> {
        Ok(Arc::new(made(self, parts)?))
    }
}

fn made(settings: &WebhookDriver, parts: Parts) -> Result<Arc<Cloud<Webhook>>, DeviceError> {
    let webhook = Webhook::new(settings, parts.node.clone());
    if webhook.has_token {
        parts.credentials.bearer(TOKEN[0])?;
    } else if parts.address.plaintext {
        return Err(DeviceError::Settings {
            field: FIELDS.address,
            problem: format!(
                "{} is plain http, which carries no client certificate; use https://",
                parts.address
            ),
        });
    }
    Cloud::new(webhook, FIELDS, parts)
}

/// The Node itself: two Nodes never share a name, and whether they share a machine shows by what the service calls it.
fn machine_id(node: &NodeFacts) -> MachineId {
    MachineId::of(node, node.name.clone())
}

/// A number that no other request has, so that no answer to another one is taken for that to this one.
fn request_id() -> String {
    let mut bytes = [0; 16];
    // Without randomness: the same ID twice, which costs the protection from old answers and no more. No supported system lacks it.
    let _ = getrandom::fill(&mut bytes);
    format!("{:032x}", u128::from_be_bytes(bytes))
}

/// Code and message of a document of the contract; of anything else neither.
fn words(reply: &Reply) -> (String, String) {
    let body = reply.body.as_deref().unwrap_or_default();
    let answer = json::document(body, "a webhook").unwrap_or_default();
    if !facts::is_response(&answer) {
        return (String::new(), String::new());
    }
    let of = |name: &str| answer.get(name).and_then(Value::as_str);
    let of = |name: &str| of(name).unwrap_or_default().to_owned();
    (of("code"), of("message"))
}

#[cfg(test)]
mod tests;
