//! What was learned in the sessions with a system: a job makes its own driver, and the next job's knows by it that the device has taken our off, or
//! this login.

use fencing_drivers::credentials::Digest;
use fencing_drivers::past::Past;
use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

/// By target, with the login that it is of.
#[derive(Debug, Default)]
pub(super) struct Pasts(Mutex<HashMap<String, (Digest, Past)>>);

impl Pasts {
    /// Of the sessions with this target, the next of which logs in with this.
    pub(super) fn of(&self, target: String, login: Digest) -> Past {
        let mut pasts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (known, past) = pasts
            .entry(target)
            .or_insert_with(|| (login, Past::default()));
        if *known != login {
            (*known, *past) = (login, past.of_another_login());
        }
        past.clone()
    }

    /// Drops what is of none of these targets.
    pub(super) fn keep_those_of<'a>(&self, targets: impl Iterator<Item = &'a String>) {
        let targets: HashSet<&String> = targets.collect();
        let mut pasts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pasts.retain(|target, _| targets.contains(target));
    }
}
