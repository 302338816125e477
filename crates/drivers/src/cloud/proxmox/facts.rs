//! What the answers of Proxmox VE mean. Pure, and total over any JSON.

use super::super::MachineId;
use super::super::operation::Follow;
use super::super::words::{Said, Word};
use crate::error::printable;
use crate::json::Whole;
use fencing_core::reading::{Identity, PowerState};
use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::fmt;

/// `status` of a VM. There are no others; what HA or a lock makes of a VM stands beside it.
const STATUS: [Word; 2] = [("running", PowerState::On), ("stopped", PowerState::Off)];
/// Where HA leaves a VM alone, or keeps it stopped.
const HA_AT_REST: [&str; 3] = ["stopped", "disabled", "ignored"];
/// What starts a VM again.
const HA: &str = "Proxmox HA";
/// The least VMID, and the largest.
const NUMBERS: std::ops::RangeInclusive<u64> = 100..=999_999_999;
/// Longest name of a node (RFC 1035, a label).
const NODE_CHARACTERS_MAX: usize = 63;

/// Where a VM is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owner {
    /// Name of the node.
    pub(super) node: String,
    /// VMID.
    pub(super) vm: u64,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VM {} on node {}", self.vm, self.node)
    }
}

impl Owner {
    /// Path of the VM below the API.
    pub(super) fn path(&self) -> String {
        format!("/nodes/{}/qemu/{}", self.node, self.vm)
    }
}

/// A VMID, if the text is one.
pub(super) fn vm_number(text: &str) -> Option<u64> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|_| is_number)?;
    NUMBERS.contains(&number).then_some(number)
}

/// What a token needs to switch a VM.
pub(super) const POWER: &str = "VM.PowerMgmt";

/// Do the permissions on a path list something, and not that one? Each has beside it whether it holds below the path, too, so the name alone counts.
pub(super) fn may_only_read(permissions: &Value) -> bool {
    let paths = permissions.get("data").and_then(Value::as_object);
    let paths = paths.into_iter().flat_map(Map::values);
    let mut listed = paths.filter_map(Value::as_object).flat_map(Map::keys);
    let first = listed.next();
    first.is_some_and(|it| it != POWER) && listed.all(|it| it != POWER)
}

/// A VM as the list of the cluster has it, which is some seconds old.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Listed {
    /// Where it is.
    pub(super) owner: Owner,
    /// Its name.
    pub(super) name: String,
    /// Its `status`.
    status: Option<String>,
    /// HA manages it.
    is_managed: bool,
}

impl Listed {
    /// May it be this machine: has it its number, or the Node's name?
    pub(super) fn may_be(&self, id: &MachineId) -> bool {
        match vm_number(&id.id) {
            Some(number) => self.owner.vm == number,
            None => self.name == id.node,
        }
    }

    /// Its power.
    pub(super) fn said(&self) -> Said {
        Said::of(&STATUS, "status", self.status.as_deref())
    }

    /// What starts it again.
    pub(super) fn restarter(&self) -> Option<String> {
        self.is_managed.then(|| HA.to_owned())
    }
}

/// The VMs of the list.
///
/// # Errors
/// It is no list of machines.
pub(super) fn list(body: &[u8]) -> Result<Vec<Listed>, String> {
    #[derive(Deserialize)]
    struct List {
        data: Machines,
    }
    let list: List = serde_json::from_slice(body).map_err(|error| {
        let error = printable(&error.to_string(), 120);
        format!("its list of machines cannot be read ({error})")
    })?;
    Ok(list.data.0)
}

/// Of a long list the VMs, and of each what is used. What is none is dropped while it is read.
struct Machines(Vec<Listed>);

#[derive(Deserialize)]
struct Item {
    #[serde(rename = "type")]
    kind: Option<String>,
    node: Option<String>,
    vmid: Option<Whole>,
    name: Option<String>,
    status: Option<String>,
    hastate: Option<String>,
}

impl Item {
    fn listed(self) -> Option<Listed> {
        let Whole(vm) = self.vmid?;
        let vm = vm?;
        let node = self.node.filter(|node| is_node(node))?;
        (self.kind.as_deref() == Some("qemu")).then_some(Listed {
            owner: Owner { node, vm },
            name: self.name.unwrap_or_default(),
            status: self.status,
            is_managed: self.hastate.is_some(),
        })
    }
}

impl<'de> Deserialize<'de> for Machines {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_seq(Self(Vec::new()))
    }
}

impl<'de> Visitor<'de> for Machines {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of machines")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Self, A::Error> {
        while let Some(item) = items.next_element::<Item>()? {
            self.0.extend(item.listed());
        }
        Ok(self)
    }
}

