//! Wakes the loops of incidents, and remembers why: most of what a watch tells of an incident is the echo of what its last round has read or
//! written itself, and another round would read it all once more.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc;

/// Why a loop is woken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// Its Node has this version (`metadata.resourceVersion`).
    Node(String),
    /// Its NodeFence has this version.
    Fence(String),
    /// A VolumeAttachment of its Node was added, changed or deleted.
    Attachment,
    /// Anything else: there is something to do.
    Other,
}

/// All that has woken a loop since its last round.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Why {
    node: Option<String>,
    fence: Option<String>,
    attachment: bool,
    other: bool,
}

/// What a loop does about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heed {
    /// A round at once.
    Now,
    /// A round soon: more of the kind will follow, and one round does for all of them.
    Soon,
    /// Nothing: the last round knew it.
    Not,
}

impl Why {
    fn add(&mut self, reason: Reason) {
        match reason {
            Reason::Node(version) => self.node = Some(version),
            Reason::Fence(version) => self.fence = Some(version),
            Reason::Attachment => self.attachment = true,
            Reason::Other => self.other = true,
        }
    }

    /// The last round has read the Node in this version, and wrote or read the NodeFence in that one; `waits`: VolumeAttachments are left, or a
    /// device has yet to answer. A watch may be behind what was read by quorum: an older version is no news either.
    #[must_use]
    pub fn heed(&self, node: Option<&str>, fence: Option<&str>, waits: bool) -> Heed {
        let is_known = |told: &Option<String>, known: Option<&str>| {
            let is_old = |told: &str| Some(told) == known || is_older(told, known);
            told.as_deref().is_none_or(is_old)
        };
        if self.other || !is_known(&self.node, node) || !is_known(&self.fence, fence) {
            return Heed::Now;
        }
        match (self.attachment, waits) {
            (false, _) => Heed::Not,
            (true, true) => Heed::Soon,
            (true, false) => Heed::Now,
        }
    }
}

/// Is this version of an object older than the one that is known of it? They are numbers that grow ([`super::revision`]); what is none is news.
fn is_older(told: &str, known: Option<&str>) -> bool {
    let number = |version: &str| version.parse::<u64>().ok();
    let (told, known) = (number(told), known.and_then(number));
    told.zip(known).is_some_and(|(told, known)| told < known)
}

/// The way to all loops.
#[derive(Clone)]
pub struct Wakes {
    names: mpsc::UnboundedSender<String>,
    why: Arc<Mutex<HashMap<String, Why>>>,
}

impl Wakes {
    /// And the names of the NodeFences that are woken.
    #[must_use]
    pub fn new() -> (Self, mpsc::UnboundedReceiver<String>) {
        let (names, woken) = mpsc::unbounded_channel();
        let why = Arc::default();
        (Self { names, why }, woken)
    }

    /// Wakes the loop of this NodeFence.
    pub fn wake(&self, fence: String, reason: Reason) {
        self.why().entry(fence.clone()).or_default().add(reason);
        // The receiver is gone only while the operator ends.
        let _ = self.names.send(fence);
    }

    /// Why this loop was woken; none: its own time has come.
    #[must_use]
    pub fn take(&self, fence: &str) -> Option<Why> {
        self.why().remove(fence)
    }

    fn why(&self) -> MutexGuard<'_, HashMap<String, Why>> {
        self.why.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(reasons: &[Reason]) -> Why {
        let (wakes, _woken) = Wakes::new();
        for reason in reasons {
            wakes.wake("fence".to_owned(), reason.clone());
        }
        let why = wakes.take("fence").expect("it was woken");
        assert_eq!(wakes.take("fence"), None);
        why
    }

    #[test]
    fn the_echo_of_what_the_last_round_knew_is_no_news() {
        let node = |version: &str| Reason::Node(version.to_owned());
        let fence = |version: &str| Reason::Fence(version.to_owned());
        let heed = |reasons: &[Reason]| why(reasons).heed(Some("7"), Some("8"), true);
        assert_eq!(heed(&[node("7")]), Heed::Not);
        assert_eq!(heed(&[node("7"), fence("8")]), Heed::Not);
        assert_eq!(heed(&[node("6"), fence("7")]), Heed::Not);
        assert_eq!(heed(&[node("10")]), Heed::Now);
        assert_eq!(heed(&[node("unknown")]), Heed::Now);
        assert_eq!(heed(&[node("7"), fence("9")]), Heed::Now);
        assert_eq!(heed(&[node("7"), node("9")]), Heed::Now);
        assert_eq!(heed(&[node("7"), Reason::Other]), Heed::Now);
        assert_eq!(heed(&[Reason::Attachment]), Heed::Soon);
        assert_eq!(heed(&[Reason::Attachment, node("9")]), Heed::Now);
        let unread = why(&[node("7")]).heed(None, Some("8"), true);
        assert_eq!(unread, Heed::Now);
        let detached = why(&[Reason::Attachment]).heed(Some("7"), Some("8"), false);
        assert_eq!(detached, Heed::Now);
    }
}
