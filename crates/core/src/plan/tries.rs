//! The tries of a level: whose turn it is, for how long, and what follows from one that failed.

use super::level::uncontrolled;
use super::round::Round;
use crate::attempt::Attempt;
use crate::decision::{Decision, DeviceOrder, Effect, wait};
use crate::device::{Device, DeviceReadings, Level};
use crate::escalation::Escalation;
use crate::manual_confirmation::valid_confirmation;
use crate::memory::Memory;
use crate::observed::{LeaseView, Read};
use crate::stage::Stage;
use crate::verification::Require;
use fencing_api::settings::ORDER_SECONDS_MIN;
use std::time::Duration;

/// A device has this long to answer, its turn and a call of 15 s included, however little time its level has left.
pub(super) const ORDER_MIN: Duration = Duration::from_secs(ORDER_SECONDS_MIN);

/// Longest pause between two rounds over all levels: what it costs at most that a network of BMCs is back. A look in vain takes 15 s by itself, so that
/// a longer pause would save few requests.
pub(super) const ROUND_PAUSE_MAX: Duration = Duration::from_secs(15);

/// A human's word is given: the level that rests on it has its turn at once, once.
pub(super) fn turn_to_confirmed_level(r: &mut Round<'_>, lease: &Read<LeaseView>, now: Duration) {
    // Readings that have just arrived are judged first: they may contradict, or prove it better.
    let is_occupied = r.memory.commands.busy.is_some() || r.memory.under_claim.readings.is_some();
    if r.memory.confirmation.tried.is_some()
        || r.memory.confirmation.refused.is_some()
        || is_occupied
        || valid_confirmation(r.settings, now).is_err()
    {
        return;
    }
    if let Some(index) = r.settings.levels.iter().position(Level::is_manual) {
        r.memory.confirmation.tried = Some(r.memory.commands.orders);
        r.memory.tries.retry_at = None;
        turn_to(r.memory, index);
        r.memory.under_claim.answers.clear();
        // The readings beside it last a whole Lease: what lives renews it within them, and what renewed it before may be off since.
        let lease = lease.present().cloned();
        r.memory.under_claim.life_counts_from(lease);
    }
}

/// An off command to all devices of the level. It takes the place of the one before it, which may still land (S23).
pub(super) fn new_attempt(r: &mut Round<'_>, level: &Level) -> Attempt {
    r.memory
        .drop_attempt(r.moment.now + r.settings.late_effect());
    r.memory.under_claim.lease_after_off = false;
    r.memory.commands.attempts += 1;
    let devices = level.devices.iter().map(|device| device.name.clone());
    // Who reads Off already, or nothing, is not what turns it off: a machine that was saved to disk is never resumed by the operator (R8).
    let on = level.devices.iter();
    let on = on.filter(|device| r.memory.trust.power_history.has_power(&device.name));
    let versions = on.map(|device| (device.name.clone(), device.version.clone()));
    let attempt = Attempt {
        id: format!(
            "{}-{}",
            r.moment.nonce,
            r.settings.record.attempts + r.memory.commands.attempts
        ),
        level: level.name.clone(),
        devices: devices.collect(),
        versions: versions.collect(),
        limit: time_left(r.memory, level, r.moment.now),
        recorded: false,
        contested: r.memory.late.pending_off_until(r.moment.now).is_some(),
        results: Default::default(),
    };
    r.memory.commands.attempt.insert(attempt).clone()
}

/// Device work with the level that is tried now, for as long as the level may still take.
pub(super) fn order(m: &mut Memory, level: &Level, order: DeviceOrder, now: Duration) -> Effect {
    m.commands.begin(matches!(order, DeviceOrder::Off(_)));
    m.tries.since.get_or_insert(now);
    Effect::Device {
        order,
        level: m.tries.level,
        limit: time_left(m, level, now),
        number: m.commands.orders,
    }
}

/// How long what is begun now with the level may take: from its first try on its time runs, until it has been successful.
pub(super) fn time_left(m: &Memory, level: &Level, now: Duration) -> Duration {
    if m.taint.seen {
        return level.timeout;
    }
    let until = m.tries.since.unwrap_or(now) + level.timeout;
    until.saturating_sub(now).max(ORDER_MIN)
}

/// The longest that an order to the level may take.
pub(super) fn order_max(level: &Level) -> Duration {
    level.timeout.max(ORDER_MIN)
}

/// The level answers well; unless it has failed before, what is waited for now is not its time.
pub(super) fn not_failed(m: &mut Memory) {
    if m.tries.failures == 0 {
        m.tries.since = None;
    }
}

/// It is this level's turn, from its first try on.
pub(super) fn turn_to(m: &mut Memory, level: usize) {
    m.tries.level = level;
    m.tries.failures = 0;
    m.tries.since = None;
}

