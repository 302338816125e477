use super::super::observed::ConditionView;
use super::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn wall(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a second")
}

/// This moment: the host has been up for `boot` seconds, and it is second `wall`.
fn now(boot: u64, second: i64) -> Now {
    Now {
        boot: Duration::from_secs(boot),
        wall: wall(second),
    }
}

fn node(uid: &str, boot_id: &str) -> NodeView {
    NodeView {
        name: "w1".to_owned(),
        uid: uid.to_owned(),
        labels: BTreeMap::new(),
        annotation_keys: Vec::new(),
        unschedulable: false,
        taints: Vec::new(),
        conditions: vec![ConditionView {
            kind: "Ready".to_owned(),
            status: "Unknown".to_owned(),
            transition: String::new(),
            heartbeat: String::new(),
        }],
        boot_id: boot_id.to_owned(),
        system_uuid: String::new(),
        provider_id: String::new(),
        addresses: Vec::new(),
        volumes_attached: 0,
        reported_early: false,
        resource_version: String::new(),
        finalizers: Vec::new(),
        deleting: false,
    }
}

fn policy(uptime: u32, cooldown: u32) -> NodeFencingPolicySpec {
    serde_json::from_value(json!({
        "nodeSelector": {},
        "exclusions": {"minUptimeSeconds": uptime},
        "budget": {"cooldownSeconds": cooldown},
    }))
    .expect("a policy")
}

/// An ended NodeFence of node w1 with this UID, and more in its status.
fn ended(name: &str, uid: &str, stage: &str, end: i64, more: Value) -> NodeFence {
    let mut status = json!({
        "conditions": [{
            "type": "Succeeded", "reason": stage, "message": "",
            "status": if stage == "Recovered" { "True" } else { "False" },
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }],
        "completionTime": wall(end).to_string(),
    });
    json_patch::merge(&mut status, &more);
    serde_json::from_value(json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence",
        "metadata": {"name": name},
        "spec": {"nodeName": "w1", "nodeUID": uid, "trigger": {"type": "NodeCondition"}},
        "status": status,
    }))
    .expect("a NodeFence")
}

/// Seconds since boot at which the wait for uptime is over, and its words.
fn uptime_over(start: &Start, uptime: u32) -> (u64, String) {
    let delay = delay(&policy(uptime, 0), Some(start), None).expect("a wait");
    (delay.until.as_secs(), delay.message)
}

#[test]
fn a_node_is_as_old_as_its_object() {
    // Created at second, seen at second 1000 and 50 s after boot, old enough at.
    for (created, over) in [(0, 50), (700, 50), (701, 51), (1000, 350), (9000, 350)] {
        let start = Start::first(&node("u1", "b1"), wall(created), now(50, 1000));
        let (at, message) = uptime_over(&start, 300);
        assert_eq!(at, over, "created at {created}");
        assert!(message.contains("joined less than 300 s ago"), "{message}");
    }
}

#[test]
fn a_boot_that_this_process_saw_counts_and_a_former_one_does_not() {
    let mut start = Start::first(&node("u1", "b1"), wall(0), now(50, 1000));
    start.note(&node("u1", "b1"), wall(0), now(60, 1010));
    assert_eq!(uptime_over(&start, 300).0, 50);
    start.note(&node("u1", "b2"), wall(0), now(80, 1030));
    let (at, message) = uptime_over(&start, 300);
    assert_eq!(at, 380);
    assert!(message.contains("booted less than 300 s ago"), "{message}");
}

#[test]
fn the_first_boot_id_is_no_boot_and_another_uid_is_another_node() {
    let mut start = Start::first(&node("u1", ""), wall(0), now(50, 1000));
    start.note(&node("u1", "b1"), wall(0), now(60, 1010));
    assert_eq!(uptime_over(&start, 300).0, 50);
    start.note(&node("u2", "b2"), wall(1005), now(60, 1010));
    assert_eq!(uptime_over(&start, 300).0, 355);
}

/// F14: the wall clock is asked once for each thing that happened.
#[test]
fn a_wall_clock_that_jumps_changes_nothing() {
    let mut start = Start::first(&node("u1", "b1"), wall(900), now(50, 1000));
    for second in [1001, 90_000, 5] {
        start.note(&node("u1", "b1"), wall(900), now(51, second));
        assert_eq!(uptime_over(&start, 300).0, 250);
    }
}

#[test]
fn only_an_incident_that_touched_the_machine_counts() {
    let proven = json!({"evidence": {
        "claim": "c", "nodeUID": "u1", "nodeBootID": "b1",
        "quiescedTime": "2026-01-01T00:00:00Z", "provenTime": "2026-01-01T00:00:00Z", "readings": [],
    }});
    let table = [
        ("Recovered", json!({}), true),
        ("Aborted", json!({}), false),
        ("Aborted", json!({"attemptCount": 0}), false),
        ("Aborted", json!({"attemptCount": 1}), true),
        ("Aborted", proven, true),
        ("SelfRecovered", json!({}), false),
        ("SelfRecovered", json!({"attemptCount": 1}), true),
    ];
    for (stage, more, counts) in table {
        let fence = ended("f", "u1", stage, 7, more.clone());
        assert_eq!(touched(&fence), counts.then(|| wall(7)), "{stage} {more}");
    }
    let mut open = ended("f", "u1", "Recovered", 7, json!({"attemptCount": 1}));
    let status = open.status.as_mut().expect("a status");
    status.conditions[0].status = "Unknown".to_owned();
    assert_eq!(touched(&open), None);
}

