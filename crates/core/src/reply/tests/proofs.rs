//! What is known of a proof, and for how long.

use super::*;
use crate::delay::{Now, Since};
use crate::memory::{Commands, LateCommands};
use crate::verification::Require;

/// S17, S22: what was silent beside the last readings may answer beside these, and what was stored of them says nothing of these.
#[test]
fn new_readings_are_judged_anew() {
    let mut memory = memory();
    memory.commands.begin(false);
    (
        memory.under_claim.judged_down,
        memory.under_claim.evidence_is_new,
    ) = (true, true);
    let reply = Reply::Device(1, confirmed(off_readings(), Vec::new()));
    learn(&settings(), &mut memory, Asked::Device, reply, NOW);
    assert!(!memory.under_claim.judged_down && !memory.under_claim.evidence_is_new);
}

/// S22: of the lists beside the readings each is compared with what was there before.
#[test]
fn what_a_kubelet_writes_beside_the_readings_is_taken_note_of() {
    let mut memory = memory();
    memory.commands.begin(false);
    let list = |written| PodList {
        pods: vec![PodView {
            written,
            ..pod("db-0")
        }],
        answered: Duration::from_secs(12),
    };
    let reply = confirmed(off_readings(), vec![list(1), list(2)]);
    let reply = Reply::Device(1, reply);
    learn(&settings(), &mut memory, Asked::Device, reply, NOW);
    assert_eq!(memory.under_claim.written.as_deref(), Some("default/db-0"));
}

/// S17: the evidence of an older proof is what is known until that of the new one is stored for certain.
#[test]
fn the_devices_of_a_new_proof_are_known_once_its_evidence_is_stored() {
    let proven_by = |reply: Reply| {
        let mut memory = Memory {
            under_claim: ClaimScoped {
                evidence: true,
                proven_by: vec!["bmc".to_owned()],
                proving: vec!["pdu".to_owned()],
                ..memory().under_claim
            },
            ..memory()
        };
        learn(&settings(), &mut memory, Asked::StoreEvidence, reply, NOW);
        assert!(memory.under_claim.evidence);
        memory.under_claim.proven_by
    };
    assert_eq!(proven_by(Reply::Done), ["pdu"]);
    assert_eq!(proven_by(Reply::Unknown("silence".to_owned())), ["bmc"]);
}

/// S8: what somebody takes away before the Node is read again was there: it is not set again.
#[test]
fn a_taint_that_the_api_server_has_taken_is_known() {
    for (reply, is_known) in [
        (Reply::Done, true),
        (Reply::Unknown("silence".to_owned()), false),
    ] {
        let mut memory = memory();
        learn(&settings(), &mut memory, Asked::Taint, reply, NOW);
        assert_eq!(memory.taint.seen, is_known);
    }
}

/// S4: a device that reports a fault beside its off proves nothing, so no list is in time for it.
#[test]
fn under_any_a_device_with_a_fault_asks_for_no_list() {
    let mut any = settings();
    any.levels[0].require = Require::Any;
    let counts = |faults: &[&str]| {
        let mut memory = memory();
        memory.commands.begin(false);
        let mut readings = off_readings();
        for reading in &mut readings[0].readings {
            reading.faults = faults.iter().map(|it| (*it).to_owned()).collect();
        }
        let list = PodList {
            pods: vec![pod("listed")],
            answered: Duration::from_secs(12),
        };
        let reply = Reply::Device(1, confirmed(readings, vec![list]));
        learn(&any, &mut memory, Asked::Device, reply, NOW);
        memory.under_claim.pods.is_some()
    };
    assert!(counts(&[]));
    assert!(!counts(&["interlock"]));
}

fn proof_source(outlets: bool) -> Device {
    Device {
        name: "witness".to_owned(),
        outlets,
        ..bmc()
    }
}

/// S15, L1: the settings of the round that listens may know the device no more, or know it otherwise.
#[test]
fn what_a_device_says_is_heard_as_it_was_asked() {
    let off = says(&bmc(), PowerState::Off, 11);
    for outlets in [false, true] {
        let on = says(&proof_source(outlets), PowerState::On, 50);
        let looked = |device: &DeviceReadings| DeviceAnswer {
            device: Device {
                name: device.device.clone(),
                ..proof_source(device.outlets)
            },
            reading: Ok(device.readings[0].clone()),
        };
        let answers = vec![looked(&off), looked(&on)];
        let replies = [
            DeviceReply::PowerRead {
                answers,
                pods: None,
            },
            confirmed(vec![off.clone(), on.clone()], vec![]),
        ];
        for reply in replies {
            let mut memory = memory();
            memory.commands.begin(false);
            let mut changed = settings();
            changed.levels[0].devices = vec![Device {
                outlets: !outlets,
                ..proof_source(outlets)
            }];
            let reply = Reply::Device(memory.commands.orders, reply);
            learn(&changed, &mut memory, Asked::Device, reply, NOW);
            assert!(
                memory.trust.power_history.knows("bmc")
                    && memory.trust.power_history.knows("witness")
            );
            let against = memory
                .trust
                .power_history
                .contradiction(&["bmc"], 1, Require::All);
            assert_eq!(against.is_none(), outlets);
        }
    }
}

