//! Whose last word speaks against an off, and what takes it back.

use super::*;
use crate::fixtures::off_readings;

/// What a device answers: the second, and what it says.
type Answer = (u64, PowerState);

use PowerState::{Off, On, Transitional, Unknown};

fn heard(history: &mut PowerHistory, device: &str, answers: &[Answer], commanded: bool) {
    let answer = |(second, state): &Answer| Reading {
        state: *state,
        raw: format!("{state:?}"),
        asked: Duration::from_secs(*second),
        answered: Duration::from_secs(*second),
        ..off_readings()[0].readings[0].clone()
    };
    let readings = DeviceReadings {
        device: device.to_owned(),
        outlets: device.starts_with("outlet"),
        covers: None,
        readings: answers.iter().map(answer).collect(),
        ..off_readings()[0].clone()
    };
    history.note(&readings, commanded);
}

/// Who contradicts these devices' off, and what it said.
fn against(
    history: &PowerHistory,
    off: &[&str],
    count: usize,
    require: Require,
) -> Option<(String, String)> {
    match history.contradiction(off, count, require)? {
        NotProven::OnWhileOff { other, raw, .. } => Some((other, raw)),
        reason => panic!("{reason}"),
    }
}

/// Does anything speak against outlet `out`, alone in its level or beside `bmc`, after these answers to a command, or to none?
fn is_against(commanded: bool, bmc: &[Answer], out: &[Answer]) -> bool {
    let mut history = PowerHistory::default();
    heard(&mut history, "bmc", bmc, commanded);
    heard(&mut history, "out", out, commanded);
    let alone = against(&history, &["out"], 1, Require::All).is_some();
    assert_eq!(
        alone,
        against(&history, &["out", "bmc"], 2, Require::Any).is_some()
    );
    alone
}

/// S4: what was said before the machine was seen to go off was true by then; what was said later was said of a machine that runs.
#[test]
fn the_order_tells_whether_a_device_that_fell_silent_contradicts() {
    for (bmc, out, commanded, expected) in [
        // Turned off by us at 10 s: up to 3 s later the two may tell of one moment.
        (&[(9, On), (14, Unknown)][..], &[(10, Off)][..], true, false),
        (&[(13, On), (14, Unknown)], &[(10, Off)], true, false),
        (&[(14, On), (15, Unknown)], &[(10, Off)], true, true),
        (&[(14, Transitional)], &[(10, Off)], true, true),
        // Not by us: it was off when it was looked at first, and maybe for long.
        (&[(6, On), (14, Unknown)], &[(10, Off)], false, false),
        (&[(8, On), (14, Unknown)], &[(10, Off)], false, true),
        (&[(10, On)], &[(10, Off)], false, true),
        // Its own Off takes it back, its silence does not.
        (
            &[(14, On), (15, Off), (16, Unknown)],
            &[(10, Off)],
            true,
            false,
        ),
        // Who said Off first, and then On, has not been off since.
        (&[(14, On)], &[(10, Off), (20, On), (30, Off)], true, false),
        // Nobody reads off.
        (&[(14, On)], &[(10, Unknown)], true, false),
        (&[(14, On)], &[(10, On)], true, false),
    ] {
        let found = is_against(commanded, bmc, out);
        assert_eq!(found, expected, "{bmc:?} {out:?} {commanded}");
    }
}

/// S4: it is remembered from one try to the next, and an off that was there before a command is not the command's effect.
#[test]
fn what_was_said_is_remembered() {
    let mut history = PowerHistory::default();
    heard(&mut history, "out", &[(1, Off), (59, Off)], true);
    heard(&mut history, "bmc", &[(1, On), (59, On)], true);
    heard(&mut history, "out", &[(66, Off), (69, Off)], true);
    heard(&mut history, "bmc", &[(66, Unknown)], true);
    assert_eq!(
        against(&history, &["bmc", "out"], 2, Require::Any),
        Some(("bmc".to_owned(), "On".to_owned()))
    );

    let mut history = PowerHistory::default();
    heard(&mut history, "bmc", &[(1, On)], false);
    heard(&mut history, "out", &[(1, Off)], false);
    heard(&mut history, "out", &[(5, Off)], true);
    assert!(against(&history, &["out"], 1, Require::All).is_some());
}

/// S2: of two supplies one may be on until the other one is off, and then the machine is.
#[test]
fn of_two_supplies_the_second_one_turns_the_machine_off() {
    let mut history = PowerHistory::default();
    heard(&mut history, "a", &[(10, Off)], true);
    heard(&mut history, "b", &[(10, On)], true);
    heard(&mut history, "bmc", &[(22, On), (30, Unknown)], true);
    let both = ["a", "b"];
    assert_eq!(against(&history, &both, 2, Require::All), None);
    heard(&mut history, "b", &[(20, Off)], true);
    assert_eq!(against(&history, &both, 2, Require::All), None);
    heard(&mut history, "bmc", &[(24, On), (30, Unknown)], true);
    assert_eq!(
        against(&history, &both, 2, Require::All),
        Some(("bmc".to_owned(), "On".to_owned()))
    );
}

