//! Why does nobody fence a node that is down, or when will the operator? One verdict for all who ask: `status`, the commands that answer an
//! incident, and `diagnose`, which adds what to type.
//!
//! The operator's own functions are asked, in its order (`src/shell/detect.rs`).

mod record;
mod shown;
mod wait;

use crate::fences;
use crate::table::duration;
use fencing_api::conditions::{READY, find};
use fencing_api::fence::NodeFence;
use fencing_api::policy::{ApprovalMode, FenceMode, NodeFencingPolicy, UnhealthyCondition};
use fencing_core::delay::AHEAD;
use fencing_core::exclusions::exclusion;
use fencing_core::hold::HeldBy;
use fencing_core::observed::NodeView;
use fencing_core::outage::{cleared_by, fence_name, refused_by};
use fencing_core::select::{Conflict, fenceable, governing};
use fencing_core::taint::harmless_when;
use fencing_core::window::{self, Effective, effective};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use record::{cleared, over, refused};
pub use shown::{Unfenced, of, of_view, unfenced};
pub use wait::delayed;
use wait::first_held;

/// A wait that is over for no longer than this is no news: dates are whole seconds, and clocks differ.
const LATE_AFTER: SignedDuration = SignedDuration::from_secs(5);

/// Name of [`Reason::Cleared`].
const CLEARED: &str = "Cleared";

/// What is known of the cluster.
#[derive(Clone, Copy)]
pub struct World<'a> {
    /// All policies.
    pub policies: &'a [NodeFencingPolicy],
    /// All NodeFences.
    pub fences: &'a [NodeFence],
    /// By the wall clock.
    pub now: Timestamp,
}

/// Why nothing is done to the node at this moment.
#[derive(Debug)]
pub enum Reason<'a> {
    /// The policy's wait is not over.
    Waiting,
    /// It is, and nothing has begun.
    Late,
    /// No policy selects the node.
    NoPolicy,
    /// Several do.
    Conflict(Conflict),
    /// This incident has done everything that there is to do.
    Cleared(&'a NodeFence),
    /// A human has denied this one of this outage.
    Denied(&'a NodeFence),
    /// A human has released it.
    Released(&'a NodeFence),
    /// This one of this outage has ended by itself.
    Ended(&'a NodeFence),
    /// The policy waits for another condition.
    NoCondition,
    /// What would hold an incident keeps it from being opened.
    Held(HeldBy),
}

impl Reason<'_> {
    /// A stable name. It never changes its meaning.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Waiting => "Waiting",
            Self::Late => "Late",
            Self::NoPolicy => "NoPolicy",
            Self::Conflict(_) => "Conflict",
            Self::Cleared(_) => CLEARED,
            Self::Denied(_) => "Denied",
            Self::Released(_) => "Released",
            Self::Ended(_) => "Ended",
            Self::NoCondition => "NoCondition",
            Self::Held(held) => held.as_str(),
        }
    }
}

/// The answer.
#[derive(Debug)]
pub struct Verdict<'a> {
    /// Why, by name.
    pub reason: Reason<'a>,
    /// The policy that governs the node.
    pub policy: Option<&'a NodeFencingPolicy>,
    /// When its wait is over; none: it waits for nothing that a clock tells.
    pub due: Option<Timestamp>,
    /// Why, in words, with that date.
    pub words: String,
    /// What else is said where no steps follow.
    pub more: Option<String>,
}

impl Reason<'_> {
    /// The incident of this outage that it is about, if there was one.
    pub fn fence(&self) -> Option<&NodeFence> {
        match self {
            Self::Cleared(it) | Self::Denied(it) | Self::Released(it) | Self::Ended(it) => Some(it),
            _ => None,
        }
    }
}

impl Verdict<'_> {
    /// Is it still to be fenced, or to be proven down, and not late for that? ([`Unfenced::waits`] asks for an incident of any kind.)
    pub fn fence_is_to_come(&self, now: Timestamp) -> bool {
        let acts = |it: &NodeFencingPolicy| window::mode(it, now) != FenceMode::Observe;
        matches!(self.reason, Reason::Waiting) && self.policy.is_some_and(acts)
    }
}

fn because<'a>(reason: Reason<'a>, words: impl Into<String>) -> Verdict<'a> {
    Verdict {
        reason,
        policy: None,
        due: None,
        words: words.into(),
        more: None,
    }
}

/// The words with their date as it is seen at this moment.
pub fn at_present(words: &str, due: Timestamp, now: Timestamp) -> String {
    let left = due.duration_since(now);
    let at = match left > SignedDuration::ZERO {
        true => format!("in {}", duration(left)),
        false if is_late(due, now) => format!("{} ago", duration(-left)),
        false => "now".to_owned(),
    };
    words.replace(&at_time(due), &at)
}

