//! Windows in the nights in which clocks are changed, over midnight and over the week.

use super::*;

/// The rule of the module for the nights in which clocks are changed, in both directions; the local time of each row stands beside it.
#[test]
fn a_window_opens_and_closes_by_the_wall_clock_of_its_zone() {
    let (berlin, york) = ("Europe/Berlin", "America/New_York");
    let (howe, utc) = ("Australia/Lord_Howe", "Etc/UTC");
    let table = [
        // A winter's Sunday, and one of summer.
        (
            berlin,
            "Sun",
            "01:30-03:30",
            Some(("2026-01-04T00:30:00Z", "2026-01-04T02:30:00Z")),
        ),
        (
            berlin,
            "Sun",
            "01:30-03:30",
            Some(("2026-07-04T23:30:00Z", "2026-07-05T01:30:00Z")),
        ),
        // 2026-03-29, 02:00 CET is 03:00 CEST. An hour is missing in between.
        (
            berlin,
            "Sun",
            "01:30-03:30",
            Some(("2026-03-29T00:30:00Z", "2026-03-29T01:30:00Z")),
        ),
        // 02:30 is skipped: it is 03:30 then.
        (
            berlin,
            "Sun",
            "02:30-04:00",
            Some(("2026-03-29T01:30:00Z", "2026-03-29T02:00:00Z")),
        ),
        (
            berlin,
            "Sun",
            "01:00-02:30",
            Some(("2026-03-29T00:00:00Z", "2026-03-29T01:30:00Z")),
        ),
        (
            berlin,
            "Sun",
            "02:00-02:30",
            Some(("2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z")),
        ),
        // From the day before.
        (
            berlin,
            "Sat",
            "22:00-02:30",
            Some(("2026-03-28T21:00:00Z", "2026-03-29T01:30:00Z")),
        ),
        // It would open at 03:30, and close at 03:00.
        (berlin, "Sun", "02:30-03:00", None),
        // 2026-10-25, 03:00 CEST is 02:00 CET. 02:30 comes twice, and is the first of the two.
        (
            berlin,
            "Sun",
            "01:30-02:30",
            Some(("2026-10-24T23:30:00Z", "2026-10-25T00:30:00Z")),
        ),
        (
            berlin,
            "Sun",
            "02:30-03:00",
            Some(("2026-10-25T00:30:00Z", "2026-10-25T02:00:00Z")),
        ),
        // And not a second time.
        (
            berlin,
            "Sun",
            "02:15-02:45",
            Some(("2026-10-25T00:15:00Z", "2026-10-25T00:45:00Z")),
        ),
        (
            berlin,
            "Sat",
            "22:00-06:00",
            Some(("2026-10-24T20:00:00Z", "2026-10-25T05:00:00Z")),
        ),
        // 2026-03-08, 02:00 EST is 03:00 EDT, and back on 2026-11-01.
        (
            york,
            "Sun",
            "01:30-03:30",
            Some(("2026-03-08T06:30:00Z", "2026-03-08T07:30:00Z")),
        ),
        (york, "Sun", "02:30-03:00", None),
        (
            york,
            "Sun",
            "01:30-02:30",
            Some(("2026-11-01T05:30:00Z", "2026-11-01T07:30:00Z")),
        ),
        (
            york,
            "Sun",
            "01:15-01:45",
            Some(("2026-11-01T05:15:00Z", "2026-11-01T05:45:00Z")),
        ),
        // Half an hour: 2026-10-04, 02:00 is 02:30, and back on 2026-04-05.
        (
            howe,
            "Sun",
            "01:30-03:00",
            Some(("2026-10-03T15:00:00Z", "2026-10-03T16:00:00Z")),
        ),
        (
            howe,
            "Sun",
            "02:15-03:00",
            Some(("2026-10-03T15:45:00Z", "2026-10-03T16:00:00Z")),
        ),
        (howe, "Sun", "02:15-02:30", None),
        (
            howe,
            "Sun",
            "01:30-02:00",
            Some(("2026-04-04T14:30:00Z", "2026-04-04T15:30:00Z")),
        ),
        // No clock is changed there.
        (
            utc,
            "Sun",
            "01:30-03:30",
            Some(("2026-03-29T01:30:00Z", "2026-03-29T03:30:00Z")),
        ),
        // From one week to the next.
        (
            utc,
            "Sun",
            "22:00-06:00",
            Some(("2026-01-04T22:00:00Z", "2026-01-05T06:00:00Z")),
        ),
        // The whole day, without a gap at its end.
        (
            utc,
            "Sat",
            "00:00-23:59",
            Some(("2026-01-03T00:00:00Z", "2026-01-04T00:00:00Z")),
        ),
        (
            utc,
            "Sat",
            "12:00-23:58",
            Some(("2026-01-03T12:00:00Z", "2026-01-03T23:58:00Z")),
        ),
    ];
    for (zone, day, hours, open) in table {
        let row = format!("{zone} {day} {hours} {open:?}");
        let policy = policy("PowerOff", &[window("w", &[day], hours, zone, observe())]);
        let Some((opens, closes)) = open else {
            continue;
        };
        let (opens, closes) = (time(opens), time(closes));
        let is_open = |at| effective(&policy, at).expect("usable").window.is_some();
        assert!(!is_open(opens - 1.second()), "{row}: a second before");
        assert!(is_open(opens), "{row}: when it opens");
        assert!(
            is_open(closes - 1.second()),
            "{row}: a second before its end"
        );
        assert!(!is_open(closes), "{row}: when it closes");
        let says = effective(&policy, opens).expect("usable");
        assert_eq!(
            (says.since, says.until),
            (Some(opens), Some(closes)),
            "{row}"
        );
    }
    // Where it does not open on that day: it does a week before and after.
    for (zone, hours, day) in [
        (berlin, "02:30-03:00", "2026-03-29T00:00:00Z"),
        (york, "02:30-03:00", "2026-03-08T00:00:00Z"),
        (howe, "02:15-02:30", "2026-10-03T12:00:00Z"),
    ] {
        let policy = policy("PowerOff", &[window("w", &["Sun"], hours, zone, observe())]);
        let opens = |from: Timestamp| {
            (0..24 * 60).any(|minute| {
                let at = from + minute.minutes();
                effective(&policy, at).expect("usable").window.is_some()
            })
        };
        let day = time(day);
        let week = (24 * 7).hours();
        assert!(
            opens(day - week) && !opens(day) && opens(day + week),
            "{zone} {hours}"
        );
        // And what holds meanwhile began when it closed two weeks before the next opening.
        let says = effective(&policy, day + 72.hours()).expect("usable");
        let (since, until) = says
            .since
            .zip(says.until)
            .expect("a change before and after");
        assert!(
            until.duration_since(since) > SignedDuration::from_hours(13 * 24),
            "{zone} {hours}"
        );
    }
}
