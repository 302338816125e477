//! The Node is released, and the policy wants its machine on again: after a pause, by those devices that have turned it off, outlets first.
//!
//! Nothing is commanded as long as an off may still land, which would make a power cycle of it (S23). Once another NodeFence has taken the Node,
//! or somebody put it out of service, it is theirs, and this incident ends (S11). A machine that reads On is left to boot, and one that somebody works on is left alone.

mod devices;

use super::abort::taken_back;
use super::outcome::released;
use super::pace::WATCH_PERIOD;
use super::round::Round;
use super::tries::order_max;
use crate::attempt::OnAttempt;
use crate::decision::{Decision, DeviceOrder, Effect, act, close, wait};
use crate::device::{Device, Level};
use crate::escalation::Escalation;
use crate::memory::Memory;
use crate::observed::{NodeView, QUARANTINE, Ready};
use crate::power_on::{PowerOn, forbidden, taken};
use crate::proof_source::reported_off;
use crate::reading::PowerState;
use crate::release::{booted_anew, never_went_down};
use crate::stage::Stage;
use devices::{
    PAUSE, exhausted, last_readings, named, next_group, rewired, somebody_else, state, take_in,
    without_target,
};
use fencing_api::settings::FenceMode;
use std::time::Duration;

/// The incident ends this long after its deadline, come what may.
const CALLED_FOR: Duration = Duration::from_secs(15 * 60);
/// What a human can do.
const WAY_OUT: &str = "turn the machine on by hand, or see why it does not come up; set `spec.desiredState: Released` to end the NodeFence";

/// Has the release been seen, by this process or one before it, and is the machine to be turned on?
pub(super) fn is_begun(r: &Round<'_>) -> bool {
    let is_released = r.memory.power_on.begun.is_some() || r.settings.record.released;
    is_released && r.settings.power_on.is_some()
}

/// The Node is gone, or another one by now: the end of its incident, whose fence was over if it had been released.
pub(super) fn gone(r: &Round<'_>, message: String) -> Decision {
    match is_begun(r) {
        true => close(Stage::Recovered, format!("{}; then {message}", released(r))),
        false => close(Stage::Aborted, message),
    }
}

/// The next step after the release; none: nothing is to be turned on, or it is on already.
pub(super) fn step(r: &mut Round<'_>, node: &NodeView) -> Option<Decision> {
    let wanted = r.settings.power_on.as_ref()?;
    if r.settings.mode() != FenceMode::PowerOff {
        return None;
    }
    begin(r, wanted);
    let new_boot = booted_anew(node, r.settings.boot_id.as_deref());
    if new_boot && !r.memory.power_on.has_sent() {
        return None;
    }
    if let Some(end) = over(r, wanted, node) {
        return Some(end);
    }
    let until = deadline(r.memory, wanted);
    if new_boot {
        let message = format!("Node {} rebooted and is not Ready yet", node.name);
        return Some(waits(r, wanted, message, r.moment.now + PAUSE));
    }
    let why_not = forbidden(
        node,
        r.settings.node_uid.as_deref(),
        r.settings.boot_id.as_deref(),
    );
    if let Some(why) = why_not.or_else(|| wanted.hold.clone()) {
        let message = format!("machine not turned on: {why}");
        // Whoever keeps it off knows why, and is not called for it.
        if r.moment.now >= until && !r.memory.power_on.has_sent() {
            return Some(close(
                Stage::Recovered,
                format!("{}; {message}", released(r)),
            ));
        }
        return Some(waits(r, wanted, message, r.moment.now + WATCH_PERIOD));
    }
    if let Some(due) = r.memory.power_on.due.filter(|due| r.moment.now < *due) {
        let message = format!(
            "its machine is turned on {} s after the release (`powerOn.delaySeconds`)",
            wanted.delay.as_secs()
        );
        return Some(waits(r, wanted, message, due));
    }
    if let Some(until) = r.memory.late.pending_off_until(r.moment.now) {
        let message = format!(
            "{}; turned on after that to avoid a power cycle",
            r.memory.late.off_message()
        );
        return Some(waits(r, wanted, message, until));
    }
    Some(turn_on(r, wanted, node))
}

