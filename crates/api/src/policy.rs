//! NodeFencingPolicy: which nodes are fenced, when, and how far the operator may go.
//!
//! A policy with only a `nodeSelector` is in mode `Observe`: it reports and changes nothing. Each field that lets the
//! operator do more is an explicit choice of the user, and each default is the cautious one.

#![allow(
    clippy::duplicated_attributes,
    reason = "each printer column has a type and a path"
)]

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::crd::{rule, rule_at};
use super::selector::LabelSelector;
use super::settings::procedure_rules;

pub use super::conditions::ConditionStatus;
pub use super::min_healthy::MinHealthy;
pub use super::policy_status::{EffectiveSettings, NodeFencingPolicyStatus, PolicyNodes};
pub use super::settings::{
    ApprovalMode, ApprovalSettings, ApprovalTimeout, FenceLevel, FenceMode, FenceSettings,
    LevelRequirement, PodDeletion, PowerOnPolicy, PowerOnSettings, Procedure, RecoverySettings,
    RecoveryStrategy, ReleaseMode, ReleaseSettings, Verification,
};
pub use super::window::{PauseRequest, Weekday, Window};

/// Which nodes are fenced, when, and how far the operator may go.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "nodefencing.io",
    version = "v1alpha1",
    kind = "NodeFencingPolicy",
    plural = "nodefencingpolicies",
    shortname = "nfp",
    category = "fencing",
    status = "NodeFencingPolicyStatus",
    derive = "PartialEq",
    doc = "Which nodes are fenced, when, and how far the operator may go.",
    printcolumn(name = "MODE", type_ = "string", json_path = ".spec.fence.mode"),
    printcolumn(
        name = "WINDOW",
        type_ = "string",
        json_path = ".status.effective.window"
    ),
    printcolumn(
        name = "NODES",
        type_ = "integer",
        json_path = ".status.nodes.selected"
    ),
    printcolumn(
        name = "PROTECTED",
        type_ = "integer",
        json_path = ".status.nodes.protected"
    ),
    printcolumn(name = "OPEN", type_ = "integer", json_path = ".status.openIncidents"),
    printcolumn(
        name = "READY",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(
        name = "APPROVAL",
        type_ = "string",
        json_path = ".spec.fence.approval.mode",
        priority = 1
    ),
    printcolumn(
        name = "BUDGET",
        type_ = "integer",
        json_path = ".status.budgetRemaining",
        priority = 1
    ),
    printcolumn(
        name = "LAST-INCIDENT",
        type_ = "date",
        json_path = ".status.lastIncidentTime",
        priority = 1
    ),
    printcolumn(
        name = "REASON",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].reason"#,
        priority = 1
    ),
    printcolumn(
        name = "AGE",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [procedure_rules(), vec![
    rule_at(
        "!has(self.windows) || self.windows.all(window, !has(window.mode) || window.mode == 'Observe') \
         || (has(self.fence.levels) && size(self.fence.levels) > 0)",
        "`fence.levels` must have at least one entry unless the `mode` of every window is 'Observe'",
        ".fence.levels",
    ),
]].concat()))]
pub struct NodeFencingPolicySpec {
    /// Nodes the policy is for. An empty selector is every node.
    pub node_selector: LabelSelector,

    /// Among several policies that select one node the highest priority wins. Equal priorities are a conflict, and neither
    /// acts.
    #[serde(default)]
    #[schemars(range(min = -1000, max = 1000))]
    pub priority: i32,

