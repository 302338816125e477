//! What the devices have read in this incident, and what spoke against it.

use crate::power_history::PowerHistory;
use std::collections::BTreeSet;

/// The first contradiction may be a slow machine, the second one is a device that lies; more of them say nothing new.
pub const CONTRADICTIONS_KEPT: usize = 2;

/// What the devices have read in this incident, and what spoke against it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Trust {
    /// What each device of the node has read last, since the incident began.
    pub power_history: PowerHistory,
    /// The devices that were silent in this incident, or reported a fault: one of them may have been restarted.
    pub silent: BTreeSet<String>,
    /// Life beside a device that read Off, in words, the first two (S22).
    pub contradictions: Vec<String>,
}

impl Trust {
    /// A device has lied twice: nothing is commanded any more, by whatever device (S22, mode PowerOff).
    pub fn is_contradicted(&self) -> bool {
        self.contradictions.len() >= CONTRADICTIONS_KEPT
    }
}