/// What was done before is known; and once, the pause begins.
fn begin(r: &mut Round<'_>, wanted: &PowerOn) {
    if r.memory.power_on.recall(&r.settings.record.turned_on) {
        // Another process has sent it, or is about to: its effect is waited for, and what this one was about to send is not sent.
        r.memory.power_on.retry_at = Some(r.moment.now + PAUSE);
        let is_written = |attempt: &OnAttempt| attempt.recorded;
        r.memory.power_on.attempt = r.memory.power_on.attempt.take().filter(is_written);
    }
    if r.memory.power_on.begun.is_some() {
        return;
    }
    r.memory.power_on.begun = Some(r.moment.now);
    // What a process before this one has waited counts.
    let pause = wanted.delay.saturating_sub(r.settings.record.released_for);
    r.memory.power_on.due = Some(r.moment.now + pause);
    // They are gone from the Node, and what was read under them says nothing of what somebody has done since.
    r.memory.claim = None;
    r.memory.under_claim.answers.clear();
}

/// Until when the node has to be Ready (time since boot).
fn deadline(m: &Memory, wanted: &PowerOn) -> Duration {
    m.power_on
        .due
        .max(m.late.may_land_until())
        .unwrap_or_default()
        + wanted.timeout
}

/// The end, if the node is back, or if nothing may be done any more.
fn over(r: &Round<'_>, wanted: &PowerOn, node: &NodeView) -> Option<Decision> {
    let boot_id = r.settings.boot_id.as_deref();
    let taken = taken(node, &r.settings.fence);
    if booted_anew(node, boot_id) {
        let message = format!(
            "{}; its machine was turned on: Node {} rebooted and is Ready",
            released(r),
            node.name
        );
        return match node.ready() {
            Ready::True => Some(close(Stage::Recovered, message)),
            _ => taken.map(|why| left_alone(r, &why)),
        };
    }
    if never_went_down(node, boot_id) {
        let (said, way_out) = reported_off(r.memory.proven.by.as_ref());
        let message = format!(
            "{}; but Node {} is Ready in boot {}, although {said}; {way_out}, check the volumes' data, then reboot the node",
            released(r),
            node.name,
            node.boot_id
        );
        return Some(
            close(Stage::Recovered, message.clone())
                .escalated(Escalation::FenceContradiction, message),
        );
    }
    let why = taken_back(r.settings)
        .map(|(_, message)| message)
        .or(taken)
        .or_else(|| wanted.stop.clone())
        .or_else(|| {
            let is_gone = node.taint(QUARANTINE).is_none();
            is_gone.then(|| "its quarantine taint was removed by others".to_owned())
        })
        .or_else(|| without_target(r));
    if let Some(why) = why {
        return Some(left_alone(r, &why));
    }
    let decision = left_alone(r, &rewired(r)?);
    let message = decision.message.clone();
    Some(decision.escalated(Escalation::PowerOnFailed, message))
}

/// The end of it, whatever was done so far.
fn left_alone(r: &Round<'_>, why: &str) -> Decision {
    let what = match r.memory.power_on.has_sent() {
        true => "machine not turned on again",
        false => "machine not turned on",
    };
    close(Stage::Recovered, format!("{}; {what}: {why}", released(r)))
}

/// Waits, says so, and calls somebody when time is up; ends when nobody came.
fn waits(r: &Round<'_>, wanted: &PowerOn, message: String, wake: Duration) -> Decision {
    within(r, wanted, wait(Stage::PoweringOn, message).until(wake))
}

/// The decision under the deadline of the stage.
fn within(r: &Round<'_>, wanted: &PowerOn, decision: Decision) -> Decision {
    let until = deadline(r.memory, wanted);
    let end = until + CALLED_FOR;
    if r.moment.now >= end {
        let message = format!(
            "{}; its machine did not come back: {}; turn it on by hand",
            released(r),
            decision.message
        );
        return close(Stage::Recovered, message.clone())
            .escalated(Escalation::PowerOnFailed, message);
    }
    let late = || {
        format!(
            "exceeds `powerOn.timeoutSeconds` ({} s)",
            wanted.timeout.as_secs()
        )
    };
    let failure = r.memory.power_on.failure.clone();
    let why = failure.or_else(|| (r.moment.now >= until).then(late));
    let call = why.map(|why| format!("{}; {why}; {WAY_OUT}", decision.message));
    let next = if r.moment.now < until { until } else { end };
    let decision = Decision {
        deadline: Some(until),
        wake: decision.wake.map(|wake| wake.min(next)),
        ..decision
    };
    match call {
        Some(message) => decision.escalated(Escalation::PowerOnFailed, message),
        None => decision,
    }
}

