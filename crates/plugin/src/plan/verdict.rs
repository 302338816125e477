//! Would the node be fenced if it died now, by which policy, and what stands in the way?
//!
//! The operator's own functions are asked, with the Node as it would look then: silent, and tainted as unreachable. All that holds the fence is
//! told, and not just the first of it, so that one look is enough to clear the way. What the operator alone knows (a cluster that went back in
//! time, rights that it lacks) is taken from what it says of the policy.

mod budgeted;
mod levels;

use super::present::own;
use crate::unfenced::idle;
use budgeted::by_budget;
use fencing_api::device::FenceDevice;
use fencing_api::fence::NodeFence;
use fencing_api::policy::{ApprovalMode, FenceMode, NodeFencingPolicy, RecoveryStrategy};
use fencing_core::exclusions::exclusion;
use fencing_core::hold::HeldBy;
use fencing_core::observed::{NodeView, PodView, TaintView};
use fencing_core::protection::dates::{Dates, since_epoch};
use fencing_core::protection::obstacle::named_condition;
use fencing_core::protection::{Facts, Obstacle as Known, in_force, outlook};
use fencing_core::quiesce::{coming_back, name_some, none_stays_with_its_volume};
use fencing_core::select::Onsets;
use fencing_core::support::deletes_nodes;
use fencing_core::window::Effective;
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use levels::by_devices;
use schemars::JsonSchema;
use serde::Serialize;
use std::time::Duration;

/// What node-lifecycle makes Unknown of a node whose kubelet is silent (upstream's `node_lifecycle_controller.go`, `tryUpdateNodeHealth`, v1.36).
const SILENT: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];
/// What it taints it with.
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// Something that keeps the fence from going through.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Obstacle {
    /// Names it: reason of the condition `Held` where it would be held.
    pub reason: String,
    /// What it is, and the way out.
    pub message: String,
}

/// A device that serves the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DevicePlan {
    /// FenceDevice.
    pub name: String,
    /// Its driver.
    pub driver: String,
    /// `Ready`, `ConfirmOnly` (it reads, and does not turn off) or `NotReady`.
    pub readiness: String,
    /// Does its Off count for the node (S25)? `Shown`: it has read On in the node's current boot. Else `NoPositiveControl` or `OffWhileRunning`.
    pub positive_control: String,
    /// What the operator says of it.
    pub message: Option<String>,
}

/// A fence level of the policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LevelPlan {
    /// Its name.
    pub name: String,
    /// Has it what it needs for the node?
    pub ready: bool,
    /// Its devices for the node.
    pub devices: Vec<DevicePlan>,
}

/// The verdict.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// The policy that governs the node.
    pub policy: Option<String>,
    /// How far it goes when the incident begins.
    pub mode: Option<FenceMode>,
    /// Who decides then.
    pub approval_mode: Option<ApprovalMode>,
    /// The window that is open then.
    pub window: Option<String>,
    /// What the budget says.
    pub budget: Option<String>,
    /// The policy's levels.
    pub levels: Vec<LevelPlan>,
    /// What else is worth knowing, and no obstacle.
    pub notes: Vec<String>,
    /// What keeps it from going through; none: nothing does.
    pub obstacles: Vec<Obstacle>,
}

/// The operator's replicas, as far as they can be seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replicas {
    /// The one that leads is on the node.
    pub leader_is_here: bool,
    /// Ready ones on other nodes.
    pub elsewhere: usize,
}

/// What the verdict is about.
pub struct Fleet<'a> {
    /// All policies.
    pub policies: &'a [NodeFencingPolicy],
    /// All Nodes.
    pub nodes: &'a [NodeView],
    /// The Node.
    pub node: &'a NodeView,
    /// When it was created.
    pub created: Timestamp,
    /// Its pods.
    pub pods: &'a [PodView],
    /// All devices.
    pub devices: &'a [FenceDevice],
    /// All NodeFences.
    pub fences: &'a [NodeFence],
    /// The operator's replicas; none: not known.
    pub replicas: Option<Replicas>,
    /// `--max-concurrent-fences`.
    pub cap: Option<u32>,
    /// Seconds until the Node is Unknown.
    pub grace: f64,
    /// Now, by the wall clock.
    pub now: Timestamp,
}

/// The verdict, and what the timeline needs of it.
#[derive(Debug, Default)]
pub struct Judged<'a> {
    /// The verdict.
    pub verdict: Verdict,
    /// The policy.
    pub policy: Option<&'a NodeFencingPolicy>,
    /// How long it waits, in seconds, and for which condition.
    pub wait: Option<(f64, String)>,
    /// The first level with devices is ready, and reads the machine itself.
    pub reads_off: bool,
    /// Seconds until another wait of it is over, and which.
    pub delay: Option<(f64, String)>,
    /// How long levels may be tried before the one that is ready.
    pub passed_over: f64,
}

/// The Node when its kubelet has been silent for the grace period.
pub fn dead(node: &NodeView) -> NodeView {
    let mut dead = node.clone();
    for condition in &mut dead.conditions {
        if SILENT.contains(&condition.kind.as_str()) {
            condition.status = "Unknown".to_owned();
        }
    }
    for effect in ["NoSchedule", "NoExecute"] {
        dead.taints.push(TaintView {
            key: UNREACHABLE.to_owned(),
            value: None,
            effect: effect.to_owned(),
            time_added: None,
        });
    }
    dead
}

