//! What became of an off command, and what was said before it.

use crate::attempt::OffResult;
use crate::device::DeviceReadings;
use crate::memory::Memory;
use crate::reading::Reading;
use crate::settings::Settings;
use std::collections::BTreeMap;
use std::time::Duration;

/// What devices said while the command was prepared.
pub(super) fn note_before(
    memory: &mut Memory,
    reported: &[DeviceReadings],
    results: &BTreeMap<String, OffResult>,
) {
    for device in reported {
        let is_ours = memory.commands.has_commanded || is_off_of_others(device, reported, results);
        memory.trust.power_history.note(device, is_ours);
    }
}

/// What a device says before its own command is our doing only if another one's was sent before that. A device that is read while its own command is
/// prepared was not commanded yet.
fn is_off_of_others(
    device: &DeviceReadings,
    reported: &[DeviceReadings],
    results: &BTreeMap<String, OffResult>,
) -> bool {
    if results.get(&device.device) == Some(&OffResult::AlreadyOff) || device.outlets {
        return false;
    }
    let answered = |of: &str| {
        let of = reported.iter().filter(|it| it.device == of);
        let readings = of.flat_map(|it| &it.readings);
        readings.map(|it| it.answered).max()
    };
    let said = answered(&device.device);
    // When one was commanded that read nothing before it nobody knows.
    let may_be_first = |other: &str| answered(other).is_none_or(|read| Some(read) < said);
    let mut others = results.iter().filter(|(name, _)| **name != device.device);
    others.any(|(name, it)| it.may_turn_off() && may_be_first(name))
}

/// What became of a command that a device has taken, by what it has read last since. If the machine is not off at the end of the time
/// for that, the command may land until the late-effect window has passed (S23).
pub(super) fn note_effect<'a>(
    settings: &Settings,
    memory: &mut Memory,
    last: impl Fn(&str) -> Option<&'a Reading>,
    now: Duration,
) {
    let late = Some(now + settings.late_effect());
    let (mut until, others) = (memory.late.own_off_until, memory.late.others_off_until);
    let Some(attempt) = &mut memory.commands.attempt else {
        return;
    };
    let is_contested = attempt.contested;
    let accepted = attempt.results.iter_mut();
    for (device, result) in accepted.filter(|(_, result)| **result == OffResult::Accepted) {
        let last = last(device);
        if last.is_some_and(|last| is_off(settings, device, last)) {
            *result = OffResult::Landed;
            // It may be an earlier command whose effect this is: then this one is still to come.
            if is_contested || until.max(others).is_some_and(|until| now < until) {
                until = until.max(late);
            }
            continue;
        }
        let raw = last.map_or("none", |last| last.raw.as_str());
        *result = OffResult::Late(format!(
            "the device accepted the command, but the machine was not off in time (last reading: {raw}), and may go off later"
        ));
        until = until.max(late);
    }
    memory.late.own_off_until = until;
}

/// Off, without a fault indication, read from the machine that was commanded.
fn is_off(settings: &Settings, device: &str, reading: &Reading) -> bool {
    let mut devices = settings.levels.iter().flat_map(|level| &level.devices);
    let is_ours = devices.any(|known| {
        known.name == device && known.identity.check(device, &reading.identity).is_ok()
    });
    reading.is_off() && is_ours
}

/// A command of unknown outcome may land until the late-effect window has passed (S23).
pub(super) fn commanded(
    settings: &Settings,
    memory: &mut Memory,
    results: BTreeMap<String, OffResult>,
    now: Duration,
) {
    if settings.power_on.is_some() {
        let sent = results.iter().filter(|(_, result)| result.is_sent());
        let versions = memory
            .commands
            .attempt
            .as_ref()
            .map(|attempt| &attempt.versions);
        let version = |device: &String| versions.and_then(|it| it.get(device)).cloned();
        let devices = sent.map(|(device, _)| (device.clone(), version(device).unwrap_or_default()));
        memory.power_on.turned_off.extend(devices);
    }
    if results.values().any(OffResult::is_unresolved) {
        memory.late.note_own_off(now + settings.late_effect());
    }
    let failures: Vec<String> = results
        .iter()
        .filter_map(|(device, result)| match result {
            OffResult::Accepted | OffResult::Landed | OffResult::AlreadyOff => None,
            not_taken => Some(format!("FenceDevice {device}: {}", not_taken.message())),
        })
        .collect();
    if !failures.is_empty() {
        memory.tries.last_failure = Some(failures.join("; "));
    }
    if let Some(attempt) = &mut memory.commands.attempt {
        attempt.results = results;
    }
}
