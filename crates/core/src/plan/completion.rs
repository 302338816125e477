//! Nothing of ours is on the Node: is there a reason to end the incident?
//!
//! The node came back, a human or the policy took the request away, or what was to be done is done. It is asked first, and of
//! whoever finds the incident: the process that has begun it, or one that knows nothing but the record.

use super::abort::{abort, accuse, still_accused, taken_back, with_accused};
use super::outcome::{confirmed, released, was_down};
use super::phase::{NodePhase, is_proven, node_phase};
use super::power_on;
use super::round::Round;
use crate::decision::{Decision, close, wait};
use crate::delay::HeldCondition;
use crate::memory::Memory;
use crate::observed::{NodeView, Ready};
use crate::proof_source::ProofSource;
use crate::release::{booted_anew, never_went_down};
use crate::settings::Settings;
use crate::stage::Stage;
use crate::taint::is_quarantined;

/// What has become of a word says nothing of their proof.
fn is_by_devices(m: &Memory) -> bool {
    matches!(
        m.proven.by,
        Some(ProofSource::Devices(_) | ProofSource::Storage(_))
    )
}

/// The end of the incident, if nothing is left to do, or what is left to do after the release.
pub(super) fn ended(r: &mut Round<'_>, node: &NodeView) -> Option<Decision> {
    if r.memory.ending.is_none()
        && is_released(r, node)
        && let Some(decision) = power_on::step(r, node)
    {
        return Some(decision);
    }
    let (stage, message) = why_ended(r, node)?;
    // What was said when the claim went is what counts.
    let is_new = r.memory.ending.is_none() && stage != Stage::Recovered;
    let is_refuted =
        never_went_down(node, r.settings.boot_id.as_deref()) && r.memory.accused.is_none();
    if (is_new || is_refuted) && !r.memory.taint.seen && !r.settings.record.tainted {
        accuse(r, node);
    }
    let message = with_accused(r.memory, message);
    Some(still_accused(r.memory, close(stage, message)))
}

/// Has `out-of-service` of this incident been taken away by it? Whoever has not seen the taint stand knows it by the quarantine, unless the kubelet
/// has reported since. (That quarantine may be an older incident's, and the taint a human have removed: the machine was proven down all the same.)
fn is_released(r: &Round<'_>, node: &NodeView) -> bool {
    r.memory.taint.releasing
        || power_on::is_begun(r)
        || (r.settings.record.tainted && has_booted(r.settings, node))
        || (r.settings.record.tainted
            && !r.memory.taint.seen
            && is_quarantined(node)
            && !r.memory.proven.has_reported(node))
}

/// Has it booted since the incident was bound to its boot? Of an unknown boot nothing is concluded, not even from a node that is Ready.
fn has_booted(s: &Settings, node: &NodeView) -> bool {
    let boot = s.boot_id.as_deref();
    boot.is_some() && booted_anew(node, boot)
}

/// Why the incident ends, now that nothing of it is on the Node; the first that holds.
fn why_ended(r: &mut Round<'_>, node: &NodeView) -> Option<(Stage, String)> {
    if let Some(ending) = &r.memory.ending {
        return Some(ending.clone());
    }
    if is_released(r, node) {
        return Some((Stage::Recovered, released(r)));
    }
    let removed =
        r.memory.claim.as_ref().is_some_and(|claim| claim.seen) && !r.memory.under_claim.dropping;
    if r.memory.taint.seen || removed || r.settings.record.tainted {
        let message = format!(
            "taints were removed from Node {} by others, the incident ends",
            node.name
        );
        return Some((Stage::Aborted, message));
    }
    if r.settings.adopted {
        let message = format!(
            "the taint of Node {} that this NodeFence handles was removed",
            node.name
        );
        return Some((Stage::Aborted, message));
    }
    if let Some(ending) = taken_back(r.settings) {
        return Some(ending);
    }
    if node.ready() == Ready::True {
        return Some(match r.settings.human {
            true => (
                Stage::Aborted,
                format!(
                    "Node {} is Ready, and a Ready node is never fenced; cut its power or wait for NotReady, then create another NodeFence",
                    node.name
                ),
            ),
            false => (
                Stage::SelfRecovered,
                format!("Node {} is Ready again", node.name),
            ),
        });
    }
    if has_booted(r.settings, node) {
        return Some((
            Stage::Aborted,
            format!("Node {} rebooted (boot ID {})", node.name, node.boot_id),
        ));
    }
    if is_confirmed_down(r, node) && late_off(r).is_none() {
        return Some((Stage::ConfirmedDown, confirmed(r.memory)));
    }
    if let Some(reason) = &r.settings.stop {
        return Some((Stage::Aborted, reason.clone()));
    }
    no_longer_holds(r, node)
}

