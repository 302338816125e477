//! What each outcome teaches, and what it must not.

use super::*;
use crate::answer::PodList;
use crate::attempt::{Attempt, OffResult};
use crate::device::Device;
use crate::device::DeviceAnswer;
use crate::fixtures::{attempt, bmc, off_readings, own_claim, pod, settings};
use crate::memory::{ClaimScoped, Commands, Writes};
use crate::observed::LeaseView;
use crate::quiesce::Quiesce;
use std::collections::BTreeMap;

mod before;
mod off;
mod proofs;
mod silence;

const NOW: Duration = Duration::from_secs(100);
const LATE_EFFECT: Duration = Duration::from_secs(60);

/// Under a claim, quiesced, with a command written down.
fn memory() -> Memory {
    Memory {
        claim: Some(own_claim("fence-n1")),
        under_claim: ClaimScoped {
            quiesce: Quiesce {
                since: Some(Duration::ZERO),
                ..Quiesce::default()
            },
            lease_before: Some(LeaseView {
                renew_time: "renewal-1".to_owned(),
            }),
            ..ClaimScoped::default()
        },
        commands: Commands {
            attempt: Some(Attempt {
                recorded: false,
                ..attempt()
            }),
            ..Commands::default()
        },
        ..Memory::default()
    }
}

fn under_claim(asked: Asked, reply: Reply) -> Memory {
    let mut memory = memory();
    learn(&settings(), &mut memory, asked, reply, NOW);
    memory
}

/// The answer to order 1.
fn answered(order: u64, reply: DeviceReply) -> Memory {
    let mut memory = memory();
    memory.commands.begin(true);
    let reply = Reply::Device(order, reply);
    learn(&settings(), &mut memory, Asked::Device, reply, NOW);
    memory
}

/// Readings that ended by themselves, beside nobody else's, with the pods that were listed meanwhile.
fn confirmed(readings: Vec<DeviceReadings>, pods: Vec<PodList>) -> DeviceReply {
    DeviceReply::Confirmed {
        readings,
        failures: Vec::new(),
        others: Vec::new(),
        kubelet_answers: None,
        pods,
    }
}

fn commanded(result: OffResult) -> DeviceReply {
    DeviceReply::Commanded {
        answers: Vec::new(),
        results: BTreeMap::from([("bmc".to_owned(), result)]),
    }
}

/// What this device says at this second, alone.
fn says(device: &Device, state: PowerState, second: u64) -> DeviceReadings {
    let mut reading = off_readings().remove(0).readings.remove(0);
    let at = Duration::from_secs(second);
    (reading.state, reading.asked, reading.answered) = (state, at, at);
    DeviceReadings::of(device, vec![reading])
}

const EVERYTHING: [Asked; 10] = [
    Asked::Claim,
    Asked::RecordIntent,
    Asked::RecordOn,
    Asked::StoreEvidence,
    Asked::Taint,
    Asked::Evict,
    Asked::DropClaim,
    Asked::Write,
    Asked::Device,
    Asked::Nothing,
];

#[test]
fn a_write_that_was_done_teaches_what_it_was_for_and_nothing_else() {
    for asked in EVERYTHING {
        let memory = under_claim(asked, Reply::Done);
        let recorded = memory
            .commands
            .attempt
            .as_ref()
            .is_some_and(|attempt| attempt.recorded);
        assert_eq!(recorded, asked == Asked::RecordIntent, "{asked:?}");
        assert_eq!(
            memory.under_claim.evidence,
            asked == Asked::StoreEvidence,
            "{asked:?}"
        );
        assert_eq!(memory.taint.seen, asked == Asked::Taint, "{asked:?}");
        assert_eq!(
            memory.under_claim.evicted,
            asked == Asked::Evict,
            "{asked:?}"
        );
        assert_eq!(
            memory.claim.is_none(),
            asked == Asked::DropClaim,
            "{asked:?}"
        );
    }
}

#[test]
fn a_write_that_was_not_answered_teaches_nothing_but_to_wait() {
    let unknown = || Reply::Unknown("no answer within 5 s".to_owned());
    let refused = || Reply::Refused(422, "a test of the patch failed".to_owned());
    for asked in EVERYTHING {
        for reply in [unknown(), refused()] {
            let message = match &reply {
                Reply::Refused(_, message) | Reply::Unknown(message) => message.clone(),
                _ => String::new(),
            };
            let expected = Memory {
                under_claim: ClaimScoped {
                    // Some pods may be gone.
                    relist: asked == Asked::Evict,
                    ..memory().under_claim
                },
                writes: Writes {
                    failure: message,
                    failures: 1,
                    retry_at: Some(NOW + Duration::from_millis(50)),
                    ..memory().writes
                },
                ..memory()
            };
            assert_eq!(under_claim(asked, reply), expected, "{asked:?}");
        }
    }
}

