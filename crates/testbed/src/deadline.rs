//! Every test has an end: one that hangs, or that spins, fails the run and says what it was waiting for.
//!
//! Waits have limits of their own ([`crate::eventually`]). This is for what has none by mistake: a loop that never yields, a lock, a request without
//! an answer. Such a test cannot be stopped from outside, so the process ends; what has been reported by then stands.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long a test may take: many times what the longest one takes on an idle machine.
const TEST_TIME_MAX: Duration = Duration::from_secs(20 * 60);
/// Pause between two looks.
const PAUSE: Duration = Duration::from_secs(5);

/// The tests that run, by the names of their threads, which are theirs.
static RUNNING: Mutex<BTreeMap<String, Running>> = Mutex::new(BTreeMap::new());

thread_local! {
    static TEST: RefCell<Option<Test>> = const { RefCell::new(None) };
}

#[derive(Debug, Clone)]
struct Running {
    since: Instant,
    waits_for: String,
}

/// The test of this thread; it is over when the thread is.
struct Test(String);

impl Drop for Test {
    fn drop(&mut self) {
        running().remove(&self.0);
    }
}

fn running() -> MutexGuard<'static, BTreeMap<String, Running>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The test of this thread has begun to use a control plane.
pub fn begin() {
    static WATCHDOG: Once = Once::new();
    let Some(name) = thread::current().name().map(str::to_owned) else {
        return;
    };
    // Programs of the lab run for as long as somebody looks at them.
    if name == "main" {
        return;
    }
    TEST.with_borrow_mut(|test| {
        if test.is_none() {
            let since = Instant::now();
            let waits_for = "a control plane".to_owned();
            running().insert(name.clone(), Running { since, waits_for });
            *test = Some(Test(name));
        }
    });
    WATCHDOG.call_once(|| {
        thread::spawn(|| {
            loop {
                thread::sleep(PAUSE);
                if let Some(words) = overdue(&running(), Instant::now(), TEST_TIME_MAX) {
                    eprintln!("{words}");
                    std::process::exit(101);
                }
            }
        });
    });
}

/// The test of this thread waits for this now.
pub fn waits_for(what: &str) {
    let name = TEST.with_borrow(|test| test.as_ref().map(|test| test.0.clone()));
    let mut running = running();
    if let Some(test) = name.and_then(|name| running.get_mut(&name)) {
        what.clone_into(&mut test.waits_for);
    }
}

/// The first test that has taken too long, in words.
fn overdue(running: &BTreeMap<String, Running>, now: Instant, limit: Duration) -> Option<String> {
    let (name, test) = running
        .iter()
        .find(|(_, test)| now.saturating_duration_since(test.since) > limit)?;
    Some(format!(
        "test {name} has not ended within {} s; it began to wait last for: {}",
        limit.as_secs(),
        test.waits_for
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_takes_too_long_is_named_with_what_it_waited_for() {
        begin();
        waits_for("a miracle");
        let name = thread::current().name().expect("a name").to_owned();
        let test = running().get(&name).cloned().expect("this test runs");
        let only = BTreeMap::from([(name.clone(), test.clone())]);
        let limit = Duration::from_secs(60);
        assert_eq!(overdue(&only, test.since + limit, limit), None);
        let late = test.since + limit + Duration::from_secs(1);
        let words = overdue(&only, late, limit).expect("it is overdue");
        assert_eq!(
            words,
            format!("test {name} has not ended within 60 s; it began to wait last for: a miracle")
        );
    }

    #[test]
    fn a_test_that_has_ended_is_forgotten() {
        let other = thread::Builder::new().name("another".to_owned());
        let begun = other.spawn(|| {
            begin();
            running().contains_key("another")
        });
        assert!(begun.expect("a thread").join().expect("its answer"));
        assert!(!running().contains_key("another"));
    }
}
