//! The status of a NodeFence: the record of an incident.
//!
//! It is written for people and for a successor of this process. No part of it is ever input of a decision to taint: a proof
//! lives in memory only, and a stored copy is evidence (S3).

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::device::PowerState;
use super::{conditions, crd};

pub use super::readings::{Evidence, EvidenceReading, PowerOf, PowerReading};

/// The record of an incident.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeFenceStatus {
    /// `metadata.generation` this status was derived from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// `Succeeded` (its reason is the stage), `NodeConfirmedDown`, `Escalated`, `Held`; at any end `Completed`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions::schema")]
    pub conditions: Vec<Condition>,

    /// Uid of the Node this incident is about. Equals `spec.nodeUID`, or is the uid first seen when a human left that out.
    #[serde(rename = "nodeUID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub node_uid: Option<String>,

    /// Boot ID that is fenced. Equals `spec.bootID`, or is the one first seen when a human left that out.
    #[serde(rename = "bootID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub boot_id: Option<String>,

    /// Why `spec.manualConfirmation` counts for nothing any more: a device or the kubelet answered that the machine is on. Never taken
    /// back; a later check confirms another NodeFence.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub confirmation_refused: Option<String>,

    /// Life that was seen beside a device that read Off: it lies, or is wired to another machine. From the first on readings over 40 s are
    /// needed, and Off from each of `contradictingDevices`; in mode PowerOff nothing is commanded any more from the second on. Never taken back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 2), inner(length(max = 1024)), extend("x-kubernetes-list-type" = "atomic"))]
    pub contradictions: Vec<String>,

    /// FenceDevices that said On when others had read Off: nothing is proven before each of them reads Off, or a human gives their word. Never
    /// taken back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(max = 253)), extend("x-kubernetes-list-type" = "set"))]
    pub contradicting_devices: Vec<String>,

    /// The latest power reading of each FenceDevice of the node, in this incident. The operator decides nothing by it;
    /// `kubectl fence confirm` refuses a manual confirmation while one reads On.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["device"]))]
    pub power_readings: Vec<PowerReading>,

    /// Value of the claim taint that is held now: the fencing token of the process that acts.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub claim: Option<String>,

    /// Fence level that is being tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub current_level: Option<String>,

    /// When the stage began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crd::time")]
    pub stage_start_time: Option<Timestamp>,

    /// When the stage escalates unless it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crd::time")]
    pub stage_deadline_time: Option<Timestamp>,

    /// When the node was found to need fencing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crd::time")]
    pub detected_time: Option<Timestamp>,

    /// When the fence was approved, by a human or by the policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crd::time")]
    pub approved_time: Option<Timestamp>,

    /// When the machine was proven to be down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crd::time")]
    pub confirmed_down_time: Option<Timestamp>,

    /// When the out-of-service taint was set; with `recovery.strategy: DeleteNode` the taint `nodefencing.io/detaching`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crd::time")]
    pub taint_applied_time: Option<Timestamp>,

    /// When the last volume had detached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crd::time")]
    pub detached_time: Option<Timestamp>,

    /// When that taint was removed, or its Node deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crd::time")]
    pub taint_removed_time: Option<Timestamp>,

    /// When the node was seen Ready again. Not written by this version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crd::time")]
    pub node_ready_time: Option<Timestamp>,

    /// When the incident ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crd::time")]
    pub completion_time: Option<Timestamp>,

    /// What was asked of devices; the last 50.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50), extend("x-kubernetes-list-type" = "atomic"))]
    pub attempts: Vec<Attempt>,

    /// How many attempts there were in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 10_000))]
    pub attempt_count: Option<u32>,

    /// What the proof rested on, stored before the taint was set. For the record: never read back as a proof.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,

    /// VolumeAttachments of the node; the first 128.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 128),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["volumeAttachment"])
    )]
    pub volumes: Vec<VolumeRecord>,

    /// How many VolumeAttachments the node had.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100_000))]
    pub volume_count: Option<u32>,

    /// How many of them have detached.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100_000))]
    pub volumes_detached: Option<u32>,

    /// How many pods had to leave the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100_000))]
    pub pod_count: Option<u32>,

    /// Pods that stay because they tolerate the out-of-service taint, as `namespace/name`; the first 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), inner(length(max = 317)), extend("x-kubernetes-list-type" = "set"))]
    pub tolerating_pods: Vec<String>,

    /// Trace of this incident, 32 hexadecimal digits. Not written by this version.
    #[serde(rename = "traceID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub trace_id: Option<String>,
}

