//! The power commands of an incident in its record: written down before they are sent, and again when it is known what became of them.

use super::text::cut;
use crate::attempt::{Attempt, OffResult};
use fencing_api::fence_status::{
    Attempt as AttemptRecord, AttemptAction, AttemptResult, NodeFenceStatus,
};
use jiff::{SignedDuration, Timestamp};
use std::time::Duration;

/// Attempts kept: those that may still land, and the newest.
pub(super) const ATTEMPTS_KEPT: usize = 50;

/// Writes an off command down before it is sent.
pub fn intent(status: &mut NodeFenceStatus, attempt: &Attempt, wall_now: Timestamp) {
    let id = (attempt.id.as_str(), attempt.level.as_str());
    let devices = (attempt.devices.as_slice(), attempt.limit);
    intended(status, AttemptAction::PowerOff, id, devices, wall_now);
    let mine = |record: &&mut AttemptRecord| record.id.as_ref() == Some(&attempt.id);
    for record in status.attempts.iter_mut().filter(mine) {
        record.device_version = attempt.versions.get(&record.device).cloned();
    }
}

/// An attempt of this id by this level, with these devices and for so long.
pub(super) fn intended(
    status: &mut NodeFenceStatus,
    action: AttemptAction,
    (id, level): (&str, &str),
    (devices, limit): (&[String], Duration),
    wall_now: Timestamp,
) {
    status.current_level = Some(level.to_owned());
    status.attempt_count = Some(status.attempt_count.unwrap_or_default() + 1);
    let deadline = SignedDuration::try_from(limit)
        .ok()
        .and_then(|limit| wall_now.checked_add(limit).ok());
    for device in devices {
        status.attempts.push(AttemptRecord {
            id: Some(id.to_owned()),
            device: device.clone(),
            device_version: None,
            level: Some(level.to_owned()),
            action,
            start_time: wall_now,
            deadline_time: deadline,
            completion_time: None,
            result: None,
            power_state: None,
            message: None,
        });
    }
    while status.attempts.len() > ATTEMPTS_KEPT {
        // None that is open, as long as there are others: a successor has to know that it may land (S23).
        let mut attempts = status.attempts.iter();
        let oldest = attempts.position(|attempt| attempt.completion_time.is_some());
        status.attempts.remove(oldest.unwrap_or(0));
    }
}

pub(super) fn complete_attempts(status: &mut NodeFenceStatus, wall_now: Timestamp) {
    let open = |attempt: &&mut AttemptRecord| attempt.completion_time.is_none();
    for attempt in status.attempts.iter_mut().filter(open) {
        attempt.completion_time = Some(wall_now);
    }
}

/// Writes down what became of an off command, when that is news. It stays open as long as it may land (S23).
pub fn outcome(status: &mut NodeFenceStatus, attempt: &Attempt, wall_now: Timestamp) {
    let told = |it: &OffResult| (it.recorded(), cut(it.message()), it.is_settled());
    settle_records(status, &attempt.id, wall_now, |device| {
        attempt.results.get(device).map(told)
    });
}

/// Writes into the records of this command what became of it by each device, when that is news: the result, the words, and whether nothing of it
/// is still to come.
pub(super) fn settle_records(
    status: &mut NodeFenceStatus,
    id: &str,
    wall_now: Timestamp,
    told: impl Fn(&str) -> Option<(Option<AttemptResult>, String, bool)>,
) {
    let mine = |record: &&mut AttemptRecord| record.id.as_deref() == Some(id);
    for record in status.attempts.iter_mut().filter(mine) {
        let Some((result, message, is_settled)) = told(&record.device) else {
            continue;
        };
        let message = Some(message);
        if record.message == message {
            continue;
        }
        record.result = result;
        record.message = message;
        record.completion_time = is_settled.then_some(wall_now);
    }
}