    /// Node conditions that make a node unhealthy once one of them has held for its duration.
    #[serde(default = "default_unhealthy_conditions")]
    #[schemars(
        length(min = 1, max = 16),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type", "status"])
    )]
    pub unhealthy_conditions: Vec<UnhealthyCondition>,

    /// `SkipIfOff` claims a node before its `durationSeconds` are over if the devices of a level read Off; `Wait` never does. Mode `Observe` always
    /// waits, and a manual confirmation and a storage skip nothing. The proof is the same.
    #[serde(default)]
    pub duration_policy: DurationPolicy,

    /// `Enabled` asks the devices of a node as soon as its kubelet's Lease is silent for three tenths of its duration, and reports a machine that reads
    /// Off as `Ready` `Unknown`, reason `PoweredOff`, before Kubernetes does. Devices are probed every 30 seconds. It needs rights that the chart
    /// grants with `rbac.earlyDetection`; without them nothing is reported early.
    #[serde(default)]
    pub early_detection: EarlyDetection,

    /// What is done about a node.
    #[serde(flatten)]
    pub procedure: Procedure,

    /// How many nodes may be fenced, so that an outage or a mistake cannot take the cluster down.
    #[serde(default)]
    pub budget: Budget,

    /// Nodes that are left alone although they are selected.
    #[serde(default)]
    pub exclusions: Exclusions,

    /// Times of the week with another approval or mode. The first window that is open counts, alone: what it does not set is as
    /// `fence` says. An incident that has not claimed its node ends when a window opens or closes that changes mode or approval, and a
    /// new one begins with what holds then. One that has claimed its node ends only where that is less, and not once its machine may have
    /// been turned off.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub windows: Vec<Window>,

    /// While at least one entry stands that has not expired, the policy starts no new fence, and an incident that waits is held.
    /// A fence that has claimed its node goes on: its release is never stopped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub pause_requests: Vec<PauseRequest>,

    /// How long ended incidents of this policy are kept.
    #[serde(default)]
    pub history: History,
}

/// A node condition that, held long enough, makes a node unhealthy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnhealthyCondition {
    /// Type of the node condition, for instance `Ready`.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 316))]
    pub type_: String,

    /// Status of the node condition that counts as unhealthy.
    pub status: ConditionStatus,

    /// How long the condition must have had this status, in seconds. `durationPolicy` says when the rest of it is skipped.
    #[schemars(range(min = 10, max = 86_400))]
    pub duration_seconds: u32,
}

/// For which machines the operator waits until an unhealthy condition has lasted for its duration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum DurationPolicy {
    /// For all but those that the devices of a level read Off while the condition lasts: a machine without power is no break of the network.
    #[default]
    SkipIfOff,
    /// For all machines.
    Wait,
}

/// Whether a machine that is off is reported before Kubernetes notices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum EarlyDetection {
    /// Kubernetes notices after its grace period.
    #[default]
    Disabled,
    /// The operator reports it. Whoever has stolen its token can take a Node that is Ready out of service then.
    Enabled,
}

/// One condition by default: the kubelet has been silent for a minute.
fn default_unhealthy_conditions() -> Vec<UnhealthyCondition> {
    vec![UnhealthyCondition {
        type_: "Ready".to_owned(),
        status: ConditionStatus::Unknown,
        duration_seconds: 60,
    }]
}

/// How many nodes may be fenced. A fence that the budget does not admit is held, and goes on when it does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Budget {
    /// How many nodes of this policy may be fenced at the same time. To pause use `pauseRequests`.
    #[schemars(
        range(min = 1, max = 100),
        extend("x-kubernetes-validations" = [rule("self >= 1", "must be at least 1: to pause use `pauseRequests`")])
    )]
    pub max_concurrent: u32,

    /// How many of the policy's nodes must be Ready for a new fence in mode PowerOff: a number, or a percentage of those selected,
    /// rounded up. The other modes do not ask, nor does a fence that a human has approved.
    pub min_healthy: MinHealthy,

    /// How many fences may start in any hour. To pause use `pauseRequests`.
    #[schemars(
        range(min = 1, max = 1000),
        extend("x-kubernetes-validations" = [rule("self >= 1", "must be at least 1: to pause use `pauseRequests`")])
    )]
    pub max_per_hour: u32,

    /// How long after a node's last incident it is not fenced again, in seconds. Incidents count that ended after the machine was
    /// turned off or proven to be off, those of a human too; the wait outlasts a restart of the operator. A NodeFence made by a
    /// human does not wait.
    #[schemars(range(min = 0, max = 86_400))]
    pub cooldown_seconds: u32,

    /// Whether a control plane node may be fenced when the quorum of etcd would be at risk.
    pub control_plane: ControlPlaneBudget,

    /// A further limit for each rack, zone or other failure domain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_domain: Option<FailureDomainBudget>,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            max_concurrent: 1,
            min_healthy: MinHealthy::Percent(51),
            max_per_hour: 3,
            cooldown_seconds: 300,
            control_plane: ControlPlaneBudget::PreserveQuorum,
            failure_domain: None,
        }
    }
}

