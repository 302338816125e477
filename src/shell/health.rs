//! What `/livez` and `/readyz` say.
//!
//! Alive means that the process goes round its loop; it never depends on the API server, because a restart would not bring
//! that back. Ready means that it could fence now; each [`Gate`] that is not open gives its reason.

use fencing_drivers::clock;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The main loop that has not come round for this long hangs.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// Something that must be so before the operator can fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gate {
    /// The API server answers and has what we need.
    Cluster,
    /// RBAC grants every verb.
    Rights,
    /// The caches have been filled.
    Caches,
}

impl Gate {
    const ALL: [(Self, &'static str); 3] = [
        (Self::Cluster, "the API server has not answered yet"),
        (
            Self::Rights,
            "the operator's rights have not been checked yet",
        ),
        (Self::Caches, "the caches have not been filled yet"),
    ];
}

/// The state of this process, shared by everything that knows a part of it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Health(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    closed: BTreeMap<Gate, Vec<String>>,
    beat: Option<Duration>,
}

impl Default for Health {
    fn default() -> Self {
        let closed = Gate::ALL.map(|(gate, reason)| (gate, vec![reason.to_owned()]));
        Self(Arc::new(Mutex::new(State {
            closed: closed.into(),
            beat: None,
        })))
    }
}

impl Health {
    /// Nothing stands in the way here any more.
    pub fn open(&self, gate: Gate) {
        self.with(|state| state.closed.remove(&gate));
    }

    /// Not ready, for these reasons: a line each.
    pub fn close(&self, gate: Gate, reasons: Vec<String>) {
        self.with(|state| state.closed.insert(gate, reasons));
    }

    /// The main loop came round. The first call starts the watch over it: from then on it must come round.
    pub fn beat(&self) {
        let now = clock::since_boot();
        self.with(|state| state.beat = Some(now));
    }

    /// Why the process is not ready; nothing if it is.
    #[must_use]
    pub fn not_ready(&self) -> Vec<String> {
        self.with(|state| state.closed.values().flatten().cloned().collect())
    }

    /// Why the process is not alive; nothing if it is.
    #[must_use]
    pub fn not_alive(&self) -> Option<String> {
        self.not_alive_at(clock::since_boot())
    }

    fn not_alive_at(&self, now: Duration) -> Option<String> {
        let silence = now.saturating_sub(self.with(|state| state.beat)?);
        (silence > SILENCE_MAX).then(|| {
            format!(
                "the main loop has not completed a round for {} s",
                silence.as_secs()
            )
        })
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        // The state is a plain value: it is whole even if a thread panicked over it.
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_means_that_every_gate_is_open() {
        let health = Health::default();
        assert_eq!(health.not_ready().len(), Gate::ALL.len());
        for (gate, _) in Gate::ALL {
            health.open(gate);
        }
        assert!(health.clone().not_ready().is_empty());
        let missing = vec!["patch nodes".to_owned(), "list pods".to_owned()];
        health.close(Gate::Rights, missing.clone());
        assert_eq!(health.not_ready(), missing);
    }

    #[test]
    fn only_a_loop_that_hangs_is_not_alive() {
        let health = Health::default();
        assert_eq!(
            health.not_alive_at(Duration::MAX),
            None,
            "the loop has not begun"
        );
        health.beat();
        let now = clock::since_boot();
        assert_eq!(health.not_alive(), None);
        assert_eq!(health.not_alive_at(now + Duration::from_secs(59)), None);
        let words = health.not_alive_at(now + Duration::from_secs(62));
        assert!(words.is_some_and(|words| words.starts_with("the main loop")));
    }
}
