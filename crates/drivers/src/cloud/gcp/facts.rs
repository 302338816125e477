//! What the answers of Compute Engine mean. Pure, and total over any JSON.

use super::super::MachineId;
use super::super::operation::Follow;
use super::super::words::{Said, Word};
use super::PAGE;
use crate::json::Few;
use fencing_core::reading::PowerState;
use serde::Deserialize;
use std::net::IpAddr;

/// `status` of an instance. One that is `SUSPENDED` keeps its memory, `REPAIRING` one may run and be restarted, and `STOPPED` was never seen by
/// anyone who wrote of it: those have no power state here. What is `DEPROVISIONING` is halted, and goes on to TERMINATED.
const STATUS: [Word; 9] = [
    ("PENDING", PowerState::Transitional),
    ("PROVISIONING", PowerState::Transitional),
    ("STAGING", PowerState::Transitional),
    ("RUNNING", PowerState::On),
    ("PENDING_STOP", PowerState::Transitional),
    ("STOPPING", PowerState::Transitional),
    ("SUSPENDING", PowerState::Transitional),
    ("DEPROVISIONING", PowerState::Transitional),
    ("TERMINATED", PowerState::Off),
];
/// Type of a disk that is in the host, and that a stop discards.
const LOCAL_SSD: &str = "SCRATCH";
/// Interfaces of one instance, and disks; and its metadata, by which a managed group marks its instances, and GKE its nodes. Their values are not
/// asked for: there are secrets among them.
const DEVICES_MAX: usize = 256;
const ITEMS_MAX: usize = 10_000;
/// Longest name of a project with its domain, and of anything else.
const PROJECT_CHARACTERS_MAX: usize = 128;
const NAME_CHARACTERS_MAX: usize = 63;