/// Has this process, or the one before it, proven the machine down for others to free what is on it (`recovery.strategy: None`), and has its kubelet
/// reported nothing since? They were told (`NodeConfirmedDown`), and a second off would hit what they do by now (S11). A sign of life beside
/// an off, whenever it came, has to be settled by this process.
pub(super) fn is_confirmed_down(r: &Round<'_>, node: &NodeView) -> bool {
    r.settings.only_proves()
        && r.memory.proven.published
        && r.memory.proven.has_not_reported(node)
        && r.memory.proven.doubted.is_none()
        && r.memory.trust.contradictions.is_empty()
        && (r.memory.confirmation.refused.is_none() || is_by_devices(r.memory))
}

/// The machine was proven down, and nothing else is wanted. An off that may still land would turn off what somebody turns on: it is waited for
/// before anybody is told (`NodeConfirmedDown`), for then others go by it (S23).
pub(super) fn late_off(r: &Round<'_>) -> Option<Decision> {
    let until = r
        .memory
        .late
        .pending_off_until(r.moment.now)
        .filter(|_| r.settings.only_proves())?;
    let message = format!(
        "{}; {}; leave it off until the incident has ended",
        was_down(r.memory),
        r.memory.late.off_message()
    );
    // Verified it is; what is read again later has its own time.
    let waits = wait(Stage::Tainting, message).until(until);
    Some(Decision {
        deadline: Some(until),
        ..waits
    })
}

/// What is proven down for others is done with: the claim goes, once no off may land any more.
pub(super) fn confirmed_down(r: &mut Round<'_>, node: &NodeView, claim: &str) -> Decision {
    late_off(r).unwrap_or_else(|| {
        let message = confirmed(r.memory);
        abort(r.memory, node, claim, Stage::ConfirmedDown, message)
    })
}

/// The incident was opened a little early: until the policy's wait is over its condition has to hold, without a break. From then on it has to be
/// there, as long as nothing of the incident is on the Node: a hold may last for days.
fn no_longer_holds(r: &mut Round<'_>, node: &NodeView) -> Option<(Stage, String)> {
    if let Some(message) = broken(r, node) {
        return Some((Stage::Aborted, format!("{message}; nothing was changed")));
    }
    r.memory.is_due |= r.moment.now >= r.settings.not_before;
    // It was held, or nobody looked, and the node went on meanwhile: of another outage the policy wants to wait anew. The date is compared for
    // equality alone, whoever's clock it is of.
    let gone = |it: &&HeldCondition| r.memory.is_due && !it.holds(node);
    let gone = r.settings.condition.as_ref().filter(gone)?;
    let message = format!(
        "Node {} is no longer {}={} since the same time; the policy judges it again",
        node.name, gone.type_, gone.status
    );
    Some((Stage::Aborted, message))
}

/// Why the node does not have to be fenced after all, if its condition has broken before the policy's wait was over.
pub(super) fn broken(r: &Round<'_>, node: &NodeView) -> Option<String> {
    let condition = r
        .settings
        .condition
        .as_ref()
        .filter(|it| !r.memory.is_due && !it.holds(node))?;
    Some(format!(
        "Node {} is no longer {}={}, before `unhealthyConditions[].durationSeconds` elapsed",
        node.name, condition.type_, condition.status
    ))
}

/// Is nothing of the incident on the Node: neither its claim, nor a taint beside it that may be its own?
pub fn is_bare(s: &Settings, m: &Memory, node: &NodeView) -> bool {
    match node_phase(s, node) {
        NodePhase::Unclaimed => true,
        NodePhase::ForeignTaint => !may_have_tainted(s, m, node),
        NodePhase::Claimed(_) | NodePhase::Tainted(_) | NodePhase::ForeignTaintBesideClaim(_) => {
            false
        }
    }
}

/// Has this incident set the taint that stands there, as far as this process knows, or may it have?
pub(super) fn may_have_tainted(s: &Settings, m: &Memory, node: &NodeView) -> bool {
    let may_have = is_proven(s, m) || s.record.tainted;
    may_have && s.mark_on(node).is_some()
}
