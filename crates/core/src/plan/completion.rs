//! Nothing of ours is on the Node: is there a reason to end the incident?
//!
//! The node came back, a human or the policy took the request away, or what was to be done is done. It is asked first, and of
//! whoever finds the incident: the process that has begun it, or one that knows nothing but the record.

use super::abort::{abort, accuse, still_accused, taken_back, with_accused};
use super::outcome::{confirmed, released, was_down};
use super::phase::{NodePhase, is_proven, node_phase};
use super::power_on;
use super::round::Moment;
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
    matches!(m.proven_off_by, Some(ProofSource::Devices(_)))
}

/// The end of the incident, if nothing is left to do, or what is left to do after the release.
pub(super) fn ended(s: &Settings, m: &mut Memory, node: &NodeView, t: &Moment) -> Option<Decision> {
    if m.ending.is_none()
        && is_released(s, m, node)
        && let Some(decision) = power_on::step(s, m, node, t)
    {
        return Some(decision);
    }
    let (stage, message) = why_ended(s, m, node, t)?;
    // What was said when the claim went is what counts.
    let is_new = m.ending.is_none() && stage != Stage::Recovered;
    let is_refuted = never_went_down(node, s.boot_id.as_deref()) && m.accused.is_none();
    if (is_new || is_refuted) && !m.tainted && !s.record.tainted {
        accuse(s, m, node, t);
    }
    let message = with_accused(m, message);
    Some(still_accused(m, close(stage, message)))
}

/// Has `out-of-service` of this incident been taken away by it? Whoever has not seen the taint stand knows it by the quarantine, unless the kubelet
/// has reported since. (That quarantine may be an older incident's, and the taint a human have removed: the machine was proven down all the same.)
fn is_released(s: &Settings, m: &Memory, node: &NodeView) -> bool {
    m.releasing
        || power_on::is_begun(s, m)
        || (s.record.tainted && has_booted(s, node))
        || (s.record.tainted && !m.tainted && is_quarantined(node) && !m.has_reported(node))
}

/// Has it booted since the incident was bound to its boot? Of an unknown boot nothing is concluded, not even from a node that is Ready.
fn has_booted(s: &Settings, node: &NodeView) -> bool {
    let boot = s.boot_id.as_deref();
    boot.is_some() && booted_anew(node, boot)
}

/// Why the incident ends, now that nothing of it is on the Node; the first that holds.
fn why_ended(s: &Settings, m: &mut Memory, node: &NodeView, t: &Moment) -> Option<(Stage, String)> {
    if let Some(ending) = &m.ending {
        return Some(ending.clone());
    }
    if is_released(s, m, node) {
        return Some((Stage::Recovered, released(s, m)));
    }
    let removed = m.claim.as_ref().is_some_and(|claim| claim.seen) && !m.dropping;
    if m.tainted || removed || s.record.tainted {
        let message = format!(
            "somebody else removed our taints from Node {}: the incident ends, nothing is set again",
            node.name
        );
        return Some((Stage::Aborted, message));
    }
    if s.adopted {
        let message = format!(
            "the taint of Node {} that this NodeFence was made for is gone",
            node.name
        );
        return Some((Stage::Aborted, message));
    }
    if let Some(ending) = taken_back(s) {
        return Some(ending);
    }
    if node.ready() == Ready::True {
        return Some(match s.human {
            true => (
                Stage::Aborted,
                format!(
                    "Node {} is Ready: a Ready node is never fenced; cut its power or wait for NotReady, then ask again",
                    node.name
                ),
            ),
            false => (
                Stage::SelfRecovered,
                format!("Node {} is Ready again", node.name),
            ),
        });
    }
    if has_booted(s, node) {
        return Some((
            Stage::Aborted,
            format!(
                "Node {} has booted anew: its boot ID is {}",
                node.name, node.boot_id
            ),
        ));
    }
    if is_confirmed_down(s, m, node) && late_off(s, m, t).is_none() {
        return Some((Stage::ConfirmedDown, confirmed(m)));
    }
    if let Some(reason) = &s.stop {
        return Some((Stage::Aborted, reason.clone()));
    }
    no_longer_holds(s, m, node, t)
}

/// Has this process, or the one before it, proven the machine down for others to free what is on it (`recovery.strategy: None`), and has its kubelet
/// reported nothing since? They were told (`NodeConfirmedDown`), and a second off would hit what they do by now (S11). A sign of life beside
/// an off, whenever it came, has to be settled by this process.
pub(super) fn is_confirmed_down(s: &Settings, m: &Memory, node: &NodeView) -> bool {
    s.only_proves()
        && m.proof_published
        && m.has_not_reported(node)
        && m.proof_doubted.is_none()
        && m.contradictions.is_empty()
        && (m.confirmation_refused.is_none() || is_by_devices(m))
}

/// The machine was proven down, and nothing else is wanted. An off that may still land would turn off what somebody turns on: it is waited for
/// before anybody is told (`NodeConfirmedDown`), for then others go by it (S23).
pub(super) fn late_off(s: &Settings, m: &Memory, t: &Moment) -> Option<Decision> {
    let until = m.late_off_until(t.now).filter(|_| s.only_proves())?;
    let message = format!(
        "{}; {}: leave it off until the incident has ended",
        was_down(m),
        m.late_off_message()
    );
    // Verified it is; what is read again later has its own time.
    let waits = wait(Stage::Tainting, message).until(until);
    Some(Decision {
        deadline: Some(until),
        ..waits
    })
}

/// What is proven down for others is done with: the claim goes, once no off may land any more.
pub(super) fn confirmed_down(
    s: &Settings,
    m: &mut Memory,
    node: &NodeView,
    claim: &str,
    t: &Moment,
) -> Decision {
    late_off(s, m, t).unwrap_or_else(|| {
        let message = confirmed(m);
        abort(m, node, claim, Stage::ConfirmedDown, message)
    })
}

/// The incident was opened a little early: until the policy's wait is over its condition has to hold, without a break. From then on it has to be
/// there, as long as nothing of the incident is on the Node: a hold may last for days.
fn no_longer_holds(
    s: &Settings,
    m: &mut Memory,
    node: &NodeView,
    t: &Moment,
) -> Option<(Stage, String)> {
    if let Some(message) = broken(s, m, node) {
        return Some((Stage::Aborted, format!("{message}: nothing was touched")));
    }
    m.is_due |= t.now >= s.not_before;
    // It was held, or nobody looked, and the node went on meanwhile: of another outage the policy wants to wait anew. The date is compared for
    // equality alone, whoever's clock it is of.
    let gone = |it: &&HeldCondition| m.is_due && !it.holds(node);
    let gone = s.condition.as_ref().filter(gone)?;
    let message = format!(
        "Node {} is not {}={} any more, or not since the same time, and nothing of the incident is on it: what it shows now is for the policy to judge anew",
        node.name, gone.type_, gone.status
    );
    Some((Stage::Aborted, message))
}

/// Why the node does not have to be fenced after all, if its condition has broken before the policy's wait was over.
pub(super) fn broken(s: &Settings, m: &Memory, node: &NodeView) -> Option<String> {
    let condition = s
        .condition
        .as_ref()
        .filter(|it| !m.is_due && !it.holds(node))?;
    Some(format!(
        "Node {} is not {}={} any more, before `unhealthyConditions[].durationSeconds` were over",
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
