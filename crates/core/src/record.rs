//! The record of an incident: what the NodeFence's status says, rendered from what the core decided and what came of it.
//!
//! The protocol writes three times (intent, evidence, end); a stage in between is only worth a write of its own when it has
//! lasted a while, so that a clean fence costs few writes and a stuck one is always explained.

mod adopt;
mod attempts;
mod confirmed;
mod power_on;
mod power_readings;
mod text;
mod volumes;

pub use adopt::{adopt, hand_on, has_new_findings, is_news, merge_findings};
pub use attempts::{intent, outcome};
pub use confirmed::{refuted, speaks_more_against};
pub use power_on::on_intent;
pub use power_readings::power_readings;
pub use text::wall;
pub use volumes::volumes;

use attempts::complete_attempts;
use text::cut;

use super::decision::{Decision, Evidence};
use super::memory::Memory;
use super::reading::PowerState;
use super::settings::Record;
use super::stage::Stage;
use fencing_api::conditions::{
    COMPLETED, ConditionStatus, ESCALATED, HELD, SUCCEEDED, find, set_condition,
};
use fencing_api::fence_status::{
    Attempt as AttemptRecord, AttemptAction, Evidence as EvidenceRecord, EvidenceReading,
    NodeFenceStatus,
};
use jiff::{RoundMode, Timestamp, TimestampRound, Unit};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Readings kept in the evidence, of all devices.
const READINGS_MAX: usize = 32;
/// Readings kept of each device, the newest.
const READINGS_KEPT: usize = 8;

/// What the NodeFence says of the time before this process, at this moment of the wall clock.
pub fn read(status: &NodeFenceStatus, wall_now: Timestamp) -> Record {
    let off = |attempt: &&AttemptRecord| attempt.action == AttemptAction::PowerOff;
    Record {
        due: find(&status.conditions, SUCCEEDED).is_some(),
        evidence: status.evidence.is_some(),
        reported: (status.evidence.as_ref()).and_then(|it| it.ready_heartbeat_time),
        proven_by: proven_by(status),
        tainted: status.taint_applied_time.is_some(),
        reoffs: reoffs(status),
        detached: status.detached_time.is_some(),
        unresolved: status
            .attempts
            .iter()
            .filter(off)
            .any(|attempt| attempt.completion_time.is_none()),
        attempts: status.attempt_count.unwrap_or_default(),
        approval_waited: approval_waited(status, wall_now),
        confirmation_refused: status.confirmation_refused.clone(),
        contradictions: status.contradictions.clone(),
        contradicting: status.contradicting_devices.clone(),
        asked: power_readings::asked(status),
        ..power_on::read(status, wall_now)
    }
}

/// Off commands that were written down under the taint. Where two clocks differ one more or less is counted than there were.
fn reoffs(status: &NodeFenceStatus) -> u32 {
    let off = status.attempts.iter().filter(|it| {
        let is_later = |tainted| it.start_time > tainted;
        it.action == AttemptAction::PowerOff && status.taint_applied_time.is_some_and(is_later)
    });
    let ids: BTreeSet<&Option<String>> = off.map(|it| &it.id).collect();
    u32::try_from(ids.len()).unwrap_or(u32::MAX)
}

fn proven_by(status: &NodeFenceStatus) -> BTreeMap<String, Vec<String>> {
    let mut levels: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let evidence = status.evidence.iter();
    for reading in evidence.flat_map(|evidence| &evidence.readings) {
        let level = reading.level.clone().unwrap_or_default();
        let devices = levels.entry(level).or_default();
        // Of a level that needs one of its devices, another may have said something else, or nothing.
        devices.retain(|device| *device != reading.device);
        if reading.power_state == PowerState::Off {
            devices.push(reading.device.clone());
        }
    }
    levels
}

/// How long a human's word has been waited for. A wall clock that went back makes it zero: whoever is asked gets more time, not
/// less.
fn approval_waited(status: &NodeFenceStatus, wall_now: Timestamp) -> Duration {
    let stage = find(&status.conditions, SUCCEEDED).map(|succeeded| succeeded.reason.as_str());
    let waits = stage == Some(Stage::AwaitingApproval.to_string().as_str());
    status
        .stage_start_time
        .filter(|_| waits)
        .and_then(|since| Duration::try_from(wall_now.duration_since(since)).ok())
        .unwrap_or_default()
}

