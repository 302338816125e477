//! What stands in the way, each obstacle by itself, and that the rest is told beside it.

use super::*;
use crate::control;
use fencing_core::fixtures;
use serde_json::{Value, json};

const NOW: i64 = 1_800_000_000;
/// A day before.
const LONG_AGO: i64 = NOW - 86_400;

mod levels;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a second")
}

fn node(name: &str) -> NodeView {
    NodeView {
        uid: format!("{name}-uid"),
        ..fixtures::ready_node(name)
    }
}

fn policy(name: &str, extra: Value) -> NodeFencingPolicy {
    let mut spec = json!({
        "nodeSelector": {},
        "fence": {"mode": "PowerOff", "levels": [{"name": "bmc"}]},
    });
    json_patch::merge(&mut spec, &extra);
    NodeFencingPolicy::new(name, serde_json::from_value(spec).expect("a spec"))
}

fn device(node: &str, status: &str, extra: Value) -> FenceDevice {
    let condition = json!({
        "type": "Ready", "status": status, "reason": "Probed", "message": "as it is",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let mut whole = json!({
        "apiVersion": "nodefencing.io/v1alpha1",
        "kind": "FenceDevice",
        "metadata": {"name": format!("{node}-bmc"), "generation": 1},
        "spec": {"nodeName": node, "ipmi": {"address": "bmc"}},
        "status": {
            "observedGeneration": 1,
            "conditions": [condition],
            "positiveControls": [control::tests::row(&self::node(node), "On")],
        },
    });
    json_patch::merge(&mut whole, &extra);
    serde_json::from_value(whole).expect("a device")
}

fn fence(node: &str, policy: &str, status: Value) -> NodeFence {
    let trigger =
        json!({"type": "NodeCondition", "conditionType": "Ready", "conditionStatus": "Unknown"});
    let fence = json!({
        "metadata": {"name": format!("{node}-5c0ffee5"), "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"nodeName": node, "policyName": policy, "trigger": trigger},
        "status": status,
    });
    serde_json::from_value(fence).expect("a NodeFence")
}

/// Three nodes that are well, one policy for all of them, a device for the first.
struct Case {
    policies: Vec<NodeFencingPolicy>,
    nodes: Vec<NodeView>,
    pods: Vec<PodView>,
    devices: Vec<FenceDevice>,
    fences: Vec<NodeFence>,
    replicas: Option<Replicas>,
    created: Timestamp,
}

impl Case {
    fn of(extra: Value) -> Self {
        Self {
            policies: vec![policy("all", extra)],
            nodes: ["w1", "w2", "w3"].map(node).into(),
            pods: Vec::new(),
            devices: vec![device("w1", "True", json!({}))],
            fences: Vec::new(),
            replicas: None,
            created: at(LONG_AGO),
        }
    }

    fn judge<T>(&self, of: impl FnOnce(Judged<'_>) -> T) -> T {
        of(judge(&Fleet {
            policies: &self.policies,
            nodes: &self.nodes,
            node: &self.nodes[0],
            created: self.created,
            pods: &self.pods,
            devices: &self.devices,
            fences: &self.fences,
            replicas: self.replicas,
            cap: None,
            grace: 50.0,
            now: at(NOW),
        }))
    }

    fn obstacles(&self) -> Vec<String> {
        self.judge(|it| {
            it.verdict
                .obstacles
                .into_iter()
                .map(|it| it.reason)
                .collect()
        })
    }
}

#[test]
fn nothing_is_in_the_way_of_a_policy_that_can_act() {
    let case = Case::of(json!({}));
    assert_eq!(case.obstacles(), Vec::<String>::new());
    case.judge(|it| {
        assert_eq!(it.wait, Some((60.0, "Ready=Unknown".to_owned())));
        assert_eq!(it.verdict.mode, Some(FenceMode::PowerOff));
        assert_eq!(it.verdict.policy.as_deref(), Some("all"));
        let budget = it.verdict.budget.expect("words");
        assert!(budget.contains("2 of 3 nodes"), "{budget}");
        assert!(it.verdict.levels.iter().all(|it| it.ready));
    });
}

#[test]
fn each_obstacle_is_told() {
    let of = |extra: Value| Case::of(extra).obstacles();
    assert_eq!(
        of(json!({"nodeSelector": {"matchLabels": {"no": "node"}}})),
        ["NoPolicy"]
    );
    assert_eq!(of(json!({"fence": {"mode": "Observe"}})), ["Observe"]);
    assert_eq!(
        of(json!({"fence": {"approval": {"mode": "Manual"}}})),
        ["AwaitingApproval"]
    );
    assert_eq!(
        of(json!({"recovery": {"strategy": "None"}})),
        ["RecoveryNone"]
    );
    assert_eq!(
        of(json!({"pauseRequests": [{"name": "upgrade"}]})),
        ["Paused"]
    );
    assert_eq!(of(json!({"budget": {"minHealthy": 3}})), ["MinHealthy"]);
    let condition = json!([{"type": "Ready", "status": "False", "durationSeconds": 60}]);
    assert_eq!(
        of(json!({"unhealthyConditions": condition})),
        ["NoCondition"]
    );
    let mut conflict = Case::of(json!({}));
    conflict.policies.push(policy("other", json!({})));
    assert_eq!(conflict.obstacles(), ["Conflict"]);
}

/// One look is enough to clear the way.
#[test]
fn all_obstacles_are_told_together() {
    let mut case = Case::of(
        json!({"pauseRequests": [{"name": "upgrade"}], "fence": {"approval": {"mode": "Manual"}}}),
    );
    case.nodes[0].unschedulable = true;
    case.devices.clear();
    // The first of what makes the policy keep its hands off is its own.
    assert_eq!(
        case.obstacles(),
        ["Paused", "AwaitingApproval", "NoReadyDevice"]
    );
}

/// What a human is told to type works, once there is something to answer.
#[test]
fn what_a_human_may_lift_is_told_with_its_command() {
    let message = |extra: Value| {
        let case = Case::of(extra);
        case.judge(|it| it.verdict.obstacles[0].message.clone())
    };
    let approve = "; once it is open: kubectl fence approve w1 --reason WHY";
    for held in [
        json!({"fence": {"approval": {"mode": "Manual"}}}),
        json!({"budget": {"minHealthy": 3}}),
    ] {
        let told = message(held);
        assert!(told.ends_with(approve), "{told}");
    }
    let told = message(json!({"pauseRequests": [{"name": "upgrade"}]}));
    let resume = "kubectl fence resume all --name WHOSE --reason WHY";
    assert!(told.ends_with(resume), "{told}");
    // No approval lifts what protects the control plane.
    let mut case = Case::of(json!({}));
    let label = (
        "node-role.kubernetes.io/control-plane".to_owned(),
        String::new(),
    );
    for node in &mut case.nodes[..2] {
        node.labels.extend([label.clone()]);
    }
    case.judge(|it| {
        let held = &it.verdict.obstacles[0];
        assert_eq!(held.reason, "Quorum");
        assert!(!held.message.contains("approve w1"), "{held:?}");
    });
}

/// What ends before the incident would begin holds nothing.
#[test]
fn a_pause_counts_if_it_lasts_until_the_incident_begins() {
    let paused_for = |seconds: i64| {
        let request = json!({"name": "upgrade", "expireTime": at(NOW + seconds).to_string()});
        Case::of(json!({"pauseRequests": [request]})).obstacles()
    };
    assert_eq!(paused_for(109), Vec::<String>::new());
    assert_eq!(paused_for(111), ["Paused"]);
}

#[test]
fn a_node_under_maintenance_or_cordoned_is_left_alone() {
    let mut case = Case::of(json!({}));
    case.nodes[0].unschedulable = true;
    assert_eq!(case.obstacles(), ["Excluded"]);
    let mut case = Case::of(json!({}));
    let label = (
        "remediation.medik8s.io/exclude-from-remediation".to_owned(),
        "true".to_owned(),
    );
    case.nodes[0].labels.extend([label]);
    assert_eq!(case.obstacles(), ["Maintenance"]);
}

/// The Node is judged as it would look then, and node-lifecycle taints it.
#[test]
fn a_policy_that_excludes_unreachable_nodes_never_acts() {
    let excludes = json!({"exclusions": {"taints": [UNREACHABLE]}});
    assert_eq!(Case::of(excludes).obstacles(), ["Excluded"]);
}

#[test]
fn without_a_ready_device_nothing_is_proven() {
    let mut case = Case::of(json!({}));
    case.devices = vec![device("w1", "False", json!({}))];
    assert_eq!(case.obstacles(), ["NoReadyDevice"]);
    case.judge(|it| {
        let level = it.verdict.levels.first().expect("a level");
        let device = level.devices.first().expect("a device");
        assert_eq!(device.readiness, "NotReady");
        assert_eq!(device.message.as_deref(), Some("Probed: as it is"));
    });
    case.devices = vec![device("w2", "True", json!({}))];
    assert_eq!(case.obstacles(), ["NoReadyDevice"]);
}

/// Levels are tried in their order, and one that is not ready costs its time.
#[test]
fn an_incident_of_the_node_is_no_obstacle_and_those_of_others_take_their_places() {
    let mut case = Case::of(json!({}));
    case.fences = vec![fence("w1", "all", json!({"claim": "w1-5c0ffee5-abcdefgh"}))];
    assert_eq!(case.obstacles(), Vec::<String>::new());
    // Its own mark goes with it.
    case.nodes[0].taints = vec![fixtures::out_of_service()];
    assert_eq!(case.obstacles(), Vec::<String>::new());
    case.fences.clear();
    assert_eq!(case.obstacles(), ["ForeignOutOfService"]);
    case.nodes[0].taints.clear();
    case.fences = vec![fence("w2", "all", json!({"claim": "w2-5c0ffee5-abcdefgh"}))];
    assert_eq!(case.obstacles(), ["MaxConcurrent"]);
    // Nothing is held by one that only waits for a human, but it goes first.
    case.fences = vec![fence("w2", "all", json!({}))];
    assert_eq!(case.obstacles(), Vec::<String>::new());
}

#[test]
fn fences_of_the_last_hour_count() {
    let mut case = Case::of(json!({"budget": {"maxPerHour": 1}}));
    let ended = |ago: i64| {
        let succeeded = json!({"type": "Succeeded", "status": "True", "reason": "Recovered", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let approved = at(NOW - ago).to_string();
        fence(
            "w2",
            "all",
            json!({"conditions": [succeeded], "approvedTime": approved}),
        )
    };
    case.fences = vec![ended(3500)];
    assert_eq!(case.obstacles(), ["MaxPerHour"]);
    case.fences = vec![ended(3700)];
    assert_eq!(case.obstacles(), Vec::<String>::new());
}

/// A node that has just joined is fenced all the same, later.
#[test]
fn a_young_node_has_to_wait() {
    let mut case = Case::of(json!({}));
    case.created = at(NOW - 100);
    assert_eq!(case.obstacles(), Vec::<String>::new());
    case.judge(|it| {
        let (until, words) = it.delay.expect("a wait");
        assert_eq!(until, 200.0);
        assert!(words.contains("minUptimeSeconds"), "{words}");
    });
}

#[test]
fn somebody_has_to_be_left_to_fence_it() {
    let mut case = Case::of(json!({}));
    let replicas = |elsewhere| {
        Some(Replicas {
            leader_is_here: true,
            elsewhere,
        })
    };
    case.replicas = replicas(0);
    assert_eq!(case.obstacles(), ["NoReplica"]);
    case.replicas = replicas(1);
    assert_eq!(case.obstacles(), Vec::<String>::new());
}

/// What only the operator knows is taken from what it says of the policy.
#[test]
fn a_frozen_operator_fences_nothing() {
    let mut case = Case::of(json!({}));
    let ready = json!({"type": "Ready", "status": "False", "reason": "ClusterWentBack", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    case.policies[0].status =
        serde_json::from_value(json!({"conditions": [ready]})).expect("a status");
    assert_eq!(case.obstacles(), ["ClusterWentBack"]);
}

/// S1: no volume is taken from a pod that comes back to the node.
#[test]
fn a_node_that_is_deleted_lets_no_pod_come_back() {
    let mut case = Case::of(json!({"recovery": {"strategy": "DeleteNode"}}));
    case.pods = vec![PodView {
        tolerates_out_of_service: true,
        attachable: true,
        deleting: false,
        ..fixtures::pod("db-0")
    }];
    assert_eq!(case.obstacles(), ["PodComesBack"]);
}

#[test]
fn a_device_tells_whether_its_off_counts_for_the_node() {
    let row = |reads: &str| json!({"status": {"positiveControls": [control::tests::row(&node("w1"), reads)]}});
    let none = json!({"status": {"positiveControls": null}});
    for (extra, reason, words) in [
        (row("On"), "Shown", "has never read Off"),
        (row("Off"), "OffWhileRunning", "reads Off while the"),
        (none, "NoPositiveControl", "probe it: kubectl fence test w1"),
    ] {
        let mut case = Case::of(json!({}));
        case.devices = vec![device("w1", "True", extra)];
        let plan = case.judge(|it| it.verdict.levels[0].devices[0].clone());
        assert_eq!(plan.positive_control, reason);
        assert!(plan.message.is_some_and(|it| it.contains(words)));
    }
}
