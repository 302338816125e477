//! What follows what, in which modes, and where the numbers come from.

use super::detected::{MONITOR, RENEWAL};
use super::*;
use serde_json::{Value, json};

fn spec(extra: Value) -> NodeFencingPolicySpec {
    let mut whole = json!({"nodeSelector": {}});
    json_patch::merge(&mut whole, &extra);
    serde_json::from_value(whole).expect("a spec")
}

fn course(spec: &NodeFencingPolicySpec, mode: FenceMode) -> Course<'_> {
    Course {
        grace: known(50.0, Basis::Default, "the default"),
        policy: Some(("databases", spec)),
        mode,
        wait: Some((60.0, "Ready=Unknown".to_owned())),
        reads_off: false,
        reports_early: false,
        delay: None,
        takeover: None,
        passed_over: 0.0,
        hold: None,
        pods: 3,
        moves: true,
        off: None,
        detach: None,
        start: None,
    }
}

fn names(timeline: &Timeline) -> Vec<&str> {
    timeline.steps.iter().map(|it| it.step).collect()
}

fn step<'a>(timeline: &'a Timeline, name: &str) -> &'a Step {
    let mut steps = timeline.steps.iter();
    steps.find(|it| it.step == name).expect("the step")
}

fn near(seconds: Option<f64>, wanted: f64) -> bool {
    seconds.is_some_and(|it| (it - wanted).abs() < 1e-6)
}

#[test]
fn a_node_that_is_reported_early_waits_neither_for_kubernetes_nor_for_the_policy() {
    let spec = spec(json!({}));
    let late = Course {
        reads_off: true,
        ..course(&spec, FenceMode::ConfirmOnly)
    };
    let early = Course {
        reports_early: true,
        ..late.clone()
    };
    let (late, early) = (predict(&late).0, predict(&early).0);
    assert_eq!(names(&late)[..2], ["ReadyUnknown", "ReadOff"]);
    assert_eq!(names(&early)[..2], ["ReportedEarly", "Claim"]);
    let reported = step(&early, "ReportedEarly");
    assert!(near(reported.at_seconds, 13.0), "{reported:?}");
    assert!(near(reported.least_seconds, 3.0), "{reported:?}");
    // Whatever keeps the operator from it, Kubernetes notices then.
    assert!(near(reported.most_seconds, 50.0), "{reported:?}");
}

#[test]
fn power_off_turns_the_machine_off_before_it_is_proven_down() {
    let spec = spec(json!({}));
    let (timeline, marks) = predict(&course(&spec, FenceMode::PowerOff));
    let way = [
        "ReadyUnknown",
        "PolicyWait",
        "Claim",
        "Quiesce",
        "TurnOff",
        "Verify",
        "Taint",
        "Evict",
        "Detach",
        "Schedule",
        "Start",
    ];
    assert_eq!(names(&timeline), way);
    assert!(near(step(&timeline, "PolicyWait").at_seconds, 110.0));
    // Two readings, 3 s apart: the policy's defaults.
    assert!(near(step(&timeline, "Verify").takes_seconds, 3.0));
    let sum = 110.0 + CLAIM + QUIESCE + OFF + 3.0 + TAINT + DETACH + START;
    assert!(near(timeline.recovered_seconds, sum), "{timeline:?}");
    assert!(near(timeline.earliest_seconds, sum - RENEWAL));
    assert!(near(timeline.latest_seconds, sum + 2.0 * MONITOR));
    let marks = marks.expect("not held");
    assert!(marks.claimed < marks.evicted && marks.evicted < marks.detached);
    assert_eq!(timeline.after_hold_seconds, None);
}

#[test]
fn confirm_only_commands_nothing() {
    let spec = spec(
        json!({"fence": {"mode": "ConfirmOnly", "verification": {"consecutiveOffReads": 4, "readPeriodSeconds": 2}}}),
    );
    let (timeline, marks) = predict(&course(&spec, FenceMode::ConfirmOnly));
    assert!(!names(&timeline).contains(&"TurnOff"));
    let verify = step(&timeline, "Verify");
    assert!(near(verify.takes_seconds, 6.0));
    assert_eq!(verify.basis, Basis::Policy);
    assert!(marks.is_some());
}

/// What somebody has to decide first has no number; what comes after it counts from there.
#[test]
fn a_fence_that_is_held_has_no_end_and_says_how_long_the_rest_takes() {
    let spec = spec(json!({}));
    let held = Course {
        hold: Some("AwaitingApproval".to_owned()),
        ..course(&spec, FenceMode::PowerOff)
    };
    let (timeline, marks) = predict(&held);
    let place = names(&timeline).iter().position(|it| *it == "Held");
    assert_eq!(place, Some(2));
    assert_eq!(step(&timeline, "Held").takes_seconds, None);
    assert_eq!(step(&timeline, "Start").at_seconds, None);
    assert!(near(step(&timeline, "PolicyWait").at_seconds, 110.0));
    assert_eq!((timeline.recovered_seconds, marks), (None, None));
    let rest = CLAIM + QUIESCE + OFF + 3.0 + TAINT + DETACH + START;
    assert!(near(timeline.after_hold_seconds, rest), "{timeline:?}");
}

