//! Machines that a probe has read Off while their Node was not Ready, or its kubelet suspected to be dead: the detector does not wait for the
//! policy's duration there, and [`super::early_detection`] reports the Node.
//!
//! It only decides when an incident is opened. The incident asks the devices itself before it claims the node, and proves everything.

use super::cache::Change;
use fencing_core::early::Off;
use fencing_core::observed::{NodeView, Ready};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, mpsc};

/// What the probes have found of machines whose kubelets are silent, and which kubelets are suspected.
#[derive(Clone)]
pub struct FoundOff {
    state: Arc<Mutex<State>>,
    news: mpsc::UnboundedSender<Change>,
    of_suspects: Arc<Notify>,
}

#[derive(Default)]
struct State {
    /// By node and device.
    found: BTreeMap<(String, String), Found>,
    /// Nodes that are Ready, and whose Leases are silent.
    suspects: BTreeSet<String>,
}

/// What a device said last.
struct Found {
    node_uid: String,
    boot_id: String,
    said: Said,
}

/// What a device said of the machine of a silent Node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Said {
    /// It has power.
    On,
    /// It is off, in a way that would count in a proof.
    Off(Off),
    /// It was asked, and gave no answer that counts.
    Nothing,
}

impl FoundOff {
    /// Nothing is known yet. Whoever opens incidents hears of it as of a change of the Node.
    pub fn telling(news: mpsc::UnboundedSender<Change>) -> Self {
        Self {
            state: Arc::default(),
            news,
            of_suspects: Arc::default(),
        }
    }

    /// The device was asked. None: its answer does not count, or it gave none.
    pub fn note(&self, device: &str, node: &NodeView, said: Option<Said>) {
        let pair = (node.name.clone(), device.to_owned());
        let mut state = self.state();
        let is_suspect = state.suspects.contains(&node.name);
        let is_silent = node.ready() != Ready::True || is_suspect;
        if !is_silent {
            state.found.remove(&pair);
            return;
        }
        let said = said.unwrap_or(Said::Nothing);
        let before = state.found.get(&pair).filter(|it| it.is_of(node));
        let said = match (said, before.map(|it| it.said)) {
            (Said::Off(off), Some(Said::Off(before))) => Said::Off(Off {
                last: off.last,
                ..before
            }),
            (said, _) => said,
        };
        let found = Found {
            node_uid: node.uid.clone(),
            boot_id: node.boot_id.clone(),
            said,
        };
        state.found.insert(pair, found);
        drop(state);
        match said {
            // What others have said may have waited for this one.
            Said::On | Said::Nothing if is_suspect => self.of_suspects.notify_one(),
            Said::On | Said::Nothing => {}
            Said::Off(_) if is_suspect => self.of_suspects.notify_one(),
            // The receiver is gone only while the operator ends.
            Said::Off(_) => drop(self.news.send(Change::Node(node.name.clone()))),
        }
    }

    /// The device does not serve this Node any more.
    pub fn forget(&self, device: &str, node: &str) {
        let pair = (node.to_owned(), device.to_owned());
        self.state().found.remove(&pair);
    }

    /// Has a device read Off of this Node's machine, in its boot, when it was asked after this time since boot? A Node that the operator itself has
    /// reported was read Off for that; not if a device has read On since.
    pub fn is_off(&self, node: &NodeView, since: Duration) -> bool {
        let said = self.said_of(node);
        let is_on = said.iter().any(|(_, said)| *said == Said::On);
        (node.reported_early && !is_on)
            || said
                .iter()
                .any(|(_, said)| matches!(said, Said::Off(off) if off.last >= since))
    }

    /// What each device said last of this Node's machine, in its boot.
    pub fn said_of(&self, node: &NodeView) -> Vec<(String, Said)> {
        let state = self.state();
        let from = (node.name.clone(), String::new());
        let of_node = state.found.range(from..);
        let of_node = of_node.take_while(|((name, _), _)| *name == node.name);
        let of_boot = of_node.filter(|(_, found)| found.is_of(node));
        of_boot
            .map(|((_, device), found)| (device.clone(), found.said))
            .collect()
    }

