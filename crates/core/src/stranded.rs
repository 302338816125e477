//! A node on which nothing goes on by itself: a machine that lives in the boot that was proven down, a taint of ours without a record that
//! handles it, or a storage that does not let the node in again.
//!
//! Only people can decide what to do (S22, L3). All of it is read from the Node and from the records, so that it is known again after a restart.

use super::observed::{DETACHING, NodeView, QUARANTINE, Ready};
use super::release::never_went_down;
use super::stage::Stage;
use super::taint;
use fencing_api::conditions::{NODE_CONFIRMED_DOWN, SUCCEEDED, find};
use fencing_api::fence::NodeFence;
use fencing_api::readings::Evidence;
use jiff::Timestamp;

/// Why nothing goes on by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stranded {
    /// The machine lives in the boot that was proven down.
    SameBoot,
    /// The node carries a claim whose NodeFence is gone, or cannot be decoded.
    ClaimOrphaned,
    /// Somebody has put the claim back after its NodeFence had ended.
    ClaimRestored,
    /// `nodefencing.io/detaching` stands without its claim.
    ClaimMissing,
    /// Its storage does not let it in again: CSI-Addons fails, or only a human can tell that it may.
    StorageFenceStays,
}

impl Stranded {
    /// Those that are about a taint.
    pub const OF_TAINTS: [Self; 3] = [Self::ClaimOrphaned, Self::ClaimRestored, Self::ClaimMissing];

    /// A stable name: the label of the metric.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SameBoot => "SameBoot",
            Self::ClaimOrphaned => "ClaimOrphaned",
            Self::ClaimRestored => "ClaimRestored",
            Self::ClaimMissing => "ClaimMissing",
            Self::StorageFenceStays => "StorageFenceStays",
        }
    }

    /// What people read of it.
    pub fn message(self) -> String {
        let fact = match self {
            Self::SameBoot => {
                "Ready in the boot that was confirmed off, so its data may be damaged; stop its writers first"
            }
            Self::ClaimOrphaned => {
                "has taint `nodefencing.io/claim` without a readable NodeFence; remove it by hand if this persists"
            }
            Self::ClaimRestored => {
                "has taints that were set again after their NodeFence ended; remove them by hand"
            }
            Self::ClaimMissing => {
                "has taint `nodefencing.io/detaching` without its claim; remove it by hand"
            }
            Self::StorageFenceStays => {
                "is still fenced from its storage; see its Events, or `kubectl get networkfences`"
            }
        };
        format!("{fact}: see the runbook NodeFencingNodeStranded")
    }
}

/// The ended incident that has proven the machine down in the boot in which the Node lives (S22): it is Ready, or has reported since that it is
/// not, under the quarantine or after a fence that set none; or its Node was deleted and made anew, since only a kubelet that runs names a boot.
pub fn refuted<'a>(
    fences: impl IntoIterator<Item = &'a NodeFence>,
    node: &NodeView,
) -> Option<&'a NodeFence> {
    // What most records are not comes first: each is asked for each node.
    let of_node = fences.into_iter();
    let of_node = of_node.filter(|it| it.spec.node_name == node.name && !node.boot_id.is_empty());
    let of_boot = of_node.filter(|fence| {
        let status = fence.status.as_ref();
        let evidence = status.and_then(|status| status.evidence.as_ref());
        let is_marked = status.is_some_and(|it| it.taint_applied_time.is_some());
        let succeeded = status.and_then(|it| find(&it.conditions, SUCCEEDED));
        let left_down = succeeded.is_some_and(|it| it.reason == Stage::ConfirmedDown.to_string());
        let lives = |it: &Evidence| match it.node_uid == node.uid {
            true => {
                let stays = is_marked && taint::is_quarantined(node);
                reports(node, it) && (stays || left_down)
            }
            false => is_marked || left_down,
        };
        fence.is_ended() && evidence.is_some_and(|it| it.node_boot_id == node.boot_id && lives(it))
    });
    of_boot.max_by_key(|it| it.status.as_ref().and_then(|it| it.completion_time))
}

/// Has the kubelet reported since the proof? One that is not Ready lives, too.
fn reports(node: &NodeView, evidence: &Evidence) -> bool {
    match node.ready() {
        Ready::True => true,
        Ready::False => {
            let last: Option<Timestamp> = node.last_report().parse().ok();
            last.is_some() && last != evidence.ready_heartbeat_time
        }
        Ready::Unknown | Ready::Missing => false,
    }
}

/// Does the record say already that its proof was false?
pub fn is_refuted(fence: &NodeFence) -> bool {
    let status = fence.status.as_ref();
    let told = status.and_then(|it| find(&it.conditions, NODE_CONFIRMED_DOWN));
    told.is_some_and(|it| it.status == "False")
}