/// Would it be fenced?
pub fn judge<'a>(fleet: &Fleet<'a>) -> Judged<'a> {
    let dead = dead(fleet.node);
    let mut onsets = Onsets::default();
    onsets.note(&dead, Duration::ZERO);
    let outlook = outlook(
        &dead,
        &Facts {
            policies: fleet.policies,
            // Of another outage than this one none of them says anything.
            fences: &[],
            onsets: &onsets,
            idle: &idle,
            now: fleet.now,
        },
    );
    let mut judged = Judged::default();
    judged.verdict.obstacles = outlook
        .obstacles
        .iter()
        .map(|it| told(it, &dead, outlook.policy))
        .collect();
    of_node(&mut judged.verdict.obstacles, fleet);
    let Some(policy) = outlook.policy else {
        return judged;
    };
    judged.policy = Some(policy);
    judged.verdict.policy = Some(policy.name_any());
    judged.wait = outlook
        .wanted
        .map(|it| (it.held.as_secs_f64(), named_condition(it.condition)));
    let at = begins(&mut judged, fleet, policy);
    let effective = in_force(policy, at);
    by_policy(&mut judged, fleet, policy, &dead, &effective, at);
    by_devices(&mut judged, fleet, policy, &dead, effective.mode);
    by_budget(&mut judged.verdict, fleet, policy, &dead, effective.mode);
    judged.verdict.mode = Some(effective.mode);
    judged.verdict.approval_mode = Some(effective.approval);
    judged.verdict.window = effective.window;
    judged
}

/// One that the operator knows, too.
fn told(obstacle: &Known<'_>, node: &NodeView, policy: Option<&NodeFencingPolicy>) -> Obstacle {
    self::obstacle(obstacle.reason(), obstacle.with_hint(node, policy))
}

fn obstacle(reason: &str, message: impl Into<String>) -> Obstacle {
    Obstacle {
        reason: reason.to_owned(),
        message: message.into(),
    }
}

/// How a human answers the incident, which is not there yet.
fn once_open(verb: &str, node: &str) -> String {
    format!("once it is open: kubectl fence {verb} {node} --reason WHY")
}

/// What the Node and the operator itself say, whatever the policy.
fn of_node(obstacles: &mut Vec<Obstacle>, fleet: &Fleet<'_>) {
    let name = &fleet.node.name;
    // What its own incident has put there goes with it, and is told with that.
    let mark = fleet.node.marked_by();
    if let Some(mark) = mark.filter(|_| own(fleet.fences, name).is_none()) {
        obstacles.push(told(&Known::OutOfService(mark), fleet.node, None));
    }
    if fleet.replicas.is_some_and(|it| it.elsewhere == 0) {
        let message = "no other node has a ready pod of the operator that could fence this one; run two replicas on different nodes, see `kubectl fence check`";
        obstacles.push(obstacle("NoReplica", message));
    }
}

/// The moment at which the incident begins, which another wait of the policy may put off.
fn begins(judged: &mut Judged<'_>, fleet: &Fleet<'_>, policy: &NodeFencingPolicy) -> Timestamp {
    let created = Some(fleet.created);
    let dates = Dates::of(fleet.node, created, fleet.fences, fleet.now);
    judged.delay = dates.delay(policy).map(|delay| {
        let left = delay.until.saturating_sub(since_epoch(fleet.now));
        (left.as_secs_f64(), delay.message)
    });
    let due = fleet.grace + judged.wait.as_ref().map_or(0.0, |(wait, _)| *wait);
    let due = judged
        .delay
        .as_ref()
        .map_or(due, |(until, _)| due.max(*until));
    let ahead = SignedDuration::try_from_secs_f64(due).unwrap_or_default();
    fleet.now.saturating_add(ahead).unwrap_or(fleet.now)
}

/// Exclusions, pauses, windows, the mode, the approval, and what the operator says of the policy.
fn by_policy(
    judged: &mut Judged<'_>,
    fleet: &Fleet<'_>,
    policy: &NodeFencingPolicy,
    dead: &NodeView,
    effective: &Effective,
    at: Timestamp,
) {
    let (name, obstacles) = (policy.name_any(), &mut judged.verdict.obstacles);
    if let Some(kept_off) = exclusion(policy, dead, at) {
        let resume = match kept_off.reason {
            HeldBy::Paused => format!(
                "; if you know its reason: kubectl fence resume {name} --name WHOSE --reason WHY"
            ),
            _ => String::new(),
        };
        let message = kept_off.message + &resume;
        obstacles.push(obstacle(kept_off.reason.as_str(), message));
    }
    if effective.mode == FenceMode::Observe {
        obstacles.push(told(&Known::Observes, dead, Some(policy)));
    }
    if effective.approval == ApprovalMode::Manual {
        let message = format!(
            "policy {name} waits for an approval (`fence.approval.mode` is Manual); {}",
            once_open("approve", &dead.name)
        );
        obstacles.push(obstacle(HeldBy::AwaitingApproval.as_str(), message));
    }
    if policy.spec.procedure.recovery.strategy == RecoveryStrategy::None {
        let message = format!(
            "policy {name} ends with the proof (`recovery.strategy` is None): the operator deletes no pod and detaches no volume"
        );
        obstacles.push(obstacle("RecoveryNone", message));
    }
    if deletes_nodes(&policy.spec.procedure.recovery) {
        let mut pods = fleet.pods.to_vec();
        none_stays_with_its_volume(&mut pods);
        let back = name_some(coming_back(&pods));
        if !back.is_empty() {
            let message = format!(
                "{back} tolerates every taint, has a volume and may be bound to this node again, so no volume is detached (`recovery.strategy: DeleteNode`)"
            );
            obstacles.push(obstacle(HeldBy::PodComesBack.as_str(), message));
        }
    }
}

#[cfg(test)]
mod tests;
