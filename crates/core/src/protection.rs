//! Would a node be fenced, when, and if not, what stands in the way?
//!
//! There is one rule for all who ask. The operator opens incidents by it, and the commands explain a node by it, so that what is explained cannot
//! differ from what is done. The callers differ in what they know ([`Facts`]): the operator counts from what it has seen itself, a command from the
//! dates of the objects that it reads ([`dates`]).

pub mod dates;
pub mod levels;
pub mod obstacle;

use super::delay::{self, AHEAD, Delay, LastFence, Start};
use super::exclusions::Exclusion;
use super::hold::HeldBy;
use super::observed::NodeView;
use super::outage::{asked_fence_name, cleared_by, fence_name, refused_by};
use super::select::{Onsets, fenceable, first_due, governing};
use super::window::{Effective, effective};
use fencing_api::fence::NodeFence;
use fencing_api::policy::{DurationPolicy, FenceMode, NodeFencingPolicy, UnhealthyCondition};
use jiff::Timestamp;
pub use obstacle::Obstacle;
use std::time::Duration;

/// Why nothing at all is begun for a policy, in words; none: nothing prevents it.
pub type Idle<'a> = dyn Fn(&NodeFencingPolicy) -> Option<(HeldBy, String)> + 'a;

/// What the rule is asked over.
pub struct Facts<'a, 'b> {
    /// All policies.
    pub policies: &'a [NodeFencingPolicy],
    /// NodeFences, at least those of the node.
    pub fences: &'a [NodeFence],
    /// Since when the node shows its conditions.
    pub onsets: &'b Onsets,
    /// What the cluster or the operator's rights say against a policy.
    pub idle: &'b Idle<'b>,
    /// Wall clock, by which windows are judged.
    pub now: Timestamp,
}

/// The answer.
#[derive(Debug)]
pub struct Outlook<'a> {
    /// The policy that governs the node.
    pub policy: Option<&'a NodeFencingPolicy>,
    /// Why no incident is opened, the most fundamental reason first.
    pub obstacles: Vec<Obstacle<'a>>,
    /// What the policy wants of the node; none: it wants nothing. An incident is opened only without obstacles.
    pub wanted: Option<Wanted<'a>>,
}

/// What a policy wants of a node.
#[derive(Debug)]
pub struct Wanted<'a> {
    /// The policy.
    pub policy: &'a NodeFencingPolicy,
    /// What it says now.
    pub effective: Effective,
    /// The condition that asks for an incident.
    pub condition: &'a UnhealthyCondition,
    /// When that will have lasted as long as it has to (time since boot).
    pub held: Duration,
}

/// When the node is claimed that a policy wants something of (times since boot).
#[derive(Debug)]
pub struct Schedule {
    /// At the earliest.
    pub claim_at: Duration,
    /// All waits of the policy end. Later than `claim_at` where one is skipped.
    pub wait_ends: Duration,
    /// Another wait than the condition's own, which ends later.
    pub delay: Option<Delay>,
}

impl<'a> Outlook<'a> {
    /// The incident that is to be opened.
    ///
    /// # Errors
    /// The first obstacle.
    pub fn incident(self) -> Result<Wanted<'a>, Obstacle<'a>> {
        match (self.obstacles.into_iter().next(), self.wanted) {
            (None, Some(wanted)) => Ok(wanted),
            (obstacle, _) => Err(obstacle.unwrap_or(Obstacle::NoPolicy)),
        }
    }
}

impl Wanted<'_> {
    /// Since when the condition lasts (time since boot).
    pub fn since(&self) -> Duration {
        let duration = Duration::from_secs(self.condition.duration_seconds.into());
        self.held.saturating_sub(duration)
    }

    /// Is the condition's duration skipped where the machine is off? What only observes has nothing to begin with.
    pub fn skips_if_off(&self) -> bool {
        let policy = self.policy.spec.duration_policy;
        policy == DurationPolicy::SkipIfOff && self.effective.mode != FenceMode::Observe
    }

    /// May a NodeFenceRemediation skip what is left of the condition's duration at `now` (time since boot)? What only observes has nothing to begin
    /// with.
    pub fn waits(&self, now: Duration) -> bool {
        now < self.held && self.effective.mode != FenceMode::Observe
    }

    /// When its node is claimed, whose machine is off or not.
    pub fn schedule(
        &self,
        is_off: bool,
        start: Option<&Start>,
        last: Option<&LastFence>,
    ) -> Schedule {
        let held = match is_off && self.skips_if_off() {
            true => self.since(),
            false => self.held,
        };
        self.after(
            held,
            self.held,
            delay::delay(&self.policy.spec, start, last),
        )
    }

    /// When its node is claimed, for which a NodeFenceRemediation asks: the condition's duration is not waited for. All other waits stay.
    pub fn schedule_asked(&self, start: Option<&Start>, last: Option<&LastFence>) -> Schedule {
        let since = self.since();
        self.after(since, since, delay::delay(&self.policy.spec, start, last))
    }

    fn after(&self, held: Duration, wait_ends: Duration, delay: Option<Delay>) -> Schedule {
        let after = |held: Duration| delay.as_ref().map_or(held, |it| it.until.max(held));
        Schedule {
            claim_at: after(held),
            wait_ends: after(wait_ends),
            delay: delay.filter(|delay| delay.until > held),
        }
    }
}

