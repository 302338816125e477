//! Do the answers of a level's devices allow a claim?

use super::super::incident::{Device, Level, Settings};
use super::super::memory::Memory;
use super::super::proof::NotProven;
use super::super::reading::{PowerState, Reading};
use super::super::word;
use super::level::{
    CONTRADICTION, Failure, against, answer, judge_level, state_word, uncontrolled,
};
use fencing_api::settings::FenceMode;

/// Escalation: the machine is not off, and nothing may turn it off (ConfirmOnly).
pub const STILL_ON: &str = "StillOn";

/// Why the level's devices do not allow a claim.
pub(super) enum Unusable {
    /// They work, and the machine is not off (ConfirmOnly), or some say so and some do not.
    StillOn(Failure),
    /// They do not answer, or not for this machine.
    Failed(Failure),
}

/// Do the answers allow a claim? In ConfirmOnly the machine has to read Off already.
pub(super) fn usable(s: &Settings, m: &Memory, level: &Level) -> Result<(), Unusable> {
    let (mode, sights) = (s.mode, &m.learned.sights);
    if let (true, Some(words)) = (level.is_manual(), &m.word_refuted) {
        return Err(Unusable::Failed(Failure {
            reason: "ConfirmationRefused",
            words: words.clone(),
        }));
    }
    let still_on = |device: &Device, reading: &Reading| {
        let words = format!(
            "FenceDevice {} reads {} ({}): mode ConfirmOnly never turns a machine off: cut its power by hand; or release this NodeFence \
             (`spec.desiredState: Released`), which keeps its mode, and create another in mode PowerOff",
            device.name,
            state_word(reading.state),
            reading.raw,
        );
        let failure = Failure {
            reason: STILL_ON,
            words,
        };
        match device.outlets {
            false => Unusable::StillOn(failure),
            // A machine that was switched off otherwise leaves its outlets on: the next level has its turn.
            true => Unusable::Failed(failure),
        }
    };
    // Where one device is enough, another one that says that the machine is on speaks against it as well (S4); those of the machine itself
    // first, whatever they are called.
    let on = |outlets: bool| {
        let devices = level.devices.iter();
        against(devices.filter(|it| it.outlets == outlets), sights)
    };
    if mode == FenceMode::ConfirmOnly {
        let still_on = on(false)
            .or_else(|| on(true))
            .map(|(device, reading)| still_on(device, reading));
        // Nothing that is read now could prove it, and a claim would only be given back. Nor would another mode help, whose record knows
        // nothing of it.
        let contradiction = contradicted(m, level).map(|reason| Failure {
            reason: CONTRADICTION,
            words: reason.to_string(),
        });
        match (still_on, contradiction) {
            (None, None) => {}
            (Some(still_on), None) => return Err(still_on),
            (Some(Unusable::StillOn(_)), Some(failure)) => return Err(Unusable::StillOn(failure)),
            (_, Some(failure)) => return Err(Unusable::Failed(failure)),
        }
    }
    judge_level(level, |device| {
        let reading = answer(device, sights).map_err(|mut failure| {
            let on = against(s.witnesses(level), sights).filter(|_| device.manual);
            failure.words += &word::beside(on.map(|(other, said)| (other.name.as_str(), said)));
            Unusable::Failed(failure)
        })?;
        // Nor is such a machine turned off: whether it went off nobody could tell.
        let fails = match reading.state {
            PowerState::Off => uncontrolled(s, m, device),
            _ => None,
        };
        fails.map_or(Ok(()), |it| Err(Unusable::Failed(it)))
    })
}

/// What a look has shown is remembered by the next process, too.
pub(super) fn note_contradiction(m: &mut Memory, level: &Level) {
    let off = seen_off(m, level);
    m.said.accuse(&off, level.devices.len(), level.require);
}

/// What speaks against the devices of the level that have just been seen off.
fn contradicted(m: &Memory, level: &Level) -> Option<NotProven> {
    let off = seen_off(m, level);
    m.said
        .contradiction(&off, level.devices.len(), level.require)
}

/// The devices of the level that have just been seen off; of a human's word none.
fn seen_off<'a>(m: &Memory, level: &'a Level) -> Vec<&'a str> {
    let off = level.devices.iter().filter(|device| {
        let reading = answer(device, &m.learned.sights);
        !device.manual && reading.is_ok_and(|it| it.state == PowerState::Off)
    });
    off.map(|it| it.name.as_str()).collect()
}
