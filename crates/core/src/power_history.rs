//! The power that each device of the node reported last, and whether it contradicts those that read off.
//!
//! A device that says that the machine has power takes that back by saying Off, and by nothing else: it may fall silent because it hangs. But
//! a machine that goes off may take its BMC with it, and then the BMC's last word is On for ever. Which of the two it is, the order tells: what
//! was said before the others read off was true by then; what was said after it was said of a machine that runs, and one of them is wired to
//! another machine, or lies (S4, S22). It is remembered from one try to the next, because a device that hangs does not say it twice.

use super::device::DeviceReadings;
use super::not_proven::NotProven;
use super::reading::{PowerState, Reading};
use super::verification::Require;
use std::collections::BTreeMap;
use std::time::Duration;

/// Two devices that tell of one machine going off may be this far apart.
const TOGETHER_MAX: Duration = Duration::from_secs(3);

/// The last word of a device about power; silence is none, and neither is an Off that no proof would take.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LastReading {
    /// Off.
    Off {
        /// Since when, if it has said nothing else since (time since boot): asked for, or answered where a command of ours brought it about.
        since: Duration,
        /// A command of ours may have brought that about.
        commanded: bool,
    },
    /// Anything else that names the power.
    On {
        /// When it was asked (time since boot).
        asked: Duration,
        /// What it said, word for word, or that the record says so.
        raw: String,
        /// It has contradicted an off: only its own Off settles that, whatever becomes of the others.
        contradicts: bool,
    },
    /// An outlet that is not off: it has power, whatever the machine does that hangs on it.
    Fed,
}

impl LastReading {
    /// Was it said in answer to a later question?
    fn is_newer_than(&self, reading: &Reading) -> bool {
        match self {
            Self::Off { since, .. } => reading.asked < *since && reading.answered < *since,
            Self::On { asked, .. } => reading.asked < *asked,
            Self::Fed => false,
        }
    }

    /// Has it contradicted an off, and not taken that back?
    fn contradicts(&self) -> bool {
        matches!(
            self,
            Self::On {
                contradicts: true,
                ..
            }
        )
    }
}

/// The last word of each device of the node, by the name of its FenceDevice.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct PowerHistory {
    last: BTreeMap<String, LastReading>,
    /// The devices without a positive control of peace time that have read On since, each as it was then ([`DeviceReadings::version`]).
    was_on: BTreeMap<String, String>,
}

impl PowerHistory {
    /// Takes note of what a device said, oldest first; `commanded`: a command of ours may have turned it, or its machine, off before.
    pub fn note(&mut self, device: &DeviceReadings, commanded: bool) {
        for reading in &device.readings {
            let before = self.last.get(&device.device);
            if let Some(last_reading) = last_reading(before, device, reading, commanded) {
                self.last.insert(device.device.clone(), last_reading);
            }
            let is_on = reading.state == PowerState::On && reading.off_parts.is_empty();
            let is_on = is_on && device.is_believed(reading);
            if is_on && !device.control.is_shown() {
                let version = device.version.clone();
                self.was_on.insert(device.device.clone(), version);
            }
        }
    }

    /// Has this device, as it is now, read On of the machine in this incident, where it had not before (S25)?
    pub fn was_on(&self, device: &str, version: &str) -> bool {
        self.was_on.get(device).is_some_and(|it| it == version)
    }

    /// Is the last that this device has said that there is power, so that an off now would change that?
    pub fn has_power(&self, device: &str) -> bool {
        let last_reading = self.last.get(device);
        matches!(
            last_reading,
            Some(LastReading::On { .. } | LastReading::Fed)
        )
    }

    /// Is the last that this device has said Off, which no command of ours has brought about?
    pub fn is_off_by_itself(&self, device: &str) -> bool {
        let last_reading = self.last.get(device);
        matches!(
            last_reading,
            Some(LastReading::Off {
                commanded: false,
                ..
            })
        )
    }

    /// Has this device said anything of power?
    pub fn knows(&self, device: &str) -> bool {
        self.last.contains_key(device)
    }

