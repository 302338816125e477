//! The power of a machine whose node is out of service: looked at every ten seconds until the release, and turned off again where it came back.
//!
//! Whoever would know is heard: the devices of every level that read the machine itself, and outlets if they have proven it down. When no
//! device of a level answers, or none that would know, the next level has its turn.

use super::level::{against, judge_level, names, state_name, verified_reading};
use super::pace::WATCH_PERIOD;
use super::round::Moment;
use super::tries::{current_level, forget_other_devices, new_attempt, order};
use crate::attempt::Attempt;
use crate::decision::{Decision, DeviceOrder, Effect, act};
use crate::device::{Device, DeviceAnswer, Level};
use crate::memory::Memory;
use crate::observed::NodeView;
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
pub(super) fn watch_power(
    s: &Settings,
    m: &mut Memory,
    node: &NodeView,
    level: &Level,
    t: &Moment,
) -> Option<Decision> {
    if m.busy.is_some() {
        return None;
    }
    forget_other_devices(m, level, t.now + s.late_effect);
    if let Some(attempt) = m.attempt.clone()
        && let Some(decision) = turn_off_again(m, level, attempt, t)
    {
        return Some(decision);
    }
    let settled = m.reoff_settles_at.is_none_or(|at| t.now >= at);
    // Once everything has detached, a machine that is powered on again is the recovery that a release may wait for.
    let came_back = m.detached_at.is_none() && has_power(s, m).is_some();
    let lives = came_back || never_went_down(node, s.boot_id.as_deref());
    if lives && level.is_manual() {
        // Nobody is asked to cut it by hand where a device can.
        let serves = |level: &&Level| !level.devices.is_empty() && !level.is_manual();
        let reads_on = s.levels.iter().position(|level| {
            against(believed_under_taint(m, level), &m.under_claim.answers).is_some()
        });
        let first = || s.levels.iter().position(|level| serves(&level));
        if let Some(index) = reads_on.or_else(first) {
            m.level = index;
            m.under_claim.answers.clear();
        }
        return None;
    }
    let may_command = s.mode == FenceMode::PowerOff && !m.is_contradicted();
    if may_command && settled && m.reoffs < REOFFS_MAX && lives {
        m.reoffs += 1;
        let attempt = new_attempt(s, m, level, t);
        m.reoff_settles_at = None;
        return turn_off_again(m, level, attempt, t);
    }
    // When a reading was asked for, or when it was known that there is none.
    let asked = |answer: &DeviceAnswer| match &answer.reading {
        Ok(reading) => reading.asked,
        Err(_) => m.read_at,
    };
    let last = m.under_claim.answers.iter().map(asked).min();
    let failed = m
        .under_claim
        .answers
        .iter()
        .all(|answer| answer.reading.is_err())
        || is_mute(s, m, level);
    // What is next asks for a reading of its own: the release, or the deletion of VolumeAttachments.
    let due = match (last, m.detached_at.or(m.pods_gone_at)) {
        (None, _) => m.reoff_settles_at.unwrap_or(t.now),
        // A reading that was asked for before does not count.
        (Some(last), Some(since)) if last < since => t.now,
        (Some(_), Some(_)) if t.now.saturating_sub(m.read_at) > NOW_LIFE => {
            t.now.max(m.read_at + WATCH_PERIOD / 2)
        }
        (Some(last), _) => last + WATCH_PERIOD,
    };
    if t.now < due {
        return None;
    }
    if failed && last.is_some() {
        m.level = (m.level + 1) % s.levels.len().max(1);
    }
    let level = current_level(s, m)?;
    let message = format!("reads the power from {}", names(&level));
    let read = order(m, &level, DeviceOrder::ReadPower, t.now);
    Some(act(read, stage(m), message))
}

/// Intent, command, and then looking again: the command is remembered until the looks have shown what became of it (S23).
fn turn_off_again(m: &mut Memory, level: &Level, attempt: Attempt, t: &Moment) -> Option<Decision> {
    if !attempt.recorded {
        let message = format!(
            "the machine came back while its volumes were detaching: off again ({})",
            attempt.id
        );
        return Some(act(Effect::RecordIntent(attempt), stage(m), message));
    }
    if attempt.results.is_empty() {
        let message = format!("turns the machine off again by {}", names(level));
        let off = DeviceOrder::Off(attempt);
        return Some(act(order(m, level, off, t.now), stage(m), message));
    }
    if m.reoff_settles_at.is_none() {
        // A machine takes a moment to go down: looked at sooner, it would use up the next command too. The first is older than the taint.
        let pause = match m.reoffs {
            0 => Duration::ZERO,
            _ => WATCH_PERIOD,
        };
        m.reoff_settles_at = Some(t.now + pause);
        m.under_claim.answers.clear();
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
fn is_mute(s: &Settings, m: &Memory, level: &Level) -> bool {
    let is_off = |device: &Device| match verified_reading(device, &m.under_claim.answers) {
        Ok(reading) if reading.is_off() => Ok(()),
        _ => Err(()),
    };
    has_power(s, m).is_none() && judge_level(level, is_off).is_err()
}

/// The state, and the device's own word for it where that is another one.
pub(super) fn reads(reading: &Reading) -> String {
    match (state_name(reading.state), &reading.raw) {
        (state, raw) if state == raw => format!("reads {state}"),
        (state, raw) => format!("reads {state} ({raw})"),
    }
}

/// The machine came back while something was still attached to it.
pub(super) fn regressed(s: &Settings, m: &Memory) -> Option<String> {
    if m.detached_at.is_some() {
        return None;
    }
    let (device, reading) = has_power(s, m)?;
    let stays = "the taint stays until the machine is off or has booted anew";
    let is_done = |attempt: &Attempt| !attempt.results.is_empty();
    let what_now = match m.reoffs >= REOFFS_MAX && m.attempt.as_ref().is_none_or(is_done) {
        _ if m.is_contradicted() => format!(
            "no command is sent, because a device of the node has lied (`status.contradictions`): {stays}; see which machine the device is wired to, and cut this one's power by hand"
        ),
        true => format!(
            "it came back each time, and no further command is sent: {stays}; correct what turns it on (the restore policy of its BMC), or cut its power elsewhere"
        ),
        false => stays.to_owned(),
    };
    Some(format!(
        "FenceDevice {} reads {} while `{}` stands ({} off command(s) since): {what_now}",
        device.name,
        state_name(reading.state),
        s.mark(),
        m.reoffs
    ))
}

fn stage(m: &Memory) -> Stage {
    match m.detached_at {
        Some(_) => Stage::AwaitingRelease,
        None => Stage::Detaching,
    }
}
