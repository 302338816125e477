//! A window is open when somebody says so who sits before the zone's wall clock and watches it minute by minute.

use super::*;
use crate::fixtures::cases;
use jiff::civil::DateTime;
use proptest::prelude::*;
use serde_json::json;
use std::collections::BTreeMap;

const ZONES_SEEN: [&str; 8] = [
    "Etc/UTC",
    "Europe/Berlin",
    "Europe/Dublin",
    "America/New_York",
    "America/St_Johns",
    "Australia/Lord_Howe",
    "Asia/Kathmandu",
    "Africa/Casablanca",
];
const DAYS: [Weekday; 7] = [
    Weekday::Mon,
    Weekday::Tue,
    Weekday::Wed,
    Weekday::Thu,
    Weekday::Fri,
    Weekday::Sat,
    Weekday::Sun,
];

fn any_window() -> impl Strategy<Value = Window> {
    let zone = prop::sample::select(ZONES_SEEN.to_vec());
    let days = prop::sample::subsequence(DAYS.to_vec(), 1..=7);
    // Half of them in the small hours, where clocks are changed.
    let time = || prop_oneof![0..24 * 60_u32, 0..5 * 60_u32, Just(23 * 60 + 59)];
    let mode = prop::option::of(prop::sample::select(vec![
        FenceMode::Observe,
        FenceMode::ConfirmOnly,
        FenceMode::PowerOff,
    ]));
    let text = |minute: u32| format!("{:02}:{:02}", minute / 60, minute % 60);
    (zone, days, time(), time(), mode).prop_map(move |(zone, days, start, end, mode)| Window {
        name: "w".to_owned(),
        days,
        start: text(start),
        end: text(end),
        time_zone: zone.to_owned(),
        approval_mode: mode.is_none().then_some(ApprovalMode::Manual),
        mode,
    })
}

/// A minute of 2024 to 2030; of the later ones mostly one of a night in which clocks are changed somewhere.
fn any_minute() -> impl Strategy<Value = Timestamp> {
    let minutes = prop_oneof![
        0..6 * 365 * 24 * 60_i64,
        prop::sample::select(vec![
            "2026-03-08T07:00:00Z",
            "2026-03-29T01:00:00Z",
            "2026-04-04T15:00:00Z",
            "2026-10-03T15:30:00Z",
            "2026-10-25T01:00:00Z",
            "2026-11-01T06:00:00Z",
        ])
        .prop_flat_map(|night| {
            let night: Timestamp = night.parse().expect("a time");
            let begin = night.as_second() / 60 - BEGIN_MINUTES;
            begin - 24 * 60..begin + 24 * 60
        }),
    ];
    minutes
        .prop_map(|minute| Timestamp::from_second((BEGIN_MINUTES + minute) * 60).expect("a second"))
}

/// 2024-01-01.
const BEGIN_MINUTES: i64 = 28_401_120;

/// When the wall clock shows each minute first, from three days before `around` to three days after. Where it jumps ahead, somebody who
/// did not notice reads the minutes that it skips from a watch.
fn first_shown(zone: &TimeZone, around: Timestamp) -> BTreeMap<DateTime, Timestamp> {
    let mut first = BTreeMap::new();
    let mut watch: Option<DateTime> = None;
    for minute in -3 * 24 * 60..3 * 24 * 60_i64 {
        let now = around + minute.minutes();
        let shown = zone.to_datetime(now);
        let mut skipped = watch.map_or(shown, |watch| watch + 1.minute());
        let mut later = now;
        while skipped < shown {
            first.entry(skipped).or_insert(later);
            skipped += 1.minute();
            later += 1.minute();
        }
        first.entry(shown).or_insert(now);
        watch = Some(shown);
    }
    first
}

