//! What devices say, in a story's words, and how their answers become the reply to an order.

use super::{MACHINE, WALL, World};
use fencing_api::settings::FenceMode;
use fencing_core::answer::{DeviceReply, PodList, Reply};
use fencing_core::attempt::{OffResult, OnResult};
use fencing_core::decision::DeviceOrder;
use fencing_core::device::DeviceAnswer;
use fencing_core::device::DeviceReadings;
use fencing_core::device::{Device, Level};
use fencing_core::reading::{Identity, PowerState, Reading};
use fencing_core::record;
use fencing_core::reply::{Asked, learn};
use std::collections::BTreeMap;
use std::time::Duration;

/// System UUID of another machine than the node's.
const OTHER: &str = "99999999-2222-4333-8444-555555555555";
/// How long a device takes to answer one question.
const ANSWER_TIME: Duration = Duration::from_millis(10);
/// Time between two readings of one confirmation.
const READ_PERIOD: Duration = Duration::from_millis(1100);

/// What a device says.
#[derive(Debug, Clone)]
pub enum Answer {
    /// Readings, each with its own time or READ_PERIOD apart.
    Readings(Vec<(String, Option<Duration>)>),
    /// An error.
    Fails(String),
    /// What became of a command.
    Off(OffResult),
}

impl Answer {
    /// `Off, Off@3.2s`, `fails: why`, `refuses: why`, `accepts`, `is off already`, `is on already`, `goes silent`.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some(why) = text.strip_prefix("fails: ") {
            return Ok(Self::Fails(why.to_owned()));
        }
        if let Some(why) = text.strip_prefix("refuses: ") {
            return Ok(Self::Off(OffResult::NotSent(why.to_owned())));
        }
        match text {
            "accepts" => return Ok(Self::Off(OffResult::Accepted)),
            "is off already" | "is on already" => return Ok(Self::Off(OffResult::AlreadyOff)),
            "goes silent" => {
                let why = "no answer within 120 s".to_owned();
                return Ok(Self::Off(OffResult::Unknown(why)));
            }
            _ => {}
        }
        let reading = |word: &str| {
            let (state, at) = word.split_once('@').unwrap_or((word, ""));
            let at = at.strip_suffix('s').and_then(|at| at.parse().ok());
            (state.to_owned(), at.map(Duration::from_secs_f64))
        };
        Ok(Self::Readings(text.split(", ").map(reading).collect()))
    }

    /// The readings, the last of them answered at `now`.
    fn readings(&self, now: Duration) -> Result<Vec<Reading>, String> {
        let message = match self {
            Self::Readings(message) => message,
            Self::Fails(why) => return Ok(vec![reading("Unknown", why, now - ANSWER_TIME)?]),
            Self::Off(_) => return Err("nobody commanded anything".to_owned()),
        };
        let count = u32::try_from(message.len()).map_err(|error| error.to_string())?;
        let asked =
            |index: u32| (now - ANSWER_TIME).saturating_sub(READ_PERIOD * (count - 1 - index));
        let numbered = (0u32..).zip(message);
        numbered
            .map(|(index, (word, at))| reading(word, word, at.unwrap_or(asked(index))))
            .collect()
    }
}

/// `Off`, `On`, `Transitional`, `Unknown`, with `!fault` and `#other` (another machine) or `#nobody` behind.
fn reading(word: &str, raw: &str, asked: Duration) -> Result<Reading, String> {
    let mut parts = word.split_inclusive(['!', '#']);
    let state = match parts
        .next()
        .unwrap_or_default()
        .trim_end_matches(['!', '#'])
    {
        "On" => PowerState::On,
        "Off" => PowerState::Off,
        "Transitional" => PowerState::Transitional,
        "Unknown" => PowerState::Unknown,
        other => return Err(format!("a device does not say `{other}`")),
    };
    let uuid = match word {
        _ if word.ends_with("#other") => Some(OTHER.to_owned()),
        _ if word.ends_with("#nobody") || state == PowerState::Unknown => None,
        _ => Some(MACHINE.to_owned()),
    };
    Ok(Reading {
        state,
        raw: raw.to_owned(),
        identity: Identity {
            system_uuid: uuid,
            serial_number: None,
        },
        faults: if word.ends_with("!fault") {
            vec!["PowerFault".to_owned()]
        } else {
            Vec::new()
        },
        off_parts: Vec::new(),
        asked,
        answered: asked + ANSWER_TIME,
        wall: WALL,
    })
}

/// An order that no device has answered completely.
pub(super) struct Pending {
    pub(super) order: DeviceOrder,
    pub(super) number: u64,
    pub(super) level: Level,
    pub(super) answers: BTreeMap<String, Answer>,
}

