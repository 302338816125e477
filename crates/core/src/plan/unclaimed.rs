//! Nothing of ours is on the Node: is there a reason to begin, and a device that can see it through?
//!
//! Everything that forbids or ends an incident is looked at first. Then the level's devices are asked once, before
//! anything is written: do they answer, are they wired to this machine, and, in mode ConfirmOnly, does it already read Off?

use super::completion::{is_confirmed_down, late_off};
use super::hydrate::await_foreign_commands;
use super::level::{Failure, names};
use super::precheck::{Refusal, note_contradiction, precheck, reads_off};
use super::round::Round;
use super::superseded::{self, held_by_other_fence};
use super::tries::{ROUND_PAUSE_MAX, fail, in_trouble, not_failed, note_devices, order};
use crate::decision::{Decision, DeviceOrder, Effect, act, close, held, wait};
use crate::delay::AHEAD;
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

/// Others go by what was confirmed off.
pub(super) fn pending_off(r: &mut Round<'_>, node: &NodeView) -> Option<Decision> {
    is_confirmed_down(r, node).then(|| late_off(r))?
}

/// Another NodeFence has confirmed this outage off.
pub(super) fn cleared(r: &mut Round<'_>, node: &NodeView) -> Option<Decision> {
    let other = r.observed.cleared_by.as_ref()?;
    let message = superseded::cleared(node, other).message;
    Some(close(Stage::Aborted, message))
}

/// Before it waits for anything: another NodeFence may go first, and the node has booted anew when that one has ended.
pub(super) fn bind_first(r: &mut Round<'_>, node: &NodeView) -> Option<Decision> {
    bind(r.settings, node).filter(|_| !has_never_reported(node))
}

