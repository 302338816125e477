//! Drives the reads for a proof: off, and off again, in a session opened for nothing else.
//!
//! The engine collects; it does not judge. It ends early only because the readings it has cannot fail the rule for being
//! too few or too close together; whether they are a proof is decided by the core alone, over the same readings. A reading that
//! is not an exact off, an error included, starts the run again, and an error also starts a new session, so that nothing
//! of a BMC that went away counts together with what it says after its return.
//!
//! Dropping the future ends everything at once.

use super::{Advice, DeviceError, FenceDriver};
use crate::clock::Clock;

use crate::core::reading::{Identity, PowerState, Reading};
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
    /// Time from an answer to the next question, at least 1 s (`verification.readPeriodSeconds`). The run therefore spans
    /// at least `(reads - 1) * period`.
    pub period: Duration,
    /// Time for all of it.
    pub deadline: Duration,
}

/// What was read, and why it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confirmation {
    /// When the session of the last reading was opened: time since boot. Nothing sent before it counts.
    pub opened: Duration,
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
    /// Time is up. The error is that of the last call, when that failed.
    Deadline(Option<DeviceError>),
    /// The observer asked to stop, for the reason it gave.
    Stopped(String),
    /// The device needs a human: trying on would not help and may lock the account.
    Failed(DeviceError),
}

/// Readings of off without which nothing is ever stable, whatever the plan says.
const READS_MIN: u32 = 2;
/// Pause after a reading that was not off, where the plan's period is not shorter: the sooner the first off is seen, the
/// sooner its run is complete.
const POLL_PERIOD: Duration = Duration::from_secs(1);
/// Longest pause after errors, unless the device asks for a longer one.
const BACKOFF_MAX: Duration = Duration::from_secs(8);

/// Reads until there is a run of off as the plan asks for, or until something ends it. Every reading is shown to `watch` as it
/// arrives; a break from there ends the reads, for a claim that was lost or an identity that is wrong.
pub async fn confirm(
    driver: &dyn FenceDriver,
    plan: &ConfirmPlan,
    clock: Clock,
    mut watch: impl FnMut(&Reading) -> ControlFlow<String> + Send,
) -> Confirmation {
    let started = clock.since_boot();
    let mut opened = started;
    let mut session = driver.open();
    let mut readings = VecDeque::new();
    let mut run = Run::default();
    let ended = loop {
        let left = plan
            .deadline
            .saturating_sub(clock.since_boot().saturating_sub(started));
        let asked = clock.since_boot();
        let Ok(answer) = timeout(left, session.observe()).await else {
            break Ended::Deadline(run.last_error);
        };
        let failed = answer.is_err();
        let reading = answer
            .as_ref()
            .map_or_else(|error| no_answer(error, asked, clock), Reading::clone);
        run.count(answer);
        let watched = watch(&reading);
        if readings.len() == READINGS_MAX {
            readings.pop_front();
        }
        readings.push_back(reading);
        if let ControlFlow::Break(why) = watched {
            break Ended::Stopped(why);
        }
        if let Some(error) = run
            .last_error
            .take_if(|error| error.advice() == Advice::Human)
        {
            break Ended::Failed(error);
        }
        if run.offs >= plan.reads.max(READS_MIN) {
            break Ended::Stable;
        }
        let pause = run.pause(plan.period);
        let left = plan
            .deadline
            .saturating_sub(clock.since_boot().saturating_sub(started));
        if pause >= left {
            break Ended::Deadline(run.last_error);
        }
        sleep(pause).await;
        if failed {
            opened = clock.since_boot();
            session = driver.open();
        }
    };
    Confirmation {
        opened,
        readings: readings.into(),
        ended,
    }
}

/// How the reads go, since the last one that broke the run.
#[derive(Default)]
struct Run {
    offs: u32,
    errors: u32,
    last_error: Option<DeviceError>,
}

impl Run {
    fn count(&mut self, answer: Result<Reading, DeviceError>) {
        match answer {
            Ok(reading) => {
                let off = reading.state == PowerState::Off && reading.faults.is_empty();
                self.offs = if off { self.offs.saturating_add(1) } else { 0 };
                self.errors = 0;
                self.last_error = None;
            }
            Err(error) => {
                self.offs = 0;
                self.errors = self.errors.saturating_add(1);
                self.last_error = Some(error);
            }
        }
    }

    /// Time until the next question.
    fn pause(&self, period: Duration) -> Duration {
        match &self.last_error {
            Some(error) => {
                let backoff = Duration::from_millis(500).saturating_mul(1 << self.errors.min(8));
                error.retry_after().unwrap_or(backoff.min(BACKOFF_MAX))
            }
            None if self.offs == 0 => period.min(POLL_PERIOD),
            None => period,
        }
    }
}

/// A call that failed, as what it says about the power: nothing.
fn no_answer(error: &DeviceError, asked: Duration, clock: Clock) -> Reading {
    Reading {
        state: PowerState::Unknown,
        raw: error.reason().to_owned(),
        identity: Identity::default(),
        faults: Vec::new(),
        asked,
        answered: clock.since_boot(),
        wall: clock.wall(),
    }
}
