//! S23: what became of an off command, by its answer and by what is read after it.

use super::*;

/// The command of `memory()` has ended like this.
fn ended(result: &OffResult) -> Memory {
    let mut memory = memory();
    let attempt = memory.commands.attempt.as_mut().expect("an attempt");
    attempt.results.insert("bmc".to_owned(), result.clone());
    memory
}

#[test]
fn an_off_of_unknown_outcome_may_land_until_the_late_effect_window_has_passed() {
    let why = || "connection reset".to_owned();
    // The outcome, until when it may land, and what is told.
    let table = [
        (OffResult::Accepted, None, None),
        (OffResult::AlreadyOff, None, None),
        (OffResult::NotSent(why()), None, Some(why())),
        (
            OffResult::Unknown(why()),
            Some(NOW + LATE_EFFECT),
            Some(why()),
        ),
    ];
    for (result, until, told) in table {
        let memory = answered(1, commanded(result.clone()));
        assert_eq!(memory.late.own_off_until, until, "{result:?}");
        let told = told.map(|why| format!("FenceDevice bmc: {why}"));
        assert_eq!(memory.tries.last_failure, told, "{result:?}");
        let attempt = memory.commands.attempt.expect("the attempt stays");
        assert_eq!(attempt.results.get("bmc"), Some(&result));
    }
}

/// S23: whatever it is dropped for, an off that was accepted and whose effect nobody has seen may land late; what has landed, or was
/// never sent, may not.
#[test]
fn an_attempt_is_not_dropped_without_its_window() {
    let late = NOW + LATE_EFFECT;
    let table = [
        (OffResult::Accepted, Some(late)),
        (OffResult::Landed, None),
        (OffResult::AlreadyOff, None),
        (OffResult::NotSent("refused".to_owned()), None),
    ];
    for (result, until) in table {
        let mut memory = ended(&result);
        memory.drop_attempt(late);
        assert_eq!(memory.commands.attempt, None);
        assert_eq!(memory.late.own_off_until, until, "{result:?}");
    }
}

/// An accepted command, while an earlier one may still land `until` then: what a look under the taint makes of both.
fn read_at(state: PowerState, until: Option<Duration>) -> (OffResult, Option<Duration>) {
    let mut memory = ended(&OffResult::Accepted);
    memory.late.own_off_until = until;
    memory.commands.begin(false);
    let mut reading = off_readings()[0].readings[1].clone();
    reading.state = state;
    let answers = vec![DeviceAnswer {
        device: bmc(),
        reading: Ok(reading),
    }];
    let looked = DeviceReply::PowerRead {
        answers,
        pods: None,
    };
    let reply = Reply::Device(1, looked);
    learn(&settings(), &mut memory, Asked::Device, reply, NOW);
    let attempt = memory.commands.attempt.expect("the attempt stays");
    (attempt.results["bmc"].clone(), memory.late.own_off_until)
}

/// S23: under the taint a look tells what became of the command.
#[test]
fn a_look_shows_the_effect_of_an_accepted_off() {
    assert_eq!(read_at(PowerState::Off, None), (OffResult::Landed, None));
    let (result, until) = read_at(PowerState::On, None);
    assert!(matches!(result, OffResult::Late(_)), "{result:?}");
    assert_eq!(until, Some(NOW + LATE_EFFECT));
}

/// S23: of two commands that may land nobody knows which one it was.
#[test]
fn what_lands_while_an_earlier_one_may_is_either_of_them() {
    let soon = NOW + Duration::from_secs(1);
    for (before, after) in [(NOW, NOW), (soon, NOW + LATE_EFFECT)] {
        let landed = read_at(PowerState::Off, Some(before));
        assert_eq!(landed, (OffResult::Landed, Some(after)));
    }
    // Whoever has sent the other one.
    for (others, after) in [(NOW, None), (soon, Some(NOW + LATE_EFFECT))] {
        let mut memory = ended(&OffResult::Accepted);
        (memory.late.own_off_until, memory.late.others_off_until) = (None, Some(others));
        memory.commands.begin(false);
        let reply = Reply::Device(1, confirmed(off_readings(), Vec::new()));
        learn(&settings(), &mut memory, Asked::Device, reply, NOW);
        assert_eq!(memory.late.own_off_until, after);
    }
}

/// S23: that the earlier one's time is over when somebody looks does not tell that it was over when the machine went off. Found by the
/// model (`crates/core/tests/model`): the late one turned a node off that had been released.
#[test]
fn what_landed_while_an_earlier_one_might_is_either_of_them_however_late_it_is_looked_at() {
    for (contested, after) in [(false, NOW), (true, NOW + LATE_EFFECT)] {
        let mut memory = ended(&OffResult::Accepted);
        memory
            .commands
            .attempt
            .as_mut()
            .expect("an attempt")
            .contested = contested;
        memory.late.own_off_until = Some(NOW);
        memory.commands.begin(false);
        let reply = Reply::Device(1, confirmed(off_readings(), Vec::new()));
        learn(&settings(), &mut memory, Asked::Device, reply, NOW);
        assert_eq!(memory.late.own_off_until, Some(after));
    }
}

/// S23: another process may still be sending one; that an own one has landed makes the wait for it no shorter.
#[test]
fn a_window_is_not_made_shorter_by_what_is_learned_later() {
    let later = NOW + 3 * LATE_EFFECT;
    let landed = read_at(PowerState::Off, Some(later));
    assert_eq!(landed, (OffResult::Landed, Some(later)));
    let (_, until) = read_at(PowerState::On, Some(later));
    assert_eq!(until, Some(later));
}

/// S23: what was accepted, by what its device said last.
#[test]
fn an_accepted_off_that_is_not_seen_in_time_is_unresolved() {
    let after = |result: &OffResult, readings: Vec<DeviceReadings>| {
        let mut memory = ended(result);
        memory.commands.begin(false);
        let reply = Reply::Device(1, confirmed(readings, Vec::new()));
        learn(&settings(), &mut memory, Asked::Device, reply, NOW);
        let attempt = memory.commands.attempt.expect("the attempt stays");
        (attempt.results["bmc"].clone(), memory.late.own_off_until)
    };
    let ending = |state: PowerState| {
        let mut readings = off_readings();
        readings[0].readings[1].state = state;
        readings
    };
    for readings in [
        ending(PowerState::On),
        ending(PowerState::Transitional),
        ending(PowerState::Unknown),
        Vec::new(),
    ] {
        let (result, until) = after(&OffResult::Accepted, readings);
        assert!(matches!(result, OffResult::Late(_)), "{result:?}");
        assert_eq!(until, Some(NOW + LATE_EFFECT));
    }
    let landed = after(&OffResult::Accepted, off_readings());
    assert_eq!(landed, (OffResult::Landed, None));
    // Off with a fault indication is not off, and that another machine is off says nothing of the one that was commanded.
    let (mut faulty, mut strange) = (off_readings(), off_readings());
    faulty[0].readings[1].faults = vec!["PowerFault".to_owned()];
    strange[0].readings[1].identity.system_uuid = None;
    for readings in [faulty, strange] {
        let (result, until) = after(&OffResult::Accepted, readings);
        assert!(matches!(result, OffResult::Late(_)), "{result:?}");
        assert_eq!(until, Some(NOW + LATE_EFFECT));
    }
    // What was never sent cannot land.
    let refused = OffResult::NotSent("refused".to_owned());
    assert_eq!(after(&refused, ending(PowerState::On)), (refused, None));
}