#[test]
fn a_denied_write_is_told_until_one_is_done() {
    let mut memory = under_claim(
        Asked::Write,
        Reply::Refused(403, "nodes is forbidden".to_owned()),
    );
    assert_eq!(memory.writes.denied.as_deref(), Some("nodes is forbidden"));
    learn(
        &settings(),
        &mut memory,
        Asked::Write,
        Reply::Unknown(String::new()),
        NOW,
    );
    assert!(memory.writes.denied.is_some());
    learn(&settings(), &mut memory, Asked::Write, Reply::Done, NOW);
    assert_eq!((memory.writes.denied, memory.writes.retry_at), (None, None));
}

#[test]
fn a_denial_is_known_by_its_words_whatever_its_status() {
    let policy = "nodes \"w\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no";
    let webhook = "admission webhook \"w.example.com\" denied the request: no";
    let silent = "admission webhook \"w.example.com\" denied the request without explanation";
    let down = "Internal error occurred: failed calling webhook \"w.example.com\": connection refused (500)";
    let refused = |status, message: &str| Reply::Refused(status, message.to_owned());
    for reply in [
        refused(422, policy),
        refused(400, webhook),
        refused(409, silent),
    ] {
        let denied = under_claim(Asked::Write, reply.clone()).writes.denied;
        assert!(denied.is_some(), "{reply:?}");
    }
    // Nobody is called for a webhook that was silent once.
    let mut memory = Memory::default();
    for denied in [false, false, true] {
        let reply = Reply::Unknown(down.to_owned());
        learn(&settings(), &mut memory, Asked::Write, reply, NOW);
        assert_eq!(memory.writes.denied.is_some(), denied);
    }
    for reply in [
        refused(422, "the server rejected our request due to an error"),
        refused(409, "the object has been modified"),
        Reply::Unknown("etcdserver: request timed out (500)".to_owned()),
    ] {
        let denied = under_claim(Asked::Write, reply.clone()).writes.denied;
        assert_eq!(denied, None, "{reply:?}");
    }
}

#[test]
fn failed_writes_are_tried_again_ever_more_slowly() {
    let mut memory = memory();
    let mut pauses = Vec::new();
    for _ in 0..10 {
        let reply = Reply::Unknown(String::new());
        learn(&settings(), &mut memory, Asked::Write, reply, NOW);
        let at = memory.writes.retry_at.expect("a pause");
        pauses.push((at - NOW).as_millis());
    }
    assert_eq!(
        pauses,
        [50, 100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]
    );
}

#[test]
fn only_the_answer_to_the_last_order_is_listened_to() {
    let answers = || DeviceReply::PowerRead {
        answers: Vec::new(),
        pods: None,
    };
    let accepted = || commanded(OffResult::Accepted);
    let readings = || confirmed(Vec::new(), Vec::new());
    for reply in [answers(), accepted(), readings()] {
        let deaf = answered(2, reply);
        assert!(deaf.commands.busy.is_some(), "still waits for order 1");
        assert_eq!(deaf.under_claim.readings, None);
        assert_eq!(deaf.commands.attempt, memory().commands.attempt);
    }
    for reply in [answers(), accepted(), readings()] {
        assert_eq!(answered(1, reply).commands.busy, None);
    }
    // Nor is an answer that comes after its claim was given back.
    let mut forgotten = memory();
    forgotten.commands.begin(true);
    forgotten.forget_claim(NOW);
    let late = Reply::Device(1, readings());
    learn(&settings(), &mut forgotten, Asked::Device, late, NOW);
    assert_eq!(forgotten.under_claim.readings, None);
}

