//! What the answers of XAPI mean. Pure, and total over any JSON.

use super::super::jsonrpc::Texts;
use super::super::operation::Follow;
use super::super::words::{Said, Word};
use crate::address::{Address, AddressError};
use crate::json::Few;
use fencing_core::reading::{Identity, PowerState};
use jiff::Timestamp;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::Ipv6Addr;

/// A reference to nothing.
const NULL: &str = "OpaqueRef:NULL";
/// `power_state`. A VM that is `Suspended` or `Paused` keeps its memory: those have no power state here.
const STATES: [Word; 2] = [("Running", PowerState::On), ("Halted", PowerState::Off)];
/// The message of a shutdown that a host has carried out, a hard one or a clean one. `power_state_reset`, and a host that is declared dead, halt a VM
/// in the database alone and leave none.
const SHUTDOWN: &str = "VM_SHUTDOWN";
/// Messages about a VM that leave its power as it is. Any other one since the shutdown, known or not, may have turned it on.
const BESIDE_POWER: [&str; 3] = ["ALARM", "VM_CLONED", "VM_SNAPSHOTTED"];

/// Codes of tasks that never reached the VM: its host is known to be silent, the operation is blocked, or another one is in progress.
const REFUSED: [&str; 3] = [
    "HOST_OFFLINE",
    "OPERATION_BLOCKED",
    "OTHER_OPERATION_IN_PROGRESS",
];

/// Words of an error: a code and what it is about.
const WORDS_MAX: usize = 32;

/// A VM, as far as its record tells. It has all of this, or is none.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Vm {
    pub(super) uuid: String,
    pub(super) name_label: String,
    pub(super) metrics: String,
    power_state: String,
    resident_on: String,
    scheduled_to_be_resident_on: String,
    current_operations: BTreeMap<String, String>,
    is_a_template: bool,
    is_a_snapshot: bool,
    is_control_domain: bool,
    ha_restart_priority: String,
    other_config: OtherConfig,
}

/// What is kept of a map in which anybody may write anything.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct OtherConfig {
    #[serde(default)]
    auto_poweron: Texts,
}

/// What happened to a VM.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Message {
    name: String,
    timestamp: String,
}

/// Messages by their references.
pub(super) type Messages = BTreeMap<String, Message>;

/// What became of a command.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Task {
    status: String,
    error_info: Few<String, WORDS_MAX>,
}

impl Vm {
    /// Its power, without what its messages say.
    pub(super) fn said(&self) -> Said {
        let operation = self.current_operations.values().next();
        let operation = operation.map_or("none", String::as_str);
        let is_vm = !self.is_a_template && !self.is_a_snapshot && !self.is_control_domain;
        Said::of(&STATES, "power_state", Some(&self.power_state))
            .only_if(self.resident_on == NULL, "resident on a host")
            .only_if(self.scheduled_to_be_resident_on == NULL, "starts on a host")
            .only_if(
                self.current_operations.is_empty(),
                format!("operation {operation}"),
            )
            .only_if(is_vm, "a template, a snapshot or a control domain")
    }

    pub(super) fn identity(&self) -> Identity {
        Identity {
            system_uuid: Some(self.uuid.clone()),
            serial_number: None,
        }
    }

    /// A hard shutdown ends what HA does for this VM until it is started again; `auto_poweron` starts it with its host.
    pub(super) fn restarter(&self) -> Option<String> {
        let starts = self.other_config.auto_poweron.is("true");
        match self.ha_restart_priority.as_str() {
            "" if starts => Some("auto_poweron, whenever its host boots".to_owned()),
            "" => None,
            priority => Some(format!(
                "HA of the pool ({priority}), whenever its host fails"
            )),
        }
    }
}

/// What speaks against an Off beside these messages, which are all since the VM was started last. In one second their order is not known.
///
/// Their times are of one clock, the master's, which makes each (`Xapi_message.create`), and only they are compared with each other. The start has
/// that of the VM's host (`last_start_time` of xenopsd), and only leaves messages out: of a host that is ahead the shutdown itself, which is no Off;
/// of one that is behind, none, and then the start's own message is the newest. Another order takes all clocks of the pool set back together.
pub(super) fn against_off(messages: &Messages) -> Option<String> {
    let is_power = |it: &&Message| !BESIDE_POWER.contains(&it.name.as_str());
    let of_power = messages.values().filter(is_power);
    let timed = of_power.map(|it| Some((it.timestamp.parse::<Timestamp>().ok()?, it)));
    let Some(timed) = timed.collect::<Option<Vec<_>>>() else {
        return Some("a message without a time".to_owned());
    };
    let Some(last) = timed.iter().map(|(at, _)| *at).max() else {
        return Some("no shutdown by a host since its start".to_owned());
    };
    let mut newest = timed.iter().filter(|(at, _)| *at == last);
    let other = newest.find(|(_, it)| it.name != SHUTDOWN);
    other.map(|(_, it)| format!("message {}", it.name))
}

impl Task {
    /// How a command ended that was to bring its VM into this state. One that failed since the VM is in another has not.
    pub(super) fn follow(&self, wanted: &str) -> Follow {
        let words = self.error_info.0.join(", ");
        let info: Vec<&str> = self.error_info.0.iter().map(String::as_str).collect();
        match (self.status.as_str(), info.as_slice()) {
            ("pending" | "cancelling", _) => Follow::Running,
            ("success", _) => Follow::Done,
            ("failure", ["VM_BAD_POWER_STATE", _, _, actual]) if *actual == wanted => {
                Follow::Already(words)
            }
            ("failure", [code, ..]) if REFUSED.contains(code) => Follow::Refused(words),
            (status, _) => Follow::Failed(format!("its task is {status} ({words})")),
        }
    }
}

/// The UUID of a VM behind that of its pool.
pub(super) fn behind_pool(text: &str) -> &str {
    text.split_once('/').map_or("", |(_, uuid)| uuid)
}

/// The master that a member names, at the port of the one that was asked.
///
/// # Errors
/// It is no address.
pub(super) fn master(asked: &Address, named: &str) -> Result<Address, AddressError> {
    let scheme = if asked.plaintext { "http" } else { "https" };
    let host = match named.parse::<Ipv6Addr>() {
        Ok(_) => format!("[{named}]"),
        Err(_) => named.to_owned(),
    };
    Address::parse(&format!("{scheme}://{host}:{}", asked.port))
}
