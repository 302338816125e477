//! A Prism Central with one virtual machine, and others beside it that run, as version 4.0 of its API answers.

use std::sync::{Mutex, MutexGuard};

use base64::{Engine, engine::general_purpose::STANDARD};
use http::header::{AUTHORIZATION, ETAG, IF_MATCH};
use http::request::Parts;
use serde_json::{Value, json};

use super::{Beside, Page, Taken, View, Wants, uuid_of};
use crate::{bmc::Answer, https::Call};

/// The key of a service account.
pub const KEY: &str = "e0b6c2f9-7c1f-4d0e-9e9a-6a3f1d2c4b5e";
/// A user and a password that open it too.
pub const LOGIN: [&str; 2] = ["fence", "s3cret-of-prism"];

const VMS: &str = "/api/vmm/v4.0/ahv/config/vms";
const TASKS: &str = "/api/prism/v4.0/config/tasks/";
/// The version of the machine's document.
const TAG: &str = "YXBwbGljYXRpb24vanNvbg==:7";
const CLUSTER: &str = "00061de6-4a87-6b06-185b-ac1f6b6f97e2";

/// The Prism Central.
#[derive(Debug, Default)]
pub struct Nutanix {
    /// Machines that run beside the one of the tests.
    pub others: usize,
    /// The id of the machine, by which it was asked for last.
    own: Mutex<Option<String>>,
}

/// The path, in which some clients encode every sign.
fn path_of(head: &Parts) -> String {
    let path = head.uri.path();
    let path = path.replace("%24", "$").replace("%3D", "=");
    path.replace("%3A", ":")
}

/// The id of a VM in a path, and what is behind it.
fn vm_of(path: &str) -> Option<(&str, &str)> {
    let rest = path.strip_prefix(VMS)?.strip_prefix('/')?;
    Some(rest.split_once('/').unwrap_or((rest, "")))
}

impl Page for Nutanix {
    const STATE: [&'static str; 2] = ["\"powerState\":\"ON\"", "\"powerState\":\"OFF\""];

    fn wants(&self, call: &Call) -> Option<Wants> {
        let path = path_of(&call.head);
        match (call.head.method.as_str(), vm_of(&path)) {
            ("GET", Some((_, ""))) => Some(Wants::State),
            ("POST", Some((_, "$actions/power-off"))) => Some(Wants::Switch(false)),
            ("POST", Some((_, "$actions/power-on"))) => Some(Wants::Switch(true)),
            ("GET", None) if path == VMS || path.starts_with(TASKS) => Some(Wants::Other),
            _ => None,
        }
    }

    fn lets_in(&self, wants: Wants, call: &Call) -> bool {
        let header = |name: &str| call.head.headers.get(name).map(|it| it.as_bytes());
        let basic = format!("Basic {}", STANDARD.encode(LOGIN.join(":")));
        let is_open = header("x-ntnx-api-key") == Some(KEY.as_bytes())
            || header(AUTHORIZATION.as_str()) == Some(basic.as_bytes());
        // A command has an ID of its own, and names the version that it is for.
        let is_whole = match wants {
            Wants::Switch(_) => {
                header("ntnx-request-id").is_some_and(|it| it.len() == 36)
                    && header(IF_MATCH.as_str()) == Some(TAG.as_bytes())
            }
            _ => true,
        };
        is_open && is_whole
    }

    fn answer(&self, wants: Wants, view: &View<'_>) -> Answer {
        let path = path_of(view.head);
        let path = path.as_str();
        match (wants, view.taken) {
            (Wants::Switch(_), taken) => {
                let how = if taken == Taken::Done {
                    "done"
                } else {
                    "already"
                };
                let task = json!({"extId": format!("ZXJnb24=:{how}"), "$objectType": "prism.v4.config.TaskReference"});
                Answer::text(
                    202,
                    about(
                        "vmm.v4.ahv.config.PowerOffVmApiResponse",
                        "prism.v4.config.TaskReference",
                        &task,
                    ),
                )
            }
            (Wants::State, _) => match vm_of(path) {
                Some((id, _)) if self.other(id).is_some() => vm_answer(&running(id)),
                Some((id, _)) => {
                    *self.own() = Some(id.to_owned());
                    vm_answer(&machine(id, view))
                }
                None => self.error(404, "no such entity"),
            },
            _ if path == VMS => self.list(view),
            _ => match path.strip_prefix(TASKS) {
                Some(id) if ["ZXJnb24=:done", "ZXJnb24=:already"].contains(&id) => {
                    let task = task(id);
                    Answer::text(
                        200,
                        about(
                            "prism.v4.config.GetTaskApiResponse",
                            "prism.v4.config.Task",
                            &task,
                        ),
                    )
                }
                _ => self.error(404, "no such task"),
            },
        }
    }

    fn error(&self, status: u16, words: &str) -> Answer {
        let (code, group) = match status {
            404 => ("VMM-20005", "ENTITY_NOT_FOUND"),
            403 => ("VMM-10003", "FORBIDDEN"),
            _ => ("VMM-10001", "UNKNOWN"),
        };
        let error = json!({
            "error": [{
                "message": words, "severity": "ERROR", "code": code, "locale": "en_US", "errorGroup": group,
                "$objectType": "vmm.v4.error.AppMessage",
            }],
            "$errorItemDiscriminator": "List<vmm.v4.error.AppMessage>", "$objectType": "vmm.v4.error.ErrorResponse",
        });
        Answer::text(
            status,
            about(
                "vmm.v4.ahv.config.GetVmApiResponse",
                "vmm.v4.error.ErrorResponse",
                &error,
            ),
        )
    }
}

impl Nutanix {
    /// With so many machines beside the one of the tests.
    pub fn with(others: usize) -> Self {
        Self {
            others,
            own: Mutex::default(),
        }
    }

