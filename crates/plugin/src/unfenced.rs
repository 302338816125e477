//! Why does nobody fence a node that is down, or when will the operator? One verdict for all who ask: `status`, the commands that answer an
//! incident, and `diagnose`, which adds what to type.
//!
//! The rule is the operator's own ([`fencing_core::protection`]).

mod record;
mod shown;

use crate::table::duration;
use fencing_api::conditions::{READY, find};
use fencing_api::fence::NodeFence;
use fencing_api::policy::{ApprovalMode, FenceMode, NodeFencingPolicy};
use fencing_core::exclusions::exclusion;
use fencing_core::hold::HeldBy;
use fencing_core::observed::NodeView;
use fencing_core::protection::dates::{Dates, moment};
use fencing_core::protection::obstacle::named_condition;
use fencing_core::protection::{Facts, Obstacle, Wanted, at_opening, in_force, opens, outlook};
use fencing_core::window;
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
pub use shown::{Unfenced, of, of_view, unfenced};

/// A wait that is over for no longer than this is no news: dates are whole seconds, and clocks differ.
const LATE_AFTER: SignedDuration = SignedDuration::from_secs(5);

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
    /// Something keeps an incident from being opened.
    Obstacle(Obstacle<'a>),
}

impl<'a> Reason<'a> {
    /// A stable name. It never changes its meaning.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Waiting => "Waiting",
            Self::Late => "Late",
            Self::Obstacle(obstacle) => obstacle.reason(),
        }
    }

    /// What it is, if it is an obstacle.
    pub fn obstacle(&self) -> Option<&Obstacle<'a>> {
        match self {
            Self::Obstacle(obstacle) => Some(obstacle),
            Self::Waiting | Self::Late => None,
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

impl Verdict<'_> {
    /// Is it still to be fenced, or to be proven down, and not late for that? ([`Unfenced::waits`] asks for an incident of any kind.)
    pub fn fence_is_to_come(&self, now: Timestamp) -> bool {
        let acts = |it: &NodeFencingPolicy| window::mode(it, now) != FenceMode::Observe;
        matches!(self.reason, Reason::Waiting) && self.policy.is_some_and(acts)
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
    let mode = policy.map(|it| match it.spec.procedure.fence.mode {
        FenceMode::Observe => FenceMode::ConfirmOnly,
        mode => mode,
    });
    let mode = mode.map(|it| format!(" --mode {it:?}"));
    format!("kubectl fence now {node}{}", mode.unwrap_or_default())
}

/// Why the operator begins nothing for this policy, as only itself can know, with its words.
pub fn idle(policy: &NodeFencingPolicy) -> Option<(HeldBy, String)> {
    let told = find(&policy.status.as_ref()?.conditions, READY)?;
    let reason = HeldBy::named(&told.reason).filter(|_| told.status != "True")?;
    let is_known = matches!(reason, HeldBy::ClusterWentBack | HeldBy::Unsupported);
    is_known.then(|| (reason, told.message.clone()))
}

/// Of a node that is not Ready and has no incident that may act on it. `created`: when its Node was; none: not known.
pub fn verdict<'a>(node: &NodeView, created: Option<Timestamp>, world: &World<'a>) -> Verdict<'a> {
    let dates = Dates::of(node, created, world.fences, world.now);
    let outlook = outlook(
        node,
        &Facts {
            policies: world.policies,
            fences: world.fences,
            onsets: &dates.onsets,
            idle: &idle,
            now: world.now,
        },
    );
    let policy = outlook.policy;
    match outlook
        .incident()
        .and_then(|it| due(it, node, &dates, world.now))
    {
        Ok((wanted, due)) => timed(&wanted, node, due, world.now),
        Err(obstacle) => obstructed(obstacle, policy, node, world.now),
    }
}

