//! The writes of this incident that failed.

use std::time::Duration;

/// The writes of this incident that failed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Writes {
    /// Why one was refused, for the condition (F23, F24).
    pub denied: Option<String>,
    /// How many failed in a row.
    pub failures: u32,
    /// Why the last of them failed.
    pub failure: String,
    /// None before (time since boot).
    pub retry_at: Option<Duration>,
}

impl Writes {
    /// Something else is in the way now: no write is tried, and what was refused before is not why.
    pub fn forget_denial(&mut self) {
        self.denied = None;
    }
}
