//! What each device has said last: whoever stands at the machine with a word to give has to know that one of them says On. Nothing is decided by it.

use super::super::incident::{DeviceReply, Settings};
use super::super::reading::PowerState;
use crate::api::fence_status::{NodeFenceStatus, PowerReading};
use jiff::Timestamp;

/// As many as the CRD takes.
const KEPT: usize = 16;

/// Takes what the devices have answered into the record, with since when each says so. One that does not answer, or answers for another machine, says
/// `Unknown`; a human's word is no reading.
pub fn power_readings(
    status: &mut NodeFenceStatus,
    settings: &Settings,
    reply: &DeviceReply,
    wall_now: Timestamp,
) {
    let is_manual = |name: &str| {
        let mut devices = settings.levels.iter().flat_map(|it| &it.devices);
        devices.any(|it| it.manual && it.name == name)
    };
    let heard = reply.heard();
    for device in heard.iter().filter(|it| !is_manual(&it.device)) {
        let last = device.readings.last();
        let last = last.filter(|it| !device.identity.is_another(&it.identity));
        let reading = PowerReading {
            device: device.device.clone(),
            power_state: last.map_or(PowerState::Unknown, |it| it.state),
            outlets: device.outlets,
            since_time: wall_now,
        };
        note(&mut status.power_readings, reading);
    }
}

fn note(known: &mut Vec<PowerReading>, new: PowerReading) {
    let is_same = |it: &PowerReading| {
        (&it.device, it.power_state, it.outlets) == (&new.device, new.power_state, new.outlets)
    };
    if known.iter().any(is_same) {
        return;
    }
    known.retain(|it| it.device != new.device);
    known.push(new);
    // The one that has said the same for longest.
    known.drain(..known.len().saturating_sub(KEPT));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::fixtures::{bmc, off_readings, settings};
    use crate::core::incident::Device;
    use crate::core::memory::Sight;
    use crate::core::reading::Reading;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).expect("a time")
    }

    fn reading(state: PowerState) -> Reading {
        let mut reading = off_readings().remove(0).readings.remove(0);
        reading.state = state;
        reading
    }

    fn looked(device: Device, state: Option<PowerState>) -> DeviceReply {
        let reading = state.map(reading).ok_or_else(|| "no answer".to_owned());
        DeviceReply::Looked {
            sights: vec![Sight { device, reading }],
            pods: None,
        }
    }

    fn shown(status: &NodeFenceStatus) -> Vec<(&str, PowerState, Timestamp)> {
        let readings = status.power_readings.iter();
        readings
            .map(|it| (it.device.as_str(), it.power_state, it.since_time))
            .collect()
    }

    #[test]
    fn what_a_device_said_last_stands_there_with_since_when() {
        let mut status = NodeFenceStatus::default();
        let mut note = |seconds, reply: &DeviceReply| {
            power_readings(&mut status, &settings(), reply, at(seconds));
            let shown = shown(&status).into_iter();
            let shown = shown.map(|(device, state, since)| (device.to_owned(), state, since));
            shown.collect::<Vec<_>>()
        };
        let bmc_says = |state, since| vec![("bmc".to_owned(), state, at(since))];
        let on = looked(bmc(), Some(PowerState::On));
        assert_eq!(note(1, &on), bmc_says(PowerState::On, 1));
        assert_eq!(note(5, &on), bmc_says(PowerState::On, 1));
        // Off, and a command tells nothing of the power.
        let mut readings = off_readings();
        let confirmed = DeviceReply::Confirmed {
            readings: readings.clone(),
            failures: Vec::new(),
            others: Vec::new(),
            kubelet_answers: false,
            pods: Vec::new(),
        };
        assert_eq!(note(7, &confirmed), bmc_says(PowerState::Off, 7));
        let commanded = DeviceReply::Commanded(Default::default());
        assert_eq!(note(8, &commanded), bmc_says(PowerState::Off, 7));
        // Of several readings the last, of another level's device too.
        readings[0].readings.push(reading(PowerState::On));
        let confirmed = DeviceReply::Confirmed {
            readings: Vec::new(),
            failures: Vec::new(),
            others: readings,
            kubelet_answers: false,
            pods: Vec::new(),
        };
        assert_eq!(note(9, &confirmed), bmc_says(PowerState::On, 9));
        // A device of another machine says nothing of this one.
        let mut other = reading(PowerState::On);
        other.identity.system_uuid = Some("4c4c4544-0035-3010-8047-b7c04f4a5a39".to_owned());
        let other = DeviceReply::Looked {
            sights: vec![Sight {
                device: bmc(),
                reading: Ok(other),
            }],
            pods: None,
        };
        assert_eq!(note(10, &other), bmc_says(PowerState::Unknown, 10));
        assert_eq!(note(11, &on), bmc_says(PowerState::On, 11));
        // Whoever confirms by hand must not be held up by what it said before it fell silent.
        let silent = looked(bmc(), None);
        assert_eq!(note(12, &silent), bmc_says(PowerState::Unknown, 12));
    }

    #[test]
    fn a_humans_word_is_no_reading() {
        let mut settings = settings();
        settings.levels[0].devices[0].manual = true;
        let mut status = NodeFenceStatus::default();
        let word = looked(settings.levels[0].devices[0].clone(), Some(PowerState::Off));
        power_readings(&mut status, &settings, &word, at(1));
        assert_eq!(shown(&status), []);
    }

    #[test]
    fn no_more_are_kept_than_the_crd_takes() {
        let mut status = NodeFenceStatus::default();
        for number in 0..20 {
            let mut device = bmc();
            device.name = format!("bmc-{number}");
            let reply = looked(device, Some(PowerState::Off));
            power_readings(&mut status, &settings(), &reply, at(number));
        }
        let names: Vec<&str> = shown(&status).iter().map(|it| it.0).collect();
        assert_eq!((names.len(), names.first()), (KEPT, Some(&"bmc-4")));
    }
}
