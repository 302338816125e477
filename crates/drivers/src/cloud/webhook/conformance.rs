//! Does a service keep the contract? Each rule is tried against it, by a request that breaks something or by the driver itself.
//!
//! Without an order to switch the machine nothing is sent that a service could take for a command; with it none is sent to a service that
//! has broken a rule before.

mod cycle;

use super::{TOKEN, Webhook, facts, made, words};
use crate::cloud::Cloud;
use crate::error::printable;
use crate::http::{Call, Client, Reply, Target};
use crate::{DeviceError, Parts, json, tls};
use fencing_api::device::WebhookDriver;
use fencing_core::reading::Identity;
use http::header::AUTHORIZATION;
use http::{HeaderValue, StatusCode};
use serde_json::{Value, json};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// The words of `power`.
const WORDS: [&str; 4] = ["On", "Off", "Transitional", "Unknown"];
/// A Node that no service has.
const NO_NODE: &str = "no-such-node.conformance.nodefencing.io";

/// What is tried beside the reads.
#[derive(Debug, Clone)]
pub struct Trial {
    /// The system UUID that has to answer.
    pub node_uuid: Option<String>,
    /// Turn the machine off and on again.
    pub power_cycle: bool,
    /// How long the machine may take to go off, and to come on.
    pub time_max: Duration,
}

/// A rule of the contract, and how the service kept it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The rule.
    pub rule: &'static str,
    /// What was seen; an error: the service breaks the rule.
    pub seen: Result<String, String>,
}

/// One line.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.seen {
            Ok(seen) => write!(f, "ok    {}: {seen}", self.rule),
            Err(seen) => write!(f, "FAIL  {}: {seen}", self.rule),
        }
    }
}

/// The service under test.
struct Service {
    webhook: Webhook,
    cloud: Arc<Cloud<Webhook>>,
    /// The same for one who has no client certificate.
    stranger: Arc<Target>,
}

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    /// The operator.
    Operator,
    /// One with a wrong token.
    WrongToken,
    /// One who has nothing.
    Stranger,
}

type Seen = Result<String, String>;

/// Tries each rule, one after the other. The first is that it answers at all: without it no other is tried.
///
/// # Errors
/// [`DeviceError`] about the settings, with nothing sent.
pub async fn judge(
    settings: &WebhookDriver,
    parts: Parts,
    trial: &Trial,
) -> Result<Vec<Finding>, DeviceError> {
    let service = Service::new(settings, parts)?;
    let mut found = Vec::new();
    let credentials = &service.cloud.target.credentials;
    let clean = |text: String| credentials.without_secrets(&text);
    let mut note = |rule, seen: Seen| {
        let is_kept = seen.is_ok();
        let seen = seen.map(clean).map_err(clean);
        found.push(Finding { rule, seen });
        is_kept
    };
    if !note("`status` answers by the contract", service.status().await) {
        return Ok(found);
    }
    let mut is_kept = note(
        "the machine is named, always the same",
        service.identity(trial).await,
    );
    for (rule, who) in service.others() {
        is_kept &= note(rule, service.refuses(who).await);
    }
    for (rule, status, code, request) in service.broken() {
        let seen = service.answers(&request, status, code).await;
        is_kept &= note(rule, seen);
    }
    let uuid = trial.node_uuid.as_deref();
    if let Some(uuid) = uuid.filter(|_| trial.power_cycle && is_kept) {
        service.power_cycle(uuid, trial.time_max, &mut note).await;
    }
    Ok(found)
}

impl Service {
    fn new(settings: &WebhookDriver, parts: Parts) -> Result<Self, DeviceError> {
        let webhook = Webhook::new(settings, parts.node.clone());
        let (verification, now) = (parts.verification.clone(), parts.clock.wall());
        let cloud = made(settings, parts)?;
        let mut stranger = Target::clone(&cloud.target);
        if let (Some(tls), Ok(config)) = (
            stranger.tls.as_mut(),
            tls::client_config(&verification, now),
        ) {
            *tls = TlsConnector::from(Arc::new(config));
        }
        Ok(Self {
            webhook,
            cloud,
            stranger: Arc::new(stranger),
        })
    }

    /// Who may not be let in.
    fn others(&self) -> Vec<(&'static str, Who)> {
        match self.webhook.has_token {
            true => vec![
                ("a wrong token is refused", Who::WrongToken),
                ("no token is refused", Who::Stranger),
            ],
            false => vec![("no client certificate is refused", Who::Stranger)],
        }
    }

    /// Requests that nobody may carry out, with the answer to each. None of them asks for a power command.
    fn broken(&self) -> [(&'static str, u16, &'static str, String); 4] {
        let with = |pointer: &str, value: &str| {
            let (_, mut request) = self.webhook.request("status", None);
            if let Some(field) = request.pointer_mut(pointer) {
                *field = json!(value);
            }
            request
        };
        let mut stranger = with("/node/name", NO_NODE);
        for id in ["/node/providerID", "/node/systemUUID"] {
            if let Some(field) = stranger.pointer_mut(id) {
                *field = json!("");
            }
        }
        [
            (
                "an unknown node is refused",
                404,
                "UnknownNode",
                stranger.to_string(),
            ),
            (
                "an unknown action is refused",
                400,
                "BadRequest",
                with("/action", "no-such-action").to_string(),
            ),
            (
                "an unknown version is refused",
                400,
                "BadRequest",
                with("/apiVersion", "webhook.nodefencing.io/v0").to_string(),
            ),
            (
                "what is no JSON is refused",
                400,
                "BadRequest",
                "{\"action\": ".to_owned(),
            ),
        ]
    }

