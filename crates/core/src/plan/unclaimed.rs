//! Nothing of ours is on the Node: is there a reason to begin, and a device that can see it through?
//!
//! Everything that forbids or ends an incident is looked at first. Then the level's devices are asked once, before
//! anything is written: do they answer, are they wired to this machine, and, in mode ConfirmOnly, does it already read Off?

use super::completion::{ended, is_confirmed_down, late_off};
use super::delete_node::{finalizers, sticky_pods};
use super::hydrate::await_foreign_commands;
use super::level::{Failure, names};
use super::precheck::{Refusal, note_contradiction, precheck};
use super::round::Round;
use super::superseded::{cleared, held_by_other_fence};
use super::tries::{
    ROUND_PAUSE_MAX, current_level, fail, in_trouble, not_failed, note_devices, order,
    turn_to_confirmed_level,
};
use crate::decision::{Decision, DeviceOrder, Effect, act, close, held, wait};
use crate::device::Level;
use crate::escalation::Escalation;
use crate::hold::{HeldBy, Hold};
use crate::memory::{Memory, OwnClaim};
use crate::observed::{NodeView, Ready};
use crate::settings::{Approval, Settings};
use crate::stage::Stage;
use crate::taint;
use crate::verification::Require;
use fencing_api::settings::{ApprovalTimeout, FenceMode};
use std::time::Duration;

/// An answer is good for the claim this long.
const ANSWER_LIFE: Duration = Duration::from_secs(5);
/// The claim is decided on this much earlier than it is sent: the Node, and the Secrets for the readings, have been read by then.
const CLAIM_AHEAD: Duration = Duration::from_millis(50);
/// Pause between two looks at a machine that is not off (ConfirmOnly): in the first minute, and at most.
const REREAD_PERIOD: Duration = Duration::from_secs(5);
const REREAD_PERIOD_MAX: Duration = Duration::from_secs(60);

/// The next step while nothing of the incident is on the Node: is there a reason to end it, what holds it, and is the machine off, or may be turned off?
pub(super) fn step(r: &mut Round<'_>, node: &NodeView) -> Decision {
    if let Some(end) = ended(r, node) {
        return end;
    }
    if is_confirmed_down(r, node)
        && let Some(waits) = late_off(r)
    {
        return waits;
    }
    if let Some(other) = &r.observed.cleared_by {
        return close(Stage::Aborted, cleared(node, other).message);
    }
    if let Some(bind) = bind_first(r.settings, node) {
        return bind;
    }
    // A claim that was written and is not there: its write failed, or has not landed yet. The next one has another nonce.
    if r.memory.claim.is_some() || r.memory.under_claim.dropping {
        r.memory
            .forget_claim(r.moment.now + r.settings.late_effect());
    }
    if let Some(held) = held_back(r, node) {
        r.memory.writes.forget_denial();
        return held;
    }
    check(r, node)
}

/// Before it waits for anything: another NodeFence may go first, and the node has booted anew when that one has ended.
pub(super) fn bind_first(s: &Settings, node: &NodeView) -> Option<Decision> {
    bind(s, node).filter(|_| !never_reported(node))
}

fn never_reported(node: &NodeView) -> bool {
    node.ready() == Ready::Missing || node.boot_id.is_empty()
}

/// A human's incident is about the Node and the boot that it meets first (S10).
pub(super) fn bind(s: &Settings, node: &NodeView) -> Option<Decision> {
    if s.node_uid.is_some() && s.boot_id.is_some() {
        return None;
    }
    let message = format!(
        "bound to Node {} with UID {} and boot ID {}",
        node.name, node.uid, node.boot_id
    );
    let effect = Effect::Bind {
        uid: node.uid.clone(),
        boot_id: node.boot_id.clone(),
    };
    Some(act(effect, Stage::Checking, message))
}

/// Reasons to wait before anything is written.
fn held_back(r: &mut Round<'_>, node: &NodeView) -> Option<Decision> {
    if never_reported(node) {
        let message = format!(
            "Node {} has no Ready condition or no boot ID (its kubelet never reported); wait until it has, or cancel this NodeFence (`spec.desiredState: Released`)",
            node.name
        );
        return Some(held(HeldBy::NeverReported, message));
    }
    if r.settings.mode() == FenceMode::Observe {
        let message = format!(
            "Node {} would be fenced now; mode Observe only reports",
            node.name
        );
        return Some(wait(Stage::Observing, message));
    }
    if let Some(message) = &r.settings.unsupported {
        let held = held(HeldBy::Unsupported, message.clone());
        return Some(held.escalated(Escalation::Unsupported, message.clone()));
    }
    if r.observed.claim_of_other_fence {
        return Some(held_by_other_fence(r.memory, node));
    }
    if r.settings.approval == Approval::Awaited {
        return Some(awaiting_approval(r));
    }
    finalizers::before_the_claim(r.settings, node, r.moment)
}

