//! How a screen and a program show a node that is down without an incident.

use super::{World, at_present, verdict};
use crate::fences;
use crate::table::age;
use fencing_api::conditions::READY;
use fencing_api::fence::NodeFence;
use fencing_cluster::slim::SlimNode;
use fencing_core::observed::{NodeView, Ready};
use fencing_core::protection::Obstacle;
use jiff::Timestamp;
use kube::ResourceExt;
use schemars::JsonSchema;
use serde::Serialize;

/// A Node that is NotReady and has no open NodeFence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Unfenced {
    /// The Node.
    pub node: String,
    /// Status of its condition `Ready`: `False` or `Unknown`.
    pub ready: String,
    /// Since when.
    #[schemars(with = "Option<String>")]
    pub since: Option<Timestamp>,
    /// The policy that governs it.
    pub policy: Option<String>,
    /// `Waiting`: for the end of the policy's wait. `Late`: that is over, and nothing has begun. Another one names why it is not fenced, such as
    /// `Denied`, `Paused`, `Excluded`, `Conflict` or `NoPolicy`.
    pub reason: String,
    /// When the policy's wait is over, where it waits for that. It does not where a device reads Off (`durationPolicy: SkipIfOff`).
    #[schemars(with = "Option<String>")]
    pub due_time: Option<Timestamp>,
    /// What the policy does then, or why the node is not fenced, and the way out.
    pub message: String,
    /// Does something speak against the proof of the incident that it was fenced in?
    pub proof_in_doubt: bool,
}

impl Unfenced {
    /// Is an incident of it still to come, unless the node is Ready before?
    pub fn waits(&self) -> bool {
        self.due_time.is_some()
    }

    /// Has an incident done everything that there is to do?
    fn is_cleared(&self) -> bool {
        self.reason == "Cleared"
    }

    /// `Ready=Unknown for 9s; policy workers fences it in 1s`, at this moment.
    pub fn words(&self, now: Timestamp) -> String {
        let lasts = self.since.map(|it| format!(" for {}", age(it, now)));
        let shown = format!("Ready={}{}", self.ready, lasts.unwrap_or_default());
        match self.due_time {
            Some(due) => format!("{shown}; {}", at_present(&self.message, due, now)),
            None if self.proof_in_doubt => format!("{shown}; {}", self.message),
            None if self.is_cleared() => format!("{shown}; fenced already: {}", self.message),
            None => format!("{shown}; not fenced: {}", self.message),
        }
    }
}

/// All of them, the one that is NotReady longest first.
pub fn unfenced(nodes: &[SlimNode], world: &World<'_>) -> Vec<Unfenced> {
    let mut all: Vec<Unfenced> = nodes.iter().filter_map(|it| of(it, world)).collect();
    all.sort_by(|a, b| (a.since, &a.node).cmp(&(b.since, &b.node)));
    all
}

/// None: it is Ready, never was, or has an open NodeFence.
pub fn of(node: &SlimNode, world: &World<'_>) -> Option<Unfenced> {
    let created = node.metadata.creation_timestamp.as_ref().map(|it| it.0);
    of_view(&node.view(), created, world)
}

/// The same of a Node that was read already.
pub fn of_view(view: &NodeView, created: Option<Timestamp>, world: &World<'_>) -> Option<Unfenced> {
    let is_open = |it: &NodeFence| it.spec.node_name == view.name && it.may_act();
    let is_down = matches!(view.ready(), Ready::False | Ready::Unknown);
    let ready = view.condition(READY).filter(|_| is_down)?;
    if world.fences.iter().any(is_open) {
        return None;
    }
    let verdict = verdict(view, created, world);
    let obstacle = verdict.reason.obstacle();
    // What its policy has to say stands in the record that only observes.
    if matches!(obstacle, Some(Obstacle::Open(_))) {
        return None;
    }
    let doubt = obstacle.and_then(Obstacle::fence).and_then(fences::doubt);
    // A machine that was fenced is off: whoever mends it is at it anyway.
    let is_told = ["Denied", "Cleared"].contains(&verdict.reason.as_str());
    let denied = fences::denied(view, world.fences).filter(|_| !is_told);
    let denied = denied.map(|it| format!("{}: they may be at the machine", it.words));
    let message = [Some(verdict.words), denied, verdict.more];
    let message = message.into_iter().flatten();
    Some(Unfenced {
        node: view.name.clone(),
        ready: ready.status.clone(),
        since: ready.transition.parse().ok(),
        policy: verdict.policy.map(ResourceExt::name_any),
        reason: verdict.reason.as_str().to_owned(),
        due_time: verdict.due,
        message: message.collect::<Vec<_>>().join("; "),
        proof_in_doubt: doubt.is_some(),
    })
}
