//! The Node is released, and the policy wants its machine on again: after a pause, by those devices that have turned it off, outlets first.
//!
//! Nothing is commanded as long as an off may still land, which would make a power cycle of it (S23). Once another NodeFence has taken the Node,
//! or somebody put it out of service, it is theirs, and this incident ends (S11). A machine that reads On is left to boot, and one that somebody works on is left alone.

mod devices;

use super::abort::taken_back;
use super::outcome::released;
use super::pace::WATCH_PERIOD;
use super::round::Moment;
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
use crate::settings::Settings;
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
const WAY_OUT: &str = "turn the machine on by hand, or see why it does not come up; the NodeFence ends by itself, or with `spec.desiredState: Released`";

/// Has the release been seen, by this process or one before it, and is the machine to be turned on?
pub(super) fn is_begun(s: &Settings, m: &Memory) -> bool {
    let is_released = m.power_on.begun.is_some() || s.record.released;
    is_released && s.power_on.is_some()
}

/// The Node is gone, or another one by now: the end of its incident, whose fence was over if it had been released.
pub(super) fn gone(s: &Settings, m: &Memory, message: String) -> Decision {
    match is_begun(s, m) {
        true => close(
            Stage::Recovered,
            format!("{}; then {message}", released(s, m)),
        ),
        false => close(Stage::Aborted, message),
    }
}

/// The next step after the release; none: nothing is to be turned on, or it is on already.
pub(super) fn step(s: &Settings, m: &mut Memory, node: &NodeView, t: &Moment) -> Option<Decision> {
    let wanted = s.power_on.as_ref()?;
    if s.mode != FenceMode::PowerOff {
        return None;
    }
    begin(s, m, wanted, t);
    let new_boot = booted_anew(node, s.boot_id.as_deref());
    if new_boot && !m.power_on.has_sent() {
        return None;
    }
    if let Some(end) = over(s, m, wanted, node) {
        return Some(end);
    }
    let until = deadline(m, wanted);
    if new_boot {
        let message = format!("Node {} has booted anew and is not Ready yet", node.name);
        return Some(waits(s, m, wanted, message, t.now + PAUSE, t));
    }
    let why_not = forbidden(node, s.node_uid.as_deref(), s.boot_id.as_deref());
    if let Some(why) = why_not.or_else(|| wanted.hold.clone()) {
        let message = format!("its machine is not turned on: {why}");
        // Whoever keeps it off knows why, and is not called for it.
        if t.now >= until && !m.power_on.has_sent() {
            return Some(close(
                Stage::Recovered,
                format!("{}; {message}", released(s, m)),
            ));
        }
        return Some(waits(s, m, wanted, message, t.now + WATCH_PERIOD, t));
    }
    if let Some(due) = m.power_on.due.filter(|due| t.now < *due) {
        let message = format!(
            "its machine is turned on {} s after the release (`powerOn.delaySeconds`)",
            wanted.delay.as_secs()
        );
        return Some(waits(s, m, wanted, message, due, t));
    }
    if let Some(until) = m.late_off_until(t.now) {
        let message = format!(
            "{}: its machine is turned on when its time is over, or it could be power-cycled",
            m.late_off_message()
        );
        return Some(waits(s, m, wanted, message, until, t));
    }
    Some(turn_on(s, m, wanted, node, t))
}

/// What was done before is known; and once, the pause begins.
fn begin(s: &Settings, m: &mut Memory, wanted: &PowerOn, t: &Moment) {
    if m.power_on.recall(&s.record.turned_on) {
        // Another process has sent it, or is about to: its effect is waited for, and what this one was about to send is not sent.
        m.power_on.retry_at = Some(t.now + PAUSE);
        let is_written = |attempt: &OnAttempt| attempt.recorded;
        m.power_on.attempt = m.power_on.attempt.take().filter(is_written);
    }
    if m.power_on.begun.is_some() {
        return;
    }
    m.power_on.begun = Some(t.now);
    // What a process before this one has waited counts.
    let pause = wanted.delay.saturating_sub(s.record.released_for);
    m.power_on.due = Some(t.now + pause);
    // They are gone from the Node, and what was read under them says nothing of what somebody has done since.
    m.claim = None;
    m.under_claim.answers.clear();
}

