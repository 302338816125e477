//! The conditions of a NodeFence, and what its end closes.

use super::*;
use crate::device::Storage;
use crate::escalation::Escalation;
use crate::hold::HeldBy;
use crate::memory::ProvenOff;
use crate::record::adopt::CONTRADICTING_MAX;
use crate::record::attempts::ATTEMPTS_KEPT;
use fencing_api::conditions::NODE_CONFIRMED_DOWN;

fn decision(stage: Stage, escalation: Option<(Escalation, String)>) -> Decision {
    Decision {
        effect: Effect::Wait,
        stage,
        message: "words".to_owned(),
        held: None,
        escalation,
        wake: None,
        deadline: None,
    }
}

fn shown(status: &NodeFenceStatus, condition: &str) -> Option<(String, String)> {
    let condition = find(&status.conditions, condition)?;
    Some((condition.status.clone(), condition.reason.clone()))
}

fn say(status: &mut NodeFenceStatus, decision: &Decision) {
    let (memory, wall_now) = (Memory::default(), Timestamp::UNIX_EPOCH);
    super::super::stage(status, &memory, decision, None, Duration::ZERO, wall_now);
}

fn pair(status: &str, reason: &str) -> Option<(String, String)> {
    Some((status.to_owned(), reason.to_owned()))
}

#[test]
fn an_incident_has_succeeded_failed_or_is_under_way() {
    for (stage, succeeded) in [
        (Stage::Recovered, "True"),
        (Stage::ConfirmedDown, "True"),
        (Stage::SelfRecovered, "False"),
        (Stage::Aborted, "False"),
        (Stage::Detaching, "Unknown"),
    ] {
        let mut status = NodeFenceStatus::default();
        say(&mut status, &decision(stage, None));
        let expected = pair(succeeded, &stage.to_string());
        assert_eq!(shown(&status, SUCCEEDED), expected);
    }
}

/// `kubectl wait --for=condition=Completed` returns at any end, and not before.
#[test]
fn an_incident_that_has_ended_in_any_way_is_completed() {
    for stage in [
        Stage::Recovered,
        Stage::ConfirmedDown,
        Stage::SelfRecovered,
        Stage::Aborted,
    ] {
        let mut status = NodeFenceStatus::default();
        say(&mut status, &decision(Stage::Checking, None));
        assert_eq!(shown(&status, COMPLETED), None);
        say(&mut status, &decision(stage, None));
        assert_eq!(shown(&status, COMPLETED), pair("True", &stage.to_string()));
    }
}

/// It is a column of `kubectl get nodefences -o wide`.
#[test]
fn a_deadline_is_shown_in_whole_seconds_and_never_too_early() {
    for (deadline, shown) in [
        (Duration::from_millis(2_000), "1970-01-01T00:00:02Z"),
        (Duration::from_millis(2_001), "1970-01-01T00:00:03Z"),
        (Duration::from_nanos(2_999_999_999), "1970-01-01T00:00:03Z"),
    ] {
        let mut status = NodeFenceStatus::default();
        let deadline = Some(deadline);
        let decision = Decision {
            deadline,
            ..decision(Stage::Checking, None)
        };
        say(&mut status, &decision);
        let told = status.stage_deadline_time.map(|it| it.to_string());
        assert_eq!(told.as_deref(), Some(shown));
    }
    let mut status = NodeFenceStatus::default();
    say(&mut status, &decision(Stage::Checking, None));
    assert_eq!(status.stage_deadline_time, None);
}

