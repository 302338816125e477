//! The claim stands and no pod can start: read the power, judge the readings, and while the proof lives write the evidence,
//! delete the stuck pods and set the taint.
//!
//! A round does one of these; the next one judges anew, so that whatever is done rests on a Node and a Lease read just before (for
//! the deletion beside the evidence, for the taint beside the deletion).

use super::abort::drop_claim;
use super::completion::late_off;
use super::contradiction::{after_life, note_life};
use super::level::names;
use super::pace::{READ_PACE, poll_again};
use super::round::Round;
use super::span;
use super::tries::{busy_stage, fail, in_trouble, order, try_again, unresolved};
use crate::attempt::{Attempt, OffResult};
use crate::decision::{Decision, DeviceOrder, act, wait};
use crate::device::{DeviceReadings, Level};
use crate::manual_confirmation;
use crate::memory::Memory;
use crate::not_proven::NotProven;
use crate::observed::{NodeView, Read};
use crate::proof::{Case, Proof, judge};
use crate::stage::Stage;
use fencing_api::settings::FenceMode;
use std::time::Duration;

/// Reads the power, judges the readings, and goes on to the taint while the proof lives.
pub(super) fn prove(
    r: &mut Round<'_>,
    node: &NodeView,
    level: &Level,
) -> Result<Proof, Box<Decision>> {
    let Some(readings) = r.memory.under_claim.readings.clone() else {
        return Err(Box::new(confirm_power(r, node, level)));
    };
    let (Some(held), Some(quiesced), Some(lease_before)) = (
        &r.memory.claim,
        r.memory.under_claim.quiesce.since,
        &r.memory.under_claim.lease_before,
    ) else {
        let lost = wait(Stage::Verifying, "the claim was lost".to_owned());
        return Err(Box::new(lost.until(r.moment.now)));
    };
    let Some(lease_now) = r.observed.lease.present() else {
        let message = format!("the kubelet's Lease is required{}", r.observed.lease.why());
        let waits = poll_again(r, Stage::Verifying, message, READ_PACE);
        return Err(Box::new(waits));
    };
    let verification = span::judged(r.settings, r.memory, node, level, &readings);
    let judged = confirmed_until(r, level, r.moment.now).and_then(|confirmed_until| {
        let case = Case {
            claim: &held.value,
            node_uid: &held.uid,
            boot_id: &held.boot_id,
            node,
            lease_before,
            lease_now,
            written: r.memory.under_claim.written.as_deref(),
            quiesced,
            devices: &readings,
            others: &r.memory.under_claim.others,
            require: level.require,
            power_history: &r.memory.trust.power_history,
            verification: &verification,
            commanded: r.settings.mode() == FenceMode::PowerOff
                && r.memory.commands.may_have_turned_off_something(),
            kubelet_answers: r.observed.kubelet_answers
                || r.memory.under_claim.kubelet_answered == Some(true),
            confirmed_until,
        };
        judge(&case, r.moment.now)
    });
    r.memory.under_claim.judged_down |= judged.is_ok();
    judged.map_err(|reason| Box::new(not_proven(r, node, level, &readings, reason)))
}

/// What follows from readings that prove nothing.
fn not_proven(
    r: &mut Round<'_>,
    node: &NodeView,
    level: &Level,
    readings: &[DeviceReadings],
    reason: NotProven,
) -> Decision {
    match reason {
        // A late off is waited for before the power is read again: a device that does not answer meanwhile would be told off anew.
        NotProven::Stale { .. } => late_off(r).unwrap_or_else(|| {
            r.memory.under_claim.readings = None;
            let message = "the power-off proof expired, reading the power again";
            wait(Stage::Verifying, message.to_owned()).until(r.moment.now)
        }),
        reason if reason.is_contradiction() => {
            let message = note_life(r, level, readings, &reason);
            after_life(r, node, level, message)
        }
        reason if r.settings.mode() == FenceMode::ConfirmOnly => {
            let message = format!("{reason}{}; claim removed", beside(r.memory, &reason));
            let held = r.memory.claim.as_ref();
            let claim = held.map_or_else(String::new, |it| it.value.clone());
            fail(r, message.clone(), r.moment.now);
            let decision = drop_claim(r.memory, node, &claim, message);
            in_trouble(r.memory, decision)
        }
        reason => {
            let message = format!(
                "{reason}{}{}",
                beside(r.memory, &reason),
                unresolved(r.memory)
            );
            try_again(r, message)
        }
    }
}

