//! A project of Compute Engine with one instance, and others beside it that run, as version 1 of its REST API answers.
//!
//! It takes tokens that its service account has signed, and looks at each of them as Google's documentation says: algorithm, key, times, and for whom
//! it is. The key opens nothing else.

use std::sync::{Arc, LazyLock};

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use http::header::AUTHORIZATION;
use rustls::{
    SignatureScheme,
    crypto::ring,
    pki_types::{PrivateKeyDer, pem::PemObject},
    sign::SigningKey,
};
use serde_json::{Value, json};

use super::{Beside, Page, Taken, View, Wants};
use crate::{bmc::Answer, https::Call, moment::Moment};

/// The project, and the zone of its instances.
pub const PROJECT: &str = "prod-4711";
pub const ZONE: &str = "europe-west3-a";
/// The machine's number. Those of the others follow.
pub const NUMBER: u64 = 4_711_000_000_000_000_000;
/// The private address of the machine.
pub const ADDRESS: &str = "10.0.0.17";
/// The key of its service account, as Google gives it.
pub const KEY: &str = include_str!("../../gcp/key.json");
/// A token of its metadata service.
pub const TOKEN: &str = "ya29.c.b0Aaekm1K-token";

/// For whom tokens have to be.
const AUDIENCE: &str = "https://compute.googleapis.com/";
/// Bytes of a public key's info before the key itself, for RSA of 2048 bits.
const INFO_BYTES: usize = 24;

/// The project.
#[derive(Debug, Clone, Copy, Default)]
pub struct Gcp {
    /// Instances that run beside the machine's, from 1 on.
    pub others: u64,
    /// It has a Local SSD.
    pub has_local_ssd: bool,
}

/// What is asked for below the zone: a kind, its name, and a verb.
fn parts(path: &str) -> Option<(&str, &str, &str)> {
    let zone = format!("/compute/v1/projects/{PROJECT}/zones/{ZONE}/");
    let rest = path.strip_prefix(&zone)?;
    let (kind, rest) = rest.split_once('/').unwrap_or((rest, ""));
    let (name, verb) = rest.split_once('/').unwrap_or((rest, ""));
    Some((kind, name, verb))
}

impl Page for Gcp {
    const STATE: [&'static str; 2] = ["\"status\":\"RUNNING\"", "\"status\":\"TERMINATED\""];

    fn wants(&self, call: &Call) -> Option<Wants> {
        let parts = parts(call.head.uri.path())?;
        match (call.head.method.as_str(), parts) {
            ("GET", ("instances", name, "")) if !name.is_empty() => Some(Wants::State),
            // What is refused does nothing to the machine.
            ("POST", ("instances", _, "stop"))
                if self.has_local_ssd && !discards(call.head.uri.query()) =>
            {
                Some(Wants::Other)
            }
            ("POST", ("instances", name, "stop")) if is_machines(name) => {
                Some(Wants::Switch(false))
            }
            ("POST", ("instances", name, "start")) if is_machines(name) => {
                Some(Wants::Switch(true))
            }
            ("GET", ("instances", "", "") | ("operations", _, ""))
            | ("POST", ("instances", _, "testIamPermissions")) => Some(Wants::Other),
            _ => None,
        }
    }

    fn lets_in(&self, _: Wants, call: &Call) -> bool {
        let header = call.head.headers.get(AUTHORIZATION);
        let token = header.and_then(|it| it.to_str().ok()?.strip_prefix("Bearer "));
        token.is_some_and(|token| token == TOKEN || is_signed(token).is_some())
    }

    fn answer(&self, wants: Wants, view: &View<'_>) -> Answer {
        let Some((kind, name, verb)) = parts(view.head.uri.path()) else {
            return self.error(404, "no such path");
        };
        let number = self.number_of(name, view);
        match (wants, number, view.taken) {
            (Wants::Switch(_), None, _) | (Wants::State, None, _) => self.missing(name),
            // A command to an instance that is so already ends well, too.
            (Wants::Switch(on), Some(number), Taken::Done | Taken::Already) => {
                json(&operation(view, on, number, "RUNNING"))
            }
            (Wants::Switch(_), ..) => error(412, "conditionNotMet", "Constraint violated."),
            (Wants::State, Some(number), _) => json(&self.instance(number, view)),
            (Wants::Login | Wants::Other, ..) => match (kind, verb) {
                ("operations", _) => match followed(name) {
                    Some((on, number)) => json(&operation(view, on, number, "DONE")),
                    None => self.missing(name),
                },
                (_, "testIamPermissions") => json(&permitted(view)),
                (_, "stop") => error(400, "invalid", "the instance has Local SSDs"),
                _ => json(&self.page(view)),
            },
        }
    }

    fn error(&self, status: u16, words: &str) -> Answer {
        let reason = match status {
            401 => "authError",
            403 => "forbidden",
            404 => "notFound",
            _ => "backendError",
        };
        error(status, reason, words)
    }
}

impl Gcp {
    fn missing(self, name: &str) -> Answer {
        let words = format!(
            "The resource 'projects/{PROJECT}/zones/{ZONE}/instances/{name}' was not found"
        );
        self.error(404, &words)
    }

