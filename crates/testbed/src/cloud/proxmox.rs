//! A cluster of Proxmox VE with one node and one VM, as its API of version 8 answers.

use http::{Method, header::AUTHORIZATION};
use serde_json::{Value, json};

use super::{Beside, Page, Taken, View, Wants};
use crate::{bmc::Answer, https::Call};

/// What the only VM is called by.
pub const VM: &str = "101";
/// ID and secret of the API token.
pub const TOKEN: [&str; 2] = ["fence@pve!operator", "5a1f0c3e-token"];

const VM_PATH: &str = "/api2/json/nodes/pve1/qemu/101";
const TASK: &str = "UPID:pve1:000F1A2B:04C5D6E7:69300000:qmstop:101:fence@pve!operator:";

/// The cluster.
#[derive(Debug, Clone, Copy, Default)]
pub struct Proxmox;

impl Page for Proxmox {
    const STATE: [&'static str; 2] = ["\"status\":\"running\"", "\"status\":\"stopped\""];

    fn wants(&self, method: &Method, path: &str) -> Option<Wants> {
        let of_vm = path.strip_prefix(VM_PATH);
        match (method.as_str(), of_vm) {
            ("GET", Some("/status/current")) => Some(Wants::State),
            ("POST", Some("/status/stop")) => Some(Wants::Switch(false)),
            ("POST", Some("/status/start")) => Some(Wants::Switch(true)),
            ("GET", Some("/config")) => Some(Wants::Other),
            ("GET", None) => Some(Wants::Other),
            _ => None,
        }
    }

    fn lets_in(&self, _: Wants, call: &Call) -> bool {
        let [id, secret] = TOKEN;
        let header = call.head.headers.get(AUTHORIZATION);
        header.is_some_and(|it| it.as_bytes() == format!("PVEAPIToken={id}={secret}").as_bytes())
    }

    fn answer(&self, wants: Wants, view: &View<'_>) -> Answer {
        match (wants, view.taken) {
            (Wants::Switch(_), Taken::Done) => data(&json!(TASK)),
            (Wants::Switch(false), Taken::Already) => self.error(500, "VM 101 not running"),
            (Wants::Switch(true), Taken::Already) => self.error(500, "VM 101 already running"),
            (Wants::Switch(_), _) => self.error(500, "VM is locked (backup)"),
            (Wants::State, _) => data(&state(view)),
            (Wants::Login | Wants::Other, _) => other(self, view),
        }
    }

    fn error(&self, status: u16, words: &str) -> Answer {
        let error = json!({"data": null, "message": format!("{words}\n")});
        Answer::text(status, error.to_string())
    }
}

fn data(data: &Value) -> Answer {
    Answer::text(200, json!({"data": data}).to_string())
}

fn state(view: &View<'_>) -> Value {
    let state = if view.is_on { "running" } else { "stopped" };
    let managed = view.beside == Beside::AtWork;
    let mut status = json!({
        "vmid": 101, "name": view.name, "status": state, "qmpstatus": state, "cpus": 4,
        "ha": {"managed": u8::from(managed)},
    });
    if managed {
        status["ha"]["state"] = json!("started");
    }
    if view.beside == Beside::Memory {
        status["lock"] = json!("suspended");
    }
    status
}

fn other(page: &Proxmox, view: &View<'_>) -> Answer {
    let path = view.head.uri.path().trim_start_matches("/api2/json");
    let is_there = |fault: Beside| u8::from(view.beside != fault);
    match path {
        "/cluster/resources" => data(&json!([
            {"type": "qemu", "id": "qemu/101", "node": "pve1", "vmid": 101, "name": view.name, "status": "unknown"},
            {"type": "qemu", "id": "qemu/102", "node": "pve1", "vmid": 102, "name": "another", "status": "stopped"},
        ])),
        "/cluster/status" => data(&json!([
            {"type": "cluster", "name": "lab", "nodes": 3, "quorate": is_there(Beside::CutOff)},
            {"type": "node", "name": "pve1", "online": is_there(Beside::OldReport), "local": 1},
        ])),
        _ if path.ends_with("/config") => {
            let smbios = format!("uuid={},manufacturer=bGFi,base64=1", view.uuid);
            data(&json!({"name": view.name, "smbios1": smbios, "vmgenid": "1"}))
        }
        _ if path.contains("/tasks/UPID:") => {
            data(&json!({"upid": TASK, "status": "stopped", "exitstatus": "OK"}))
        }
        _ => page.error(501, "Method not implemented"),
    }
}
