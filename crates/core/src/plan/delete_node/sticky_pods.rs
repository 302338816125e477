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
use crate::observed::{NodeView, PodView};
use crate::plan::pace::{READ_PACE, poll_again};
use crate::plan::round::Round;
use crate::quiesce::{coming_back, name_some};
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
pub(crate) fn before_the_claim(r: &mut Round<'_>, node: &NodeView) -> Option<Decision> {
    if !is_listed(r.memory) {
        return None;
    }
    if let Some(pods) = r.observed.pods.present() {
        r.memory.under_claim.quiesce.listed_before = Some(pods.clone());
        r.memory.found_back.clear();
    }
    let message = message(node, known(r.memory))?;
    r.memory.writes.forget_denial();
    Some(held(HeldBy::PodComesBack, message).until(r.moment.now + PERIOD))
}

/// One is found under the claim: that goes, unless a machine has been turned off under it, which is seen through or shouted about.
pub(crate) fn under_the_claim(r: &mut Round<'_>, node: &NodeView, claim: &str) -> Option<Decision> {
    let message = message(node, coming_back(&r.memory.under_claim.quiesce.starting))?;
    if r.memory.commands.attempt.is_some()
        || r.settings.record.attempts > 0
        || r.memory.under_claim.evidence
    {
        let waits = poll_again(r, Stage::Quiescing, message.clone(), READ_PACE);
        return Some(waits.escalated(Escalation::QuiesceStuck, message));
    }
    let message = format!("{message}; claim removed");
    // Its controller may be making the next one: one list without a pod is not trusted at once.
    r.memory.tries.retry_at = Some(r.moment.now + PERIOD);
    r.memory.tries.last_failure = Some(message.clone());
    Some(give_back(r.memory, node, claim, Stage::Held, message).held(HeldBy::PodComesBack))
}

fn message<'a>(node: &NodeView, pods: impl Iterator<Item = &'a PodView>) -> Option<String> {
    let names = name_some(pods);
    (!names.is_empty()).then(|| {
        format!(
            "pods of Node {} tolerate every taint and use a volume, which excludes DeleteNode: {names}; cancel this NodeFence (`spec.desiredState: Released`) and create one with `recovery.strategy: OutOfServiceTaint`, or keep such pods off the node",
            node.name
        )
    })
}