    /// The number of the instance that is called like this, or has it.
    fn number_of(self, name: &str, view: &View<'_>) -> Option<u64> {
        let mut all = NUMBER..=NUMBER + self.others;
        all.find(|number| name == number.to_string() || name == name_of(*number, view))
    }

    /// The document of an instance: of the machine's, or of one that runs.
    fn instance(self, number: u64, view: &View<'_>) -> Value {
        let is_machines = number == NUMBER;
        let status = match (view.is_on || !is_machines, view.beside) {
            (true, _) => "RUNNING",
            (false, Beside::Nothing | Beside::CutOff) => "TERMINATED",
            (false, Beside::Memory) => "SUSPENDED",
            (false, Beside::OldReport) => "REPAIRING",
            (false, Beside::AtWork) => "STOPPING",
        };
        let zone = zone_url();
        let boot =
            json!({"kind": "compute#attachedDisk", "type": "PERSISTENT", "boot": true, "index": 0});
        let local =
            json!({"kind": "compute#attachedDisk", "type": "SCRATCH", "boot": false, "index": 1});
        let disks = match self.has_local_ssd && is_machines {
            true => vec![boot, local],
            false => vec![boot],
        };
        json!({
            "kind": "compute#instance", "id": number.to_string(), "name": name_of(number, view), "status": status,
            "zone": zone, "machineType": format!("{zone}/machineTypes/e2-standard-4"), "disks": disks,
            "networkInterfaces": [{
                "kind": "compute#networkInterface", "name": "nic0", "networkIP": ADDRESS,
                "aliasIpRanges": [{"ipCidrRange": "10.4.0.0/24", "subnetworkRangeName": "pods"}],
            }],
            "scheduling": {"onHostMaintenance": "MIGRATE", "automaticRestart": true, "preemptible": false, "provisioningModel": "STANDARD"},
            "metadata": {"kind": "compute#metadata", "items": [{"key": "created-by"}, {"key": "instance-template"}]},
            "lastStartTimestamp": "2026-11-29T01:00:00.000-08:00",
        })
    }

