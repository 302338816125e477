//! Which fence level is tried, and why tries have failed.

use crate::escalation::Escalation;
use std::collections::BTreeMap;
use std::time::Duration;

/// Which level is tried, and why tries have failed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct LevelTries {
    /// Index into the settings' levels.
    pub level: usize,
    /// Its devices have passed the check before the claim, so that only the budget is in the way.
    pub checked: bool,
    /// Tries of this level that failed.
    pub failures: u32,
    /// When its first try was begun (time since boot); none: not tried since its turn came, or it has answered well since.
    pub since: Option<Duration>,
    /// Times that every level has been tried in vain.
    pub rounds: u32,
    /// Not to try again before (time since boot).
    pub retry_at: Option<Duration>,
    /// Why the last try failed.
    pub last_failure: Option<String>,
    /// Why each level failed last, by the level's name.
    pub by_level: BTreeMap<String, String>,
    /// The last try's failure calls for a human, for this reason, until a try succeeds.
    pub alarm: Option<Escalation>,
}

impl LevelTries {
    /// The pause after a try that failed, if it is not over: until when (time since boot), and why the try failed.
    pub fn pause(&self, now: Duration) -> Option<(Duration, String)> {
        let until = self.retry_at.filter(|at| now < *at)?;
        Some((until, self.last_failure.clone().unwrap_or_default()))
    }
}

/// The turn of the level that rests on a manual confirmation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ConfirmationTurn {
    /// It has had its turn: after this order.
    pub tried: Option<u64>,
    /// A device, the Lease or the kubelet has spoken against the confirmation, in these words: it is not valid any more (S21).
    pub refused: Option<String>,
}
