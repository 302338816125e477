//! The dice of a seed: everything that is left to chance is drawn here.

use fencing_testbed::splitmix64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Cheap to clone; all clones draw from one sequence.
#[derive(Clone)]
pub struct Dice(Arc<Mutex<u64>>);

impl Dice {
    /// The dice of this seed.
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(
            seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ 0x5eed,
        )))
    }

    fn draw(&self) -> u64 {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        splitmix64::next(&mut state)
    }

    /// One of `least..=most`.
    pub fn between(&self, least: u64, most: u64) -> u64 {
        least + self.draw() % (most - least + 1)
    }

    /// True in so many of a hundred cases.
    pub fn chance(&self, percent: u64) -> bool {
        self.draw() % 100 < percent
    }

    /// One of them.
    pub fn pick<'a, T>(&self, of: &'a [T]) -> &'a T {
        let last = u64::try_from(of.len() - 1).expect("a length");
        &of[usize::try_from(self.between(0, last)).expect("an index")]
    }

    /// Between two times in milliseconds.
    pub fn millis(&self, least: u64, most: u64) -> Duration {
        Duration::from_millis(self.between(least, most))
    }

    /// Between two times in seconds, to the millisecond.
    pub fn seconds(&self, least: u64, most: u64) -> Duration {
        self.millis(least * 1000, most * 1000)
    }
}