/// A name that can stand in a path.
fn is_node(name: &str) -> bool {
    (1..=NODE_CHARACTERS_MAX).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Is the status that of this VM?
///
/// # Errors
/// It is of another, or of none.
pub(super) fn check_owner(status: &Value, owner: &Owner) -> Result<(), String> {
    let vm = status.pointer("/data/vmid").and_then(whole);
    match vm == Some(owner.vm) {
        true => Ok(()),
        false => Err(format!(
            "the status of VM {} was asked for, and it is of {}",
            owner.vm,
            vm.map_or("none".to_owned(), |vm| vm.to_string())
        )),
    }
}

/// Does the next start load the memory that the VM had? A hibernated VM keeps it in `vmstate` of its config, and an unlock takes its lock alone
/// (`PVE::CLI::qm`, `PVE::QemuServer`, `vm_start_nolock`).
pub(super) fn keeps_memory(config: &Value) -> bool {
    let lock = config.pointer("/data/lock").and_then(Value::as_str);
    config.pointer("/data/vmstate").is_some() || lock.is_some_and(|it| it.starts_with("suspend"))
}

/// The power of the VM, by its config and `status/current` of its node, and by `cluster/status` right after them. `status/current` always has
/// `qmpstatus`, of a VM without a process that of `status` (`PVE::QemuServer`, `vmstatus`); lists may lack it.
pub(super) fn said(config: &Value, status: &Value, cluster: &Value, owner: &Owner) -> Said {
    let word = |path| status.pointer(path).and_then(Value::as_str);
    let lock = status.pointer("/data/lock").filter(|lock| !lock.is_null());
    let process = status.pointer("/data/qmpstatus");
    let said = Said::of(&STATUS, "status", word("/data/status"))
        .only_if(lock.is_none(), format!("lock {}", text(lock)))
        .only_if(!keeps_memory(config), "vmstate, which keeps its memory")
        .only_if(
            process.is_some_and(|it| it == "stopped"),
            format!("process {}", text(process)),
        );
    let said = high_availability(said, status.pointer("/data/ha"));
    let entries = cluster.pointer("/data").and_then(Value::as_array);
    let entries = entries.map_or(&[][..], Vec::as_slice);
    said.only_if(is_quorate(entries), "no quorum of the cluster")
        .only_if(
            is_online(entries, &owner.node),
            format!("node {} not online", owner.node),
        )
}

/// HA does not manage it, or keeps it stopped. An answer without this says nothing of it.
fn high_availability(said: Said, ha: Option<&Value>) -> Said {
    let state = ha.and_then(|ha| ha.get("state"));
    let at_rest = || {
        state
            .and_then(Value::as_str)
            .is_some_and(|state| HA_AT_REST.contains(&state))
    };
    match ha.and_then(|ha| whole(ha.get("managed")?)) {
        Some(0) => said,
        Some(1) => said.only_if(at_rest(), format!("HA state {}", text(state))),
        _ => said.only_if(false, "no HA state"),
    }
}

/// HA starts a VM again that it has not been asked to stop, on another node if need be.
pub(super) fn restarter(status: &Value) -> Option<String> {
    let managed = status.pointer("/data/ha/managed").and_then(whole);
    (managed == Some(1)).then(|| HA.to_owned())
}

/// A cluster says of itself whether it has a quorum; a node that is in none is one entry without a cluster.
fn is_quorate(entries: &[Value]) -> bool {
    let of_type = |kind: &'static str| {
        entries
            .iter()
            .filter(move |it| it.get("type") == Some(&kind.into()))
    };
    let mut clusters = of_type("cluster");
    match (clusters.next(), clusters.next()) {
        (Some(cluster), None) => cluster.get("quorate").and_then(whole) == Some(1),
        (None, _) => of_type("node").count() == 1 && entries.len() == 1,
        (Some(_), Some(_)) => false,
    }
}

fn is_online(entries: &[Value], name: &str) -> bool {
    let is_it = |it: &&Value| {
        it.get("type") == Some(&"node".into()) && it.get("name") == Some(&name.into())
    };
    let mut nodes = entries.iter().filter(is_it);
    let online = nodes.next().and_then(|node| whole(node.get("online")?));
    online == Some(1) && nodes.next().is_none()
}

/// Who the VM is: the UUID that its firmware shows to the guest.
pub(super) fn identity(config: &Value) -> Identity {
    let smbios = config.pointer("/data/smbios1").and_then(Value::as_str);
    let mut fields = smbios.unwrap_or_default().split(',');
    let uuid = fields.find_map(|field| field.trim().strip_prefix("uuid="));
    Identity {
        system_uuid: uuid.map(|uuid| printable(uuid, 63)),
        serial_number: None,
    }
}

/// The path of the task that a command became, which names the same node: it came from the other side and is built, not followed.
///
/// # Errors
/// It names none.
pub(super) fn task_path(answer: &Value, machine: &str) -> Result<String, String> {
    let task = answer.pointer("/data").and_then(Value::as_str);
    let task = task.unwrap_or_default();
    let node = machine.split('/').nth(2).unwrap_or_default();
    let mut parts = task.split(':');
    let is_task = (parts.next(), parts.next()) == (Some("UPID"), Some(node));
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b":@!._-".contains(&byte);
    if is_task && task.bytes().all(is_plain) && task.len() <= 200 {
        return Ok(format!("/nodes/{node}/tasks/{task}/status"));
    }
    Err(format!(
        "the command was taken, and its task is \"{}\"",
        printable(task, 120)
    ))
}

/// Where a task stands. One that ended with warnings did what it was to do.
pub(super) fn task(answer: &Value) -> Follow {
    let word = |name: &str| {
        answer
            .pointer("/data")
            .and_then(|data| data.get(name)?.as_str())
    };
    match (word("status"), word("exitstatus")) {
        (Some("running"), _) => Follow::Running,
        (Some("stopped"), Some("OK")) => Follow::Done,
        (Some("stopped"), Some(end)) if end.starts_with("WARNINGS: ") => Follow::Done,
        (status, end) => Follow::Failed(format!(
            "its task is {} ({})",
            printable(status.unwrap_or("in no state"), 40),
            printable(end.unwrap_or("no exit status"), 120)
        )),
    }
}

/// A whole number, as a number or, as Perl writes some, as a text.
fn whole(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.parse().ok().filter(|_| text.len() <= 10),
        _ => None,
    }
}

/// What stands there, for people.
fn text(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => "missing".to_owned(),
    }
}
