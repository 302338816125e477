//! The master of a pool of XCP-ng with one virtual machine, and others beside it that run, as XAPI answers over JSON-RPC.

use serde_json::{Map, Value, json};

use super::{Beside, Page, Taken, View, Wants, uuid_of};
use crate::{bmc::Answer, https::Call};

/// User and password of the pool.
pub const LOGIN: [&str; 2] = ["fence", "s3cret-of-the-pool"];

const SESSION: &str = "OpaqueRef:5e551011-2c1f-4d0e-9e9a-6a3f1d2c4b5e";
const NULL: &str = "OpaqueRef:NULL";
const HOST: &str = "OpaqueRef:4a0fde9c-5709-4f66-9968-64fb6162bd97";
const METRICS: &str = "OpaqueRef:29a46db3-9b13-7df1-788c-638c194d8cf1";
const VM: &str = "OpaqueRef:vm-";
const TASK: &str = "OpaqueRef:task-";

/// The pool.
#[derive(Debug, Clone, Copy, Default)]
pub struct Xapi {
    /// Machines that run beside the one of the tests.
    pub others: usize,
}

/// Method and parameters of a call.
fn method_of(body: &str) -> (String, Value) {
    let call: Value = serde_json::from_str(body).unwrap_or_default();
    let method = call["method"].as_str().unwrap_or_default();
    (method.to_owned(), call["params"].clone())
}