    /// The record names this one: it contradicted an off, told by a process that is gone.
    pub fn recall(&mut self, device: &str) {
        let last_reading = LastReading::On {
            asked: Duration::ZERO,
            raw: "On (from the record)".to_owned(),
            contradicts: true,
        };
        self.last.entry(device.to_owned()).or_insert(last_reading);
    }

    /// The devices whose On contradicts an off, in order.
    pub fn contradicting(&self) -> impl Iterator<Item = &str> {
        let contradicting = self
            .last
            .iter()
            .filter(|(_, last_reading)| last_reading.contradicts());
        contradicting.map(|(device, _)| device.as_str())
    }

    /// The devices of the node whose last word is that the machine has power, which cannot be true of a machine that these devices read `off`
    /// now, of the `count` that their level has: the first of them, and what it said. None where a level that needs all of them has not all
    /// of them off.
    pub fn contradiction(&self, off: &[&str], count: usize, require: Require) -> Option<NotProven> {
        let since = self.off_since(off, count, require)?;
        let (other, raw) =
            self.last
                .iter()
                .find_map(|(device, last_reading)| match last_reading {
                    LastReading::On {
                        asked,
                        raw,
                        contradicts,
                    } if *asked > since || *contradicts => Some((device, raw)),
                    _ => None,
                })?;
        Some(NotProven::OnWhileOff {
            devices: format!("FenceDevice {}", off.join(", ")),
            other: other.clone(),
            raw: raw.clone(),
        })
    }

    /// Takes note of a [`Self::contradiction`], for good: of every device that is in it, since each of them may hang from now on.
    pub fn record_contradiction(&mut self, off: &[&str], count: usize, require: Require) {
        let Some(since) = self.off_since(off, count, require) else {
            return;
        };
        for last_reading in self.last.values_mut() {
            if let LastReading::On {
                asked, contradicts, ..
            } = last_reading
            {
                *contradicts |= *asked > since;
            }
        }
    }

    /// Who says On after this moment contradicts these devices.
    fn off_since(&self, off: &[&str], count: usize, require: Require) -> Option<Duration> {
        let offs = off
            .iter()
            .filter_map(|device| match self.last.get(*device)? {
                LastReading::Off {
                    since,
                    commanded: true,
                } => Some(*since + TOGETHER_MAX),
                // Somebody or something else did it, at about this time at the earliest.
                LastReading::Off { since, .. } => Some(since.saturating_sub(TOGETHER_MAX)),
                LastReading::On { .. } | LastReading::Fed => None,
            });
        let offs: Vec<Duration> = offs.collect();
        match require {
            Require::All if offs.len() < count => None,
            // Of two supplies the second one turns the machine off.
            Require::All => offs.into_iter().max(),
            Require::Any => offs.into_iter().min(),
        }
    }
}

/// What this reading makes of the device's last word; none: nothing new.
fn last_reading(
    before: Option<&LastReading>,
    device: &DeviceReadings,
    reading: &Reading,
    commanded: bool,
) -> Option<LastReading> {
    // An outlet takes an off that changes nothing: its Off is our doing if it was seen to have power before.
    let commanded = commanded && (!device.outlets || before == Some(&LastReading::Fed));
    let contradicts = before.is_some_and(LastReading::contradicts);
    match reading.state {
        PowerState::Unknown => None,
        // It was overtaken by an answer to a later question.
        _ if before.is_some_and(|before| before.is_newer_than(reading)) => None,
        _ if device.identity.is_another(&reading.identity) => None,
        PowerState::Off if !device.is_believed(reading) => None,
        PowerState::Off if matches!(before, Some(LastReading::Off { .. })) => None,
        PowerState::Off => Some(LastReading::Off {
            since: match commanded {
                true => reading.answered,
                false => reading.asked,
            },
            commanded,
        }),
        // A FenceDevice that somebody has made an outlet's takes nothing back, either.
        _ if device.outlets && !contradicts => Some(LastReading::Fed),
        _ => Some(LastReading::On {
            asked: reading.asked,
            raw: reading.raw.clone(),
            contradicts,
        }),
    }
}

#[cfg(test)]
mod tests;
