//! Machines that a probe has read Off while their Node was not Ready: the detector does not wait for the policy's duration there.
//!
//! It only decides when an incident is opened. The incident asks the devices itself before it claims the node, and proves everything.

use super::cache::Change;
use fencing_core::observed::{NodeView, Ready};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;

/// By device and node, what was read last of a machine that is off.
#[derive(Clone)]
pub struct FoundOff {
    found: Arc<Mutex<BTreeMap<(String, String), Found>>>,
    news: mpsc::UnboundedSender<Change>,
}

/// A reading of Off.
struct Found {
    node_uid: String,
    boot_id: String,
    /// When it was asked for, since boot.
    asked: Duration,
}

impl FoundOff {
    /// Nothing is known yet. Whoever opens incidents hears of it as of a change of the Node.
    pub fn telling(news: mpsc::UnboundedSender<Change>) -> Self {
        Self {
            found: Arc::default(),
            news,
        }
    }

    /// The device was asked at this time since boot, and its Off counts for this Node; none: it does not say so, or no longer.
    pub fn note(&self, device: &str, node: &NodeView, off: Option<Duration>) {
        let off = off.filter(|_| node.ready() != Ready::True);
        let Some(asked) = off else {
            self.forget(device, &node.name);
            return;
        };
        let found = Found {
            node_uid: node.uid.clone(),
            boot_id: node.boot_id.clone(),
            asked,
        };
        let pair = (node.name.clone(), device.to_owned());
        self.found().insert(pair, found);
        // Nobody listens any more only while the operator ends.
        let _ = self.news.send(Change::Node(node.name.clone()));
    }

    /// The device does not serve this Node any more.
    pub fn forget(&self, device: &str, node: &str) {
        self.found().remove(&(node.to_owned(), device.to_owned()));
    }

    /// Has a device read Off of this Node's machine, in its boot, when it was asked after this time since boot?
    pub fn is_off(&self, node: &NodeView, since: Duration) -> bool {
        let found = self.found();
        let from = (node.name.clone(), String::new());
        let of_node = found
            .range(from..)
            .take_while(|((name, _), _)| *name == node.name);
        let is_it = |it: &Found| it.node_uid == node.uid && it.boot_id == node.boot_id;
        of_node
            .map(|(_, found)| found)
            .any(|it| is_it(it) && it.asked >= since)
    }

    fn found(&self) -> MutexGuard<'_, BTreeMap<(String, String), Found>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencing_core::fixtures;

    #[test]
    fn an_off_counts_for_this_boot_and_this_silence_alone() {
        let (news, mut heard) = mpsc::unbounded_channel();
        let found = FoundOff::telling(news);
        let silent = fixtures::node();
        let mut ready = silent.clone();
        ready.conditions[0].status = "True".to_owned();
        let seconds = Duration::from_secs;
        // Of a Node that is Ready it is no reason to begin.
        found.note("bmc", &ready, Some(seconds(10)));
        assert!(!found.is_off(&ready, seconds(5)));
        assert!(heard.try_recv().is_err());
        found.note("bmc", &silent, Some(seconds(10)));
        assert_eq!(
            heard.try_recv().ok(),
            Some(Change::Node(silent.name.clone()))
        );
        assert!(found.is_off(&silent, seconds(5)));
        assert!(
            !found.is_off(&silent, seconds(11)),
            "read before it was silent"
        );
        let other = |change: fn(&mut NodeView)| {
            let mut other = silent.clone();
            change(&mut other);
            other
        };
        assert!(!found.is_off(&other(|it| it.boot_id.push('x')), seconds(5)));
        assert!(!found.is_off(&other(|it| it.uid.push('x')), seconds(5)));
        assert!(!found.is_off(&other(|it| it.name.push('x')), seconds(5)));
        // Another device that says nothing of it changes nothing; the same one does.
        found.note("pdu", &silent, None);
        assert!(found.is_off(&silent, seconds(5)));
        found.note("bmc", &silent, None);
        assert!(!found.is_off(&silent, seconds(5)));
    }
}