    /// These nodes' kubelets are suspected to be dead, and no others are. Whoever probes hears of those that are new, or are none any more, as of a
    /// change of the Node.
    pub fn suspect(&self, nodes: BTreeSet<String>) {
        let mut state = self.state();
        let before = std::mem::replace(&mut state.suspects, nodes);
        let changed: Vec<String> = before
            .symmetric_difference(&state.suspects)
            .cloned()
            .collect();
        // What was said before belongs to another silence.
        state.found.retain(|(node, _), _| !changed.contains(node));
        drop(state);
        for node in changed {
            let _ = self.news.send(Change::Node(node));
        }
    }

    /// Is the kubelet of this node suspected to be dead?
    pub fn is_suspect(&self, node: &str) -> bool {
        self.state().suspects.contains(node)
    }

    /// All of them.
    pub fn suspects(&self) -> BTreeSet<String> {
        self.state().suspects.clone()
    }

    /// Waits until a device has read Off of a suspect's machine.
    pub async fn of_a_suspect(&self) {
        self.of_suspects.notified().await;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Found {
    fn is_of(&self, node: &NodeView) -> bool {
        self.node_uid == node.uid && self.boot_id == node.boot_id
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencing_core::fixtures;

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    fn off(asked: u64) -> Option<Said> {
        Some(Said::Off(Off {
            first: seconds(asked),
            last: seconds(asked),
            on_before: Some(seconds(1)),
        }))
    }

    #[test]
    fn an_off_counts_for_this_boot_and_this_silence_alone() {
        let (news, mut heard) = mpsc::unbounded_channel();
        let found = FoundOff::telling(news);
        let silent = fixtures::node();
        let mut ready = silent.clone();
        ready.conditions[0].status = "True".to_owned();
        // Of a Node that is Ready it is no reason to begin.
        found.note("bmc", &ready, off(10));
        assert!(!found.is_off(&ready, seconds(5)));
        assert!(heard.try_recv().is_err());
        found.note("bmc", &silent, off(10));
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
        found.note("bmc", &silent, Some(Said::On));
        assert!(!found.is_off(&silent, seconds(5)));
        found.note("bmc", &silent, off(12));
        found.note("bmc", &silent, None);
        assert!(!found.is_off(&silent, seconds(5)));
    }

    /// S24 S25: with that of another boot it would not be twice in this one.
    #[test]
    fn the_first_off_of_another_boot_is_none_of_this_one() {
        let (news, _heard) = mpsc::unbounded_channel();
        let found = FoundOff::telling(news);
        let mut node = fixtures::node();
        found.suspect([node.name.clone()].into());
        found.note("bmc", &node, off(10));
        node.boot_id.push('x');
        found.note("bmc", &node, off(11));
        assert_eq!(
            found.said_of(&node),
            [("bmc".to_owned(), off(11).expect("an Off"))]
        );
    }

    /// S24: twice, without anything else between.
    #[test]
    fn of_a_suspect_the_first_off_and_the_last_are_kept() {
        let (news, mut heard) = mpsc::unbounded_channel();
        let found = FoundOff::telling(news);
        let mut node = fixtures::node();
        node.conditions[0].status = "True".to_owned();
        found.suspect([node.name.clone()].into());
        let change = Some(Change::Node(node.name.clone()));
        assert_eq!(heard.try_recv().ok(), change, "it is probed at once");
        let said = || match found.said_of(&node).as_slice() {
            [(_, Said::Off(off))] => Some((off.first, off.last)),
            _ => None,
        };
        found.note("bmc", &node, off(10));
        found.note("bmc", &node, off(11));
        assert_eq!(said(), Some((seconds(10), seconds(11))));
        found.note("bmc", &node, None);
        found.note("bmc", &node, off(12));
        assert_eq!(said(), Some((seconds(12), seconds(12))));
        assert!(heard.try_recv().is_err(), "no incident is opened yet");
        found.suspect(BTreeSet::new());
        assert_eq!(heard.try_recv().ok(), change);
        assert_eq!(said(), None);
    }
}
