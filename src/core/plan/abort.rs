//! The claim is given back: why, and only once no command of ours is on its way any more.

use super::super::attempt::OffResult;
use super::super::delay::HeldCondition;
use super::super::incident::{Decision, Effect, Settings};
use super::super::memory::Memory;
use super::super::observed::{NodeView, Observed, Ready};
use super::super::release::booted_anew;
use super::super::stage::Stage;
use super::super::taint;
use super::ending::decided;
use super::level::{CONTRADICTION, busy_stage};
use super::{Moment, act, wait};

/// What follows if the claim may not be held any longer.
pub(super) fn aborted(
    s: &Settings,
    m: &mut Memory,
    node: &NodeView,
    claim: &str,
    t: &Moment,
) -> Option<Decision> {
    let (stage, words) = why_abort(s, m, node)?;
    if !m.tainted && !s.record.tainted {
        accuse(s, m, node, t);
    }
    Some(abort(m, node, claim, stage, words))
}

/// A claim is held only while the node is down and its fence is wanted.
fn why_abort(s: &Settings, m: &Memory, node: &NodeView) -> Option<(Stage, String)> {
    if let Some(ending) = decided(s, m, node) {
        return Some(ending);
    }
    // Whoever set it may have been a process before this one.
    if m.tainted || s.record.tainted {
        let words = format!(
            "somebody else removed `{}` from Node {}: it is not set again",
            s.mark(),
            node.name
        );
        return Some((Stage::Aborted, words));
    }
    if node.ready() == Ready::True {
        return Some((
            Stage::SelfRecovered,
            format!("Node {} is Ready again", node.name),
        ));
    }
    if has_booted(s, m, node) {
        let words = format!(
            "Node {} has booted anew: its boot ID is {}",
            node.name, node.boot_id
        );
        return Some((Stage::Aborted, words));
    }
    let stopped = || Some((Stage::Aborted, s.stop.clone()?));
    taken_back(s).or_else(stopped)
}

/// Somebody wants no fence.
pub(super) fn taken_back(s: &Settings) -> Option<(Stage, String)> {
    let words = match s.released {
        true => "released by `spec.desiredState: Released`".to_owned(),
        false => s.approval.denial()?,
    };
    Some((Stage::Aborted, words))
}

/// The node has booted since it was claimed.
fn has_booted(s: &Settings, m: &Memory, node: &NodeView) -> bool {
    let claimed = m.claim.as_ref().map(|held| held.boot_id.as_str());
    let claimed = claimed.or(s.boot_id.as_deref());
    claimed.is_some_and(|boot| boot != node.boot_id)
}

/// Only a kubelet says Ready=False of a node that node-lifecycle had given up. Under the claim it may have said so before the off.
fn reports_again(s: &Settings, node: &NodeView) -> bool {
    let claim = node.claim().and_then(taint::claim_fence);
    s.condition.as_ref().is_some_and(HeldCondition::is_silence)
        && node.ready() == Ready::False
        && claim != Some(s.fence.as_str())
}

/// S22: life after an off command means a device that lies or is wired to another machine, or one that is about to turn off a node that
/// has come back. Somebody is called, and the end of the incident does not send them away.
pub(super) fn accuse(s: &Settings, m: &mut Memory, node: &NodeView, t: &Moment) {
    if let Some(accused) = after_off(s, m, node, t) {
        m.accused = Some(accused);
        m.alarm = Some(CONTRADICTION);
    }
}

/// The words of an end, and who is accused beside them.
pub(super) fn with_accused(m: &Memory, words: String) -> String {
    match &m.accused {
        Some(accused) => format!("{words}, {accused}"),
        None => words,
    }
}

/// Which commands of this incident may still turn off a machine that has come back, in words: those of others say nothing of a device of it. Who has booted anew after its device was seen to be off
/// was turned on by somebody.
fn after_off(s: &Settings, m: &Memory, node: &NodeView, t: &Moment) -> Option<String> {
    let has_booted = has_booted(s, m, node);
    if node.ready() != Ready::True && !has_booted && !reports_again(s, node) {
        return None;
    }
    let results = m.attempt.iter().flat_map(|attempt| &attempt.results);
    let accepted = results.filter(|(_, result)| {
        result.is_accepted() && !(has_booted && **result == OffResult::Landed)
    });
    let devices: Vec<&str> = accepted.map(|(device, _)| device.as_str()).collect();
    let may_land = m.unresolved_until.is_some_and(|until| t.now < until);
    match devices.as_slice() {
        [] if may_land => Some("although an off command to its machine may still land late (`status.attempts`): it may go down once more; if it does, power it on again".to_owned()),
        [] => never_down(m, node).filter(|_| !has_booted),
        devices => Some(format!(
            "although FenceDevice {} accepted an off command: it may still go down; if it does not, check the device's wiring and its identity",
            devices.join(", ")
        )),
    }
}

