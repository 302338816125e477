//! The devices that have turned the machine off, which of them have power again, and what they have said since the release.

use super::super::level::{state_name, verified_reading};
use crate::attempt::OnResult;
use crate::device::Device;
use crate::identity_rule::IdentityRule;
use crate::memory::Memory;
use crate::plan::round::Round;
use crate::reading::PowerState;
use crate::settings::Settings;
use std::collections::BTreeSet;
use std::time::Duration;

/// Pause between two commands: a machine takes a moment to read On.
pub(super) const PAUSE: Duration = Duration::from_secs(30);

/// Devices of one kind that a level has: outlets, or what reads the machine itself.
pub(super) struct Group {
    /// Index into the settings' levels.
    pub(super) level: usize,
    /// The devices.
    pub(super) devices: Vec<Device>,
}

/// The devices that have turned the machine off, with their levels: outlets first, for a BMC may hang on them.
pub(super) fn targets<'a>(s: &'a Settings, m: &Memory) -> Vec<(usize, &'a Device)> {
    let is_ours = |device: &Device| {
        let names = [&m.power_on.turned_off, &s.record.turned_off];
        let mut versions = names.iter().filter_map(|names| names.get(&device.name));
        // What a storage does to its volumes is taken back by itself, after another boot.
        !device.manual && device.covers.is_none() && versions.any(|version| !version.is_empty())
    };
    let mut found: Vec<(usize, &Device)> = Vec::new();
    for (index, level) in s.levels.iter().enumerate() {
        for device in level.devices.iter().filter(|device| is_ours(device)) {
            if found.iter().all(|(_, known)| known.name != device.name) {
                found.push((index, device));
            }
        }
    }
    found.sort_by_key(|(_, device)| !device.outlets);
    found
}

/// Why there is no device to turn it on by.
pub(super) fn without_target(r: &Round<'_>) -> Option<String> {
    if !targets(r.settings, r.memory).is_empty() {
        return None;
    }
    let off = [&r.memory.power_on.turned_off, &r.settings.record.turned_off];
    let sent = off.into_iter().flatten();
    let turned_off = sent.filter(|(_, version)| !version.is_empty());
    let names: BTreeSet<&str> = turned_off.map(|(it, _)| it.as_str()).collect();
    let names: Vec<&str> = names.into_iter().collect();
    Some(match names.is_empty() {
        true => "no off command of this NodeFence turned it off".to_owned(),
        false => format!(
            "FenceDevice {}, which turned it off, no longer serves the node; turn the machine on by hand",
            names.join(", ")
        ),
    })
}

/// Why none of them is turned on: one was changed since its off, and no identity tells whether what it reads now, an outlet perhaps, is this
/// machine's. One that has power again is told nothing anyway.
pub(super) fn rewired(r: &Round<'_>) -> Option<String> {
    let is_told = |device: &Device| {
        let off = [&r.memory.power_on.turned_off, &r.settings.record.turned_off];
        let mut versions = off.iter().filter_map(|told| told.get(&device.name));
        versions.any(|version| *version == device.version)
    };
    let mut targets = targets(r.settings, r.memory)
        .into_iter()
        .map(|(_, device)| device);
    let changed = targets.find(|device| {
        device.identity == IdentityRule::Skip
            && !is_told(device)
            && !r.memory.power_on.of(&device.name).is_on
    })?;
    Some(format!(
        "FenceDevice {} was changed after its off command (`identityCheck: Skip`); turn the machine on by hand",
        changed.name
    ))
}

/// Those that are to be turned on next: outlets until each has power, then what reads the machine, until any of it reads On.
pub(super) fn next_group(r: &Round<'_>) -> Option<Group> {
    let targets = targets(r.settings, r.memory);
    let is_on = |device: &Device| r.memory.power_on.of(&device.name).is_on;
    let mut machine = targets.iter().filter(|(_, device)| !device.outlets);
    let runs = machine.any(|(_, device)| is_on(device));
    let mut left = targets.iter().filter(|(_, device)| !is_on(device));
    let (level, first) = left.find(|(_, device)| device.outlets || !runs)?;
    let same = targets
        .iter()
        .filter(|(index, device)| index == level && device.outlets == first.outlets);
    Some(Group {
        level: *level,
        devices: same.map(|(_, device)| (*device).clone()).collect(),
    })
}

/// What the device said last, if the right machine gave it after the release.
pub(super) fn state(m: &Memory, device: &Device) -> Option<PowerState> {
    let reading = verified_reading(device, &m.under_claim.answers).ok()?;
    let begun = m.power_on.begun.unwrap_or(Duration::MAX);
    (reading.asked >= begun).then_some(reading.state)
}

