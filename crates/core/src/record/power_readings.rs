//! What each device has said last: whoever stands at the machine with a word to give has to know that one of them says On. The
//! operator decides nothing by it.

use crate::answer::DeviceReply;
use crate::attempt::OffResult;
use crate::device::{DeviceReadings, Level};
use crate::reading::{PowerState, Reading};
use crate::settings::Settings;
use fencing_api::fence_status::{NodeFenceStatus, PowerOf, PowerReading};
use jiff::Timestamp;
use std::collections::BTreeMap;

/// As many as the CRD takes.
const KEPT: usize = 16;

/// Takes what the devices have answered into the record. One that does not answer, or answers for another machine, says `Unknown`; a human's word is
/// no reading.
pub fn power_readings(
    status: &mut NodeFenceStatus,
    settings: &Settings,
    reply: &DeviceReply,
    wall_now: Timestamp,
) {
    let known = &mut status.power_readings;
    let devices = settings.levels.iter().flat_map(|it| &it.devices);
    let is_manual = |name: &str| devices.clone().any(|it| it.manual && it.name == name);
    let reported = reply.reported();
    // Nor does a storage read the power.
    let read_it = |it: &&DeviceReadings| it.covers.is_none() && !is_manual(&it.device);
    for device in reported.iter().filter(read_it) {
        let reads = match device.outlets {
            true => PowerOf::Outlets,
            false => PowerOf::Machine,
        };
        let of = (device.device.as_str(), reads);
        for reading in &device.readings {
            note(known, of, said(device, reading), reading.wall);
        }
        // Of two looks at one device one may have an answer.
        let has_answered =
            |it: &DeviceReadings| it.device == device.device && !it.readings.is_empty();
        if !reported.iter().any(has_answered) {
            note(known, of, PowerState::Unknown, wall_now);
        }
    }
    // What was said while a command was prepared was said before it.
    if let DeviceReply::Commanded { results, .. } = reply {
        for device in results.keys() {
            if is_outdated(settings, results, device) {
                silent(known, device, wall_now);
            }
        }
    }
    let gone = known.iter().map(|it| it.device.clone());
    let gone: Vec<String> = gone
        .filter(|name| !devices.clone().any(|it| it.name == *name))
        .collect();
    for device in gone {
        silent(known, &device, wall_now);
    }
}

/// Does what the device said before the off say nothing any more? One that is silent says nothing; and if the power is not read next, what another
/// one has read before it took the command is not known to hold. One that answers and was not commanded is asked before the next try.
fn is_outdated(settings: &Settings, results: &BTreeMap<String, OffResult>, device: &str) -> bool {
    let is_of = |level: &&Level| level.devices.iter().any(|it| it.name == device);
    let mut levels = settings.levels.iter().filter(is_of);
    match results.get(device) {
        Some(OffResult::NotSent(_)) | None => false,
        Some(sent) if sent.is_sent() => !levels.any(|it| it.is_commanded(results)),
        Some(_) => true,
    }
}

/// The devices that were asked. Whether each of them answered all along is not kept.
pub fn asked(status: &NodeFenceStatus) -> Vec<String> {
    let readings = status.power_readings.iter();
    readings.map(|it| it.device.clone()).collect()
}

/// Nothing is known of the device any more, if anything was.
fn silent(known: &mut Vec<PowerReading>, device: &str, at: Timestamp) {
    let reads = known.iter().find(|it| it.device == device);
    if let Some(reads) = reads.map(|it| it.reads) {
        note(known, (device, reads), PowerState::Unknown, at);
    }
}

/// As the protocol takes it.
fn said(device: &DeviceReadings, reading: &Reading) -> PowerState {
    match reading.state {
        _ if device.identity.is_another(&reading.identity) => PowerState::Unknown,
        PowerState::Off if !device.is_believed(reading) => PowerState::Unknown,
        state => state,
    }
}