    fn own(&self) -> MutexGuard<'_, Option<String>> {
        self.own.lock().expect("no panic while it is held")
    }

    /// The number of another machine with this id.
    fn other(&self, id: &str) -> Option<usize> {
        (1..=self.others).find(|number| uuid_of(*number) == id)
    }

    /// A page of the list, or those of a name. The machine is the first.
    fn list(&self, view: &View<'_>) -> Answer {
        let query = view.head.uri.query().unwrap_or_default();
        let of = |name: &str| {
            let mut all = query.split('&').filter_map(|it| it.split_once('='));
            all.find_map(|(key, value)| (key == name).then_some(value))
        };
        let own = self.own().clone();
        let own = machine(own.as_deref().unwrap_or(view.uuid), view);
        let left = document(&uuid_of(0), view.name, view.uuid, "ON");
        let mut all = vec![own];
        match of("$filter").or_else(|| of("%24filter")) {
            Some(_) if view.beside == Beside::OldReport => all.push(left),
            Some(_) => {}
            None => all.extend((1..=self.others).map(|number| running(&uuid_of(number)))),
        }
        let number = |name: &str, otherwise: usize| {
            let value = of(&format!("${name}")).or_else(|| of(&format!("%24{name}")));
            value.and_then(|it| it.parse().ok()).unwrap_or(otherwise)
        };
        let (page, limit) = (number("page", 0), number("limit", 50).clamp(1, 100));
        let total = all.len();
        let all: Vec<Value> = all.into_iter().skip(page * limit).take(limit).collect();
        let body = json!({
            "data": all, "$dataItemDiscriminator": "List<vmm.v4.ahv.config.Vm>", "$objectType": "vmm.v4.ahv.config.ListVmsApiResponse",
            "metadata": {"totalAvailableResults": total, "$objectType": "common.v1.response.ApiResponseMetadata"},
        });
        Answer::text(200, body.to_string())
    }
}

fn about(kind: &str, of: &str, data: &Value) -> String {
    json!({"data": data, "$dataItemDiscriminator": of, "$objectType": kind, "metadata": {"flags": [], "links": []}}).to_string()
}

fn vm_answer(vm: &Value) -> Answer {
    let body = about(
        "vmm.v4.ahv.config.GetVmApiResponse",
        "vmm.v4.ahv.config.Vm",
        vm,
    );
    Answer::text(200, body).with(ETAG, TAG)
}

/// The machine, by the id that it was asked for.
fn machine(id: &str, view: &View<'_>) -> Value {
    let state = match (view.is_on, view.beside) {
        (true, _) => "ON",
        (false, Beside::Memory) => "PAUSED",
        (false, _) => "OFF",
    };
    let mut vm = document(id, view.name, view.uuid, state);
    vm["isCrossClusterMigrationInProgress"] = json!(view.beside == Beside::AtWork);
    vm
}

fn running(id: &str) -> Value {
    document(id, &format!("node-of-{id}"), id, "ON")
}

fn document(id: &str, name: &str, bios: &str, state: &str) -> Value {
    json!({
        "extId": id, "name": name, "biosUuid": bios, "powerState": state, "generationUuid": uuid_of(9999), "isAgentVm": false,
        "isCrossClusterMigrationInProgress": false, "createTime": "2026-01-30T23:50:00Z", "updateTime": "2026-11-29T01:00:00Z",
        "numSockets": 2, "numCoresPerSocket": 2, "memorySizeBytes": 8_589_934_592_u64, "machineType": "PC", "isLiveMigrateCapable": true,
        "cluster": {"extId": CLUSTER, "$objectType": "vmm.v4.ahv.config.ClusterReference"},
        "$objectType": "vmm.v4.ahv.config.Vm", "$reserved": {"$fv": "v4.r0"}, "$unknownFields": {},
    })
}

fn task(id: &str) -> Value {
    let so = json!([{
        "message": "InvalidVmState: Cannot complete request in state Off", "code": "VMM-30100", "severity": "ERROR",
        "$objectType": "prism.v4.error.AppMessage",
    }]);
    let (status, errors) = match id.ends_with(":done") {
        true => ("SUCCEEDED", Value::Null),
        false => ("FAILED", so),
    };
    let mut task = json!({
        "extId": id, "operation": "VmPowerOff", "status": status, "progressPercentage": 100, "createdTime": "2026-11-29T01:00:00Z",
        "entitiesAffected": [], "$objectType": "prism.v4.config.Task", "$reserved": {"$fv": "v4.r0"},
    });
    if !errors.is_null() {
        task["errorMessages"] = errors;
    }
    task
}
