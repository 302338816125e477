//! `out-of-service` stands under our claim: watch until everything has detached, then take both away.
//!
//! The taint is taken back only through the release gate (docs/protocol.md). Until then the power is read every ten seconds: a machine
//! that comes back while its volumes are being detached is turned off again, twice at most, or keeps its taint until it has booted anew.

use super::super::attempt::Attempt;
use super::super::incident::{
    Decision, Device, DeviceOrder, Effect, Level, Memory, OwnClaim, Settings, Sight,
};
use super::super::observed::{NodeView, Observed};
use super::super::reading::{PowerState, Reading};
use super::super::release::{Hindrance, attachments_left, booted_anew, hindrance, never_went_down};
use super::super::stage::Stage;
use super::super::taint;
use super::claimed::{failed, forget_other_devices};
use super::level::{
    CONTRADICTION, against, answer, current_level, judge_level, lost_device, names, new_attempt,
    order, state_word,
};
use super::{Moment, act, close, poll, wait};
use crate::api::settings::{FenceMode, ReleaseMode};
use std::time::Duration;

/// Pause between two looks at the power while the taint stands.
const WATCH_PERIOD: Duration = Duration::from_secs(10);
/// A reading counts as "now" for the release this long.
const NOW_LIFE: Duration = Duration::from_secs(5);
/// And if its device was asked this long ago at most: a look may take 20 s.
const ASKED_LIFE: Duration = Duration::from_secs(25);
/// What the release still waits for.
const READ_ONCE_MORE: &str = "the machine's power is read once more before the release";
/// Off commands while the taint stands (F33 to F40).
const REOFFS_MAX: u32 = 2;

pub(super) fn step(
    s: &Settings,
    m: &mut Memory,
    node: &NodeView,
    claim: &str,
    o: &Observed,
    t: &Moment,
) -> Decision {
    m.tainted = true;
    // Set by the process before us, or taken over by one that lives: whoever sees to the release may turn off again under it.
    if m.claim.as_ref().is_none_or(|held| held.value != claim) {
        m.claim = Some(OwnClaim {
            value: claim.to_owned(),
            uid: node.uid.clone(),
            boot_id: s.boot_id.clone().unwrap_or_default(),
            seen: true,
        });
    }
    let fenced_boot = s.boot_id.as_deref();
    let new_boot = booted_anew(node, fenced_boot);
    // The power of a machine that has booted anew is not read any more: the effect of what it accepted is never seen.
    if new_boot && !m.commanding() {
        m.drop_attempt(t.now + s.late_effect);
    }
    let hindrance = hindrance(Some(node), o);
    match &hindrance {
        None => m.drained = m.drained.or(Some(t.now)),
        // A list that could not be read takes back nothing that was seen before.
        Some(Hindrance::NotRead | Hindrance::LastList) => {}
        Some(_) => m.drained = None,
    }
    let level = current_level(s, m);
    let watched = match &level {
        Some(level) if !new_boot => watch_power(s, m, node, level, t),
        _ => None,
    };
    let decision = match (watched, hindrance) {
        // A look at the power changes nothing about what is waited for, which stays the explanation.
        (Some(watched), Some(hindrance)) => Decision {
            words: format!("{}; {}", hindrance.words(), watched.words),
            ..watched
        },
        (Some(watched), None) => watched,
        (None, Some(hindrance)) => {
            m.last_check = false;
            wait(Stage::Detaching, hindrance.words()).until(poll(m, t.now, Duration::from_secs(2)))
        }
        (None, None) => release(s, m, node, claim, level.as_ref(), o, t),
    };
    if never_went_down(node, fenced_boot) {
        let said = level.as_ref().map_or("its device".to_owned(), names);
        let words = format!(
            "Node {} is Ready with the boot ID it was fenced with ({}): it never went down, {said} lies or is wired to another machine; the taint stays, check the volumes' data",
            node.name, node.boot_id
        );
        return decision.escalated(CONTRADICTION, words);
    }
    match regressed(s, m) {
        Some(words) if !new_boot => decision.escalated("FenceRegressed", words),
        _ => decision,
    }
}

