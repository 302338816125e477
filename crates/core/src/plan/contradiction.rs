//! Life beside a reading of Off (S22): a device that lies or is wired to another machine, a human who has looked at another one, or a machine that
//! took a moment to go down.

use super::abort::drop_claim;
use super::round::Round;
use super::tries::in_trouble;
use crate::decision::{Decision, wait};
use crate::device::{DeviceReadings, Level};
use crate::escalation::Escalation;
use crate::manual_confirmation;
use crate::memory::CONTRADICTIONS_KEPT;
use crate::not_proven::NotProven;
use crate::observed::NodeView;
use crate::proof::have_read_off;
use crate::stage::Stage;
use fencing_api::settings::FenceMode;
use std::time::Duration;

/// A lie is a human's matter, and the machine is looked at again at this pace.
const LIE_PAUSE: Duration = Duration::from_secs(30);

/// Remembers who has lied, and gives the words for people: of a device, or of a human's word, which counts for nothing any more.
pub(super) fn note_life(
    r: &mut Round<'_>,
    level: &Level,
    readings: &[DeviceReadings],
    reason: &NotProven,
) -> String {
    if let NotProven::OnWhileOff { .. } = reason {
        let off = have_read_off(readings);
        r.memory
            .trust
            .power_history
            .record_contradiction(&off, readings.len(), level.require);
    }
    if !level.is_manual() {
        return reason.to_string();
    }
    let message = manual_confirmation::refused(r.settings, &reason.sign_of_life());
    r.memory.confirmation.refused.insert(message).clone()
}

/// S22. A slow machine may have lived between its off command and the first reading, so the first contradiction of a
/// PowerOff fence only begins the reading anew; from the second on a human is called, and there is no taint. Nor another off
/// command, by whatever device: it would go to whatever machine is at its other end. Only readings over a whole Lease without a renewal
/// settle it, or a human's word.
pub(super) fn after_life(
    r: &mut Round<'_>,
    node: &NodeView,
    level: &Level,
    message: String,
) -> Decision {
    let kept = match r.settings.mode() {
        // No device has lied.
        _ if level.is_manual() => 0,
        FenceMode::PowerOff => CONTRADICTIONS_KEPT,
        // Nothing is commanded there: all that follows is that readings take longer.
        _ => 1,
    };
    if r.memory.trust.contradictions.len() < kept {
        r.memory.trust.contradictions.push(message.clone());
    }
    r.memory.proven.doubted = Some(message.clone());
    r.memory.under_claim.readings = None;
    // That it moved is known now: what counts is whether it moves again.
    r.memory.under_claim.life_counts_from(None);
    r.memory.writes.forget_denial();
    if r.settings.mode() == FenceMode::PowerOff && !r.memory.trust.is_contradicted() {
        return wait(
            Stage::Verifying,
            format!("{message}; reading the power again"),
        )
        .until(r.moment.now);
    }
    r.memory.tries.last_failure = Some(message.clone());
    r.memory.tries.alarm = Some(Escalation::FenceContradiction);
    r.memory.tries.retry_at = Some(r.moment.now + LIE_PAUSE);
    let claim = node.claim().unwrap_or_default().to_owned();
    let decision = match r.settings.mode() {
        FenceMode::PowerOff => wait(Stage::Verifying, message).until(r.moment.now + LIE_PAUSE),
        _ => drop_claim(r.memory, node, &claim, message),
    };
    in_trouble(r.memory, decision)
}
