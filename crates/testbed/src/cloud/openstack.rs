//! Keystone and Nova with one instance, as version 2.84 of Nova's API shows it to the owner.

use http::{HeaderName, Method};
use serde_json::{Value, json};

use super::{Beside, Page, Taken, View, Wants};
use crate::{bmc::Answer, https::Call};

/// ID and secret of the application credential.
pub const CREDENTIAL: [&str; 2] = ["c0ffee00c0ffee00", "s3cret-credential"];

const TOKEN: &str = "gAAAAABlab-token";
const REQUEST: &str = "req-5e5a57a1-1111-4222-8333-444455556666";

/// The cloud. Its machine's system UUID is the id of the instance.
#[derive(Debug, Clone, Copy, Default)]
pub struct Openstack;

impl Page for Openstack {
    const STATE: [&'static str; 2] = [
        "\"OS-EXT-STS:vm_state\":\"active\"",
        "\"OS-EXT-STS:vm_state\":\"stopped\"",
    ];

    fn wants(&self, method: &Method, path: &str) -> Option<Wants> {
        if (method, path) == (&Method::POST, "/v3/auth/tokens") {
            return Some(Wants::Login);
        }
        let (id, rest) = path.strip_prefix("/v2.1/servers/")?.split_at_checked(36)?;
        match (method.as_str(), rest) {
            ("GET", "") => Some(Wants::State),
            ("GET", _) => Some(Wants::Other),
            // Which of the two stands in the body.
            ("POST", "/action") if !id.is_empty() => Some(Wants::Switch(false)),
            _ => None,
        }
    }

    fn turned(&self, call: &Call) -> bool {
        call.body.starts_with(b"{\"os-start\"")
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
            (Wants::State, _) => json(&json!({"server": server(view)})),
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
fn server(view: &View<'_>) -> Value {
    let (state, power, status) = match view.is_on {
        true => ("active", 1, "ACTIVE"),
        false => ("stopped", 4, "SHUTOFF"),
    };
    let task = (view.beside == Beside::AtWork).then_some("migrating");
    json!({
        "id": view.uuid, "name": view.name, "status": status,
        "OS-EXT-STS:vm_state": state, "OS-EXT-STS:power_state": power, "OS-EXT-STS:task_state": task,
        "flavor": {"original_name": "m1.large"},
    })
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