/// What the policy wants, when, and why not sooner.
fn due<'a>(
    wanted: Wanted<'a>,
    node: &NodeView,
    dates: &Dates,
    now: Timestamp,
) -> Result<(Wanted<'a>, (Timestamp, String)), Obstacle<'a>> {
    let condition = wanted.condition;
    // What its devices read, nobody has told.
    let schedule = wanted.schedule(false, dates.start.as_ref(), dates.last.as_ref());
    let (at, why) = schedule.delay.map_or_else(
        || {
            let (name, seconds) = (named_condition(condition), condition.duration_seconds);
            let sooner = match wanted.skips_if_off() {
                true => ", unless a device reads Off (`durationPolicy`)",
                false => "",
            };
            let why = format!("{name} has to last {seconds} s (`unhealthyConditions`){sooner}");
            (wanted.held, why)
        },
        |delay| (delay.until, delay.message),
    );
    let opens = moment(opens(wanted.effective.mode, at));
    // A pause that ends before the wait does is in nobody's way.
    let kept_off = exclusion(wanted.policy, node, opens.max(now));
    match at_opening(node, kept_off) {
        Some(obstacle) => Err(obstacle),
        None => Ok((wanted, (moment(at), why))),
    }
}

fn obstructed<'a>(
    obstacle: Obstacle<'a>,
    policy: Option<&'a NodeFencingPolicy>,
    node: &NodeView,
    now: Timestamp,
) -> Verdict<'a> {
    let observes = policy.is_some_and(|it| in_force(it, now).mode == FenceMode::Observe);
    let all_the_same = || {
        format!(
            "to fence it anyway: {} --reason WHY",
            fence_now(policy, &node.name)
        )
    };
    let told = || obstacle.with_hint(node, policy);
    let (words, more) = match &obstacle {
        Obstacle::Open(_) if observes => (Obstacle::Observes.with_hint(node, policy), None),
        Obstacle::NoPolicy => (obstacle.message(node, policy), obstacle.hint(node)),
        Obstacle::NoCondition => (told(), Some(all_the_same())),
        _ => record::words(&obstacle).unwrap_or_else(|| (told(), None)),
    };
    Verdict {
        reason: Reason::Obstacle(obstacle),
        policy,
        due: None,
        words,
        more,
    }
}

/// What it does, and when.
fn timed<'a>(
    wanted: &Wanted<'a>,
    node: &NodeView,
    (due, why): (Timestamp, String),
    now: Timestamp,
) -> Verdict<'a> {
    let (policy, effective) = (wanted.policy, &wanted.effective);
    let (name, at, is_late) = (policy.name_any(), at_time(due), is_late(due, now));
    let does = match (effective.mode, effective.approval) {
        (FenceMode::Observe, _) => "reports the outage",
        (_, ApprovalMode::Manual) => "requests an approval to fence it",
        (FenceMode::ConfirmOnly, _) => "reads whether it is off (mode ConfirmOnly)",
        (FenceMode::PowerOff, _) => "fences it",
    };
    let begins = match is_late {
        true => format!(
            "should have begun {at}; see who leads (kubectl fence check), and the operator's Events (kubectl describe node {})",
            node.name
        ),
        false => format!("{does} {at}: {why}"),
    };
    let (words, more) = match effective.mode {
        FenceMode::Observe => (
            Obstacle::Observes.with_hint(node, Some(policy)),
            Some(format!("it {begins}")),
        ),
        _ => {
            let unready = unready(policy, node).map(|it| format!("; but {it}"));
            let words = format!("policy {name} {begins}{}", unready.unwrap_or_default());
            (words, None)
        }
    };
    Verdict {
        reason: if is_late {
            Reason::Late
        } else {
            Reason::Waiting
        },
        policy: Some(policy),
        due: Some(due),
        words,
        more,
    }
}

/// Why an incident of it would not get far, by what the operator says of the policy. A pause is judged anew.
fn unready(policy: &NodeFencingPolicy, node: &NodeView) -> Option<String> {
    let status = policy.status.as_ref()?;
    if status.unprotected_nodes.contains(&node.name) {
        return Some(Obstacle::NoReadyDevice.with_hint(node, Some(policy)));
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
