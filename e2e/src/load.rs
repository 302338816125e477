//! How much the machine has to do: a test begins later where others, ours or not, keep it busy.
//!
//! An API server that answers after seconds fails tests that are right. So a cluster waits for its turn while the load is far beyond what as many
//! tests as `E2E_THREADS` allows make by themselves, and for two minutes at most: work that never ends must not keep the tests from ending.

use std::time::{Duration, Instant};
use std::{fs, thread};

/// Tasks a core, as an average of a minute, beyond which no test begins. Twelve tests on two cores make some nine.
const LOAD_MAX: f64 = 12.0;
/// The longest wait.
const WAIT_MAX: Duration = Duration::from_secs(120);
/// Pause between two looks.
const PAUSE: Duration = Duration::from_secs(2);

/// Waits until the machine has room for one more cluster, or the wait has been long enough.
pub async fn wait_for_room() {
    let end = Instant::now() + WAIT_MAX;
    let cores = thread::available_parallelism().map_or(1, usize::from);
    while Instant::now() < end {
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        if !is_too_much(&load, cores) {
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Is this, as the kernel prints it, too much for so many cores? What cannot be read is not.
fn is_too_much(load: &str, cores: usize) -> bool {
    let load = load.split_whitespace().next();
    let load: Option<f64> = load.and_then(|it| it.parse().ok());
    let cores = f64::from(u32::try_from(cores).unwrap_or(u32::MAX));
    load.is_some_and(|load| load > LOAD_MAX * cores)
}

#[cfg(test)]
mod tests {
    use super::is_too_much;

    #[test]
    fn the_load_of_the_tests_themselves_is_not_too_much_and_that_of_a_crowd_is() {
        assert!(!is_too_much("18.75 12.95 6.01 17/812 4242\n", 2));
        assert!(is_too_much("28.10 20.00 9.00 31/812 4242\n", 2));
        assert!(!is_too_much("28.10 20.00 9.00 31/812 4242\n", 4));
        assert!(!is_too_much("", 2));
    }
}