/// One thing that was asked of a device, or of a human. Written before it is asked: without a result its outcome is unknown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    /// Names the attempt within the incident.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub id: Option<String>,

    /// The FenceDevice.
    #[schemars(length(max = 253))]
    pub device: String,

    /// The FenceDevice as it was, `<uid>/<generation>`: a later version has not received this command. Off commands only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub device_version: Option<String>,

    /// The fence level it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub level: Option<String>,

    /// What was asked.
    pub action: AttemptAction,

    /// When.
    #[schemars(schema_with = "crd::time")]
    pub start_time: Timestamp,

    /// When it is given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crd::time")]
    pub deadline_time: Option<Timestamp>,

    /// When nothing of it was to come any more, or the incident ended; absent while a command may still land.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crd::time")]
    pub completion_time: Option<Timestamp>,

    /// The result; absent while it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<AttemptResult>,

    /// Power of the machine as read with it. Not written by this version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_state: Option<PowerState>,

    /// What happened, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub message: Option<String>,
}

impl NodeFenceStatus {
    /// Has an off command of the incident gone out, or may it have? It is seen through then: a machine that is off with its pods still bound to it
    /// is worse than either end.
    #[must_use]
    pub fn is_commanded(&self) -> bool {
        let mut attempts = self.attempts.iter();
        attempts.any(|attempt| {
            attempt.action == AttemptAction::PowerOff
                && attempt.result != Some(AttemptResult::Refused)
        })
    }
}

impl Attempt {
    /// Is it a power command of which nobody knows what became? Whether it is completed tells nothing: the end of the NodeFence dates it so.
    pub fn may_land(&self) -> bool {
        let is_command = matches!(
            self.action,
            AttemptAction::PowerOff | AttemptAction::PowerOn
        );
        is_command && matches!(self.result, None | Some(AttemptResult::TimedOut))
    }
}

/// What was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum AttemptAction {
    /// Read the power state.
    Status,
    /// Turn the machine off, hard.
    PowerOff,
    /// Turn the machine on.
    PowerOn,
    /// Ask a human.
    ManualConfirm,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum AttemptResult {
    /// The device did it or answered.
    Succeeded,
    /// The device could not, or the answer was of no use.
    Failed,
    /// No answer, or no effect, in time: the outcome is unknown, and the effect may come late. Open until the incident ends.
    TimedOut,
    /// Never sent, because a check forbade it, or the device refused.
    Refused,
}

/// One VolumeAttachment of the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VolumeRecord {
    /// Name of the VolumeAttachment.
    #[schemars(length(max = 253))]
    pub volume_attachment: String,

    /// The PersistentVolume.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub persistent_volume: Option<String>,

    /// The CSI driver that attached it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub attacher: Option<String>,

    /// Where it stands.
    pub state: VolumeState,

    /// When it had detached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crd::time")]
    pub detached_time: Option<Timestamp>,

    /// The CSI driver's error, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub message: Option<String>,
}

/// Where a VolumeAttachment stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum VolumeState {
    /// Attached, and nothing is done about it yet.
    Attached,
    /// Being deleted.
    Detaching,
    /// Gone.
    Detached,
    /// Being deleted, and the CSI driver reports an error.
    DetachError,
}