/// Intent, command, and looks in between, until the machine reads On.
fn turn_on(r: &mut Round<'_>, wanted: &PowerOn, node: &NodeView) -> Decision {
    if r.memory.commands.busy.is_some() {
        let message = "waiting for the FenceDevices that turned its machine off";
        return waits(r, wanted, message.to_owned(), r.moment.now + PAUSE);
    }
    if let Some(decision) = carry_out(r, wanted) {
        return decision;
    }
    take_in(r);
    let group = next_group(r);
    if let Some(who) = somebody_else(r, group.as_ref()) {
        let message = format!(
            "{}; FenceDevice {who} reads On: its machine was turned on by others, nothing more is done",
            released(r)
        );
        return close(Stage::Recovered, message);
    }
    let Some(group) = group else {
        r.memory.power_on.failure = None;
        let message = format!(
            "its machine has power again, waiting for Node {} to reboot and be Ready",
            node.name
        );
        return waits(r, wanted, message, r.moment.now + PAUSE);
    };
    let Some(level) = r.settings.levels.get(group.level) else {
        return waits(
            r,
            wanted,
            "no level serves the node".to_owned(),
            r.moment.now + PAUSE,
        );
    };
    let is_seen = |device: &Device| {
        let mut answers = r.memory.under_claim.answers.iter();
        answers.any(|it| it.device.name == device.name)
    };
    let is_old = r.moment.now.saturating_sub(r.memory.read_at) >= WATCH_PERIOD;
    if is_old || !group.devices.iter().all(is_seen) {
        // What was seen last stays the explanation.
        let message = match group.devices.iter().all(is_seen) {
            true => last_readings(r.memory, &group),
            false => format!(
                "reading the power from FenceDevice {}",
                named(&group.devices)
            ),
        };
        let read = order(r.memory, group.level, level, DeviceOrder::ReadPower);
        return within(r, wanted, act(read, Stage::PoweringOn, message));
    }
    let message = last_readings(r.memory, &group);
    r.memory.power_on.failure = exhausted(r, &group);
    let may_try = r
        .memory
        .power_on
        .retry_at
        .is_none_or(|at| r.moment.now >= at)
        && r.moment.now < deadline(r.memory, wanted);
    let off = group.devices.iter().filter(|device| {
        let tries = r.memory.power_on.of(&device.name);
        tries.may_go_on() && state(r.memory, device) == Some(PowerState::Off)
    });
    let off: Vec<String> = off.map(|device| device.name.clone()).collect();
    if off.is_empty() || !may_try {
        let next = r.memory.read_at + WATCH_PERIOD;
        return waits(r, wanted, message, next);
    }
    new_attempt(r, level, off);
    carry_out(r, wanted).unwrap_or_else(|| waits(r, wanted, message, r.moment.now + PAUSE))
}

/// A command that was decided on: it is written down, and then sent.
fn carry_out(r: &mut Round<'_>, wanted: &PowerOn) -> Option<Decision> {
    let attempt = r.memory.power_on.attempt.clone();
    let attempt = attempt.filter(|attempt| attempt.results.is_empty())?;
    let names = attempt.devices.join(", ");
    let decision = match attempt.recorded {
        false => {
            let message = format!(
                "recording on command {} to FenceDevice {names} before it is sent",
                attempt.id
            );
            act(Effect::RecordOn(attempt), Stage::PoweringOn, message)
        }
        true => {
            let is_its = |level: &&Level| level.name == attempt.level;
            let (index, level) = (0..)
                .zip(&r.settings.levels)
                .find(|(_, level)| is_its(level))?;
            let message = format!("turning the machine on by FenceDevice {names}");
            r.memory.under_claim.answers.clear();
            let on = order(r.memory, index, level, DeviceOrder::On(attempt));
            act(on, Stage::PoweringOn, message)
        }
    };
    Some(within(r, wanted, decision))
}

fn new_attempt(r: &mut Round<'_>, level: &Level, devices: Vec<String>) {
    r.memory.commands.attempts += 1;
    for device in &devices {
        r.memory
            .power_on
            .tries
            .entry(device.clone())
            .or_default()
            .intended += 1;
    }
    r.memory.power_on.attempt = Some(OnAttempt {
        id: format!(
            "{}-{}",
            r.moment.nonce,
            r.settings.record.attempts + r.memory.commands.attempts
        ),
        level: level.name.clone(),
        devices,
        limit: order_max(level),
        recorded: false,
        results: Default::default(),
    });
    r.memory.power_on.retry_at = Some(r.moment.now + PAUSE);
}

fn order(m: &mut Memory, index: usize, level: &Level, order: DeviceOrder) -> Effect {
    m.commands.begin(false);
    Effect::Device {
        order,
        level: index,
        limit: order_max(level),
        number: m.commands.orders,
    }
}

#[cfg(test)]
mod tests;