#[test]
fn the_newest_incident_of_this_very_node_counts() {
    let fences = [
        ended("old", "u1", "Recovered", 10, json!({})),
        ended("new", "u1", "Recovered", 20, json!({})),
        ended("selfRecovered", "u1", "SelfRecovered", 30, json!({})),
        ended("former-machine", "u0", "Recovered", 40, json!({})),
    ];
    let name = |uid| {
        last_touch(&fences, &node(uid, "b1")).and_then(|(fence, _)| fence.metadata.name.clone())
    };
    assert_eq!(name("u1").as_deref(), Some("new"));
    assert_eq!(name("u0").as_deref(), Some("former-machine"));
    assert_eq!(name("u2"), None);
}

#[test]
fn the_longer_wait_counts_and_names_its_field() {
    let start = Start::first(&node("u1", "b1"), wall(900), now(50, 1000));
    let last = LastFence {
        name: "w1-abc".to_owned(),
        since: Since::at(wall(950), now(50, 1000)),
    };
    // minUptimeSeconds, cooldownSeconds, over at, named.
    let table = [
        (300, 300, 300, "NodeFence w1-abc"),
        (600, 300, 550, "`exclusions.minUptimeSeconds`"),
        (0, 300, 300, "`budget.cooldownSeconds`"),
    ];
    for (uptime, cooldown, over, named) in table {
        let delay = delay(&policy(uptime, cooldown), Some(&start), Some(&last)).expect("a wait");
        assert_eq!(delay.until.as_secs(), over);
        assert!(delay.message.contains(named), "{}", delay.message);
    }
    assert_eq!(delay(&policy(300, 300), None, None), None);
}

#[test]
fn an_early_incident_claims_when_the_wait_is_over_whatever_the_clocks_say() {
    let at = |second: i64| Some(wall(second));
    let rows = [
        (at(1000), 100_000),
        (at(998), 100_000),
        (Timestamp::from_millisecond(1_000_500).ok(), 100_500),
        (at(999_999), 101_000),
        (None, 101_000),
    ];
    let mut trigger = Trigger {
        type_: TriggerType::NodeCondition,
        condition_type: None,
        condition_status: None,
        unhealthy_since_time: None,
        due_time: None,
        early_seconds: None,
        reported_by: None,
        remediation: None,
        requested_by: None,
        reason: None,
    };
    for (due, expected) in rows {
        trigger.due_time = due;
        let moment = not_before(&trigger, now(100, 1000));
        assert_eq!(moment.as_millis(), expected, "{due:?}");
    }
    // One that was opened early waits for what was left, whatever the clocks say: a machine that has power by then is one like any other.
    trigger.early_seconds = Some(43);
    for due in [at(990), at(1042), at(999_999), None] {
        trigger.due_time = due;
        assert_eq!(not_before(&trigger, now(100, 1000)).as_secs(), 143);
    }
    // A human's incident waits for nothing, whatever it says.
    trigger.type_ = TriggerType::Manual;
    trigger.due_time = at(999_999);
    assert_eq!(not_before(&trigger, now(100, 1000)).as_secs(), 100);
}

/// L1: the policy waits for one outage to last, not for two that follow each other.
#[test]
fn a_condition_that_broke_and_came_back_has_not_held() {
    let (began, later) = ("2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z");
    // Its status, since when, and whether it has held: if the incident knows since when, and if it does not.
    let table = [
        ("Unknown", began, true, true),
        ("Unknown", "2026-01-01T01:00:00+01:00", true, true),
        ("Unknown", later, false, true),
        ("Unknown", "", false, true),
        ("False", began, false, false),
    ];
    for (status, transition, dated, undated) in table {
        let mut node = node("u1", "b1");
        node.conditions[0].status = status.to_owned();
        node.conditions[0].transition = transition.to_owned();
        for (since, holds) in [(began.parse().ok(), dated), (None, undated)] {
            let condition = HeldCondition {
                type_: "Ready".to_owned(),
                status: "Unknown".to_owned(),
                since,
            };
            assert_eq!(
                condition.holds(&node),
                holds,
                "{status} {transition} {since:?}"
            );
        }
    }
}

#[test]
fn only_a_policy_s_incident_rests_on_a_condition() {
    let trigger = |kind: &str| {
        let trigger = json!({
            "type": kind, "conditionType": "Ready", "conditionStatus": "Unknown",
            "unhealthySinceTime": "2026-01-01T00:00:00Z",
        });
        serde_json::from_value(trigger).expect("a trigger")
    };
    let held = HeldCondition {
        type_: "Ready".to_owned(),
        status: "Unknown".to_owned(),
        since: "2026-01-01T00:00:00Z".parse().ok(),
    };
    assert_eq!(HeldCondition::of(&trigger("NodeCondition")), Some(held));
    assert_eq!(HeldCondition::of(&trigger("Manual")), None);
}

/// Only what node-lifecycle says when it has not heard of the kubelet: a kubelet that says so itself is heard.
#[test]
fn silence_is_ready_unknown_and_nothing_else() {
    let condition = |type_: &str, status: &str| HeldCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        since: None,
    };
    assert!(condition("Ready", "Unknown").is_silence());
    assert!(!condition("Ready", "False").is_silence());
    assert!(!condition("KernelDeadlock", "Unknown").is_silence());
}
