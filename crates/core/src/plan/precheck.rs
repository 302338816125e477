//! Do the answers of a level's devices allow a claim?

use super::level::{Failure, against, judge_level, state_name, uncontrolled, verified_reading};
use super::round::Round;
use super::storage;
use crate::device::{Device, Level};
use crate::escalation::Escalation;
use crate::manual_confirmation;
use crate::memory::Memory;
use crate::not_proven::NotProven;
use crate::reading::{PowerState, Reading};
use fencing_api::settings::FenceMode;

/// Why the level's devices do not allow a claim.
pub(super) enum Refusal {
    /// They work, and the machine is not off (ConfirmOnly), or some say so and some do not.
    NotOff(Failure),
    /// They do not answer, or not for this machine.
    Failed(Failure),
}

/// Do the answers allow a claim? In ConfirmOnly the machine has to read Off already.
pub(super) fn precheck(r: &Round<'_>, level: &Level) -> Result<(), Refusal> {
    let (mode, answers) = (r.settings.mode(), &r.memory.under_claim.answers);
    if let (true, Some(message)) = (level.is_manual(), &r.memory.confirmation.refused) {
        return Err(Refusal::Failed(Failure {
            reason: Escalation::ConfirmationRefused,
            message: message.clone(),
        }));
    }
    if let Some(failure) = storage::hopeless(r, level) {
        return Err(Refusal::Failed(failure));
    }
    let not_off = |device: &Device, reading: &Reading| {
        let message = format!(
            "FenceDevice {} reads {} ({}), and mode ConfirmOnly never turns a machine off; cut its power by hand, or cancel this NodeFence (`spec.desiredState: Released`) and create another in mode PowerOff",
            device.name,
            state_name(reading.state),
            reading.raw,
        );
        let failure = Failure {
            reason: Escalation::StillOn,
            message,
        };
        match device.outlets {
            false => Refusal::NotOff(failure),
            // A machine that was switched off otherwise leaves its outlets on: the next level has its turn.
            true => Refusal::Failed(failure),
        }
    };
    // Where one device is enough, another one that says that the machine is on speaks against it as well (S4); those of the machine itself
    // first, whatever they are called.
    let on = |outlets: bool| {
        let devices = level.devices.iter();
        against(devices.filter(|it| it.outlets == outlets), answers)
    };
    if mode == FenceMode::ConfirmOnly {
        let not_off = on(false)
            .or_else(|| on(true))
            .map(|(device, reading)| not_off(device, reading));
        // Nothing that is read now could prove it, and a claim would only be given back. Nor would another mode help, whose record knows
        // nothing of it.
        let contradiction = contradicted(r.memory, level).map(|reason| Failure {
            reason: Escalation::FenceContradiction,
            message: reason.to_string(),
        });
        match (not_off, contradiction) {
            (None, None) => {}
            (Some(not_off), None) => return Err(not_off),
            (Some(Refusal::NotOff(_)), Some(failure)) => return Err(Refusal::NotOff(failure)),
            (_, Some(failure)) => return Err(Refusal::Failed(failure)),
        }
    }
    judge_level(level, |device| {
        let reading = verified_reading(device, answers).map_err(|mut failure| {
            let on = against(r.settings.other_devices(level), answers).filter(|_| device.manual);
            failure.message +=
                &manual_confirmation::beside(on.map(|(other, said)| (other.name.as_str(), said)));
            Refusal::Failed(failure)
        })?;
        // Nor is such a machine turned off: whether it went off nobody could tell.
        let fails = match reading.state {
            PowerState::Off => uncontrolled(r, device),
            _ => None,
        };
        fails.map_or(Ok(()), |it| Err(Refusal::Failed(it)))
    })
}

/// Do the answers, which allow a claim, say that the machine is off, and does nothing speak against that? A manual confirmation
/// and a storage, which tells nothing of the machine, have no part in it.
pub(super) fn reads_off(r: &Round<'_>, level: &Level) -> bool {
    let answers = &r.memory.under_claim.answers;
    let is_off = |device: &Device| {
        let reading = verified_reading(device, answers).ok();
        let is_off = reading.is_some_and(Reading::is_off);
        let counts = uncontrolled(r, device).is_none() && device.covers.is_none();
        (is_off && counts && !device.manual).then_some(()).ok_or(())
    };
    against(level.devices.iter(), answers).is_none()
        && contradicted(r.memory, level).is_none()
        && judge_level(level, is_off).is_ok()
}

/// What a look has shown is remembered by the next process, too.
pub(super) fn note_contradiction(m: &mut Memory, level: &Level) {
    let off = seen_off(m, level);
    m.trust
        .power_history
        .record_contradiction(&off, level.devices.len(), level.require);
}

/// What speaks against the devices of the level that have just been seen off.
fn contradicted(m: &Memory, level: &Level) -> Option<NotProven> {
    let off = seen_off(m, level);
    m.trust
        .power_history
        .contradiction(&off, level.devices.len(), level.require)
}

/// The devices of the level that have just been seen off; of a human's word none.
fn seen_off<'a>(m: &Memory, level: &'a Level) -> Vec<&'a str> {
    let off = level.devices.iter().filter(|device| {
        let reading = verified_reading(device, &m.under_claim.answers);
        !device.manual && reading.is_ok_and(|it| it.state == PowerState::Off)
    });
    off.map(|it| it.name.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Control;
    use crate::device::DeviceAnswer;
    use crate::fixtures::{bmc, drained, level, off_readings, settings};
    use crate::memory::ClaimScoped;
    use crate::plan::Moment;
    use crate::verification::Require;
    use std::time::Duration;

    /// Is it off by these answers of its devices, one each?
    fn is_off(level: &Level, states: &[PowerState]) -> bool {
        let answer = |(device, state): (&Device, &PowerState)| DeviceAnswer {
            device: device.clone(),
            reading: Ok(Reading {
                state: *state,
                ..off_readings()[0].readings[0].clone()
            }),
        };
        let (settings, observed, moment) = (settings(), drained(), Moment::at(Duration::ZERO));
        let mut memory = Memory {
            under_claim: ClaimScoped {
                answers: level.devices.iter().zip(states).map(answer).collect(),
                ..ClaimScoped::default()
            },
            ..Memory::default()
        };
        reads_off(
            &Round::of(&settings, &mut memory, &observed, &moment),
            level,
        )
    }

    /// S25: where one device is enough another one may have let the level pass, and the Off is of one that has never read On.
    #[test]
    fn an_off_without_a_positive_control_is_no_reason_to_skip_a_wait() {
        let mut level = level();
        assert!(is_off(&level, &[PowerState::Off]));
        level.devices[0].control = Control::Missing;
        assert!(!is_off(&level, &[PowerState::Off]));
    }

    /// S4: where one device is enough, another that reads On says that the machine runs.
    #[test]
    fn an_off_beside_an_on_is_no_reason_to_skip_a_wait() {
        let mut level = level();
        level.require = Require::Any;
        level.devices.push(Device {
            name: "bmc-2".to_owned(),
            ..bmc()
        });
        assert!(is_off(&level, &[PowerState::Off, PowerState::Off]));
        assert!(!is_off(&level, &[PowerState::Off, PowerState::On]));
    }
}
