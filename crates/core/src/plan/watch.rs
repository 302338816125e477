//! The power of a machine whose node is out of service: looked at every ten seconds until the release, and turned off again where it came back.
//!
//! Whoever would know is heard: the devices of every level that read the machine itself, and outlets if they have proven it down. When no
//! device of a level answers, or none that would know, the next level has its turn.

use super::level::{against, judge_level, names, state_name, verified_reading};
use super::pace::WATCH_PERIOD;
use super::round::Round;
use super::tries::{current_level, forget_other_devices, new_attempt, order};
use crate::attempt::Attempt;
use crate::decision::{Decision, DeviceOrder, Effect, act};
use crate::device::{Device, DeviceAnswer, Level};
use crate::memory::Memory;
use crate::observed::NodeView;
use crate::quiesce::counted;
use crate::reading::Reading;
use crate::release::never_went_down;
use crate::settings::Settings;
use crate::stage::Stage;
use fencing_api::settings::FenceMode;
use std::time::Duration;

/// A reading counts as "now" for the release this long.
pub(super) const NOW_LIFE: Duration = Duration::from_secs(5);
/// Off commands under the taint in an incident, whichever process has sent them (S11): from then on something turns the machine on that an off
/// does not end (F33 to F40).
const REOFFS_MAX: u32 = 2;

/// Device work while the taint stands: a look every ten seconds, at once when only the release is left, and off again when
/// the machine came back. `None`: nothing to do now.
pub(super) fn watch_power(r: &mut Round<'_>, node: &NodeView, level: &Level) -> Option<Decision> {
    if r.memory.commands.busy.is_some() {
        return None;
    }
    forget_other_devices(r.memory, level, r.moment.now + r.settings.late_effect());
    if let Some(attempt) = r.memory.commands.attempt.clone()
        && let Some(decision) = turn_off_again(r, level, attempt)
    {
        return Some(decision);
    }
    let settled = r.memory.taint.has_settled(r.moment.now);
    // Once everything has detached, a machine that is powered on again is the recovery that a release may wait for.
    let came_back =
        r.memory.taint.detached_at.is_none() && has_power(r.settings, r.memory).is_some();
    let lives = came_back || never_went_down(node, r.settings.boot_id.as_deref());
    if lives && level.is_manual() {
        // Nobody is asked to cut it by hand where a device can.
        let serves = |level: &&Level| !level.devices.is_empty() && !level.is_manual();
        let reads_on = r.settings.levels.iter().position(|level| {
            against(
                believed_under_taint(r.memory, level),
                &r.memory.under_claim.answers,
            )
            .is_some()
        });
        let first = || r.settings.levels.iter().position(|level| serves(&level));
        if let Some(index) = reads_on.or_else(first) {
            r.memory.tries.level = index;
            r.memory.under_claim.answers.clear();
        }
        return None;
    }
    let may_command = r.settings.mode() == FenceMode::PowerOff && !r.memory.trust.is_contradicted();
    if may_command && settled && r.memory.taint.reoffs < REOFFS_MAX && lives {
        r.memory.taint.reoffs += 1;
        let attempt = new_attempt(r, level);
        r.memory.taint.settles_at = None;
        return turn_off_again(r, level, attempt);
    }
    // When a reading was asked for, or when it was known that there is none.
    let asked = |answer: &DeviceAnswer| match &answer.reading {
        Ok(reading) => reading.asked,
        Err(_) => r.memory.read_at,
    };
    let last = r.memory.under_claim.answers.iter().map(asked).min();
    let failed = r
        .memory
        .under_claim
        .answers
        .iter()
        .all(|answer| answer.reading.is_err())
        || is_mute(r, level);
    // What is next asks for a reading of its own: the release, or the deletion of VolumeAttachments.
    let due = match (last, r.memory.taint.reads_since()) {
        (None, _) => r.memory.taint.settles_at.unwrap_or(r.moment.now),
        // A reading that was asked for before does not count.
        (Some(last), Some(since)) if last < since => r.moment.now,
        (Some(_), Some(_)) if r.moment.now.saturating_sub(r.memory.read_at) > NOW_LIFE => {
            r.moment.now.max(r.memory.read_at + WATCH_PERIOD / 2)
        }
        (Some(last), _) => last + WATCH_PERIOD,
    };
    if r.moment.now < due {
        return None;
    }
    if failed && last.is_some() {
        r.memory.tries.level = (r.memory.tries.level + 1) % r.settings.levels.len().max(1);
    }
    let level = current_level(r)?;
    let message = format!("reading the power from {}", names(&level));
    let read = order(r.memory, &level, DeviceOrder::ReadPower, r.moment.now);
    Some(act(read, stage(r.memory), message))
}

