//! The protocol on one page: for each phase its guards, in the order in which they are asked.
//!
//! A guard returns the decision that comes first: to wait, to end, or a step that has to be taken before the next guard may be asked, such as
//! the off command. The first one ends the round; where none does, the phase takes the step that it is there for: the claim, the taint, the
//! release. The order is part of the protocol, and moving one guard before another can lose data. docs/protocol.md prints these lists, and each
//! guard has a mutant that takes it away.
//!
//! Before all of them [`super::step`] looks at what makes the phase: a cluster that went back, a Node that is absent or another one, a taint of
//! others, a write that has just failed. The watch over a machine under the taint (`watch`, `detaching`) comes before the release.

use super::delete_node::{finalizers, sticky_pods};
use super::hydrate::note_listed_commands;
use super::round::Round;
use super::tries::{current_level, in_trouble, turn_to_confirmed_level};
use super::{abort, claimed, completion, hydrate, prove, proven, storage, tainted, unclaimed};
use crate::decision::Decision;
use crate::device::Level;
use crate::observed::NodeView;
use crate::proof::Proof;

/// What comes before a phase takes its step.
pub struct Guard<F> {
    /// The function, as its module calls it.
    pub name: &'static str,
    /// The invariants that it keeps (docs/protocol.md).
    pub keeps: &'static str,
    /// What it checks, or does first.
    pub what: &'static str,
    decide: F,
}

