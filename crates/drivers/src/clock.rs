//! The only file that reads a clock, but for `shell/policy_status.rs`, which paces its writes by the runtime's.
//!
//! Two clocks, for two purposes that must never be mixed. Decisions use the time since this host booted, on a clock that
//! goes on counting while the host is suspended: it never jumps, and an operator that slept for an hour sees that its proof
//! is an hour old (a hypervisor that pauses the whole machine stops this clock too). Records use the wall clock, which may jump and therefore decides nothing.
//!
//! Code that measures takes a [`Clock`] as an argument, so that a simulation can hand in its own.

use jiff::Timestamp;
#[cfg(unix)]
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Where the time comes from: two functions, so that it can be copied freely and replaced in a simulation.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    /// Time since boot, suspend included. Never goes back.
    pub since_boot: fn() -> Duration,
    /// Wall clock, for records only.
    pub wall: fn() -> Timestamp,
}

impl Clock {
    /// The clocks of this host.
    pub const SYSTEM: Self = Self { since_boot, wall };

    /// Time since boot, suspend included.
    #[must_use]
    pub fn since_boot(&self) -> Duration {
        (self.since_boot)()
    }

    /// Wall clock, for records only.
    #[must_use]
    pub fn wall(&self) -> Timestamp {
        (self.wall)()
    }
}

/// The clock that counts suspend.
#[cfg(target_os = "linux")]
const COUNTS_SUSPEND: ClockId = ClockId::Boottime;
/// The same on macOS, where people type `kubectl fence` and no operator runs: `CLOCK_MONOTONIC` of its clock_gettime(3).
#[cfg(target_vendor = "apple")]
const COUNTS_SUSPEND: ClockId = ClockId::Monotonic;

/// Time since this host booted, on the clock that counts suspend (`CLOCK_BOOTTIME`).
#[cfg(unix)]
#[must_use]
pub fn since_boot() -> Duration {
    let now = clock_gettime(COUNTS_SUSPEND);
    // The kernel never gives a negative time since boot, nor a nanosecond part of a second or more.
    Duration::new(
        u64::try_from(now.tv_sec).unwrap_or_default(),
        u32::try_from(now.tv_nsec).unwrap_or_default(),
    )
}

/// On Windows, where only `kubectl fence` runs: time since it was first asked, which is enough for how long something takes.
#[cfg(windows)]
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the one place that asks")]
pub fn since_boot() -> Duration {
    use std::sync::LazyLock;
    use std::time::Instant;
    static FIRST: LazyLock<Instant> = LazyLock::new(Instant::now);
    FIRST.elapsed()
}

/// Wall clock. For records and the claim's date, of which only equality counts: it may jump, so nothing is decided by it.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the one place that asks")]
pub fn wall() -> Timestamp {
    Timestamp::now()
}

/// The same as the API server prints a date: RFC 3339, whole seconds.
#[must_use]
pub fn date() -> String {
    wall().strftime("%FT%TZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_since_boot_advances_and_is_that_of_the_kernel() {
        let first = since_boot();
        let uptime = std::fs::read_to_string("/proc/uptime").expect("Linux");
        let seconds: f64 = uptime
            .split(' ')
            .next()
            .and_then(|s| s.parse().ok())
            .expect("seconds since boot");
        let second = since_boot();
        assert!(first <= second);
        // /proc/uptime has hundredths of a second, cut off.
        assert!(
            (seconds - first.as_secs_f64()).abs() < 5.0,
            "{seconds} is far from {first:?}"
        );
    }
}