    /// A page of the list. Its token is the number that it begins with.
    fn page(self, view: &View<'_>) -> Value {
        let size = of_query(view, "maxResults").and_then(|it| it.parse().ok());
        let size: usize = size.unwrap_or(500).clamp(1, 500);
        let from = of_query(view, "pageToken").and_then(|it| it.parse().ok());
        let from: u64 = from.unwrap_or(NUMBER);
        let mut numbers = (from..=NUMBER + self.others).take(size + 1);
        let own = numbers.by_ref().take(size);
        let items: Vec<Value> = own.map(|number| self.instance(number, view)).collect();
        let mut page = json!({"kind": "compute#instanceList", "items": items});
        if let Some(next) = numbers.next() {
            page["nextPageToken"] = json!(next.to_string());
        }
        page
    }
}

fn name_of(number: u64, view: &View<'_>) -> String {
    match number - NUMBER {
        0 => view.name.to_owned(),
        other => format!("other-{other}"),
    }
}

fn zone_url() -> String {
    format!("https://www.googleapis.com/compute/v1/projects/{PROJECT}/zones/{ZONE}")
}

fn of_query<'a>(view: &'a View<'_>, name: &str) -> Option<&'a str> {
    let query = view.head.uri.query().unwrap_or_default();
    let mut all = query.split('&').filter_map(|it| it.split_once('='));
    all.find_map(|(key, value)| (key == name).then_some(value))
}

/// Is this the machine's number, or its name, which the others' never are?
fn is_machines(name: &str) -> bool {
    let is_number = name.bytes().all(|it| it.is_ascii_digit());
    name == NUMBER.to_string() || !is_number && !name.starts_with("other-")
}

fn discards(query: Option<&str>) -> bool {
    let mut all = query.unwrap_or_default().split('&');
    all.any(|it| it == "discardLocalSsd=true")
}

/// What a command becomes. Its name says what it is, so that it can be asked for.
fn operation(view: &View<'_>, on: bool, number: u64, status: &str) -> Value {
    let kind = if on { "start" } else { "stop" };
    let zone = zone_url();
    let name = format!("operation-{kind}-{number}");
    let mut operation = json!({
        "kind": "compute#operation", "id": "77", "name": name, "operationType": kind, "status": status,
        "targetId": number.to_string(), "targetLink": format!("{zone}/instances/{number}"), "zone": zone, "user": "fence",
        "progress": if status == "DONE" { 100 } else { 0 }, "insertTime": "2026-11-29T01:00:00.000-08:00",
    });
    if let Some(request) = of_query(view, "requestId") {
        operation["clientOperationId"] = json!(request);
    }
    operation
}

/// What such a name says.
fn followed(name: &str) -> Option<(bool, u64)> {
    let rest = name.strip_prefix("operation-")?;
    let (kind, number) = rest.split_once('-')?;
    Some((kind == "start", number.parse().ok()?))
}

/// Of the permissions that are asked about those for reading, and for commands.
fn permitted(view: &View<'_>) -> Value {
    let asked: Value = serde_json::from_str(view.body).unwrap_or_default();
    let has = |it: &&Value| {
        let name = it.as_str().unwrap_or_default();
        ["get", "list", "stop", "start"]
            .iter()
            .any(|verb| name == format!("compute.instances.{verb}"))
    };
    let asked = asked["permissions"].as_array().cloned().unwrap_or_default();
    let has: Vec<&Value> = asked.iter().filter(has).collect();
    match has.is_empty() {
        true => json!({}),
        false => json!({"permissions": has}),
    }
}

fn json(value: &Value) -> Answer {
    Answer::text(200, value.to_string())
}

fn error(status: u16, reason: &str, words: &str) -> Answer {
    let one = json!({"message": words, "domain": "global", "reason": reason});
    let error = json!({"error": {"code": status, "message": words, "errors": [one]}});
    Answer::text(status, error.to_string())
}

/// E-mail address, key's id, and the key of the service account.
static ACCOUNT: LazyLock<(String, String, Arc<dyn SigningKey>)> = LazyLock::new(|| {
    let file: Value = serde_json::from_str(KEY).expect("a key is JSON");
    let text = |name: &str| file[name].as_str().expect("a key has it").to_owned();
    let key = PrivateKeyDer::from_pem_slice(text("private_key").as_bytes()).expect("PEM");
    let key = ring::sign::any_supported_type(&key).expect("an RSA key");
    (text("client_email"), text("private_key_id"), key)
});

/// Has the service account signed this token, for Compute Engine and for now?
fn is_signed(token: &str) -> Option<()> {
    let (email, key_id, key) = &*ACCOUNT;
    let (signed, signature) = token.rsplit_once('.')?;
    let (header, claims) = signed.split_once('.')?;
    let decoded = |text: &str| BASE64_URL_SAFE_NO_PAD.decode(text).ok();
    let document = |text: &str| serde_json::from_slice::<Value>(&decoded(text)?).ok();
    let (header, claims) = (document(header)?, document(claims)?);
    let is_header = header["alg"] == "RS256" && header["kid"] == **key_id;
    let is_account = claims["iss"] == **email && claims["sub"] == **email;
    let (since, until) = (claims["iat"].as_i64()?, claims["exp"].as_i64()?);
    let now = Moment::now().wall.as_second();
    let is_now = since <= now && now < until && until - since <= 3600;
    let is_ours = is_header && is_account && claims["aud"] == AUDIENCE && is_now;
    let info = key.public_key()?;
    let public = info.get(INFO_BYTES..)?;
    let verifiers = ring::default_provider().signature_verification_algorithms;
    let scheme = SignatureScheme::RSA_PKCS1_SHA256;
    let (_, verifiers) = verifiers.mapping.iter().find(|(it, _)| *it == scheme)?;
    let signature = decoded(signature)?;
    let mut all = verifiers.iter();
    let is_signed = all.any(|it| {
        let verified = it.verify_signature(public, signed.as_bytes(), &signature);
        verified.is_ok()
    });
    (is_ours && is_signed).then_some(())
}
