//! `recovery.strategy: DeleteNode`, and a pod that tolerates every taint and uses a volume.
//!
//! Deleted, it is made anew by whoever has made it, and bound to the same node again: the claim keeps it away as little as a dead kubelet does. It would use
//! the VolumeAttachment that is there, whose deletion may be on its way by then, and lose its volume while it writes. Nothing that the operator could
//! test tells the two apart. So such a node is not fenced this way (docs/protocol.md, "Without the taint").

use super::super::abort::give_back;
use crate::decision::{Decision, held};
use crate::escalation::Escalation;
use crate::hold::HeldBy;
use crate::memory::Memory;
use crate::observed::{NodeView, Observed, PodView};
use crate::plan::pace::{READ_PACE, poll_again};
use crate::plan::round::Moment;
use crate::quiesce::{coming_back, name_some};
use crate::settings::Settings;
use crate::stage::Stage;
use std::time::Duration;

/// Pause between two lists of the node's pods while one of them is there.
const PERIOD: Duration = Duration::from_secs(10);

/// Has the last list of an unclaimed node's pods shown one, or that of the claim before? Then it is listed again, and no device is asked.
pub(crate) fn is_listed(m: &Memory) -> bool {
    known(m).next().is_some()
}

/// Those that such a list has shown.
fn known(m: &Memory) -> impl Iterator<Item = &PodView> {
    let listed = m.under_claim.quiesce.listed_before.as_deref();
    coming_back(listed.unwrap_or_default()).chain(&m.found_back)
}

/// The node is not claimed while one is there.
pub(crate) fn before_the_claim(
    m: &mut Memory,
    node: &NodeView,
    o: &Observed,
    t: &Moment,
) -> Option<Decision> {
    if !is_listed(m) {
        return None;
    }
    if let Some(pods) = o.pods.present() {
        m.under_claim.quiesce.listed_before = Some(pods.clone());
        m.found_back.clear();
    }
    let message = message(node, known(m))?;
    m.forget_denial();
    Some(held(HeldBy::PodComesBack, message).until(t.now + PERIOD))
}

/// One is found under the claim: that goes, unless a machine has been turned off under it, which is seen through or shouted about.
pub(crate) fn under_the_claim(
    s: &Settings,
    m: &mut Memory,
    node: &NodeView,
    claim: &str,
    t: &Moment,
) -> Option<Decision> {
    let message = message(node, coming_back(&m.under_claim.quiesce.starting))?;
    if m.attempt.is_some() || s.record.attempts > 0 || m.under_claim.evidence {
        let waits = poll_again(m, Stage::Quiescing, message.clone(), t, READ_PACE);
        return Some(waits.escalated(Escalation::QuiesceStuck, message));
    }
    let message = format!("{message}; the claim is given back");
    // Its controller may be making the next one: one list without a pod is not trusted at once.
    m.retry_at = Some(t.now + PERIOD);
    m.last_failure = Some(message.clone());
    Some(give_back(m, node, claim, Stage::Held, message).held(HeldBy::PodComesBack))
}

fn message<'a>(node: &NodeView, pods: impl Iterator<Item = &'a PodView>) -> Option<String> {
    let names = name_some(pods);
    (!names.is_empty()).then(|| {
        format!(
            "Node {} has a pod that tolerates every taint and uses a volume: {names}; deleted, it may be bound there again and lose its volume while it writes, so `recovery.strategy: DeleteNode` cannot fence this node: release this NodeFence (`spec.desiredState: Released`) and create one with `recovery.strategy: OutOfServiceTaint`, or see that no such pod comes to the node any more",
            node.name
        )
    })
}
