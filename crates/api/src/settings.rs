//! The settings of one fence: chosen in a policy, frozen into each NodeFence.
//!
//! They stand in a file of their own because both resources carry them: a fence that runs must not change under an edit of
//! its policy (S15).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::crd::rule_at;
use super::device::FenceDevice;
use super::drivers::{PATIENCE_SECONDS, PATIENCE_SECONDS_MAX};
use super::selector::LabelSelector;

/// One command to the devices of a level has so many seconds, however little its level leaves.
pub const ORDER_SECONDS_MIN: u64 = 25;

/// What is done about a node, from the fence to the power-on. A policy has it, each of its NodeFences freezes it (S15), and the decision reads it
/// from there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Procedure {
    /// How the machine is proven to be down, and how far the operator may go for that.
    pub fence: FenceSettings,

    /// What is done with the node's pods and volumes once the machine is proven to be down.
    pub recovery: RecoverySettings,

    /// When the out-of-service taint is taken away again.
    pub release: ReleaseSettings,

    /// Whether the machine is turned on again afterwards.
    pub power_on: PowerOnSettings,
}

/// What its parts ask of each other.
pub(super) fn procedure_rules() -> Vec<Value> {
    vec![
        // No machine is turned on while its node is out of service (S11), and where it stays so until the next boot there would never be one.
        rule_at(
            "self.powerOn.policy != 'AfterRecovery' || self.release.mode == 'AfterDetach'",
            "`powerOn.policy` 'AfterRecovery' needs `release.mode` 'AfterDetach': no machine is turned on while its node is out of service",
            ".powerOn.policy",
        ),
        // What turns the machine on is the release from the out-of-service taint: without the one there is never the other.
        rule_at(
            "self.powerOn.policy != 'AfterRecovery' || self.recovery.strategy == 'OutOfServiceTaint'",
            "`powerOn.policy` 'AfterRecovery' needs `recovery.strategy` 'OutOfServiceTaint': a machine is turned on after the release of the taint",
            ".powerOn.policy",
        ),
        // In mode ConfirmOnly no power command is ever sent, and what others have turned off is theirs to turn on.
        rule_at(
            "self.powerOn.policy != 'AfterRecovery' || self.fence.mode == 'PowerOff'",
            "`powerOn.policy` 'AfterRecovery' needs `fence.mode` 'PowerOff': only a machine that the operator has turned off is turned on",
            ".powerOn.policy",
        ),
        // Of a Node that is deleted nothing is left that a release could wait for.
        rule_at(
            "self.recovery.strategy != 'DeleteNode' || self.release.mode == 'AfterDetach'",
            "`recovery.strategy` 'DeleteNode' needs `release.mode` 'AfterDetach': a Node that is deleted has no taint that could stay",
            ".release.mode",
        ),
    ]
}

/// How the machine is proven to be down, and how far the operator may go for that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [
    rule_at(
        "self.mode == 'Observe' || (has(self.levels) && size(self.levels) > 0)",
        "`levels` must have at least one entry unless `mode` is 'Observe'",
        ".levels",
    ),
]))]
pub struct FenceSettings {
    /// `Observe` only reports. `ConfirmOnly` acts when the node is already off. `PowerOff` turns it off and verifies.
    pub mode: FenceMode,

    /// Ways to prove that the machine is down, tried in this order until one succeeds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 5), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub levels: Vec<FenceLevel>,

    /// What it takes to believe that a machine is off.
    pub verification: Verification,

    /// Whether a human must agree first.
    pub approval: ApprovalSettings,
}

impl FenceSettings {
    /// How long a fence with these settings may go on to send, and its last command to land, in seconds. Of a level without a time, by whichever
    /// devices it had (S23).
    pub fn landing_seconds(&self) -> u64 {
        let times = self.levels.iter().map(|level| level.timeout_seconds);
        let times = times.map(|it| it.unwrap_or(PATIENCE_SECONDS_MAX));
        let longest = u64::from(times.max().unwrap_or_default());
        longest.max(ORDER_SECONDS_MIN) + u64::from(self.verification.late_effect_seconds)
    }
}

impl Default for FenceSettings {
    fn default() -> Self {
        Self {
            mode: FenceMode::Observe,
            levels: vec![],
            verification: Verification::default(),
            approval: ApprovalSettings::default(),
        }
    }
}

