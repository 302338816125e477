//! An instant on this machine, readable by a person and comparable between processes.
//!
//! Everything of a lab runs on one machine, so the kernel's monotonic clock orders a write of a container, an attach by
//! the CSI controller and a power cut exactly, whichever process saw them. The wall clock stands beside it, for people
//! and for times that the API server stored.

use std::time::Duration;

use jiff::Timestamp;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// One instant, by the wall clock and by `CLOCK_MONOTONIC`. Ordered by the latter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Moment {
    /// Nanoseconds of `CLOCK_MONOTONIC`; the same for every process of the machine.
    pub monotonic_ns: u64,
    /// The wall clock at the same instant.
    pub wall: Timestamp,
}

impl Moment {
    /// Now.
    pub fn now() -> Self {
        let now = clock_gettime(ClockId::Monotonic);
        Self {
            monotonic_ns: now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64,
            wall: Timestamp::now(),
        }
    }

    /// The moment at which the wall clock showed `wall`, given that it was not set since.
    pub fn at_wall(wall: Timestamp) -> Self {
        let now = Self::now();
        let ago_ns = now.wall.duration_since(wall).as_nanos();
        let monotonic_ns = (i128::from(now.monotonic_ns) - ago_ns).max(0);
        Self {
            monotonic_ns: u64::try_from(monotonic_ns).unwrap_or(u64::MAX),
            wall,
        }
    }

    /// Seconds from `earlier` to this moment; negative if it is the other way round.
    pub fn seconds_since(self, earlier: Self) -> f64 {
        (self.monotonic_ns as f64 - earlier.monotonic_ns as f64) / 1e9
    }

    /// The time from `earlier` to this moment; zero if it is the other way round.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.monotonic_ns.saturating_sub(earlier.monotonic_ns))
    }
}

impl std::fmt::Display for Moment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.wall.strftime("%H:%M:%S%.6f"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_wall_time_is_placed_on_the_monotonic_clock() {
        let then = Moment::now();
        std::thread::sleep(Duration::from_millis(5));
        let placed = Moment::at_wall(then.wall);
        assert!(
            placed.seconds_since(then).abs() < 0.002,
            "{placed:?} should be {then:?}"
        );
    }
}