/// Nobody has answered yet. When time is up, the policy says whether the incident ends or somebody is called.
pub(super) fn awaiting_approval(r: &mut Round<'_>) -> Decision {
    let since = match r.memory.stage {
        Some((Stage::AwaitingApproval, since)) => since,
        _ => r.moment.now,
    };
    let deadline = since
        + r.settings
            .approval_timeout()
            .saturating_sub(r.settings.record.approval_waited);
    let timeout = r.settings.approval_timeout().as_secs();
    let is_late = r.moment.now >= deadline;
    if is_late && r.settings.procedure.fence.approval.on_timeout == ApprovalTimeout::Abort {
        let message = format!(
            "no approval within {timeout} s (`fence.approval.timeoutSeconds`, `onTimeout` is Abort); create a NodeFence by hand to fence the node anyway"
        );
        // Should the end not be written, the wait does not begin anew.
        r.memory.ending = Some((Stage::Aborted, message.clone()));
        return close(Stage::Aborted, message);
    }
    let message =
        "waiting for `spec.approval` (the policy's `fence.approval.mode` is Manual)".to_owned();
    let waits = wait(Stage::AwaitingApproval, message);
    let waits = if is_late {
        let message = format!(
            "no approval or denial within {timeout} s (`fence.approval.timeoutSeconds`); set `spec.approval` to Approved or Denied"
        );
        waits.escalated(Escalation::ApprovalOverdue, message)
    } else {
        waits.until(deadline)
    };
    Decision {
        deadline: Some(deadline),
        ..waits
    }
}

/// The budget is asked last: an incident whose device does not answer waits for nobody's turn and takes nobody's (L5). Whether the policy
/// keeps its hands off the node is asked first.
fn held_by_budget(m: &mut Memory, hold: &Hold) -> Decision {
    // Nothing is written meanwhile: what was refused before is nobody's concern.
    m.writes.forget_denial();
    let message = format!("held ({}): {}", hold.reason, hold.message);
    held(hold.reason, message)
}

/// Asks the level's devices, and claims when their answers and the budget allow it.
fn check(r: &mut Round<'_>, node: &NodeView) -> Decision {
    if let Some(held) = sticky_pods::before_the_claim(r, node) {
        return held;
    }
    let hold = r.observed.hold.as_ref();
    if let Some(hold) = hold.filter(|hold| r.memory.tries.checked || hold.reason.comes_first()) {
        r.memory.tries.since = None;
        return held_by_budget(r.memory, hold);
    }
    turn_to_confirmed_level(r, &r.observed.lease, r.moment.now);
    let Some(level) = current_level(r) else {
        let message = format!(
            "no FenceDevice of any level serves Node {}; create one, or correct `fence.levels[].deviceSelector`",
            node.name
        );
        return wait(Stage::Checking, message.clone())
            .escalated(Escalation::NoDevice, message)
            .until(r.moment.now + ROUND_PAUSE_MAX);
    };
    if r.memory.commands.busy.is_some() {
        let message = format!("probing the devices of level {}", level.name);
        return in_trouble(r.memory, wait(Stage::Checking, message));
    }
    if let Some(at) = r.memory.tries.retry_at.filter(|at| r.moment.now < *at) {
        let message = r.memory.tries.last_failure.clone().unwrap_or_default();
        return in_trouble(r.memory, wait(Stage::Checking, message)).until(at);
    }
    if r.memory.under_claim.answers.is_empty()
        || r.moment.now.saturating_sub(r.memory.read_at) > ANSWER_LIFE
    {
        let asks = read_power(r.memory, &level, r.moment.now);
        return in_trouble(r.memory, asks);
    }
    r.memory.tries.checked = false;
    // Of a device that hangs later nobody but the record would know.
    note_contradiction(r.memory, &level);
    match precheck(r, &level) {
        Ok(()) => seen_through(r, node, &level),
        Err(Refusal::NotOff(Failure { reason, message })) => {
            r.memory.under_claim.answers.clear();
            not_failed(r.memory);
            let again = next_try(
                r.settings,
                r.moment.now + reread_period(r.memory, r.moment.now),
                r.moment.now,
            );
            r.memory.tries.retry_at = Some(again);
            r.memory.tries.last_failure = Some(message.clone());
            r.memory.tries.alarm = Some(reason);
            r.memory.writes.forget_denial();
            in_trouble(r.memory, wait(Stage::Checking, message).until(again))
        }
        Err(Refusal::Failed(failure)) => {
            r.memory.under_claim.answers.clear();
            fail(r, failure.message.clone(), r.moment.now);
            r.memory.tries.retry_at = r
                .memory
                .tries
                .retry_at
                .map(|at| next_try(r.settings, at, r.moment.now));
            // Another machine at the device's address is never a passing fault.
            if failure.reason != Escalation::DeviceFailed {
                r.memory.tries.alarm = Some(failure.reason);
            }
            let pause = r.memory.tries.retry_at.unwrap_or(r.moment.now);
            let waits = wait(Stage::Checking, failure.message).until(pause);
            in_trouble(r.memory, waits)
        }
    }
}