/// How far the operator may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum FenceMode {
    /// Report what would be done; change nothing in the cluster or on any machine.
    Observe,
    /// Act on a machine that is off already; never send a power command.
    ConfirmOnly,
    /// Turn the machine off, verify that it is, and act.
    PowerOff,
}

/// One way to prove that the machine is down: the devices of it that a selector picks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FenceLevel {
    /// Names the level in the record of an incident.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,

    /// Labels of the FenceDevices of this level. Without it: every device of the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_selector: Option<LabelSelector>,

    /// Whether all of the selected devices must agree, or any one is enough. Absent: `All`.
    #[serde(default = "all_devices")]
    pub require: LevelRequirement,

    /// How often a device is tried at most before the next level has its turn. Absent: 3.
    #[serde(default = "three_attempts")]
    #[schemars(range(min = 1, max = 10))]
    pub attempts: u32,

    /// Pause between two tries, in seconds. Absent: 5.
    #[serde(default = "retry_period_seconds")]
    #[schemars(range(min = 1, max = 300))]
    pub retry_period_seconds: u32,

    /// How long this level may take as a whole, in seconds: no further try begins after that, and one in progress has 25 s at least. Without it the
    /// longest that a driver of its devices needs: 600 for `aws`, 300 for `azure`, 240 for `gcp`, and 120 for any other. A NodeFence of a policy
    /// has the number.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 10, max = 1800))]
    pub timeout_seconds: Option<u32>,
}

impl FenceLevel {
    /// How long it may take as a whole with these devices, in seconds.
    pub fn seconds<'a>(&self, devices: impl IntoIterator<Item = &'a FenceDevice>) -> u32 {
        let patience = |device: &FenceDevice| device.spec.patience_seconds();
        self.timeout_seconds.unwrap_or_else(|| {
            let longest = devices.into_iter().map(patience).max();
            longest.unwrap_or(PATIENCE_SECONDS)
        })
    }
}

fn all_devices() -> LevelRequirement {
    LevelRequirement::All
}

fn three_attempts() -> u32 {
    3
}

fn retry_period_seconds() -> u32 {
    5
}

/// How many of a level's devices must agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LevelRequirement {
    /// Every one: a machine with two power supplies is off when both outlets are.
    All,
    /// One is enough: each of them alone controls the machine's power.
    Any,
}

/// What it takes to believe that a machine is off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Verification {
    /// How many readings in a row must say off.
    #[schemars(range(min = 2, max = 10))]
    pub consecutive_off_reads: u32,

    /// Pause between two of these readings, in seconds. In mode ConfirmOnly they span 10 s at least, unless each device has answered since the
    /// incident began and a probe has read `On` at most its period and 2 minutes ago.
    #[schemars(range(min = 1, max = 60))]
    pub read_period_seconds: u32,

    /// How long after an off command with an unknown outcome its effect may still land, in seconds. Until then nothing is
    /// turned on or released.
    #[schemars(range(min = 0, max = 600))]
    pub late_effect_seconds: u32,
}

impl Default for Verification {
    fn default() -> Self {
        Self {
            consecutive_off_reads: 2,
            read_period_seconds: 3,
            late_effect_seconds: 60,
        }
    }
}

/// Whether a human must agree before the machine's power is touched or a taint is set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ApprovalSettings {
    /// `Automatic` needs no human. `Manual` waits for `spec.approval` of the NodeFence.
    pub mode: ApprovalMode,

    /// How long an answer is waited for, in seconds.
    #[schemars(range(min = 30, max = 86_400))]
    pub timeout_seconds: u32,

    /// What follows when no approval or denial came in time; `Wait` escalates and keeps waiting, `Abort` ends the incident.
    pub on_timeout: ApprovalTimeout,
}

impl Default for ApprovalSettings {
    fn default() -> Self {
        Self {
            mode: ApprovalMode::Automatic,
            timeout_seconds: 3600,
            on_timeout: ApprovalTimeout::Wait,
        }
    }
}

/// Who decides that a node is fenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ApprovalMode {
    /// The operator, by the policy.
    Automatic,
    /// A human, for each incident.
    Manual,
}