/// The minutes from a day before `around` to a day after in which the window is open.
fn watched(window: &Window, around: Timestamp) -> Vec<bool> {
    let zone = ZONES.get(&window.time_zone).expect("a zone");
    let first = first_shown(&zone, around);
    let at = |date: Date, time: &str| {
        let (hour, minute) = time.split_once(':').expect("a time");
        let number = |text: &str| text.parse().expect("a number");
        first
            .get(&date.at(number(hour), number(minute), 0, 0))
            .copied()
    };
    let today = zone.to_datetime(around).date();
    let mut open = Vec::new();
    for ahead in -2..=2 {
        let date = later(today, ahead).expect("a date");
        if !window.days.iter().any(|it| day(*it) == date.weekday()) {
            continue;
        }
        let tomorrow = date.tomorrow().expect("a date");
        let start = at(date, &window.start);
        let end = match window.end.as_str() {
            end if end < window.start.as_str() => at(tomorrow, end),
            "23:59" => at(tomorrow, "00:00"),
            end => at(date, end),
        };
        open.extend(start.zip(end));
    }
    let minutes = (-24 * 60..24 * 60_i64).map(|minute| around + minute.minutes());
    minutes
        .map(|now| open.iter().any(|(start, end)| (start..end).contains(&&now)))
        .collect()
}

fn policy(windows: Vec<Window>) -> NodeFencingPolicy {
    let spec = json!({"nodeSelector": {}, "fence": {"mode": "ConfirmOnly"}, "windows": windows});
    NodeFencingPolicy::new("prod", serde_json::from_value(spec).expect("a spec"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..cases() })]

    #[test]
    fn whoever_watches_the_clock_agrees_minute_by_minute(window in any_window(), around in any_minute()) {
        let openings = Hours::of("prod", &window).expect("a window").openings(around);
        let seen = watched(&window, around);
        for (minute, is_open) in (-24 * 60..24 * 60_i64).zip(seen) {
            let now = around + minute.minutes();
            prop_assert_eq!(openings.iter().any(|it| it.contains(&now)), is_open, "{}", now);
        }
    }

    /// Who asks at any moment until it changes gets the same answer, so that all give the record of an outage the same name.
    #[test]
    fn what_holds_does_so_from_its_beginning_to_its_end(
        windows in prop::collection::vec(any_window(), 1..4),
        now in any_minute(),
        part in 0..1000_i64,
    ) {
        let policy = policy(windows);
        let ask = |at: Timestamp| effective(&policy, at).expect("windows that can be used");
        let says = ask(now);
        let settings = |it: &Effective| (it.mode, it.approval, it.since, it.until);
        let beyond = now + REACH;
        let (since, until) = (says.since.unwrap_or(now), says.until.unwrap_or(beyond));
        prop_assert!(since <= now && now < until);
        let length = until.as_second() - since.as_second();
        let between = ask(since + (length * part / 1000).seconds());
        prop_assert_eq!((between.mode, between.approval), (says.mode, says.approval));
        if let Some(since) = says.since {
            let before = ask(since - 1.second());
            prop_assert_ne!((before.mode, before.approval), (says.mode, says.approval));
            prop_assert_eq!(before.until, Some(since));
        }
        if let Some(until) = says.until {
            let after = ask(until);
            prop_assert_ne!((after.mode, after.approval), (says.mode, says.approval));
            prop_assert_eq!(after.since, Some(until));
        }
        // Where it is not too long, both ends are in reach of whoever asks in between.
        let is_short = SignedDuration::from_secs(length) <= REACH;
        if is_short && says.since.is_some() && says.until.is_some() {
            prop_assert_eq!(settings(&between), settings(&says));
        }
    }
}

proptest! {
    #![proptest_config(cases())]

    /// The schema keeps most of this away.
    #[test]
    fn no_text_is_too_odd(start in ".{0,6}", end in "[0-9:+]{0,6}", zone in "[A-Za-z/_+-]{0,12}", second in any::<i64>()) {
        let window = Window {
            name: "w".to_owned(),
            days: DAYS.to_vec(),
            start,
            end,
            time_zone: zone,
            approval_mode: None,
            mode: Some(FenceMode::Observe),
        };
        let policy = policy(vec![window]);
        for second in [second, second / 36_000_000, Timestamp::MIN.as_second(), Timestamp::MAX.as_second()] {
            let now = Timestamp::from_second(second).unwrap_or(Timestamp::MAX);
            let _ = effective(&policy, now).map(|it| it.message());
        }
    }
}