/// A human is needed, and the tries go on.
pub(super) fn in_trouble(m: &Memory, decision: Decision) -> Decision {
    let lies = m
        .trust
        .contradictions
        .last()
        .filter(|_| m.trust.is_contradicted());
    let message = match (m.tries.alarm, lies) {
        (Some(Escalation::FenceContradiction), Some(lies)) => Some(format!(
            "{lies}; correct the wiring and cut the power, or cancel this NodeFence (`spec.desiredState: Released`) and create another"
        )),
        _ => m.tries.last_failure.clone(),
    };
    match (message, m.tries.alarm) {
        (Some(message), Some(reason)) => decision.escalated(reason, message),
        _ => decision,
    }
}

/// The level that is tried now; levels without a device for this node are passed over.
pub(super) fn current_level(r: &mut Round<'_>) -> Option<Level> {
    let count = r.settings.levels.len();
    let index = (0..count)
        .map(|step| (r.memory.tries.level + step) % count)
        .find(|index| {
            let level = r.settings.levels.get(*index);
            level.is_some_and(|level| is_usable(r.memory, level))
        })?;
    if index != r.memory.tries.level {
        turn_to(r.memory, index);
    }
    r.settings.levels.get(index).cloned()
}

/// A level has its turn if it serves the node, and not by a word that was refuted.
pub(super) fn is_usable(m: &Memory, level: &Level) -> bool {
    let is_refuted = level.is_manual() && m.confirmation.refused.is_some();
    !level.devices.is_empty() && !is_refuted
}

/// What serves the node when it is claimed is what has to prove it down.
pub(super) fn note_devices(r: &mut Round<'_>) {
    let names = |level: &Level| {
        level
            .devices
            .iter()
            .map(|device| device.name.clone())
            .collect()
    };
    let levels = r.settings.levels.iter();
    r.memory.under_claim.devices_claimed = levels
        .map(|level| (level.name.clone(), names(level)))
        .collect();
}

/// A level that needs all of its devices has lost one since the claim: what is left proves nothing, an edit only ever
/// narrows a fence (S15).
pub(super) fn lost_device(m: &Memory, level: &Level) -> Option<String> {
    let claimed = m.under_claim.devices_claimed.get(&level.name)?;
    let is_there = |name: &&String| level.devices.iter().any(|device| device.name == **name);
    let lost = claimed.iter().find(|name| !is_there(name));
    lost.filter(|_| level.require == Require::All).map(|name| {
        format!(
            "FenceDevice {name} of level {} served the node when it was claimed and no longer does; bring it back",
            level.name
        )
    })
}

/// A try has failed: again after a pause; after its last try, or its whole time, the next level; then a longer pause and all of them
/// again. From then on a human is called.
pub(super) fn fail(r: &mut Round<'_>, message: String, now: Duration) {
    r.memory.tries.failures += 1;
    r.memory.writes.forget_denial();
    let Some(level) = current_level(r) else {
        r.memory.tries.last_failure = Some(message);
        return;
    };
    r.memory.tries.by_level.insert(level.name.clone(), message);
    let mut pause = level.retry_period;
    let is_late = r
        .memory
        .tries
        .since
        .is_some_and(|since| now.saturating_sub(since) >= level.timeout);
    if r.memory.tries.failures >= level.attempts_max || is_late {
        let usable: Vec<usize> = (0..r.settings.levels.len())
            .filter(|index| {
                let level = r.settings.levels.get(*index);
                level.is_some_and(|level| is_usable(r.memory, level))
            })
            .collect();
        match usable.iter().find(|index| **index > r.memory.tries.level) {
            Some(next) => {
                turn_to(r.memory, *next);
                pause = Duration::ZERO;
            }
            None => {
                turn_to(r.memory, usable.first().copied().unwrap_or(0));
                r.memory.tries.rounds = r.memory.tries.rounds.saturating_add(1);
            }
        }
    }
    r.memory.tries.alarm = match r.memory.trust.is_contradicted() {
        true => Some(Escalation::FenceContradiction),
        false => (r.memory.tries.rounds > 0).then_some(Escalation::DeviceFailed),
    };
    r.memory.tries.last_failure = Some(why_all(r));
    let pause = pause * 2u32.pow(r.memory.tries.rounds.saturating_sub(1).min(4));
    r.memory.tries.retry_at = Some(now + pause.min(ROUND_PAUSE_MAX.max(level.retry_period)));
}

