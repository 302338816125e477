//! What devices have said in an incident: the last of it, for people, and what a proof rested on.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::crd;
use super::device::PowerState;

/// What a FenceDevice said when it was asked for the power last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PowerReading {
    /// The FenceDevice.
    #[schemars(length(max = 253))]
    pub device: String,

    /// What it said; `Unknown`: it did not answer, or nothing that a proof would take for On or Off.
    pub power_state: PowerState,

    /// Whose power it reads.
    #[serde(default)]
    pub reads: PowerOf,

    /// Since when it has said so, each time that it was asked.
    #[schemars(schema_with = "crd::time")]
    pub since_time: Timestamp,

    /// When it last said On or Transitional, as far as that was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crd::time")]
    pub last_on_time: Option<Timestamp>,
}

impl PowerReading {
    /// Does it say that a machine has power whose power somebody is about to confirm cut? Whoever pulls the cords leaves outlets on.
    pub fn speaks_against_a_word(&self) -> bool {
        self.power_state.has_power() && self.reads == PowerOf::Machine
    }
}

/// Whose power a FenceDevice reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum PowerOf {
    /// The machine's.
    #[default]
    Machine,
    /// That of its outlets, which have power where a machine was switched off otherwise.
    Outlets,
}

/// What a proof rested on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Evidence {
    /// Value of the claim taint under which the proof was made.
    #[schemars(length(max = 128))]
    pub claim: String,

    /// Uid of the Node.
    #[serde(rename = "nodeUID")]
    #[schemars(length(max = 64))]
    pub node_uid: String,

    /// Boot ID that the Node showed after the last reading: no new boot.
    #[serde(rename = "nodeBootID")]
    #[schemars(length(max = 64))]
    pub node_boot_id: String,

    /// When the kubelet last renewed its Lease, by the Lease: no sign of life since the claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crd::time")]
    pub lease_renew_time: Option<Timestamp>,

    /// When the kubelet last reported the Node's condition `Ready` (its `lastHeartbeatTime`). As long as the Node still shows this one,
    /// nothing has reported since, and no policy opens another incident for it while its quarantine stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crd::time")]
    pub ready_heartbeat_time: Option<Timestamp>,

    /// When no pod could start on the node any more.
    #[schemars(schema_with = "crd::time")]
    pub quiesced_time: Timestamp,

    /// When the proof was complete.
    #[schemars(schema_with = "crd::time")]
    pub proven_time: Timestamp,

    /// The readings, oldest first.
    #[serde(default)]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "atomic"))]
    pub readings: Vec<EvidenceReading>,
}

/// One answer of a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvidenceReading {
    /// The FenceDevice.
    #[schemars(length(max = 253))]
    pub device: String,

    /// The fence level it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub level: Option<String>,

    /// What the answer means.
    pub power_state: PowerState,

    /// What the device said, word for word.
    #[serde(default)]
    #[schemars(length(max = 64))]
    pub raw: String,

    /// System UUID that the device named.
    #[serde(rename = "systemUUID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub system_uuid: Option<String>,

    /// When the answer had arrived.
    #[schemars(schema_with = "crd::time")]
    pub time: Timestamp,

    /// How long the answer took, in milliseconds.
    #[serde(default)]
    #[schemars(range(min = 0, max = 600_000))]
    pub round_trip_millis: u32,
}
