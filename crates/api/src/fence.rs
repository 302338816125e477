//! NodeFence: one incident, from the request to its end, with the evidence.
//!
//! The operator creates it when a policy's conditions have held; a human creates it to fence now. It has no owner: the record
//! outlives the node and the policy. Its spec is frozen but for three fields that only ever go one way. The stage is the
//! reason of condition `Succeeded`.

#![allow(
    clippy::duplicated_attributes,
    reason = "each printer column has a type and a path"
)]

use jiff::Timestamp;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::conditions::{ConditionStatus, SUCCEEDED, find};
use super::crd;
use super::crd::{frozen, rule_at};
use super::remediation::RemediationReference;
use super::settings::{FenceMode, Procedure, procedure_rules};

pub use super::fence_status::{
    Attempt, AttemptAction, AttemptResult, Evidence, EvidenceReading, NodeFenceStatus,
    VolumeRecord, VolumeState,
};

/// Longest name of a NodeFence: with a hyphen and a nonce of 8 characters it is the value of its claim, a taint, which the API server holds to 63
/// (`ValidateTaintsInNodeAddOrUpdate`, upstream's pkg/apis/core/validation).
pub const FENCE_NAME_CHARS_MAX: usize = 54;

/// One incident: request, approval, evidence, outcome.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "nodefencing.io",
    version = "v1alpha1",
    kind = "NodeFence",
    plural = "nodefences",
    shortname = "nf",
    category = "fencing",
    status = "NodeFenceStatus",
    derive = "PartialEq",
    doc = "One incident: request, approval, evidence, outcome.",
    selectable = ".spec.nodeName",
    selectable = ".spec.policyName",
    printcolumn(name = "NODE", type_ = "string", json_path = ".spec.nodeName"),
    printcolumn(name = "POLICY", type_ = "string", json_path = ".spec.policyName"),
    printcolumn(
        name = "STAGE",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Succeeded")].reason"#
    ),
    printcolumn(
        name = "DOWN",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="NodeConfirmedDown")].status"#
    ),
    printcolumn(name = "VOLUMES", type_ = "integer", json_path = ".status.volumeCount"),
    printcolumn(
        name = "DETACHED",
        type_ = "integer",
        json_path = ".status.volumesDetached"
    ),
    printcolumn(
        name = "ATTEMPTS",
        type_ = "integer",
        json_path = ".status.attemptCount",
        priority = 1
    ),
    printcolumn(
        name = "DEADLINE",
        type_ = "string",
        json_path = ".status.stageDeadlineTime",
        priority = 1
    ),
    printcolumn(
        name = "MESSAGE",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Succeeded")].message"#,
        priority = 1
    ),
    printcolumn(
        name = "AGE",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [vec![
    frozen("nodeName"),
    frozen("nodeUID"),
    frozen("bootID"),
    frozen("policyName"),
    frozen("policyGeneration"),
    frozen("trigger"),
    frozen("fence"),
    frozen("recovery"),
    frozen("release"),
    frozen("powerOn"),
    rule_at(
        "!has(oldSelf.approval) || (has(self.approval) && self.approval == oldSelf.approval)",
        "`approval` may not be changed once set",
        ".approval",
    ),
    rule_at(
        "!has(oldSelf.manualConfirmation) \
         || (has(self.manualConfirmation) && self.manualConfirmation == oldSelf.manualConfirmation)",
        "`manualConfirmation` may not be changed once set",
        ".manualConfirmation",
    ),
    json!({
        "rule": "!has(self.manualConfirmation) || !has(self.nodeUID) || self.manualConfirmation.nodeUID == self.nodeUID",
        "messageExpression": "'`manualConfirmation.nodeUID` must be ' + self.nodeUID + ', the Node that this NodeFence is about, was ' \
                              + self.manualConfirmation.nodeUID",
        "fieldPath": ".manualConfirmation",
    }),
    rule_at(
        "oldSelf.desiredState != 'Released' || self.desiredState == 'Released'",
        "`desiredState` may not be changed back from 'Released'",
        ".desiredState",
    ),
    rule_at(
        "self.trigger.type != 'Manual' || (has(self.trigger.reason) && has(self.trigger.requestedBy))",
        "`trigger.reason` and `trigger.requestedBy` must be set when `trigger.type` is 'Manual'",
        ".trigger",
    ),
], procedure_rules()].concat()))]
pub struct NodeFenceSpec {
    /// The Node to fence.
    #[schemars(length(min = 1, max = 253))]
    pub node_name: String,

