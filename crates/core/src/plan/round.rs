//! One pass through the decision: its time.

use std::time::Duration;

/// The time of a round, and the randomness it may use: both are given, never taken.
#[derive(Debug, Clone)]
pub struct Moment {
    /// Time since boot, on a clock that counts suspend.
    pub now: Duration,
    /// Eight characters that no other round gets.
    pub nonce: String,
    /// The date, in RFC 3339 and seconds, as a taint's `timeAdded` has it.
    pub date: String,
}