/// S22: once it has contradicted an off only its own Off settles that, also for a process that knows of it by the record.
#[test]
fn what_has_contradicted_has_to_say_off_itself() {
    let mut history = PowerHistory::default();
    heard(&mut history, "bmc", &[(14, On)], true);
    heard(&mut history, "out", &[(10, Off)], true);
    history.record_contradiction(&["out"], 1, Require::All);
    heard(&mut history, "out", &[(50, Off)], true);
    assert!(against(&history, &["out"], 1, Require::All).is_some());
    assert!(history.contradicting().eq(["bmc"]));
    // Once more, before the off.
    heard(&mut history, "bmc", &[(16, On)], true);
    assert!(against(&history, &["out"], 1, Require::All).is_some());
    heard(&mut history, "bmc", &[(60, Off)], true);
    assert!(against(&history, &["out"], 1, Require::All).is_none());
    assert_eq!(history.contradicting().count(), 0);

    let mut later = PowerHistory::default();
    later.recall("bmc");
    heard(&mut later, "out", &[(50, Off)], true);
    assert!(against(&later, &["out"], 1, Require::All).is_some());
    // What this process has heard itself is newer than the record.
    let mut heard_off = PowerHistory::default();
    heard(&mut heard_off, "bmc", &[(60, Off)], true);
    heard_off.recall("bmc");
    assert_eq!(heard_off.contradicting().count(), 0);
}

/// S5: what another machine says is no word of this one.
#[test]
fn another_machine_neither_speaks_against_nor_takes_back() {
    let another = |state: PowerState, second: u64| {
        let mut readings = off_readings().remove(0);
        readings.readings.truncate(1);
        let reading = &mut readings.readings[0];
        reading.identity.system_uuid = Some("99999999-2222-4333-8444-555555555555".to_owned());
        (reading.state, reading.asked) = (state, Duration::from_secs(second));
        readings
    };
    let mut history = PowerHistory::default();
    heard(&mut history, "out", &[(10, Off)], true);
    history.note(&another(On, 20), true);
    assert!(against(&history, &["out"], 1, Require::All).is_none());
    heard(&mut history, "bmc", &[(21, On)], true);
    history.note(&another(Off, 22), true);
    assert!(against(&history, &["out"], 1, Require::All).is_some());
}

/// S4, S5: an Off that no proof would take is no word either.
#[test]
fn an_off_that_proves_nothing_takes_nothing_back() {
    let off = |change: fn(&mut Reading)| {
        let mut readings = off_readings().remove(0);
        readings.readings.truncate(1);
        change(&mut readings.readings[0]);
        let mut history = PowerHistory::default();
        heard(&mut history, "out", &[(1, Off)], true);
        heard(&mut history, "bmc", &[(9, On)], true);
        history.note(&readings, true);
        against(&history, &["out"], 1, Require::All).is_none()
    };
    assert!(off(|_| {}));
    assert!(!off(|reading| reading.faults.push("interlock".to_owned())));
    assert!(!off(|reading| reading.identity.system_uuid = None));
}

/// L1: an outlet has power whatever the machine does that hangs on it.
#[test]
fn an_outlet_that_is_on_speaks_against_nothing() {
    let mut history = PowerHistory::default();
    heard(&mut history, "bmc", &[(10, Off)], true);
    heard(&mut history, "outlet", &[(20, On)], true);
    assert_eq!(against(&history, &["bmc"], 1, Require::All), None);
    assert_eq!(against(&history, &["bmc"], 2, Require::Any), None);
    assert!(history.knows("outlet") && !history.knows("another"));
}

/// S2: of a level that needs all of its devices nothing is said before all of them are off.
#[test]
fn what_is_silent_is_not_off() {
    let mut history = PowerHistory::default();
    heard(&mut history, "a", &[(10, Off)], true);
    heard(&mut history, "bmc", &[(20, On)], true);
    assert_eq!(against(&history, &["a"], 2, Require::All), None);
    assert!(against(&history, &["a"], 2, Require::Any).is_some());
}

/// S4: an outlet takes an off that changes nothing. It was turned off by us if it was seen to have power before.
#[test]
fn an_outlet_s_off_is_our_doing_if_it_had_power_before() {
    for (before, is_ours) in [(Some(On), true), (None, false), (Some(Unknown), false)] {
        let mut history = PowerHistory::default();
        heard(&mut history, "bmc", &[(1, On)], false);
        if let Some(state) = before {
            heard(&mut history, "outlet", &[(1, state)], false);
        }
        heard(&mut history, "bmc", &[(9, On), (20, Unknown)], true);
        heard(&mut history, "outlet", &[(10, Off)], true);
        let against = against(&history, &["outlet"], 1, Require::All);
        assert_eq!(against.is_none(), is_ours, "{before:?}");
    }
}

