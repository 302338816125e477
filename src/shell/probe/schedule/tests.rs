use super::*;

const PERIOD: Duration = Duration::from_secs(300);

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn pair(node: &str) -> Pair {
    Pair {
        device: "bmc".to_owned(),
        node: node.to_owned(),
    }
}

fn wanted(node: &str) -> Wanted {
    Wanted {
        pair: pair(node),
        epoch: 1,
        node_ready: true,
        suspected: false,
        boot_id: "boot-1".to_owned(),
        fenced: false,
        period: PERIOD,
        known_well: false,
        requested: None,
        fleet: false,
    }
}

/// A schedule with one pair, and its first probe begun.
fn begun(first: Wanted) -> (Schedule, u64) {
    let mut schedule = Schedule::default();
    assert_eq!(schedule.want(vec![first], at(0)), Changes::default());
    let (_, number) = schedule.take_due(at(0)).expect("due at once");
    (schedule, number)
}

#[test]
fn a_new_pair_is_due_at_once_and_then_every_period_with_jitter() {
    let (mut schedule, number) = begun(wanted("w1"));
    assert_eq!(schedule.take_due(at(9999)), None, "it runs");
    schedule.ended(&pair("w1"), number, Ended::Well, at(10));
    let due = schedule.next_due().expect("queued");
    assert!((at(280)..=at(340)).contains(&due), "{due:?}");
    assert_eq!(schedule.take_due(due - at(1)), None);
    assert_eq!(
        schedule.take_due(due).map(|(pair, _)| pair),
        Some(pair("w1"))
    );
}

#[test]
fn pairs_known_well_are_spread_over_a_period() {
    let mut schedule = Schedule::default();
    let all = (0..100).map(|index| Wanted {
        known_well: true,
        ..wanted(&format!("w{index}"))
    });
    schedule.want(all.collect(), at(0));
    let mut due_by = |second| {
        let taken = std::iter::from_fn(|| schedule.take_due(at(second)));
        taken.count()
    };
    let first_third = due_by(100);
    assert!((20..50).contains(&first_third), "{first_third}");
    assert_eq!(first_third + due_by(300), 100);
}

#[test]
fn failures_are_looked_at_sooner_but_ever_less_often() {
    let (mut schedule, mut number) = begun(wanted("w1"));
    let mut now = at(0);
    for expected in [30, 60, 120, 240, 300, 300] {
        schedule.ended(&pair("w1"), number, Ended::Failed, now);
        let due = schedule.next_due().expect("queued");
        let pause = (due - now).as_secs_f64();
        assert!(
            (f64::from(expected) - pause).abs() <= f64::from(expected) * 0.11,
            "{pause}"
        );
        now = due;
        (_, number) = schedule.take_due(now).expect("due");
    }
}

#[test]
fn a_node_that_turns_ready_is_probed_at_once() {
    let silent = Wanted {
        node_ready: false,
        ..wanted("w1")
    };
    let (mut schedule, number) = begun(silent.clone());
    schedule.ended(&pair("w1"), number, Ended::Well, at(1));
    schedule.want(vec![silent], at(5));
    assert_eq!(schedule.take_due(at(5)), None);
    schedule.want(vec![wanted("w1")], at(6));
    assert!(schedule.take_due(at(6)).is_some());
}

#[test]
fn an_incident_stops_the_probe_and_its_end_begins_another() {
    let (mut schedule, number) = begun(wanted("w1"));
    let fenced = Wanted {
        fenced: true,
        ..wanted("w1")
    };
    let changes = schedule.want(vec![fenced.clone()], at(1));
    assert_eq!(changes.fenced, [pair("w1")]);
    assert_eq!(changes.stop, [pair("w1")]);
    schedule.ended(&pair("w1"), number, Ended::Void, at(1));
    assert_eq!(schedule.take_due(at(9999)), None);
    assert_eq!(schedule.want(vec![fenced], at(10_000)), Changes::default());
    schedule.want(vec![wanted("w1")], at(10_001));
    assert!(schedule.take_due(at(10_001)).is_some());
}

#[test]
fn other_settings_or_another_node_void_what_runs() {
    let (mut schedule, old) = begun(wanted("w1"));
    let again = Wanted {
        epoch: 2,
        ..wanted("w1")
    };
    assert_eq!(schedule.want(vec![again], at(1)).reset, [pair("w1")]);
    let (_, new) = schedule.take_due(at(1)).expect("due at once");
    schedule.ended(&pair("w1"), old, Ended::Well, at(2));
    assert_eq!(schedule.next_due(), None, "the new probe still runs");
    schedule.ended(&pair("w1"), new, Ended::Well, at(3));
    assert!(schedule.next_due().is_some());
}

