//! What the record says of an incident, and what a successor reads out of it.

use super::*;
use crate::attempt::Attempt;
use crate::attempt::OffResult;
use crate::decision::Effect;
use crate::device::DeviceReadings;
use crate::fixtures::attempt;
use crate::memory::{ConfirmationTurn, Trust, UnderTaint};
use crate::record::attempts::ATTEMPTS_KEPT;
use fencing_api::fence_status::AttemptResult;
use std::collections::BTreeSet;

mod adopted;
mod attempts;
mod reoffs;
mod shown;
mod volumes;

fn show(status: &mut NodeFenceStatus, memory: &Memory, stage: Stage, wall_now: Timestamp) {
    let decision = Decision {
        effect: Effect::Wait,
        stage,
        message: String::new(),
        held: None,
        escalation: None,
        wake: None,
        deadline: None,
    };
    super::stage(status, memory, &decision, None, Duration::ZERO, wall_now);
}

/// F21: the answers to the taint and to its removal were lost, and the record still has both times.
#[test]
fn a_taint_is_dated_from_when_it_was_seen() {
    let (seen, gone) = (Timestamp::UNIX_EPOCH, Timestamp::MAX);
    let mut status = NodeFenceStatus::default();
    let memory = Memory {
        taint: UnderTaint {
            seen: true,
            ..UnderTaint::default()
        },
        ..Memory::default()
    };
    show(&mut status, &memory, Stage::Detaching, seen);
    show(&mut status, &memory, Stage::Recovered, gone);
    assert_eq!(status.taint_applied_time, Some(seen));
    assert_eq!(status.detached_time, Some(gone));
    assert_eq!(status.taint_removed_time, Some(gone));
}

/// A stage's times are those of the incident: a new process, whose memory begins later, does not move its beginning.
#[test]
fn a_stage_goes_on_over_a_restart_and_a_new_one_begins_now() {
    let second = |second| Timestamp::from_second(second).expect("a second");
    let in_stage = |stage| Memory {
        stage: Some((stage, Duration::ZERO)),
        ..Memory::default()
    };
    let mut status = NodeFenceStatus::default();
    let waiting = in_stage(Stage::AwaitingApproval);
    show(&mut status, &waiting, Stage::AwaitingApproval, second(100));
    show(&mut status, &waiting, Stage::AwaitingApproval, second(500));
    assert_eq!(status.stage_start_time, Some(second(100)));
    show(
        &mut status,
        &in_stage(Stage::Checking),
        Stage::Checking,
        second(600),
    );
    show(
        &mut status,
        &in_stage(Stage::Claiming),
        Stage::Claiming,
        second(700),
    );
    assert_eq!(status.stage_start_time, Some(second(700)));
}

/// S23: a successor of this process has to know that the command may still land.
#[test]
fn an_off_that_may_still_land_stays_open() {
    let why = || "connection reset".to_owned();
    // What became of it, what the record calls that, and whether it is closed.
    let table = [
        (OffResult::Accepted, None, false),
        (OffResult::Landed, Some(AttemptResult::Succeeded), true),
        (OffResult::AlreadyOff, Some(AttemptResult::Succeeded), true),
        (
            OffResult::NotSent(why()),
            Some(AttemptResult::Refused),
            true,
        ),
        (
            OffResult::Unknown(why()),
            Some(AttemptResult::TimedOut),
            false,
        ),
        (OffResult::Late(why()), Some(AttemptResult::TimedOut), false),
    ];
    for (result, word, ended) in table {
        let mut attempt = attempt();
        let mut status = NodeFenceStatus::default();
        intent(&mut status, &attempt, Timestamp::UNIX_EPOCH);
        attempt.results.insert("bmc".to_owned(), result.clone());
        outcome(&mut status, &attempt, Timestamp::UNIX_EPOCH);
        let closed = status.attempts[0].completion_time.is_some();
        assert_eq!(closed, ended, "{result:?}");
        assert_eq!(status.attempts[0].result, word, "{result:?}");
        // A successor counts the late-effect window from its own start.
        let unresolved = read(&status, Timestamp::UNIX_EPOCH).unresolved;
        assert_eq!(unresolved, !ended, "{result:?}");
    }
}