    /// Uid of that Node: nothing done for one Node lands on another of the same name.
    #[serde(rename = "nodeUID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub node_uid: Option<String>,

    /// Boot ID of the node when the incident began.
    #[serde(rename = "bootID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub boot_id: Option<String>,

    /// The policy by which the node is fenced; absent when a human asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub policy_name: Option<String>,

    /// `metadata.generation` of that policy when its settings were copied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy_generation: Option<i64>,

    /// Why the node is fenced.
    pub trigger: Trigger,

    /// What is done about the node, frozen when the incident began.
    #[serde(flatten)]
    pub procedure: Procedure,

    /// `Released` lets the node go: it stops the fence before the taint, and asks for the release after it.
    #[serde(default)]
    pub desired_state: DesiredState,

    /// A human's answer, once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,

    /// Manual confirmation that the machine is off, once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manual_confirmation: Option<ManualConfirmation>,
}

impl NodeFence {
    /// Has the incident ended? An ended one never changes again, but that its proof may turn out to have been false.
    pub fn is_ended(&self) -> bool {
        let status = self.status.as_ref();
        status
            .and_then(|status| find(&status.conditions, SUCCEEDED))
            .is_some_and(|succeeded| succeeded.status != "Unknown")
    }

    /// Is it open, and may it act on its node? One that only observes stands in nobody's way.
    pub fn may_act(&self) -> bool {
        !self.is_ended() && self.spec.procedure.fence.mode != FenceMode::Observe
    }

    /// Does it keep this policy from opening an incident of its node? What only observes is in the way of its own policy alone.
    pub fn serves(&self, policy: &str) -> bool {
        let is_its_own = self.spec.policy_name.as_deref() == Some(policy);
        self.may_act() || (!self.is_ended() && is_its_own)
    }

    /// Does it have a place in its policy's budget, by its record? It has claimed the node, or more, and has not released it. Who was admitted just
    /// now, and has not claimed it yet, is known to the operator alone.
    pub fn was_admitted(&self) -> bool {
        let is_claimed = self.status.as_ref().is_some_and(|it| it.claim.is_some());
        is_claimed || self.is_out_of_service()
    }

    /// Does its taint stand on the Node, by its record?
    pub fn is_out_of_service(&self) -> bool {
        let status = self.status.as_ref();
        status.is_some_and(|it| it.taint_applied_time.is_some() && it.taint_removed_time.is_none())
    }

    /// The commands that may still land, by what is recorded of them.
    pub fn commands_that_may_land(&self) -> impl Iterator<Item = AttemptAction> + use<'_> {
        let attempts = self.status.iter().flat_map(|status| &status.attempts);
        let open = attempts.filter(|it| it.may_land());
        open.map(|it| it.action)
    }

    /// May it be about this boot of this node? A kubelet that makes its Node anew goes on in the boot that it had. One that is bound to no boot is
    /// about a Node, and one that is bound to nothing about whatever has its name.
    pub fn may_be_about(&self, node: &str, uid: Option<&str>, boot_id: Option<&str>) -> bool {
        let (spec, status) = (&self.spec, self.status.as_ref());
        let bound_uid = spec.node_uid.as_deref();
        let bound_uid = bound_uid.or_else(|| status?.node_uid.as_deref());
        let bound_boot = spec.boot_id.as_deref();
        let bound_boot = bound_boot.or_else(|| status?.boot_id.as_deref());
        let is_same = |one: Option<&str>, other: Option<&str>| Some(one? == other?);
        let by_boot = is_same(bound_boot, boot_id);
        let by_node = is_same(bound_uid, uid);
        spec.node_name == node && by_boot.or(by_node).unwrap_or(true)
    }
}

