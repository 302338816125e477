//! Which of our taints the Node carries, and what this process knows of them.

use crate::memory::Memory;
use crate::observed::NodeView;
use crate::settings::Settings;
use crate::taint;

/// Which of our taints the Node carries.
pub(super) enum NodePhase<'a> {
    /// Neither: nothing of this incident is on the Node.
    Unclaimed,
    /// A claim of this incident, of whatever process.
    Claimed(&'a str),
    /// A claim of this incident, and the mark that was set under it.
    Tainted(&'a str),
    /// A claim of this incident, and a mark that was not set under it: not ours to touch (S8).
    ForeignTaintBesideClaim(&'a str),
    /// A mark without a claim of this incident: not ours to touch (S8).
    ForeignTaint,
}

pub(super) fn node_phase<'a>(settings: &Settings, node: &'a NodeView) -> NodePhase<'a> {
    let own = node
        .claim()
        .filter(|value| taint::claim_fence(value) == Some(settings.fence.as_str()));
    match (own, node.marked_by().is_some()) {
        (Some(claim), _) if taint::mark_of_claim(node).is_some() => NodePhase::Tainted(claim),
        (Some(claim), false) => NodePhase::Claimed(claim),
        (Some(claim), true) => NodePhase::ForeignTaintBesideClaim(claim),
        (None, false) => NodePhase::Unclaimed,
        (None, true) => NodePhase::ForeignTaint,
    }
}

/// Has this incident proven the machine down, as far as this process knows? Ours is never set before its evidence is stored (S17).
pub(super) fn is_proven(settings: &Settings, memory: &Memory) -> bool {
    memory.under_claim.evidence || settings.record.evidence || memory.taint.seen || settings.adopted
}

/// Is this the claim of this process?
pub(super) fn holds(memory: &Memory, claim: &str) -> bool {
    let held = memory.claim.as_ref();
    held.is_some_and(|held| held.value == claim)
}

/// Does this process see to the taint under this claim, or may it have set it? Of any other taint the NodeFence alone tells whether it was
/// proven, and which commands of its process may still land (S23).
pub(super) fn is_known(memory: &Memory, claim: &str) -> bool {
    holds(memory, claim) && (memory.under_claim.evidence || memory.taint.seen)
}