#[test]
fn a_pair_that_is_gone_is_forgotten() {
    let (mut schedule, number) = begun(wanted("w1"));
    assert_eq!(schedule.want(vec![wanted("w2")], at(1)).reset, [pair("w1")]);
    schedule.ended(&pair("w1"), number, Ended::Well, at(2));
    assert_eq!(
        schedule.take_due(at(9999)).map(|(pair, _)| pair),
        Some(pair("w2"))
    );
    assert_eq!(schedule.take_due(at(9999)), None);
    let left: Vec<_> = schedule
        .nodes_of("bmc")
        .map(|(pair, _)| pair.clone())
        .collect();
    assert_eq!(left, [pair("w2")]);
}

#[test]
fn a_shorter_period_counts_at_once_and_a_busy_device_soon() {
    let (mut schedule, number) = begun(wanted("w1"));
    schedule.ended(&pair("w1"), number, Ended::Busy, at(0));
    let due = schedule.next_due().expect("queued");
    assert!(due < at(4), "{due:?}");
    let (_, number) = schedule.take_due(due).expect("due");
    schedule.ended(&pair("w1"), number, Ended::Well, at(4));
    let shorter = Wanted {
        period: at(30),
        ..wanted("w1")
    };
    schedule.want(vec![shorter], at(5));
    assert!(schedule.take_due(at(5)).is_some());
}

fn request(second: i64) -> Option<Timestamp> {
    Timestamp::from_second(second).ok()
}

#[test]
fn a_request_is_answered_once_and_not_sooner_than_a_bmc_can_stand() {
    let asked = |second| Wanted {
        requested: request(second),
        ..wanted("w1")
    };
    let (mut schedule, number) = begun(wanted("w1"));
    schedule.ended(&pair("w1"), number, Ended::Well, at(1));
    schedule.want(vec![asked(7)], at(60));
    let (_, number) = schedule.take_due(at(60)).expect("at once");
    schedule.ended(&pair("w1"), number, Ended::Well, at(61));
    // The same time again, or none: the annotation stays where it is.
    for again in [asked(7), wanted("w1"), asked(7)] {
        schedule.want(vec![again], at(62));
        assert_eq!(schedule.take_due(at(62 + 200)), None);
    }
    // Another one, right after a probe: that one is let rest.
    schedule.want(vec![asked(8)], at(62));
    assert_eq!(schedule.next_due(), Some(at(71)));
    // A restart finds a request that nobody has answered, though the device was well.
    let mut schedule = Schedule::default();
    let found = Wanted {
        known_well: true,
        ..asked(9)
    };
    schedule.want(vec![found], at(0));
    assert!(schedule.take_due(at(0)).is_some());
}

#[test]
fn a_request_during_a_probe_is_answered_after_it() {
    let asked = Wanted {
        requested: request(7),
        ..wanted("w1")
    };
    for how in [Ended::Well, Ended::Failed] {
        let (mut schedule, number) = begun(wanted("w1"));
        schedule.want(vec![asked.clone()], at(1));
        schedule.ended(&pair("w1"), number, how, at(3));
        assert_eq!(schedule.next_due(), Some(at(13)));
        let (_, number) = schedule.take_due(at(13)).expect("due");
        schedule.want(vec![asked.clone()], at(14));
        schedule.ended(&pair("w1"), number, Ended::Well, at(15));
        let due = schedule.next_due().expect("queued");
        assert!(due > at(200), "it is answered once: {due:?}");
    }
}

#[test]
fn a_request_for_a_fleet_is_spread_and_a_node_that_is_fenced_is_left_alone() {
    let fleet = |second, fenced| {
        let node = |index| Wanted {
            requested: request(second),
            fleet: true,
            fenced,
            ..wanted(&format!("w{index}"))
        };
        (0..100).map(node).collect::<Vec<_>>()
    };
    let mut schedule = Schedule::default();
    schedule.want(fleet(0, false), at(0));
    while let Some((pair, number)) = schedule.take_due(at(0)) {
        schedule.ended(&pair, number, Ended::Well, at(0));
    }
    schedule.want(fleet(50, false), at(50));
    let mut due_by = |second| std::iter::from_fn(|| schedule.take_due(at(second))).count();
    let (at_once, half, all) = (due_by(51), due_by(65), due_by(80));
    assert!(at_once < 20 && half > 20, "{at_once} {half} {all}");
    assert_eq!(at_once + half + all, 100);

    let mut schedule = Schedule::default();
    schedule.want(fleet(50, true), at(50));
    assert_eq!(schedule.take_due(at(200)), None);
}

/// A thousand first looks take their memory one after the other (`make bench-devices`).
#[test]
fn no_two_probes_are_begun_at_the_same_time() {
    let mut pace = Pace::default();
    assert_eq!(pace.next(), at(0));
    pace.begun(at(5));
    assert!(pace.next() > at(5) && pace.next() < at(6));
}