impl Page for Xapi {
    const STATE: [&'static str; 2] = ["\"power_state\":\"Running\"", "\"power_state\":\"Halted\""];

    fn wants(&self, call: &Call) -> Option<Wants> {
        let body = std::str::from_utf8(&call.body).ok()?;
        let is_it = call.head.method == "POST" && call.head.uri.path() == "/jsonrpc";
        match method_of(body).0.as_str() {
            _ if !is_it => None,
            "session.login_with_password" => Some(Wants::Login),
            "VM.get_all_records_where" => Some(Wants::State),
            "Async.VM.hard_shutdown" => Some(Wants::Switch(false)),
            "Async.VM.start" => Some(Wants::Switch(true)),
            "VM_metrics.get_start_time" | "message.get" | "task.get_record" => Some(Wants::Other),
            _ => None,
        }
    }

    fn lets_in(&self, wants: Wants, call: &Call) -> bool {
        let body = std::str::from_utf8(&call.body).unwrap_or_default();
        let (_, params) = method_of(body);
        match wants {
            Wants::Login => [&params[0], &params[1]] == LOGIN,
            _ => params[0] == SESSION,
        }
    }

    fn answer(&self, wants: Wants, view: &View<'_>) -> Answer {
        let (method, params) = method_of(view.body);
        let param = |at: usize| params[at].as_str().unwrap_or_default();
        match (wants, method.as_str()) {
            (Wants::Login, _) => result(&json!(SESSION)),
            (Wants::State, _) => result(&self.records(param(1), view)),
            (Wants::Switch(on), _) => {
                let end = match (view.taken, on) {
                    (Taken::Done, _) => "success",
                    (Taken::Refused, _) => "refused",
                    (_, false) => "halted",
                    (_, true) => "running",
                };
                result(&json!(format!("{TASK}{end}")))
            }
            (_, "VM_metrics.get_start_time") if param(1) == METRICS => {
                result(&json!("20261129T01:00:00Z"))
            }
            (_, "message.get") => result(&messages(view)),
            (_, "task.get_record") => match param(1).strip_prefix(TASK) {
                Some(end) => result(&task(end)),
                None => self.error(404, param(1)),
            },
            _ => self.error(404, param(1)),
        }
    }

    /// XAPI answers an error, too, with the status of a success.
    fn error(&self, status: u16, words: &str) -> Answer {
        let code = match status {
            401 => "SESSION_AUTHENTICATION_FAILED",
            403 => "RBAC_PERMISSION_DENIED",
            404 => "HANDLE_INVALID",
            _ => "INTERNAL_ERROR",
        };
        let error = json!({"code": 1, "message": code, "data": [words]});
        Answer::text(
            200,
            json!({"jsonrpc": "2.0", "error": error, "id": 1}).to_string(),
        )
    }
}

impl Xapi {
    /// Those that a filter names, `field "uuid"="…" or …`, by their references.
    fn records(&self, filter: &str, view: &View<'_>) -> Value {
        let named: Vec<&str> = filter.split('"').filter(|it| it.len() == 36).collect();
        let others: Vec<String> = (1..=self.others).map(uuid_of).collect();
        let is_other = |it: &&&str| others.iter().any(|other| other == **it);
        let mut found = Map::new();
        for uuid in named.iter().filter(is_other) {
            let record = record(uuid, &format!("node-of-{uuid}"), "Running", HOST);
            found.insert(format!("{VM}{uuid}"), record);
        }
        // A UUID is named in both byte orders.
        if found.is_empty() {
            found.insert(format!("{VM}own"), machine(view));
        }
        found.into()
    }
}

fn result(it: &Value) -> Answer {
    Answer::text(
        200,
        json!({"jsonrpc": "2.0", "result": it, "id": 1}).to_string(),
    )
}

fn machine(view: &View<'_>) -> Value {
    let (state, host) = match (view.is_on, view.beside) {
        (true, _) => ("Running", HOST),
        (false, Beside::Memory) => ("Suspended", NULL),
        (false, _) => ("Halted", NULL),
    };
    let mut record = record(view.uuid, view.name, state, host);
    if view.beside == Beside::AtWork {
        record["current_operations"] = json!({"OpaqueRef:another-task": "start"});
    }
    record
}

fn record(uuid: &str, name: &str, state: &str, host: &str) -> Value {
    json!({
        "uuid": uuid, "name_label": name, "name_description": "", "power_state": state, "resident_on": host,
        "scheduled_to_be_resident_on": NULL, "current_operations": {}, "allowed_operations": ["hard_shutdown"], "is_a_template": false,
        "is_a_snapshot": false, "is_control_domain": false, "ha_restart_priority": "", "ha_always_run": false, "blocked_operations": {},
        "metrics": METRICS, "guest_metrics": NULL, "domid": if host == NULL { -1 } else { 50 }, "VCPUs_max": 2, "VBDs": [], "VIFs": [],
        "memory_static_max": 8_589_934_592_u64, "platform": {"acpi": "1"}, "other_config": {"mac_seed": uuid}, "tags": [],
        "snapshot_time": "19700101T00:00:00Z",
    })
}

/// What is off was shut down by its host, unless only the database says so.
fn messages(view: &View<'_>) -> Value {
    let message = |name: &str, time: &str| {
        json!({
            "uuid": view.uuid, "name": name, "priority": 5, "cls": "VM", "obj_uuid": view.uuid, "timestamp": time,
            "body": format!("VM '{}' (uuid: {})", view.name, view.uuid),
        })
    };
    let mut all = json!({"OpaqueRef:m1": message("VM_STARTED", "20261129T01:00:02Z")});
    if !view.is_on && view.beside != Beside::OldReport {
        all["OpaqueRef:m2"] = message("VM_SHUTDOWN", "20261129T01:30:00Z");
    }
    all
}

fn task(end: &str) -> Value {
    let error = match end {
        "success" => json!([]),
        "refused" => json!(["OPERATION_BLOCKED", VM, "hard_shutdown"]),
        state => json!(["VM_BAD_POWER_STATE", VM, "running;paused", state]),
    };
    let status = if end == "success" { end } else { "failure" };
    json!({
        "uuid": "06641b68-0695-5bfa-2fce-ec2c1c914097", "name_label": "Async.VM.hard_shutdown", "status": status, "error_info": error,
        "progress": 1.0, "created": "20261129T01:30:00Z", "finished": "20261129T01:30:01Z", "result": "", "resident_on": HOST,
    })
}
