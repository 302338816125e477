//! What a policy shows of its windows. It is Monday, 1970-01-12, 13:46:40 UTC.

use super::*;

/// A policy in this mode with a window that is open today for these hours.
fn windowed(mode: &str, hours: [&str; 2], extra: Value) -> NodeFencingPolicy {
    let [start, end] = hours;
    let mut window = json!({"name": "office", "days": ["Mon"], "start": start, "end": end});
    json_patch::merge(&mut window, &extra);
    policy("p", json!({"fence": {"mode": mode}, "windows": [window]}))
}

fn status(policy: NodeFencingPolicy) -> NodeFencingPolicyStatus {
    Cluster::healthy(vec![policy]).status("p")
}

#[test]
fn a_policy_is_as_ready_as_its_open_window_and_says_until_when() {
    let open = ["12:00", "15:00"];
    let closed = ["14:00", "15:00"];
    let observe = || json!({"mode": "Observe"});
    for (mode, hours, extra, shown, told) in [
        (
            "PowerOff",
            open,
            observe(),
            "True/Observing",
            "; window office is open (mode Observe, approval Automatic) until 1970-01-12T15:00:00Z",
        ),
        (
            "PowerOff",
            closed,
            observe(),
            "True/Active",
            "; no window is open (mode PowerOff, approval Automatic) until 1970-01-12T14:00:00Z",
        ),
        (
            "Observe",
            open,
            json!({"mode": "PowerOff", "approvalMode": "Manual"}),
            "True/Active",
            "; window office is open (mode PowerOff, approval Manual) until 1970-01-12T15:00:00Z",
        ),
    ] {
        let status = status(windowed(mode, hours, extra));
        let (is, words) = ready(&status);
        assert_eq!(is, shown, "{words}");
        assert!(words.ends_with(told), "{words}");
        let effective = status.effective.expect("what holds");
        assert_eq!(effective.window.is_some(), hours == open);
        assert!(
            words.contains(&format!("mode {:?}", effective.mode)),
            "{words}"
        );
        let until = effective.until_time.expect("an end").to_string();
        assert!(words.ends_with(&until), "{words}");
    }
    let without = status(policy("p", json!({})));
    assert_eq!(without.effective, None);
    assert!(!ready(&without).1.contains("window"));
}

#[test]
fn a_policy_whose_window_cannot_be_used_is_not_ready_and_the_others_are() {
    let broken = windowed(
        "PowerOff",
        ["12:00", "15:00"],
        json!({"mode": "Observe", "timeZone": "Moon/Base"}),
    );
    let mut other = policy(
        "other",
        json!({"nodeSelector": {"matchLabels": {"name": "w2"}}}),
    );
    other.spec.priority = 1;
    let cluster = Cluster::healthy(vec![broken, other]);
    let (shown, words) = ready(&cluster.status("p"));
    assert_eq!(shown, "False/InvalidWindow");
    for needed in [
        "window office",
        "`timeZone` Moon/Base",
        "correct or remove the window",
    ] {
        assert!(words.contains(needed), "{words}");
    }
    assert_eq!(cluster.status("p").effective, None);
    assert_eq!(ready(&cluster.status("other")).0, "True/Active");
}

/// `minHealthy` is asked in mode PowerOff only.
#[test]
fn what_the_budget_would_admit_is_told_of_the_mode_that_counts() {
    let left = |mode: &str, extra: Value| {
        let mut policy = windowed(mode, ["12:00", "15:00"], extra);
        let budget = json!({"minHealthy": 4, "maxConcurrent": 2});
        policy.spec.budget = serde_json::from_value(budget).expect("a budget");
        status(policy).budget_remaining
    };
    assert_eq!(left("PowerOff", json!({"approvalMode": "Manual"})), Some(0));
    assert_eq!(left("PowerOff", json!({"mode": "ConfirmOnly"})), Some(2));
    assert_eq!(left("ConfirmOnly", json!({"mode": "PowerOff"})), Some(0));
}
