use super::super::fixtures;
use super::super::observed::{ConditionView, TaintView};
use super::*;
use serde_json::{Value, json};

const NOON: &str = "2026-11-21T12:00:00Z";

fn time(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

fn policy(spec: Value) -> NodeFencingPolicy {
    let mut all = json!({"nodeSelector": {}});
    for (field, value) in spec.as_object().expect("an object") {
        all[field] = value.clone();
    }
    NodeFencingPolicy::new("prod", serde_json::from_value(all).expect("a spec"))
}

fn node(change: impl Fn(&mut NodeView)) -> NodeView {
    let mut node = fixtures::node();
    change(&mut node);
    node
}

fn condition(node: &mut NodeView, kind: &str, status: &str) {
    node.conditions.push(ConditionView {
        kind: kind.to_owned(),
        status: status.to_owned(),
        transition: String::new(),
        heartbeat: String::new(),
    });
}

/// Reason and words; none: the node would be fenced.
fn asked(spec: Value, node: &NodeView) -> Option<(HeldBy, String)> {
    let kept_off = exclusion(&policy(spec), node, time(NOON))?;
    Some((kept_off.reason, kept_off.message))
}

#[test]
fn a_policy_that_says_nothing_fences_a_node_that_says_nothing() {
    assert_eq!(asked(json!({}), &node(|_| {})), None);
}

#[test]
fn each_sign_of_maintenance_counts_and_only_with_its_value() {
    let label = "remediation.medik8s.io/exclude-from-remediation";
    let signs = [
        (
            node(|node| condition(node, "MaintenanceInProgress", "True")),
            "condition MaintenanceInProgress=True",
        ),
        (
            node(|node| node.annotation_keys = vec!["weave.works/kured-reboot-in-progress".into()]),
            "annotation weave.works/kured-reboot-in-progress",
        ),
        (
            node(|node| node.annotation_keys = vec!["kured.dev/kured-reboot-in-progress".into()]),
            "annotation kured.dev/kured-reboot-in-progress",
        ),
        (
            node(|node| drop(node.labels.insert(label.into(), "true".into()))),
            "label remediation.medik8s.io/exclude-from-remediation=true",
        ),
    ];
    for (node, sign) in &signs {
        let (reason, message) = asked(json!({}), node).expect("kept off");
        assert_eq!(reason, HeldBy::Maintenance);
        for needed in [
            format!("Node worker-1 has {sign}"),
            "policy prod".to_owned(),
            "`exclusions.maintenance`".to_owned(),
            "end the maintenance, or create a NodeFence by hand".to_owned(),
        ] {
            assert!(message.contains(&needed), "{needed}: {message}");
        }
        let fence = json!({"exclusions": {"maintenance": "Fence"}});
        assert_eq!(asked(fence, node), None, "{sign}");
    }
    for other in [
        node(|node| condition(node, "MaintenanceInProgress", "False")),
        node(|node| condition(node, "MaintenanceInProgress", "Unknown")),
        node(|node| condition(node, "DrainInProgress", "True")),
        node(|node| drop(node.labels.insert(label.into(), "false".into()))),
    ] {
        assert_eq!(asked(json!({}), &other), None, "{other:?}");
    }
}

#[test]
fn each_exclusion_names_the_node_its_rule_and_the_way_out() {
    let cordoned = node(|node| node.unschedulable = true);
    let annotated = node(|node| node.annotation_keys = vec!["example.com/hands-off".into()]);
    let tainted = node(|node| {
        node.taints.push(TaintView {
            key: "example.com/lab".into(),
            value: None,
            effect: "NoSchedule".into(),
            time_added: None,
        });
    });
    let exclusions = |it: Value| json!({"exclusions": it});
    let by_annotation = || exclusions(json!({"annotations": ["example.com/hands-off"]}));
    let by_taint = || exclusions(json!({"taints": ["example.com/lab"]}));
    for (spec, node, needed) in [
        (
            json!({}),
            &cordoned,
            [
                "worker-1 is cordoned",
                "`exclusions.cordoned` is Skip",
                "kubectl uncordon worker-1",
            ],
        ),
        (
            by_annotation(),
            &annotated,
            [
                "worker-1 has annotation example.com/hands-off",
                "`exclusions.annotations`",
                "remove the annotation",
            ],
        ),
        (
            by_taint(),
            &tainted,
            [
                "worker-1 has taint example.com/lab",
                "`exclusions.taints`",
                "remove the taint",
            ],
        ),
    ] {
        let (reason, message) = asked(spec, node).expect("kept off");
        assert_eq!(reason, HeldBy::Excluded);
        for needed in needed {
            assert!(message.contains(needed), "{needed}: {message}");
        }
    }
    for (spec, node) in [
        (exclusions(json!({"cordoned": "Fence"})), &cordoned),
        (json!({}), &annotated),
        (by_taint(), &annotated),
        (json!({}), &tainted),
        (by_annotation(), &tainted),
    ] {
        assert_eq!(asked(spec.clone(), node), None, "{spec}");
    }
}

#[test]
fn a_pause_lasts_until_its_last_entry_has_expired() {
    let one = |expires: &str| json!({"name": "upgrade", "expireTime": expires});
    let for_ever = json!({"name": "ops", "reason": "new switches"});
    let (past, soon, later) = (
        "2026-11-21T11:59:59Z",
        "2026-11-21T12:00:01Z",
        "2026-11-21T13:00:00Z",
    );
    for (entries, until) in [
        (json!([]), None),
        (json!([one(past)]), None),
        // It counts until that moment, and not at it.
        (json!([one(NOON)]), None),
        (json!([one(soon)]), Some(Some(soon))),
        (json!([one(later), one(past), one(soon)]), Some(Some(later))),
        (json!([one(soon), for_ever]), Some(None)),
    ] {
        let policy = policy(json!({"pauseRequests": entries}));
        let kept_off = exclusion(&policy, &node(|_| {}), time(NOON));
        let until = until.map(|until| until.map(time));
        assert_eq!(kept_off.map(|it| it.until), until, "{entries}");
    }
    let entries = json!([one(later), one(past), for_ever]);
    let (reason, message) =
        asked(json!({"pauseRequests": entries}), &node(|_| {})).expect("paused");
    assert_eq!(reason, HeldBy::Paused);
    assert_eq!(
        message,
        "policy prod is paused by its `pauseRequests`: upgrade (until 2026-11-21T13:00:00Z), ops (new switches); remove the entry, or create a NodeFence by hand"
    );
}

/// The name of an entry is a key that anybody chooses.
#[test]
fn who_has_written_an_entry_is_told_where_its_name_is_another() {
    let told = |user: &str| {
        let entry = json!({"name": "bob", "user": user, "reason": "a move"});
        asked(json!({"pauseRequests": [entry]}), &node(|_| {}))
            .expect("paused")
            .1
    };
    assert!(told("eve").contains("bob (by eve, a move)"));
    assert!(told("bob").contains("bob (a move)"));
}

#[test]
fn a_pause_is_told_before_what_the_node_says() {
    let node = node(|node| {
        node.unschedulable = true;
        condition(node, "MaintenanceInProgress", "True");
    });
    let paused = json!({"pauseRequests": [{"name": "ops"}]});
    assert_eq!(asked(paused, &node).expect("kept off").0, HeldBy::Paused);
    assert_eq!(
        asked(json!({}), &node).expect("kept off").0,
        HeldBy::Maintenance
    );
}

#[test]
fn the_next_expiry_is_that_of_the_first_entry_of_any_policy() {
    let with = |expires: &str| {
        let entry = json!({"name": "upgrade", "expireTime": expires});
        policy(json!({"pauseRequests": [entry, {"name": "ops"}]}))
    };
    let policies = [
        with("2026-11-21T14:00:00Z"),
        with("2026-11-21T13:00:00Z"),
        with("2026-11-21T11:00:00Z"),
    ];
    let next = |policies: &[NodeFencingPolicy]| next_expiry(policies, time(NOON));
    assert_eq!(next(&policies), Some(time("2026-11-21T13:00:00Z")));
    assert_eq!(next(&policies[2..]), None);
    assert_eq!(next(&[]), None);
}

/// Whoever works on a machine must not have it turned on under their hands, whatever the policy says of nodes that are to be fenced.
#[test]
fn a_machine_that_somebody_works_on_is_left_off() {
    let left = |policy: Option<&NodeFencingPolicy>, node: &NodeView| {
        let left = power_on_exclusion(policy, node, time(NOON))?;
        Some((left.reason, left.message))
    };
    let fences_all = json!({"exclusions": {"maintenance": "Fence", "cordoned": "Fence"}});
    let fences_all = policy(fences_all);
    for policy in [None, Some(&fences_all)] {
        assert_eq!(left(policy, &node(|_| {})), None);
        let cordoned = node(|node| node.unschedulable = true);
        let (reason, message) = left(policy, &cordoned).expect("left off");
        assert_eq!(reason, HeldBy::Excluded);
        assert!(message.contains("kubectl uncordon worker-1"), "{message}");
        let maintained = node(|node| condition(node, "MaintenanceInProgress", "True"));
        let (reason, message) = left(policy, &maintained).expect("left off");
        assert_eq!(reason, HeldBy::Maintenance);
        assert!(message.contains("end the maintenance"), "{message}");
    }
    let paused = policy(json!({"pauseRequests": [{"name": "ops"}]}));
    let (reason, _) = left(Some(&paused), &node(|_| {})).expect("left off");
    assert_eq!(reason, HeldBy::Paused);
    assert_eq!(left(None, &node(|_| {})), None, "a human asks no policy");
}

/// In which mode it is nobody can tell; that the node is under maintenance comes after it, and a pause before.
#[test]
fn a_policy_with_a_window_that_cannot_be_used_leaves_every_node_alone() {
    let window = |zone: &str| json!([{"name": "night", "days": ["Mon"], "start": "22:00", "end": "06:00", "timeZone": zone, "mode": "Observe"}]);
    let cordoned = node(|node| node.unschedulable = true);
    let broken = json!({"windows": window("Moon/Base")});
    for node in [node(|_| {}), cordoned] {
        let (reason, message) = asked(broken.clone(), &node).expect("kept off");
        assert_eq!(reason, HeldBy::InvalidWindow);
        assert!(
            message.contains("`timeZone` Moon/Base") && message.contains("NodeFence by hand"),
            "{message}"
        );
    }
    let up = node(|_| {});
    assert_eq!(
        asked(json!({"windows": window("Europe/Berlin")}), &up),
        None
    );
    let paused = json!({"windows": window("Moon/Base"), "pauseRequests": [{"name": "ops"}]});
    assert_eq!(asked(paused, &up).expect("kept off").0, HeldBy::Paused);
}
