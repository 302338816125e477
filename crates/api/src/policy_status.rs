//! The status of a NodeFencingPolicy: whether it would act, on how many nodes, and who is left unprotected.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::settings::{ApprovalMode, FenceMode};
use super::{conditions, crd};

/// What the operator last saw of the policy's nodes and incidents.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeFencingPolicyStatus {
    /// `metadata.generation` this status was derived from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// `Ready`: the policy is valid and would act as it says. `AdmissionGuardMissing`: the API server lets the operator do what
    /// `deploy/admission.yaml` forbids. `OtherFencers`: others fence its nodes, taint them, restart or delete them, or want something
    /// for that. `Stalled`, `Reconciling`: for kstatus.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions::schema")]
    pub conditions: Vec<Condition>,

    /// What holds now, if the policy has `windows`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effective: Option<EffectiveSettings>,

    /// The policy's nodes in numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<PolicyNodes>,

    /// NodeFences of this policy that have not ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100_000))]
    pub open_incidents: Option<u32>,

    /// Open ones that a gate (budget, approval, pause, window) holds back.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100_000))]
    pub held_incidents: Option<u32>,

    /// How many more fences the budget would admit now.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100_000))]
    pub budget_remaining: Option<u32>,

    /// When the last incident of this policy began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crd::time")]
    pub last_incident_time: Option<Timestamp>,

    /// Selected nodes that no ready device could fence, by name; the first 50.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50), inner(length(max = 253)), extend("x-kubernetes-list-type" = "set"))]
    pub unprotected_nodes: Vec<String>,
}

/// What the policy's windows make of it at this time of the week.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EffectiveSettings {
    /// How far the operator may go now.
    pub mode: FenceMode,
    /// Who decides now that a node is fenced.
    pub approval_mode: ApprovalMode,
    /// The window that is open; absent: none is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub window: Option<String>,
    /// Until when mode and approval are these; absent: no change is in sight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crd::time")]
    pub until_time: Option<Timestamp>,
}

/// The policy's nodes in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyNodes {
    /// Nodes that the policy selects and no policy of a higher priority takes.
    #[schemars(range(min = 0, max = 100_000))]
    pub selected: u32,
    /// Of these: healthy by this policy's conditions.
    #[schemars(range(min = 0, max = 100_000))]
    pub healthy: u32,
    /// Of these: unhealthy by this policy's conditions.
    #[schemars(range(min = 0, max = 100_000))]
    pub unhealthy: u32,
    /// Of these: at least one fence level has what it needs for the node (all of its devices, or one with `require: Any`). In modes
    /// ConfirmOnly and Observe a device that may only read is enough.
    #[schemars(range(min = 0, max = 100_000))]
    pub protected: u32,
    /// The rest.
    #[schemars(range(min = 0, max = 100_000))]
    pub unprotected: u32,
}
