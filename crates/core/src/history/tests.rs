use super::super::observed::{CLAIM, ConditionView, TaintView};
use super::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const NOW: i64 = 10_000_000;

fn wall(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a second")
}

fn policy(limit: u32, ttl_seconds: u32) -> NodeFencingPolicy {
    let spec = json!({
        "nodeSelector": {},
        "history": {"limit": limit, "ttlSeconds": ttl_seconds},
        "budget": {"cooldownSeconds": 300},
    });
    NodeFencingPolicy::new("p", serde_json::from_value(spec).expect("a spec"))
}

/// An ended NodeFence of policy p that ended `ago` seconds ago, changed by `extra`.
fn fence(name: &str, ago: i64, extra: Value) -> NodeFence {
    let mut fence = json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence",
        "metadata": {"name": name},
        "spec": {
            "nodeName": "w1", "nodeUID": "u1", "bootID": "b1", "policyName": "p",
            "trigger": {"type": "NodeCondition"},
        },
        "status": {
            "conditions": [{
                "type": "Succeeded", "status": "False", "reason": "SelfRecovered", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
            "completionTime": wall(NOW - ago).to_string(),
        },
    });
    json_patch::merge(&mut fence, &extra);
    serde_json::from_value(fence).expect("a NodeFence")
}