fn note(
    known: &mut Vec<PowerReading>,
    (device, reads): (&str, PowerOf),
    power_state: PowerState,
    at: Timestamp,
) {
    let place = known.iter().position(|it| it.device == device);
    let before = place.map(|it| known.remove(it));
    let last_on = before.as_ref().and_then(|it| it.last_on_time);
    let same = before.filter(|it| (it.power_state, it.reads) == (power_state, reads));
    let new = PowerReading {
        device: device.to_owned(),
        power_state,
        reads,
        since_time: same.map_or(at, |it| it.since_time),
        last_on_time: if power_state.has_power() {
            Some(at)
        } else {
            last_on
        },
    };
    known.insert(place.unwrap_or(known.len()), new);
    if known.len() > KEPT {
        // The one that was asked first, and last those that speak against a word.
        let is_silent = |it: &PowerReading| !it.speaks_against_a_word();
        let first = known.iter().position(is_silent).unwrap_or_default();
        known.remove(first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;
    use crate::device::DeviceAnswer;
    use crate::fixtures::{bmc, off_readings, settings};
    use crate::verification::Require;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).expect("a time")
    }

    fn reading(state: PowerState, seconds: i64) -> Reading {
        let mut reading = off_readings().remove(0).readings.remove(0);
        (reading.state, reading.wall) = (state, at(seconds));
        reading
    }

    fn looked(device: Device, reading: Option<Reading>) -> DeviceReply {
        let reading = reading.ok_or_else(|| "no answer".to_owned());
        DeviceReply::PowerRead {
            answers: vec![DeviceAnswer { device, reading }],
            pods: None,
        }
    }

    fn says(state: PowerState, seconds: i64) -> DeviceReply {
        looked(bmc(), Some(reading(state, seconds)))
    }

    fn confirmed(readings: &[Reading], others: &[Reading]) -> DeviceReply {
        let of = |readings: &[Reading]| match readings {
            [] => Vec::new(),
            some => vec![DeviceReadings::of(&bmc(), some.to_vec())],
        };
        DeviceReply::Confirmed {
            readings: of(readings),
            failures: Vec::new(),
            others: of(others),
            kubelet_answers: None,
            pods: Vec::new(),
        }
    }

    fn commanded<const N: usize>(results: [(&str, OffResult); N]) -> DeviceReply {
        let results = results.map(|(device, result)| (device.to_owned(), result));
        DeviceReply::Commanded {
            answers: Vec::new(),
            results: results.into(),
        }
    }

    /// What one incident has read, answer by answer.
    #[derive(Default)]
    struct Told(NodeFenceStatus);

    impl Told {
        /// The answer comes a second after it was given.
        fn note(&mut self, seconds: i64, reply: &DeviceReply) {
            power_readings(&mut self.0, &settings(), reply, at(seconds + 1));
        }

        /// Of the only device.
        fn last(&self) -> (PowerState, i64, Option<i64>) {
            let [it] = self.0.power_readings.as_slice() else {
                panic!("{:?}", self.0.power_readings);
            };
            let on = it.last_on_time.map(Timestamp::as_second);
            (it.power_state, it.since_time.as_second(), on)
        }
    }

    #[test]
    fn what_a_device_said_last_stands_there_with_since_when_and_when_it_was_on() {
        let mut told = Told::default();
        told.note(1, &says(PowerState::On, 1));
        assert_eq!(told.last(), (PowerState::On, 1, Some(1)));
        told.note(5, &says(PowerState::On, 5));
        assert_eq!(told.last(), (PowerState::On, 1, Some(5)));
        let (on, off) = (reading(PowerState::On, 6), reading(PowerState::Off, 7));
        told.note(7, &confirmed(&[on, off], &[]));
        assert_eq!(told.last(), (PowerState::Off, 7, Some(6)));
        // As a device of another level, too.
        told.note(9, &confirmed(&[], &[reading(PowerState::On, 9)]));
        assert_eq!(told.last(), (PowerState::On, 9, Some(9)));
        // Whoever confirms by hand must not be held up by what it said before it fell silent.
        told.note(12, &looked(bmc(), None));
        assert_eq!(told.last(), (PowerState::Unknown, 13, Some(9)));
    }

    #[test]
    fn an_off_to_a_silent_device_tells_that_it_is_silent() {
        let mut told = Told::default();
        let silent = OffResult::Silent("no route".to_owned());
        told.note(0, &commanded([("bmc", silent.clone())]));
        assert_eq!(told.0.power_readings, []);
        told.note(1, &says(PowerState::On, 1));
        told.note(2, &commanded([("bmc", OffResult::Accepted)]));
        assert_eq!(told.last(), (PowerState::On, 1, Some(1)));
        told.note(3, &commanded([("bmc", silent)]));
        assert_eq!(told.last(), (PowerState::Unknown, 4, Some(1)));
    }

    /// The preparation of the off may read On before the device falls silent: that one keeps no word out either.
    #[test]
    fn what_was_read_before_a_command_is_older_than_what_became_of_it() {
        let answer = |seconds| DeviceAnswer {
            device: bmc(),
            reading: Ok(reading(PowerState::On, seconds)),
        };
        let refused = OffResult::NotSent("no".to_owned());
        let silent = OffResult::Silent("no answer".to_owned());
        for (result, told_as) in [
            (refused, (PowerState::On, 5, Some(5))),
            (silent, (PowerState::Unknown, 7, Some(5))),
        ] {
            let mut told = Told::default();
            let DeviceReply::Commanded { results, .. } = commanded([("bmc", result)]) else {
                panic!("a command");
            };
            let answers = vec![answer(5)];
            told.note(6, &DeviceReply::Commanded { answers, results });
            assert_eq!(told.last(), told_as);
        }
    }

    /// The operator takes no word while it reads On: neither must `kubectl fence confirm`. It is asked before the next try.
    #[test]
    fn the_on_of_a_device_that_refuses_the_off_stands() {
        let mut told = Told::default();
        told.note(1, &says(PowerState::On, 1));
        let refused = OffResult::NotSent("ForceOff is not among the reset types".to_owned());
        told.note(3, &commanded([("bmc", refused)]));
        assert_eq!(told.last(), (PowerState::On, 1, Some(1)));
    }

    #[test]
    fn the_on_of_one_that_took_the_off_stands_where_the_power_is_read_next() {
        for (require, stands) in [(Require::Any, true), (Require::All, false)] {
            let mut settings = settings();
            settings.levels[0].require = require;
            settings.levels[0].devices.push(Device {
                name: "bmc-2".to_owned(),
                ..bmc()
            });
            let silent = OffResult::Silent("no route".to_owned());
            let results = commanded([("bmc", OffResult::Accepted), ("bmc-2", silent)]);
            let mut told = Told::default();
            for (seconds, reply) in [(1, says(PowerState::On, 1)), (3, results)] {
                power_readings(&mut told.0, &settings, &reply, at(seconds));
            }
            let is_on = told.last().0 == PowerState::On;
            assert_eq!(is_on, stands, "{require:?}");
        }
    }

    #[test]
    fn a_device_that_serves_the_node_no_more_says_nothing() {
        let mut told = Told::default();
        told.note(1, &says(PowerState::On, 1));
        let mut settings = settings();
        settings.levels[0].devices[0].name = "another".to_owned();
        let device = settings.levels[0].devices[0].clone();
        for reply in [looked(device, None), says(PowerState::On, 6)] {
            power_readings(&mut told.0, &settings, &reply, at(7));
            let found = told.0.power_readings.iter().find(|it| it.device == "bmc");
            let found = found.map(|it| (it.power_state, it.last_on_time.is_some()));
            assert_eq!(found, Some((PowerState::Unknown, true)));
        }
    }

    /// Whichever of them says On refutes a word.
    #[test]
    fn of_two_looks_at_one_device_the_one_that_was_answered_counts() {
        let on = reading(PowerState::On, 1);
        let mut told = Told::default();
        let answers = [Ok(on), Err("no answer".to_owned())].map(|reading| DeviceAnswer {
            device: bmc(),
            reading,
        });
        let pods = None;
        let answers = answers.into();
        told.note(1, &DeviceReply::PowerRead { answers, pods });
        assert_eq!(told.last(), (PowerState::On, 1, Some(1)));
    }

    #[test]
    fn what_the_protocol_does_not_take_for_off_or_on_is_unknown() {
        let mut told = Told::default();
        let another = |state| {
            let mut reading = reading(state, 1);
            let uuid = "4c4c4544-0035-3010-8047-b7c04f4a5a39";
            reading.identity.system_uuid = Some(uuid.to_owned());
            looked(bmc(), Some(reading))
        };
        let mut faulty = reading(PowerState::Off, 1);
        faulty.faults = vec!["interlock".to_owned()];
        for reply in [
            another(PowerState::On),
            another(PowerState::Off),
            looked(bmc(), Some(faulty)),
        ] {
            told.note(1, &reply);
            assert_eq!(told.last(), (PowerState::Unknown, 1, None));
        }
    }

    #[test]
    fn a_humans_word_is_no_reading() {
        let mut settings = settings();
        settings.levels[0].devices[0].manual = true;
        let mut status = NodeFenceStatus::default();
        let word = looked(
            settings.levels[0].devices[0].clone(),
            Some(reading(PowerState::Off, 1)),
        );
        power_readings(&mut status, &settings, &word, at(1));
        assert_eq!(status.power_readings, []);
    }

    #[test]
    fn no_more_are_kept_than_the_crd_takes_and_the_machines_that_are_on_last_of_all() {
        let mut status = NodeFenceStatus::default();
        let mut settings = settings();
        let device = |number: i64| Device {
            name: format!("bmc-{number}"),
            outlets: number == 1,
            ..bmc()
        };
        settings.levels[0].devices = (0..20).map(device).collect();
        for number in 0..20 {
            let state = match number {
                0 | 1 => PowerState::On,
                _ => PowerState::Off,
            };
            let reply = looked(device(number), Some(reading(state, number)));
            power_readings(&mut status, &settings, &reply, at(number));
        }
        let names = status.power_readings.iter().map(|it| it.device.as_str());
        let names: Vec<_> = names.collect();
        assert_eq!((names.len(), &names[..2]), (KEPT, &["bmc-0", "bmc-5"][..]));
    }

    /// A3: one that reads Off now may have been silent before.
    #[test]
    fn the_record_names_who_was_asked() {
        let settings = settings();
        let mut status = NodeFenceStatus::default();
        assert!(super::super::read(&status, at(0)).asked.is_empty());
        for reply in [looked(bmc(), None), says(PowerState::Off, 2)] {
            power_readings(&mut status, &settings, &reply, at(1));
            assert_eq!(super::super::read(&status, at(3)).asked, ["bmc"]);
        }
    }
}
