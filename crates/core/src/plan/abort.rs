//! The claim is given back: why, and only once no command of ours is on its way any more.

use super::round::Round;
use super::tries::busy_stage;
use crate::attempt::OffResult;
use crate::decision::{Decision, Effect, act, wait};
use crate::delay::HeldCondition;
use crate::escalation::Escalation;
use crate::memory::Memory;
use crate::observed::{NodeView, Ready};
use crate::proof_source::ProofSource;
use crate::release::{booted_anew, never_went_down};
use crate::settings::Settings;
use crate::stage::Stage;
use crate::taint;

/// What follows if the claim may not be held any longer.
pub(super) fn aborted(r: &mut Round<'_>, node: &NodeView, claim: &str) -> Option<Decision> {
    let (stage, message) = why_abort(r, node)?;
    if !r.memory.taint.seen && !r.settings.record.tainted {
        accuse(r, node);
    }
    Some(abort(r.memory, node, claim, stage, message))
}

/// An end that says "down" is decided anew where the kubelet has reported since, most of all when its node is Ready in the boot that was fenced. Who has
/// booted anew was down.
pub(super) fn reconsider(r: &mut Round<'_>, node: &NodeView) {
    let is_confirmed = matches!(r.memory.ending, Some((Stage::ConfirmedDown, _)));
    let has_booted = booted_anew(node, r.settings.boot_id.as_deref());
    let is_refuted = never_went_down(node, r.settings.boot_id.as_deref());
    if is_confirmed && (is_refuted || (r.memory.proven.has_reported(node) && !has_booted)) {
        r.memory.ending = None;
    }
}

/// S22: who goes by `NodeConfirmedDown` is told of a report of the kubelet since, in the boot that was proven down, and that the word which it rests
/// on counts for nothing any more.
pub(super) fn note_doubt(r: &mut Round<'_>, node: &NodeView) {
    if let (Some(ProofSource::Confirmation), Some(message)) =
        (&r.memory.proven.by, &r.memory.confirmation.refused)
    {
        r.memory
            .proven
            .doubted
            .get_or_insert_with(|| message.clone());
    }
    let is_its_node = r
        .settings
        .node_uid
        .as_ref()
        .is_none_or(|uid| *uid == node.uid);
    let is_its_boot = r.settings.boot_id.as_ref() == Some(&node.boot_id);
    if is_its_node && is_its_boot && r.memory.proven.has_reported(node) {
        let message = format!(
            "the kubelet of Node {} has reported since, unless that report was delayed",
            node.name
        );
        r.memory.proven.doubted.get_or_insert(message);
    }
}

/// A claim is held only while the node is down and its fence is wanted.
fn why_abort(r: &Round<'_>, node: &NodeView) -> Option<(Stage, String)> {
    if let Some(ending) = &r.memory.ending {
        return Some(ending.clone());
    }
    // Whoever set it may have been a process before this one.
    if r.memory.taint.seen || r.settings.record.tainted {
        let message = format!(
            "taint `{}` was removed from Node {} by others, and is not set again",
            r.settings.mark(),
            node.name
        );
        return Some((Stage::Aborted, message));
    }
    if node.ready() == Ready::True {
        return Some((
            Stage::SelfRecovered,
            format!("Node {} is Ready again", node.name),
        ));
    }
    if has_booted(r, node) {
        let message = format!("Node {} rebooted (boot ID {})", node.name, node.boot_id);
        return Some((Stage::Aborted, message));
    }
    let stopped = || Some((Stage::Aborted, r.settings.stop.clone()?));
    taken_back(r.settings).or_else(stopped)
}

/// Somebody wants no fence.
pub(super) fn taken_back(s: &Settings) -> Option<(Stage, String)> {
    let message = match s.released {
        true => "released by `spec.desiredState: Released`".to_owned(),
        false => s.approval.denial()?,
    };
    Some((Stage::Aborted, message))
}

