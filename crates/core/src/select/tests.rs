use super::*;
use crate::observed::ConditionView;
use serde_json::json;

fn policy(name: &str, priority: i32, rack: Option<&str>) -> NodeFencingPolicy {
    let labels = rack
        .map(|rack| json!({"rack": rack}))
        .unwrap_or_else(|| json!({}));
    let spec = json!({"nodeSelector": {"matchLabels": labels}, "priority": priority});
    NodeFencingPolicy::new(name, serde_json::from_value(spec).expect("a spec"))
}

fn node(rack: &str) -> NodeView {
    NodeView {
        name: "w1".to_owned(),
        uid: "u1".to_owned(),
        labels: BTreeMap::from([("rack".to_owned(), rack.to_owned())]),
        annotation_keys: Vec::new(),
        unschedulable: false,
        taints: Vec::new(),
        conditions: Vec::new(),
        boot_id: String::new(),
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

/// Name of the governing policy, if there is one.
fn name(policies: &[NodeFencingPolicy]) -> Option<String> {
    governing(policies, &node("7"))
        .expect("no conflict")?
        .metadata
        .name
        .clone()
}

#[test]
fn the_highest_priority_that_selects_the_node_governs() {
    let policies = [
        policy("all", 0, None),
        policy("rack7", 5, Some("7")),
        policy("rack8", 9, Some("8")),
    ];
    assert_eq!(name(&policies).as_deref(), Some("rack7"));
    assert_eq!(name(&[]), None);
    assert_eq!(name(&[policy("rack8", 9, Some("8"))]), None);
}

#[test]
fn equal_highest_priorities_are_a_conflict_and_a_lower_one_does_not_step_in() {
    let policies = [
        policy("b", 5, None),
        policy("low", 0, None),
        policy("a", 5, Some("7")),
    ];
    let conflict = governing(&policies, &node("7")).expect_err("a conflict");
    assert_eq!(conflict.policies, ["a", "b"]);
    assert_eq!(conflict.priority, 5);
    let message = conflict.to_string();
    assert!(
        message.contains("a, b") && message.contains("w1"),
        "{message}"
    );
    // Below another policy's priority it does no harm.
    let mut with_winner = policies.to_vec();
    with_winner.push(policy("winner", 6, None));
    assert_eq!(name(&with_winner).as_deref(), Some("winner"));
}

#[test]
fn a_policy_that_is_being_deleted_governs_nothing() {
    let mut going = policy("going", 5, None);
    let now = jiff::Timestamp::UNIX_EPOCH;
    going.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now));
    assert_eq!(
        name(&[policy("stays", 5, None), going]).as_deref(),
        Some("stays")
    );
}

/// Conditions of a node: type, status, transition.
type Shown = [(&'static str, &'static str, &'static str)];

/// A node with these conditions.
fn showing(conditions: &[(&str, &str, &str)]) -> NodeView {
    let condition = |(kind, status, transition): &(&str, &str, &str)| ConditionView {
        kind: (*kind).to_owned(),
        status: (*status).to_owned(),
        transition: (*transition).to_owned(),
        heartbeat: String::new(),
    };
    NodeView {
        conditions: conditions.iter().map(condition).collect(),
        boot_id: "boot-1".to_owned(),
        ..node("7")
    }
}

fn unhealthy(kind: &str, status: &str, duration_seconds: u32) -> UnhealthyCondition {
    let condition = json!({"type": kind, "status": status, "durationSeconds": duration_seconds});
    serde_json::from_value(condition).expect("a condition")
}

#[test]
fn a_condition_counts_from_when_this_process_first_saw_it() {
    const NOT_READY: [(&str, &str, &str); 1] = [("Ready", "Unknown", "12:00")];
    let asked = unhealthy("Ready", "Unknown", 60);
    // What is seen at 100 s, 110 s, 120 s, and so on; and when 60 s of it are over.
    let table: [(&str, &[&Shown], Option<u64>); 7] = [
        ("once", &[&NOT_READY], Some(160)),
        (
            "again and again",
            &[&NOT_READY, &NOT_READY, &NOT_READY],
            Some(160),
        ),
        ("not at all", &[&[("Ready", "True", "11:00")]], None),
        ("another status", &[&[("Ready", "False", "12:00")]], None),
        (
            "recovered",
            &[&NOT_READY, &[("Ready", "True", "12:01")]],
            None,
        ),
        (
            "vanished, and back",
            &[&NOT_READY, &[], &NOT_READY],
            Some(180),
        ),
        (
            "recovered unseen, and failed anew",
            &[&NOT_READY, &[("Ready", "Unknown", "12:05")]],
            Some(170),
        ),
    ];
    for (what, answers, due) in table {
        let mut onsets = Onsets::default();
        for (at, conditions) in (100..).step_by(10).zip(answers) {
            onsets.note(&showing(conditions), Duration::from_secs(at));
        }
        assert_eq!(onsets.due(&asked), due.map(Duration::from_secs), "{what}");
    }
}

#[test]
fn the_first_condition_to_fall_due_counts() {
    let mut onsets = Onsets::default();
    let seen = showing(&[("Ready", "Unknown", "1"), ("Disk", "True", "1")]);
    onsets.note(&seen, Duration::from_secs(10));
    let conditions = [
        unhealthy("Ready", "Unknown", 60),
        unhealthy("Disk", "True", 30),
        unhealthy("Absent", "True", 10),
    ];
    let (first, due) = first_due(&conditions, &onsets).expect("one is due");
    assert_eq!((first.type_.as_str(), due.as_secs()), ("Disk", 40));
    assert_eq!(first_due(&[], &onsets), None);
}

#[test]
fn a_node_that_never_reported_or_is_ready_is_not_fenceable() {
    let not_ready = || showing(&[("Ready", "Unknown", "1")]);
    assert_eq!(fenceable(&not_ready()), Ok(()));
    assert_eq!(fenceable(&showing(&[("Ready", "False", "1")])), Ok(()));
    let silent = NodeView {
        boot_id: String::new(),
        ..not_ready()
    };
    for node in [showing(&[]), showing(&[("Ready", "True", "1")]), silent] {
        assert!(fenceable(&node).is_err(), "{node:?}");
    }
}

/// HOLES D3: as NodeRestriction has it.
#[test]
fn a_kubelet_sets_its_own_labels_but_not_those_that_kubernetes_keeps() {
    for (key, is_its_own) in [
        ("tier", true),
        ("example.com/tier", true),
        ("notkubernetes.io/tier", true),
        ("kubernetes.io/hostname", true),
        ("topology.kubernetes.io/zone", true),
        ("node.kubernetes.io/instance-type", true),
        ("x.kubelet.kubernetes.io/tier", true),
        ("node-role.kubernetes.io/worker", false),
        ("node-restriction.kubernetes.io/tier", false),
        ("example.node-restriction.kubernetes.io/tier", false),
        ("kubernetes.io/tier", false),
        ("x.k8s.io/tier", false),
    ] {
        let by_value = json!({"matchLabels": {"a.k8s.io/b": "", key: "x"}});
        let by_key = json!({"matchExpressions": [{"key": key, "operator": "DoesNotExist"}]});
        for selector in [by_value, by_key] {
            let selector: LabelSelector = serde_json::from_value(selector).expect("a selector");
            assert_eq!(kubelet_label(&selector).is_some(), is_its_own, "{key}");
        }
    }
    assert_eq!(kubelet_label(&LabelSelector::default()), None);
}
