//! How often a login is tried again, by what has stood in its way.

use super::super::codec::rakp::{Privilege, Status};
use super::Failure;
use std::time::Duration;

/// A full table of sessions is met so often before it is reported.
const EXHAUSTED_MAX: u32 = 3;
/// Pause after it, the first time; it doubles.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(250);
/// A session that the BMC has forgotten while it was opened is begun anew so often.
const FORGOTTEN_MAX: u32 = 4;
/// Any other refusal is met so often before it is believed.
const REFUSALS_MAX: u32 = 2;
/// Pause between the two: a BMC that has just restarted knows its users a moment later.
const REFUSAL_PAUSE: Duration = Duration::from_millis(500);

/// What is wanted, and what has stood in the way so far.
#[derive(Debug, Clone, Copy)]
pub struct Login {
    pub privilege: Privilege,
    exhausted: u32,
    forgotten: u32,
    refusals: u32,
    /// The last refusal.
    pub refused: Option<Failure>,
    /// Sessions that the BMC has opened.
    pub opened: u32,
}

impl Login {
    /// Nothing has stood in the way yet.
    pub fn new(privilege: Privilege) -> Self {
        Self {
            privilege,
            exhausted: 0,
            forgotten: 0,
            refusals: 0,
            refused: None,
            opened: 0,
        }
    }

    /// Notes a refusal. Holds the pause before the next login, unless it has to be believed.
    pub fn refuse(&mut self, failure: Failure) -> Option<Duration> {
        self.refused = Some(failure);
        let doubled = |times: u32| 1_u32.checked_shl(times).unwrap_or(u32::MAX) / 2;
        let (count, count_max, pause) = match failure {
            Failure::Refused(_, Status::NO_RESOURCES | Status::NO_RESOURCES_FOR_ROLE) => {
                let pause =
                    EXHAUSTED_PAUSE.saturating_mul(doubled(self.exhausted.saturating_add(1)));
                (&mut self.exhausted, EXHAUSTED_MAX, pause)
            }
            // A payload that was sent twice may have made the BMC begin anew, or it has restarted.
            Failure::Refused(_, Status::INVALID_SESSION | Status::INACTIVE_SESSION) => {
                (&mut self.forgotten, FORGOTTEN_MAX, Duration::ZERO)
            }
            _ => (&mut self.refusals, REFUSALS_MAX, REFUSAL_PAUSE),
        };
        *count = count.saturating_add(1);
        (*count < count_max).then_some(pause)
    }
}
