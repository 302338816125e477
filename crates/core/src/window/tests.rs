use super::*;
use serde_json::{Value, json};

mod clocks;

fn time(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

/// A policy of this mode that needs no approval, with these windows.
fn policy(mode: &str, windows: &[Value]) -> NodeFencingPolicy {
    let spec = json!({"nodeSelector": {}, "fence": {"mode": mode}, "windows": windows});
    NodeFencingPolicy::new("prod", serde_json::from_value(spec).expect("a spec"))
}

fn window(name: &str, days: &[&str], hours: &str, zone: &str, extra: Value) -> Value {
    let (start, end) = hours.split_once('-').expect("two times");
    let mut window =
        json!({"name": name, "days": days, "start": start, "end": end, "timeZone": zone});
    json_patch::merge(&mut window, &extra);
    window
}

fn observe() -> Value {
    json!({"mode": "Observe"})
}

fn manual() -> Value {
    json!({"approvalMode": "Manual"})
}

const WEEK: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const WORKDAYS: [&str; 5] = ["Mon", "Tue", "Wed", "Thu", "Fri"];

fn says(policy: &NodeFencingPolicy, at: &str) -> Effective {
    effective(policy, time(at)).expect("windows that can be used")
}

/// What holds, by which window, since when and until when.
fn told(policy: &NodeFencingPolicy, at: &str) -> String {
    let says = says(policy, at);
    let or_never = |time: Option<Timestamp>| time.map_or("never".to_owned(), |it| it.to_string());
    format!(
        "{:?} {:?} {} {} {}",
        says.mode,
        says.approval,
        says.window.as_deref().unwrap_or("-"),
        or_never(says.since),
        or_never(says.until)
    )
}

#[test]
fn the_first_window_that_is_open_counts_alone() {
    let office = window("office", &WORKDAYS, "08:00-18:00", "Etc/UTC", manual());
    let lunch = window("lunch", &WORKDAYS, "12:00-13:00", "Etc/UTC", observe());
    // 2026-01-05 is a Monday.
    let lunch_time = "2026-01-05T12:30:00Z";
    let office_first = policy("PowerOff", &[office.clone(), lunch.clone()]);
    assert_eq!(
        told(&office_first, lunch_time),
        "PowerOff Manual office 2026-01-05T08:00:00Z 2026-01-05T18:00:00Z"
    );
    let lunch_first = policy("PowerOff", &[lunch, office]);
    for (at, message) in [
        (
            "2026-01-05T07:59:59Z",
            "PowerOff Automatic - 2026-01-02T18:00:00Z 2026-01-05T08:00:00Z",
        ),
        (
            "2026-01-05T09:00:00Z",
            "PowerOff Manual office 2026-01-05T08:00:00Z 2026-01-05T12:00:00Z",
        ),
        (
            lunch_time,
            "Observe Automatic lunch 2026-01-05T12:00:00Z 2026-01-05T13:00:00Z",
        ),
        (
            "2026-01-05T13:00:00Z",
            "PowerOff Manual office 2026-01-05T13:00:00Z 2026-01-05T18:00:00Z",
        ),
        (
            "2026-01-09T18:00:00Z",
            "PowerOff Automatic - 2026-01-09T18:00:00Z 2026-01-12T08:00:00Z",
        ),
    ] {
        assert_eq!(told(&lunch_first, at), message, "{at}");
    }
}

/// What changes nothing is no change: an incident is not begun anew for it.
#[test]
fn a_change_is_one_of_the_mode_or_the_approval() {
    let morning = window("morning", &["Mon"], "08:00-12:00", "Etc/UTC", manual());
    let evening = window("evening", &["Mon"], "12:00-18:00", "Etc/UTC", manual());
    let policy_of = |windows: &[Value]| policy("ConfirmOnly", windows);
    let both = policy_of(&[morning, evening]);
    let whole = "2026-01-05T08:00:00Z 2026-01-05T18:00:00Z";
    assert_eq!(
        told(&both, "2026-01-05T11:00:00Z"),
        format!("ConfirmOnly Manual morning {whole}")
    );
    assert_eq!(
        told(&both, "2026-01-05T13:00:00Z"),
        format!("ConfirmOnly Manual evening {whole}")
    );
    // One that says what the policy says.
    let idle = policy_of(&[window(
        "idle",
        &["Mon"],
        "08:00-12:00",
        "Etc/UTC",
        json!({"mode": "ConfirmOnly"}),
    )]);
    assert_eq!(
        told(&idle, "2026-01-05T11:00:00Z"),
        "ConfirmOnly Automatic idle never never"
    );
    // Two whole days, and all of them.
    let weekend = policy_of(&[window(
        "weekend",
        &["Sat", "Sun"],
        "00:00-23:59",
        "Etc/UTC",
        observe(),
    )]);
    assert_eq!(
        told(&weekend, "2026-01-03T23:59:30Z"),
        "Observe Automatic weekend 2026-01-03T00:00:00Z 2026-01-05T00:00:00Z"
    );
    let always = policy_of(&[window(
        "always",
        &WEEK,
        "00:00-23:59",
        "Europe/Berlin",
        observe(),
    )]);
    for at in [
        "2026-01-03T23:59:30Z",
        "2026-03-29T01:00:00Z",
        "2026-10-25T01:00:00Z",
    ] {
        assert_eq!(
            told(&always, at),
            "Observe Automatic always never never",
            "{at}"
        );
    }
    assert_eq!(
        told(&policy_of(&[]), "2026-01-05T11:00:00Z"),
        "ConfirmOnly Automatic - never never"
    );
}

#[test]
fn the_next_change_is_that_of_any_policy() {
    let of = |hours: &str| {
        policy(
            "PowerOff",
            &[window("w", &["Mon"], hours, "Etc/UTC", observe())],
        )
    };
    let broken = policy(
        "PowerOff",
        &[window("w", &["Mon"], "01:00-02:00", "Moon/Base", observe())],
    );
    let now = time("2026-01-05T00:00:00Z");
    assert_eq!(next_change(&[policy("PowerOff", &[]), broken], now), None);
    let next = next_change(
        &[of("03:00-04:00"), of("02:00-05:00"), of("23:00-06:00")],
        now,
    );
    assert_eq!(next, Some(time("2026-01-05T02:00:00Z")));
}

/// Nobody can tell when it is open, and a guess would fence somebody.
#[test]
fn a_window_that_cannot_be_used_is_named_with_its_way_out() {
    let message = |window: Value| {
        let fine = json!({"name": "fine", "days": ["Mon"], "start": "01:00", "end": "02:00", "timeZone": "Etc/UTC", "mode": "Observe"});
        let policy = policy("PowerOff", &[fine, window]);
        let error = effective(&policy, time("2026-01-05T12:00:00Z")).err();
        assert_eq!(unusable(&policy), error);
        if error.is_some() {
            let now = time("2026-01-05T12:00:00Z");
            assert_eq!(mode(&policy, now), FenceMode::PowerOff);
        }
        error.map(|error| error.to_string())
    };
    let zone = |zone: &str| message(window("night", &["Mon"], "22:00-06:00", zone, observe()));
    assert_eq!(
        zone("Europe/Berln").expect("an error"),
        "window night of policy prod has `timeZone` Europe/Berln, which is not a known IANA time zone, so the policy fences nothing; correct or \
         remove the window, or create a NodeFence by hand"
    );
    for unknown in [
        "",
        "Local",
        "Etc/Unknown",
        "CEST",
        "Europe",
        "../etc/passwd",
        "UTC+2",
    ] {
        assert!(zone(unknown).is_some(), "{unknown}");
    }
    for known in [
        "UTC",
        "Etc/UTC",
        "Europe/Berlin",
        "America/Argentina/Ushuaia",
        "Etc/GMT-14",
        "Pacific/Apia",
    ] {
        assert_eq!(zone(known), None, "{known}");
    }
    let hours = |hours: &str| message(window("night", &["Mon"], hours, "Etc/UTC", observe()));
    for none in [
        "24:00-06:00",
        "6:00-07:00",
        "06:60-07:00",
        "+6:00-07:00",
        "06:00:00-07:00",
        "0600-07:00",
        "-07:00",
        "06:00-",
    ] {
        let message = hours(none).expect("an error");
        assert!(
            message.contains("not a time like `22:00`"),
            "{none}: {message}"
        );
    }
}

#[test]
fn what_holds_is_told_with_its_end() {
    let office = window(
        "office",
        &WORKDAYS,
        "08:00-18:00",
        "Europe/Berlin",
        manual(),
    );
    let policy = policy("PowerOff", &[office]);
    assert_eq!(
        says(&policy, "2026-01-05T12:00:00Z").message(),
        "window office is open (mode PowerOff, approval Manual) until 2026-01-05T17:00:00Z"
    );
    assert_eq!(
        says(&policy, "2026-01-03T12:00:00Z").message(),
        "no window is open (mode PowerOff, approval Automatic) until 2026-01-05T07:00:00Z"
    );
}

/// S15: before the claim an incident follows the windows, under the claim it only stops, and after an off command not even that.
#[test]
fn an_incident_goes_no_further_than_the_window_that_is_open() {
    use Begun::{Claimed, Commanded, Nothing};
    let frozen = |mode: &str, approval: &str| -> FenceSettings {
        let settings = json!({"mode": mode, "approval": {"mode": approval}});
        serde_json::from_value(settings).expect("settings")
    };
    let ends = |before: (&str, &str), now: (&str, &str), is_answered: bool, begun: Begun| {
        let mut policy = policy(now.0, &[]);
        policy.spec.procedure.fence.approval = frozen(now.0, now.1).approval;
        let now = Effective::without_windows(&policy);
        replaced(
            "prod",
            &frozen(before.0, before.1),
            is_answered,
            begun,
            &now,
        )
        .is_some()
    };
    let (auto, manual) = ("Automatic", "Manual");
    // Mode and approval as frozen and as they are now, and whether it ends: before the claim, and under it.
    for (before, now, unclaimed, claimed) in [
        (("PowerOff", auto), ("PowerOff", auto), false, false),
        (("PowerOff", auto), ("ConfirmOnly", auto), true, true),
        (("PowerOff", auto), ("Observe", auto), true, true),
        (("ConfirmOnly", auto), ("Observe", auto), true, true),
        (("ConfirmOnly", auto), ("PowerOff", auto), true, false),
        (("Observe", auto), ("PowerOff", auto), true, false),
        (("PowerOff", auto), ("PowerOff", manual), true, true),
        (("PowerOff", manual), ("PowerOff", auto), true, false),
    ] {
        assert_eq!(
            ends(before, now, false, Nothing),
            unclaimed,
            "{before:?} {now:?}"
        );
        assert_eq!(
            ends(before, now, false, Claimed),
            claimed,
            "{before:?} {now:?}"
        );
        assert!(!ends(before, now, false, Commanded), "{before:?} {now:?}");
        // Who has answered is not asked again.
        let is_other_mode = before.0 != now.0;
        assert_eq!(
            ends(before, now, true, Nothing),
            unclaimed && is_other_mode,
            "{before:?} {now:?}"
        );
        assert_eq!(
            ends(before, now, true, Claimed),
            claimed && is_other_mode,
            "{before:?} {now:?}"
        );
    }
}