/// Who reads the record sees by which level the machine was proven down, whatever the mode, and how long each answer took.
#[test]
fn the_evidence_names_its_level_and_the_time_of_each_answer() {
    let mut readings = crate::fixtures::off_readings();
    for reading in &mut readings[0].readings {
        reading.answered = reading.asked + Duration::from_millis(7);
    }
    let proven = Evidence {
        claim: "fence-n1".to_owned(),
        node_uid: "uid-1".to_owned(),
        boot_id: "boot-1".to_owned(),
        lease_renew_time: String::new(),
        last_report: String::new(),
        level: "outlets".to_owned(),
        by_confirmation: false,
        readings,
    };
    let mut status = NodeFenceStatus::default();
    let at = Timestamp::UNIX_EPOCH;
    evidence(&mut status, &proven, &Memory::default(), Duration::ZERO, at);
    assert_eq!(status.current_level.as_deref(), Some("outlets"));
    let readings = status.evidence.expect("evidence").readings;
    assert!(!readings.is_empty());
    for reading in readings {
        assert_eq!(reading.level.as_deref(), Some("outlets"));
        assert_eq!(reading.round_trip_millis, 7);
    }
}

/// S15: of many devices each is in the record, for whoever goes on.
#[test]
fn the_evidence_names_every_device_that_it_rests_on() {
    let one = crate::fixtures::off_readings().remove(0);
    for (devices, share) in [(1, 8), (4, 8), (5, 6), (32, 1)] {
        let names: Vec<String> = (0..devices).map(|it| format!("outlet-{it}")).collect();
        let readings = names.iter().map(|name| DeviceReadings {
            device: name.clone(),
            readings: vec![one.readings[0].clone(); 20],
            ..one.clone()
        });
        let proven = Evidence {
            claim: "fence-n1".to_owned(),
            node_uid: "uid-1".to_owned(),
            boot_id: "boot-1".to_owned(),
            lease_renew_time: String::new(),
            last_report: String::new(),
            level: "outlets".to_owned(),
            by_confirmation: false,
            readings: readings.collect(),
        };
        let mut status = NodeFenceStatus::default();
        let at = Timestamp::UNIX_EPOCH;
        evidence(&mut status, &proven, &Memory::default(), Duration::ZERO, at);
        let stored = status.evidence.expect("evidence").readings;
        assert_eq!(stored.len(), devices * share);
        let stored: BTreeSet<String> = stored.into_iter().map(|it| it.device).collect();
        assert_eq!(stored.len(), devices);
    }
}

/// S23: the answer to the command closes nothing, what is read after it does; and not again with each round.
#[test]
fn an_accepted_off_is_closed_by_what_is_read_after_it() {
    let mut attempt = attempt();
    let (sent, seen, later) = (
        Timestamp::UNIX_EPOCH,
        Timestamp::from_second(5).expect("a second"),
        Timestamp::from_second(9).expect("a second"),
    );
    let mut status = NodeFenceStatus::default();
    intent(&mut status, &attempt, sent);
    let mut becomes = |result: OffResult, at| {
        attempt.results.insert("bmc".to_owned(), result);
        outcome(&mut status, &attempt, at);
        status.attempts[0].completion_time
    };
    assert_eq!(becomes(OffResult::Accepted, sent), None);
    assert_eq!(becomes(OffResult::Landed, seen), Some(seen));
    assert_eq!(becomes(OffResult::Landed, later), Some(seen));
}

#[test]
fn what_was_never_tainted_has_no_times_of_a_taint() {
    let mut status = NodeFenceStatus::default();
    show(
        &mut status,
        &Memory::default(),
        Stage::Recovered,
        Timestamp::UNIX_EPOCH,
    );
    assert_eq!(status.taint_applied_time, None);
    assert_eq!(status.taint_removed_time, None);
}