/// Somebody deleted the Node, and our taint with it: there is nothing left to release, but the record stays open until pods and
/// volumes are free, which pod GC and attach/detach now see to without the taint (F43).
pub(super) fn node_gone(s: &Settings, m: &mut Memory, o: &Observed, t: &Moment) -> Decision {
    m.tainted = true;
    let gone = format!("Node {} was deleted under its taint", s.node);
    if let Some(hindrance) = hindrance(None, o) {
        m.last_check = false;
        let words = format!("{gone}; {}", hindrance.words());
        return wait(Stage::Detaching, words).until(poll(m, t.now, Duration::from_secs(2)));
    }
    m.last_check = !m.last_check;
    match attachments_left(o) {
        Ok(()) => {
            let words =
                format!("{gone}; the machine was proven down, its pods and volumes are free");
            close(Stage::Recovered, words)
        }
        Err(left) => {
            let words = format!("{gone}; {}", left.words());
            wait(Stage::Detaching, words).until(poll(m, t.now, Duration::from_secs(2)))
        }
    }
}

/// The release gate's last part, by mode: everything has detached already.
fn release(
    s: &Settings,
    m: &mut Memory,
    node: &NodeView,
    claim: &str,
    level: Option<&Level>,
    o: &Observed,
    t: &Moment,
) -> Decision {
    let again = t.now + WATCH_PERIOD;
    let new_boot = booted_anew(node, s.boot_id.as_deref());
    if never_went_down(node, s.boot_id.as_deref()) {
        return wait(
            Stage::AwaitingRelease,
            format!("Node {} is Ready and never went down", node.name),
        )
        .until(again);
    }
    if !new_boot {
        let waits_for = match s.release {
            _ if s.released => None,
            ReleaseMode::AfterDetach => None,
            ReleaseMode::AfterRecovery => Some(
                "`release.mode` AfterRecovery waits for a new boot ID, or for `spec.desiredState: Released`",
            ),
            ReleaseMode::Manual => {
                Some("`release.mode` Manual waits for `spec.desiredState: Released`")
            }
        };
        if let Some(waits_for) = waits_for {
            let words = format!("everything has detached; {waits_for}");
            return wait(Stage::AwaitingRelease, words).until(again);
        }
        if let Err(words) = off_now(s, m, level, t) {
            return wait(
                Stage::AwaitingRelease,
                format!("everything has detached; {words}"),
            )
            .until(t.now + Duration::from_secs(1));
        }
    }
    if let Some(decision) = may_land(m, t) {
        return decision;
    }
    // Everything else is settled: one complete quorum LIST of the VolumeAttachments is the last word.
    m.last_check = !m.last_check;
    match attachments_left(o) {
        Ok(()) => {}
        Err(unread @ (Hindrance::NotRead | Hindrance::LastList)) => {
            let pace = match m.last_check {
                true => t.now,
                false => poll(m, t.now, Duration::from_secs(2)),
            };
            return wait(Stage::AwaitingRelease, unread.words()).until(pace);
        }
        Err(left) => return wait(Stage::Detaching, left.words()).until(again),
    }
    if let Some(decision) = unheard(m, o, t) {
        return decision;
    }
    m.releasing = true;
    let quarantine = (!new_boot).then_some(node.boot_id.as_str());
    let words = match quarantine {
        Some(_) => format!(
            "everything has detached and the machine still reads Off: Node {} is released, quarantined until it boots anew",
            node.name
        ),
        None => format!(
            "everything has detached and Node {} has booted anew: it is released",
            node.name
        ),
    };
    match taint::release(node, claim, quarantine) {
        Some(patch) => act(Effect::Release(patch), Stage::AwaitingRelease, words),
        None => wait(Stage::AwaitingRelease, "the claim was lost".to_owned()).until(t.now),
    }
}