/// A machine whose Node has fallen silent may have lost its power: it is looked at now, and ever less often after that.
#[test]
fn a_silent_node_s_machine_is_looked_at_at_once_and_then_ever_less_often() {
    let (mut schedule, number) = begun(wanted("w1"));
    schedule.ended(&pair("w1"), number, Ended::Well, at(0));
    let silent = Wanted {
        node_ready: false,
        ..wanted("w1")
    };
    let mut now = at(100);
    schedule.want(vec![silent.clone()], now);
    for expected in [10, 20, 40, 80, 160, 300, 300] {
        let (_, number) = schedule.take_due(now).expect("due");
        // Another look at the caches is no other silence.
        schedule.want(vec![silent.clone()], now);
        schedule.ended(&pair("w1"), number, Ended::Well, now);
        let due = schedule.next_due().expect("queued");
        let pause = (due - now).as_secs_f64();
        let bound = f64::from(expected) * 0.11;
        assert!((f64::from(expected) - pause).abs() <= bound, "{pause}");
        now = due;
    }
    // Another silence begins anew, and so does another process.
    schedule.want(vec![wanted("w1")], now);
    schedule.want(vec![silent.clone()], now);
    assert!(schedule.take_due(now).is_some());
    let known = Wanted {
        known_well: true,
        ..silent
    };
    assert!(begun(known).0.next_due().is_none());
}

/// L1: what is under way when the Node falls silent may have looked before, and what has just ended did; a Node that flaps costs a look each 2 s.
#[test]
fn a_node_that_falls_silent_is_looked_at_at_once_whatever_was_looked_at_before() {
    let silent = || {
        let silent = Wanted {
            node_ready: false,
            ..wanted("w1")
        };
        vec![silent]
    };
    let (mut schedule, number) = begun(wanted("w1"));
    schedule.want(silent(), at(1));
    schedule.ended(&pair("w1"), number, Ended::Doubted, at(2));
    let (_, number) = schedule.take_due(at(2)).expect("it fell silent meanwhile");
    schedule.ended(&pair("w1"), number, Ended::Well, at(3));

    let (mut schedule, number) = begun(wanted("w1"));
    schedule.ended(&pair("w1"), number, Ended::Doubted, at(1));
    schedule.want(silent(), at(2));
    let (_, number) = schedule.take_due(at(2)).expect("it fell silent after it");
    schedule.ended(&pair("w1"), number, Ended::Well, at(2));
    schedule.want(vec![wanted("w1")], at(3));
    schedule.want(silent(), at(3));
    assert_eq!(schedule.take_due(at(3)), None, "it flaps");
    assert!(schedule.take_due(at(4)).is_some());
}

/// S24: the second Off is read right after the first, and one that stays is not asked about ever faster.
#[test]
fn of_a_suspect_an_off_is_read_twice_at_once() {
    let mut schedule = Schedule::default();
    let seconds = at;
    schedule.want(vec![wanted("a")], seconds(0));
    let (pair, number) = schedule.take_due(seconds(0)).expect("it is new");
    schedule.ended(&pair, number, Ended::Well, seconds(1));
    assert!(schedule.take_due(seconds(10)).is_none());
    let suspected = Wanted {
        suspected: true,
        ..wanted("a")
    };
    schedule.want(vec![suspected], seconds(10));
    let mut now = seconds(10);
    let mut pauses = Vec::new();
    for _ in 0..4 {
        let (pair, number) = schedule.take_due(now).expect("it is due");
        schedule.ended(&pair, number, Ended::Doubted, now);
        let next = schedule.next_due().expect("it is asked again");
        pauses.push((next - now).as_millis());
        now = next;
    }
    let within =
        |pause: u128, expected: u128| (expected * 9 / 10..=expected * 11 / 10).contains(&pause);
    let expected = [600, 1_200, 2_400, 4_800];
    assert!(
        pauses
            .iter()
            .zip(expected)
            .all(|(pause, it)| within(*pause, it)),
        "{pauses:?}"
    );
}

/// A thousand BMCs that are due each half minute keep nobody from asking that of a machine that may be off.
#[test]
fn what_is_due_of_silent_nodes_goes_first() {
    let mut schedule = Schedule::default();
    let silent = Wanted {
        node_ready: false,
        ..wanted("w3")
    };
    let all = |third: Wanted| vec![wanted("w1"), wanted("w2"), third, wanted("w4")];
    schedule.want(all(wanted("w3")), at(0));
    let taken = |schedule: &mut Schedule, now: u64| {
        let (pair, number) = schedule.take_due(at(now))?;
        schedule.ended(&pair, number, Ended::Well, at(now));
        Some(pair.node)
    };
    assert_eq!(taken(&mut schedule, 1).as_deref(), Some("w1"));
    schedule.want(all(silent), at(2));
    assert_eq!(taken(&mut schedule, 2).as_deref(), Some("w3"));
    assert_eq!(taken(&mut schedule, 2).as_deref(), Some("w2"));
    assert_eq!(taken(&mut schedule, 2).as_deref(), Some("w4"));
    assert_eq!(taken(&mut schedule, 2), None);
    // It is looked at again as such, and one that is back is one of all.
    assert_eq!(taken(&mut schedule, 20).as_deref(), Some("w3"));
    schedule.want(all(wanted("w3")), at(21));
    assert_eq!(taken(&mut schedule, 22).as_deref(), Some("w3"));
    assert_eq!(taken(&mut schedule, 22), None);
}