fn at_time(due: Timestamp) -> String {
    format!("at {due}")
}

fn is_late(due: Timestamp, now: Timestamp) -> bool {
    now.duration_since(due) > LATE_AFTER
}

/// How a human has it fenced, but for the reason, as far as its policy goes; under one that observes a fence in its mode would do no more than it does.
pub fn fence_now(policy: Option<&NodeFencingPolicy>, node: &str) -> String {
    let mode = policy.map(|it| match it.spec.fence.mode {
        FenceMode::Observe => FenceMode::ConfirmOnly,
        mode => mode,
    });
    let mode = mode.map(|it| format!(" --mode {it:?}"));
    format!("kubectl fence now {node}{}", mode.unwrap_or_default())
}

/// Why the operator begins nothing for this policy, as only itself can know, with its words.
pub fn idle(policy: &NodeFencingPolicy) -> Option<(HeldBy, &str)> {
    let told = find(&policy.status.as_ref()?.conditions, READY)?;
    let reason = HeldBy::named(&told.reason).filter(|_| told.status != "True")?;
    let is_known = matches!(reason, HeldBy::ClusterWentBack | HeldBy::Unsupported);
    is_known.then_some((reason, &told.message))
}

/// Of a node that is not Ready and has no incident that may act on it. `created`: when its Node was; none: not known.
pub fn verdict<'a>(node: &NodeView, created: Option<Timestamp>, world: &World<'a>) -> Verdict<'a> {
    let governed = governing(world.policies, node);
    let policy = governed.as_ref().ok().copied().flatten();
    let verdict = match (fenceable(node), cleared_by(world.fences, node), governed) {
        (Err(words), ..) => because(
            Reason::Held(HeldBy::NeverReported),
            format!("{words}, and no fence begins before it has"),
        ),
        (_, Some(fence), _) => cleared(fence),
        (.., Ok(Some(policy))) => of_policy(policy, node, created, world),
        (.., Ok(None)) => unselected(node),
        (.., Err(conflict)) => {
            let words = conflict.to_string();
            because(Reason::Conflict(conflict), words)
        }
    };
    Verdict { policy, ..verdict }
}

fn unselected<'a>(node: &NodeView) -> Verdict<'a> {
    let more =
        "label it, or write one whose `nodeSelector` matches it (kubectl fence generate policy)";
    let words = format!(
        "no NodeFencingPolicy selects Node {} by its {} label(s), so nobody has said by which devices it is fenced",
        node.name,
        node.labels.len()
    );
    Verdict {
        more: Some(more.to_owned()),
        ..because(Reason::NoPolicy, words)
    }
}

fn of_policy<'a>(
    policy: &'a NodeFencingPolicy,
    node: &NodeView,
    created: Option<Timestamp>,
    world: &World<'a>,
) -> Verdict<'a> {
    if let Some((reason, words)) = idle(policy) {
        let words = format!("policy {}: {words}", policy.name_any());
        return because(Reason::Held(reason), words);
    }
    let is_shown = |it: &&UnhealthyCondition| {
        let shown = node.condition(&it.type_);
        shown.is_some_and(|shown| shown.status == it.status.as_str())
    };
    let conditions = policy.spec.unhealthy_conditions.iter();
    let shown: Vec<_> = conditions.filter(is_shown).collect();
    let refusal = |it: &UnhealthyCondition| refused_by(world.fences, node, it);
    let wanted = shown.iter().copied().filter(|it| refusal(it).is_none());
    match first_held(wanted, node, world.now) {
        Some(held) => wanted_by(policy, node, created, held, world),
        None => match shown.iter().find_map(|it| refusal(it)) {
            Some(fence) => refused(fence),
            None => unwatched(policy, node),
        },
    }
}

fn unwatched<'a>(policy: &NodeFencingPolicy, node: &NodeView) -> Verdict<'a> {
    let conditions = policy.spec.unhealthy_conditions.iter();
    let wanted: Vec<String> = conditions.map(named).collect();
    let ready = node.condition(READY).map_or("", |it| it.status.as_str());
    let words = format!(
        "policy {} waits for {} and not for Ready={ready}: add that to `unhealthyConditions`",
        policy.name_any(),
        wanted.join(" or ")
    );
    Verdict {
        more: Some(all_the_same(policy, node)),
        ..because(Reason::NoCondition, words)
    }
}

fn named(condition: &UnhealthyCondition) -> String {
    format!("{}={}", condition.type_, condition.status.as_str())
}

fn all_the_same(policy: &NodeFencingPolicy, node: &NodeView) -> String {
    let command = fence_now(Some(policy), &node.name);
    format!("to have it fenced all the same: {command} --reason WHY")
}

