//! Whatever the engine ended with, the readings are judged by the rule of a proof.

use super::*;
use fencing_core::reading::Identity;
use fencing_drivers::DeviceError;
use jiff::Timestamp;

const OURS: &str = "4c4c4544-0042-3510-8052-b4c04f4a4d32";
const OTHER: &str = "11111111-2222-4333-8444-555555555555";

fn at(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn off(asked: u64, uuid: &str) -> Reading {
    Reading {
        state: PowerState::Off,
        raw: "off".to_owned(),
        identity: Identity {
            system_uuid: Some(uuid.to_owned()),
            serial_number: None,
        },
        faults: Vec::new(),
        off_parts: Vec::new(),
        asked: at(asked),
        answered: at(asked),
        wall: Timestamp::UNIX_EPOCH,
    }
}

/// Two readings over 3 s are asked for, after 1 s; it is 6 s now.
fn judged(readings: &[Reading], ended: Ended) -> Off {
    let identity = IdentityRule::Is(OURS.to_owned());
    let target = Target {
        device: "bmc",
        identity: &identity,
        time_max: at(90_000),
    };
    let plan = ConfirmPlan {
        reads: 2,
        period: at(3_000),
        window: at(3_000),
        deadline: target.time_max,
    };
    let confirmation = Confirmation {
        readings: readings.to_vec(),
        ended,
    };
    target.judged("sent".to_owned(), confirmation, &plan, at(1_000), at(6_000))
}

#[test]
fn readings_that_the_engine_calls_stable_are_judged_like_those_of_a_fence() {
    let faulty = Reading {
        faults: vec!["power fault".to_owned()],
        ..off(5_000, OURS)
    };
    let first = || off(1_000, OURS);
    let table = [
        (vec![first(), off(4_000, OURS)], None),
        (vec![first()], Some("read Off 1 of 2 times over 0 of")),
        (
            vec![first(), off(3_999, OURS)],
            Some("over 2999 of 3000 ms"),
        ),
        (
            vec![off(999, OURS), off(5_000, OURS)],
            Some("read Off 1 of 2 times"),
        ),
        (vec![first(), off(4_000, OTHER)], Some(OTHER)),
        (
            vec![first(), off(4_000, OURS), faulty],
            Some("read Off 0 of 2 times"),
        ),
        // Of the future: no clock goes back.
        (vec![first(), off(6_001, OURS)], Some("is 0 ms old")),
    ];
    for (readings, refusal) in table {
        let off = judged(&readings, Ended::Stable);
        assert_eq!(off.is_proven, refusal.is_none(), "{}", off.words);
        assert!(
            off.words
                .contains(refusal.unwrap_or("prove the device off")),
            "{}",
            off.words
        );
    }
}

#[test]
fn why_the_engine_gave_up_is_said_beside_what_is_missing() {
    let words = |ended| judged(&[], ended).words;
    let late = words(Ended::Deadline(None));
    assert!(
        late.starts_with("not confirmed off within 90 s: FenceDevice bmc read Off 0 of 2"),
        "{late}"
    );
    let stopped = Ended::Stopped("another machine answers".to_owned());
    assert_eq!(words(stopped), "another machine answers");
    let silent = DeviceError::Timeout {
        endpoint: "bmc:623".to_owned(),
        waited: at(15_000),
    };
    assert_eq!(
        words(Ended::Deadline(Some(silent.clone()))),
        silent.to_string()
    );
    assert_eq!(words(Ended::Failed(silent.clone())), silent.to_string());
}
