//! What was read of a Secret or a ConfigMap a moment ago, for looks in peace time.
//!
//! A fleet has one login and one CA, and reading both anew is two requests to the API server for each look. So a look takes what
//! another one has read within the last seconds. A fence never does, nor does a look that somebody asked for, and a device that
//! refuses a login has its Secret read again whoever asks ([`super::renewal`]): nobody waits for an old password to be forgotten.
//! What could not be read, or not be used, is not kept. What is too old is wiped from memory when something else is read.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long something is recent. A password that is withdrawn is sent by looks that begin up to so much later, and by none after.
const RECENT: Duration = Duration::from_secs(5);

/// How new what is read has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// Read now, by quorum.
    Now,
    /// Read now, or a moment ago.
    Recent,
}

/// What was read, by what it was read from.
#[derive(Debug)]
pub(super) struct Recent<K, T>(Mutex<HashMap<K, (Duration, T)>>);

impl<K, T> Default for Recent<K, T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash, T: Clone> Recent<K, T> {
    /// What was read from there, if it is recent at `now` (time since boot) and that will do.
    pub(super) fn get(&self, from: &K, freshness: Freshness, now: Duration) -> Option<T> {
        if freshness == Freshness::Now {
            return None;
        }
        let kept = self.kept();
        let (read, found) = kept.get(from)?;
        is_recent(*read, now).then(|| found.clone())
    }

    /// Keeps what was read at `read`, and drops what is not recent by then.
    pub(super) fn put(&self, from: K, read: Duration, found: &T) {
        let mut kept = self.kept();
        kept.retain(|_, (before, _)| is_recent(*before, read));
        kept.insert(from, (read, found.clone()));
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<K, (Duration, T)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_recent(read: Duration, now: Duration) -> bool {
    now.saturating_sub(read) < RECENT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_old_is_not_taken_and_not_kept() {
        let recent = Recent::default();
        let at = Duration::from_secs;
        recent.put("a", at(10), &1);
        let seen = |second| recent.get(&"a", Freshness::Recent, at(second));
        assert_eq!((seen(10), seen(14), seen(15)), (Some(1), Some(1), None));
        assert_eq!(recent.get(&"a", Freshness::Now, at(10)), None);
        recent.put("b", at(15), &2);
        assert_eq!(recent.kept().len(), 1);
    }
}