/// A guard that goes by the Node.
pub(super) type ByNode = fn(&mut Round<'_>, &NodeView) -> Option<Decision>;
/// A guard that goes by the Node and the fence level whose turn it is.
pub(super) type ByLevel = fn(&mut Round<'_>, &NodeView, &Level) -> Option<Decision>;
/// A guard under a claim (its value).
pub(super) type ByClaim = fn(&mut Round<'_>, &NodeView, &str) -> Option<Decision>;
/// A guard under a claim, by the fence level whose turn it is.
pub(super) type ByClaimAndLevel = fn(&mut Round<'_>, &NodeView, &str, &Level) -> Option<Decision>;
/// A guard under a proof that is valid.
pub(super) type ByProof = fn(&mut Round<'_>, &NodeView, &Proof) -> Option<Decision>;
/// A guard of the release, by the fence level whose turn it is, if there is one.
pub(super) type ByRelease = fn(&mut Round<'_>, &NodeView, Option<&Level>) -> Option<Decision>;

macro_rules! guards {
    ($($function:path, $keeps:literal, $what:literal;)*) => {
        &[$(Guard { name: stringify!($function), keeps: $keeps, what: $what, decide: $function }),*]
    };
}

/// Nothing of the incident is on the Node: does it end?
pub(super) const ENDS: &[Guard<ByNode>] = guards![
    completion::ended, "S6 S10 S21", "the node came back, the request was withdrawn, or all is done";
    unclaimed::pending_off, "S23", "a published proof ends once no off can take effect any more";
    unclaimed::cleared, "S13", "another NodeFence has confirmed this outage off";
    unclaimed::bind_first, "S10", "a NodeFence made by hand is first bound to UID and boot";
];

/// What holds it back before a device is asked.
pub(super) const HOLDS: &[Guard<ByNode>] = guards![
    unclaimed::never_reported, "S2", "the kubelet has never reported";
    unclaimed::observes, "S11", "mode Observe";
    unclaimed::unsupported, "S20", "a right that the end takes is missing";
    unclaimed::claimed_by_another, "S9", "another NodeFence has claimed the Node";
    unclaimed::approval, "S21", "no approval yet";
    finalizers::node_is_deleted, "S8", "the Node is being deleted, and a claim with it";
    sticky_pods::before_the_claim, "S2", "DeleteNode, and a pod that tolerates everything";
    unclaimed::held_first, "S13", "a hold that comes before the devices";
];

/// Would the level see the fence through?
pub(super) const CHECKS: &[Guard<ByLevel>] = guards![
    unclaimed::asking, "S11", "one order at a time";
    unclaimed::paused, "L5", "the pause after a try that failed";
    unclaimed::unread, "S4", "answers of the last 5 s";
    unclaimed::refused, "S4 S5 S25", "the devices answer for this machine, in ConfirmOnly with Off";
    unclaimed::not_due, "L1", "the policy's wait is over, or the machine reads Off";
    unclaimed::over_budget, "S13", "there is a place in the budget";
];

/// A claim of the incident stands, of whatever process.
pub(super) const CLAIMED: &[Guard<ByClaim>] = guards![
    abort::aborted, "S6 S10 S21", "any sign of life, and any withdrawal, ends it";
    claimed::undated, "S8", "the claim has its date";
    claimed::unfounded, "S11 S20", "this mode claims, and the rights are there";
    claimed::without_a_place, "S13", "its place in the budget was not given up";
    claimed::of_another_process, "S9", "it is this process's, or is taken over from nothing";
];

/// Our claim stands.
pub(super) const OWN_CLAIM: &[Guard<ByClaim>] = guards![
    claimed::condition_broken, "S6", "the condition held until the policy's wait was over";
    claimed::being_removed, "S9", "a removal without an answer is repeated";
    claimed::not_quiesced, "S2", "no pod can start on the node";
];

/// The power is turned off and read.
pub(super) const POWER: &[Guard<ByClaimAndLevel>] = guards![
    claimed::asking, "S11", "one order at a time";
    claimed::paused, "L5", "the pause after a try that failed";
    claimed::published, "S11 S23", "what others go by is not turned off again";
    claimed::device_lost, "S4", "the devices are those of the claim";
    claimed::kubelet_back, "S6", "a kubelet that renews its Lease has time to report";
    claimed::no_longer_off, "L1", "claimed early: it reads Off still, before it is turned off";
    claimed::turned_off, "S11 S17", "the off is stored, sent once, and answered";
    hydrate::unlisted, "S23", "what other NodeFences have sent is listed";
    prove::late_on, "S23", "no on of another can still take effect";
];

/// The readings have proven the machine off, for a few seconds.
pub(super) const PROVEN: &[Guard<ByProof>] = guards![
    proven::not_quiet, "S2", "no pod came since the quiesce";
    storage::uncovered, "S1 S12", "where only a storage is fenced: it covers every volume of the node";
    proven::tries_end, "L3", "the tries end here, and what they reported";
    proven::pending_off, "S23", "no off can take effect once others go by the proof";
    proven::doubted, "S22", "the kubelet has not reported since";
    proven::not_stored, "S17", "the evidence is stored";
    proven::only_proven, "S15", "strategy None ends here";
    proven::stuck_pods, "S2", "stuck pods are deleted by UID";
];

/// Everything has detached under our taint.
pub(super) const RELEASE: &[Guard<ByRelease>] = guards![
    tainted::never_down, "S22", "the node is not Ready in the boot that was fenced";
    tainted::held_by_mode, "S14", "`release.mode` allows it";
    tainted::not_off, "S14", "the machine still reads Off, or has rebooted";
    tainted::pending_off, "S23", "no off can still take effect";
    tainted::still_attached, "S12", "a quorum LIST shows no VolumeAttachment";
    tainted::unheard, "S23", "the record of other processes was read";
];

/// The first decision of these guards. `ask` gives a guard what it goes by.
pub(super) fn first<F: Copy>(
    guards: &[Guard<F>],
    ask: impl FnMut(F) -> Option<Decision>,
) -> Option<Decision> {
    guards.iter().map(|guard| guard.decide).find_map(ask)
}

/// The next step while nothing of the incident is on the Node: is there a reason to end it, what holds it, and is the machine off, or may be turned off?
pub(super) fn unclaimed(r: &mut Round<'_>, node: &NodeView) -> Decision {
    if let Some(end) = first(ENDS, |guard| guard(r, node)) {
        return end;
    }
    // A claim that was written and is not there: its write failed, or has not landed yet. The next one has another nonce.
    if r.memory.claim.is_some() || r.memory.under_claim.dropping {
        r.memory
            .forget_claim(r.moment.now + r.settings.late_effect());
    }
    if let Some(held) = first(HOLDS, |guard| guard(r, node)) {
        return held;
    }
    turn_to_confirmed_level(r, &r.observed.lease, r.moment.now);
    let Some(level) = current_level(r) else {
        return unclaimed::no_level(node, r.moment.now);
    };
    first(CHECKS, |guard| guard(r, node, &level))
        .unwrap_or_else(|| unclaimed::claim(r, node, &level))
}

/// The next step under this claim of the NodeFence, this process's or another one's.
pub(super) fn claimed(r: &mut Round<'_>, node: &NodeView, claim: &str) -> Decision {
    // Whatever is decided now: it was seen.
    if let Some(held) = r.memory.claim.as_mut().filter(|held| held.value == claim) {
        held.seen = true;
    }
    if let Some(decision) = first(CLAIMED, |guard| guard(r, node, claim)) {
        return decision;
    }
    note_listed_commands(r, r.moment.now);
    if let Some(decision) = first(OWN_CLAIM, |guard| guard(r, node, claim)) {
        return decision;
    }
    turn_to_confirmed_level(r, &r.observed.lease, r.moment.now);
    let Some(level) = current_level(r) else {
        return claimed::unserved(r.memory, node, claim);
    };
    if let Some(decision) = first(POWER, |guard| guard(r, node, claim, &level)) {
        return decision;
    }
    let decision = match prove::prove(r, node, &level) {
        Ok(proof) => first(PROVEN, |guard| guard(r, node, &proof))
            .unwrap_or_else(|| proven::taint_node(r, node, proof)),
        Err(decision) => *decision,
    };
    in_trouble(r.memory, decision)
}

/// One row of the page: name, invariants, what it sees to.
pub type Row = (&'static str, &'static str, &'static str);

/// The page, for docs/protocol.md: each phase with its guards, in their order.
#[must_use]
pub fn page() -> Vec<(&'static str, Vec<Row>)> {
    fn rows<F>(guards: &[Guard<F>]) -> Vec<Row> {
        let row = |it: &Guard<F>| (it.name, it.keeps, it.what);
        guards.iter().map(row).collect()
    }
    vec![
        ("Does the incident end?", rows(ENDS)),
        ("May it begin?", rows(HOLDS)),
        (
            "Would the devices see it through? Then the claim.",
            rows(CHECKS),
        ),
        ("Under a claim of the incident", rows(CLAIMED)),
        ("Under our own claim", rows(OWN_CLAIM)),
        ("Power off, and then the proof", rows(POWER)),
        ("While the proof is valid, then the taint", rows(PROVEN)),
        ("Everything has detached. Then the release.", rows(RELEASE)),
    ]
}
