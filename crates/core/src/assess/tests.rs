use super::*;
use crate::observed::ConditionView;
use crate::protection::levels::{POWER_OFF_DENIED, Readiness, stored_readiness};
use crate::stage::Stage;
use fencing_api::conditions;
use fencing_api::conditions::{HELD, SUCCEEDED};
use fencing_api::fence::NodeFenceStatus;
use serde_json::{Value, json};
mod edges;
mod found;
mod same;
mod waits;
mod windows;

const NOW: i64 = 1_000_000;

fn wall(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a second")
}

fn node(name: &str, ready: &str) -> NodeView {
    NodeView {
        name: name.to_owned(),
        uid: format!("{name}-uid"),
        labels: BTreeMap::from([("name".to_owned(), name.to_owned())]),
        annotation_keys: Vec::new(),
        unschedulable: false,
        taints: Vec::new(),
        conditions: vec![ConditionView {
            kind: "Ready".to_owned(),
            status: ready.to_owned(),
            transition: String::new(),
            heartbeat: String::new(),
        }],
        boot_id: "b1".to_owned(),
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

/// A policy for all nodes in mode PowerOff with one level, changed by `extra`.
fn policy(name: &str, extra: Value) -> NodeFencingPolicy {
    let mut spec = json!({
        "nodeSelector": {},
        "fence": {"mode": "PowerOff", "levels": [{"name": "bmc"}]},
        "budget": {"maxConcurrent": 2, "minHealthy": 0},
    });
    json_patch::merge(&mut spec, &extra);
    let mut policy = NodeFencingPolicy::new(name, serde_json::from_value(spec).expect("a spec"));
    policy.metadata.generation = Some(3);
    policy
}

/// A device of this node, with the status and the reason of its condition `Ready`.
fn device(node: &str, labels: Value, status: &str, reason: &str) -> FenceDevice {
    serde_json::from_value(json!({
        "apiVersion": "nodefencing.io/v1alpha1",
        "kind": "FenceDevice",
        "metadata": {"name": format!("{node}-{labels}"), "labels": labels, "generation": 1},
        "spec": {"nodeName": node},
        "status": {"observedGeneration": 1, "conditions": [condition(READY, status, reason)]},
    }))
    .expect("a device")
}

fn condition(kind: &str, status: &str, reason: &str) -> Value {
    json!({
        "type": kind, "status": status, "reason": reason, "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    })
}

fn ready_device(node: &str) -> FenceDevice {
    device(node, json!({}), "True", "Probed")
}

fn fence(policy: &str, stage: Stage, status: &str, approved: Option<i64>) -> NodeFence {
    let mut fence: NodeFence = serde_json::from_value(json!({
        "apiVersion": "nodefencing.io/v1alpha1",
        "kind": "NodeFence",
        "metadata": {"name": "f"},
        "spec": {"nodeName": "w1", "policyName": policy, "trigger": {"type": "NodeCondition"}},
        "status": {"conditions": [condition(SUCCEEDED, status, &stage.to_string())]},
    }))
    .expect("a fence");
    fence.status = fence.status.map(|status| NodeFenceStatus {
        approved_time: approved.map(wall),
        detected_time: approved.map(wall),
        claim: approved.map(|_| "f.1".to_owned()),
        ..status
    });
    fence
}

#[derive(Default)]
struct Cluster {
    policies: Vec<NodeFencingPolicy>,
    nodes: Vec<NodeView>,
    devices: Vec<FenceDevice>,
    fences: Vec<NodeFence>,
    attached: Attached,
    served: Served,
    delays: Vec<Delayed>,
    frozen: Option<&'static str>,
}

impl Cluster {
    /// Three Ready nodes, each with a ready device, and these policies.
    fn healthy(policies: Vec<NodeFencingPolicy>) -> Self {
        let names = ["w1", "w2", "w3"];
        Self {
            policies,
            nodes: names.map(|name| node(name, "True")).into(),
            devices: names.map(ready_device).into(),
            ..Self::default()
        }
    }

    fn assess(&self) -> Assessment {
        let devices: Vec<&FenceDevice> = self.devices.iter().collect();
        assess(&World {
            policies: &self.policies,
            nodes: &self.nodes.iter().collect::<Vec<_>>(),
            devices: &devices,
            fences: &self.fences.iter().collect::<Vec<_>>(),
            attached: &self.attached,
            served: &self.served,
            delays: &self.delays,
            frozen: self.frozen,
            lacks: Some("RBAC does not grant the operator delete nodes"),
            lacks_early: Some("RBAC does not grant the operator: patch nodes/status"),
            found: &|_, _| None,
            targets: &same::target,
            now: wall(NOW),
        })
    }

    fn status(&self, policy: &str) -> NodeFencingPolicyStatus {
        self.assess().statuses.remove(policy).expect("the policy")
    }
}

/// `status/reason` and message of condition `Ready`.
fn ready(status: &NodeFencingPolicyStatus) -> (String, String) {
    let ready = conditions::find(&status.conditions, READY).expect("Ready");
    (
        format!("{}/{}", ready.status, ready.reason),
        ready.message.clone(),
    )
}

fn numbers(status: &NodeFencingPolicyStatus) -> [u32; 5] {
    let nodes = status.nodes.clone().expect("numbers");
    [
        nodes.selected,
        nodes.healthy,
        nodes.unhealthy,
        nodes.protected,
        nodes.unprotected,
    ]
}

#[test]
fn a_healthy_cluster_is_protected() {
    let cluster = Cluster::healthy(vec![policy("p", json!({}))]);
    let status = cluster.status("p");
    assert_eq!(ready(&status).0, "True/Active");
    assert_eq!(numbers(&status), [3, 3, 0, 3, 0]);
    assert_eq!(status.budget_remaining, Some(2));
    assert_eq!(
        (status.open_incidents, status.held_incidents),
        (Some(0), Some(0))
    );
    assert_eq!(status.observed_generation, Some(3));
    assert!(
        cluster
            .assess()
            .protected
            .values()
            .all(|is_protected| *is_protected)
    );
}

#[test]
fn nodes_without_a_ready_device_are_named() {
    let mut cluster = Cluster::healthy(vec![policy("p", json!({}))]);
    cluster.devices.pop();
    if let Some(device) = cluster.devices.first_mut() {
        *device = self::device("w1", json!({}), "False", "Timeout");
    }
    let status = cluster.status("p");
    assert_eq!(numbers(&status), [3, 3, 0, 1, 2]);
    assert_eq!(status.unprotected_nodes, ["w1", "w3"]);
    let (shown, words) = ready(&status);
    assert_eq!(shown, "True/UnprotectedNodes");
    assert!(
        words.contains("2 of 3") && words.contains("w1, w3"),
        "{words}"
    );
}

#[test]
fn no_ready_device_at_all_is_not_ready_unless_only_observing() {
    let mut cluster = Cluster::healthy(vec![policy("p", json!({}))]);
    cluster.devices = vec![device("w1", json!({}), "False", "AuthFailed")];
    assert_eq!(ready(&cluster.status("p")).0, "False/NoReadyDevice");
    cluster.policies = vec![policy("p", json!({"fence": {"mode": "Observe"}}))];
    assert_eq!(ready(&cluster.status("p")).0, "True/Observing");
}

#[test]
fn a_device_judged_by_older_settings_does_not_count() {
    let mut cluster = Cluster::healthy(vec![policy("p", json!({}))]);
    for device in &mut cluster.devices {
        device.metadata.generation = Some(2);
    }
    assert_eq!(numbers(&cluster.status("p")), [3, 3, 0, 0, 3]);
}

#[test]
fn without_a_hard_off_only_confirm_only_is_protected() {
    let mut cluster = Cluster::healthy(vec![policy("p", json!({}))]);
    cluster.devices = vec![device("w1", json!({}), "False", POWER_OFF_DENIED)];
    assert_eq!(numbers(&cluster.status("p")), [3, 3, 0, 0, 3]);
    cluster.policies = vec![policy("p", json!({"fence": {"mode": "ConfirmOnly"}}))];
    assert_eq!(numbers(&cluster.status("p")), [3, 3, 0, 1, 2]);
}

#[test]
fn a_level_of_two_needs_both_or_one() {
    let (a, b) = (json!({"side": "a"}), json!({"side": "b"}));
    let with = |require: &str| {
        let level = json!({"name": "outlets", "require": require});
        let mut cluster =
            Cluster::healthy(vec![policy("p", json!({"fence": {"levels": [level]}}))]);
        cluster.devices = vec![
            device("w1", a.clone(), "True", "Probed"),
            device("w1", b.clone(), "False", "Timeout"),
            device("w2", a.clone(), "True", "Probed"),
            device("w2", b.clone(), "True", "Probed"),
        ];
        cluster.assess().protected
    };
    let expected = |w1: bool| {
        BTreeMap::from(
            [("w1", w1), ("w2", true), ("w3", false)].map(|(node, is)| (node.to_owned(), is)),
        )
    };
    assert_eq!(with("All"), expected(false));
    assert_eq!(with("Any"), expected(true));
}

#[test]
fn a_second_level_protects_too_and_one_that_matches_nothing_is_named() {
    let level =
        |name: &str| json!({"name": name, "deviceSelector": {"matchLabels": {"tier": name}}});
    let levels = json!({"fence": {"levels": [level("bmc"), level("pdu")]}});
    let mut cluster = Cluster::healthy(vec![policy("p", levels)]);
    cluster.devices = vec![device("w1", json!({"tier": "pdu"}), "True", "Probed")];
    let status = cluster.status("p");
    assert_eq!(numbers(&status), [3, 3, 0, 1, 2]);
    let (shown, words) = ready(&status);
    assert_eq!(shown, "True/LevelWithoutDevice");
    assert!(
        words.contains("`bmc`") && !words.contains("`pdu`"),
        "{words}"
    );
    cluster.devices.clear();
    assert_eq!(ready(&cluster.status("p")).0, "False/LevelWithoutDevice");
}

#[test]
fn equal_priority_is_a_conflict_that_names_both_and_the_node() {
    let only_w1 = json!({"nodeSelector": {"matchLabels": {"name": "w1"}}});
    let cluster = Cluster::healthy(vec![policy("all", json!({})), policy("one", only_w1)]);
    for name in ["all", "one"] {
        let (shown, words) = ready(&cluster.status(name));
        assert_eq!(shown, "False/Conflict");
        let is_stalled = |it: &NodeFencingPolicyStatus| {
            conditions::find(&it.conditions, conditions::STALLED).is_some()
        };
        assert!(is_stalled(&cluster.status(name)));
        for part in ["all, one", "w1", "`priority`"] {
            assert!(words.contains(part), "{words}");
        }
    }
    assert_eq!(numbers(&cluster.status("all")), [3, 3, 0, 2, 1]);
    assert_eq!(numbers(&cluster.status("one")), [1, 1, 0, 0, 1]);
    assert_eq!(cluster.assess().protected.get("w1"), Some(&false));
}

#[test]
fn a_higher_priority_takes_its_nodes() {
    let first = json!({"priority": 1, "nodeSelector": {"matchLabels": {"name": "w1"}}});
    let cluster = Cluster::healthy(vec![policy("all", json!({})), policy("one", first)]);
    assert_eq!(numbers(&cluster.status("all")), [2, 2, 0, 2, 0]);
    assert_eq!(numbers(&cluster.status("one")), [1, 1, 0, 1, 0]);
    assert_eq!(ready(&cluster.status("all")).0, "True/Active");
}

#[test]
fn what_takes_rights_that_nobody_gave_or_is_paused_is_not_ready() {
    let table = [
        (
            json!({"recovery": {"strategy": "DeleteNode"}}),
            "False/Unsupported",
            "delete nodes",
        ),
        (
            json!({"pauseRequests": [{"name": "ops", "reason": "move"}]}),
            "False/Paused",
            "ops (move)",
        ),
        (
            json!({"nodeSelector": {"matchLabels": {"no": "node"}}}),
            "True/NoNodes",
            "`nodeSelector`",
        ),
    ];
    for (extra, expected, part) in table {
        let (shown, words) = ready(&Cluster::healthy(vec![policy("p", extra)]).status("p"));
        assert_eq!(shown, expected);
        assert!(words.contains(part), "{words}");
    }
}

#[test]
fn warnings_stand_in_the_message() {
    let hasty = json!({"unhealthyConditions": [{"type": "Ready", "status": "Unknown", "durationSeconds": 10}]});
    let (shown, words) = ready(&Cluster::healthy(vec![policy("p", hasty)]).status("p"));
    assert_eq!(shown, "True/Active");
    assert!(
        words.contains("warning: ") && words.contains("10 s"),
        "{words}"
    );
    let early = json!({"earlyDetection": "Enabled", "unhealthyConditions": [{"type": "Ready", "status": "False", "durationSeconds": 60}]});
    let (shown, words) = ready(&Cluster::healthy(vec![policy("p", early)]).status("p"));
    assert_eq!(shown, "True/Active", "it works as before");
    for part in ["patch nodes/status", "none of `unhealthyConditions`"] {
        assert!(words.contains(part), "{words}");
    }
    let mut ceph = Cluster::healthy(vec![policy("p", json!({}))]);
    let holders = |node: &str| {
        let driver = "rook-ceph.rbd.csi.ceph.com".to_owned();
        Attached::from([(driver, BTreeSet::from([node.to_owned()]))])
    };
    ceph.attached = holders("w2");
    assert!(ready(&ceph.status("p")).1.contains("AfterRecovery"));
    ceph.attached = holders("a node of another policy");
    assert!(!ready(&ceph.status("p")).1.contains("AfterRecovery"));
}

#[test]
fn incidents_are_counted_and_take_places_in_the_budget() {
    let mut cluster = Cluster::healthy(vec![policy("p", json!({}))]);
    cluster.fences = vec![
        fence("p", Stage::Detaching, "Unknown", Some(NOW - 60)),
        fence("p", Stage::Held, "Unknown", None),
        fence("p", Stage::Recovered, "True", Some(NOW - 7200)),
        fence("other", Stage::Detaching, "Unknown", Some(NOW)),
    ];
    let status = cluster.status("p");
    assert_eq!(
        (status.open_incidents, status.held_incidents),
        (Some(2), Some(1))
    );
    assert_eq!(status.budget_remaining, Some(1));
    assert_eq!(status.last_incident_time, Some(wall(NOW - 60)));
}

#[test]
fn the_budget_is_spent_by_the_hour_and_by_a_storm() {
    let mut cluster = Cluster::healthy(vec![policy("p", json!({}))]);
    let spent = fence("p", Stage::Recovered, "True", Some(NOW - 60));
    cluster.fences = vec![spent.clone(), spent.clone(), spent];
    assert_eq!(cluster.status("p").budget_remaining, Some(0));
    let mut storm = Cluster::healthy(vec![policy("p", json!({"budget": {"minHealthy": "51%"}}))]);
    storm.nodes = vec![
        node("w1", "Unknown"),
        node("w2", "Unknown"),
        node("w3", "True"),
    ];
    let status = storm.status("p");
    assert_eq!(status.budget_remaining, Some(0));
    assert_eq!(numbers(&status), [3, 1, 2, 3, 0]);
}
