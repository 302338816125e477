//! What etcd and the watch cache hold: the objects as they are, what happened to them, and who watches.
//!
//! Every write goes through [`Store::commit`], which gives it the next resourceVersion, tells the watches, and tells whoever
//! listens to all writes: that is where a simulation judges them.

use crate::kinds::{EVENT, Kind, LEASE};
use crate::select::Selector;
use bytes::Bytes;
use futures::channel::mpsc::UnboundedSender;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Changes that a watch may begin behind.
const CHANGES_KEPT: usize = 4096;

/// Namespace and name; the namespace is empty for what lives in none.
pub type Key = (String, String);

/// An object, and how it is written.
#[derive(Debug, Clone)]
pub struct Stored {
    /// The object.
    pub value: Arc<Value>,
    /// In JSON.
    pub json: Bytes,
}

/// What happened to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It was created.
    Added,
    /// It was changed.
    Modified,
    /// It was deleted.
    Deleted,
}

/// A write, as it was done.
#[derive(Debug, Clone)]
pub struct Write {
    /// Who wrote.
    pub actor: Arc<str>,
    /// What.
    pub kind: &'static Kind,
    /// Which.
    pub key: Key,
    /// How.
    pub change: Change,
    /// The object before.
    pub old: Option<Arc<Value>>,
    /// The object after; as it was last, if it is gone.
    pub new: Arc<Value>,
    /// The resourceVersion of it.
    pub version: u64,
}

/// Is told of every write, in order.
pub type Listener = Box<dyn FnMut(&Write) + Send>;

struct Past {
    version: u64,
    kind: &'static Kind,
    change: Change,
    object: Stored,
    /// A selector may have matched the object before.
    old: Option<Arc<Value>>,
}

struct Watch {
    kind: &'static Kind,
    namespace: Option<String>,
    selector: Selector,
    lines: UnboundedSender<Bytes>,
}

/// Everything.
pub struct Store {
    objects: BTreeMap<&'static str, BTreeMap<Key, Stored>>,
    version: u64,
    /// Watches may not begin before this version.
    compacted: u64,
    past: VecDeque<Past>,
    watches: Vec<Watch>,
    listener: Option<Listener>,
    uids: u64,
    /// Writes, but for Leases and Events.
    moves: u64,
}

impl Default for Store {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            version: 100,
            compacted: 100,
            past: VecDeque::new(),
            watches: Vec::new(),
            listener: None,
            uids: 0,
            moves: 0,
        }
    }
}

impl Store {
    /// The newest resourceVersion.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// How often something was written, but for Leases and Events, which are written without end.
    #[must_use]
    pub fn moves(&self) -> u64 {
        self.moves
    }

    /// A UID that nobody has.
    pub fn uid(&mut self) -> String {
        self.uids += 1;
        format!("{:08x}-51b1-4000-8000-{:012x}", self.uids, self.uids)
    }

    /// From now on `listener` hears of every write.
    pub fn listen(&mut self, listener: Listener) {
        self.listener = Some(listener);
    }

    /// The object.
    #[must_use]
    pub fn get(&self, kind: &Kind, key: &Key) -> Option<&Stored> {
        self.objects.get(kind.plural)?.get(key)
    }

    /// All of a kind, in the order of their names.
    pub fn all(&self, kind: &Kind) -> impl Iterator<Item = (&Key, &Stored)> {
        self.objects.get(kind.plural).into_iter().flatten()
    }

