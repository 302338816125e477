//! Drives the reads for a proof: off, and off again, in a session that is for nothing else, all devices of a level side by side.
//!
//! The engine collects; it does not judge. It ends early only because the readings it has cannot fail the rule for being
//! too few or too close together; whether they are a proof is decided by the core alone, over the same readings. A reading that
//! is not an exact off, an error included, starts the run again, and an error also starts a new session, so that nothing
//! of a BMC that went away counts together with what it says after its return.
//!
//! Dropping the future ends everything at once.

mod together;

pub use together::Together;

use super::{Advice, DeviceError, FenceDriver, FenceSession};
use crate::clock::Clock;
use fencing_core::reading::{Identity, PowerState, Reading};
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Readings kept at most, the newest ones.
pub const READINGS_MAX: usize = 256;

/// How to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConfirmPlan {
    /// Consecutive readings of off that are needed, at least 2 (`verification.consecutiveOffReads`).
    pub reads: u32,
    /// Time from an answer to the next question, at least 1 s (`verification.readPeriodSeconds`).
    pub period: Duration,
    /// Time that the run must span, from its first answer to its last question. With `(reads - 1) * period` no more than
    /// `reads` readings are needed.
    pub window: Duration,
    /// Time for all of it.
    pub deadline: Duration,
}

/// What was read, and why it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confirmation {
    /// Everything that was read, in order, at most [`READINGS_MAX`]. A failed call stands among them as
    /// [`PowerState::Unknown`], its raw text being the error's reason.
    pub readings: Vec<Reading>,
    /// Why it ended.
    pub ended: Ended,
}

/// Why the reads ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// The last readings are a run of off as long as was asked for: worth a judgement.
    Stable,
    /// The level's other devices have settled it, and this one had its say.
    Settled,
    /// Time is up. The error is that of the last call, when that failed.
    Deadline(Option<DeviceError>),
    /// The observer asked to stop, for the reason it gave.
    Stopped(String),
    /// The device needs a human: trying on would not help and may lock the account.
    Failed(DeviceError),
}

/// Pause after a reading that was not off, where the plan's period is not shorter: the sooner the first off is seen, the
/// sooner its run is complete.
const POLL_PERIOD: Duration = Duration::from_secs(1);
/// Pause after the first error; it doubles with each further one.
const BACKOFF_MIN: Duration = Duration::from_millis(500);
/// So long after an answer, what needs a human may be a passing fault.
const ANSWERED_WITHIN: Duration = Duration::from_mins(1);
/// Longest pause after errors, unless the device asks for a longer one.
const BACKOFF_MAX: Duration = Duration::from_secs(8);

/// Reads the level's device with this index until there is a run of off as the plan asks for, at the same time as the others', or until
/// something ends it, in `session` and, after an error, in new ones. Every reading is shown to `watch` as it arrives; a break from
/// there ends the reads, for a claim that was lost or an identity that is wrong.
pub async fn confirm(
    level: &Together,
    index: usize,
    driver: &dyn FenceDriver,
    session: Box<dyn FenceSession>,
    watch: impl FnMut(&Reading) -> ControlFlow<String> + Send,
) -> Confirmation {
    let mut reads = Reads::default();
    let ended = tokio::select! {
        biased;
        () = level.settled() => None,
        ended = reads.go(level, index, driver, session, watch) => Some(ended),
    };
    if ended.is_some() {
        level.leave(index);
    }
    let settled = match reads.run.satisfies(&level.plan) {
        true => Ended::Stable,
        false => Ended::Settled,
    };
    Confirmation {
        readings: reads.readings.into(),
        ended: ended.unwrap_or(settled),
    }
}

/// The reads of one device.
#[derive(Default)]
struct Reads {
    readings: VecDeque<Reading>,
    run: Run,
    /// Consecutive errors.
    errors: u32,
    /// The error of the last call, when that failed.
    last_error: Option<DeviceError>,
    /// When it last answered, if nothing was asked again because of that since.
    answered: Option<Duration>,
}

/// How the readings go, since the last one that broke the run.
#[derive(Debug, Clone, Copy, Default)]
struct Run {
    /// Consecutive readings of off.
    offs: u32,
    /// When the first of them was answered.
    since: Duration,
    /// When the last of them was asked for.
    until: Duration,
    /// The last reading says that the machine is not off.
    reads_on: bool,
    /// The last reading says something of the power.
    speaks: bool,
}