/// S4: an answer to a question that nobody waits for any more decides nothing, and what it says of the power is true.
#[test]
fn a_late_answer_still_tells_of_the_power() {
    let off = says(&bmc(), PowerState::Off, 11);
    let on = || says(&proof_source(false), PowerState::On, 50);
    let answers = vec![DeviceAnswer {
        device: proof_source(false),
        reading: Ok(on().readings.remove(0)),
    }];
    let beside = DeviceReply::Confirmed {
        readings: vec![],
        failures: vec![],
        others: vec![on()],
        kubelet_answers: None,
        pods: vec![],
    };
    for reply in [
        DeviceReply::PowerRead {
            answers,
            pods: None,
        },
        confirmed(vec![on()], vec![]),
        beside,
    ] {
        let mut memory = memory();
        memory.trust.power_history.note(&off, true);
        memory.commands.begin(false);
        let (number, before) = (memory.commands.orders, memory.clone());
        memory.commands.busy = None;
        let reply = Reply::Device(number, reply);
        learn(&settings(), &mut memory, Asked::Device, reply, NOW);
        let against = memory
            .trust
            .power_history
            .contradiction(&["bmc"], 1, Require::All);
        assert!(against.is_some());
        // Nothing else is learned from it.
        memory.trust.power_history = before.trust.power_history.clone();
        memory.commands.busy = before.commands.busy;
        assert_eq!(memory, before);
    }
}

/// L1: golden 176, but that the claim was lost meanwhile: nobody may hold against a BMC without power what it said before our command.
#[test]
fn an_off_that_is_heard_of_late_may_be_our_doing() {
    let message = || "words".to_owned();
    for (result, is_against) in [
        (OffResult::NotSent(message()), true),
        (OffResult::AlreadyOff, true),
        (OffResult::Accepted, false),
        (OffResult::Unknown(message()), false),
    ] {
        let mut memory = memory();
        let attempt = memory.commands.attempt.as_mut().expect("an attempt");
        attempt.results.insert("pdu".to_owned(), result);
        memory.forget_claim(NOW + LATE_EFFECT);
        let pdu = Device {
            name: "pdu".to_owned(),
            ..bmc()
        };
        let readings = vec![
            says(&pdu, PowerState::Off, 12),
            says(&bmc(), PowerState::On, 11),
        ];
        let late = Reply::Device(7, confirmed(readings, vec![]));
        learn(&settings(), &mut memory, Asked::Device, late, NOW);
        let against = memory
            .trust
            .power_history
            .contradiction(&["pdu"], 1, Require::All);
        assert_eq!(against.is_some(), is_against);
    }
}

/// S21: it may hang after that, and the machine may go down: whoever gave the word had looked at another one.
#[test]
fn an_on_refutes_the_word_whatever_the_device_says_after_it() {
    for after in [PowerState::Unknown, PowerState::Off] {
        let heard = Now {
            boot: Duration::from_secs(50),
            wall: jiff::Timestamp::UNIX_EPOCH,
        };
        let confirmation = ManualConfirmation {
            user: "alice".to_owned(),
            node_uid: "uid-1".to_owned(),
            given: Since::at(heard.wall, heard),
            is_ahead: false,
        };
        let by_confirmation = Settings {
            confirmation: Some(confirmation),
            ..settings()
        };
        let mut said = says(&bmc(), PowerState::On, 51);
        said.readings.extend(says(&bmc(), after, 60).readings);
        let mut memory = memory();
        memory.commands.begin(false);
        let reply = Reply::Device(1, confirmed(vec![said], vec![]));
        learn(&by_confirmation, &mut memory, Asked::Device, reply, NOW);
        assert!(memory.confirmation.refused.is_some(), "{after:?}");
        // Or it was read while an off was prepared, which it refuses.
        let reading = says(&bmc(), PowerState::On, 51).readings.remove(0);
        let answers = vec![DeviceAnswer {
            device: bmc(),
            reading: Ok(reading),
        }];
        let results = [("bmc".to_owned(), OffResult::NotSent("no".to_owned()))].into();
        let mut memory = self::memory();
        memory.commands.begin(true);
        let reply = Reply::Device(1, DeviceReply::Commanded { answers, results });
        learn(&by_confirmation, &mut memory, Asked::Device, reply, NOW);
        assert!(memory.confirmation.refused.is_some());
    }
}

