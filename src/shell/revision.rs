//! Has the cluster gone back in time?

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// The newest resourceVersion seen. A quorum LIST that is older means that etcd was restored from a backup (S18); the
/// numbers are comparable since Kubernetes 1.35 by contract (KEP-5504) and before by implementation. Lists are only read for incidents, and
/// a cluster that goes on overtakes what was seen, as one does at once whose etcd was restored with `--bump-revision`: that raises the versions of
/// lists, and those of no object. So the Lease is looked at too, which every replica reads or writes every few seconds, and each Node that is
/// read. Cheap to clone.
#[derive(Default, Clone)]
pub struct Revision {
    state: Arc<Mutex<State>>,
    went_back: Arc<Notify>,
}

#[derive(Default)]
struct State {
    newest: u64,
    /// The uid and the newest version of each Node, by name.
    nodes: BTreeMap<String, (String, u64)>,
    /// Why every destructive step is frozen.
    frozen: Option<String>,
}

impl Revision {
    /// The newest resourceVersion so far: to be asked before a LIST is sent, because answers may overtake each other.
    pub fn newest(&self) -> u64 {
        self.lock().newest
    }

    /// Takes note of the resourceVersion of an object that a watch has shown. It may be an old one, but it has been.
    pub fn saw(&self, resource_version: Option<&str>) {
        let number = resource_version.and_then(|text| text.parse::<u64>().ok());
        let mut state = self.lock();
        state.newest = state.newest.max(number.unwrap_or_default());
    }

    /// Takes note of the resourceVersion of a quorum LIST that was sent when `newest` was the newest.
    pub fn note(&self, newest: u64, resource_version: Option<&str>) {
        let Some(number) = resource_version.and_then(|text| text.parse::<u64>().ok()) else {
            return;
        };
        self.compare(newest, number);
        let mut state = self.lock();
        state.newest = state.newest.max(number);
    }

    /// Takes note of two versions of one object, of which `now` was asked for when `before` was known. It may be kept in another etcd than
    /// all others (`--etcd-servers-overrides`), so it is compared with itself only.
    pub fn note_same(&self, before: &str, now: &str) {
        if let (Ok(before), Ok(now)) = (before.parse(), now.parse()) {
            self.compare(before, now);
        }
    }

    /// Takes note of a Node that a watch has shown. It may be an old one, but it has been.
    pub fn saw_node(&self, name: &str, uid: &str, version: &str) {
        let Ok(version) = version.parse::<u64>() else {
            return;
        };
        let mut state = self.lock();
        let known = state.nodes.entry(name.to_owned()).or_default();
        let newest = match known.0 == uid {
            true => version.max(known.1),
            false => version,
        };
        *known = (uid.to_owned(), newest);
    }

    /// The Node is gone.
    pub fn forget_node(&self, name: &str) {
        self.lock().nodes.remove(name);
    }

    /// The uid of the Node and its newest version so far: to be asked before a GET of it is sent.
    pub fn node(&self, name: &str) -> Option<(String, u64)> {
        self.lock().nodes.get(name).cloned()
    }

    /// Takes note of a Node that was read by quorum, and asked for when `seen` was known of it.
    pub fn note_node(&self, seen: Option<(String, u64)>, uid: &str, version: &str) {
        if let (Some((of, before)), Ok(now)) = (seen, version.parse())
            && of == uid
        {
            self.compare(before, now);
        }
    }

    /// Why every destructive step is frozen, if it is.
    pub fn frozen(&self) -> Option<String> {
        self.lock().frozen.clone()
    }

    /// Completes when the cluster is seen to go back after this call, even if that is before it is polled.
    pub fn went_back(&self) -> impl Future<Output = ()> + Send + use<> {
        Arc::clone(&self.went_back).notified_owned()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn compare(&self, before: u64, now: u64) {
        let mut state = self.lock();
        if now >= before || state.frozen.is_some() {
            return;
        }
        let words = format!(
            "the cluster's resourceVersion went back from {before} to {now} (etcd was restored); check what runs where, then restart the operator"
        );
        tracing::error!(%words, "frozen");
        state.frozen = Some(words);
        self.went_back.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S18: `--bump-revision` raises the versions of lists, and those of no object.
    #[test]
    fn a_node_that_is_older_than_it_was_is_a_cluster_that_went_back() {
        let revision = Revision::default();
        let read = |uid: &str, version: &str| {
            let seen = revision.node("worker-1");
            revision.note_node(seen, uid, version);
            revision.frozen()
        };
        assert_eq!(read("uid-1", "50"), None);
        revision.saw_node("worker-1", "uid-1", "120");
        // A watch that begins anew may tell of the past.
        revision.saw_node("worker-1", "uid-1", "90");
        assert_eq!(revision.node("worker-1"), Some(("uid-1".to_owned(), 120)));
        assert_eq!(read("uid-1", "120"), None);
        // It was asked for before the watch has shown a newer one.
        let seen = revision.node("worker-1");
        revision.saw_node("worker-1", "uid-1", "130");
        revision.note_node(seen, "uid-1", "125");
        assert_eq!(revision.frozen(), None);
        // Another Node of its name, and one that is gone.
        assert_eq!(read("uid-2", "100"), None);
        revision.forget_node("worker-1");
        assert_eq!(read("uid-1", "100"), None);
        revision.saw_node("worker-1", "uid-1", "130");
        let words = read("uid-1", "100").unwrap_or_default();
        assert!(words.contains("130") && words.contains("100"), "{words}");
    }

    /// S18: a quorum LIST older than what was seen before it was sent means that etcd was restored.
    #[test]
    fn a_cluster_that_went_back_is_frozen() {
        let revision = Revision::default();
        revision.saw(Some("120"));
        revision.saw(Some("90"));
        revision.note(revision.newest(), Some("121"));
        assert_eq!(revision.frozen(), None);
        revision.note(revision.newest(), Some("100"));
        let words = revision.frozen().unwrap_or_default();
        assert!(words.contains("121") && words.contains("100"), "{words}");
    }

    /// Answers may overtake each other: what was seen after a LIST was sent says nothing about it.
    #[test]
    fn an_answer_that_was_overtaken_freezes_nothing() {
        let revision = Revision::default();
        let newest = revision.newest();
        revision.saw(Some("120"));
        revision.note(newest, Some("119"));
        assert_eq!(revision.frozen(), None);
    }
}