impl Reads {
    /// Reads until something but the level ends it.
    async fn go(
        &mut self,
        level: &Together,
        index: usize,
        driver: &dyn FenceDriver,
        mut session: Box<dyn FenceSession>,
        mut watch: impl FnMut(&Reading) -> ControlFlow<String> + Send,
    ) -> Ended {
        let (plan, clock) = (&level.plan, level.clock);
        let started = clock.since_boot();
        let time_left = || {
            let gone = clock.since_boot().saturating_sub(started);
            plan.deadline.saturating_sub(gone)
        };
        loop {
            let asked = clock.since_boot();
            let Ok(answer) = timeout(time_left(), session.observe()).await else {
                return Ended::Deadline(self.last_error.take());
            };
            let watched = self.take_in(answer, asked, clock, &mut watch);
            if let ControlFlow::Break(why) = watched {
                return Ended::Stopped(why);
            }
            if let Some(error) = self.final_error(clock.since_boot()) {
                return Ended::Failed(error);
            }
            level.note(index, self.run);
            let pause = self.pause(plan.period);
            if pause >= time_left() {
                return Ended::Deadline(self.last_error.take());
            }
            sleep(pause).await;
            if self.last_error.is_some() {
                session = driver.open();
            }
        }
    }

    fn take_in(
        &mut self,
        answer: Result<Reading, DeviceError>,
        asked: Duration,
        clock: Clock,
        watch: &mut impl FnMut(&Reading) -> ControlFlow<String>,
    ) -> ControlFlow<String> {
        let (reading, error) = match answer {
            Ok(reading) => (reading, None),
            Err(error) => (no_answer(&error, asked, clock), Some(error)),
        };
        self.run.count(&reading);
        self.errors = match error {
            Some(_) => self.errors.saturating_add(1),
            None => 0,
        };
        if error.is_none() {
            self.answered = Some(reading.answered);
        }
        self.last_error = error;
        let watched = watch(&reading);
        if self.readings.len() == READINGS_MAX {
            self.readings.pop_front();
        }
        self.readings.push_back(reading);
        watched
    }

    /// The error of the last call, if trying on would not help. A device that answered a moment ago, and now refuses, is asked once more: a
    /// BMC that has restarted makes its certificate anew, or does not know its systems yet. Not where it refuses the login, which the
    /// drivers ask for twice themselves, because more could lock the account.
    fn final_error(&mut self, now: Duration) -> Option<DeviceError> {
        let error = self.last_error.as_ref();
        let error = error.filter(|error| error.advice() == Advice::Human)?;
        let is_recent = |at: Duration| now.saturating_sub(at) <= ANSWERED_WITHIN;
        if !error.refuses_credentials() && self.answered.take().is_some_and(is_recent) {
            return None;
        }
        self.last_error.take()
    }

    /// Time until the next question.
    fn pause(&self, period: Duration) -> Duration {
        match &self.last_error {
            Some(error) => {
                let backoff = BACKOFF_MIN.saturating_mul(1 << self.errors.saturating_sub(1).min(8));
                error.retry_after().unwrap_or(backoff.min(BACKOFF_MAX))
            }
            None if self.run.offs == 0 => period.min(POLL_PERIOD),
            None => period,
        }
    }
}

impl Run {
    fn count(&mut self, reading: &Reading) {
        let off = reading.is_off();
        if off && self.offs == 0 {
            self.since = reading.answered;
        }
        self.until = reading.asked;
        self.offs = if off { self.offs.saturating_add(1) } else { 0 };
        self.reads_on = reading.state.has_power();
        self.speaks = reading.state != PowerState::Unknown;
    }
}

/// A call that failed, as what it says about the power: nothing.
fn no_answer(error: &DeviceError, asked: Duration, clock: Clock) -> Reading {
    Reading {
        state: PowerState::Unknown,
        raw: error.reason().to_owned(),
        identity: Identity::default(),
        faults: Vec::new(),
        off_parts: Vec::new(),
        asked,
        answered: clock.since_boot(),
        wall: clock.wall(),
    }
}

#[cfg(test)]
mod tests;