/// S22: each of two that contradict an off may hang from then on, and the Off of one of them is no word of the other.
#[test]
fn of_two_that_contradict_both_are_remembered() {
    let mut history = PowerHistory::default();
    heard(&mut history, "out", &[(10, Off)], true);
    heard(&mut history, "early", &[(12, On)], true);
    for bmc in ["bmc-1", "bmc-2"] {
        heard(&mut history, bmc, &[(14, On)], true);
    }
    history.record_contradiction(&["out"], 1, Require::All);
    assert!(history.contradicting().eq(["bmc-1", "bmc-2"]));
    heard(&mut history, "bmc-1", &[(15, Off)], true);
    heard(&mut history, "out", &[(16, On), (30, Off)], true);
    let found = against(&history, &["out"], 1, Require::All);
    assert_eq!(found, Some(("bmc-2".to_owned(), "On".to_owned())));
    // Of a level that needs both of its devices one that reads off contradicts nobody.
    let mut history = PowerHistory::default();
    heard(&mut history, "out", &[(10, Off)], true);
    heard(&mut history, "bmc", &[(14, On)], true);
    history.record_contradiction(&["out"], 2, Require::All);
    assert_eq!(history.contradicting().count(), 0);
}

/// S22: a FenceDevice that somebody has pointed at outlets since takes nothing back by being on.
#[test]
fn one_that_has_contradicted_and_reads_outlets_now_has_to_say_off_too() {
    let mut history = PowerHistory::default();
    history.recall("outlet");
    heard(&mut history, "bmc", &[(10, Off)], true);
    heard(&mut history, "outlet", &[(20, On)], true);
    assert!(history.contradicting().eq(["outlet"]));
    heard(&mut history, "outlet", &[(21, Off), (22, On)], true);
    assert_eq!(history.contradicting().count(), 0);
}

/// S4: of two answers that come in the wrong order the one to the later question counts.
#[test]
fn an_answer_that_was_overtaken_says_nothing() {
    for (first, late, is_against) in [
        ((50, On), (20, Off), true),
        ((20, Off), (10, On), false),
        ((20, Off), (50, On), true),
    ] {
        let mut history = PowerHistory::default();
        heard(&mut history, "out", &[(15, Off)], true);
        heard(&mut history, "bmc", &[first], true);
        heard(&mut history, "bmc", &[late], true);
        let found = against(&history, &["out"], 1, Require::All);
        assert_eq!(found.is_some(), is_against, "{first:?} {late:?}");
    }
}

/// A late answer to an earlier question takes nothing back; whether it is earlier is told by its question, and for an Off by its answer as well.
#[test]
fn an_answer_to_an_earlier_question_is_older() {
    let seconds = Duration::from_secs;
    let reading = |asked: u64, answered: u64| Reading {
        asked: seconds(asked),
        answered: seconds(answered),
        ..off_readings()[0].readings[0].clone()
    };
    let off = LastReading::Off {
        since: seconds(10),
        commanded: true,
    };
    for (asked, answered, is_older) in [
        (8, 9, true),
        (9, 10, false),
        (9, 11, false),
        (10, 11, false),
    ] {
        let reading = reading(asked, answered);
        assert_eq!(off.is_newer_than(&reading), is_older, "{asked}, {answered}");
    }
    let on = LastReading::On {
        asked: seconds(10),
        raw: "On".to_owned(),
        contradicts: false,
    };
    for (asked, is_older) in [(9, true), (10, false), (11, false)] {
        assert_eq!(on.is_newer_than(&reading(asked, 12)), is_older, "{asked}");
    }
    assert!(!LastReading::Fed.is_newer_than(&reading(0, 0)));
}

/// Who said On in the very last moment in which it may have been before the off is not accused of it.
#[test]
fn an_on_of_the_moment_of_the_off_contradicts_nobody() {
    let since = Duration::from_secs(10);
    let accused = |asked: Duration| {
        let off = LastReading::Off {
            since,
            commanded: true,
        };
        let on = LastReading::On {
            asked,
            raw: "On".to_owned(),
            contradicts: false,
        };
        let mut history = PowerHistory {
            last: [("bmc".to_owned(), off), ("out".to_owned(), on)].into(),
            was_on: BTreeMap::new(),
        };
        history.record_contradiction(&["bmc"], 1, Require::All);
        history.last["out"].contradicts()
    };
    assert!(!accused(since + TOGETHER_MAX));
    assert!(accused(since + TOGETHER_MAX + Duration::from_nanos(1)));
}