/// A pod that came and was deleted again before the power was read last was begun by nobody: the machine was off after it.
#[test]
fn only_pods_that_were_listed_before_the_last_reading_count() {
    let last_asked = Duration::from_secs(13);
    let list = |name: &str, answered: Duration| PodList {
        pods: vec![pod(name)],
        answered,
    };
    let counts = |readings, pods| {
        let mut memory = memory();
        memory.commands.begin(false);
        learn(
            &settings(),
            &mut memory,
            Asked::Device,
            Reply::Device(1, confirmed(readings, pods)),
            NOW,
        );
        memory.under_claim.pods.map(|pods| pods[0].name.clone())
    };
    let moment = Duration::from_millis(1);
    let in_time = || list("in-time", last_asked);
    let late = || list("late", last_asked + moment);
    let old = || list("old", last_asked - moment);
    let found = |name: &str| Some(name.to_owned());
    assert_eq!(counts(off_readings(), vec![in_time()]), found("in-time"));
    assert_eq!(
        counts(off_readings(), vec![old(), in_time(), late()]),
        found("in-time")
    );
    assert_eq!(counts(off_readings(), vec![late()]), None);
    assert_eq!(counts(off_readings(), Vec::new()), None);
    assert_eq!(counts(Vec::new(), vec![in_time()]), None);
    // One device was read last long before the other.
    let mut two = off_readings();
    two.extend(off_readings());
    two[1].readings.truncate(1);
    assert_eq!(counts(two.clone(), vec![in_time()]), None);
    // One that does not read off proves nothing, and so asks for nothing.
    two[1].readings[0].state = PowerState::Unknown;
    assert_eq!(counts(two, vec![in_time()]), found("in-time"));
}

/// Where one device is enough, the proof rests on the last of those that were off long enough: a list counts that was answered
/// before its last reading, and what another one is asked later makes no list older.
#[test]
fn under_any_a_list_counts_that_came_before_the_last_reading_of_a_device_that_proves_it() {
    let mut any = settings();
    any.levels[0].require = Require::Any;
    let counts = |other_at: u64, list_at: u64| {
        let mut memory = memory();
        memory.commands.begin(false);
        let mut readings = off_readings();
        let mut other = off_readings().remove(0);
        // Off once, at this second: not long enough for anything.
        other.readings.truncate(1);
        other.readings[0].asked = Duration::from_secs(other_at);
        readings.push(other);
        let list = PodList {
            pods: vec![pod("listed")],
            answered: Duration::from_secs(list_at),
        };
        let reply = Reply::Device(1, confirmed(readings, vec![list]));
        learn(&any, &mut memory, Asked::Device, reply, NOW);
        memory.under_claim.pods.is_some()
    };
    // The device that proves it was asked at 13 s last. The other one's reading is older, or younger.
    assert!(counts(11, 12) && counts(11, 13));
    assert!(!counts(11, 14));
    assert!(!counts(15, 14));
    assert!(counts(15, 13));
}

/// One device answers at once, another one after fifteen seconds: the look is as old as its end, and does not begin again and again.
#[test]
fn a_look_is_as_old_as_its_last_answer() {
    let mut memory = memory();
    memory.commands.begin(false);
    let mut early = off_readings()[0].readings[0].clone();
    early.answered = NOW - Duration::from_secs(15);
    let answer = |device: &str, reading| DeviceAnswer {
        device: Device {
            name: device.to_owned(),
            ..bmc()
        },
        reading,
    };
    let reply = DeviceReply::PowerRead {
        answers: vec![
            answer("bmc", Ok(early)),
            answer("pdu", Err("no answer".to_owned())),
        ],
        pods: None,
    };
    learn(
        &settings(),
        &mut memory,
        Asked::Device,
        Reply::Device(1, reply),
        NOW,
    );
    assert_eq!((memory.under_claim.answers.len(), memory.read_at), (2, NOW));
}

#[test]
fn a_claim_that_the_api_server_has_taken_is_seen() {
    let mut memory = memory();
    if let Some(claim) = &mut memory.claim {
        claim.seen = false;
    }
    learn(&settings(), &mut memory, Asked::Claim, Reply::Done, NOW);
    assert!(memory.claim.is_some_and(|claim| claim.seen));
}

#[test]
fn a_device_that_failed_beside_the_readings_is_told_of() {
    let failed = |failures: &[&str]| {
        let mut memory = memory();
        memory.commands.begin(false);
        memory.tries.last_failure = Some("before".to_owned());
        let reply = DeviceReply::Confirmed {
            readings: off_readings(),
            failures: failures.iter().map(|it| (*it).to_owned()).collect(),
            others: Vec::new(),
            kubelet_answers: None,
            pods: Vec::new(),
        };
        let reply = Reply::Device(1, reply);
        learn(&settings(), &mut memory, Asked::Device, reply, NOW);
        memory.tries.last_failure
    };
    assert_eq!(
        failed(&["no answer", "401"]).as_deref(),
        Some("no answer; 401")
    );
    assert_eq!(failed(&[]).as_deref(), Some("before"));
}
