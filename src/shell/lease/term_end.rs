//! When the term of a leader ends, and whether its work goes on: what its threads tell each other.

use fencing_drivers::clock;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

/// When the term of this replica ends, for whoever is about to do what only a leader does. By default it has ended.
#[derive(Debug, Clone, Default)]
pub struct TermEnd(Arc<AtomicU64>);

impl TermEnd {
    /// Of a leader for ever.
    #[cfg(test)]
    pub fn never() -> Self {
        Self(Arc::new(AtomicU64::new(u64::MAX)))
    }

    /// It ends then (time since boot), or has ended.
    pub fn set(&self, until: Option<Duration>) {
        let millis = until.unwrap_or_default().as_millis();
        let millis = u64::try_from(millis).unwrap_or(u64::MAX);
        self.0.store(millis, Ordering::Relaxed);
    }

    /// Has it ended?
    #[must_use]
    pub fn is_over(&self, now: Duration) -> bool {
        now.as_millis() >= u128::from(self.0.load(Ordering::Relaxed))
    }

    /// Goes on with this while the term lasts, which is looked at each time before it goes on: after a suspend of the host nothing of it is done
    /// any more (F13). `None`: the term has ended.
    pub async fn lasts<T>(&self, what: impl Future<Output = T>) -> Option<T> {
        let mut what = pin!(what);
        poll_fn(|task| match self.is_over(clock::since_boot()) {
            true => Poll::Ready(None),
            false => what.as_mut().poll(task).map(Some),
        })
        .await
    }
}

/// When the work of a leader had its turn last, by the clock of the boot.
#[derive(Clone, Debug, Default)]
pub struct Pulse(Arc<AtomicU64>);

impl Pulse {
    /// It has its turn now.
    pub fn beat(&self, now: Duration) {
        let millis = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        self.0.store(millis, Ordering::Relaxed);
    }

    /// How long ago that was.
    #[must_use]
    pub fn age(&self, now: Duration) -> Duration {
        now.saturating_sub(Duration::from_millis(self.0.load(Ordering::Relaxed)))
    }
}