fn has_never_reported(node: &NodeView) -> bool {
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

/// Holds the incident. Something else is in the way now: what was refused before is not why.
fn hold(r: &mut Round<'_>, decision: Decision) -> Option<Decision> {
    r.memory.writes.forget_denial();
    Some(decision)
}

/// Nothing is known of a kubelet that never reported.
pub(super) fn never_reported(r: &mut Round<'_>, node: &NodeView) -> Option<Decision> {
    if !has_never_reported(node) {
        return None;
    }
    let message = format!(
        "Node {} has no Ready condition or no boot ID (its kubelet never reported); wait until it has, or cancel this NodeFence (`spec.desiredState: Released`)",
        node.name
    );
    hold(r, held(HeldBy::NeverReported, message))
}

/// Mode Observe only reports.
pub(super) fn observes(r: &mut Round<'_>, node: &NodeView) -> Option<Decision> {
    if r.settings.mode() != FenceMode::Observe {
        return None;
    }
    let message = format!(
        "Node {} would be fenced now; mode Observe only reports",
        node.name
    );
    hold(r, wait(Stage::Observing, message))
}

/// The operator lacks rights that the end takes (S20).
pub(super) fn unsupported(r: &mut Round<'_>, _: &NodeView) -> Option<Decision> {
    let message = r.settings.unsupported.clone()?;
    let held = held(HeldBy::Unsupported, message.clone());
    hold(r, held.escalated(Escalation::Unsupported, message))
}

/// Another NodeFence has claimed the Node.
pub(super) fn claimed_by_another(r: &mut Round<'_>, node: &NodeView) -> Option<Decision> {
    if !r.observed.claim_of_other_fence {
        return None;
    }
    let held = held_by_other_fence(r.memory, node);
    hold(r, held)
}

/// The policy wants an approval first.
pub(super) fn approval(r: &mut Round<'_>, _: &NodeView) -> Option<Decision> {
    if r.settings.approval != Approval::Awaited {
        return None;
    }
    let waits = awaiting_approval(r);
    hold(r, waits)
}

/// Nobody has answered yet. When time is up, the policy says whether the incident ends or somebody is called.
pub(super) fn awaiting_approval(r: &mut Round<'_>) -> Decision {
    let since = match r.memory.stage {
        Some((Stage::AwaitingApproval, since)) => since,
        _ => r.moment.now,
    };
    // Nobody has less time because it was opened early.
    let since = match r.settings.claims_off_early {
        true => since.max(r.settings.not_before),
        false => since,
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

/// A hold that comes before the devices are asked, or one of which only the budget is left to wait for.
pub(super) fn held_first(r: &mut Round<'_>, _: &NodeView) -> Option<Decision> {
    let hold = r.observed.hold.as_ref();
    let hold = hold.filter(|hold| r.memory.tries.checked || hold.reason.comes_first())?;
    r.memory.tries.since = None;
    Some(held_by_budget(r.memory, hold))
}

/// No level has a device for the node.
pub(super) fn no_level(node: &NodeView, now: Duration) -> Decision {
    let message = format!(
        "no FenceDevice of any level serves Node {}; create one, or correct `fence.levels[].deviceSelector`",
        node.name
    );
    wait(Stage::Checking, message.clone())
        .escalated(Escalation::NoDevice, message)
        .until(now + ROUND_PAUSE_MAX)
}

/// The level's devices are being asked.
pub(super) fn asking(r: &mut Round<'_>, _: &NodeView, level: &Level) -> Option<Decision> {
    r.memory.commands.busy?;
    let message = format!("probing the devices of level {}", level.name);
    Some(in_trouble(r.memory, wait(Stage::Checking, message)))
}

/// The last try failed just now.
pub(super) fn paused(r: &mut Round<'_>, _: &NodeView, _: &Level) -> Option<Decision> {
    let (at, message) = r.memory.tries.pause(r.moment.now)?;
    Some(in_trouble(r.memory, wait(Stage::Checking, message)).until(at))
}

/// There is no answer, or it is too old for a claim.
pub(super) fn unread(r: &mut Round<'_>, _: &NodeView, level: &Level) -> Option<Decision> {
    let is_old = r.moment.now.saturating_sub(r.memory.read_at) > answer_life(r);
    if !r.memory.under_claim.answers.is_empty() && !is_old {
        return None;
    }
    let asks = read_power(r.memory, level, r.moment.now);
    Some(in_trouble(r.memory, asks))
}

/// The answers do not allow a claim.
pub(super) fn refused(r: &mut Round<'_>, _: &NodeView, level: &Level) -> Option<Decision> {
    r.memory.tries.checked = false;
    // Of a device that hangs later nobody but the record would know.
    note_contradiction(r.memory, level);
    let waits = match precheck(r, level).err()? {
        Refusal::NotOff(Failure { reason, message }) => {
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
            wait(Stage::Checking, message).until(again)
        }
        Refusal::Failed(failure) => {
            r.memory.under_claim.answers.clear();
            fail(r, failure.message, r.moment.now);
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
            // The same words as while it is paused: the record is written once for a try.
            let message = r.memory.tries.last_failure.clone();
            wait(Stage::Checking, message.unwrap_or_default()).until(pause)
        }
    };
    Some(in_trouble(r.memory, waits))
}

/// The devices can see it through, and the policy's wait is not over. It guards against breaks of the network, and a machine that is off is none.
pub(super) fn not_due(r: &mut Round<'_>, node: &NodeView, level: &Level) -> Option<Decision> {
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
    let is_over = r.moment.now >= decide_at || is_off_early(r, level);
    // One that may not be claimed yet stands in no queue for a place.
    let is_held = r.observed.hold.is_some() && !r.is_early();
    if is_held || is_over {
        return None;
    }
    let message = format!(
        "{} can fence it; Node {} is claimed when the policy's wait ends",
        names(level),
        node.name
    );
    let again = r.memory.read_at + answer_life(r) + Duration::from_millis(1);
    Some(wait(Stage::Checking, message).until(decide_at.min(again.max(r.moment.now))))
}

/// How old an answer may be. One that is far from being due is asked ever less often.
fn answer_life(r: &Round<'_>) -> Duration {
    match r.is_early() && r.moment.now + AHEAD < r.settings.not_before {
        true => reread_period(r.memory, r.moment.now).max(ANSWER_LIFE),
        false => ANSWER_LIFE,
    }
}

/// May the rest of the policy's wait be skipped?
fn is_off_early(r: &Round<'_>, level: &Level) -> bool {
    let is_fresh = r.moment.now.saturating_sub(r.memory.read_at) <= ANSWER_LIFE;
    r.settings.claims_off_early && is_fresh && reads_off(r, level)
}

/// The devices can see it through, and there is no place in the budget.
pub(super) fn over_budget(r: &mut Round<'_>, _: &NodeView, _: &Level) -> Option<Decision> {
    r.memory.under_claim.answers.clear();
    r.memory.tries.checked = true;
    let hold = r.observed.hold.as_ref()?;
    Some(held_by_budget(r.memory, hold))
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

pub(super) fn claim(r: &mut Round<'_>, node: &NodeView, level: &Level) -> Decision {
    // Where one device is enough, another one may have said nothing.
    let (who, is_one) = match level.require {
        Require::Any => (format!("level {}", level.name), true),
        Require::All => (names(level), level.devices.len() == 1),
    };
    let left = r.settings.not_before.saturating_sub(r.moment.now);
    let is_early = left > CLAIM_AHEAD;
    let is_off = is_early || r.settings.mode() == FenceMode::ConfirmOnly;
    let says = match (is_off, is_one) {
        _ if level.is_manual() => "is valid",
        (true, true) => "reads Off",
        (true, false) => "read Off",
        (false, true) => "answers for this machine",
        (false, false) => "answer for this machine",
    };
    let early = match is_early {
        true => format!(
            ", {} s before the policy's wait ends",
            left.as_millis().div_ceil(1000)
        ),
        false => String::new(),
    };
    let message = format!("{who} {says}: claiming Node {}{early}", node.name);
    let value = taint::claim_value(&r.settings.fence, &r.moment.nonce);
    r.memory.claim = Some(OwnClaim {
        value: value.clone(),
        uid: node.uid.clone(),
        boot_id: node.boot_id.clone(),
        seen: false,
    });
    match r.memory.under_claim.quiesce.listed_before.take() {
        Some(pods) => {
            // What a kubelet wrote before its machine went off is no sign of life.
            if is_off && !level.is_manual() {
                r.memory.under_claim.note_written(&pods);
            }
            r.memory.under_claim.quiesce.note_list(&pods);
        }
        None => r.memory.under_claim.quiesce.forget_list(),
    }
    note_devices(r);
    await_foreign_commands(r.settings, r.memory, r.moment.now);
    let valid_from = match is_early {
        true => r.moment.now,
        false => r.settings.not_before,
    };
    let patch = taint::claim(node, &value, &r.moment.date, valid_from);
    act(Effect::Claim(patch), Stage::Claiming, message)
}

#[cfg(test)]
mod tests;