/// The node has booted since it was claimed.
fn has_booted(r: &Round<'_>, node: &NodeView) -> bool {
    let claimed = r.memory.claim.as_ref().map(|held| held.boot_id.as_str());
    let claimed = claimed.or(r.settings.boot_id.as_deref());
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
pub(super) fn accuse(r: &mut Round<'_>, node: &NodeView) {
    if let Some(accused) = accusation(r, node) {
        let is_refuted = refuted_proof(r.memory, node, has_booted(r, node)).is_some();
        // Another report may have been on its way all the while.
        r.memory.proven.refuted |= is_refuted && node.ready() == Ready::True;
        r.memory.accused = Some(accused);
        r.memory.tries.alarm = Some(Escalation::FenceContradiction);
    }
}

/// The words of an end, and who is accused beside them.
pub(super) fn with_accused(m: &Memory, message: String) -> String {
    match &m.accused {
        Some(accused) => format!("{message}{accused}"),
        None => message,
    }
}

/// What speaks against a device of this incident once its node shows life, in words: an off of it that may still act, or a proof that is refuted.
/// The commands of others say nothing of a device of it. Who has booted anew after its device was seen to be off was turned on by somebody.
fn accusation(r: &Round<'_>, node: &NodeView) -> Option<String> {
    let has_booted = has_booted(r, node);
    let lives = node.ready() == Ready::True
        || reports_again(r.settings, node)
        || r.memory.proven.has_reported(node);
    if !lives && !has_booted {
        return None;
    }
    let may_land = r.memory.late.own_off_may_land(r.moment.now);
    if let Some(proof_source) = refuted_proof(r.memory, node, has_booted) {
        let off_was_sent = r.memory.commands.may_have_turned_off_something() || may_land;
        return Some(refuted(r.settings, proof_source, node, off_was_sent));
    }
    let results = r
        .memory
        .commands
        .attempt
        .iter()
        .flat_map(|attempt| &attempt.results);
    let accepted = results.filter(|(_, result)| {
        result.is_accepted() && !(has_booted && **result == OffResult::Landed)
    });
    let devices: Vec<&str> = accepted.map(|(device, _)| device.as_str()).collect();
    match devices.as_slice() {
        [] if may_land => Some("; an earlier power-off may still take effect (`status.attempts`); power the machine on if it goes down once more".to_owned()),
        [] => None,
        devices => Some(format!(
            "; FenceDevice {} accepted a power-off, which may still take effect; if the machine stays up, check the FenceDevice's wiring and identity",
            devices.join(", ")
        )),
    }
}

/// What is said of a proof that its node has refuted.
fn refuted(
    s: &Settings,
    proof_source: &ProofSource,
    node: &NodeView,
    off_was_sent: bool,
) -> String {
    let off = match off_was_sent {
        true => ", see `status.attempts`: a power-off may still take effect",
        false => "",
    };
    let data = match s.only_proves() {
        true => ", stop users of `NodeConfirmedDown`, check their data",
        false => "",
    };
    let (sign, so) = match node.ready() {
        Ready::True => (format!("Node {} is Ready", node.name), ""),
        _ => (
            format!("the kubelet of Node {} has reported since", node.name),
            "unless that report was delayed, ",
        ),
    };
    format!(
        "; {sign} in boot {}, although {}: {so}its machine never went down; {}{data}{off}",
        node.boot_id,
        proof_source.message(),
        proof_source.way_out()
    )
}

/// Who has proven it down, if its node is Ready in that very boot, or has reported in it since.
fn refuted_proof<'m>(m: &'m Memory, node: &NodeView, has_booted: bool) -> Option<&'m ProofSource> {
    let is_back = !has_booted && (node.ready() == Ready::True || m.proven.has_reported(node));
    m.proven.by.as_ref().filter(|_| is_back)
}

/// What people have to know who find the incident aborted: nobody sees any more what has become of an off that was sent.
pub(super) fn off_left_behind(r: &Round<'_>) -> Option<String> {
    // What the lost record of an adopted taint has sent nobody knows, and what is said of who is accused names the off.
    if r.settings.adopted || r.memory.accused.is_some() {
        return None;
    }
    let is_sent = r.memory.commands.may_have_turned_off_something()
        || !r.settings.record.turned_off.is_empty();
    let mut results = r
        .memory
        .commands
        .attempt
        .iter()
        .flat_map(|it| it.results.values());
    let may_land = r.memory.commands.under_way()
        || results.any(|it| !it.is_settled())
        || r.memory.late.own_off_may_land(r.moment.now);
    let runs = r
        .observed
        .node
        .present()
        .is_some_and(|it| shows_life(r.settings, it));
    (may_land || (is_sent && !runs)).then(|| {
        format!(
            "; a power-off of Node {} may still take effect (`status.attempts`); power it on by hand if it is to run",
            r.settings.node
        )
    })
}

/// Is it Ready, has it booted since, or has a kubelet made it anew, which runs?
fn shows_life(s: &Settings, node: &NodeView) -> bool {
    let is_another = s.node_uid.as_ref().is_some_and(|uid| *uid != node.uid);
    node.ready() == Ready::True
        || booted_anew(node, s.boot_id.as_deref())
        || (is_another && !node.boot_id.is_empty())
}

/// Takes our claim away, once no command of ours is on its way any more.
pub(super) fn abort(
    m: &mut Memory,
    node: &NodeView,
    claim: &str,
    stage: Stage,
    message: String,
) -> Decision {
    m.ending = Some((stage, message.clone()));
    let message = with_accused(m, message);
    let decision = give_back(m, node, claim, busy_stage(m), message);
    still_accused(m, decision)
}

/// Whoever is called because a device lies has to look at it, though the incident ends.
pub(super) fn still_accused(m: &Memory, decision: Decision) -> Decision {
    if m.tries.alarm != Some(Escalation::FenceContradiction) {
        return decision;
    }
    let message = match m.trust.contradictions.last() {
        Some(before) => format!("{}; earlier: {before}", decision.message),
        None => decision.message.clone(),
    };
    decision.escalated(Escalation::FenceContradiction, message)
}

/// Takes a claim away that nothing can be built on; the incident goes on without it.
pub(super) fn give_back(
    m: &mut Memory,
    node: &NodeView,
    claim: &str,
    stage: Stage,
    message: String,
) -> Decision {
    if m.commands.under_way() {
        let message = format!("{message}; the claim is removed when the device has answered");
        return wait(stage, message);
    }
    Decision {
        stage,
        ..drop_claim(m, node, claim, message)
    }
}

/// Takes our claim away at once, whatever may be on its way: [`give_back`] waits for it.
pub(super) fn drop_claim(
    m: &mut Memory,
    node: &NodeView,
    claim: &str,
    message: String,
) -> Decision {
    m.under_claim.dropping = true;
    match taint::drop_claim(node, claim) {
        Some(patch) => act(Effect::DropClaim(patch), busy_stage(m), message),
        None => wait(busy_stage(m), message),
    }
}

#[cfg(test)]
mod tests;