/// What happens without an approval or denial in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ApprovalTimeout {
    /// Escalate and go on waiting.
    Wait,
    /// End the incident. Nobody has said no: once the policy is edited, or a window of it opens or closes, the same outage may begin another one.
    Abort,
}

/// What is done with the node's pods and volumes once the machine is proven to be down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [
    // Its pods go before its volumes, and its volumes before the Node without which pod GC would take them.
    rule_at(
        "self.strategy != 'DeleteNode' || self.podDeletion == 'Expedited'",
        "`strategy` 'DeleteNode' needs `podDeletion` 'Expedited': pod GC takes no pod from a Node that is still there",
        ".podDeletion",
    ),
]))]
pub struct RecoverySettings {
    /// `OutOfServiceTaint` lets Kubernetes move pods and volumes. `DeleteNode` deletes the node's pods, VolumeAttachments and at last the
    /// Node, as was done before Kubernetes 1.26; it needs rights that the operator has only by `rbac.deleteNode` of the chart, or by
    /// `deploy/delete-node`. `None` ends with the proof.
    pub strategy: RecoveryStrategy,

    /// `Expedited` deletes the stuck pods by uid just before the taint. `PodGC` leaves them to the pod garbage collector, 0 to
    /// 20 seconds later.
    pub pod_deletion: PodDeletion,

    /// How long the volumes may take to detach before the incident escalates, in seconds.
    #[schemars(range(min = 60, max = 86_400))]
    pub detach_timeout_seconds: u32,
}

impl Default for RecoverySettings {
    fn default() -> Self {
        Self {
            strategy: RecoveryStrategy::OutOfServiceTaint,
            pod_deletion: PodDeletion::Expedited,
            detach_timeout_seconds: 600,
        }
    }
}

/// How pods and volumes leave a machine that is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RecoveryStrategy {
    /// Not at all: the incident ends with the proof, and the claim goes. Nothing holds the node then.
    None,
    /// By the taint `node.kubernetes.io/out-of-service`.
    OutOfServiceTaint,
    /// By deleting the VolumeAttachments, and then the Node object.
    DeleteNode,
}

/// Who deletes the pods that are stuck on the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PodDeletion {
    /// The operator, at once, each by its uid.
    Expedited,
    /// The pod garbage collector of Kubernetes, on its next tick.
    PodGC,
}

/// When the out-of-service taint is taken away again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ReleaseSettings {
    /// `AfterDetach` releases once the volumes have detached and keeps a quarantine taint until the kubelet reports a new boot
    /// ID. `AfterRecovery` keeps the out-of-service taint until then. `Manual` waits for `desiredState: Released`.
    pub mode: ReleaseMode,

    /// How long the release may take before the incident escalates, in seconds; counted from when all volumes have detached and no off
    /// command may still take effect.
    #[schemars(range(min = 60, max = 86_400))]
    pub timeout_seconds: u32,
}

impl Default for ReleaseSettings {
    fn default() -> Self {
        Self {
            mode: ReleaseMode::AfterDetach,
            timeout_seconds: 600,
        }
    }
}

/// When a fenced node is let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ReleaseMode {
    /// Once its volumes have detached; a quarantine taint stays until it has rebooted.
    AfterDetach,
    /// Once it has rebooted.
    AfterRecovery,
    /// When a human says so.
    Manual,
}

/// Whether the machine is turned on again after the release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PowerOnSettings {
    /// `Never` leaves the machine off. `AfterRecovery` turns it on once the pods and volumes have left it: by the devices that an off
    /// command of the same NodeFence has gone to, twice at most, and not while others work on the node.
    pub policy: PowerOnPolicy,

    /// Pause between the release and the command, in seconds.
    #[schemars(range(min = 0, max = 86_400))]
    pub delay_seconds: u32,

    /// How long the node may take to be Ready after that before the incident escalates, in seconds.
    #[schemars(range(min = 60, max = 7_200))]
    pub timeout_seconds: u32,
}

impl Default for PowerOnSettings {
    fn default() -> Self {
        Self {
            policy: PowerOnPolicy::Never,
            delay_seconds: 60,
            timeout_seconds: 900,
        }
    }
}

/// Whether the operator turns a machine on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PowerOnPolicy {
    /// Never.
    Never,
    /// Once its pods and volumes have left it and it has been released.
    AfterRecovery,
}