/// What the budget does about control plane nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ControlPlaneBudget {
    /// Never fence a control plane node when fewer than a majority of them would be left.
    PreserveQuorum,
    /// Treat control plane nodes like any other.
    Ignore,
}

/// A limit for each failure domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailureDomainBudget {
    /// Node label whose value names the failure domain, for instance `topology.kubernetes.io/zone`. Nodes without the label
    /// share one domain.
    #[schemars(length(min = 1, max = 317))]
    pub topology_key: String,

    /// How many nodes of one failure domain may be fenced at the same time.
    #[serde(default = "one")]
    #[schemars(
        range(min = 1, max = 100),
        extend("x-kubernetes-validations" = [rule("self >= 1", "must be at least 1: to pause use `pauseRequests`")])
    )]
    pub max_concurrent: u32,
}

fn one() -> u32 {
    1
}

/// Nodes that are left alone although they are selected. They are asked again before the node is claimed; a fence that has claimed its
/// node goes on, and a NodeFence made by a human does not ask.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Exclusions {
    /// Whether cordoned nodes are left alone.
    pub cordoned: CordonedNodes,

    /// Whether nodes under maintenance are left alone. These say so: condition `MaintenanceInProgress` (KEP-5683), annotation
    /// `weave.works/kured-reboot-in-progress` or `kured.dev/kured-reboot-in-progress`, and label
    /// `remediation.medik8s.io/exclude-from-remediation` with value `true`.
    pub maintenance: MaintenanceNodes,

    /// A node with an annotation of one of these keys is left alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 317)), extend("x-kubernetes-list-type" = "set"))]
    pub annotations: Vec<String>,

    /// A node with a taint of one of these keys is left alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 317)), extend("x-kubernetes-list-type" = "set"))]
    pub taints: Vec<String>,

    /// A node that joined or last booted less than this many seconds ago is not fenced before that time is over. A boot counts
    /// if the operator saw the boot ID change; what was before its own start counts as long ago. A NodeFence made by a human does
    /// not wait.
    #[schemars(range(min = 0, max = 86_400))]
    pub min_uptime_seconds: u32,
}

impl Default for Exclusions {
    fn default() -> Self {
        Self {
            cordoned: CordonedNodes::Skip,
            maintenance: MaintenanceNodes::Skip,
            annotations: vec![],
            taints: vec![],
            min_uptime_seconds: 300,
        }
    }
}

/// What is done about a cordoned node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CordonedNodes {
    /// Do not fence it: it is worked on.
    Skip,
    /// Fence it like any other.
    Fence,
}

/// What is done about a node under maintenance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MaintenanceNodes {
    /// Do not fence it: it is worked on.
    Skip,
    /// Fence it like any other.
    Fence,
}

/// How long ended incidents are kept. A record stays longer while something hangs on it: as long as the outage lasts that it is
/// about, and until the node's cooldown is over. NodeFences made by a human, and those of a policy that was deleted, are kept until
/// they are deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct History {
    /// How many ended NodeFences of this policy are kept. One on which something still hangs stays beyond that: its outage, its node's cooldown, a
    /// command that may still land in the boot that its node is in and that no later one tells of.
    #[schemars(range(min = 1, max = 200))]
    pub limit: u32,

    /// How long an ended NodeFence is kept, in seconds, or longer for the same reasons.
    #[schemars(range(min = 3_600, max = 31_536_000))]
    pub ttl_seconds: u32,
}

impl Default for History {
    fn default() -> Self {
        Self {
            limit: 20,
            ttl_seconds: 2_592_000,
        }
    }
}
