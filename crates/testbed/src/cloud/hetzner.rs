//! A project of Hetzner Cloud with one server, and others beside it that run, as version 1 of its API answers.

use http::header::AUTHORIZATION;
use serde_json::{Value, json};

use super::{Beside, Page, Taken, View, Wants};
use crate::{bmc::Answer, https::Call};

/// The id of the machine's server. Those of the others follow.
pub const SERVER: usize = 4711;
/// The address of the machine's server in its network.
pub const ADDRESS: &str = "10.0.0.17";
/// The token of the project.
pub const TOKEN: &str = "jEheVytlAoFl7F8MqUQ7jAo2hOXASztX";

const SERVERS: &str = "/v1/servers";
/// Ids of the actions that the commands become.
const STOP: usize = 13;
const START: usize = 14;

/// The project.
#[derive(Debug, Clone, Copy, Default)]
pub struct Hetzner {
    /// Servers that run beside the machine's, from 1 on.
    pub others: usize,
}

/// The id of a server in a path, and what is behind it.
fn server_of(path: &str) -> Option<(usize, &str)> {
    let rest = path.strip_prefix(SERVERS)?.strip_prefix('/')?;
    let (id, rest) = rest.split_once('/').unwrap_or((rest, ""));
    Some((id.parse().ok()?, rest))
}