/// Why a node is fenced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Trigger {
    /// Who asked: a node condition by a policy, or a human or another system (`Manual`). `External` is for what the operator finds without a
    /// record, and never fences.
    #[serde(rename = "type")]
    pub type_: TriggerType,

    /// Type of the node condition that held too long.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 316))]
    pub condition_type: Option<String>,

    /// Its status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition_status: Option<ConditionStatus>,

    /// Since when it has had that status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crd::time")]
    pub unhealthy_since_time: Option<Timestamp>,

    /// When the policy's waits end. The node is not claimed before, unless `earlySeconds` is set and its devices read Off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crd::time")]
    pub due_time: Option<Timestamp>,

    /// Seconds that were left until `dueTime` when this was created because a FenceDevice read Off (`durationPolicy: SkipIfOff`). Absent where it
    /// was created when it was due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86_400))]
    pub early_seconds: Option<u32>,

    /// `Operator`: it set the condition itself, reason `PoweredOff`, before Kubernetes noticed (`earlyDetection`). Absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported_by: Option<Reporter>,

    /// The NodeFenceRemediation for which the rest of the policy's wait was skipped. Its deletion before the taint ends this. Absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remediation: Option<RemediationReference>,

    /// Who asked: the user who creates this, see `kubectl auth whoami`. Must be set for `Manual`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub requested_by: Option<String>,

    /// Why; must be set for `Manual`. Of a policy: the window that was open.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub reason: Option<String>,
}

/// Who set the condition for which a node is fenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Reporter {
    /// The operator itself (`earlyDetection`).
    Operator,
}

/// Who asked for a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TriggerType {
    /// A policy, by a node condition.
    NodeCondition,
    /// A human.
    Manual,
    /// Nobody: an `out-of-service` of the operator that was found without its record.
    External,
}

/// What is wanted of the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DesiredState {
    /// Fence it, and let it go as `release` says.
    #[default]
    Fenced,
    /// Let it go.
    Released,
}

/// A human's answer to a fence that needs one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Approval {
    /// Yes or no.
    pub decision: ApprovalDecision,
    /// Who answered: the user who writes this, see `kubectl auth whoami`.
    #[schemars(length(min = 1, max = 253))]
    pub user: String,
    /// Why.
    #[schemars(length(min = 1, max = 1024))]
    pub reason: String,
    /// When: a time of RFC 3339, for instance `2027-01-02T18:00:00Z`.
    #[schemars(schema_with = "crd::time")]
    pub time: Timestamp,
}

/// Yes or no.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ApprovalDecision {
    /// Fence it.
    Approved,
    /// Do not.
    Denied,
}

/// Manual confirmation that the machine is off. It is valid for 15 minutes, unless a device reads On or the Node is Ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManualConfirmation {
    /// What the human confirms, word for word.
    pub statement: ManualStatement,
    /// Uid of the Node whose machine was looked at: it must be the one that this NodeFence is about.
    #[serde(rename = "nodeUID")]
    #[schemars(length(min = 1, max = 64))]
    pub node_uid: String,
    /// Who confirms it: the user who writes this, see `kubectl auth whoami`.
    #[schemars(length(min = 1, max = 253))]
    pub user: String,
    /// How it was verified.
    #[schemars(length(min = 1, max = 1024))]
    pub reason: String,
    /// When: a time of RFC 3339, for instance `2027-01-02T18:00:00Z`.
    #[schemars(schema_with = "crd::time")]
    pub time: Timestamp,
}

/// The only statement that confirms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ManualStatement {
    /// I have seen with my own eyes, or by other means I trust, that the machine has no power.
    IVerifiedTheNodeIsPoweredOff,
}