#[test]
fn a_call_for_a_human_and_a_hold_are_shown_once_they_were_there_and_closed_after() {
    let mut status = NodeFenceStatus::default();
    say(&mut status, &decision(Stage::Checking, None));
    assert_eq!(shown(&status, ESCALATED), None);
    assert_eq!(shown(&status, HELD), None);
    let call = Some((Escalation::DeviceFailed, "it does not answer".to_owned()));
    say(&mut status, &decision(Stage::Held, call));
    assert_eq!(shown(&status, ESCALATED), pair("True", "DeviceFailed"));
    assert_eq!(shown(&status, HELD), pair("True", "Held"));
    let by = |held| Decision {
        held,
        ..decision(Stage::Held, None)
    };
    say(&mut status, &by(Some(HeldBy::MaxConcurrent)));
    assert_eq!(shown(&status, HELD), pair("True", "MaxConcurrent"));
    say(&mut status, &by(Some(HeldBy::ForeignOutOfService)));
    assert_eq!(shown(&status, HELD), pair("True", "ForeignOutOfService"));
    // The Node cannot be read: what held it before still does.
    say(&mut status, &by(None));
    assert_eq!(shown(&status, HELD), pair("True", "ForeignOutOfService"));
    say(&mut status, &decision(Stage::Claiming, None));
    assert_eq!(shown(&status, ESCALATED), pair("False", "Resolved"));
    assert_eq!(shown(&status, HELD), pair("False", "Admitted"));
    say(&mut status, &by(None));
    assert_eq!(shown(&status, HELD), pair("True", "Held"));
}

/// S23: what has ended is waited for by nobody, and a successor would else take the command for one that may land. An end that is decided
/// and not written is none.
#[test]
fn the_end_closes_the_commands_that_were_open_and_nothing_else_does() {
    let mut status = NodeFenceStatus::default();
    intent(&mut status, &attempt(), Timestamp::UNIX_EPOCH);
    say(&mut status, &decision(Stage::Detaching, None));
    assert!(read(&status, Timestamp::UNIX_EPOCH).unresolved);
    say(&mut status, &decision(Stage::Recovered, None));
    assert!(read(&status, Timestamp::UNIX_EPOCH).unresolved);
    assert_eq!(status.completion_time, None);
    end(&mut status, Timestamp::UNIX_EPOCH);
    assert!(!read(&status, Timestamp::UNIX_EPOCH).unresolved);
    assert_eq!(status.completion_time, Some(Timestamp::UNIX_EPOCH));
}

/// The time that a human was given goes on over a restart, and another stage uses none of it up.
#[test]
fn only_the_wait_for_approval_counts_as_waited_for_a_word() {
    let later = Timestamp::from_second(40).expect("a second");
    for (stage, waited) in [(Stage::AwaitingApproval, 40), (Stage::Checking, 0)] {
        let mut status = NodeFenceStatus::default();
        say(&mut status, &decision(stage, None));
        status.stage_start_time = Some(Timestamp::UNIX_EPOCH);
        let record = read(&status, later);
        assert_eq!(record.approval_waited, Duration::from_secs(waited));
    }
}

/// The list has a limit in the CRD, and the other process's may be full of what can still land.
#[test]
fn a_list_that_is_full_of_open_commands_gets_no_longer() {
    let (mut ours, mut theirs) = (NodeFenceStatus::default(), NodeFenceStatus::default());
    let at = Timestamp::UNIX_EPOCH;
    for number in 0..ATTEMPTS_KEPT {
        let mut sent = attempt();
        sent.id = format!("n2-{number}");
        intent(&mut theirs, &sent, at);
    }
    intent(&mut ours, &attempt(), at);
    adopt(&mut ours, theirs.clone(), None);
    assert_eq!(ours.attempts, theirs.attempts);
}

fn by(by_confirmation: bool, readings: Vec<DeviceReadings>) -> Evidence {
    Evidence {
        claim: "fence-n1".to_owned(),
        node_uid: "uid-1".to_owned(),
        boot_id: "boot-1".to_owned(),
        lease_renew_time: String::new(),
        last_report: String::new(),
        level: "level".to_owned(),
        by_confirmation,
        readings,
    }
}

/// S1: others free what they like by this condition, and a machine that only its storage shuts out may run.
#[test]
fn a_storage_alone_confirms_no_machine_down() {
    let proven = |covers: [Option<&str>; 2]| {
        let mut readings = crate::fixtures::off_readings();
        readings.extend(crate::fixtures::off_readings());
        for (device, covers) in readings.iter_mut().zip(covers) {
            device.covers = covers.map(|driver| Storage {
                driver: driver.to_owned(),
                cluster: String::new(),
            });
        }
        by(false, readings)
    };
    let told = |status: &NodeFenceStatus| {
        let told = find(&status.conditions, NODE_CONFIRMED_DOWN);
        told.map(|it| it.status.clone())
    };
    let (memory, at) = (Memory::default(), Timestamp::UNIX_EPOCH);
    let mut status = NodeFenceStatus::default();
    let storage = proven([Some("rbd.csi"), Some("ebs.csi")]);
    evidence(&mut status, &storage, &memory, Duration::ZERO, at);
    assert_eq!(told(&status), None);
    assert!(status.evidence.is_some());
    let beside = proven([Some("rbd.csi"), None]);
    evidence(&mut status, &beside, &memory, Duration::ZERO, at);
    assert_eq!(told(&status).as_deref(), Some("True"));
    evidence(&mut status, &storage, &memory, Duration::ZERO, at);
    assert_eq!(told(&status).as_deref(), Some("Unknown"));
}

