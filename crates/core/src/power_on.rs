//! Turning the machine on again after the release (`powerOn.policy: AfterRecovery`): what is asked for, what was done, when nothing may be.
//!
//! It is a convenience, and no step of the proof: a machine may be powered on by anybody at any moment. So whatever speaks against it wins,
//! and a human who works on the machine is never fought: a command goes out only to a device that reads Off and has not read On since the
//! release, only as long as the Node is as it was released, and so often and no more.

use super::attempt::OnAttempt;
use super::observed::{NodeView, Ready};
use super::taint::{self, claim_fence, is_quarantined};
use std::collections::BTreeMap;
use std::time::Duration;

/// On commands to one device in the whole incident.
pub const COMMANDS_MAX: u32 = 2;
/// The same with those that were written down and could not be sent.
pub const TRIES_MAX: u32 = 5;

/// What the frozen settings ask for, and what has come in between since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PowerOn {
    /// Pause between the release and the command.
    pub delay: Duration,
    /// How long the node may take to be Ready.
    pub timeout: Duration,
    /// Not any more, for this reason: a human's no, or the policy has gone or asks for it no longer (S15).
    pub stop: Option<String>,
    /// Not now, for this reason: somebody works on the node, or the policy is paused.
    pub hold: Option<String>,
}

/// What was done with one device to turn the machine on, by whatever process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Tries {
    /// Commands that were written down.
    pub intended: u32,
    /// Those of them that were sent, or may have been.
    pub sent: u32,
    /// It has read On since.
    pub is_on: bool,
}

impl Tries {
    /// May another command be written down?
    pub fn may_go_on(self) -> bool {
        !self.is_on && self.sent < COMMANDS_MAX && self.intended < TRIES_MAX
    }

    /// What is known here, and what is known there.
    fn and(self, other: Self) -> Self {
        Self {
            intended: self.intended.max(other.intended),
            sent: self.sent.max(other.sent),
            is_on: self.is_on || other.is_on,
        }
    }
}

/// What this process remembers of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct TurningOn {
    /// Devices that an off command of this process has gone to, each as it was then.
    pub turned_off: BTreeMap<String, String>,
    /// Since when the Node has been seen released (time since boot).
    pub begun: Option<Duration>,
    /// The pause after the release is over then (time since boot).
    pub due: Option<Duration>,
    /// What was done, by device.
    pub tries: BTreeMap<String, Tries>,
    /// The last command.
    pub attempt: Option<OnAttempt>,
    /// No command before (time since boot).
    pub retry_at: Option<Duration>,
    /// Why no further command is sent though the machine does not read On.
    pub failure: Option<String>,
}

impl TurningOn {
    /// Takes over what the record says was done. A command that this process knew nothing of is another one's, and may be on its way.
    pub fn recall(&mut self, record: &BTreeMap<String, Tries>) -> bool {
        let mut is_news = false;
        for (device, tries) in record {
            let known = self.tries.entry(device.clone()).or_default();
            is_news |= tries.intended > known.intended;
            *known = known.and(*tries);
        }
        is_news
    }

    /// What was done with this device.
    pub fn of(&self, device: &str) -> Tries {
        self.tries.get(device).copied().unwrap_or_default()
    }

    /// Was any command sent, or may one have been?
    pub fn has_sent(&self) -> bool {
        self.tries.values().any(|tries| tries.sent > 0)
    }
}

/// What on this Node forbids to turn its machine on; asked with each round, and again right before a command leaves.
pub fn forbidden(node: &NodeView, uid: Option<&str>, boot_id: Option<&str>) -> Option<String> {
    let name = &node.name;
    if uid != Some(node.uid.as_str()) {
        return Some(format!("Node {name} was created again (UID {})", node.uid));
    }
    if let Some(key) = node.marked_by() {
        return Some(format!(
            "Node {name} has taint `{}`",
            taint::display_name(key)
        ));
    }
    if let Some(claim) = node.claim() {
        return Some(format!("Node {name} has claim {claim}"));
    }
    if boot_id != Some(node.boot_id.as_str()) {
        return Some(format!("Node {name} rebooted (boot ID {})", node.boot_id));
    }
    if node.ready() == Ready::True {
        return Some(format!("Node {name} is Ready"));
    }
    (!is_quarantined(node)).then(|| format!("Node {name} has lost its quarantine taint"))
}

/// Who has taken the node since `fence` has released it. It is theirs from then on, also when their claim has gone again: their off may land for
/// a while yet (S23), or they have told others that the machine is down.
pub fn taken(node: &NodeView, fence: &str) -> Option<String> {
    if let Some(other) = node.claim().map(|it| claim_fence(it).unwrap_or(it)) {
        return (other != fence).then(|| taken_by(other));
    }
    let key = node.marked_by()?;
    Some(format!(
        "Node {} was tainted by others since (`{key}`)",
        node.name
    ))
}