/// S21: whosever turn it is, and however late it comes, an On that was asked for after the word was heard of refutes it; one from before knows
/// nothing of it, nor do outlets, nor a device of another machine. Under the mark another rule goes by it (S12).
#[test]
fn an_on_refutes_the_word_that_was_heard_of_before_its_question() {
    let of = |confirmation: Option<&str>| {
        let heard = Now {
            boot: Duration::from_secs(50),
            wall: jiff::Timestamp::UNIX_EPOCH,
        };
        let confirmation = confirmation.map(|node_uid| ManualConfirmation {
            user: "alice".to_owned(),
            node_uid: node_uid.to_owned(),
            given: Since::at(heard.wall, heard),
            is_ahead: false,
        });
        Settings {
            confirmation,
            ..settings()
        }
    };
    let its = Some("uid-1");
    let mut another = says(&bmc(), PowerState::On, 50);
    let uuid = "4c4c4544-0035-3010-8047-b7c04f4a5a39".to_owned();
    another.readings[0].identity.system_uuid = Some(uuid);
    let on = |second| says(&bmc(), PowerState::On, second);
    let table = [
        (its, on(50), false, true),
        (its, on(49), false, false),
        (None, on(50), false, false),
        (Some("uid-2"), on(50), false, false),
        (its, says(&bmc(), PowerState::Transitional, 50), false, true),
        (its, says(&bmc(), PowerState::Off, 50), false, false),
        (
            its,
            says(&proof_source(true), PowerState::On, 50),
            false,
            false,
        ),
        (its, another, false, false),
        (its, on(50), true, false),
    ];
    for (its, said, tainted, is_refuted) in table {
        let looked = DeviceAnswer {
            device: match said.outlets {
                true => proof_source(true),
                false => bmc(),
            },
            reading: Ok(said.readings[0].clone()),
        };
        let beside = DeviceReply::Confirmed {
            readings: vec![],
            failures: vec![],
            others: vec![said.clone()],
            kubelet_answers: None,
            pods: vec![],
        };
        let looked = DeviceReply::PowerRead {
            answers: vec![looked],
            pods: None,
        };
        let own = confirmed(vec![said.clone()], vec![]);
        for (what, reply) in [("beside", beside), ("a look", looked), ("own", own)] {
            for order in [1, 7] {
                let mut memory = memory();
                memory.taint.seen = tainted;
                memory.commands.begin(false);
                let reply = Reply::Device(order, reply.clone());
                learn(&of(its), &mut memory, Asked::Device, reply, NOW);
                let found = memory.confirmation.refused.is_some();
                assert_eq!(found, is_refuted, "{what}, {order}, {its:?}: {said:?}");
            }
        }
    }
}

#[test]
fn a_claim_that_is_forgotten_takes_everything_with_it_that_was_learned_under_it() {
    let pods = || vec![pod("db-0")];
    let mut quiesce = Quiesce {
        since: Some(NOW),
        listed_before: Some(pods()),
        begun_anew: 1,
        ..Quiesce::default()
    };
    quiesce.note_list(&pods());
    // Every field, and none as a new claim begins with it: who adds one says it here.
    let everything = ClaimScoped {
        dropping: true,
        devices_claimed: BTreeMap::from([("level".to_owned(), Vec::new())]),
        quiesce,
        answers: vec![DeviceAnswer {
            device: bmc(),
            reading: Err("no answer".to_owned()),
        }],
        readings: Some(Vec::new()),
        others: off_readings(),
        kubelet_answered: Some(true),
        judged_down: true,
        pods: Some(pods()),
        relist: true,
        lease_before: memory().under_claim.lease_before,
        written_before: BTreeMap::from([("uid-db-0".to_owned(), 1)]),
        written: Some("default/db-0".to_owned()),
        lease_after_off: true,
        off_waits_until: Some(NOW),
        taken_over_until: Some(NOW),
        others_listed: true,
        evidence: true,
        evidence_is_new: true,
        proven_by: vec!["bmc".to_owned()],
        proving: vec!["pdu".to_owned()],
        evicted: true,
        polls: 1,
    };
    let mut memory = Memory {
        under_claim: everything,
        ..memory()
    };
    memory.commands.begin(true);
    learn(&settings(), &mut memory, Asked::DropClaim, Reply::Done, NOW);
    let expected = Memory {
        commands: Commands {
            orders: 1, // Nor does what it has brought about count as an off that was there before.
            has_commanded: true,
            ..Commands::default()
        },
        late: LateCommands {
            // The command that was on its way may still land (S23).
            own_off_until: Some(NOW + LATE_EFFECT),
            ..LateCommands::default()
        },
        ..Memory::default()
    };
    assert_eq!(memory, expected);
}
