//! What another process of the operator has written into the record: this one takes it over, or begins anew from it, and never writes over it.
//!
//! Two of them may be at work on one incident (a paused leader goes on). Findings, and what was done to the Node, are kept from both, so that no later
//! write removes them.

use super::attempts::ATTEMPTS_KEPT;
use super::confirmed;
use crate::attempt::Attempt;
use crate::memory::CONTRADICTIONS_KEPT;
use fencing_api::fence_status::NodeFenceStatus;
use jiff::Timestamp;

/// As many as the CRD takes.
pub(super) const CONTRADICTING_MAX: usize = 16;

/// Takes over the findings that stand in `of` only.
pub fn merge_findings(status: &mut NodeFenceStatus, of: &NodeFenceStatus) {
    let refused = &mut status.confirmation_refused;
    *refused = refused.take().or_else(|| of.confirmation_refused.clone());
    // Equal words are one sighting, unless one record alone has them twice.
    let mut more = of.contradictions.clone();
    for known in &status.contradictions {
        if let Some(same) = more.iter().position(|it| it == known) {
            more.remove(same);
        }
    }
    let room = CONTRADICTIONS_KEPT.saturating_sub(status.contradictions.len());
    status.contradictions.extend(more.into_iter().take(room));
    for device in &of.contradicting_devices {
        let known = &mut status.contradicting_devices;
        if known.len() < CONTRADICTING_MAX && !known.contains(device) {
            known.push(device.clone());
        }
    }
}

/// Does this record have findings that that one does not?
pub fn has_new_findings(status: &NodeFenceStatus, than: &NodeFenceStatus) -> bool {
    let mut both = than.clone();
    merge_findings(&mut both, status);
    both != *than
}

/// Takes over what counts for good and stands in `of`: its findings, that a proof was false, and what was done to the Node.
fn merge_lasting(status: &mut NodeFenceStatus, of: &NodeFenceStatus) {
    merge_findings(status, of);
    confirmed::adopt(status, of);
    // What was done to the Node is not done once more by whoever did not see it (S11). That everything had detached each looks at by itself: a volume
    // may have come back since.
    status.taint_applied_time = of.taint_applied_time.or(status.taint_applied_time);
    status.taint_removed_time = of.taint_removed_time.or(status.taint_removed_time);
}

/// Does this record tell of something for good that that one does not?
pub fn is_news(status: &NodeFenceStatus, than: &NodeFenceStatus) -> bool {
    let mut both = than.clone();
    merge_lasting(&mut both, status);
    both != *than
}

/// Hands on to whoever goes on with the record what this process has found, and what speaks against the proof which stands there. What was done to
/// the Node stands on the Node, which each of them looks at.
pub fn hand_on(status: &mut NodeFenceStatus, of: &NodeFenceStatus, wall_now: Timestamp) {
    let is_news = has_new_findings(of, status);
    merge_findings(status, of);
    match of
        .contradictions
        .last()
        .or(of.confirmation_refused.as_ref())
    {
        _ if confirmed::is_same_proof(status, of) => confirmed::adopt(status, of),
        // It was seen beside another proof, or before there was one: whether before this one nobody knows.
        Some(sign) if is_news => confirmed::doubted(status, sign, wall_now),
        _ => {}
    }
}

/// Takes over what counts for good, the binding and the off commands, which another process has written into the record. What became of `own` this
/// process knows better.
pub fn adopt(status: &mut NodeFenceStatus, live: NodeFenceStatus, own: Option<&Attempt>) {
    merge_lasting(status, &live);
    // Whichever process is first binds it to a Node and its boot, for all of them (S10).
    status.node_uid = live.node_uid.or(status.node_uid.take());
    status.boot_id = live.boot_id.or(status.boot_id.take());
    let known = std::mem::replace(&mut status.attempts, live.attempts);
    for attempt in known {
        let is_own = own.is_some_and(|own| attempt.id.as_deref() == Some(own.id.as_str()));
        let is_full = status.attempts.len() >= ATTEMPTS_KEPT;
        let mut records = status.attempts.iter_mut();
        let same = records.find(|it| (&it.id, &it.device) == (&attempt.id, &attempt.device));
        match same {
            Some(same) if is_own => *same = attempt,
            Some(_) => {}
            // It was left out because it has ended.
            None if attempt.completion_time.is_some() => {}
            // Nothing of what stands there makes room for it.
            None if is_full => {}
            None => status.attempts.push(attempt),
        }
    }
    status.attempt_count = status.attempt_count.max(live.attempt_count);
}