/// Takes the decision's stage, words and escalation into the conditions.
pub fn stage(
    status: &mut NodeFenceStatus,
    memory: &Memory,
    decision: &Decision,
    generation: Option<i64>,
    now: Duration,
    wall_now: Timestamp,
) {
    status.observed_generation = generation;
    note_findings(status, memory);
    if memory.proven.refuted {
        confirmed::refuted(status, wall_now);
    } else if let Some(sign) = &memory.proven.doubted {
        confirmed::doubted(status, sign, wall_now);
    }
    power_on::on_outcome(status, memory, wall_now);
    let succeeded = match decision.stage {
        Stage::Recovered | Stage::ConfirmedDown => ConditionStatus::True,
        ended if ended.is_ended() => ConditionStatus::False,
        _ => ConditionStatus::Unknown,
    };
    let conditions = &mut status.conditions;
    let set = |conditions: &mut _, kind, is, reason: &str, message: &str| {
        set_condition(conditions, kind, is, reason, message, generation, wall_now);
    };
    let reason = decision.stage.to_string();
    // A stage began when it began, not when this process found the incident in it.
    let goes_on = find(conditions, SUCCEEDED).is_some_and(|before| before.reason == reason);
    set(conditions, SUCCEEDED, succeeded, &reason, &decision.message);
    // With the same write: who reads the one counts on the other.
    if succeeded != ConditionStatus::Unknown {
        let is = ConditionStatus::True;
        set(conditions, COMPLETED, is, &reason, &decision.message);
    }
    // Opened with the first reason to call somebody, closed when the reason is gone; never shown while there was none.
    match &decision.escalation {
        Some((reason, message)) => {
            let is = ConditionStatus::True;
            set(conditions, ESCALATED, is, reason.as_str(), message);
        }
        None if find(conditions, ESCALATED).is_some() => {
            let message = "no action required any more";
            let is = ConditionStatus::False;
            set(conditions, ESCALATED, is, "Resolved", message);
        }
        None => {}
    }
    match decision.stage {
        Stage::Held => {
            let is = ConditionStatus::True;
            let before = find(conditions, HELD).filter(|it| it.status == "True");
            let reason = before.map_or_else(|| "Held".to_owned(), |it| it.reason.clone());
            let reason = decision.held.map_or(reason, |held| held.to_string());
            set(conditions, HELD, is, &reason, &decision.message);
        }
        _ if find(conditions, HELD).is_some() => {
            let is = ConditionStatus::False;
            set(conditions, HELD, is, "Admitted", "in progress again");
        }
        _ => {}
    }
    if !goes_on || status.stage_start_time.is_none() {
        status.stage_start_time = memory
            .stage
            .and_then(|(_, since)| wall(since, now, wall_now));
    }
    let deadline = decision.deadline;
    let deadline = deadline.and_then(|deadline| wall(deadline, now, wall_now));
    // For people, who read it in a column of kubectl: whole seconds, and never one too early.
    let up = TimestampRound::from(Unit::Second).mode(RoundMode::Ceil);
    status.stage_deadline_time = deadline.and_then(|at| at.round(up).ok());
    status.claim = memory.claim.as_ref().map(|held| held.value.clone());
    status.detected_time.get_or_insert(wall_now);
    // A taint whose write, or whose removal, was never answered is dated from when it was seen.
    if memory.taint.seen {
        status.taint_applied_time.get_or_insert(wall_now);
    }
    let is_released = matches!(decision.stage, Stage::PoweringOn | Stage::Recovered);
    if is_released && status.taint_applied_time.is_some() {
        status.detached_time.get_or_insert(wall_now);
        status.taint_removed_time.get_or_insert(wall_now);
    }
}

/// Writes the end down. To be stored at once or forgotten: a record that goes on has no end, and an attempt of it may still land (S23).
pub fn end(status: &mut NodeFenceStatus, wall_now: Timestamp) {
    status.completion_time.get_or_insert(wall_now);
    status.claim = None;
    // Nothing waits for it any more.
    complete_attempts(status, wall_now);
}

/// Writes the findings down that are never taken back: a human's word counts for nothing any more, a device lies. A successor of this
/// process must not believe them either.
pub fn note_findings(status: &mut NodeFenceStatus, memory: &Memory) {
    let seen = NodeFenceStatus {
        confirmation_refused: memory.confirmation.refused.as_deref().map(cut),
        contradictions: memory
            .trust
            .contradictions
            .iter()
            .map(|it| cut(it))
            .collect(),
        contradicting_devices: memory
            .trust
            .power_history
            .contradicting()
            .map(str::to_owned)
            .collect(),
        ..NodeFenceStatus::default()
    };
    merge_findings(status, &seen);
}

/// Writes the evidence down: the facts that the proof rests on.
pub fn evidence(
    status: &mut NodeFenceStatus,
    evidence: &Evidence,
    memory: &Memory,
    now: Duration,
    wall_now: Timestamp,
) {
    status.current_level = Some(evidence.level.clone());
    // Each device has its share: who goes on has to know all that the proof rests on (S15).
    let share = (READINGS_MAX / evidence.readings.len().max(1)).clamp(1, READINGS_KEPT);
    let readings = evidence.readings.iter().flat_map(|device| {
        let skipped = device.readings.len().saturating_sub(share);
        device
            .readings
            .iter()
            .skip(skipped)
            .map(|reading| EvidenceReading {
                device: device.device.clone(),
                level: Some(evidence.level.clone()),
                power_state: reading.state,
                raw: reading.raw.clone(),
                system_uuid: reading.identity.system_uuid.clone(),
                time: reading.wall,
                round_trip_millis: u32::try_from(
                    reading.answered.saturating_sub(reading.asked).as_millis(),
                )
                .unwrap_or(u32::MAX),
            })
    });
    status.evidence = Some(EvidenceRecord {
        claim: evidence.claim.clone(),
        node_uid: evidence.node_uid.clone(),
        node_boot_id: evidence.boot_id.clone(),
        lease_renew_time: evidence.lease_renew_time.parse().ok(),
        ready_heartbeat_time: evidence.last_report.parse().ok(),
        quiesced_time: memory
            .under_claim
            .quiesce
            .since
            .and_then(|at| wall(at, now, wall_now))
            .unwrap_or(wall_now),
        proven_time: wall_now,
        readings: readings.take(READINGS_MAX).collect(),
    });
    status.confirmed_down_time = Some(wall_now);
    status.pod_count = u32::try_from(memory.under_claim.quiesce.found.len()).ok();
    status.tolerating_pods = memory
        .under_claim
        .quiesce
        .tolerating
        .iter()
        .take(100)
        .cloned()
        .collect();
    // A machine that only its storage shuts out may run: others may free no more of it.
    match evidence.is_by_storage() {
        true => confirmed::doubted(status, "only its storage was fenced since", wall_now),
        false => confirmed::proven(status, evidence.by_confirmation, wall_now),
    }
}

#[cfg(test)]
mod tests;
