//! What the process before us has left, or another one that sees to the same incident.
//!
//! It comes from the record, and only ever makes the rest stricter (S3): a word that was refused, a device that has lied, a command that may
//! still land. So does what other NodeFences have sent to the machine.

use super::pace::{READ_PACE, poll_again};
use super::round::Round;
use super::tries::in_trouble;
use super::tries::{ORDER_MIN, order_max};
use crate::decision::Decision;
use crate::device::Level;
use crate::escalation::Escalation;
use crate::memory::Memory;
use crate::observed::NodeView;
use crate::proof_source::ProofSource;
use crate::settings::{ForeignCommands, Settings};
use crate::stage::Stage;
use std::time::Duration;

/// Once: what the process before us has left.
pub(super) fn hydrate(settings: &Settings, memory: &mut Memory, now: Duration) {
    if memory.record_read {
        return;
    }
    memory.record_read = true;
    memory.is_due = settings.record.due && !settings.claims_off_early;
    // What has proven the machine down is what has to read off at the release, whatever serves the node by now (S15).
    for (level, devices) in &settings.record.proven_by {
        let claimed = memory.under_claim.devices_claimed.entry(level.clone());
        claimed.or_insert_with(|| devices.clone());
        memory.under_claim.proven_by.clone_from(devices);
        memory.under_claim.proven_by.sort_unstable();
        let mut manual = settings.levels.iter().filter(|it| it.is_manual());
        let by_confirmation = manual.any(|it| it.name == *level);
        memory.proven.by = Some(ProofSource::of(devices, by_confirmation, &settings.levels));
    }
    memory.proven.report = settings.record.reported.or(memory.proven.report);
    memory.proven.published |= settings.record.evidence;
    let refuted = &settings.record.confirmation_refused;
    memory.confirmation.refused = memory
        .confirmation
        .refused
        .take()
        .or_else(|| refuted.clone());
    if settings.record.contradictions.len() > memory.trust.contradictions.len() {
        memory
            .trust
            .contradictions
            .clone_from(&settings.record.contradictions);
    }
    // Whether they answered all along is not known.
    memory
        .trust
        .silent
        .extend(settings.record.asked.iter().cloned());
    for device in &settings.record.contradicting {
        memory.trust.power_history.recall(device);
    }
    // A proof has settled it, and nothing else was done since.
    if memory.trust.is_contradicted() && !settings.record.tainted {
        memory.tries.alarm = Some(Escalation::FenceContradiction);
    }
    // Twice in an incident, whoever has sent them (S11).
    memory.taint.reoffs = memory.taint.reoffs.max(settings.record.reoffs);
    // An off of the process before us may still be on its way (S23), and who has no record of it cannot say that there was none, nor how late it is.
    if settings.record.unresolved {
        memory.late.note_own_off(late(settings, now));
    }
    if settings.adopted {
        // No record names it.
        let until = late(settings, now).max(now + settings.record.foreign_commands.window);
        memory.late.note_others_off(until);
    }
    // It may have begun when another NodeFence had just ended.
    if settings.record.evidence {
        await_foreign_commands(settings, memory, now);
    }
}

/// Whoever claims the Node waits for what others have sent to its machine, if nobody knows what became of it (S23). Before, there is nothing that it
/// could do harm to; after, they find the claim and send nothing more.
pub(super) fn await_foreign_commands(settings: &Settings, memory: &mut Memory, now: Duration) {
    memory.late.known = ForeignCommands::default();
    note_foreign_commands(settings, memory, now);
}

/// S23: with `recovery.strategy: None` others are told that the machine is down and rely on it, so every on that may still land has to be known
/// first. Nobody sends one beside a claim, and who sent one before has written it down: a list that was made under the claim shows it, where the
/// watch may be late.
pub(super) fn note_listed_commands(r: &mut Round<'_>, now: Duration) {
    if r.settings.only_proves()
        && !r.memory.under_claim.others_listed
        && !r.settings.record.foreign_commands.by_watch
    {
        r.memory.under_claim.others_listed = true;
        await_foreign_commands(r.settings, r.memory, now);
    }
}

/// Until there is such a list.
pub(super) fn unlisted(r: &mut Round<'_>, _: &NodeView, _: &str, _: &Level) -> Option<Decision> {
    if !r.settings.only_proves() || r.memory.under_claim.others_listed {
        return None;
    }
    let message = "commands of other NodeFences could not be listed, reading the power afterwards";
    let waits = poll_again(r, Stage::Quiescing, message.to_owned(), READ_PACE);
    Some(in_trouble(r.memory, waits))
}

/// The same of what shows only now: the NodeFences are known by a watch, which may be late.
pub(super) fn note_foreign_commands(settings: &Settings, memory: &mut Memory, now: Duration) {
    let (foreign_commands, known_foreign_commands) =
        (settings.record.foreign_commands, memory.late.known);
    let until = late(settings, now).max(now + foreign_commands.window);
    let is_slower = foreign_commands.window > known_foreign_commands.window;
    let is_new = |seen: bool, before: bool| seen && (!before || is_slower);
    if is_new(foreign_commands.off, known_foreign_commands.off)
        || (foreign_commands.orphaned && !known_foreign_commands.orphaned)
    {
        memory.late.note_others_off(until);
    }
    if is_new(foreign_commands.on, known_foreign_commands.on) {
        memory.late.on_until = memory.late.on_until.max(Some(until));
    }
    memory.late.known = ForeignCommands {
        by_watch: foreign_commands.by_watch,
        off: known_foreign_commands.off || foreign_commands.off,
        on: known_foreign_commands.on || foreign_commands.on,
        orphaned: known_foreign_commands.orphaned || foreign_commands.orphaned,
        window: known_foreign_commands.window.max(foreign_commands.window),
    };
}

/// Until when what another process sends may land (time since boot): it may live, and send as long as its level has time.
fn late(settings: &Settings, now: Duration) -> Duration {
    let times = settings.levels.iter().map(order_max);
    now + times.max().unwrap_or(ORDER_MIN) + settings.late_effect()
}