/// S21, S22: a word that was refused, or a device that lied, counts for nothing for whoever goes on, also once the other process that
/// has seen it writes the record.
#[test]
fn what_counts_for_good_is_told_to_every_process() {
    let saw = |confirmation_refused: Option<&str>, contradictions: &[&str]| {
        let memory = Memory {
            confirmation: ConfirmationTurn {
                refused: confirmation_refused.map(str::to_owned),
                ..ConfirmationTurn::default()
            },
            trust: Trust {
                contradictions: contradictions.iter().map(|it| (*it).to_owned()).collect(),
                ..Trust::default()
            },
            ..Memory::default()
        };
        let mut status = NodeFenceStatus::default();
        show(
            &mut status,
            &memory,
            Stage::Verifying,
            Timestamp::UNIX_EPOCH,
        );
        status
    };
    let (nothing, word) = (saw(None, &[]), saw(Some("it answers"), &[]));
    let (once, twice) = (saw(None, &["it lies"]), saw(None, &["it lies", "again"]));
    let both = saw(Some("it answers"), &["it lies"]);
    for (more, than) in [
        (&word, &nothing),
        (&once, &nothing),
        (&once, &word),
        (&both, &word),
        (&twice, &both),
    ] {
        assert!(has_new_findings(more, than), "{more:?} than {than:?}");
    }
    for (same, than) in [
        (&nothing, &word),
        (&word, &word),
        (&word, &both),
        (&once, &twice),
    ] {
        assert!(!has_new_findings(same, than), "{same:?} than {than:?}");
    }
    let mut own = word;
    adopt(&mut own, twice, None);
    let record = read(&own, Timestamp::UNIX_EPOCH);
    assert_eq!(record.confirmation_refused.as_deref(), Some("it answers"));
    assert_eq!(record.contradictions, ["it lies", "again"]);

    // Two processes have seen it once each.
    let mut mine = saw(None, &["it lies"]);
    let theirs = saw(None, &["no"]);
    assert!(has_new_findings(&theirs, &mine));
    merge_findings(&mut mine, &theirs);
    assert_eq!(mine.contradictions, ["it lies", "no"]);

    // It stays what was said first.
    merge_findings(&mut own, &saw(Some("no"), &["no", "no"]));
    assert_eq!(read(&own, Timestamp::UNIX_EPOCH), record);
}

/// Of a level that needs one of its devices, what read off has proven it, and nothing else.
#[test]
fn a_device_that_did_not_read_off_has_proven_nothing() {
    let reading = |device: &str, state: PowerState| EvidenceReading {
        device: device.to_owned(),
        level: Some("any".to_owned()),
        power_state: state,
        raw: String::new(),
        system_uuid: None,
        time: Timestamp::UNIX_EPOCH,
        round_trip_millis: 1,
    };
    let mut status = NodeFenceStatus::default();
    let evidence = Evidence {
        claim: "fence-n1".to_owned(),
        node_uid: "uid-1".to_owned(),
        boot_id: "boot-1".to_owned(),
        lease_renew_time: String::new(),
        last_report: String::new(),
        level: "any".to_owned(),
        by_confirmation: false,
        readings: Vec::new(),
    };
    super::evidence(
        &mut status,
        &evidence,
        &Memory::default(),
        Duration::ZERO,
        Timestamp::UNIX_EPOCH,
    );
    let stored = status.evidence.as_mut().expect("the evidence");
    stored.readings = vec![
        reading("outlet-a", PowerState::On),
        reading("bmc", PowerState::On),
        reading("bmc", PowerState::Off),
        reading("outlet-b", PowerState::Off),
        reading("outlet-b", PowerState::Unknown),
    ];
    let read = read(&status, Timestamp::UNIX_EPOCH).proven_by;
    assert_eq!(read, [("any".to_owned(), vec!["bmc".to_owned()])].into());
}
