//! What did each device of the node say last of its power, and does that speak against those that read off?
//!
//! A device that says that the machine has power takes that back by saying Off, and by nothing else: it may fall silent because it hangs. But
//! a machine that goes off may take its BMC with it, and then the BMC's last word is On for ever. Which of the two it is, the order tells: what
//! was said before the others read off was true by then; what was said after it was said of a machine that runs, and one of them is wired to
//! another machine, or lies (S4, S22). It is remembered from one try to the next, because a device that hangs does not say it twice.

use super::proof::{DeviceReadings, Require};
use super::reading::{PowerState, Reading};
use std::collections::BTreeMap;
use std::time::Duration;

/// Two devices that tell of one machine going off may be this far apart.
pub const TOGETHER_MAX: Duration = Duration::from_secs(3);

/// The last word of a device about power; silence is none.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LastWord {
    /// Off.
    Off {
        /// When it said so first, if it has said nothing else since (time since boot).
        since: Duration,
        /// A command of ours may have brought that about.
        commanded: bool,
    },
    /// Anything else that names the power.
    On {
        /// When it was asked (time since boot).
        asked: Duration,
        /// What it said, word for word.
        raw: String,
        /// It has contradicted an off: only its own Off settles that, whatever becomes of the others.
        contradicts: bool,
    },
}

/// The last word of each device of the node, by the name of its FenceDevice.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Said(BTreeMap<String, LastWord>);

impl Said {
    /// Takes note of what a device said, oldest first; `commanded`: an off command may have turned the machine off before.
    pub fn note(&mut self, device: &DeviceReadings, commanded: bool) {
        for reading in &device.readings {
            self.note_one(device, reading, commanded);
        }
    }

    fn note_one(&mut self, device: &DeviceReadings, reading: &Reading, commanded: bool) {
        let before = self.0.get(&device.device);
        let word = match (reading.state, before) {
            (PowerState::Unknown, _) | (PowerState::Off, Some(LastWord::Off { .. })) => return,
            _ if device.identity.is_another(&reading.identity) => return,
            (PowerState::Off, _) => LastWord::Off {
                since: reading.answered,
                commanded,
            },
            _ => LastWord::On {
                asked: reading.asked,
                raw: reading.raw.clone(),
                contradicts: matches!(
                    before,
                    Some(LastWord::On {
                        contradicts: true,
                        ..
                    })
                ),
            },
        };
        self.0.insert(device.device.clone(), word);
    }

    /// The same, of these devices only.
    pub fn of(&self, is_heard: impl Fn(&str) -> bool) -> Self {
        let heard = self.0.iter().filter(|(device, _)| is_heard(device));
        Self(
            heard
                .map(|(device, word)| (device.clone(), word.clone()))
                .collect(),
        )
    }

    /// The record names this one: it contradicted an off, told by a process that is gone.
    pub fn recall(&mut self, device: &str) {
        let word = LastWord::On {
            asked: Duration::ZERO,
            raw: "On".to_owned(),
            contradicts: true,
        };
        self.0.entry(device.to_owned()).or_insert(word);
    }

    /// The devices whose On contradicts an off, in order.
    pub fn contradicting(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|(device, word)| match word {
            LastWord::On {
                contradicts: true, ..
            } => Some(device.as_str()),
            _ => None,
        })
    }

    /// This one's On contradicts an off from now on.
    pub fn accuse(&mut self, device: &str) {
        if let Some(LastWord::On { contradicts, .. }) = self.0.get_mut(device) {
            *contradicts = true;
        }
    }

    /// A device of the node, with what it said, whose last word is that the machine has power, and cannot be true of a machine that these
    /// devices of a level read off. None as long as they do not.
    pub fn against<'a>(&'a self, level: &[&str], require: Require) -> Option<(&'a str, &'a str)> {
        let off = |device: &&str| match self.0.get(*device)? {
            LastWord::Off {
                since,
                commanded: true,
            } => Some(*since + TOGETHER_MAX),
            // Somebody or something else did it, at about this time at the earliest.
            LastWord::Off { since, .. } => Some(since.saturating_sub(TOGETHER_MAX)),
            LastWord::On { .. } => None,
        };
        let off = match require {
            // Of two supplies the second one turns the machine off.
            Require::All => level
                .iter()
                .map(off)
                .collect::<Option<Vec<_>>>()?
                .into_iter()
                .max(),
            Require::Any => level.iter().filter_map(off).min(),
        }?;
        self.0.iter().find_map(|(device, word)| match word {
            LastWord::On {
                asked,
                raw,
                contradicts,
            } if *asked > off || *contradicts => Some((device.as_str(), raw.as_str())),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests;
