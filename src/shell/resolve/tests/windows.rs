//! A window of the policy opens or closes while an incident is open. 2026-01-05 is a Monday.

use super::*;
use fencing_core::observed::{CLAIM, TaintView};

/// In mode PowerOff, on Mondays but for three hours.
fn windowed() -> NodeFencingPolicy {
    let window = |start: &str, end: &str, extra: Value| {
        let mut window = json!({"name": start, "days": ["Mon"], "start": start, "end": end});
        json_patch::merge(&mut window, &extra);
        window
    };
    let windows = json!([
        window("01:00", "02:00", json!({"mode": "Observe"})),
        window("02:00", "03:00", json!({"mode": "ConfirmOnly"})),
        window("03:00", "04:00", json!({"approvalMode": "Manual"})),
    ]);
    let mut policy = policy("PowerOff");
    policy.spec.windows = serde_json::from_value(windows).expect("windows");
    policy
}

/// Half past that hour.
fn at(hour: i64) -> Timestamp {
    let midnight: Timestamp = "2026-01-05T00:30:00Z".parse().expect("a time");
    midnight + SignedDuration::from_hours(hour)
}

fn unclaimed() -> NodeView {
    node("7")
}

fn claimed_by(claim: &str) -> NodeView {
    NodeView {
        taints: vec![TaintView {
            key: CLAIM.to_owned(),
            value: Some(claim.to_owned()),
            effect: "NoExecute".to_owned(),
            time_added: None,
        }],
        ..node("7")
    }
}

fn claimed() -> NodeView {
    claimed_by("worker-1-abcd-n1")
}

/// A record that has sent nothing.
fn silent() -> NodeFenceStatus {
    NodeFenceStatus::default()
}

/// A record whose off command had this result.
fn commanded(result: Value) -> NodeFenceStatus {
    let attempt = json!({
        "number": 1, "level": "bmc", "device": "bmc", "action": "PowerOff", "startTime": "2026-01-05T00:30:00Z", "result": result,
    });
    serde_json::from_value(json!({"attempts": [attempt]})).expect("a status")
}

/// S15.
#[test]
fn a_fence_goes_no_further_than_the_window_that_is_open_now() {
    let (open, timed_out) = (commanded(Value::Null), commanded(json!("TimedOut")));
    let (done, refused) = (commanded(json!("Succeeded")), commanded(json!("Refused")));
    let policy = windowed();
    // The frozen mode, the hour, the Node, the record, and whether it goes on.
    for (frozen, hour, node, status, goes_on) in [
        ("PowerOff", 0, unclaimed(), &silent(), true),
        ("PowerOff", 1, unclaimed(), &silent(), false),
        ("PowerOff", 2, unclaimed(), &silent(), false),
        ("PowerOff", 3, unclaimed(), &silent(), false),
        ("PowerOff", 4, unclaimed(), &silent(), true),
        // L5: a window has closed, and what the policy wants by now is more.
        ("Observe", 1, unclaimed(), &silent(), true),
        ("Observe", 2, unclaimed(), &silent(), false),
        ("ConfirmOnly", 4, unclaimed(), &silent(), false),
        // Another one's claim is no claim of this one.
        ("ConfirmOnly", 4, claimed_by("other-n1"), &silent(), false),
        ("PowerOff", 1, claimed(), &silent(), false),
        ("PowerOff", 3, claimed(), &silent(), false),
        ("ConfirmOnly", 4, claimed(), &silent(), true),
        // Its machine is off by its command, or may be.
        ("PowerOff", 1, claimed(), &open, true),
        ("PowerOff", 1, claimed(), &done, true),
        ("PowerOff", 1, claimed(), &timed_out, true),
        ("PowerOff", 1, claimed(), &refused, false),
        ("PowerOff", 1, unclaimed(), &timed_out, false),
    ] {
        let live = Live::at(&policy, at(hour));
        let stopped = stops(&fence(frozen, 3), status, Some(&node), Some(&live));
        let is_stopped = stopped.is_some();
        assert_eq!(!is_stopped, goes_on, "{frozen} {hour}: {stopped:?}");
    }
}

#[test]
fn who_has_answered_is_not_asked_again_by_a_window() {
    let mut answered = fence("PowerOff", 3);
    let yes = json!({"decision": "Approved", "user": "alice", "reason": "dark", "time": "2026-01-05T00:30:00Z"});
    answered.spec.approval = Some(serde_json::from_value(yes).expect("an approval"));
    let policy = windowed();
    let stopped = |hour| {
        let live = Live::at(&policy, at(hour));
        stops(&answered, &silent(), Some(&unclaimed()), Some(&live))
    };
    assert_eq!(stopped(3), None);
    let words = stopped(1).expect("a stop");
    assert!(
        words.contains("window 01:00 is open (mode Observe"),
        "{words}"
    );
}

/// S15: an edit stops whatever the machine has been told. Before the claim a policy that nobody can read holds (`keep_off`), and it stops
/// nothing.
#[test]
fn an_edit_stops_what_a_window_would_see_through() {
    let mut edited = fence("PowerOff", 3);
    edited.spec.policy_generation = Some(0);
    let sent = commanded(Value::Null);
    let mut policy = windowed();
    let live = Live::at(&policy, at(1));
    let words = stops(&edited, &sent, Some(&claimed()), Some(&live)).expect("a stop");
    assert!(
        words.contains("narrowed from mode PowerOff to Observe"),
        "{words}"
    );
    assert_eq!(live.changes_in(at(1)), Some(Duration::from_secs(1800)));
    policy.spec.windows[0].time_zone = "Moon/Base".to_owned();
    let live = Live::at(&policy, at(1));
    assert_eq!(stops(&edited, &sent, Some(&claimed()), Some(&live)), None);
    assert_eq!(live.changes_in(at(1)), None);
}