/// The same as the operator finds, by what others can see: nodes and records.
pub fn stranded(node: &NodeView, fences: &[NodeFence]) -> Option<Stranded> {
    let quarantine = node.taint(QUARANTINE);
    let fenced_boot = quarantine.and_then(|(_, it)| it.value.as_deref());
    if never_went_down(node, fenced_boot) || refuted(fences, node).is_some() {
        return Some(Stranded::SameBoot);
    }
    let Some(owner) = node.claim().and_then(taint::claim_fence) else {
        let is_left = node.taint(DETACHING).is_some() && node.claim().is_none();
        return is_left.then_some(Stranded::ClaimMissing);
    };
    let is_marked = taint::mark_of_claim(node).is_some();
    match fences
        .iter()
        .find(|it| it.metadata.name.as_deref() == Some(owner))
    {
        Some(fence) if fence.is_ended() && is_marked => Some(Stranded::ClaimRestored),
        Some(_) => None,
        None => (is_marked || node.ready() == Ready::True).then_some(Stranded::ClaimOrphaned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;
    use serde_json::json;

    /// A NodeFence that has ended after it had proven the machine of `uid-1` down in `boot-1`.
    fn fence(strategy: &str, stage: &str, is_marked: bool) -> NodeFence {
        let applied = is_marked.then_some("2026-01-01T00:00:00Z");
        let fence = json!({
            "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence", "metadata": {"name": "fence"},
            "spec": {"nodeName": "worker-1", "trigger": {"type": "Manual"}, "recovery": {"strategy": strategy}},
            "status": {
                "taintAppliedTime": applied,
                "conditions": [{"type": "Succeeded", "status": if stage.is_empty() { "Unknown" } else { "True" }, "reason": stage,
                    "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
                "evidence": {"claim": "fence-n1", "nodeUID": "uid-1", "nodeBootID": "boot-1",
                    "readyHeartbeatTime": "2026-01-01T00:00:00Z", "quiescedTime": "2026-01-01T00:00:00Z", "provenTime": "2026-01-01T00:00:00Z", "readings": []},
            },
        });
        serde_json::from_value(fence).expect("a NodeFence")
    }

    fn node(uid: &str, boot: &str, ready: &str, quarantine: &str) -> NodeView {
        let mut node = NodeView {
            uid: uid.to_owned(),
            boot_id: boot.to_owned(),
            ..fixtures::node()
        };
        node.taints = vec![fixtures::taint(QUARANTINE, quarantine, "NoSchedule")];
        for condition in &mut node.conditions {
            condition.status = ready.to_owned();
        }
        node
    }

    /// It is not Ready in the boot that was proven down, and its kubelet has said so then.
    fn reported(heartbeat: &str) -> NodeView {
        let mut node = node("uid-1", "boot-1", "False", "boot-1");
        node.conditions[0].heartbeat = heartbeat.to_owned();
        node
    }

    /// S22: what refutes the proof of a fence that has ended is a machine that lives in its boot, and nothing else.
    #[test]
    fn a_machine_that_lives_in_the_boot_that_was_proven_down_is_known() {
        let taint = ("OutOfServiceTaint", "Recovered", true);
        let delete = ("DeleteNode", "Recovered", true);
        let none = ("None", "ConfirmedDown", false);
        let table = [
            (taint, node("uid-1", "boot-1", "True", "boot-1"), true),
            (taint, node("uid-1", "boot-1", "Unknown", "boot-1"), false),
            (taint, node("uid-1", "boot-2", "True", "boot-1"), false),
            // Its quarantine was removed by hand, as the message says.
            (taint, node("uid-1", "boot-1", "True", "boot-0"), false),
            (taint, node("uid-2", "boot-1", "True", "boot-0"), true),
            (taint, node("uid-2", "boot-2", "True", "boot-0"), false),
            (none, node("uid-2", "boot-1", "Unknown", "boot-0"), true),
            (none, node("uid-1", "boot-1", "True", "boot-0"), true),
            (none, node("uid-1", "boot-1", "Unknown", "boot-0"), false),
            (delete, node("uid-2", "boot-1", "Unknown", "boot-0"), true),
            (delete, node("uid-2", "boot-2", "True", "boot-0"), false),
            (delete, node("uid-1", "boot-1", "Unknown", "boot-0"), false),
            (
                ("DeleteNode", "", true),
                node("uid-2", "boot-1", "True", "boot-0"),
                false,
            ),
            (
                ("OutOfServiceTaint", "Aborted", false),
                node("uid-1", "boot-1", "True", "boot-1"),
                false,
            ),
            // The last report of before the proof, and one of after it.
            (taint, reported("2026-01-01T00:00:00Z"), false),
            (taint, reported("2026-01-01T00:05:00Z"), true),
            (taint, reported(""), false),
        ];
        for ((strategy, stage, is_marked), node, is_found) in table {
            let fences = [fence(strategy, stage, is_marked)];
            let found = refuted(&fences, &node).is_some();
            assert_eq!(found, is_found, "{strategy} {stage} {node:?}");
        }
    }

    #[test]
    fn a_taint_that_nothing_handles_is_known_by_its_reason() {
        let ended = fence("OutOfServiceTaint", "Recovered", true);
        let open = fence("OutOfServiceTaint", "", true);
        let claim = || {
            fixtures::dated(fixtures::taint(
                super::super::observed::CLAIM,
                "fence-n1",
                "NoExecute",
            ))
        };
        let detaching = || fixtures::dated(fixtures::taint(DETACHING, "boot-1", "NoExecute"));
        let oos = fixtures::out_of_service;
        let table = [
            (
                vec![claim(), oos()],
                "Unknown",
                Some(&ended),
                Some(Stranded::ClaimRestored),
            ),
            (vec![claim(), oos()], "Unknown", Some(&open), None),
            (vec![claim()], "True", Some(&ended), None),
            (vec![claim()], "True", None, Some(Stranded::ClaimOrphaned)),
            (vec![claim()], "Unknown", None, None),
            (
                vec![claim(), oos()],
                "Unknown",
                None,
                Some(Stranded::ClaimOrphaned),
            ),
            (
                vec![detaching()],
                "True",
                None,
                Some(Stranded::ClaimMissing),
            ),
            (vec![], "True", Some(&ended), None),
        ];
        for (taints, ready, fence, reason) in table {
            let mut node = node("uid-1", "boot-2", ready, "");
            node.taints = taints;
            let fences: Vec<NodeFence> = fence.into_iter().cloned().collect();
            assert_eq!(stranded(&node, &fences), reason, "{node:?}");
        }
    }
}