/// Why each of the levels failed last, in their order, and the last way out once all of them have.
pub(super) fn why_all(r: &Round<'_>) -> String {
    let failed = r.settings.levels.iter().filter_map(|level| {
        let message = r.memory.tries.by_level.get(&level.name)?;
        Some((&level.name, message))
    });
    let failed: Vec<_> = failed.collect();
    let mut message: Vec<String> = match *failed {
        [(_, message)] => vec![message.clone()],
        _ => {
            let all = failed
                .iter()
                .map(|(name, message)| format!("level {name}: {message}"));
            all.collect()
        }
    };
    let mut devices = r.settings.levels.iter().flat_map(|level| &level.devices);
    // Another try shows nothing else.
    let is_stuck = devices.any(|device| uncontrolled(r, device).is_some());
    if (r.memory.tries.rounds > 0 || is_stuck) && r.settings.confirmation.is_none() {
        let way_out = "confirm (`spec.manualConfirmation`) only once you have seen that the machine has no power";
        message.push(way_out.to_owned());
    }
    message.join("; ")
}

/// S23: whose off command of this try may still land, for whoever is called meanwhile.
pub(super) fn unresolved(m: &Memory) -> String {
    let results = m
        .commands
        .attempt
        .iter()
        .flat_map(|attempt| &attempt.results);
    let unresolved = results.filter(|(_, result)| result.is_unresolved());
    let devices: Vec<&str> = unresolved.map(|(device, _)| device.as_str()).collect();
    if devices.is_empty() {
        return String::new();
    }
    format!(
        "; power-off of FenceDevice {} pending; see the device's log, or cut the machine's power elsewhere",
        devices.join(", ")
    )
}

/// The stage of device work under the claim.
pub(super) fn busy_stage(m: &Memory) -> Stage {
    match (&m.commands.attempt, m.under_claim.quiesce.since) {
        (_, None) => Stage::Quiescing,
        (Some(attempt), _) if attempt.results.is_empty() => Stage::Fencing,
        _ => Stage::Verifying,
    }
}

/// Devices are resolved live, so a level may have gained or lost one: a command that was written down for others, or readings
/// of others, are none of this level's; nor are readings of a FenceDevice that was corrected since, or that has lost its positive control (S25).
/// The command may still land until `late` (S23).
pub(super) fn forget_other_devices(m: &mut Memory, level: &Level, late: Duration) {
    let now: Vec<&String> = level.devices.iter().map(|device| &device.name).collect();
    if let Some(attempt) = &m.commands.attempt
        && (attempt.level != level.name || !attempt.devices.iter().eq(now))
    {
        m.drop_attempt(late);
        m.under_claim.readings = None;
    }
    let asked_now = |(read, device): (&DeviceReadings, &Device)| {
        (&read.device, &read.version, &read.identity)
            == (&device.name, &device.version, &device.identity)
            && (device.control.is_shown() || !read.control.is_shown())
    };
    if let Some(readings) = &m.under_claim.readings
        && (readings.len() != level.devices.len()
            || !readings.iter().zip(&level.devices).all(asked_now))
    {
        m.under_claim.readings = None;
    }
}

/// The try has failed: forget its command and its readings, keep the claim, try again or by the next level.
pub(super) fn try_again(r: &mut Round<'_>, message: String) -> Decision {
    r.memory
        .drop_attempt(r.moment.now + r.settings.late_effect());
    r.memory.under_claim.readings = None;
    // Without a command nothing lets the Lease count anew, so one renewal would refute every later try. It may be forgotten: readings span a whole
    // Lease by now ([`span`]).
    if r.memory.trust.is_contradicted() {
        r.memory.under_claim.life_counts_from(None);
    }
    fail(r, message.clone(), r.moment.now);
    in_trouble(r.memory, wait(busy_stage(r.memory), message))
        .until(r.memory.tries.retry_at.unwrap_or(r.moment.now))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    /// L1: its orders share the time of a level. A device has a moment to answer even at the end of it, and what a level that has not
    /// failed waits for is not its time.
    #[test]
    fn the_time_of_a_level_is_shared_by_all_that_is_asked_of_it() {
        let level = Level {
            timeout: Duration::from_secs(100),
            ..fixtures::level()
        };
        let mut m = Memory::default();
        let seconds_left = |m: &mut Memory, now| {
            let effect = order(m, &level, DeviceOrder::ReadPower, Duration::from_secs(now));
            match effect {
                Effect::Device { limit, .. } => limit.as_secs(),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(seconds_left(&mut m, 1000), 100);
        assert_eq!(seconds_left(&mut m, 1060), 40);
        assert_eq!(seconds_left(&mut m, 1095), 25);
        m.tries.failures = 1;
        not_failed(&mut m);
        assert_eq!(seconds_left(&mut m, 1097), 25);
        m.tries.failures = 0;
        not_failed(&mut m);
        assert_eq!(seconds_left(&mut m, 1098), 100);
        m.taint.seen = true;
        assert_eq!(seconds_left(&mut m, 5000), 100);
    }
}