/// Until when the node has to be Ready (time since boot).
fn deadline(m: &Memory, wanted: &PowerOn) -> Duration {
    m.power_on.due.max(m.may_land_until()).unwrap_or_default() + wanted.timeout
}

/// The end, if the node is back, or if nothing may be done any more.
fn over(s: &Settings, m: &Memory, wanted: &PowerOn, node: &NodeView) -> Option<Decision> {
    let boot_id = s.boot_id.as_deref();
    let taken = taken(node, &s.fence);
    if booted_anew(node, boot_id) {
        let message = format!(
            "{}; its machine was turned on again: Node {} has booted anew and is Ready",
            released(s, m),
            node.name
        );
        return match node.ready() {
            Ready::True => Some(close(Stage::Recovered, message)),
            _ => taken.map(|why| left_alone(s, m, &why)),
        };
    }
    if never_went_down(node, boot_id) {
        let (said, way_out) = reported_off(m.proven_off_by.as_ref());
        let message = format!(
            "{}; but Node {} is Ready in boot {}, in which {said} said that it was off: its machine never went down: {way_out}; check the volumes' data, then reboot the node",
            released(s, m),
            node.name,
            node.boot_id
        );
        return Some(
            close(Stage::Recovered, message.clone())
                .escalated(Escalation::FenceContradiction, message),
        );
    }
    let why = taken_back(s)
        .map(|(_, message)| message)
        .or(taken)
        .or_else(|| wanted.stop.clone())
        .or_else(|| {
            let is_gone = node.taint(QUARANTINE).is_none();
            is_gone.then(|| "somebody has taken its quarantine away".to_owned())
        })
        .or_else(|| without_target(s, m));
    if let Some(why) = why {
        return Some(left_alone(s, m, &why));
    }
    let decision = left_alone(s, m, &rewired(s, m)?);
    let message = decision.message.clone();
    Some(decision.escalated(Escalation::PowerOnFailed, message))
}

/// The end of it, whatever was done so far.
fn left_alone(s: &Settings, m: &Memory, why: &str) -> Decision {
    let what = match m.power_on.has_sent() {
        true => "nothing more is done to turn its machine on",
        false => "its machine is not turned on",
    };
    close(
        Stage::Recovered,
        format!("{}; {what}: {why}", released(s, m)),
    )
}

/// Waits, says so, and calls somebody when time is up; ends when nobody came.
fn waits(
    s: &Settings,
    m: &Memory,
    wanted: &PowerOn,
    message: String,
    wake: Duration,
    t: &Moment,
) -> Decision {
    within(
        s,
        m,
        wanted,
        wait(Stage::PoweringOn, message).until(wake),
        t,
    )
}

