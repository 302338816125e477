//! `recovery.strategy: DeleteNode`, and a pod that tolerates every taint and uses a volume.
//!
//! Deleted, it is made anew by whoever has made it, and bound to the same node again: the claim keeps it away as little as a dead kubelet does. It would use
//! the VolumeAttachment that is there, whose deletion may be on its way by then, and lose its volume while it writes. Nothing that the operator could
//! test tells the two apart. So such a node is not fenced this way (docs/protocol.md, "Without the taint").

use super::super::hold::HeldBy;
use super::super::incident::{Decision, Settings};
use super::super::memory::Memory;
use super::super::observed::{NodeView, Observed, PodView};
use super::super::quiesce::{coming_back, name_some};
use super::super::stage::Stage;
use super::abort::give_back;
use super::deadline::QUIESCE_STUCK;
use super::{Moment, READ_PACE, held, look_again};
use std::time::Duration;

/// Pause between two lists of the node's pods while one of them is there.
const PERIOD: Duration = Duration::from_secs(10);

/// Has the last list of an unclaimed node's pods shown one, or that of the claim before? Then it is listed again, and no device is asked.
pub(super) fn is_listed(m: &Memory) -> bool {
    known(m).next().is_some()
}

/// Those that such a list has shown.
fn known(m: &Memory) -> impl Iterator<Item = &PodView> {
    let listed = m.learned.quiesce.listed_before.as_deref();
    coming_back(listed.unwrap_or_default()).chain(&m.found_back)
}

/// The node is not claimed while one is there.
pub(super) fn before_the_claim(
    m: &mut Memory,
    node: &NodeView,
    o: &Observed,
    t: &Moment,
) -> Option<Decision> {
    if !is_listed(m) {
        return None;
    }
    if let Some(pods) = o.pods.present() {
        m.learned.quiesce.listed_before = Some(pods.clone());
        m.found_back.clear();
    }
    let words = words(node, known(m))?;
    m.forget_denial();
    Some(held(HeldBy::PodComesBack, words).until(t.now + PERIOD))
}

/// One is found under the claim: that goes, unless a machine has been turned off under it, which is seen through or shouted about.
pub(super) fn under_the_claim(
    s: &Settings,
    m: &mut Memory,
    node: &NodeView,
    claim: &str,
    t: &Moment,
) -> Option<Decision> {
    let words = words(node, coming_back(&m.learned.quiesce.starting))?;
    if m.attempt.is_some() || s.record.attempts > 0 || m.learned.evidence {
        let waits = look_again(m, Stage::Quiescing, words.clone(), t, READ_PACE);
        return Some(waits.escalated(QUIESCE_STUCK, words));
    }
    let words = format!("{words}; the claim is given back");
    // Its controller may be making the next one: one list without a pod is not trusted at once.
    m.retry_at = Some(t.now + PERIOD);
    m.last_failure = Some(words.clone());
    Some(give_back(m, node, claim, Stage::Held, words).held(HeldBy::PodComesBack))
}

fn words<'a>(node: &NodeView, pods: impl Iterator<Item = &'a PodView>) -> Option<String> {
    let names = name_some(pods);
    (!names.is_empty()).then(|| {
        format!(
            "Node {} has a pod that tolerates every taint and uses a volume: {names}; deleted, it may be bound there again and lose its volume while it writes, so `recovery.strategy: DeleteNode` cannot fence this node: release this NodeFence (`spec.desiredState: Released`) and create one with `recovery.strategy: OutOfServiceTaint`, or see that no such pod comes to the node any more",
            node.name
        )
    })
}
