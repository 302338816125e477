//! What the answers of Hetzner Cloud mean. Pure, and total over any JSON.

use super::super::MachineId;
use super::super::operation::Follow;
use super::super::words::{Said, Word};
use crate::cidr::Cidr;
use crate::json::{Object, Objects, Text};
use fencing_core::reading::PowerState;
use serde::Deserialize;
use serde_json::Value;
use std::net::IpAddr;

/// `status` of a server. One that is `migrating` or `rebuilding` may run, and of one that is `deleting` or `unknown` nobody knows: those have
/// no power state here.
const STATUS: [Word; 4] = [
    ("running", PowerState::On),
    ("starting", PowerState::Transitional),
    ("stopping", PowerState::Transitional),
    ("off", PowerState::Off),
];
/// Actions that leave the power as it is, and that storage and load balancers begin while a node is fenced. Any other one after the power-off,
/// known or not, may have turned the server on.
const BESIDE_POWER: [&str; 5] = [
    "attach_volume",
    "detach_volume",
    "add_target",
    "remove_target",
    "assign_floating_ip",
];
/// Networks of one server.
const NETWORKS_MAX: usize = 64;
/// The action that a power-off becomes. A shutdown is another one, and ends before the guest has.
const POWER_OFF: &str = "stop_server";

/// A server, as far as its own document tells. It has all of this, or is none.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Server {
    pub(super) id: u64,
    name: String,
    status: String,
    locked: bool,
    rescue_enabled: bool,
    public_net: Object<Public>,
    private_net: Objects<Own, NETWORKS_MAX>,
    server_type: Kind,
}

/// The addresses that everybody reaches.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Public {
    ipv4: Object<Own>,
    ipv6: Object<Own>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Own {
    ip: Text,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Kind {
    name: String,
}

/// What was asked of a server.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Action {
    id: u64,
    command: String,
    status: String,
    error: Value,
    resources: Value,
}

/// What an answer is about stands under its name.
#[derive(Deserialize)]
pub(super) struct Of<T> {
    #[serde(
        rename = "server",
        alias = "servers",
        alias = "action",
        alias = "actions"
    )]
    pub(super) it: T,
}

/// An id as a provider ID and a path have it.
pub(super) fn number(text: &str) -> Option<u64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    text.parse().ok().filter(|_| is_plain)
}

impl Server {
    /// Its power, without what its actions say.
    pub(super) fn said(&self) -> Said {
        Said::of(&STATUS, "status", Some(&self.status)).only_if(!self.locked, "locked")
    }

    /// Is it the machine of this Node? No UUID is told, so it needs the id, the name, which is unique in a project, and one of the addresses.
    ///
    /// # Errors
    /// It is another machine, in words.
    pub(super) fn check(&self, id: &MachineId) -> Result<(), String> {
        let problem = if number(&id.id) != Some(self.id) {
            format!("has the id {}", self.id)
        } else if !self.name.eq_ignore_ascii_case(&id.node) {
            format!("has the name \"{}\"", self.name)
        } else if !id.addresses.iter().any(|it| self.has(*it)) {
            "has no address of the Node".to_owned()
        } else {
            return Ok(());
        };
        Err(format!("server {} {problem}", id.id))
    }

    /// Is this one of its addresses? That of IPv6 is a range.
    fn has(&self, address: IpAddr) -> bool {
        let Object(Public { ipv4, ipv6 }) = &self.public_net;
        let all = [ipv4, ipv6].into_iter().chain(&self.private_net.0);
        let mut texts = all.filter_map(|it| it.0.ip.as_str());
        texts.any(|it| {
            it.parse() == Ok(address) || it.parse().is_ok_and(|range: Cidr| range.contains(address))
        })
    }

    /// Its type and what it boots, for people.
    pub(super) fn model(&self) -> String {
        match self.rescue_enabled {
            true => format!("{}, boots the rescue system next", self.server_type.name),
            false => self.server_type.name.clone(),
        }
    }
}

/// What speaks against an Off beside these actions. Hetzner may boot a server elsewhere whose host has failed (its wiki says so of network storage),
/// and what it reports meanwhile is not known. So the last thing that was done to the power is a power-off that has succeeded, and nothing is
/// under way.
pub(super) fn against_off(actions: &[Action]) -> Option<String> {
    let is_power = |it: &&Action| !BESIDE_POWER.contains(&it.command.as_str());
    let of_power: Vec<&Action> = actions.iter().filter(is_power).collect();
    let running = of_power.iter().find(|it| it.status == "running");
    let Some(last) = running.or(of_power.iter().max_by_key(|it| it.id)) else {
        return Some("no power-off among its actions".to_owned());
    };
    let is_off = last.command == POWER_OFF && last.status == "success";
    (!is_off).then(|| format!("action {} {}", last.command, last.status))
}

impl Action {
    /// Its path, if it is one of this server: it is built, not followed.
    ///
    /// # Errors
    /// It is none of it.
    pub(super) fn path(&self, server: &str) -> Result<String, String> {
        let mut resources = self.resources.as_array().into_iter().flatten();
        let is_it = |it: &Value| it["type"] == "server" && it["id"].as_u64() == number(server);
        let is_ours = resources.any(is_it);
        let path = is_ours.then(|| format!("/v1/actions/{}", self.id));
        let id = self.id;
        path.ok_or_else(|| format!("it was taken, and action {id} is none of server {server}"))
    }

    /// Where it stands, if it is the one with this path.
    pub(super) fn follow(&self, path: &str) -> Follow {
        let is_it = path.rsplit('/').next().and_then(number) == Some(self.id);
        match self.status.as_str() {
            "running" if is_it => Follow::Running,
            "success" if is_it => Follow::Done,
            _ => Follow::Failed(format!(
                "{} is {} ({})",
                self.command, self.status, self.error
            )),
        }
    }
}