/// The machine was proven down, and its node is Ready in the very boot that was fenced.
fn never_down(m: &Memory, node: &NodeView) -> Option<String> {
    let (stored, storing) = (&m.learned.proven_by, &m.learned.proving);
    let proven = if storing.is_empty() { stored } else { storing };
    (node.ready() == Ready::True && !proven.is_empty()).then(|| {
        format!(
            "although it was read Off by {}: it never went down; correct the FenceDevice's wiring and its identity before the node fails again, or withdraw the word if it was a human's",
            proven.join(", ")
        )
    })
}

/// What people have to know who find the incident ended before its taint: nobody sees any more what has become of an off that was sent.
pub(super) fn off_left_behind(
    s: &Settings,
    m: &Memory,
    o: &Observed,
    t: &Moment,
) -> Option<&'static str> {
    let results = m
        .attempt
        .iter()
        .flat_map(|attempt| attempt.results.values());
    let is_sent = m.has_commanded
        || !s.record.turned_off.is_empty()
        || results.into_iter().any(OffResult::may_turn_off);
    let may_land = m.commanding() || m.unresolved_until.is_some_and(|until| t.now < until);
    let is_back =
        |it: &NodeView| it.ready() == Ready::True || booted_anew(it, s.boot_id.as_deref());
    let runs = o.node.present().is_some_and(is_back);
    // Of what the lost record of an adopted taint has sent nobody knows.
    let is_told = m.accused.is_some() || s.adopted;
    (!is_told && (may_land || (is_sent && !runs))).then_some(
        "; an off command was sent to its machine (`status.attempts`), which may be off, or go off late: power it on by hand if it is to run",
    )
}

/// Takes our claim away, once no command of ours is on its way any more.
pub(super) fn abort(
    m: &mut Memory,
    node: &NodeView,
    claim: &str,
    stage: Stage,
    words: String,
) -> Decision {
    m.ending = Some((stage, words.clone()));
    let words = with_accused(m, words);
    let decision = give_back(m, node, claim, busy_stage(m), words);
    still_accused(m, decision)
}

/// Whoever is called because a device lies has to look at it, though the incident ends.
pub(super) fn still_accused(m: &Memory, decision: Decision) -> Decision {
    if m.alarm != Some(CONTRADICTION) {
        return decision;
    }
    let words = match m.contradictions.last() {
        Some(before) => format!("{}; before that, {before}", decision.words),
        None => decision.words.clone(),
    };
    decision.escalated(CONTRADICTION, words)
}

/// Takes a claim away that nothing can be built on; the incident goes on without it.
pub(super) fn give_back(
    m: &mut Memory,
    node: &NodeView,
    claim: &str,
    stage: Stage,
    words: String,
) -> Decision {
    if m.commanding() {
        let words = format!("{words}; waits for the device before the claim goes");
        return wait(stage, words);
    }
    Decision {
        stage,
        ..drop_claim(m, node, claim, words)
    }
}

pub(super) fn drop_claim(m: &mut Memory, node: &NodeView, claim: &str, words: String) -> Decision {
    m.dropping = true;
    match taint::drop_claim(node, claim) {
        Some(patch) => act(Effect::DropClaim(patch), busy_stage(m), words),
        None => wait(busy_stage(m), words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::attempt::Attempt;
    use crate::core::fixtures;
    use crate::core::observed::ConditionView;
    use std::time::Duration;

    /// S22: a machine that lives after its device has accepted an off is its device's fault, unless somebody has turned it on since.
    #[test]
    fn a_device_is_accused_of_what_lives_and_was_not_off_in_between() {
        let accused = |result: OffResult, ready: &str, boot: &str| {
            let attempt = Attempt {
                results: [("bmc".to_owned(), result)].into(),
                ..fixtures::attempt()
            };
            let m = Memory {
                claim: Some(fixtures::own_claim("fence-n1")),
                attempt: Some(attempt),
                ..Memory::default()
            };
            let node = NodeView {
                boot_id: boot.to_owned(),
                conditions: vec![ConditionView {
                    status: ready.to_owned(),
                    ..fixtures::node().conditions.remove(0)
                }],
                ..fixtures::node()
            };
            let moment = Moment {
                now: Duration::from_secs(1),
                nonce: String::new(),
                date: fixtures::DATE.to_owned(),
            };
            after_off(&fixtures::settings(), &m, &node, &moment).is_some()
        };
        assert!(!accused(OffResult::Accepted, "Unknown", "boot-1"));
        assert!(accused(OffResult::Accepted, "True", "boot-1"));
        assert!(accused(OffResult::Accepted, "Unknown", "boot-2"));
        assert!(accused(OffResult::Landed, "True", "boot-1"));
        assert!(!accused(OffResult::Landed, "True", "boot-2"));
        assert!(!accused(OffResult::AlreadyOff, "True", "boot-1"));
    }
}