/// Why no on command follows: another NodeFence has the node.
pub fn taken_by(other: &str) -> String {
    format!("NodeFence {other} has claimed the node since")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{node, taint};
    use crate::observed::{CLAIM, DETACHING, OUT_OF_SERVICE, QUARANTINE};

    fn released() -> NodeView {
        NodeView {
            taints: vec![taint(QUARANTINE, "boot-1", "NoSchedule")],
            ..node()
        }
    }

    /// S11, S10: no machine is turned on but the one that was released, as it was released.
    #[test]
    fn only_the_node_that_was_released_and_as_it_was_released() {
        let refuses = |change: fn(&mut NodeView)| {
            let mut node = released();
            change(&mut node);
            forbidden(&node, Some("uid-1"), Some("boot-1"))
        };
        assert_eq!(refuses(|_| {}), None);
        for (change, word) in [
            (
                (|node| "uid-2".clone_into(&mut node.uid)) as fn(&mut NodeView),
                "created again",
            ),
            (
                |node| node.taints.push(taint(CLAIM, "other-n1", "NoExecute")),
                "other-n1",
            ),
            (
                |node| {
                    node.taints
                        .push(taint(OUT_OF_SERVICE, "theirs", "NoSchedule"));
                },
                "`out-of-service`",
            ),
            (
                |node| node.taints.push(taint(DETACHING, "boot-1", "NoExecute")),
                "detaching",
            ),
            (|node| "boot-2".clone_into(&mut node.boot_id), "rebooted"),
            (
                |node| "True".clone_into(&mut node.conditions[0].status),
                "is Ready",
            ),
            (|node| node.taints.clear(), "quarantine"),
            (
                |node| node.taints = vec![taint(QUARANTINE, "boot-0", "NoSchedule")],
                "quarantine",
            ),
        ] {
            let message = refuses(change).unwrap_or_else(|| panic!("not refused: {word}"));
            assert!(message.contains(word), "{message}");
        }
        assert!(forbidden(&released(), None, Some("boot-1")).is_some());
        assert!(forbidden(&released(), Some("uid-1"), None).is_some());
    }

    /// S11, S23: whoever has put something on the Node has it, unless it was this NodeFence.
    #[test]
    fn a_claim_of_another_nodefence_takes_the_node() {
        let by = |taints: &[(&str, &str)]| {
            let mut node = released();
            let more = taints
                .iter()
                .map(|(key, value)| taint(key, value, "NoExecute"));
            node.taints.extend(more);
            taken(&node, "fence")
        };
        assert_eq!(by(&[]), None);
        assert_eq!(by(&[(CLAIM, "fence-n1")]), None);
        assert_eq!(by(&[(CLAIM, "fence-n1"), (OUT_OF_SERVICE, "x")]), None);
        for (key, value, word) in [
            (CLAIM, "other-fence-n1", "NodeFence other-fence has"),
            (CLAIM, "forged", "NodeFence forged has"),
            (OUT_OF_SERVICE, "x", "`node.kubernetes.io/out-of-service`"),
            (DETACHING, "boot-1", "`nodefencing.io/detaching`"),
        ] {
            let message = by(&[(key, value)]).unwrap_or_else(|| panic!("not taken: {word}"));
            assert!(message.contains(word), "{message}");
        }
    }

    /// S11: so many commands to a device, whoever has sent them, and none once it has read On.
    #[test]
    fn what_was_done_before_counts_whoever_has_done_it() {
        let tries = |intended, sent, is_on| Tries {
            intended,
            sent,
            is_on,
        };
        for (tries, may) in [
            (tries(0, 0, false), true),
            (tries(1, 1, false), true),
            (tries(COMMANDS_MAX, COMMANDS_MAX, false), false),
            (tries(TRIES_MAX, 0, false), false),
            (tries(TRIES_MAX - 1, 0, false), true),
            (tries(1, 1, true), false),
        ] {
            assert_eq!(tries.may_go_on(), may, "{tries:?}");
        }
        let mut memory = TurningOn::default();
        assert!(memory.recall(&[("bmc".to_owned(), tries(2, 1, false))].into()));
        assert!(!memory.recall(&[("bmc".to_owned(), tries(1, 1, true))].into()));
        assert_eq!(memory.of("bmc"), tries(2, 1, true));
        assert_eq!(memory.of("other"), Tries::default());
        assert!(memory.has_sent());
    }
}