impl Page for Hetzner {
    const STATE: [&'static str; 2] = ["\"status\":\"running\"", "\"status\":\"off\""];

    fn wants(&self, call: &Call) -> Option<Wants> {
        let path = call.head.uri.path();
        match (call.head.method.as_str(), server_of(path)) {
            ("GET", Some((_, ""))) => Some(Wants::State),
            ("POST", Some((SERVER, "actions/poweroff"))) => Some(Wants::Switch(false)),
            ("POST", Some((SERVER, "actions/poweron"))) => Some(Wants::Switch(true)),
            ("GET", Some((_, "actions"))) => Some(Wants::Other),
            ("GET", None) if path == SERVERS || path.starts_with("/v1/actions/") => {
                Some(Wants::Other)
            }
            _ => None,
        }
    }

    fn lets_in(&self, _: Wants, call: &Call) -> bool {
        let header = call.head.headers.get(AUTHORIZATION);
        header.is_some_and(|it| it.as_bytes() == format!("Bearer {TOKEN}").as_bytes())
    }

    fn answer(&self, wants: Wants, view: &View<'_>) -> Answer {
        let path = view.head.uri.path();
        match (wants, view.taken) {
            // A command to a server that is so already ends well, too.
            (Wants::Switch(on), Taken::Done | Taken::Already) => {
                let action = switched(on, "running");
                Answer::text(201, json!({"action": action}).to_string())
            }
            (Wants::Switch(_), _) => self.error(423, "the server is locked by the support"),
            (Wants::State, _) => match server_of(path) {
                Some((SERVER, _)) => json(&json!({"server": server(SERVER, view)})),
                Some((id, _)) if id > SERVER && id <= SERVER + self.others => {
                    json(&json!({"server": server(id, view)}))
                }
                _ => self.error(404, "server not found"),
            },
            (Wants::Login | Wants::Other, _) if path == SERVERS => json(&page(self.others, view)),
            (Wants::Login | Wants::Other, _) => match path.strip_prefix("/v1/actions/") {
                Some(id) if id == STOP.to_string() => {
                    json(&json!({"action": switched(false, "success")}))
                }
                Some(id) if id == START.to_string() => {
                    json(&json!({"action": switched(true, "success")}))
                }
                Some(_) => self.error(404, "action not found"),
                None => json(&json!({"actions": actions(view), "meta": meta(1, 1)})),
            },
        }
    }

    fn error(&self, status: u16, words: &str) -> Answer {
        let code = match status {
            401 => "unauthorized",
            403 => "token_readonly",
            404 => "not_found",
            423 => "resource_locked",
            _ => "server_error",
        };
        let error = json!({"error": {"code": code, "message": words, "details": null}});
        Answer::text(status, error.to_string())
    }
}

fn json(value: &Value) -> Answer {
    Answer::text(200, value.to_string())
}

/// The document of a server: of the machine's, or of one that runs.
fn server(id: usize, view: &View<'_>) -> Value {
    let is_machines = id == SERVER;
    let status = match view.is_on || !is_machines {
        true => "running",
        false => "off",
    };
    let name = match is_machines {
        true => view.name.to_owned(),
        false => format!("node-{}", id - SERVER),
    };
    let price = json!({"net": "0.0208000000", "gross": "0.0247520000"});
    let prices = ["fsn1", "nbg1", "hel1", "ash"].map(
        |location| json!({"location": location, "price_hourly": price, "price_monthly": price}),
    );
    json!({
        "id": id, "name": name, "status": status, "created": "2026-01-30T23:50:00+00:00",
        "locked": is_machines && view.beside == Beside::AtWork, "rescue_enabled": false,
        "public_net": {
            "ipv4": {"id": 1, "ip": "192.0.2.7", "blocked": false, "dns_ptr": "static.example.com"},
            "ipv6": {"id": 2, "ip": "2001:db8:1:2::/64", "blocked": false, "dns_ptr": []},
            "floating_ips": [], "firewalls": [],
        },
        "private_net": [{"network": 3, "ip": ADDRESS, "alias_ips": [], "mac_address": "86:00:00:2a:7d:e1"}],
        "server_type": {
            "id": 24, "name": "cpx31", "description": "CPX 31", "cores": 4, "memory": 8.0, "disk": 160, "cpu_type": "shared",
            "storage_type": "local", "architecture": "x86", "prices": prices,
        },
        "location": {"id": 1, "name": "fsn1", "description": "Falkenstein DC Park 1", "country": "DE", "city": "Falkenstein", "network_zone": "eu-central"},
        "image": null, "iso": null, "backup_window": null, "outgoing_traffic": 123_456, "ingoing_traffic": 123_456,
        "included_traffic": 654_321, "protection": {"delete": false, "rebuild": false}, "labels": {"role": "worker"},
        "volumes": [], "load_balancers": [], "primary_disk_size": 160, "placement_group": null,
    })
}

/// A page of the list.
fn page(others: usize, view: &View<'_>) -> Value {
    let query = view.head.uri.query().unwrap_or_default();
    let of = |name: &str| {
        let mut all = query.split('&').filter_map(|it| it.split_once('='));
        let value = all.find_map(|(key, value)| (key == name).then_some(value));
        value.and_then(|it| it.parse::<usize>().ok())
    };
    let size = of("per_page").unwrap_or(25).clamp(1, 50);
    let page = of("page").unwrap_or(1).max(1);
    let ids = (SERVER..=SERVER + others)
        .skip((page - 1) * size)
        .take(size);
    let servers: Vec<Value> = ids.map(|id| server(id, view)).collect();
    json!({"servers": servers, "meta": meta(page, (others + 1).div_ceil(size))})
}

fn meta(page: usize, last: usize) -> Value {
    json!({"pagination": {
        "page": page, "per_page": 50, "previous_page": (page > 1).then(|| page - 1), "next_page": (page < last).then_some(page + 1),
        "last_page": last, "total_entries": null,
    }})
}

fn action(id: usize, command: &str, status: &str) -> Value {
    let (progress, finished) = match status {
        "running" => (0, Value::Null),
        _ => (100, json!("2026-11-29T01:00:03+00:00")),
    };
    json!({
        "id": id, "command": command, "status": status, "progress": progress, "started": "2026-11-29T01:00:00+00:00",
        "finished": finished, "error": null, "resources": [{"id": SERVER, "type": "server"}],
    })
}

fn switched(on: bool, status: &str) -> Value {
    match on {
        true => action(START, "start_server", status),
        false => action(STOP, "stop_server", status),
    }
}

/// The newest first. What is off is so by a power-off, unless the host has failed.
fn actions(view: &View<'_>) -> Vec<Value> {
    let created = action(1, "create_server", "success");
    let last = match (view.is_on, view.beside) {
        (true, _) => switched(true, "success"),
        (false, Beside::OldReport) => return vec![created],
        (false, _) => switched(false, "success"),
    };
    vec![last, created]
}
