//! What all sessions with a machine's device know of the ones before.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// So long after it took a login, a refusal of the same one may be a passing one.
const TAKEN_WITHIN: Duration = Duration::from_mins(1);

/// It outlives a driver where whoever makes the next one for the system hands it on. Times are since boot of this host.
#[derive(Debug, Clone, Default)]
pub struct Past(Arc<Mutex<Times>>);

#[derive(Debug, Clone, Default)]
struct Times {
    /// The device has taken the command to turn the machine off.
    commanded: Option<Duration>,
    /// It has answered a request with a login, and none was asked twice since.
    taken: Option<Duration>,
    /// When the device itself was started, as it said last.
    started: Option<Duration>,
    /// What spoke against an Off last, and nothing since has shown otherwise.
    doubt: Option<&'static str>,
    /// The role of this login, if the device says that it may not switch.
    role: Option<String>,
}

impl Past {
    /// The same where another login is used from now on: that one has not been taken yet.
    #[must_use]
    pub fn of_another_login(&self) -> Self {
        let times = self.times(|times| times.clone());
        Self(Arc::new(Mutex::new(Times {
            taken: None,
            role: None,
            ..times
        })))
    }

    /// When the device last took the command to turn the machine off.
    pub(super) fn commanded(&self) -> Option<Duration> {
        self.times(|times| times.commanded)
    }

    /// It has taken the command, which was sent then: what spoke against an Off before may have gone with the power.
    pub(super) fn note_command(&self, sent: Duration) {
        self.times(|times| {
            times.commanded = Some(sent);
            times.doubt = None;
        });
    }

    /// When the device itself was started, as it said last.
    pub(super) fn started(&self) -> Option<Duration> {
        self.times(|times| times.started)
    }

    /// It says when it was started.
    pub(super) fn note_start(&self, started: Duration) {
        self.times(|times| times.started = Some(started));
    }

    /// What spoke against an Off last.
    pub(super) fn doubt(&self) -> Option<&'static str> {
        self.times(|times| times.doubt)
    }

    /// What speaks against this Off, or nothing does, or the machine reads On.
    pub(super) fn note_doubt(&self, doubt: Option<&'static str>) {
        self.times(|times| times.doubt = doubt);
    }

    /// The role of this login, if the device said last that it may not switch.
    pub(super) fn role_that_may_not(&self) -> Option<String> {
        self.times(|times| times.role.clone())
    }

    /// The device says which role may not switch, or that this login has one that may.
    pub(super) fn note_role(&self, that_may_not: Option<String>) {
        self.times(|times| times.role = that_may_not);
    }

    /// It has answered a request with this login.
    pub(super) fn note_taken(&self, now: Duration) {
        self.times(|times| times.taken = Some(now));
    }

    /// May a request that was refused be sent once more? Only right after the same login was taken, and once: more could lock the account.
    pub(super) fn may_ask_again(&self, now: Duration) -> bool {
        let taken = self.times(|times| times.taken.take());
        taken.is_some_and(|at| now.saturating_sub(at) <= TAKEN_WITHIN)
    }

    fn times<T>(&self, with: impl FnOnce(&mut Times) -> T) -> T {
        with(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