/// Which device would refute the word that is missing.
fn beside(m: &Memory, reason: &NotProven) -> String {
    let mut others = m.under_claim.others.iter();
    let on = others.find_map(|it| Some((it.device.as_str(), it.against()?)));
    manual_confirmation::beside(on.filter(|_| matches!(reason, NotProven::NoConfirmation(_))))
}

/// Does the Lease count from here? After an off command that may have turned the machine off, or may still, it does so once: what moves it beside
/// later readings lives. Not where all devices had read Off before it: by their word no kubelet has lived since the claim either.
fn counts_anew(r: &Round<'_>, level: &Level) -> bool {
    let has_turned_off = |it: &Attempt| {
        let mut results = it.results.values();
        let is_late =
            !it.results.is_empty() && r.memory.late.pending_off_until(r.moment.now).is_some();
        is_late || results.any(OffResult::may_turn_off)
    };
    let is_off = r
        .memory
        .commands
        .attempt
        .as_ref()
        .is_some_and(has_turned_off);
    let history = &r.memory.trust.power_history;
    let mut devices = level.devices.iter();
    let was_off = devices.all(|device| history.is_off_by_itself(&device.name));
    let is_due = is_off && !was_off && !r.memory.under_claim.lease_after_off && !level.is_manual();
    is_due || r.memory.under_claim.lease_before.is_none()
}

/// Has the power read, again and again, when it is known how the Lease was before.
fn confirm_power(r: &mut Round<'_>, node: &NodeView, level: &Level) -> Decision {
    // The readings are compared with it: it is older than they are, always.
    if counts_anew(r, level) {
        let Read::Present(lease) = &r.observed.lease else {
            let why = r.observed.lease.why();
            let message = format!("reading the kubelet's Lease before the power{why}");
            let decision = poll_again(r, busy_stage(r.memory), message, READ_PACE);
            return in_trouble(r.memory, decision);
        };
        let lease = Some(lease.clone());
        r.memory.under_claim.life_counts_from(lease);
        r.memory.under_claim.lease_after_off = true;
    }
    let message = format!(
        "reading the power from {} until it is confirmed off",
        names(level)
    );
    let window = span::ordered(r.settings, r.memory, node, level);
    let confirm = DeviceOrder::Confirm { window };
    let confirm = order(r.memory, level, confirm, r.moment.now);
    in_trouble(r.memory, act(confirm, Stage::Verifying, message))
}

/// Under the taint whoever turns the machine on does no harm, but those who are told that it is down (`recovery.strategy: None`) rely on that: what
/// another NodeFence has sent is waited for before the power is read.
pub(super) fn late_on(r: &mut Round<'_>, _: &NodeView, _: &str, _: &Level) -> Option<Decision> {
    let until = r
        .memory
        .late
        .on_until
        .filter(|until| r.settings.only_proves() && r.moment.now < *until)?;
    let message = "an on command of another NodeFence may still take effect (its `status.attempts`), reading the power afterwards";
    // Nothing is verified yet: the time for that has not begun.
    let waits = wait(Stage::Quiescing, message.to_owned()).until(until);
    let waits = Decision {
        deadline: Some(until),
        ..waits
    };
    Some(in_trouble(r.memory, waits))
}

/// Until when the human's word counts that the level rests on; none: it rests on no word.
fn confirmed_until(
    r: &Round<'_>,
    level: &Level,
    now: Duration,
) -> Result<Option<Duration>, NotProven> {
    if !level.is_manual() {
        return Ok(None);
    }
    if let Some(message) = &r.memory.confirmation.refused {
        return Err(NotProven::NoConfirmation(message.clone()));
    }
    let confirmation = manual_confirmation::valid_confirmation(r.settings, now)
        .map_err(NotProven::NoConfirmation)?;
    Ok(Some(confirmation.valid_until))
}

#[cfg(test)]
mod tests;
