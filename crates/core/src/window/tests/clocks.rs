//! Windows in the nights in which clocks are changed, over midnight and over the week.

use super::*;

/// Zone, day, hours by its wall clock, and when it opens and closes.
const OPENINGS: &str = "
    # A winter's Sunday, and one of summer.
    Europe/Berlin Sun 01:30-03:30 2026-01-04T00:30:00Z 2026-01-04T02:30:00Z
    Europe/Berlin Sun 01:30-03:30 2026-07-04T23:30:00Z 2026-07-05T01:30:00Z
    # 2026-03-29, 02:00 CET is 03:00 CEST. An hour is missing in between.
    Europe/Berlin Sun 01:30-03:30 2026-03-29T00:30:00Z 2026-03-29T01:30:00Z
    # 02:30 is skipped: it is 03:30 then.
    Europe/Berlin Sun 02:30-04:00 2026-03-29T01:30:00Z 2026-03-29T02:00:00Z
    Europe/Berlin Sun 01:00-02:30 2026-03-29T00:00:00Z 2026-03-29T01:30:00Z
    Europe/Berlin Sun 02:00-02:30 2026-03-29T01:00:00Z 2026-03-29T01:30:00Z
    # From the day before.
    Europe/Berlin Sat 22:00-02:30 2026-03-28T21:00:00Z 2026-03-29T01:30:00Z
    Europe/Berlin Sat 22:00-06:00 2026-03-28T21:00:00Z 2026-03-29T04:00:00Z
    # 2026-10-25, 03:00 CEST is 02:00 CET. 02:30 comes twice, and is the first of the two.
    Europe/Berlin Sun 01:30-02:30 2026-10-24T23:30:00Z 2026-10-25T00:30:00Z
    Europe/Berlin Sun 02:30-03:00 2026-10-25T00:30:00Z 2026-10-25T02:00:00Z
    # And not a second time.
    Europe/Berlin Sun 02:15-02:45 2026-10-25T00:15:00Z 2026-10-25T00:45:00Z
    Europe/Berlin Sat 22:00-06:00 2026-10-24T20:00:00Z 2026-10-25T05:00:00Z
    # 2026-03-08, 02:00 EST is 03:00 EDT, and back on 2026-11-01.
    America/New_York Sun 01:30-03:30 2026-03-08T06:30:00Z 2026-03-08T07:30:00Z
    America/New_York Sun 01:30-02:30 2026-11-01T05:30:00Z 2026-11-01T07:30:00Z
    America/New_York Sun 01:15-01:45 2026-11-01T05:15:00Z 2026-11-01T05:45:00Z
    # Half an hour: 2026-10-04, 02:00 is 02:30, and back on 2026-04-05.
    Australia/Lord_Howe Sun 01:30-03:00 2026-10-03T15:00:00Z 2026-10-03T16:00:00Z
    Australia/Lord_Howe Sun 02:15-03:00 2026-10-03T15:45:00Z 2026-10-03T16:00:00Z
    Australia/Lord_Howe Sun 01:30-02:00 2026-04-04T14:30:00Z 2026-04-04T15:30:00Z
    # No clock is changed there.
    Etc/UTC Sun 01:30-03:30 2026-03-29T01:30:00Z 2026-03-29T03:30:00Z
    # From one week to the next.
    Etc/UTC Sun 22:00-06:00 2026-01-04T22:00:00Z 2026-01-05T06:00:00Z
    # The whole day, without a gap at its end.
    Etc/UTC Sat 00:00-23:59 2026-01-03T00:00:00Z 2026-01-04T00:00:00Z
    Etc/UTC Sat 12:00-23:58 2026-01-03T12:00:00Z 2026-01-03T23:58:00Z
";

fn of_day(day: &str, hours: &str, zone: &str) -> NodeFencingPolicy {
    policy("PowerOff", &[window("w", &[day], hours, zone, observe())])
}

fn is_open(policy: &NodeFencingPolicy, at: Timestamp) -> bool {
    let says = effective(policy, at).expect("a window that can be used");
    says.window.is_some()
}

/// The rule of the module for the nights in which clocks are changed, in both directions.
#[test]
fn a_window_opens_and_closes_by_the_wall_clock_of_its_zone() {
    let rows = OPENINGS.lines().map(str::trim);
    let rows: Vec<&str> = rows
        .filter(|row| !row.is_empty() && !row.starts_with('#'))
        .collect();
    assert_eq!(rows.len(), 22);
    for row in rows {
        let message: Vec<&str> = row.split(' ').collect();
        let [zone, day, hours, opens, closes] = message.as_slice() else {
            panic!("{row}");
        };
        let policy = of_day(day, hours, zone);
        let (opens, closes) = (time(opens), time(closes));
        let second = 1.second();
        assert!(!is_open(&policy, opens - second), "{row}: before");
        assert!(is_open(&policy, opens), "{row}: when it opens");
        assert!(is_open(&policy, closes - second), "{row}: before its end");
        assert!(!is_open(&policy, closes), "{row}: when it closes");
        let says = effective(&policy, opens).expect("usable");
        assert_eq!(
            (says.since, says.until),
            (Some(opens), Some(closes)),
            "{row}"
        );
    }
}

/// Its end would not be after its start. It opens a week before and a week after.
#[test]
fn a_window_that_the_change_of_clocks_turns_round_does_not_open_that_day() {
    for (zone, hours, day) in [
        ("Europe/Berlin", "02:30-03:00", "2026-03-29T00:00:00Z"),
        ("America/New_York", "02:30-03:00", "2026-03-08T00:00:00Z"),
        ("Australia/Lord_Howe", "02:15-02:30", "2026-10-03T12:00:00Z"),
    ] {
        let policy = of_day("Sun", hours, zone);
        let opens = |from: Timestamp| {
            let mut minutes = 0..24 * 60;
            minutes.any(|minute| is_open(&policy, from + minute.minutes()))
        };
        let (day, week) = (time(day), (24 * 7).hours());
        assert!(opens(day - week), "{zone} {hours}");
        assert!(!opens(day), "{zone} {hours}");
        assert!(opens(day + week), "{zone} {hours}");
        // What holds meanwhile began when it closed, two weeks before the next opening.
        let says = effective(&policy, day + 72.hours()).expect("usable");
        let (since, until) = says.since.zip(says.until).expect("both");
        let length = until.duration_since(since);
        assert!(length > SignedDuration::from_hours(13 * 24), "{zone}");
    }
}