/// The devices can see it through: the claim, as soon as the budget and the policy's wait allow it.
fn seen_through(r: &mut Round<'_>, node: &NodeView, level: &Level) -> Decision {
    // The failures count on: a device that answers once and never proves anything has failed too. A contradiction is shown until a
    // proof has settled it.
    if r.memory.trust.contradictions.is_empty() {
        r.memory.tries.last_failure = None;
        r.memory.tries.by_level.remove(&level.name);
        r.memory.tries.alarm = None;
    }
    let decide_at = r.settings.not_before.saturating_sub(CLAIM_AHEAD);
    // What is waited for is not the level's time. In mode ConfirmOnly the look is a part of each try.
    if r.moment.now < decide_at
        || r.observed.hold.is_some()
        || r.settings.mode() == FenceMode::PowerOff
    {
        r.memory.tries.since = None;
    }
    not_failed(r.memory);
    if r.observed.hold.is_none() && r.moment.now < decide_at {
        let message = format!(
            "{} can fence it; Node {} is claimed when the policy's `durationSeconds` are over",
            names(level),
            node.name
        );
        return wait(Stage::Checking, message).until(decide_at);
    }
    r.memory.under_claim.answers.clear();
    r.memory.tries.checked = true;
    match &r.observed.hold {
        Some(hold) => held_by_budget(r.memory, hold),
        None => claim(r, node, level),
    }
}

/// A twelfth of the time for which the machine has been looked at: an outage of hundreds of nodes does not amplify itself (L5).
fn reread_period(m: &Memory, now: Duration) -> Duration {
    let since = m.stage.map_or(now, |(_, since)| since);
    (now.saturating_sub(since) / 12).clamp(REREAD_PERIOD, REREAD_PERIOD_MAX)
}

/// A try before the policy's wait is over is an early one: the next is made when it is over at the latest.
fn next_try(s: &Settings, at: Duration, now: Duration) -> Duration {
    if now < s.not_before {
        at.min(s.not_before)
    } else {
        at
    }
}

fn read_power(m: &mut Memory, level: &Level, now: Duration) -> Decision {
    let message = format!("reading {} of level {}", names(level), level.name);
    act(
        order(m, level, DeviceOrder::ReadPower, now),
        Stage::Checking,
        message,
    )
}

fn claim(r: &mut Round<'_>, node: &NodeView, level: &Level) -> Decision {
    // Where one device is enough, another one may have said nothing.
    let (who, is_one) = match level.require {
        Require::Any => (format!("level {}", level.name), true),
        Require::All => (names(level), level.devices.len() == 1),
    };
    let says = match (r.settings.mode(), is_one) {
        _ if level.is_manual() => "is valid",
        (FenceMode::ConfirmOnly, true) => "reads Off",
        (FenceMode::ConfirmOnly, false) => "read Off",
        (_, true) => "answers for this machine",
        (_, false) => "answer for this machine",
    };
    let message = format!("{who} {says}: claiming Node {}", node.name);
    let value = taint::claim_value(&r.settings.fence, &r.moment.nonce);
    r.memory.claim = Some(OwnClaim {
        value: value.clone(),
        uid: node.uid.clone(),
        boot_id: node.boot_id.clone(),
        seen: false,
    });
    match r.memory.under_claim.quiesce.listed_before.take() {
        Some(pods) => r.memory.under_claim.quiesce.note_list(&pods),
        None => r.memory.under_claim.quiesce.forget_list(),
    }
    note_devices(r);
    await_foreign_commands(r.settings, r.memory, r.moment.now);
    let patch = taint::claim(node, &value, &r.moment.date, r.settings.not_before);
    act(Effect::Claim(patch), Stage::Claiming, message)
}

#[cfg(test)]
mod tests;
