//! What the answers of Keystone and Nova mean. Pure, and total over any JSON.

use super::super::operation::Follow;
use super::super::words::{Said, Word};
use super::PAGE;
use crate::error::printable;
use crate::json::{Object, Objects, Text};
use fencing_core::reading::{PowerState, usable_uuid};
use jiff::Timestamp;
use jiff::civil::DateTime;
use serde::Deserialize;
use serde_json::Value;
use std::time::Duration;

/// `OS-EXT-STS:vm_state`. A state in which memory is kept, or the instance is on no host, has no power state here.
const STATES: [Word; 4] = [
    ("active", PowerState::On),
    ("rescued", PowerState::On),
    ("building", PowerState::Transitional),
    ("stopped", PowerState::Off),
];
/// `OS-EXT-STS:power_state` of an instance that its hypervisor has shut down.
const SHUT_DOWN: u64 = 4;
/// Of the 56 hexadecimal digits of a host so many are kept: no two hosts of a project share them.
const HOST_CHARACTERS: usize = 32;
/// Longest life of a token that is believed.
const TOKEN_TIME_MAX: Duration = Duration::from_hours(24);

/// A server, as far as its own document tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Server {
    /// Its name.
    pub(super) name: String,
    /// Its power.
    pub(super) said: Said,
    /// A name of its host, which tells it from others alone.
    pub(super) host: Option<String>,
    /// Its flavor.
    pub(super) model: Option<String>,
}

/// What became of the last stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// The last that was asked of the instance is no stop.
    None,
    /// The host has not reported how it ended.
    Pending,
    /// The host could not stop it.
    Failed,
    /// The host has stopped it.
    Done,
}

impl Stop {
    /// Its name as a fault.
    pub(super) fn fault(self) -> &'static str {
        match self {
            Self::None => "a last action that is no stop",
            Self::Pending => "a stop that its host has not carried out yet",
            Self::Failed => "a stop that failed",
            Self::Done => "a stop",
        }
    }
}

/// Reads a server.
///
/// # Errors
/// It is none, or another one.
pub(super) fn server(document: &Value, id: &str) -> Result<Server, String> {
    let server = document.get("server").ok_or("it shows no server")?;
    let found = server.get("id").and_then(Value::as_str).unwrap_or_default();
    if !found.eq_ignore_ascii_case(id) {
        return Err(format!(
            "server {id} was asked for, and it shows \"{}\"",
            printable(found, 63)
        ));
    }
    Ok(one(server))
}

