//! What befalls a request, and the book of rules that says so.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use serde_json::Value;

use super::matcher::{Matcher, Seen};
use fencing_testbed::https::Gate;

/// What befalls a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// It is passed on after this time.
    Delay(Duration),
    /// The API server never sees it, and its client sees this.
    Before(Fate),
    /// The API server acts on it, and then its client sees this in place of the answer.
    After(Fate),
    /// The API server gets it twice, and its client the answer to the second one: so do balancers that try again by themselves.
    Twice,
    /// The API server acts on it, and its answer is spoiled.
    Spoil(Spoil),
    /// Its answer is dated so much later, as by an API server whose clock is ahead: whoever counts ages by that finds everything so much older.
    Dated(Duration),
    /// Its answer begins, and then nothing more comes: over a connection that died, a watch is silent for ever.
    Dead,
}

/// What a client sees in place of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// This status with a `Status` object, and `Retry-After` (seconds) if given.
    Status(u16, Option<u32>),
    /// Its connection is reset.
    Reset,
    /// Its connection is closed in good order.
    Close,
    /// Nothing, for ten minutes: it runs into its own time limit.
    Silence,
}

/// What is wrong with an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spoil {
    /// Its second half is missing; the length is announced as it was.
    Truncated,
    /// It is no JSON.
    Garbage,
    /// It is the right JSON, said to be `text/html`.
    WrongContentType,
    /// It is empty.
    Empty,
    /// It is JSON of another kind: a `Status` that says Success.
    OtherKind,
    /// It is a list without its items, which says that it goes on elsewhere.
    Partial,
}

/// What becomes of an event of a watch: nothing, itself, or others.
pub(super) type Edit = dyn Fn(Value) -> Vec<Value> + Send + Sync;

pub(super) enum Deed {
    Act(Action),
    Edit(Arc<Edit>),
    /// The API server is not asked: this JSON is its answer.
    Answer(Arc<Value>),
    HoldBefore(Gate),
    HoldAfter(Gate),
}

/// A rule in force. It stays in force when this is dropped.
#[derive(Clone)]
pub struct Rule(Arc<Entry>);

struct Entry {
    matcher: Matcher,
    // Taken out by the one request that is held.
    deed: Mutex<Option<Deed>>,
    seen: AtomicU32,
    hits: AtomicU32,
    removed: AtomicBool,
}

impl Rule {
    /// How many requests it has befallen.
    pub fn hits(&self) -> u32 {
        self.0.hits.load(Ordering::SeqCst)
    }

    /// Ends it.
    pub fn remove(&self) {
        self.0.removed.store(true, Ordering::SeqCst);
    }
}

/// The rules of one proxy, oldest first.
#[derive(Default)]
pub(super) struct Rules(Mutex<Vec<Arc<Entry>>>);

impl Rules {
    pub(super) fn add(&self, matcher: Matcher, deed: Deed) -> Rule {
        let entry = Arc::new(Entry {
            matcher,
            deed: Mutex::new(Some(deed)),
            seen: AtomicU32::new(0),
            hits: AtomicU32::new(0),
            removed: AtomicBool::new(false),
        });
        self.0
            .lock()
            .expect("no panic while rules are changed")
            .push(entry.clone());
        Rule(entry)
    }

    pub(super) fn clear(&self) {
        self.0
            .lock()
            .expect("no panic while rules are changed")
            .clear();
    }

    /// What befalls this request.
    pub(super) fn find(&self, seen: &Seen) -> Option<Deed> {
        let mut entries = self.0.lock().expect("no panic while rules are changed");
        entries.retain(|entry| !entry.is_spent());
        entries.iter().find_map(|entry| entry.take(seen))
    }
}

impl Entry {
    fn is_spent(&self) -> bool {
        let hits = self.hits.load(Ordering::SeqCst);
        let is_used_up = self.matcher.times.is_some_and(|times| hits >= times);
        let deed = self.deed.lock().expect("no panic while a rule is changed");
        is_used_up || deed.is_none() || self.removed.load(Ordering::SeqCst)
    }

    fn take(&self, seen: &Seen) -> Option<Deed> {
        if !self.matcher.matches(seen)
            || self.seen.fetch_add(1, Ordering::SeqCst) < self.matcher.skip
        {
            return None;
        }
        self.hits.fetch_add(1, Ordering::SeqCst);
        let mut deed = self.deed.lock().expect("no panic while a rule is changed");
        match &*deed {
            Some(Deed::Act(action)) => Some(Deed::Act(*action)),
            Some(Deed::Edit(edit)) => Some(Deed::Edit(Arc::clone(edit))),
            Some(Deed::Answer(answer)) => Some(Deed::Answer(Arc::clone(answer))),
            _ => deed.take(),
        }
    }
}