/// Whoever reads the record has to know whether a device has read off, or somebody has said so.
#[test]
fn what_is_confirmed_down_says_whether_a_device_or_a_human_has_said_so() {
    for (by_confirmation, said) in [
        (
            false,
            "off by repeated readings of its FenceDevices, and no sign of life since the claim",
        ),
        (
            true,
            "off by manual confirmation (`spec.manualConfirmation`), and no sign of life since the claim",
        ),
    ] {
        let proven = by(by_confirmation, crate::fixtures::off_readings());
        let mut status = NodeFenceStatus::default();
        let (memory, at) = (Memory::default(), Timestamp::UNIX_EPOCH);
        evidence(&mut status, &proven, &memory, Duration::ZERO, at);
        let confirmed = find(&status.conditions, NODE_CONFIRMED_DOWN).expect("the condition");
        assert_eq!(confirmed.message, said);
        // S22: nobody may go by it any more when its node is there in the boot that was proven down.
        let life = || Some("the Lease was renewed".to_owned());
        for (proof_refuted, proof_doubted, is) in [
            (false, None, "True"),
            (true, None, "False"),
            (false, life(), "Unknown"),
            (true, life(), "False"),
        ] {
            let memory = Memory {
                proven: ProvenOff {
                    refuted: proof_refuted,
                    doubted: proof_doubted,
                    ..ProvenOff::default()
                },
                ..Memory::default()
            };
            let mut status = status.clone();
            let decision = decision(Stage::SelfRecovered, None);
            stage(&mut status, &memory, &decision, None, Duration::ZERO, at);
            let confirmed = find(&status.conditions, NODE_CONFIRMED_DOWN).expect("the condition");
            assert_eq!(confirmed.status, is);
            // The next process knows nothing but a sign of life, which makes no refutation weaker.
            let successor = Memory {
                proven: ProvenOff {
                    doubted: life(),
                    ..ProvenOff::default()
                },
                ..Memory::default()
            };
            stage(&mut status, &successor, &decision, None, Duration::ZERO, at);
            let confirmed = find(&status.conditions, NODE_CONFIRMED_DOWN).expect("the condition");
            assert_eq!(confirmed.status == "False", is == "False", "{confirmed:?}");
        }
    }
}

/// S22: whoever goes on knows of what others have found, each once, and of no more than the schema takes.
#[test]
fn findings_of_another_process_are_taken_over_once_each() {
    let of = |names: std::ops::Range<usize>| NodeFenceStatus {
        contradicting_devices: names.map(|it| format!("bmc-{it}")).collect(),
        ..NodeFenceStatus::default()
    };
    let merged = |mut mine: NodeFenceStatus, theirs: NodeFenceStatus| {
        merge_findings(&mut mine, &theirs);
        mine.contradicting_devices.len()
    };
    assert_eq!(merged(of(0..2), of(1..3)), 3);
    assert_eq!(merged(of(0..2), of(0..2)), 2);
    assert_eq!(
        merged(of(0..CONTRADICTING_MAX), of(20..22)),
        CONTRADICTING_MAX
    );
    assert_eq!(merged(of(0..1), of(1..30)), CONTRADICTING_MAX);
}

/// Whoever finds a record in which anything stands knows that the policy's wait was over when it was written.
#[test]
fn nothing_is_written_before_the_policy_s_wait_is_over() {
    let mut status = NodeFenceStatus::default();
    assert!(!read(&status, Timestamp::UNIX_EPOCH).due);
    say(&mut status, &decision(Stage::Checking, None));
    assert!(read(&status, Timestamp::UNIX_EPOCH).due);
}
