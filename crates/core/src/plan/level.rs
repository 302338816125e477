//! The devices of a node, level by level: whose turn it is, what they answered, and what follows from a try that failed.

use super::round::Round;
use crate::device::{Device, DeviceAnswer, Level, speaks_against};
use crate::escalation::Escalation;
use crate::not_proven::NotProven;
use crate::reading::{PowerState, Reading};
use crate::verification::Require;
use fencing_api::settings::FenceMode;

/// A device that did not answer, or not for this machine.
pub(super) struct Failure {
    /// Condition reason: `DeviceFailed`, `IdentityMismatch`, `IdentityNotPinned`, `NoPositiveControl` or `OffWhileRunning`.
    pub(super) reason: Escalation,
    /// In words, naming the device.
    pub(super) message: String,
}

/// The device's answer, if the right machine gave it.
pub(super) fn verified_reading<'a>(
    device: &Device,
    answers: &'a [DeviceAnswer],
) -> Result<&'a Reading, Failure> {
    let failed = |message: String| Failure {
        reason: Escalation::DeviceFailed,
        message: format!("FenceDevice {}: {message}", device.name),
    };
    let answer = answers.iter().find(|answer| answer.is_of(device));
    let answer = answer.ok_or_else(|| failed("not asked".to_owned()))?;
    let reading = answer
        .reading
        .as_ref()
        .map_err(|reason| failed(reason.clone()))?;
    let wrong = |reason: NotProven| Failure {
        reason: match reason {
            NotProven::IdentityNotPinned { .. } => Escalation::IdentityNotPinned,
            _ => Escalation::IdentityMismatch,
        },
        message: reason.to_string(),
    };
    device
        .identity
        .check(&device.name, &reading.identity)
        .map_err(wrong)?;
    Ok(reading)
}

/// Why an Off of this device would not count (S25). What it has read in this incident counts where a command of ours is to turn the machine off.
pub(super) fn uncontrolled(r: &Round<'_>, device: &Device) -> Option<Failure> {
    let was_on = r.settings.mode() == FenceMode::PowerOff
        && r.memory
            .trust
            .power_history
            .was_on(&device.name, &device.version);
    let counts = device.control.is_shown() || was_on;
    (!counts).then(|| Failure {
        reason: device.control.escalation(),
        message: device.control.missing(&device.name).to_string(),
    })
}

/// The first of these devices that said last that the machine has power, and how ([`speaks_against`]).
pub(super) fn against<'a>(
    mut devices: impl Iterator<Item = &'a Device>,
    answers: &'a [DeviceAnswer],
) -> Option<(&'a Device, &'a Reading)> {
    devices.find_map(|device| {
        let answer = answers.iter().find(|answer| answer.is_of(device))?;
        let reading = answer.reading.as_ref().ok()?;
        speaks_against(&device.identity, reading).then_some((device, reading))
    })
}

/// AND or OR over the level's devices, of which there is one at least: [`super::usable`] lets no other level act.
pub(super) fn judge_level<E>(
    level: &Level,
    judge: impl Fn(&Device) -> Result<(), E>,
) -> Result<(), E> {
    debug_assert!(
        !level.devices.is_empty(),
        "level {} has devices",
        level.name
    );
    let mut refusal = None;
    for device in &level.devices {
        match (judge(device), level.require) {
            (Ok(()), Require::Any) => return Ok(()),
            (Err(reason), Require::All) => return Err(reason),
            (Err(reason), Require::Any) => refusal = Some(reason),
            (Ok(()), Require::All) => {}
        }
    }
    refusal.map_or(Ok(()), Err)
}

pub(super) fn names(level: &Level) -> String {
    if level.is_manual() {
        return "the manual confirmation".to_owned();
    }
    let names: Vec<&str> = level
        .devices
        .iter()
        .map(|device| device.name.as_str())
        .collect();
    format!("FenceDevice {}", names.join(", "))
}

pub(super) fn state_name(state: PowerState) -> &'static str {
    match state {
        PowerState::On => "On",
        PowerState::Off => "Off",
        PowerState::Transitional => "Transitional",
        PowerState::Unknown => "Unknown",
    }
}
