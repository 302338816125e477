//! The claim is given back: why, and only once no command of ours is on its way any more.

use super::super::incident::{Approval, Decision, Effect, Memory, Settings};
use super::super::observed::{NodeView, Ready};
use super::super::stage::Stage;
use super::super::taint;
use super::level::{CONTRADICTION, busy_stage, in_trouble};
use super::{act, wait};

/// What follows if the claim may not be held any longer.
pub(super) fn aborted(
    s: &Settings,
    m: &mut Memory,
    node: &NodeView,
    claim: &str,
) -> Option<Decision> {
    let (stage, words) = why_abort(s, m, node)?;
    if m.ending.is_none() && !m.tainted && lives(s, m, node) && !accepted(m).is_empty() {
        m.alarm = Some(CONTRADICTION);
        m.last_failure = Some(words.clone());
    }
    Some(abort(m, node, claim, stage, words))
}

/// A claim is held only while the node is down and its fence is wanted.
fn why_abort(s: &Settings, m: &Memory, node: &NodeView) -> Option<(Stage, String)> {
    if let Some(ending) = &m.ending {
        return Some(ending.clone());
    }
    if m.tainted {
        let words = format!(
            "somebody else removed `out-of-service` from Node {}: it is not set again",
            node.name
        );
        return Some((Stage::Aborted, words));
    }
    if node.ready() == Ready::True {
        return Some((
            Stage::SelfRecovered,
            format!("Node {} is Ready again{}", node.name, after_off(m)),
        ));
    }
    if has_booted(s, m, node) {
        let words = format!(
            "Node {} has booted anew: its boot ID is {}{}",
            node.name,
            node.boot_id,
            after_off(m)
        );
        return Some((Stage::Aborted, words));
    }
    if s.released {
        return Some((
            Stage::Aborted,
            "released by `spec.desiredState: Released`".to_owned(),
        ));
    }
    if let Approval::Denied(user, reason) = &s.approval {
        return Some((Stage::Aborted, format!("denied by {user}: {reason}")));
    }
    s.stop
        .as_ref()
        .map(|reason| (Stage::Aborted, reason.clone()))
}

/// The kubelet has reported since the claim.
fn lives(s: &Settings, m: &Memory, node: &NodeView) -> bool {
    node.ready() == Ready::True || has_booted(s, m, node)
}

/// The node has booted since it was claimed.
fn has_booted(s: &Settings, m: &Memory, node: &NodeView) -> bool {
    let claimed = m.claim.as_ref().map(|held| held.boot_id.as_str());
    let claimed = claimed.or(s.boot_id.as_deref());
    claimed.is_some_and(|boot| boot != node.boot_id)
}

/// S22: life after an off command means a device that lies or is wired to another machine.
fn after_off(m: &Memory) -> String {
    match accepted(m).as_slice() {
        [] => String::new(),
        devices => format!(
            ", although FenceDevice {} accepted an off command: check its wiring and its identity",
            devices.join(", ")
        ),
    }
}

/// The devices that have accepted the off command of this try.
fn accepted(m: &Memory) -> Vec<&str> {
    let results = m.attempt.iter().flat_map(|attempt| &attempt.results);
    let accepted = results.filter(|(_, result)| result.is_accepted());
    accepted.map(|(device, _)| device.as_str()).collect()
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
    if m.commanding() {
        return wait(
            busy_stage(m),
            format!("{words}; waits for the device before the claim goes"),
        );
    }
    let decision = drop_claim(m, node, claim, words);
    still_accused(m, decision)
}

/// Whoever is called because a device lies has to look at it, though the incident ends.
pub(super) fn still_accused(m: &Memory, decision: Decision) -> Decision {
    match m.alarm {
        Some(CONTRADICTION) => in_trouble(m, decision),
        _ => decision,
    }
}

/// Somebody else has put the node out of service under our claim: it is theirs from now on, so the claim goes (S8). The
/// incident is held, and begins anew should they take their taint away.
pub(super) fn give_way(m: &mut Memory, node: &NodeView, claim: &str) -> Decision {
    let words = format!(
        "somebody else has put Node {} out of service: the claim is given back, their taint is left alone",
        node.name
    );
    if m.commanding() {
        return wait(
            Stage::Held,
            format!("{words}; waits for the device before the claim goes"),
        );
    }
    Decision {
        stage: Stage::Held,
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