#[test]
fn nothing_follows_where_nobody_acts() {
    let plain = spec(json!({}));
    let hold = || Some("Observe".to_owned());
    let observes = Course {
        hold: hold(),
        ..course(&plain, FenceMode::Observe)
    };
    assert_eq!(
        names(&predict(&observes).0),
        ["ReadyUnknown", "PolicyWait", "Held"]
    );
    let without = Course {
        policy: None,
        wait: None,
        hold: hold(),
        ..course(&plain, FenceMode::Observe)
    };
    let (timeline, _) = predict(&without);
    assert_eq!(names(&timeline), ["ReadyUnknown", "Held"]);
    assert_eq!(timeline.after_hold_seconds, None);
    let ends = spec(json!({"recovery": {"strategy": "None"}}));
    let (timeline, _) = predict(&Course {
        hold: hold(),
        ..course(&ends, FenceMode::PowerOff)
    });
    assert_eq!(timeline.steps.last().map(|it| it.step), Some("Verify"));
    assert_eq!(timeline.after_hold_seconds, None);
}

#[test]
fn pod_gc_takes_up_to_its_period() {
    let spec = spec(json!({"recovery": {"podDeletion": "PodGC"}}));
    let (timeline, _) = predict(&course(&spec, FenceMode::PowerOff));
    let evict = step(&timeline, "Evict");
    assert!(near(evict.takes_seconds, GC / 2.0));
    assert!(near(evict.most_seconds, GC));
}

/// docs/how-to/recovery-time.md says 13 s for a hundred pods.
#[test]
fn a_full_node_takes_longer_to_come_to_a_standstill() {
    let spec = spec(json!({}));
    let full = Course {
        pods: 100,
        ..course(&spec, FenceMode::PowerOff)
    };
    let (timeline, _) = predict(&full);
    let quiesce = step(&timeline, "Quiesce");
    assert!(near(quiesce.takes_seconds, 13.5 + QUIESCE));
    assert_eq!(quiesce.basis, Basis::Computed);
}

#[test]
fn what_is_known_takes_the_place_of_guesses() {
    let spec = spec(json!({}));
    let of = |seconds| Some(known(seconds, Basis::Records, "past incidents"));
    let known = Course {
        off: of(20.0),
        detach: of(30.0),
        start: of(40.0),
        ..course(&spec, FenceMode::PowerOff)
    };
    let (timeline, _) = predict(&known);
    for (name, seconds) in [("TurnOff", 20.0), ("Detach", 30.0), ("Start", 40.0)] {
        let step = step(&timeline, name);
        assert_eq!(
            (step.takes_seconds, step.basis),
            (Some(seconds), Basis::Records)
        );
    }
}

#[test]
fn other_waits_count_only_beyond_what_is_waited_for_anyway() {
    let spec = spec(json!({}));
    let waits = |until: f64, takeover: Option<f64>| {
        let course = Course {
            delay: Some((until, "it joined less than 300 s ago".to_owned())),
            takeover,
            ..course(&spec, FenceMode::PowerOff)
        };
        predict(&course).0
    };
    assert!(!names(&waits(100.0, None)).contains(&"Delay"));
    assert!(near(step(&waits(200.0, None), "Delay").at_seconds, 200.0));
    assert!(near(
        step(&waits(0.0, Some(17.0)), "Takeover").takes_seconds,
        0.0
    ));
    assert!(near(
        step(&waits(0.0, Some(57.0)), "Takeover").takes_seconds,
        7.0
    ));
}

/// The benchmark of docs/figures.md: 6 s of grace, 10 s of wait, readings 1 s apart; 18.66 s and 19.06 s were measured.
#[test]
fn the_benchmark_is_predicted() {
    let spec = spec(json!({"fence": {"verification": {"readPeriodSeconds": 1}}}));
    let course = Course {
        grace: known(6.0, Basis::Flag, "--grace"),
        wait: Some((10.0, "Ready=Unknown".to_owned())),
        pods: 1,
        ..course(&spec, FenceMode::PowerOff)
    };
    let predicted = predict(&course).0.recovered_seconds.expect("not held");
    for measured in [18.66, 19.06] {
        let error = (predicted - measured).abs() / measured;
        assert!(error < 0.25, "{predicted} s for {measured} s");
    }
}

/// What is asked in vain is asked before anything is claimed.
#[test]
fn levels_that_are_not_ready_cost_their_time_before_the_claim() {
    let spec = spec(json!({}));
    let course = Course {
        passed_over: 90.0,
        ..course(&spec, FenceMode::PowerOff)
    };
    let (timeline, _) = predict(&course);
    assert!(near(step(&timeline, "EarlierLevels").least_seconds, 0.0));
    assert!(near(step(&timeline, "Claim").at_seconds, 200.0 + CLAIM));
}

/// A machine that is off is not waited for, where the policy and the device allow it.
#[test]
fn the_wait_is_skipped_where_the_machine_is_read_off() {
    let takes = |policy: &str, reads_off: bool, mode: FenceMode| {
        let spec = spec(json!({"durationPolicy": policy}));
        let course = Course {
            reads_off,
            ..course(&spec, mode)
        };
        let (timeline, _) = predict(&course);
        (timeline.steps[1].step, timeline.steps[1].most_seconds)
    };
    let waits = ("PolicyWait", Some(60.0));
    let mode = FenceMode::PowerOff;
    assert_eq!(takes("SkipIfOff", true, mode), ("ReadOff", Some(60.0)));
    assert_eq!(takes("SkipIfOff", false, mode), waits);
    assert_eq!(takes("Wait", true, mode), waits);
    assert_eq!(takes("SkipIfOff", true, FenceMode::Observe), waits);
}
