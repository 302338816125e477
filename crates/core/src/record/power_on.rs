//! What the record says of turning the machine on again, and what is read from it.

use super::attempts::{intended, settle_records};
use super::text::cut;
use crate::attempt::{OnAttempt, OnResult};
use crate::memory::Memory;
use crate::settings::Record;
use fencing_api::fence_status::{
    Attempt as AttemptRecord, AttemptAction, AttemptResult, NodeFenceStatus,
};
use jiff::Timestamp;
use std::time::Duration;

/// The part of the record that is about it.
pub(super) fn read(status: &NodeFenceStatus, wall_now: Timestamp) -> Record {
    let mut record = Record {
        released: status.taint_removed_time.is_some(),
        // A wall clock that went back makes it zero: the pause is longer then, not shorter.
        released_for: status
            .taint_removed_time
            .and_then(|at| Duration::try_from(wall_now.duration_since(at)).ok())
            .unwrap_or_default(),
        ..Record::default()
    };
    for attempt in &status.attempts {
        let is_sent = attempt.result != Some(AttemptResult::Refused);
        match attempt.action {
            AttemptAction::PowerOff if is_sent => {
                let version = attempt.device_version.clone().unwrap_or_default();
                record.turned_off.insert(attempt.device.clone(), version);
            }
            AttemptAction::PowerOn => {
                let tries = record.turned_on.entry(attempt.device.clone());
                let tries = tries.or_default();
                tries.intended += 1;
                tries.sent += u32::from(is_sent);
                tries.is_on |= attempt.result == Some(AttemptResult::Succeeded);
            }
            _ => {}
        }
    }
    record
}

/// Writes an on command down before it is sent; once, however often the write is tried.
pub fn on_intent(status: &mut NodeFenceStatus, attempt: &OnAttempt, wall_now: Timestamp) {
    let is_it = |record: &AttemptRecord| record.id.as_ref() == Some(&attempt.id);
    if status.attempts.iter().any(is_it) {
        return;
    }
    let id = (attempt.id.as_str(), attempt.level.as_str());
    let devices = (attempt.devices.as_slice(), attempt.limit);
    intended(status, AttemptAction::PowerOn, id, devices, wall_now);
}

/// Writes down what has become of the last on command, when that is news.
pub(super) fn on_outcome(status: &mut NodeFenceStatus, memory: &Memory, wall_now: Timestamp) {
    let Some(attempt) = &memory.power_on.attempt else {
        return;
    };
    let told = |it: &OnResult| (it.recorded(), cut(it.message()), it.is_settled());
    settle_records(status, &attempt.id, wall_now, |device| {
        attempt.results.get(device).map(told)
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::power_on::Tries;
    use std::collections::BTreeMap;

    fn attempt(results: BTreeMap<String, OnResult>) -> OnAttempt {
        OnAttempt {
            id: "n4-2".to_owned(),
            level: "level".to_owned(),
            devices: vec!["bmc".to_owned()],
            limit: Duration::from_secs(25),
            recorded: true,
            results,
        }
    }

    fn told(result: OnResult) -> NodeFenceStatus {
        let mut status = NodeFenceStatus::default();
        let attempt = attempt([("bmc".to_owned(), result)].into());
        on_intent(&mut status, &attempt, Timestamp::UNIX_EPOCH);
        on_intent(&mut status, &attempt, Timestamp::UNIX_EPOCH);
        let mut memory = Memory::default();
        memory.power_on.attempt = Some(attempt);
        on_outcome(&mut status, &memory, Timestamp::UNIX_EPOCH);
        status
    }

    /// S11: a successor counts what was sent, and knows what has read On.
    #[test]
    fn a_successor_knows_what_was_sent() {
        let message = || "words".to_owned();
        for (result, is_sent, is_on, is_settled) in [
            (OnResult::Accepted, true, false, false),
            (OnResult::AlreadyOn, true, false, false),
            (OnResult::ReadsOn, true, true, true),
            (OnResult::NotSent(message()), false, false, true),
            (OnResult::Unknown(message()), true, false, false),
            (OnResult::Late(message()), true, false, false),
        ] {
            assert_eq!(result.is_sent(), is_sent);
            let status = told(result.clone());
            assert_eq!(status.attempts.len(), 1, "written down once");
            assert_eq!(status.attempt_count, Some(1));
            let completion = status.attempts.first().and_then(|it| it.completion_time);
            assert_eq!(completion.is_some(), is_settled, "{result:?}");
            let record = read(&status, Timestamp::UNIX_EPOCH);
            let tries = Tries {
                intended: 1,
                sent: u32::from(is_sent),
                is_on,
            };
            assert_eq!(record.turned_on.get("bmc"), Some(&tries), "{result:?}");
            assert!(record.turned_off.is_empty() && !record.released);
        }
    }

    /// The device of an attempt that was refused has turned nothing off, and is not asked to turn anything on.
    #[test]
    fn who_took_no_off_command_is_not_among_those_that_turned_it_off() {
        let mut status = told(OnResult::Accepted);
        let mut off = status.attempts.remove(0);
        off.action = AttemptAction::PowerOff;
        for (result, has_turned_off) in [
            (Some(AttemptResult::Succeeded), true),
            (Some(AttemptResult::TimedOut), true),
            (None, true),
            (Some(AttemptResult::Refused), false),
        ] {
            off.result = result;
            status.attempts = vec![off.clone()];
            let record = read(&status, Timestamp::UNIX_EPOCH);
            assert_eq!(record.turned_off.contains_key("bmc"), has_turned_off);
            assert!(record.turned_on.is_empty());
        }
    }

    #[test]
    fn the_pause_that_a_process_has_waited_counts_for_the_next() {
        let mut status = NodeFenceStatus::default();
        assert!(!read(&status, Timestamp::UNIX_EPOCH).released);
        status.taint_removed_time = Some(Timestamp::UNIX_EPOCH);
        let later = Timestamp::UNIX_EPOCH + Duration::from_secs(40);
        let record = read(&status, later);
        assert!(record.released);
        assert_eq!(record.released_for, Duration::from_secs(40));
        // The wall clock went back.
        status.taint_removed_time = Some(later);
        assert_eq!(
            read(&status, Timestamp::UNIX_EPOCH).released_for,
            Duration::ZERO
        );
    }
}