    /// Writes: `new` is what is to be there, none to delete. Gives the object with its new version.
    pub fn commit(
        &mut self,
        actor: &Arc<str>,
        kind: &'static Kind,
        key: Key,
        new: Option<Value>,
    ) -> Stored {
        self.version += 1;
        self.moves += u64::from(*kind != LEASE && *kind != EVENT);
        let version = self.version;
        let objects = self.objects.entry(kind.plural).or_default();
        let old = objects.get(&key).map(|old| Arc::clone(&old.value));
        let (change, mut value) = match (new, &old) {
            (Some(new), None) => (Change::Added, new),
            (Some(new), Some(_)) => (Change::Modified, new),
            (None, Some(old)) => (Change::Deleted, Value::clone(old)),
            (None, None) => (Change::Deleted, json!({"metadata": {}})),
        };
        value["metadata"]["resourceVersion"] = json!(version.to_string());
        let stored = Stored {
            json: value.to_string().into(),
            value: Arc::new(value),
        };
        match change {
            Change::Deleted => objects.remove(&key),
            Change::Added | Change::Modified => objects.insert(key.clone(), stored.clone()),
        };
        let past = Past {
            version,
            kind,
            change,
            object: stored.clone(),
            old: old.clone(),
        };
        self.watches.retain(|watch| watch.tell(&past));
        self.past.push_back(past);
        if self.past.len() > CHANGES_KEPT
            && let Some(gone) = self.past.pop_front()
        {
            self.compacted = gone.version;
        }
        if let Some(mut listener) = self.listener.take() {
            listener(&Write {
                actor: Arc::clone(actor),
                kind,
                key,
                change,
                old,
                new: Arc::clone(&stored.value),
                version,
            });
            self.listener = Some(listener);
        }
        stored
    }

    /// Forgets what happened: no watch may begin before now.
    pub fn compact(&mut self) {
        self.past.clear();
        self.compacted = self.version;
    }

    /// Watches may begin at this version.
    pub fn remember_from(&mut self, version: u64) {
        self.compacted = version;
    }

    /// Ends all watches.
    pub fn end_watches(&mut self) {
        self.watches.clear();
    }

    /// Sends to `lines` what happens from this version on. Refused if that is forgotten.
    ///
    /// # Errors
    /// The oldest version that a watch may begin at.
    pub fn watch(
        &mut self,
        (kind, namespace): (&'static Kind, Option<String>),
        selector: Selector,
        from: u64,
        lines: UnboundedSender<Bytes>,
    ) -> Result<(), u64> {
        if from < self.compacted {
            return Err(self.compacted);
        }
        let watch = Watch {
            kind,
            namespace,
            selector,
            lines,
        };
        let mut missed = self.past.iter().filter(|past| past.version > from);
        if missed.all(|past| watch.tell(past)) {
            self.watches.push(watch);
        }
        Ok(())
    }

    /// The cluster as it is, to be put back later.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            objects: self.objects.clone(),
            version: self.version,
        }
    }

    /// Puts an older state back, with its older resourceVersion, as a restore of etcd does: all watches end, and none may begin before.
    pub fn restore(&mut self, snapshot: Snapshot) {
        self.objects = snapshot.objects;
        self.version = snapshot.version;
        self.moves += 1;
        self.past.clear();
        self.compacted = self.version;
        self.watches.clear();
    }
}

/// An older state.
pub struct Snapshot {
    objects: BTreeMap<&'static str, BTreeMap<Key, Stored>>,
    version: u64,
}

impl Watch {
    /// `false`: nobody listens any more.
    fn tell(&self, past: &Past) -> bool {
        if past.kind != self.kind || !self.is_of_namespace(&past.object.value) {
            return !self.lines.is_closed();
        }
        let matches = self.selector.matches(&past.object.value);
        let matched = past
            .old
            .as_ref()
            .is_some_and(|old| self.selector.matches(old));
        let word = match (past.change, matches, matched) {
            (Change::Deleted, _, true) | (Change::Modified, false, true) => "DELETED",
            (Change::Modified, true, true) => "MODIFIED",
            (Change::Added | Change::Modified, true, false) => "ADDED",
            _ => return !self.lines.is_closed(),
        };
        self.lines
            .unbounded_send(line(word, &past.object.json))
            .is_ok()
    }

    fn is_of_namespace(&self, object: &Value) -> bool {
        let namespace = object["metadata"]["namespace"].as_str();
        self.namespace.is_none() || self.namespace.as_deref() == namespace
    }
}

/// A line of a watch.
pub fn line(word: &str, object: &[u8]) -> Bytes {
    let mut line = Vec::with_capacity(object.len() + 40);
    line.extend_from_slice(br#"{"type":""#);
    line.extend_from_slice(word.as_bytes());
    line.extend_from_slice(br#"","object":"#);
    line.extend_from_slice(object);
    line.extend_from_slice(b"}\n");
    line.into()
}