/// A page of a list, of which only what a probe needs is kept: a server has some fifty fields.
#[derive(Debug, Deserialize)]
pub(super) struct Page {
    servers: Objects<Shown, PAGE>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Shown {
    id: Text,
    name: Text,
    #[serde(rename = "hostId")]
    host: Text,
    #[serde(rename = "OS-EXT-STS:vm_state")]
    vm_state: Text,
    flavor: Object<Flavor>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Flavor {
    original_name: Text,
}

impl Page {
    /// Its servers, by id. What speaks against an Off is not looked at: no list says that one is off.
    pub(super) fn servers(&self) -> Vec<(String, Server)> {
        let named = self.servers.0.iter().filter_map(|Object(server)| {
            let id = server.id.as_str().filter(|id| is_id(id))?;
            let flavor = server.flavor.0.original_name.as_str();
            let server = Server {
                name: server.name.as_str().unwrap_or_default().to_owned(),
                said: Said::of(&STATES, "vm_state", server.vm_state.as_str())
                    .only_if(false, "of a list"),
                host: server.host.as_str().and_then(host),
                model: flavor.map(|flavor| printable(flavor, 63)),
            };
            Some((id.to_lowercase(), server))
        });
        named.collect()
    }
}

/// An id, which can stand in a path.
pub(super) fn is_id(text: &str) -> bool {
    usable_uuid(text).is_some() && !text.contains(['{', ' '])
}

fn one(server: &Value) -> Server {
    let word = |name: &str| server.get(name).and_then(Value::as_str);
    let task = server.get("OS-EXT-STS:task_state");
    let power = server.get("OS-EXT-STS:power_state");
    let said = Said::of(&STATES, "vm_state", word("OS-EXT-STS:vm_state"))
        .only_if(task == Some(&Value::Null), format!("task {}", text(task)))
        .only_if(
            power.and_then(Value::as_u64) == Some(SHUT_DOWN),
            format!("power state {}", text(power)),
        )
        .only_if(
            word("status") == Some("SHUTOFF"),
            format!("status {}", text(server.get("status"))),
        );
    Server {
        name: word("name").unwrap_or_default().to_owned(),
        said,
        host: word("hostId").and_then(host),
        model: server
            .pointer("/flavor/original_name")
            .and_then(Value::as_str)
            .map(|flavor| printable(flavor, 63)),
    }
}

/// `hostId`, a hash of project and host. It is empty of an instance that is on none.
fn host(id: &str) -> Option<String> {
    let short = printable(id, HOST_CHARACTERS);
    (!short.is_empty()).then(|| format!("host {short}"))
}

/// The request of the last action, if that is a stop. Of two that began in the same second neither is the last.
pub(super) fn last_stop(document: &Value) -> Option<String> {
    let actions = document.get("instanceActions")?.as_array()?;
    let began = |action: &Value| action.get("start_time")?.as_str()?.parse::<DateTime>().ok();
    let times: Option<Vec<DateTime>> = actions.iter().map(began).collect();
    let last = times?.into_iter().max()?;
    let mut latest = actions.iter().filter(|action| began(action) == Some(last));
    let action = latest.next().filter(|_| latest.next().is_none())?;
    let is_stop = action.get("action")?.as_str()? == "stop";
    let request = action.get("request_id")?.as_str()?;
    (is_stop && is_request(request)).then(|| request.to_owned())
}

/// Can it stand in a path?
pub(super) fn is_request(id: &str) -> bool {
    (1..=64).contains(&id.len())
        && id
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// What became of the stop that this action is.
pub(super) fn stop(document: &Value) -> Stop {
    let is_stop = document.pointer("/instanceAction/action") == Some(&"stop".into());
    match (is_stop, result(document, "compute_stop_instance")) {
        (false, _) => Stop::None,
        (true, Some("Success")) => Stop::Done,
        (true, Some(_)) => Stop::Failed,
        (true, None) => Stop::Pending,
    }
}

/// Where the action stands that a command became.
pub(super) fn follow(document: &Value) -> Follow {
    let action = document
        .pointer("/instanceAction/action")
        .and_then(Value::as_str);
    let event = match action {
        Some("stop") => "compute_stop_instance",
        Some("start") => "compute_start_instance",
        action => {
            let action = printable(action.unwrap_or("none"), 40);
            return Follow::Failed(format!("its action is \"{action}\""));
        }
    };
    match result(document, event) {
        None => Follow::Running,
        Some("Success") => Follow::Done,
        Some(result) => Follow::Failed(format!("its host reports {}", printable(result, 40))),
    }
}

/// How the event of this name ended. A host that comes back carries a stop out twice, as what it finds undone and as what it is sent; Nova then
/// notes both ends in one of two events, and the other one stays without a result. So one that has ended counts, and each that has must be good.
fn result<'a>(document: &'a Value, name: &str) -> Option<&'a str> {
    let events = document.pointer("/instanceAction/events")?.as_array()?;
    let own = events
        .iter()
        .filter(|event| event.get("event") == Some(&name.into()));
    let ended = own.filter_map(|event| event.get("result").filter(|it| !it.is_null()));
    let results: Vec<&str> = ended.map(|it| it.as_str().unwrap_or("nothing")).collect();
    let bad = results.iter().find(|result| **result != "Success");
    bad.or(results.first()).copied()
}

/// How long a token lasts, by Keystone's own clock: ours may differ.
pub(super) fn lasts(document: &Value) -> Option<Duration> {
    let time = |name: &str| -> Option<Timestamp> {
        document
            .pointer("/token")?
            .get(name)?
            .as_str()?
            .parse()
            .ok()
    };
    let lasts = time("expires_at")?.duration_since(time("issued_at")?);
    Some(Duration::try_from(lasts).ok()?.min(TOKEN_TIME_MAX))
}

/// The public endpoints of Nova in the catalog, by region.
pub(super) fn endpoints(document: &Value) -> Vec<(String, String)> {
    let catalog = document.pointer("/token/catalog").and_then(Value::as_array);
    let services = catalog.map_or(&[][..], Vec::as_slice).iter();
    let compute = services.filter(|service| service.get("type") == Some(&"compute".into()));
    let all = compute
        .filter_map(|service| service.get("endpoints")?.as_array())
        .flatten();
    let public = all.filter(|endpoint| endpoint.get("interface") == Some(&"public".into()));
    let named = public.filter_map(|endpoint| {
        let word = |name: &str| endpoint.get(name)?.as_str().map(str::to_owned);
        Some((word("region_id").or(word("region"))?, word("url")?))
    });
    named.collect()
}

/// The one endpoint of the region, or the only one there is.
///
/// # Errors
/// There is none, or there are several.
pub(super) fn endpoint<'a>(
    endpoints: &'a [(String, String)],
    region: Option<&str>,
) -> Result<&'a str, String> {
    let of_region = |it: &&(String, String)| region.is_none_or(|region| it.0 == region);
    let fitting: Vec<&(String, String)> = endpoints.iter().filter(of_region).collect();
    if let [(_, url)] = fitting.as_slice() {
        return Ok(url);
    }
    let regions: Vec<String> = endpoints.iter().map(|it| printable(&it.0, 40)).collect();
    Err(format!(
        "the catalog has {} public endpoints of compute for {}; its regions are {}",
        fitting.len(),
        region.unwrap_or("no region"),
        regions.join(", ")
    ))
}

/// What stands there, for people.
fn text(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => "missing".to_owned(),
    }
}