/// Intent, command, and then looking again: the command is remembered until the looks have shown what became of it (S23).
fn turn_off_again(r: &mut Round<'_>, level: &Level, attempt: Attempt) -> Option<Decision> {
    if !attempt.recorded {
        let message = format!(
            "the machine came back while its volumes were detaching: turning it off again ({})",
            attempt.id
        );
        return Some(act(Effect::RecordIntent(attempt), stage(r.memory), message));
    }
    if attempt.results.is_empty() {
        let message = format!("turning the machine off again by {}", names(level));
        let off = DeviceOrder::Off(attempt);
        return Some(act(
            order(r.memory, level, off, r.moment.now),
            stage(r.memory),
            message,
        ));
    }
    if r.memory.taint.settles_at.is_none() {
        // A machine takes a moment to go down: looked at sooner, it would use up the next command too. The first is older than the taint.
        let pause = match r.memory.taint.reoffs {
            0 => Duration::ZERO,
            _ => WATCH_PERIOD,
        };
        r.memory.taint.settles_at = Some(r.moment.now + pause);
        r.memory.under_claim.answers.clear();
    }
    None
}

/// The device that said last that the machine has power, or is between on and off. One that names another machine says nothing of
/// this one; one that cannot name any is heard.
pub(super) fn has_power<'a>(s: &'a Settings, m: &'a Memory) -> Option<(&'a Device, &'a Reading)> {
    let devices = s
        .levels
        .iter()
        .flat_map(|level| believed_under_taint(m, level));
    against(devices, &m.under_claim.answers)
}

/// Would the device know of a machine that has come back? Outlets that did not turn it off have power all the while.
pub(super) fn would_know(m: &Memory, device: &Device) -> bool {
    !device.outlets || m.under_claim.proven_by.contains(&device.name)
}

fn believed_under_taint<'a>(m: &Memory, level: &'a Level) -> impl Iterator<Item = &'a Device> {
    let devices = level.devices.iter();
    devices.filter(move |device| would_know(m, device))
}

/// Does the level say neither that the machine is off nor that it has come back?
fn is_mute(r: &Round<'_>, level: &Level) -> bool {
    let is_off = |device: &Device| match verified_reading(device, &r.memory.under_claim.answers) {
        Ok(reading) if reading.is_off() => Ok(()),
        _ => Err(()),
    };
    has_power(r.settings, r.memory).is_none() && judge_level(level, is_off).is_err()
}

/// The state, and the device's own word for it where that is another one.
pub(super) fn reads(reading: &Reading) -> String {
    match (state_name(reading.state), &reading.raw) {
        (state, raw) if state == raw => format!("reads {state}"),
        (state, raw) => format!("reads {state} ({raw})"),
    }
}

/// The machine came back while something was still attached to it.
pub(super) fn regressed(r: &Round<'_>) -> Option<String> {
    if r.memory.taint.detached_at.is_some() {
        return None;
    }
    let (device, reading) = has_power(r.settings, r.memory)?;
    let is_done = |attempt: &Attempt| !attempt.results.is_empty();
    let what_now = match r.memory.taint.reoffs >= REOFFS_MAX
        && r.memory.commands.attempt.as_ref().is_none_or(is_done)
    {
        _ if r.memory.trust.is_contradicted() => {
            "no command is sent after a contradiction (`status.contradictions`); correct the device's wiring, and cut this machine's power by hand"
        }
        true => {
            "no further command is sent; correct what turns it on (the restore policy of its BMC), or cut its power elsewhere"
        }
        false => "the taint stays until the machine is off or rebooted",
    };
    Some(format!(
        "FenceDevice {} reads {} under taint `{}` ({} since): {what_now}",
        device.name,
        state_name(reading.state),
        r.settings.mark(),
        counted(r.memory.taint.reoffs, "off command")
    ))
}

fn stage(m: &Memory) -> Stage {
    match m.taint.detached_at {
        Some(_) => Stage::AwaitingRelease,
        None => Stage::Detaching,
    }
}
