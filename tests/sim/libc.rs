//! Functions of the C library, in the way of the real ones: time and randomness of a thread that simulates come from its seed.
//!
//! The standard library, tokio, rustix and getrandom all end here, because a symbol of the executable goes before one of a shared
//! library. The program that is shipped has no such file, and so no switch that could falsify its time. Threads that simulate nothing
//! get what the kernel says.

#![expect(
    unsafe_code,
    reason = "symbols with the names and signatures of the C library, and calls of the kernel behind them"
)]

use fencing_testbed::splitmix64;
use std::cell::Cell;
use std::ffi::{c_int, c_long, c_uint, c_void};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// What the monotonic clock and the time since boot show when a simulation begins.
const BOOTED_SECONDS: u64 = 1_000_000;
/// What the wall clock shows then: 2026-01-01T00:00:00Z.
const WALL_SECONDS: u64 = 1_767_225_600;

thread_local! {
    static STATE: Cell<Option<u64>> = const { Cell::new(None) };
    static LAST: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    static ASKING: Cell<bool> = const { Cell::new(false) };
    static ORIGIN: OnceLock<Instant> = const { OnceLock::new() };
    /// What the clock that counts suspend is ahead, and the wall clock.
    static SUSPENDED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    static WALL_AHEAD: Cell<i64> = const { Cell::new(0) };
}

/// From now on this thread simulates.
#[expect(
    clippy::disallowed_methods,
    reason = "where the simulated clock begins"
)]
pub fn simulate(seed: u64) {
    STATE.set(Some(seed));
    ORIGIN.with(|origin| *origin.get_or_init(Instant::now));
}

/// Time since the simulation began.
pub fn elapsed() -> Duration {
    if !ASKING.replace(true) {
        // Without a runtime tokio would ask the clock, which is here.
        if tokio::runtime::Handle::try_current().is_ok() {
            let now = tokio::time::Instant::now().into_std();
            let origin = ORIGIN.with(|origin| origin.get().copied());
            LAST.set(origin.map_or(Duration::ZERO, |origin| now.duration_since(origin)));
        }
        ASKING.set(false);
    }
    LAST.get()
}

/// The same with the time in which the host slept.
pub fn since_boot() -> Duration {
    elapsed() + SUSPENDED.get()
}

/// The host sleeps for so long: nothing runs, no timer goes on, and only the clock that counts suspend notices.
pub fn suspend(time: Duration) {
    SUSPENDED.set(SUSPENDED.get() + time);
}

/// Somebody sets the wall clock.
pub fn set_wall(seconds_ahead: i64) {
    WALL_AHEAD.set(seconds_ahead);
}

fn simulated(clock: c_int) -> Duration {
    match clock {
        libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE => {
            let seconds = WALL_SECONDS.saturating_add_signed(WALL_AHEAD.get());
            Duration::from_secs(seconds) + elapsed() + SUSPENDED.get()
        }
        libc::CLOCK_BOOTTIME => Duration::from_secs(BOOTED_SECONDS) + elapsed() + SUSPENDED.get(),
        _ => Duration::from_secs(BOOTED_SECONDS) + elapsed(),
    }
}

/// Stands in for that of the C library.
///
/// # Safety
/// As there: `time` is where a time may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: c_int, time: *mut libc::timespec) -> c_int {
    if STATE.get().is_none() {
        // SAFETY: the caller's promise is the kernel's.
        let said = unsafe { libc::syscall(libc::SYS_clock_gettime, c_long::from(clock), time) };
        return c_int::try_from(said).unwrap_or(-1);
    }
    let now = simulated(clock);
    let now = libc::timespec {
        tv_sec: i64::try_from(now.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: now.subsec_nanos().into(),
    };
    // SAFETY: the caller promises that a time may be written there.
    unsafe { time.write(now) };
    0
}

/// Stands in for that of the C library.
///
/// # Safety
/// As there: `count` bytes may be written to `bytes`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getrandom(bytes: *mut c_void, count: usize, flags: c_uint) -> isize {
    let Some(mut state) = STATE.get() else {
        // SAFETY: the caller's promise is the kernel's.
        let said = unsafe { libc::syscall(libc::SYS_getrandom, bytes, count, flags) };
        return isize::try_from(said).unwrap_or(-1);
    };
    for at in 0..count {
        let drawn = splitmix64::next(&mut state);
        // SAFETY: the caller promises that `count` bytes may be written there.
        unsafe { bytes.cast::<u8>().add(at).write(drawn.to_le_bytes()[0]) };
    }
    STATE.set(Some(state));
    isize::try_from(count).unwrap_or(isize::MAX)
}

/// Stands in for that of the C library.
///
/// # Safety
/// As there: `count` bytes may be written to `bytes`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getentropy(bytes: *mut c_void, count: usize) -> c_int {
    // SAFETY: the caller's promise.
    let done = unsafe { getrandom(bytes, count, 0) };
    if done < 0 { -1 } else { 0 }
}
