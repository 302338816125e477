//! Drives the reads for a proof: off, and off again, in a session opened for nothing else.
//!
//! The engine collects; it does not judge. It ends early only because the readings it has cannot fail the rule for being
//! too few or too close together; whether they are a proof is decided by the core alone, over the same readings. A reading that
//! is not an exact off, an error included, starts the run again, and an error also starts a new session, so that nothing
//! of a BMC that went away counts together with what it says after its return.
//!
//! Dropping the future ends everything at once.

use super::DeviceError;

use crate::core::reading::Reading;
use std::time::Duration;

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
