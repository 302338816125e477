//! What is reported beside a decision: how long its stage may last, and whether it needs attention. None of it changes the step.

use super::abort;
use super::deadline::time_limit;
use super::phase::is_proven;
use super::round::Round;
use crate::decision::{Decision, Effect};
use crate::escalation::Escalation;
use crate::manual_confirmation::valid_confirmation;
use crate::stage::Stage;
use std::time::Duration;

/// An incident that ends before the release names the off that it leaves behind.
pub(super) fn name_off_left_behind(r: &Round<'_>, decision: &mut Decision) {
    if decision.stage != Stage::Aborted || !matches!(decision.effect, Effect::Close) {
        return;
    }
    if let Some(message) = abort::off_left_behind(r) {
        decision.message.push_str(&message);
        if let Some((_, reported)) = &mut decision.escalation {
            reported.push_str(&message);
        }
    }
}

/// Remembers the stage, and since when it is shown.
pub(super) fn note_stage(r: &mut Round<'_>, decision: &Decision) {
    let since = match r.memory.stage {
        Some((stage, since)) if stage == decision.stage => since,
        _ => r.moment.now,
    };
    r.memory.stage = Some((decision.stage, since));
}

/// Until when the stage should be over, unless the decision says so itself.
pub(super) fn set_deadline(r: &Round<'_>, decision: &mut Decision) {
    let Some((_, since)) = r.memory.stage.filter(|_| decision.deadline.is_none()) else {
        return;
    };
    // The time in which an off may land is not the release's.
    let late = r.memory.late.may_land_until();
    let late = late.filter(|_| decision.stage == Stage::AwaitingRelease);
    let begun = late.map_or(since, |it| since.max(it));
    decision.deadline = time_limit(r.settings, decision.stage).map(|limit| begun + limit);
}

/// A manual confirmation that is of use was refused.
pub(super) fn call_for_confirmation(r: &Round<'_>, decision: &mut Decision) {
    // Whoever has confirmed knew of what the devices report, or do not.
    let is_new = |reason: Escalation| {
        r.memory.confirmation.refused.is_none()
            || ![Escalation::StillOn, Escalation::DeviceFailed].contains(&reason)
    };
    let called = decision.escalation.as_ref().map(|(reason, _)| *reason);
    if called.is_some_and(is_new) || decision.stage.is_ended() {
        return;
    }
    if let Some(message) = why_confirmation_refused(r, r.moment.now) {
        decision.escalation = Some((Escalation::ConfirmationRefused, message));
    }
}

/// A write was refused. What was refused before the end hinders nothing any more.
pub(super) fn call_for_denied_write(r: &Round<'_>, decision: &mut Decision) {
    if let Some(message) = &r.memory.writes.denied
        && !decision.stage.is_ended()
    {
        let message = format!(
            "the API server refuses a write of the operator: {message}; grant it, or correct the admission policy or webhook"
        );
        decision.escalation = Some((Escalation::AdmissionDenied, message));
    }
}

/// Why a human's word that was given counts for nothing, while one is of use.
pub(super) fn why_confirmation_refused(r: &Round<'_>, now: Duration) -> Option<String> {
    // A human's NodeFence may name no UID until it is bound to one.
    r.settings.node_uid.as_ref()?;
    r.settings
        .confirmation
        .as_ref()
        .filter(|_| !is_proven(r.settings, r.memory))?;
    r.memory
        .confirmation
        .refused
        .clone()
        .or(valid_confirmation(r.settings, now).err())
}
