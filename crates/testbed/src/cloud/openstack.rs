//! Keystone and Nova with one instance, and others beside it that run, as version 2.84 of Nova's API shows it to the owner.

use http::{HeaderName, Method};
use serde_json::{Value, json};

use super::{Beside, Page, Taken, View, Wants, uuid_of};
use crate::{bmc::Answer, https::Call};

/// ID and secret of the application credential.
pub const CREDENTIAL: [&str; 2] = ["c0ffee00c0ffee00", "s3cret-credential"];

const DETAIL: &str = "/v2.1/servers/detail";
const TOKEN: &str = "gAAAAABlab-token";
const REQUEST: &str = "req-5e5a57a1-1111-4222-8333-444455556666";

/// The cloud. Its machine's system UUID is the id of the instance.
#[derive(Debug, Clone, Copy, Default)]
pub struct Openstack {
    /// Instances that run beside the machine's, from 1 on.
    pub others: usize,
}

impl Page for Openstack {
    const STATE: [&'static str; 2] = [
        "\"OS-EXT-STS:vm_state\":\"active\"",
        "\"OS-EXT-STS:vm_state\":\"stopped\"",
    ];

    fn wants(&self, call: &Call) -> Option<Wants> {
        let (method, path) = (&call.head.method, call.head.uri.path());
        if (method, path) == (&Method::POST, "/v3/auth/tokens") {
            return Some(Wants::Login);
        }
        if (method, path) == (&Method::GET, DETAIL) {
            return Some(Wants::Other);
        }
        let (id, rest) = path.strip_prefix("/v2.1/servers/")?.split_at_checked(36)?;
        match (method.as_str(), rest) {
            ("GET", "") => Some(Wants::State),
            ("GET", _) => Some(Wants::Other),
            ("POST", "/action") if !id.is_empty() => {
                Some(Wants::Switch(call.body.starts_with(b"{\"os-start\"")))
            }
            _ => None,
        }
    }

    fn lets_in(&self, wants: Wants, call: &Call) -> bool {
        if wants == Wants::Login {
            let body: Value = serde_json::from_slice(&call.body).unwrap_or_default();
            let given = &body["auth"]["identity"]["application_credential"];
            return CREDENTIAL
                == [&given["id"], &given["secret"]].map(|it| it.as_str().unwrap_or(""));
        }
        let token = call.head.headers.get("x-auth-token");
        token.is_some_and(|it| it == TOKEN)
    }

    fn answer(&self, wants: Wants, view: &View<'_>) -> Answer {
        match (wants, view.taken) {
            (Wants::Login, _) => login(view),
            (Wants::State, _) => {
                let id = view.head.uri.path().rsplit('/').next().unwrap_or_default();
                let is_other = (1..=self.others).any(|number| uuid_of(number) == id);
                let id = if is_other { id } else { view.uuid };
                json(&json!({"server": server(id, view.is_on || is_other, view)}))
            }
            (Wants::Switch(_), Taken::Done) => Answer::text(202, "")
                .with(HeaderName::from_static("x-openstack-request-id"), REQUEST),
            (Wants::Switch(on), Taken::Already) => {
                let (command, state) = if on {
                    ("start", "active")
                } else {
                    ("stop", "stopped")
                };
                let words = format!("Cannot '{command}' instance while it is in vm_state {state}");
                self.error(409, &words)
            }
            (Wants::Switch(_), _) => self.error(409, "Instance is locked"),
            (Wants::Other, _) if view.head.uri.path() == DETAIL => {
                json(&json!({"servers": detail(self.others, view)}))
            }
            (Wants::Other, _) => json(&actions(view)),
        }
    }

    fn error(&self, status: u16, words: &str) -> Answer {
        let code = match status {
            401 => "error",
            403 => "forbidden",
            404 => "itemNotFound",
            _ => "conflictingRequest",
        };
        let error = json!({code: {"code": status, "message": words}});
        Answer::text(status, error.to_string())
    }
}

fn json(value: &Value) -> Answer {
    Answer::text(200, value.to_string())
}

fn login(view: &View<'_>) -> Answer {
    let nova =
        json!({"region_id": "north", "interface": "public", "url": format!("{}/v2.1", view.url)});
    let token = json!({"token": {
        "issued_at": "2026-11-29T01:00:00.000000Z",
        "expires_at": "2026-11-29T02:00:00.000000Z",
        "catalog": [{"type": "compute", "endpoints": [nova]}],
    }});
    let header = HeaderName::from_static("x-subject-token");
    Answer::text(201, token.to_string()).with(header, TOKEN)
}

/// What is off is so by a stop that its host has carried out, unless the report is old.
fn server(id: &str, is_on: bool, view: &View<'_>) -> Value {
    let (state, power, status) = match is_on {
        true => ("active", 1, "ACTIVE"),
        false => ("stopped", 4, "SHUTOFF"),
    };
    let task = (view.beside == Beside::AtWork).then_some("migrating");
    json!({
        "id": id, "name": view.name, "status": status,
        "OS-EXT-STS:vm_state": state, "OS-EXT-STS:power_state": power, "OS-EXT-STS:task_state": task,
        "flavor": {"original_name": "m1.large"},
    })
}

/// A page of the list, with what Nova tells of each beside that.
fn detail(others: usize, view: &View<'_>) -> Vec<Value> {
    let query = view.head.uri.query().unwrap_or_default();
    let of = |name: &str| {
        let mut all = query.split('&').filter_map(|it| it.split_once('='));
        all.find_map(|(key, value)| (key == name).then_some(value))
    };
    let limit = of("limit").and_then(|it| it.parse().ok()).unwrap_or(1000);
    let marker = of("marker");
    let first = (1..=others).find(|number| Some(uuid_of(*number).as_str()) == marker);
    let page = (first.unwrap_or(0) + 1..=others).take(limit);
    let network = json!([{"addr": "10.0.0.17", "version": 4, "OS-EXT-IPS:type": "fixed", "OS-EXT-IPS-MAC:mac_addr": "fa:16:3e:00:00:01"}]);
    page.map(|number| {
        let mut server = server(&uuid_of(number), true, view);
        server["addresses"] = json!({"private": network});
        server["metadata"] = json!({"cluster": "lab", "role": "worker"});
        server["links"] = json!([{"rel": "self", "href": format!("{}/v2.1/servers/{}", view.url, uuid_of(number))}]);
        server["created"] = json!("2026-11-01T01:00:00Z");
        server["security_groups"] = json!([{"name": "default"}]);
        server
    })
    .collect()
}

fn actions(view: &View<'_>) -> Value {
    let result = (view.beside != Beside::OldReport).then_some("Success");
    let action = if view.is_on { "start" } else { "stop" };
    let event = json!({"event": format!("compute_{action}_instance"), "result": result});
    let action = json!({
        "action": action, "request_id": REQUEST, "start_time": "2026-11-29T01:30:00.000000", "events": [event],
    });
    match view.head.uri.path().ends_with("/os-instance-actions") {
        true => json!({"instanceActions": [action]}),
        false => json!({"instanceAction": action}),
    }
}
