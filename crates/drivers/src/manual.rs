//! Driver `manual`: a human looks at the machine, and the word counts as the reading.
//!
//! There is nothing to connect to and nothing to command. What makes a word count is the core's matter ([`fencing_core::manual_confirmation`]);
//! this only gives it the shape of a device's answers, so that a level of it is judged like every other.

use super::{DeviceError, Extent, FenceDriver, FenceSession, OffOutcome, OnOutcome, Probe};
use crate::clock::Clock;
use crate::error::printable;
use fencing_core::manual_confirmation::{CONFIRMATION_LIFE, ValidConfirmation};
use fencing_core::reading::{Identity, PowerState, Reading};
use futures::FutureExt;
use futures::future::{BoxFuture, ready};

/// What the raw answer of a human's word begins with.
const CONFIRMED_BY: &str = "confirmed by ";

/// Is a reading with this raw answer a human's word, and no device's?
#[must_use]
pub fn is_word(raw: &str) -> bool {
    raw.starts_with(CONFIRMED_BY)
}

/// Characters of a reading's raw text.
const RAW_CHARACTERS: usize = 64;

/// A human's word as a device.
#[derive(Debug, Clone)]
pub struct Manual {
    word: Result<ValidConfirmation, String>,
    clock: Clock,
}

impl Manual {
    /// The word, or why there is none.
    #[must_use]
    pub fn new(word: Result<ValidConfirmation, String>, clock: Clock) -> Self {
        Self { word, clock }
    }

    fn reading(&self) -> Result<Reading, DeviceError> {
        let now = self.clock.since_boot();
        let heard = self
            .word
            .as_ref()
            .map_err(|words| DeviceError::HumanNeeded {
                words: words.clone(),
            })?;
        if now >= heard.valid_until {
            return Err(DeviceError::HumanNeeded {
                words: format!(
                    "manual confirmation by {} expired after {} minutes (power may be back); check the machine again, cancel this NodeFence (`spec.desiredState: Released`), create another and confirm that one",
                    heard.user,
                    CONFIRMATION_LIFE.as_secs() / 60
                ),
            });
        }
        Ok(Reading {
            state: PowerState::Off,
            raw: printable(&format!("{CONFIRMED_BY}{}", heard.user), RAW_CHARACTERS - 1),
            identity: Identity::default(),
            faults: Vec::new(),
            off_parts: Vec::new(),
            asked: now,
            answered: now,
            wall: self.clock.wall(),
        })
    }
}

impl FenceDriver for Manual {
    fn name(&self) -> &'static str {
        "manual"
    }

    fn target(&self) -> String {
        "a human".to_owned()
    }

    fn open(&self) -> Box<dyn FenceSession> {
        Box::new(self.clone())
    }
}

impl FenceSession for Manual {
    fn connect(&mut self) -> BoxFuture<'_, Result<(), DeviceError>> {
        ready(Ok(())).boxed()
    }

    fn observe(&mut self) -> BoxFuture<'_, Result<Reading, DeviceError>> {
        ready(self.reading()).boxed()
    }

    fn prepare_off(&mut self) -> BoxFuture<'_, Result<Identity, DeviceError>> {
        ready(self.reading().map(|reading| reading.identity)).boxed()
    }

    fn seen(&self) -> Option<Reading> {
        None
    }

    /// Nothing is sent to anybody: whoever gave the word has cut the power.
    fn force_off(&mut self) -> BoxFuture<'_, Result<OffOutcome, DeviceError>> {
        let outcome = self
            .reading()
            .map(|reading| OffOutcome::AlreadyOff { said: reading.raw });
        ready(outcome).boxed()
    }

    fn prepare_on(&mut self) -> BoxFuture<'_, Result<Reading, DeviceError>> {
        ready(Err(nobody_turns_on())).boxed()
    }

    fn power_on(&mut self) -> BoxFuture<'_, Result<OnOutcome, DeviceError>> {
        ready(Err(nobody_turns_on())).boxed()
    }

    fn probe(&mut self, _: Extent) -> BoxFuture<'_, Result<Probe, DeviceError>> {
        let words = "the manual driver has nothing to probe; confirm an outage by `spec.manualConfirmation` of its NodeFence";
        let error = DeviceError::HumanNeeded {
            words: words.to_owned(),
        };
        ready(Err(error)).boxed()
    }
}

/// A word turns nothing on.
fn nobody_turns_on() -> DeviceError {
    let words = "the manual driver turns no machine on; turn it on by hand";
    DeviceError::HumanNeeded {
        words: words.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencing_core::delay::{Now, Since};
    use fencing_core::fixtures;
    use fencing_core::manual_confirmation::{self};
    use fencing_core::settings::ManualConfirmation;
    use fencing_core::settings::Settings;
    use jiff::Timestamp;
    use std::time::Duration;

    /// A word that counts until then, read at 100 s.
    fn given(valid_until: Duration) -> Box<dyn FenceSession> {
        let clock = Clock {
            since_boot: || Duration::from_secs(100),
            ..Clock::SYSTEM
        };
        let heard = ValidConfirmation {
            user: "alice".to_owned(),
            valid_until,
        };
        Manual::new(Ok(heard), clock).open()
    }

    /// What is said of one that was too old before anything began.
    fn too_old() -> String {
        let heard_of = Now {
            boot: Duration::ZERO,
            wall: Timestamp::UNIX_EPOCH,
        };
        let settings = fixtures::settings();
        let word = ManualConfirmation {
            user: "alice".to_owned(),
            node_uid: settings.node_uid.clone().expect("a UID"),
            given: Since::at(Timestamp::UNIX_EPOCH, heard_of),
            is_ahead: false,
        };
        let settings = Settings {
            confirmation: Some(word),
            ..settings
        };
        manual_confirmation::valid_confirmation(&settings, CONFIRMATION_LIFE).expect_err("too old")
    }

    /// It was heard when the work began, and this may last: whoever gave it answers for a quarter of an hour and no longer.
    #[tokio::test]
    async fn a_word_that_expires_while_it_is_read_is_no_reading_any_more() {
        let moment = Duration::from_nanos(1);
        let mut counts = given(Duration::from_secs(100) + moment);
        let reading = counts.observe().await.expect("it still counts");
        assert_eq!(reading.state, PowerState::Off);
        assert_eq!(reading.raw, "confirmed by alice");
        let mut expired = given(Duration::from_secs(100));
        let words = too_old();
        for answer in [
            expired.observe().await.map(drop),
            expired.prepare_off().await.map(drop),
            expired.force_off().await.map(drop),
        ] {
            let error = answer.expect_err("expired").to_string();
            assert_eq!(error, words);
        }
    }

    #[tokio::test]
    async fn a_word_turns_no_machine_on() {
        let mut counts = given(Duration::MAX);
        for answer in [
            counts.prepare_on().await.map(drop),
            counts.power_on().await.map(drop),
        ] {
            let error = answer.expect_err("nobody can").to_string();
            assert!(error.contains("by hand"), "{error}");
        }
    }
}
