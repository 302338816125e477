//! Nodes that are NotReady and have no open NodeFence: when their policy fences them, or why nobody does.
//!
//! The operator's own functions are asked, in its order. It counts a policy's wait from when it has seen the condition, by its own clock; from here
//! only the date is known that Kubernetes gave the condition, which is earlier by a moment, and by more where the operator has begun since.

use crate::api::conditions::{READY, find};
use crate::api::fence::{ApprovalDecision, NodeFence};
use crate::api::policy::{ApprovalMode, FenceMode, NodeFencingPolicy, UnhealthyCondition};
use crate::cli::fences;
use crate::cli::table::{age, duration};
use crate::cli::trail::RELEASE;
use crate::core::delay::{self, AHEAD, Delay, LastFence, Now, Since, Start};
use crate::core::hold::HeldBy;
use crate::core::keep_off::keep_off;
use crate::core::observed::{NodeView, Ready};
use crate::core::select::{Onsets, fenceable, first_due, governing};
use crate::core::taint::harmless_when;
use crate::core::window::{Effective, effective};
use crate::shell::detect::{cleared_by, refused_by};
use crate::shell::draft::fence_name;
use crate::shell::slim::SlimNode;
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use schemars::JsonSchema;
use serde::Serialize;
use std::time::Duration;

/// Reasons of a policy's condition `Ready` with which the operator opens no incident, and which only the operator knows.
const KNOWN_TO_THE_OPERATOR: [&str; 2] = ["ClusterWentBack", "Unsupported"];
/// A wait that is over for no longer than this is no news: dates are whole seconds, and clocks differ.
const LATE_AFTER: SignedDuration = SignedDuration::from_secs(5);

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
    /// When the policy's wait is over, where it waits for that.
    #[schemars(with = "Option<String>")]
    pub due_time: Option<Timestamp>,
    /// What the policy does then, or why the node is not fenced, and the way out.
    pub message: String,
}

impl Unfenced {
    /// Is an incident of it still to come, unless the node is Ready before?
    pub fn waits(&self) -> bool {
        self.due_time.is_some()
    }

    /// `Ready=Unknown for 9s; policy workers fences it in 1s`, at this moment.
    pub fn words(&self, now: Timestamp) -> String {
        let lasts = self.since.map(|it| format!(" for {}", age(it, now)));
        let shown = format!("Ready={}{}", self.ready, lasts.unwrap_or_default());
        let Some(due) = self.due_time else {
            return format!("{shown}; not fenced: {}", self.message);
        };
        let left = due.duration_since(now);
        let at = match (self.reason == LATE, left > SignedDuration::ZERO) {
            (true, _) => format!("{} ago", duration(-left)),
            (false, true) => format!("in {}", duration(left)),
            (false, false) => "now".to_owned(),
        };
        format!("{shown}; {}", self.message.replace(&at_time(due), &at))
    }
}

const WAITING: &str = "Waiting";
const LATE: &str = "Late";

fn at_time(due: Timestamp) -> String {
    format!("at {due}")
}

/// What is known of the cluster.
pub(super) struct World<'a> {
    /// All policies.
    pub policies: &'a [NodeFencingPolicy],
    /// All NodeFences.
    pub fences: &'a [NodeFence],
    /// By the wall clock.
    pub now: Timestamp,
}

/// All of them, the one that is NotReady longest first.
pub(super) fn unfenced(nodes: &[SlimNode], world: &World<'_>) -> Vec<Unfenced> {
    let mut all: Vec<Unfenced> = nodes.iter().filter_map(|it| of(it, world)).collect();
    all.sort_by(|a, b| (a.since, &a.node).cmp(&(b.since, &b.node)));
    all
}

/// None: it is Ready, never was, or has an open NodeFence.
pub(super) fn of(node: &SlimNode, world: &World<'_>) -> Option<Unfenced> {
    let view = node.view();
    let is_open = |it: &NodeFence| it.spec.node_name == view.name && !it.is_ended();
    let is_down = matches!(view.ready(), Ready::False | Ready::Unknown);
    let ready = view.condition(READY).filter(|_| is_down)?;
    if world.fences.iter().any(is_open) {
        return None;
    }
    let policy = governing(world.policies, &view).ok().flatten();
    let created = node.metadata.creation_timestamp.as_ref();
    let created = created.map_or(world.now, |it| it.0);
    let verdict = verdict(&view, created, world);
    Some(Unfenced {
        node: view.name.clone(),
        ready: ready.status.clone(),
        since: ready.transition.parse().ok(),
        policy: policy.map(ResourceExt::name_any),
        reason: verdict.reason,
        due_time: verdict.due,
        message: verdict.words,
    })
}