fn node(boot_id: &str, ready: &str, claim: Option<&str>) -> NodeView {
    let claim = claim.map(|value| TaintView {
        key: CLAIM.to_owned(),
        value: Some(value.to_owned()),
        effect: "NoExecute".to_owned(),
        time_added: None,
    });
    NodeView {
        name: "w1".to_owned(),
        uid: "u1".to_owned(),
        labels: BTreeMap::new(),
        annotation_keys: Vec::new(),
        unschedulable: false,
        taints: claim.into_iter().collect(),
        conditions: vec![ConditionView {
            kind: "Ready".to_owned(),
            status: ready.to_owned(),
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

fn names(policy: NodeFencingPolicy, fences: &[NodeFence], node: Option<&NodeView>) -> String {
    let surplus = surplus(&[policy], fences, &|_| node.cloned(), wall(NOW));
    let names = surplus
        .iter()
        .filter_map(|fence| fence.metadata.name.clone());
    names.collect::<Vec<_>>().join(" ")
}

#[test]
fn the_oldest_beyond_the_limit_and_all_beyond_the_ttl_go() {
    let fences: Vec<NodeFence> = [("a", 50), ("c", 5000), ("b", 500), ("d", 7200)]
        .map(|(name, ago)| fence(name, ago, json!({})))
        .into();
    for (limit, ttl, gone) in [
        (20, 2_592_000, ""),
        (3, 2_592_000, "d"),
        (1, 2_592_000, "d c b"),
        (20, 7200, ""),
        (20, 7199, "d"),
        (20, 3600, "d c"),
        (1, 3600, "d c b"),
    ] {
        assert_eq!(
            names(policy(limit, ttl), &fences, None),
            gone,
            "{limit} {ttl}"
        );
    }
}

#[test]
fn whose_record_it_is_and_what_state_it_is_in() {
    let old = 9_000_000;
    let table = [
        (json!({}), true),
        (json!({"spec": {"trigger": {"type": "Manual"}}}), false),
        (json!({"spec": {"trigger": {"type": "External"}}}), false),
        (json!({"spec": {"policyName": "other"}}), false),
        (json!({"spec": {"policyName": null}}), false),
        (
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
            false,
        ),
        (json!({"status": {"completionTime": null}}), false),
        (json!({"status": {"conditions": null}}), false),
    ];
    for (extra, goes) in table {
        let fences = [fence("f", old, extra.clone())];
        let gone = names(policy(20, 3600), &fences, None);
        assert_eq!(gone, if goes { "f" } else { "" }, "{extra}");
    }
}

#[test]
fn it_stays_while_something_hangs_on_it() {
    let old = [fence("f", 9_000_000, json!({}))];
    // Boot ID and Ready of the node, the claim there, and whether the record goes.
    let table = [
        ("b1", "Unknown", None, ""),
        ("b1", "False", None, ""),
        ("b1", "True", None, "f"),
        ("b2", "Unknown", None, "f"),
        ("b2", "True", Some("f-n1"), ""),
        ("b2", "True", Some("g-n1"), "f"),
    ];
    for (boot_id, ready, claim, gone) in table {
        let node = node(boot_id, ready, claim);
        assert_eq!(
            names(policy(20, 3600), &old, Some(&node)),
            gone,
            "{boot_id} {ready} {claim:?}"
        );
    }
}

#[test]
fn a_cooldown_that_is_not_over_keeps_its_record() {
    let touched = json!({"status": {"attemptCount": 1}});
    let fences = [
        fence("new", 10, json!({})),
        fence("cooling", 300, touched.clone()),
        fence("cold", 301, touched),
    ];
    assert_eq!(names(policy(1, 3600), &fences, None), "cold");
}

/// One that the window of its policy has ended; the next one has the same outage.
#[test]
fn of_an_outage_of_many_windows_the_last_record_stays_and_what_was_said_and_done() {
    let of_outage = |name: &str, created: &str, extra: Value| {
        let mut change = json!({
            "metadata": {"creationTimestamp": created},
            "spec": {"trigger": {
                "conditionType": "Ready", "conditionStatus": "Unknown", "unhealthySinceTime": "2026-01-01T00:00:00Z",
            }},
        });
        json_patch::merge(&mut change, &extra);
        fence(name, 9_000_000, change)
    };
    let last = of_outage("last", "2026-01-03T00:00:00Z", json!({}));
    let approval = |decision: &str| json!({"spec": {"approval": {"decision": decision, "user": "alice", "reason": "no", "time": "2026-01-02T00:00:00Z"}}});
    let trigger = |change: Value| json!({"spec": {"trigger": change}});
    let table = [
        (json!({}), true),
        (approval("Denied"), false),
        (approval("Approved"), false),
        (json!({"spec": {"desiredState": "Released"}}), false),
        (json!({"status": {"attemptCount": 1}}), false),
        // Another outage: none later stands for it.
        (json!({"spec": {"bootID": "b0"}}), true),
        (json!({"spec": {"nodeUID": "u0"}}), true),
        (trigger(json!({"conditionStatus": "False"})), false),
        (trigger(json!({"conditionType": "Disk"})), false),
        (
            trigger(json!({"unhealthySinceTime": "2026-01-01T00:00:01Z"})),
            false,
        ),
        (trigger(json!({"unhealthySinceTime": null})), false),
        // It is the later one.
        (
            json!({"metadata": {"creationTimestamp": "2026-01-04T00:00:00Z"}}),
            false,
        ),
    ];
    for (extra, goes) in table {
        let first = of_outage("first", "2026-01-02T00:00:00Z", extra.clone());
        let down = node("b1", "Unknown", None);
        let gone = names(
            policy(20, 3600),
            &[first.clone(), last.clone()],
            Some(&down),
        );
        assert_eq!(gone.contains("first"), goes, "{extra}: {gone}");
        let claimed = node("b1", "Unknown", Some("first-n1"));
        let gone = names(policy(20, 3600), &[first, last.clone()], Some(&claimed));
        assert!(!gone.contains("first"), "{extra}: {gone}");
    }
}

/// S23: whoever fences the node next waits for what may still land, and has it from nowhere else.
#[test]
fn a_record_whose_command_may_land_stays_while_the_node_is_in_that_boot() {
    let attempted = |action: &str, result: Value| {
        let attempt = json!({
            "device": "bmc", "action": action, "startTime": "2026-01-01T00:00:00Z",
            "completionTime": "2026-01-01T00:01:00Z", "result": result,
        });
        fence("f", 1_000, json!({"status": {"attempts": [attempt]}}))
    };
    let goes = |fence: NodeFence, boot_id: &str| {
        let node = |_: &str| Some(node(boot_id, "True", None));
        let fences = [fence];
        !surplus(&[policy(0, 1)], &fences, &node, wall(NOW)).is_empty()
    };
    for action in ["PowerOff", "PowerOn"] {
        assert!(!goes(attempted(action, json!("TimedOut")), "b1"));
        assert!(!goes(attempted(action, Value::Null), "b1"));
        assert!(goes(attempted(action, json!("Succeeded")), "b1"));
        assert!(goes(attempted(action, json!("TimedOut")), "b2"));
    }
    assert!(goes(attempted("Status", json!("TimedOut")), "b1"));
}

/// S23: a BMC that never cuts leaves such a record with each incident. The last of each command is enough, also when the Node was made anew.
#[test]
fn of_records_whose_command_may_land_the_last_one_stays() {
    let record = |name: &str, hour: i64, uid: &str, actions: &[&str]| {
        let attempts = actions.iter().map(|action| {
            json!({
                "device": "bmc", "action": action, "startTime": "2026-01-01T00:00:00Z",
                "completionTime": "2026-01-01T00:01:00Z", "result": "TimedOut",
            })
        });
        let attempts: Vec<Value> = attempts.collect();
        let extra = json!({"spec": {"nodeUID": uid}, "status": {"attempts": attempts}});
        fence(name, 100_000 - hour * 3600, extra)
    };
    let gone = |fences: &[NodeFence]| {
        let node = |_: &str| Some(node("b1", "True", None));
        let gone = surplus(&[policy(0, 1)], fences, &node, wall(NOW));
        let gone: Vec<&str> = gone
            .iter()
            .filter_map(|it| it.metadata.name.as_deref())
            .collect();
        gone.join(" ")
    };
    let first = record("first", 1, "u1", &["PowerOff"]);
    let second = record("second", 2, "u0", &["PowerOff"]);
    let on = record("on", 3, "u1", &["PowerOn"]);
    let both = record("both", 4, "u1", &["PowerOn", "PowerOff"]);
    assert_eq!(gone(&[first.clone(), second.clone()]), "first");
    assert_eq!(gone(&[first.clone(), second.clone(), on.clone()]), "first");
    let all = [first.clone(), second, on, both];
    assert_eq!(gone(&all), "first second on");
    // The later one's command has less time: whoever waits only for that waits too short.
    let slow = |late: u32| {
        let mut fence = first.clone();
        fence.spec.procedure.fence.verification.late_effect_seconds = late;
        fence
    };
    let second = record("second", 2, "u0", &["PowerOff"]);
    let known = second.spec.procedure.fence.verification.late_effect_seconds;
    assert_eq!(gone(&[slow(known), second.clone()]), "first");
    assert_eq!(gone(&[slow(known + 1), second]), "");
    // A human's stays as long as they like, and is about the boot that its status names.
    let mut of_human = record("human", 2, "u1", &["PowerOff"]);
    of_human.spec.trigger.type_ = TriggerType::Manual;
    assert_eq!(gone(&[first, of_human]), "");
}
