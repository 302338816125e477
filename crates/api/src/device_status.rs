//! The status of a FenceDevice: what the last probes found, and the identities that were pinned.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::{conditions, crd};

/// Power of a machine as its device reports it: Off only if the device says exactly that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum PowerState {
    /// The machine has power.
    On,
    /// The machine has no power: the device said exactly its word for off, and no fault bit was set.
    Off,
    /// On its way from one to the other.
    Transitional,
    /// Anything else: null, missing, paused, suspended, a value the driver does not know, or no answer.
    Unknown,
}

impl PowerState {
    /// Does the device say that the machine has power, for now at least?
    pub fn has_power(self) -> bool {
        matches!(self, Self::On | Self::Transitional)
    }
}

/// What the last probes found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FenceDeviceStatus {
    /// `metadata.generation` this status was derived from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// `Ready`, and its parts `Reachable`, `CredentialsValid` and `IdentityVerified`. `Stalled`, `Reconciling`: for kstatus.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions::schema")]
    pub conditions: Vec<Condition>,

    /// Name of the driver.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub driver: Option<String>,

    /// Power of the machine at the last probe; only for a device of one node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_state: Option<PowerState>,

    /// When the device was last probed; of a fleet: since when each of its nodes has been, those aside that are being fenced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crd::time")]
    pub last_probe_time: Option<Timestamp>,

    /// When a probe last succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crd::time")]
    pub last_success_time: Option<Timestamp>,

    /// When a probe last read `Off`; only for a device of one node. Absent: never since its settings were changed, so that it is not known
    /// whether the device answers while its machine is off: one that shares the host's network port may not. It does not make an Off count: see `positiveControls`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crd::time")]
    pub last_off_time: Option<Timestamp>,

    /// When a probe last read that the machine has power (`On` or `Transitional`), whatever the device has said since; only for a device of one node.
    /// Absent: never since its settings were changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crd::time")]
    pub last_on_time: Option<Timestamp>,

    /// The machine as the device describes it; only for a device of one node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<SystemInfo>,

    /// What the device says of itself; only for a device of one node. For people: nothing is decided by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bmc: Option<BmcInfo>,

    /// The identity of each node's machine, pinned while that node was Ready. A device that names another one is refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["nodeName"]))]
    pub systems: Vec<PinnedSystem>,

    /// What the device read of each node's machine when the kubelet showed that it was running, last in that boot. Only a device that has read
    /// `On` there can prove by `Off` that the machine is off.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["nodeName"]))]
    pub positive_controls: Vec<PositiveControl>,

    /// What turns the machine of a node on again by itself, as its provider says; nodes without such a thing are left out. Nothing is decided by it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["nodeName"]))]
    pub restarters: Vec<Restarter>,

    /// The device's nodes in numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<DeviceNodes>,

    /// Nodes for which the device is not ready, by name; the first 50.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50), inner(length(max = 253)), extend("x-kubernetes-list-type" = "set"))]
    pub not_ready_nodes: Vec<String>,
}

/// What a device says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BmcInfo {
    /// What the machine does when power returns: `AlwaysOn`, `AlwaysOff`, `LastState` (Redfish `PowerRestorePolicy`; IPMI chassis status).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub power_restore_policy: Option<String>,
    /// IPMI cipher suites that it lists, by number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(range(min = 0, max = 255)), extend("x-kubernetes-list-type" = "atomic"))]
    pub cipher_suites: Vec<u8>,
    /// Its clock (Redfish Manager `DateTime`; IPMI SEL time) when it was last read, which is once an hour and in a probe that was asked for; absent when it has none, or never set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crd::time")]
    pub clock_time: Option<Timestamp>,
    /// By how many seconds its clock was ahead of the operator's then; negative: behind. The times of its event log are off by as much.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_ahead_seconds: Option<i64>,
}

/// The machine as the device describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SystemInfo {
    /// SMBIOS system UUID.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub uuid: Option<String>,
    /// Manufacturer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub vendor: Option<String>,
    /// Model.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub model: Option<String>,
    /// Serial number of the system.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub serial_number: Option<String>,
    /// Version of the device's firmware.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub firmware: Option<String>,
}

/// The identity of one node's machine, pinned while the node was Ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PinnedSystem {
    /// The Node.
    #[schemars(length(min = 1, max = 253))]
    pub node_name: String,
    /// Its uid: a Node created again under the same name is pinned again.
    #[serde(rename = "nodeUID")]
    #[schemars(length(min = 1, max = 64))]
    pub node_uid: String,
    /// SMBIOS system UUID that the device named.
    #[schemars(length(min = 1, max = 64))]
    pub uuid: String,
    /// Serial number that the device named.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub serial_number: Option<String>,
}

/// What a device read of one node's machine while that machine was running.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PositiveControl {
    /// The Node.
    #[schemars(length(min = 1, max = 253))]
    pub node_name: String,
    /// Its uid.
    #[serde(rename = "nodeUID")]
    #[schemars(length(min = 1, max = 64))]
    pub node_uid: String,
    /// The boot in which the Node was Ready.
    #[serde(rename = "bootID")]
    #[schemars(length(min = 1, max = 64))]
    pub boot_id: String,
    /// `On`: the device can tell a running machine from one that is off. `Off`: it read Off while the kubelet renewed its Lease, and proves
    /// nothing until it reads On.
    #[schemars(schema_with = "on_or_off")]
    pub power_state: PowerState,
    /// When that was read first.
    #[schemars(schema_with = "crd::time")]
    pub since_time: Timestamp,
}

fn on_or_off(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": ["On", "Off"]})
}

/// What turns one node's machine on again by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Restarter {
    /// The Node.
    #[schemars(length(min = 1, max = 253))]
    pub node_name: String,
    /// What it is, like `Proxmox HA`, an Auto Scaling group and its name.
    #[schemars(length(min = 1, max = 128))]
    pub by: String,
}

/// The device's nodes in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeviceNodes {
    /// Nodes the device is for.
    #[schemars(range(min = 0, max = 100_000))]
    pub total: u32,
    /// Of these: the device is ready to fence them.
    #[schemars(range(min = 0, max = 100_000))]
    pub ready: u32,
}