/// When the incident of a node is opened that is to be claimed `at` (time since boot). What mode Observe says of a node is true only when the wait is
/// over.
pub fn opens(mode: FenceMode, at: Duration) -> Duration {
    match mode {
        FenceMode::Observe => at,
        FenceMode::ConfirmOnly | FenceMode::PowerOff => at.saturating_sub(AHEAD),
    }
}

/// What the policy says at `now`. Nothing is begun for one whose windows cannot be used ([`super::exclusions`]).
pub fn in_force(policy: &NodeFencingPolicy, now: Timestamp) -> Effective {
    effective(policy, now).unwrap_or_else(|_| Effective::without_windows(policy))
}

/// What keeps an incident from being opened when it is due. `kept_off`: the policy leaves the node alone then.
pub fn at_opening<'a>(node: &NodeView, kept_off: Option<Exclusion>) -> Option<Obstacle<'a>> {
    let taint = node.marked_by().map(Obstacle::OutOfService);
    taint.or_else(|| kept_off.map(Obstacle::KeptOff))
}

/// Would the node be fenced, and if not why?
pub fn outlook<'a>(node: &NodeView, facts: &Facts<'a, '_>) -> Outlook<'a> {
    let governed = governing(facts.policies, node);
    let policy = governed.as_ref().ok().copied().flatten();
    let never = fenceable(node).err().map(Obstacle::NeverReported);
    let cleared = cleared_by(facts.fences, node).map(Obstacle::Cleared);
    let ungoverned = match governed {
        Ok(Some(_)) => None,
        Ok(None) => Some(Obstacle::NoPolicy),
        Err(conflict) => Some(Obstacle::Conflict(conflict)),
    };
    let mut obstacles: Vec<_> = [never, cleared, ungoverned].into_iter().flatten().collect();
    let idle = policy.and_then(facts.idle);
    obstacles.extend(idle.map(|(reason, words)| Obstacle::Idle(reason, words)));
    let wanted = policy.and_then(|policy| match asked(policy, node, facts) {
        Ok(wanted) => Some(wanted),
        Err(obstacle) => {
            obstacles.push(obstacle);
            None
        }
    });
    let known = wanted.as_ref().and_then(|it| known(it, node, facts.fences));
    obstacles.extend(known);
    Outlook {
        policy,
        obstacles,
        wanted,
    }
}

/// Which condition of the policy asks for an incident.
fn asked<'a>(
    policy: &'a NodeFencingPolicy,
    node: &NodeView,
    facts: &Facts<'a, '_>,
) -> Result<Wanted<'a>, Obstacle<'a>> {
    let conditions = || policy.spec.unhealthy_conditions.iter();
    let refusal = |it: &UnhealthyCondition| refused_by(facts.fences, node, it);
    let open = conditions().filter(|it| refusal(it).is_none());
    if let Some((condition, held)) = first_due(open, facts.onsets) {
        return Ok(Wanted {
            policy,
            effective: in_force(policy, facts.now),
            condition,
            held,
        });
    }
    let mut shown = conditions().filter(|it| facts.onsets.due(it).is_some());
    Err(match shown.find_map(refusal) {
        Some(fence) => Obstacle::Refused(fence),
        None => Obstacle::NoCondition,
    })
}

/// The record that there is of this outage already.
fn known<'a>(
    wanted: &Wanted<'_>,
    node: &NodeView,
    fences: &'a [NodeFence],
) -> Option<Obstacle<'a>> {
    let policy = wanted.policy.metadata.name.as_deref().unwrap_or_default();
    let serves = |it: &&NodeFence| it.spec.node_name == node.name && it.serves(policy);
    let open = fences.iter().find(serves);
    let (of, says, condition) = (wanted.policy, &wanted.effective, wanted.condition);
    let name = fence_name(node, of, says, condition);
    let was_tainted = |it: &NodeFence| {
        let status = it.status.as_ref();
        status.is_some_and(|it| it.taint_applied_time.is_some())
    };
    let is_it = |it: &&NodeFence| {
        // What ended with its remediation, before its taint, is the policy's to begin.
        let asked = it.spec.trigger.remediation.as_ref();
        let asked = asked.filter(|_| was_tainted(it));
        let asked = asked.map(|by| asked_fence_name(node, of, says, condition, &by.uid));
        it.metadata.name.as_ref() == Some(asked.as_ref().unwrap_or(&name))
    };
    open.map(Obstacle::Open)
        .or_else(|| fences.iter().find(is_it).map(Obstacle::Ended))
}

#[cfg(test)]
mod tests;