/// The policy wants it fenced, and counts its wait.
fn wanted_by<'a>(
    policy: &'a NodeFencingPolicy,
    node: &NodeView,
    created: Option<Timestamp>,
    (condition, held): (&UnhealthyCondition, Timestamp),
    world: &World<'a>,
) -> Verdict<'a> {
    let (fences, now) = (world.fences, world.now);
    // Of one whose windows cannot be used nothing is begun: its hands are off.
    let effective = effective(policy, now).unwrap_or_else(|_| Effective::without_windows(policy));
    let serves = |it: &&NodeFence| it.spec.node_name == node.name && it.serves(&policy.name_any());
    if let Some(fence) = fences.iter().find(serves) {
        let words = match effective.mode {
            FenceMode::Observe => observes(policy),
            _ => format!(
                "NodeFence {} is open for it: policy {} begins no other beside it",
                fence.name_any(),
                policy.name_any()
            ),
        };
        return because(Reason::Held(HeldBy::OtherNodeFence), words);
    }
    let known = fence_name(node, policy, &effective, condition);
    if let Some(fence) = fences.iter().find(|it| it.name_any() == known) {
        let words = format!(
            "NodeFence {known} of this outage has ended {}: {}",
            fences::stage(fence),
            fences::message(fence)
        );
        return over(Reason::Ended(fence), &words, fence);
    }
    if let Some(mark) = node.marked_by() {
        let words = format!(
            "it has taint {mark} already, and no incident is begun while that stands; once {}, remove it (kubectl taint node {} {mark}-)",
            harmless_when(mark),
            node.name
        );
        return because(Reason::Held(HeldBy::ForeignOutOfService), words);
    }
    let delayed = delayed(policy, node, created, fences, now).filter(|(until, _)| *until > held);
    let (due, why) = delayed.unwrap_or_else(|| {
        let (name, seconds) = (named(condition), condition.duration_seconds);
        let why = format!("{name} has to last {seconds} s (`unhealthyConditions`)");
        (held, why)
    });
    let opens = match effective.mode {
        FenceMode::Observe => due,
        FenceMode::ConfirmOnly | FenceMode::PowerOff => due - AHEAD,
    };
    // A pause that ends before the wait does is in nobody's way.
    if let Some(kept_off) = exclusion(policy, node, opens.max(now)) {
        return because(Reason::Held(kept_off.reason), kept_off.message);
    }
    timed(policy, node, &effective, (due, &why), now)
}

/// What it does, and when.
fn timed<'a>(
    policy: &NodeFencingPolicy,
    node: &NodeView,
    effective: &Effective,
    (due, why): (Timestamp, &str),
    now: Timestamp,
) -> Verdict<'a> {
    let (name, at, is_late) = (policy.name_any(), at_time(due), is_late(due, now));
    let does = match (effective.mode, effective.approval) {
        (FenceMode::Observe, _) => "says so",
        (_, ApprovalMode::Manual) => "asks for an approval to fence it",
        (FenceMode::ConfirmOnly, _) => "looks whether it is off (mode ConfirmOnly)",
        (FenceMode::PowerOff, _) => "fences it",
    };
    let begins = match is_late {
        true => format!(
            "should have begun {at}: see who leads (kubectl fence check), and what the operator says of it (kubectl describe node {})",
            node.name
        ),
        false => format!("{does} {at}: {why}"),
    };
    let (words, more) = match effective.mode {
        FenceMode::Observe => (observes(policy), Some(format!("it {begins}"))),
        _ => {
            let unready = unready(policy, node).map(|it| format!("; but {it}"));
            let words = format!("policy {name} {begins}{}", unready.unwrap_or_default());
            (words, None)
        }
    };
    let reason = if is_late {
        Reason::Late
    } else {
        Reason::Waiting
    };
    Verdict {
        due: Some(due),
        more,
        ..because(reason, words)
    }
}

fn observes(policy: &NodeFencingPolicy) -> String {
    format!(
        "policy {} governs it, and only observes now: it says what it would do and does nothing (`fence.mode`, or an open window)",
        policy.name_any()
    )
}

/// Why an incident of it would not get far, by what the operator says of the policy. A pause is judged anew.
fn unready(policy: &NodeFencingPolicy, node: &NodeView) -> Option<String> {
    let status = policy.status.as_ref()?;
    if status.unprotected_nodes.contains(&node.name) {
        let words = "no FenceDevice of its levels is ready for it: see kubectl get fencedevices";
        return Some(words.to_owned());
    }
    let ready = find(&status.conditions, READY).filter(|it| it.status != "True")?;
    let is_pause = ready.reason == HeldBy::Paused.as_str();
    let words = format!(
        "the policy is not ready: {}: {}",
        ready.reason, ready.message
    );
    (!is_pause).then_some(words)
}

#[cfg(test)]
mod tests;
