//! One pass through the decision: what it goes by, and the memory that it may change.

use crate::memory::Memory;
use crate::observed::Observed;
use crate::settings::Settings;
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

/// One pass through the decision.
pub(super) struct Round<'a> {
    /// The incident's settings.
    pub(super) settings: &'a Settings,
    /// What this process remembers of it.
    pub(super) memory: &'a mut Memory,
    /// What was observed.
    pub(super) observed: &'a Observed,
    /// Its time.
    pub(super) moment: &'a Moment,
}

impl Round<'_> {
    /// Was it opened before the policy's waits are over, because its machine was off, and are they not over yet?
    pub(super) fn is_early(&self) -> bool {
        self.settings.claims_off_early && self.moment.now < self.settings.not_before
    }
}

#[cfg(test)]
impl Moment {
    pub(super) fn at(now: Duration) -> Self {
        Self {
            now,
            nonce: String::new(),
            date: String::new(),
        }
    }
}

#[cfg(test)]
impl<'a> Round<'a> {
    pub(super) fn of(
        settings: &'a Settings,
        memory: &'a mut Memory,
        observed: &'a Observed,
        moment: &'a Moment,
    ) -> Self {
        Self {
            settings,
            memory,
            observed,
            moment,
        }
    }
}