struct Verdict {
    reason: String,
    due: Option<Timestamp>,
    words: String,
}

fn because(reason: &str, words: impl Into<String>) -> Verdict {
    Verdict {
        reason: reason.to_owned(),
        due: None,
        words: words.into(),
    }
}

fn verdict(node: &NodeView, created: Timestamp, world: &World<'_>) -> Verdict {
    let name = &node.name;
    if let Err(words) = fenceable(node) {
        return because(HeldBy::NeverReported.as_str(), words);
    }
    if let Some(fence) = cleared_by(world.fences, node) {
        let words = format!(
            "NodeFence {} has proven it down in this boot and ended {}, and its kubelet has reported nothing since: mend the machine, and boot it",
            fence.name_any(),
            fences::stage(fence)
        );
        return because("Cleared", words);
    }
    let policy = match governing(world.policies, node) {
        Ok(Some(policy)) => policy,
        Ok(None) => {
            let words = "no policy selects it: label it, or write a NodeFencingPolicy whose `nodeSelector` matches it (kubectl fence generate policy)";
            return because("NoPolicy", words);
        }
        Err(conflict) => return because("Conflict", conflict.to_string()),
    };
    let told = policy.status.as_ref();
    let told = told.and_then(|it| find(&it.conditions, READY));
    let is_idle = |reason: &str| KNOWN_TO_THE_OPERATOR.contains(&reason);
    if let Some(told) = told.filter(|it| it.status != "True" && is_idle(&it.reason)) {
        let words = format!("policy {}: {}", policy.name_any(), told.message);
        return because(&told.reason, words);
    }
    let is_shown = |it: &&UnhealthyCondition| {
        let shown = node.condition(&it.type_);
        shown.is_some_and(|shown| shown.status == it.status.as_str())
    };
    let conditions = &policy.spec.unhealthy_conditions;
    let shown: Vec<_> = conditions.iter().filter(is_shown).collect();
    let wanted = shown.iter().copied();
    let wanted = wanted.filter(|it| refused_by(world.fences, node, it).is_none());
    if let Some((condition, held)) = first_due(wanted, &onsets(node, world.now)) {
        return of_policy(policy, node, created, (condition, held), world);
    }
    let mut refused = shown.iter();
    match refused.find_map(|it| refused_by(world.fences, node, it)) {
        Some(fence) => refusal(fence, name),
        None => because("NoCondition", unwatched(policy, node)),
    }
}

/// A human has said no.
fn refusal(fence: &NodeFence, node: &str) -> Verdict {
    let name = fence.name_any();
    let way_out = format!(
        "its policy begins no other for this outage; to have it fenced all the same: kubectl fence now {node} --reason WHY"
    );
    let answer = fence.spec.approval.as_ref();
    if let Some(answer) = answer.filter(|it| it.decision == ApprovalDecision::Denied) {
        let (user, reason) = (&answer.user, &answer.reason);
        let words = format!("NodeFence {name} was denied by {user}: {reason}; {way_out}");
        return because("Denied", words);
    }
    let note = |key| fence.annotations().get(key).map_or("", String::as_str);
    let words = match (note(RELEASE.user), note(RELEASE.reason)) {
        ("", _) => format!("NodeFence {name} was released by a human; {way_out}"),
        (user, reason) => format!("NodeFence {name} was released by {user}: {reason}; {way_out}"),
    };
    because("Released", words)
}

fn unwatched(policy: &NodeFencingPolicy, node: &NodeView) -> String {
    let conditions = policy.spec.unhealthy_conditions.iter();
    let wanted: Vec<String> = conditions
        .map(|it| format!("{}={}", it.type_, it.status.as_str()))
        .collect();
    let ready = node.condition(READY).map_or("", |it| it.status.as_str());
    format!(
        "policy {} waits for {} and not for Ready={ready}: add that to `unhealthyConditions`, or kubectl fence now {} --reason WHY",
        policy.name_any(),
        wanted.join(" or "),
        node.name
    )
}