impl World {
    /// A device answers; the order's reply goes out once all of its devices have.
    pub fn answer(&mut self, device: &str, answer: Answer) -> Result<(), String> {
        let pending = self
            .pending
            .as_mut()
            .ok_or("the core has asked for no reading")?;
        pending.answers.insert(device.to_owned(), answer);
        let is_asked = |device: &&Device| match &pending.order {
            DeviceOrder::On(attempt) => attempt.devices.contains(&device.name),
            _ => true,
        };
        let all = |device: &Device| pending.answers.contains_key(&device.name);
        if !pending.level.devices.iter().filter(is_asked).all(all) {
            return Ok(());
        }
        let Some(pending) = self.pending.take() else {
            return Ok(());
        };
        let reply = self.reply(&pending)?;
        learn(
            &self.settings,
            &mut self.memory,
            Asked::Device,
            Reply::Device(pending.number, reply),
            self.now,
        );
        if let Some(attempt) = self.memory.commands.attempt.clone() {
            record::outcome(&mut self.status, &attempt, WALL);
        }
        Ok(())
    }

    fn read(&self, device: &Device, answer: &Answer) -> Result<DeviceReadings, String> {
        Ok(DeviceReadings::of(device, answer.readings(self.now)?))
    }

    /// What devices of other levels have said before those of the level had all answered.
    fn others(&self, pending: &Pending) -> Result<Vec<DeviceReadings>, String> {
        let said = self.other_devices(pending).into_iter();
        said.map(|(device, answer)| self.read(device, answer))
            .collect()
    }

    fn other_devices<'a>(&'a self, pending: &'a Pending) -> Vec<(&'a Device, &'a Answer)> {
        let other_devices = self.settings.other_devices(&pending.level);
        let said = |device: &'a Device| Some((device, pending.answers.get(&device.name)?));
        other_devices.filter_map(said).collect()
    }

    fn reply(&mut self, pending: &Pending) -> Result<DeviceReply, String> {
        let answered = pending.level.devices.iter().filter_map(|device| {
            let answer = pending.answers.get(&device.name)?;
            Some((device, answer))
        });
        Ok(match &pending.order {
            DeviceOrder::ReadPower => {
                let sight = |(device, answer): (&Device, &Answer)| {
                    let reading = match answer {
                        Answer::Fails(why) => Err(why.clone()),
                        other => Ok(other.readings(self.now)?.pop().ok_or("no reading")?),
                    };
                    Ok(DeviceAnswer {
                        device: device.clone(),
                        reading,
                    })
                };
                let other_devices = self.other_devices(pending);
                DeviceReply::PowerRead {
                    answers: answered
                        .chain(other_devices)
                        .map(sight)
                        .collect::<Result<_, String>>()?,
                    pods: (!self.pods_unreadable && !self.pods_late).then(|| self.pods.clone()),
                }
            }
            DeviceOrder::Off(_) => {
                let result = |(device, answer): (&Device, &Answer)| {
                    let result = match answer {
                        Answer::Off(result) => result.clone(),
                        Answer::Fails(why) => OffResult::Silent(why.clone()),
                        Answer::Readings(_) => return Err("it was commanded, not asked".to_owned()),
                    };
                    Ok((device.name.clone(), result))
                };
                let results = answered.map(result).collect::<Result<_, String>>()?;
                DeviceReply::Commanded {
                    answers: Vec::new(),
                    results,
                }
            }
            DeviceOrder::On(_) => {
                let result = |(device, answer): (&Device, &Answer)| {
                    Ok((device.name.clone(), turned_on(answer)?))
                };
                let results = answered.map(result).collect::<Result<_, String>>()?;
                DeviceReply::TurnedOn(results)
            }
            DeviceOrder::Confirm { .. } => {
                let readings = answered.map(|(device, answer)| self.read(device, answer));
                let readings: Vec<_> = readings.collect::<Result<_, String>>()?;
                // Listed right before the power was read last.
                let last = readings.iter().filter_map(|device| device.readings.last());
                let answered = last.map(|reading| reading.asked).min();
                let list = || PodList {
                    pods: self.pods.clone(),
                    answered: answered.unwrap_or(self.now),
                };
                DeviceReply::Confirmed {
                    readings,
                    failures: Vec::new(),
                    others: self.others(pending)?,
                    // After an off command it is asked when the readings are judged, as where a device takes its time.
                    kubelet_answers: (self.kubelet_answers
                        && (self.settings.mode() == FenceMode::ConfirmOnly
                            || pending.level.is_manual()))
                    .then_some(true),
                    pods: (!self.pods_unreadable).then(list).into_iter().collect(),
                }
            }
        })
    }
}

fn turned_on(answer: &Answer) -> Result<OnResult, String> {
    Ok(match answer {
        Answer::Off(OffResult::Accepted) => OnResult::Accepted,
        Answer::Off(OffResult::Unknown(why)) => OnResult::Unknown(why.clone()),
        Answer::Off(_) => OnResult::AlreadyOn,
        Answer::Fails(why) => OnResult::NotSent(why.clone()),
        Answer::Readings(_) => return Err("it was commanded, not asked".to_owned()),
    })
}
