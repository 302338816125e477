//! A cluster of Proxmox VE with one node and one VM, and others beside it that run, as its API of version 8 answers.

use http::header::AUTHORIZATION;
use serde_json::{Value, json};

use super::{Beside, Page, Taken, View, Wants, uuid_of};
use crate::{bmc::Answer, https::Call};

/// The VMID of the machine.
pub const VM: usize = 101;
/// ID and secret of the API token.
pub const TOKEN: [&str; 2] = ["fence@pve!operator", "5a1f0c3e-token"];

/// Every VM's path, with its VMID behind it.
const VM_PATH: &str = "/api2/json/nodes/pve1/qemu/";
const TASK: &str = "UPID:pve1:000F1A2B:04C5D6E7:69300000:qmstop:101:fence@pve!operator:";

/// The cluster.
#[derive(Debug, Clone, Copy, Default)]
pub struct Proxmox {
    /// VMs that run beside the machine's, from 1 on.
    pub others: usize,
}

/// The VMID of another machine, by its number.
pub fn vm_of(number: usize) -> usize {
    VM + number
}

/// The VMID in a path, and what is behind it.
fn vm(path: &str) -> Option<(usize, &str)> {
    let (vm, rest) = path.strip_prefix(VM_PATH)?.split_once('/')?;
    Some((vm.parse().ok()?, rest))
}

impl Page for Proxmox {
    const STATE: [&'static str; 2] = ["\"status\":\"running\"", "\"status\":\"stopped\""];

    fn wants(&self, call: &Call) -> Option<Wants> {
        match (call.head.method.as_str(), vm(call.head.uri.path())) {
            ("GET", Some((_, "status/current"))) => Some(Wants::State),
            ("POST", Some((VM, "status/stop"))) => Some(Wants::Switch(false)),
            ("POST", Some((VM, "status/start"))) => Some(Wants::Switch(true)),
            ("GET", Some((_, "config")) | None) => Some(Wants::Other),
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
    let vm = vm(view.head.uri.path()).map_or(VM, |(vm, _)| vm);
    let is_on = view.is_on || vm != VM;
    let state = if is_on { "running" } else { "stopped" };
    let managed = view.beside == Beside::AtWork;
    let mut status = json!({
        "vmid": vm, "name": view.name, "status": state, "qmpstatus": state, "cpus": 4,
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
        "/cluster/resources" => data(&resources(page.others, view)),
        "/cluster/status" => data(&json!([
            {"type": "cluster", "name": "lab", "nodes": 3, "quorate": is_there(Beside::CutOff)},
            {"type": "node", "name": "pve1", "online": is_there(Beside::OldReport), "local": 1},
        ])),
        "/access/permissions" => {
            // Each with whether it holds for what is below the path, too.
            let mut permissions = json!({"VM.Audit": 1, "VM.PowerMgmt": 0});
            if !view.may_switch {
                permissions = json!({"VM.Audit": 1});
            }
            data(&json!({(format!("/vms/{VM}")): permissions}))
        }
        _ if path.ends_with("/config") => {
            let vm = vm(view.head.uri.path()).map_or(VM, |(vm, _)| vm);
            let uuid = match vm {
                VM => view.uuid.to_owned(),
                other => uuid_of(other - VM),
            };
            let smbios = format!("uuid={uuid},manufacturer=bGFi,base64=1");
            data(&json!({"name": view.name, "smbios1": smbios, "vmgenid": "1"}))
        }
        _ if path.contains("/tasks/UPID:") => {
            data(&json!({"upid": TASK, "status": "stopped", "exitstatus": "OK"}))
        }
        _ => page.error(501, "Method not implemented"),
    }
}

/// The list, with what Proxmox tells of each beside that.
fn resources(others: usize, view: &View<'_>) -> Value {
    let item = |vm: usize, name: &str, status: &str| {
        json!({
            "type": "qemu", "id": format!("qemu/{vm}"), "node": "pve1", "vmid": vm, "name": name, "status": status, "template": 0,
            "cpu": 0.0317, "maxcpu": 4, "mem": 3_221_225_472_u64, "maxmem": 8_589_934_592_u64, "disk": 0, "maxdisk": 34_359_738_368_u64,
            "diskread": 123_456_789, "diskwrite": 987_654_321, "netin": 12_345_678, "netout": 87_654_321, "uptime": 1_234_567,
        })
    };
    let own = [item(VM, view.name, "unknown")];
    let others =
        (1..=others).map(|number| item(vm_of(number), &format!("node-{number}"), "running"));
    own.into_iter().chain(others).collect()
}
