//! With what an incident is opened while a window is open, and when the next look is due.

use super::*;
use crate::shell::detect::wanted::PAUSE_LOOK;
use fencing_core::outage::fence_name;
use fencing_core::window::Effective;
use jiff::{Timestamp, ToSpan, tz::TimeZone};

/// A window of each day from this moment on, for so many hours.
fn window(opens: Timestamp, hours: i64, extra: Value) -> Value {
    let time = |at: Timestamp| at.to_zoned(TimeZone::UTC).strftime("%H:%M").to_string();
    let mut window = json!({
        "name": "office", "days": ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"],
        "start": time(opens), "end": time(opens + hours.hours()),
    });
    json_patch::merge(&mut window, &extra);
    window
}

/// Mode PowerOff, and these windows.
fn windowed(windows: &[Value]) -> Value {
    let mut policy = policy();
    policy["spec"]["windows"] = json!(windows);
    policy
}

/// The NodeFence that is opened.
async fn opened(policy: Value) -> Value {
    let down = node("Unknown", false, false);
    let mut lab = Lab::new(down.clone(), Some(policy), vec![]).await;
    lab.cluster.put(NODE, 200, down);
    assert_eq!(lab.writes().await, (1, 0));
    let seen = lab.cluster.server.seen();
    let created = seen.into_iter().find(|it| it.line.starts_with("POST "));
    created.expect("a NodeFence").body
}

/// S15: what it freezes is what holds when it is opened.
#[tokio::test]
async fn an_incident_freezes_what_the_open_window_says() {
    let now = clock::wall();
    let (before, after) = (now - 2.hours(), now + 2.hours());
    for (windows, mode, approval, told) in [
        (vec![], "PowerOff", "Automatic", false),
        (
            vec![window(before, 5, json!({"mode": "Observe"}))],
            "Observe",
            "Automatic",
            true,
        ),
        (
            vec![window(before, 5, json!({"approvalMode": "Manual"}))],
            "PowerOff",
            "Manual",
            true,
        ),
        (
            vec![window(after, 5, json!({"mode": "Observe"}))],
            "PowerOff",
            "Automatic",
            false,
        ),
    ] {
        let fence = opened(windowed(&windows)).await;
        let settings = &fence["spec"]["fence"];
        assert_eq!(settings["mode"], mode, "{windows:?}");
        assert_eq!(settings["approval"]["mode"], approval, "{windows:?}");
        let reason = fence["spec"]["trigger"]["reason"].as_str();
        let is_told = reason.is_some_and(|it| it.starts_with("window office is open (mode"));
        assert_eq!(is_told, told, "{reason:?}");
    }
}

/// L5: nobody changes anything, and the policy says something else.
#[tokio::test]
async fn when_a_window_opens_or_closes_every_node_is_looked_at() {
    let now = clock::wall();
    let up = || node("True", false, false);
    let due = async |policy: Value| {
        let mut lab = Lab::new(up(), Some(policy), vec![]).await;
        lab.detector.all_changed().await;
        let due = lab.detector.next_due();
        due.map(|due| due.saturating_sub(clock::since_boot()))
    };
    assert_eq!(due(policy()).await, None);
    let far = due(windowed(&[window(
        now + 5.hours(),
        2,
        json!({"mode": "Observe"}),
    )]))
    .await;
    assert!(
        far.is_some_and(|far| far <= PAUSE_LOOK && far > PAUSE_LOOK / 2),
        "{far:?}"
    );
    // The beginning of the next minute; where that has come meanwhile, of the one after it.
    let (next, near, ahead) = loop {
        let now = clock::wall();
        let next = (now.as_second() / 60 + 1) * 60;
        let next = Timestamp::from_second(next).expect("a second");
        let near = due(windowed(&[window(next, 2, json!({"mode": "Observe"}))])).await;
        if clock::wall() < next {
            let ahead = Duration::try_from(next.duration_since(now)).expect("the future");
            break (next, near, ahead);
        }
    };
    assert!(near.is_some_and(|near| near <= ahead), "{near:?} {ahead:?}");
    let broken = window(next, 2, json!({"mode": "Observe", "timeZone": "Moon/Base"}));
    assert_eq!(due(windowed(&[broken])).await, None);
}

/// The same outage gets another record when the windows say something else, and the same one from whoever looks meanwhile.
#[test]
fn a_record_has_the_name_of_its_outage_and_of_what_holds() {
    let policy: NodeFencingPolicy = serde_json::from_value(policy()).expect("a policy");
    let condition = &policy.spec.unhealthy_conditions[0];
    let node = fencing_core::fixtures::node();
    let name = |since: Option<i64>, until: Option<i64>| {
        let at = |second: Option<i64>| second.map(|it| Timestamp::from_second(it).expect("a time"));
        let effective = Effective {
            since: at(since),
            until: at(until),
            ..Effective::without_windows(&policy)
        };
        fence_name(&node, &policy, &effective, condition)
    };
    assert_eq!(name(None, None), name(None, Some(7)));
    assert_eq!(name(Some(1), Some(7)), name(Some(1), Some(8)));
    assert_ne!(name(Some(1), None), name(None, None));
    assert_ne!(name(Some(1), None), name(Some(2), None));
}