/// An instance, as far as is asked for. Fields that are empty are left out by Compute Engine.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Instance {
    pub(super) id: String,
    pub(super) name: String,
    status: String,
    machine_type: Option<String>,
    #[serde(default)]
    network_interfaces: Few<Interface, DEVICES_MAX>,
    #[serde(default)]
    disks: Few<Disk, DEVICES_MAX>,
    #[serde(default)]
    scheduling: Scheduling,
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Interface {
    #[serde(rename = "networkIP")]
    network_ip: Option<String>,
    #[serde(rename = "ipv6Address")]
    ipv6_address: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Disk {
    #[serde(rename = "type")]
    kind: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Scheduling {
    #[serde(default)]
    automatic_restart: bool,
    provisioning_model: Option<String>,
    #[serde(default)]
    skip_guest_os_shutdown: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
struct Metadata {
    #[serde(default)]
    items: Few<Item, ITEMS_MAX>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Item {
    key: Key,
}

/// The keys that mean something here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
enum Key {
    #[serde(rename = "created-by")]
    Group,
    #[serde(rename = "kube-env")]
    Gke,
    #[serde(other)]
    Other,
}

/// A page of the instances of a zone.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Page {
    #[serde(default)]
    pub(super) items: Few<Instance, PAGE>,
    pub(super) next_page_token: Option<String>,
}

/// What was asked of an instance.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ZoneOperation {
    name: String,
    operation_type: String,
    status: String,
    target_id: String,
    client_operation_id: Option<String>,
    error: Option<Failures>,
    http_error_message: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
struct Failures {
    #[serde(default)]
    errors: Vec<Failure>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Failure {
    code: Option<String>,
    message: Option<String>,
}

/// Which of the permissions that were asked about the account has.
#[derive(Debug, Deserialize)]
pub(super) struct Permitted {
    #[serde(default)]
    pub(super) permissions: Vec<String>,
}

/// The token of a metadata service.
#[derive(Deserialize)]
pub(super) struct Given {
    pub(super) access_token: String,
    pub(super) expires_in: u64,
    pub(super) token_type: String,
}

/// Where an instance is, as a path has it: project, zone and name.
pub(super) fn place(id: &str) -> Option<(&str, &str, &str)> {
    let (project, rest) = id.split_once('/')?;
    let (zone, name) = rest.split_once('/')?;
    (is_project(project) && is_name(zone) && is_name(name)).then_some((project, zone, name))
}

/// The ID of a project, with its domain or without.
fn is_project(text: &str) -> bool {
    let is_plain = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || b"-.:".contains(&it);
    text.len() <= PROJECT_CHARACTERS_MAX
        && text.starts_with(|it: char| it.is_ascii_alphanumeric())
        && text.bytes().all(is_plain)
}

/// The name of a zone, an instance or an operation.
fn is_name(text: &str) -> bool {
    let is_plain = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'-';
    text.len() <= NAME_CHARACTERS_MAX
        && text.starts_with(|it: char| it.is_ascii_lowercase())
        && text.bytes().all(is_plain)
}

/// A numeric id, as Compute Engine writes them: in quotes.
pub(super) fn is_number(text: &str) -> bool {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    is_plain && text.parse::<u64>().is_ok()
}

impl Instance {
    /// Its power. TERMINATED is all that Compute Engine says of an instance that is off, whoever or whatever has stopped it.
    pub(super) fn said(&self) -> Said {
        Said::of(&STATUS, "status", Some(&self.status))
    }

    /// Is it the machine of this Node? No UUID is told, and a managed group makes others of the same name: so it needs its name and a private
    /// address of the Node, and a number by which it is called from here on.
    ///
    /// # Errors
    /// It is another machine, in words.
    pub(super) fn check(&self, id: &MachineId) -> Result<(), String> {
        let name = place(&id.id).map(|(_, _, name)| name);
        let problem = if name != Some(&self.name) {
            format!("has the name \"{}\"", self.name)
        } else if !is_number(&self.id) {
            format!("has the id \"{}\", which is no number", self.id)
        } else if !id.addresses.iter().any(|it| self.has(*it)) {
            "has no private address of the Node".to_owned()
        } else {
            return Ok(());
        };
        Err(format!("instance {} {problem}", id.id))
    }

    /// Is this one of its private addresses? Alias ranges are those of its pods.
    fn has(&self, address: IpAddr) -> bool {
        let mut texts = self.network_interfaces.0.iter().flat_map(|it| {
            let both = [it.network_ip.as_deref(), it.ipv6_address.as_deref()];
            both.into_iter().flatten()
        });
        texts.any(|it| it.parse() == Ok(address))
    }

    /// How many disks it has whose content a stop discards.
    pub(super) fn local_ssds(&self) -> usize {
        let is_local = |it: &&Disk| it.kind.as_deref() == Some(LOCAL_SSD);
        self.disks.0.iter().filter(is_local).count()
    }

    /// What starts it again, or makes another one in its place.
    pub(super) fn restarter(&self) -> Option<String> {
        let has = |key: Key| self.metadata.items.0.iter().any(|it| it.key == key);
        let found = match (has(Key::Group), has(Key::Gke)) {
            (true, true) => "the managed instance group of a GKE node pool, or node auto-repair",
            (true, false) => "a managed instance group",
            (false, _) if self.scheduling.automatic_restart => {
                "automaticRestart (after a failure of its host, not after a stop)"
            }
            (false, _) => return None,
        };
        Some(found.to_owned())
    }

    /// Its type, and how long its guest may delay a stop.
    pub(super) fn model(&self) -> String {
        let kind = self.machine_type.as_deref().unwrap_or_default();
        let kind = kind.rsplit('/').next().unwrap_or_default();
        let scheduling = &self.scheduling;
        let model = scheduling.provisioning_model.as_deref();
        let grace = match (scheduling.skip_guest_os_shutdown, model) {
            (true, _) => "stops without its guest",
            (false, Some("SPOT")) => "its guest may delay a stop by 30 s",
            (false, _) => "its guest may delay a stop by 120 s",
        };
        let words = [Some(kind), model, Some(grace)].into_iter().flatten();
        let words: Vec<&str> = words.filter(|it| !it.is_empty()).collect();
        words.join(", ")
    }
}

impl ZoneOperation {
    /// Its name, if it is the one that this request (`stop` or `start` of the instance with this number) has become.
    ///
    /// # Errors
    /// It is another one.
    pub(super) fn of(&self, command: &str, number: &str, request: &str) -> Result<&str, String> {
        let is_of = self.operation_type == command && self.target_id == number;
        let own = self.client_operation_id.as_deref();
        let is_own = own.is_none_or(|own| own == request);
        let name = &self.name;
        match is_of && is_own && is_name(name) {
            true => Ok(name),
            false => Err(format!(
                "it was taken, and operation {name} is no {command} of instance {number}"
            )),
        }
    }

    /// Where it stands, if it is the one with this name.
    pub(super) fn follow(&self, name: &str) -> Follow {
        let is_it = self.name == name;
        let has_failed = self.error.is_some() || self.http_error_message.is_some();
        match self.status.as_str() {
            "PENDING" | "RUNNING" if is_it && !has_failed => Follow::Running,
            "DONE" if is_it && !has_failed => Follow::Done,
            status => {
                let words = self.failure();
                let (kind, own) = (&self.operation_type, &self.name);
                Follow::Failed(format!("{kind} {own} is {status}{words}"))
            }
        }
    }

    fn failure(&self) -> String {
        let errors = self.error.iter().flat_map(|it| &it.errors);
        let words = errors.flat_map(|it| [it.code.as_deref(), it.message.as_deref()]);
        let words = words.chain([self.http_error_message.as_deref()]).flatten();
        let words: Vec<&str> = words.collect();
        match words.is_empty() {
            true => String::new(),
            false => format!(" ({})", words.join(": ")),
        }
    }
}

/// A token of a page, which stands in the next request: nothing but what tokens are made of.
pub(super) fn is_page_token(text: &str) -> bool {
    let is_plain = |it: u8| it.is_ascii_alphanumeric() || b"-_.~=+/".contains(&it);
    (1..=2048).contains(&text.len()) && text.bytes().all(is_plain)
}