/// Another process may have sent an off that this one has not heard of (S23).
fn unheard(m: &mut Memory, o: &Observed, t: &Moment) -> Option<Decision> {
    if o.evidence.present().is_some() {
        return None;
    }
    let words = format!(
        "needs the NodeFence before the release{}",
        failed(&o.evidence)
    );
    let pace = poll(m, t.now, Duration::from_secs(2));
    Some(wait(Stage::AwaitingRelease, words).until(pace))
}

/// An off command that may still land keeps the taint where it is (S23).
fn may_land(m: &Memory, t: &Moment) -> Option<Decision> {
    let again = t.now + WATCH_PERIOD;
    if m.commanding() {
        let words = "everything has detached; an off command is on its way: the taint stays until its device has answered";
        return Some(wait(Stage::AwaitingRelease, words.to_owned()).until(again));
    }
    let until = m.unresolved_until.filter(|until| t.now < *until)?;
    let words = "everything has detached; an off command may still land late: the taint stays until its time is over";
    Some(wait(Stage::AwaitingRelease, words.to_owned()).until(until.min(again)))
}

/// Off, read by the right machine's device, after everything had detached and just now.
fn off_now(s: &Settings, m: &Memory, level: Option<&Level>, t: &Moment) -> Result<(), String> {
    let level = level
        .ok_or("no FenceDevice serves the node any more: whether it is still off cannot be read")?;
    if let Some(words) = lost_device(m, level) {
        return Err(format!("{words}, or boot the machine anew"));
    }
    if let Some((device, reading)) = has_power(s, m) {
        return Err(format!("FenceDevice {} {}", device.name, reads(reading)));
    }
    let since = m.drained.unwrap_or(t.now);
    judge_level(level, |device| {
        if !m.sights.iter().any(|sight| sight.device == device.name) {
            return Err(READ_ONCE_MORE.to_owned());
        }
        let reading = answer(device, &m.sights).map_err(|failure| failure.words)?;
        if !is_off(reading) {
            let words = format!("FenceDevice {} {}", device.name, reads(reading));
            return Err(match would_know(m, level, device) {
                true => words,
                false => format!("{words}: {}", who_knows(m)),
            });
        }
        let is_old = t.now.saturating_sub(m.looked_at) > NOW_LIFE
            || t.now.saturating_sub(reading.asked) > ASKED_LIFE;
        if reading.asked < since || is_old {
            return Err(READ_ONCE_MORE.to_owned());
        }
        Ok(())
    })
}