    /// One request on a connection of its own.
    async fn ask(&self, body: String, who: Who) -> Result<Reply, DeviceError> {
        let target = match who {
            Who::Stranger => &self.stranger,
            Who::Operator | Who::WrongToken => &self.cloud.target,
        };
        let credentials = &self.cloud.target.credentials;
        let mut call = self.webhook.call(&Value::Null, credentials)?;
        if who != Who::Operator {
            call.headers.retain(|(name, _)| *name != AUTHORIZATION);
        }
        if who == Who::WrongToken {
            // As long as the right one, which a service must not tell it from by its length.
            let length = credentials
                .bearer(TOKEN[0])?
                .len()
                .saturating_sub("Bearer ".len());
            let wrong = format!("Bearer {}", "x".repeat(length));
            if let Ok(wrong) = HeaderValue::from_str(&wrong) {
                call = call.with_header(AUTHORIZATION, wrong);
            }
        }
        let call: Call = call.with_json(body);
        let mut client = Client::new(Arc::clone(target), self.cloud.clock);
        let waited = self.cloud.call_timeout;
        let answer = timeout(waited, client.ask(&call)).await;
        answer.unwrap_or_else(|_| {
            Err(DeviceError::Timeout {
                endpoint: target.address.to_string(),
                waited,
            })
        })
    }

    /// The answer to a good request for the status.
    async fn document(&self) -> Result<Value, String> {
        let (id, request) = self.webhook.request("status", None);
        let reply = self.ask(request.to_string(), Who::Operator).await;
        let reply = reply.map_err(|error| error.to_string())?;
        if reply.status != StatusCode::OK {
            return Err(other_than(&reply, "200 is required"));
        }
        let body = reply.body.map_err(|error| error.to_string())?;
        let answer = json::document(&body, "a webhook")?;
        facts::check(&answer, &id)?;
        Ok(answer)
    }

    async fn status(&self) -> Seen {
        let answer = self.document().await?;
        let power = answer.get("power").and_then(Value::as_str);
        let power = power.filter(|word| WORDS.contains(word));
        let power = power.ok_or_else(|| format!("`power` must be one of {}", WORDS.join(", ")))?;
        let age = facts::age(&answer)
            .ok_or("`ageSeconds` must be a number, from 0 on")?
            .as_secs_f64();
        match age <= facts::AGE_SECONDS_MAX {
            true => Ok(format!("{power}, {age:.1} s old")),
            false => Err(format!(
                "its report is {age:.1} s old, {} s allowed",
                facts::AGE_SECONDS_MAX
            )),
        }
    }

    async fn identity(&self, trial: &Trial) -> Seen {
        let first = facts::identity(&self.document().await?);
        for _ in 0..2 {
            let next = facts::identity(&self.document().await?);
            if next != first {
                return Err(format!("{} first, {} later", named(&first), named(&next)));
            }
        }
        match &trial.node_uuid {
            Some(uuid) if !first.is_system(uuid) => {
                Err(format!("{}, --node-uuid is {uuid}", named(&first)))
            }
            _ if first.usable() => Ok(named(&first)),
            _ if first.serial_number.is_some() => Ok(format!(
                "{}, without a system UUID: the FenceDevice needs `identityCheck: BestEffort`",
                named(&first)
            )),
            _ => Err("`machine` must have a `systemUUID` or a `machineID`".to_owned()),
        }
    }

    /// Whoever may not ask gets 401 or 403, or no connection.
    async fn refuses(&self, who: Who) -> Seen {
        let (_, request) = self.webhook.request("status", None);
        match self.ask(request.to_string(), who).await {
            Ok(reply) if matches!(reply.status.as_u16(), 401 | 403) => {
                Ok(reply.status.as_u16().to_string())
            }
            Ok(reply) => Err(other_than(&reply, "401 is required")),
            Err(_) if !self.webhook.has_token => Ok("no connection".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// The answer has this status and this code.
    async fn answers(&self, request: &str, status: u16, code: &str) -> Seen {
        let reply = self.ask(request.to_owned(), Who::Operator).await;
        let reply = reply.map_err(|error| error.to_string())?;
        match reply.status.as_u16() == status && words(&reply).0 == code {
            true => Ok(format!("{status} {code}")),
            false => Err(other_than(&reply, &format!("{status} {code} is required"))),
        }
    }
}

/// A machine, for people.
fn named(identity: &Identity) -> String {
    let of = |id: &Option<String>| {
        id.as_deref()
            .map_or("none".to_owned(), |id| printable(id, 63))
    };
    format!(
        "systemUUID {}, machineID {}",
        of(&identity.system_uuid),
        of(&identity.serial_number)
    )
}

/// Another answer than the required one.
fn other_than(reply: &Reply, required: &str) -> String {
    let (code, message) = words(reply);
    let text = format!("{} {code} {message}", reply.status.as_u16());
    format!("it answered {}, {required}", printable(text.trim(), 160))
}