/// What the last look says of the last command.
pub(super) fn take_in(r: &mut Round<'_>) {
    let is_over = r
        .memory
        .power_on
        .retry_at
        .is_none_or(|at| r.moment.now >= at);
    let seen: Vec<(String, PowerState)> = targets(r.settings, r.memory)
        .into_iter()
        .filter_map(|(_, device)| Some((device.name.clone(), state(r.memory, device)?)))
        .collect();
    for (device, state) in seen {
        let on = state == PowerState::On;
        if on {
            r.memory
                .power_on
                .tries
                .entry(device.clone())
                .or_default()
                .is_on = true;
        }
        let results = r.memory.power_on.attempt.as_mut().map(|it| &mut it.results);
        let Some(result) = results.and_then(|results| results.get_mut(&device)) else {
            continue;
        };
        match state {
            PowerState::On if result.is_sent() => *result = OnResult::ReadsOn,
            PowerState::Off if is_over && result.is_sent() && *result != OnResult::ReadsOn => {
                *result = OnResult::Late(format!(
                    "the device still read Off {} s after the command",
                    PAUSE.as_secs()
                ));
            }
            _ => {}
        }
    }
}

/// The device by which it is seen that somebody else has turned the machine on: nothing of ours was sent, and it runs, or nothing is left to do.
pub(super) fn somebody_else(r: &Round<'_>, left: Option<&Group>) -> Option<String> {
    if r.memory.power_on.has_sent() {
        return None;
    }
    let targets = targets(r.settings, r.memory);
    let mut on = targets
        .iter()
        .filter(|(_, device)| r.memory.power_on.of(&device.name).is_on);
    let first = on.clone().next()?;
    let machine = on.find(|(_, device)| !device.outlets);
    let (_, device) = machine.or(left.is_none().then_some(first))?;
    Some(device.name.clone())
}

pub(super) fn named(devices: &[Device]) -> String {
    let names: Vec<&str> = devices.iter().map(|device| device.name.as_str()).collect();
    names.join(", ")
}

/// What each device of the group said last.
pub(super) fn last_readings(m: &Memory, group: &Group) -> String {
    let told =
        group.devices.iter().map(
            |device| match verified_reading(device, &m.under_claim.answers) {
                Ok(reading) => {
                    let state = state_name(reading.state);
                    format!("FenceDevice {} reads {state}", device.name)
                }
                Err(failure) => failure.message,
            },
        );
    told.collect::<Vec<_>>().join("; ")
}

/// Why no further command is sent to a device of the group that does not read On.
pub(super) fn exhausted(r: &Round<'_>, group: &Group) -> Option<String> {
    let is_over = r
        .memory
        .power_on
        .retry_at
        .is_none_or(|at| r.moment.now >= at);
    let spent = group.devices.iter().find(|device| {
        let tries = r.memory.power_on.of(&device.name);
        !tries.is_on && !tries.may_go_on()
    });
    let device = spent.filter(|_| is_over)?;
    let results = r.memory.power_on.attempt.as_ref().map(|it| &it.results);
    let last = results.and_then(|results| results.get(&device.name));
    let last = last.map_or(String::new(), |last| format!(" ({})", last.message()));
    let tries = r.memory.power_on.of(&device.name);
    Some(format!(
        "the machine is still off after {1} of {2} commands by FenceDevice {0}{last}",
        device.name, tries.sent, tries.intended
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{DeviceAnswer, Level};
    use crate::fixtures;

    /// L1: a BMC may hang on the outlets, in whatever order the levels have them.
    #[test]
    fn outlets_are_powered_on_before_the_bmc_that_hangs_on_them() {
        let device = |name: &str, outlets: bool| Device {
            name: name.to_owned(),
            outlets,
            ..fixtures::bmc()
        };
        let level = |device: Device| Level {
            name: device.name.clone(),
            devices: vec![device],
            ..fixtures::level()
        };
        let levels = [level(device("bmc", false)), level(device("pdu", true))];
        for order in [[0, 1], [1, 0]] {
            let mut settings = fixtures::settings();
            settings.levels = order.map(|index| levels[index].clone()).into();
            let mut memory = Memory::default();
            memory.power_on.turned_off = ["bmc", "pdu"]
                .map(|name| (name.to_owned(), "1".to_owned()))
                .into();
            let found = targets(&settings, &memory);
            let names: Vec<&str> = found.iter().map(|(_, it)| it.name.as_str()).collect();
            assert_eq!(names, ["pdu", "bmc"], "{order:?}");
        }
    }

    /// S11: what was read before the release may be of before the off.
    #[test]
    fn only_what_was_asked_for_since_the_release_says_whether_the_machine_is_on() {
        let seconds = Duration::from_secs;
        let reading = fixtures::off_readings()[0].readings[0].clone();
        let asked = reading.asked;
        let mut memory = Memory::default();
        memory.under_claim.answers = vec![DeviceAnswer {
            device: fixtures::bmc(),
            reading: Ok(reading),
        }];
        for (begun, state_now) in [
            (None, None),
            (Some(asked + seconds(1)), None),
            (Some(asked), Some(PowerState::Off)),
        ] {
            memory.power_on.begun = begun;
            assert_eq!(state(&memory, &fixtures::bmc()), state_now, "{begun:?}");
        }
    }
}