/// Device work while the taint stands: a look every ten seconds, at once when only the release is left, and off again when
/// the machine came back. `None`: nothing to do now.
fn watch_power(
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
    let came_back = m.drained.is_none() && has_power(s, m).is_some();
    let lives = came_back || never_went_down(node, s.boot_id.as_deref());
    if lives && level.is_manual() {
        // Nobody is asked to cut it by hand where a device can.
        let serves = |level: &&Level| !level.devices.is_empty() && !level.is_manual();
        let reads_on = s
            .levels
            .iter()
            .position(|level| against(witnesses(m, level), &m.sights).is_some());
        let first = || s.levels.iter().position(|level| serves(&level));
        if let Some(index) = reads_on.or_else(first) {
            m.level = index;
            m.sights.clear();
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
    let asked = |sight: &Sight| match &sight.reading {
        Ok(reading) => reading.asked,
        Err(_) => m.looked_at,
    };
    let last = m.sights.iter().map(asked).min();
    let failed = m.sights.iter().all(|sight| sight.reading.is_err()) || is_mute(s, m, level);
    let due = match (last, m.drained) {
        (None, _) => m.reoff_settles_at.unwrap_or(t.now),
        // Only the release is left: a reading that was asked for before does not count.
        (Some(last), Some(drained)) if last < drained => t.now,
        (Some(_), Some(_)) if t.now.saturating_sub(m.looked_at) > NOW_LIFE => {
            t.now.max(m.looked_at + WATCH_PERIOD / 2)
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
    let words = format!("reads the power from {}", names(&level));
    let look = order(m, &level, DeviceOrder::Look, t.now);
    Some(act(look, stage(m), words))
}

/// Intent, command, and then looking again: the command is remembered until the looks have shown what became of it (S23).
fn turn_off_again(m: &mut Memory, level: &Level, attempt: Attempt, t: &Moment) -> Option<Decision> {
    if !attempt.recorded {
        let words = format!(
            "the machine came back while its volumes were detaching: off again ({})",
            attempt.id
        );
        return Some(act(Effect::RecordIntent(attempt), stage(m), words));
    }
    if attempt.results.is_empty() {
        let words = format!("turns the machine off again by {}", names(level));
        let off = DeviceOrder::Off(attempt);
        return Some(act(order(m, level, off, t.now), stage(m), words));
    }
    if m.reoff_settles_at.is_none() {
        // A machine takes a moment to go down: looked at sooner, it would use up the next command too. The first is older than the taint.
        let pause = match m.reoffs {
            0 => Duration::ZERO,
            _ => WATCH_PERIOD,
        };
        m.reoff_settles_at = Some(t.now + pause);
        m.sights.clear();
    }
    None
}

/// The device that said last that the machine has power, or is between on and off. One that names another machine says nothing of
/// this one; one that cannot name any is heard.
fn has_power<'a>(s: &'a Settings, m: &'a Memory) -> Option<(&'a Device, &'a Reading)> {
    let devices = s.levels.iter().flat_map(|level| witnesses(m, level));
    against(devices, &m.sights)
}

/// Would the device know of a machine that has come back? Outlets that did not turn it off have power all the while.
fn would_know(m: &Memory, level: &Level, device: &Device) -> bool {
    !device.outlets || m.proven_level.as_ref() == Some(&level.name)
}

fn witnesses<'a>(m: &Memory, level: &'a Level) -> impl Iterator<Item = &'a Device> {
    let devices = level.devices.iter();
    devices.filter(move |device| would_know(m, level, device))
}

/// Does the level, which is not the one that has proven the machine down, say neither that it is off nor that it has come back?
fn is_mute(s: &Settings, m: &Memory, level: &Level) -> bool {
    let is_off = |device: &Device| match answer(device, &m.sights) {
        Ok(reading) if is_off(reading) => Ok(()),
        _ => Err(()),
    };
    let is_other = m.proven_level.as_ref() != Some(&level.name);
    is_other && has_power(s, m).is_none() && judge_level(level, is_off).is_err()
}

fn is_off(reading: &Reading) -> bool {
    reading.state == PowerState::Off && reading.faults.is_empty()
}

/// Where outlets were asked in place of what has turned the machine off.
fn who_knows(m: &Memory) -> String {
    let needed = match &m.proven_level {
        Some(level) => format!("level {level}, which has proven it down, has to answer"),
        None => "turn them off too".to_owned(),
    };
    format!(
        "outlets that did not turn the machine off cannot say whether it is; {needed}, or boot the machine anew"
    )
}

/// The state, and the device's own word for it where that is another one.
fn reads(reading: &Reading) -> String {
    match (state_word(reading.state), &reading.raw) {
        (state, raw) if state == raw => format!("reads {state}"),
        (state, raw) => format!("reads {state} ({raw})"),
    }
}

/// The machine came back while something was still attached to it.
fn regressed(s: &Settings, m: &Memory) -> Option<String> {
    if m.drained.is_some() {
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
        "FenceDevice {} reads {} while `out-of-service` stands ({} off command(s) since): {what_now}",
        device.name,
        state_word(reading.state),
        m.reoffs
    ))
}

fn stage(m: &Memory) -> Stage {
    match m.drained {
        Some(_) => Stage::AwaitingRelease,
        None => Stage::Detaching,
    }
}

#[cfg(test)]
mod tests;