/// The policy wants it, and counts its wait.
fn of_policy(
    policy: &NodeFencingPolicy,
    node: &NodeView,
    created: Timestamp,
    (condition, held): (&UnhealthyCondition, Duration),
    world: &World<'_>,
) -> Verdict {
    let (name, now) = (policy.name_any(), world.now);
    // Of one whose windows cannot be used nothing is begun: its hands are off.
    let effective = effective(policy, now).unwrap_or_else(|_| Effective::without_windows(policy));
    let known = fence_name(node, policy, &effective, condition);
    if let Some(fence) = world.fences.iter().find(|it| it.name_any() == known) {
        let words = format!(
            "NodeFence {known} of this outage has ended {}: {}; to have it fenced all the same: kubectl fence now {} --reason WHY",
            fences::stage(fence),
            fences::message(fence),
            node.name
        );
        return because("Ended", words);
    }
    if let Some(mark) = node.marked_by() {
        let words = format!(
            "it has taint {mark} already, and no incident is begun while that stands; once {}, remove it (kubectl taint node {} {mark}-)",
            harmless_when(mark),
            node.name
        );
        return because(HeldBy::ForeignOutOfService.as_str(), words);
    }
    let delay = delayed(policy, node, created, world);
    let delay = delay.filter(|it| it.until > held);
    let due = moment(delay.as_ref().map_or(held, |it| it.until));
    let opens = match effective.mode {
        FenceMode::Observe => due,
        FenceMode::ConfirmOnly | FenceMode::PowerOff => due - AHEAD,
    };
    // A pause that ends before the wait does is in nobody's way.
    if let Some(kept_off) = keep_off(policy, node, opens.max(now)) {
        return because(kept_off.reason.as_str(), kept_off.words);
    }
    let does = does(&effective);
    let after = delay
        .map(|it| format!(": {}", it.words))
        .unwrap_or_default();
    let at = at_time(due);
    let is_late = now.duration_since(due) > LATE_AFTER;
    Verdict {
        reason: if is_late { LATE } else { WAITING }.to_owned(),
        due: Some(due),
        words: match is_late {
            true => format!(
                "policy {name} should have begun {at}: see who leads (kubectl fence check), and what the operator says of it (kubectl describe node {})",
                node.name
            ),
            false => format!("policy {name} {does} {at}{after}"),
        },
    }
}

fn does(effective: &Effective) -> &'static str {
    match (effective.mode, effective.approval) {
        (FenceMode::Observe, _) => "only reports it (mode Observe)",
        (_, ApprovalMode::Manual) => "asks for an approval to fence it",
        (FenceMode::ConfirmOnly, _) => "looks whether it is off (mode ConfirmOnly)",
        (FenceMode::PowerOff, _) => "fences it",
    }
}

/// Another wait of the policy. When the node booted last nobody but the operator knows.
fn delayed(
    policy: &NodeFencingPolicy,
    node: &NodeView,
    created: Timestamp,
    world: &World<'_>,
) -> Option<Delay> {
    let last = delay::last_touch(world.fences, node);
    let last = last.map(|(fence, ended)| LastFence {
        name: fence.name_any(),
        since: Since::at(ended, seen_at(ended)),
    });
    let start = Start::first(node, created, seen_at(created));
    delay::delay(&policy.spec, Some(&start), last.as_ref())
}

/// Each condition since its own date, as if it had been seen at once.
fn onsets(node: &NodeView, now: Timestamp) -> Onsets {
    let since = |text: &str| text.parse().map_or(now, |it: Timestamp| it.min(now));
    let mut conditions = node.conditions.clone();
    conditions.sort_by_key(|it| since(&it.transition));
    let mut seen = NodeView {
        conditions: Vec::new(),
        ..node.clone()
    };
    let mut onsets = Onsets::default();
    for condition in conditions {
        let at = since(&condition.transition);
        seen.conditions.push(condition);
        onsets.note(&seen, since_epoch(at));
    }
    onsets
}

/// As if it had been seen when it was: so the end of a wait is exact that is over.
fn seen_at(at: Timestamp) -> Now {
    Now {
        boot: since_epoch(at),
        wall: at,
    }
}

/// The wall clock is the only one here: what the operator counts since its machine's boot counts since the epoch.
fn since_epoch(at: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(Timestamp::UNIX_EPOCH)).unwrap_or_default()
}

fn moment(since_epoch: Duration) -> Timestamp {
    let since = SignedDuration::try_from(since_epoch).unwrap_or(SignedDuration::MAX);
    let at = Timestamp::UNIX_EPOCH.saturating_add(since);
    at.unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