/// The decision under the deadline of the stage.
fn within(s: &Settings, m: &Memory, wanted: &PowerOn, decision: Decision, t: &Moment) -> Decision {
    let until = deadline(m, wanted);
    let end = until + CALLED_FOR;
    if t.now >= end {
        let message = format!(
            "{}; its machine was not seen to come back: {}; turn it on by hand",
            released(s, m),
            decision.message
        );
        return close(Stage::Recovered, message.clone())
            .escalated(Escalation::PowerOnFailed, message);
    }
    let late = || {
        format!(
            "this takes longer than `powerOn.timeoutSeconds` ({} s)",
            wanted.timeout.as_secs()
        )
    };
    let failure = m.power_on.failure.clone();
    let why = failure.or_else(|| (t.now >= until).then(late));
    let call = why.map(|why| format!("{}; {why}: {WAY_OUT}", decision.message));
    let next = if t.now < until { until } else { end };
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
fn turn_on(
    s: &Settings,
    m: &mut Memory,
    wanted: &PowerOn,
    node: &NodeView,
    t: &Moment,
) -> Decision {
    if m.busy.is_some() {
        let message = "waits for the FenceDevices that have turned its machine off";
        return waits(s, m, wanted, message.to_owned(), t.now + PAUSE, t);
    }
    if let Some(decision) = carry_out(s, m, wanted, t) {
        return decision;
    }
    take_in(s, m, t);
    let group = next_group(s, m);
    if let Some(who) = somebody_else(s, m, group.as_ref()) {
        let message = format!(
            "{}; FenceDevice {who} reads On: somebody has turned its machine on, and nothing is done",
            released(s, m)
        );
        return close(Stage::Recovered, message);
    }
    let Some(group) = group else {
        m.power_on.failure = None;
        let message = format!(
            "its machine has power again: Node {} has to boot anew and to be Ready",
            node.name
        );
        return waits(s, m, wanted, message, t.now + PAUSE, t);
    };
    let Some(level) = s.levels.get(group.level) else {
        return waits(
            s,
            m,
            wanted,
            "no level serves the node".to_owned(),
            t.now + PAUSE,
            t,
        );
    };
    let is_seen = |device: &Device| {
        let mut answers = m.under_claim.answers.iter();
        answers.any(|it| it.device.name == device.name)
    };
    let is_old = t.now.saturating_sub(m.read_at) >= WATCH_PERIOD;
    if is_old || !group.devices.iter().all(is_seen) {
        // What was seen last stays the explanation.
        let message = match group.devices.iter().all(is_seen) {
            true => last_readings(m, &group),
            false => format!("asks FenceDevice {} for its power", named(&group.devices)),
        };
        let read = order(m, group.level, level, DeviceOrder::ReadPower);
        return within(s, m, wanted, act(read, Stage::PoweringOn, message), t);
    }
    let message = last_readings(m, &group);
    m.power_on.failure = exhausted(m, &group, t);
    let may_try = m.power_on.retry_at.is_none_or(|at| t.now >= at) && t.now < deadline(m, wanted);
    let off = group.devices.iter().filter(|device| {
        let tries = m.power_on.of(&device.name);
        tries.may_go_on() && state(m, device) == Some(PowerState::Off)
    });
    let off: Vec<String> = off.map(|device| device.name.clone()).collect();
    if off.is_empty() || !may_try {
        let next = m.read_at + WATCH_PERIOD;
        return waits(s, m, wanted, message, next, t);
    }
    new_attempt(s, m, level, off, t);
    carry_out(s, m, wanted, t).unwrap_or_else(|| waits(s, m, wanted, message, t.now + PAUSE, t))
}

/// A command that was decided on: it is written down, and then sent.
fn carry_out(s: &Settings, m: &mut Memory, wanted: &PowerOn, t: &Moment) -> Option<Decision> {
    let attempt = m.power_on.attempt.clone();
    let attempt = attempt.filter(|attempt| attempt.results.is_empty())?;
    let names = attempt.devices.join(", ");
    let decision = match attempt.recorded {
        false => {
            let message = format!(
                "on command {} to FenceDevice {names} is written down before it is sent",
                attempt.id
            );
            act(Effect::RecordOn(attempt), Stage::PoweringOn, message)
        }
        true => {
            let is_its = |level: &&Level| level.name == attempt.level;
            let (index, level) = (0..).zip(&s.levels).find(|(_, level)| is_its(level))?;
            let message = format!("turns the machine on by FenceDevice {names}");
            m.under_claim.answers.clear();
            let on = order(m, index, level, DeviceOrder::On(attempt));
            act(on, Stage::PoweringOn, message)
        }
    };
    Some(within(s, m, wanted, decision, t))
}

fn new_attempt(s: &Settings, m: &mut Memory, level: &Level, devices: Vec<String>, t: &Moment) {
    m.attempts += 1;
    for device in &devices {
        m.power_on.tries.entry(device.clone()).or_default().intended += 1;
    }
    m.power_on.attempt = Some(OnAttempt {
        id: format!("{}-{}", t.nonce, s.record.attempts + m.attempts),
        level: level.name.clone(),
        devices,
        limit: order_max(level),
        recorded: false,
        results: Default::default(),
    });
    m.power_on.retry_at = Some(t.now + PAUSE);
}

fn order(m: &mut Memory, index: usize, level: &Level, order: DeviceOrder) -> Effect {
    m.begin(false);
    Effect::Device {
        order,
        level: index,
        limit: order_max(level),
        number: m.orders,
    }
}

#[cfg(test)]
mod tests;
