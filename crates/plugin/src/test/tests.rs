//! What a probe that was asked for says, and whether it is the answer.

use super::*;
use serde_json::{Value, json};

fn device(spec: Value, status: Value) -> FenceDevice {
    let device = json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "FenceDevice",
        "metadata": {"name": "bmc"}, "spec": spec, "status": status,
    });
    serde_json::from_value(device).expect("a FenceDevice")
}

fn of_one_node(status: Value) -> FenceDevice {
    let spec = json!({
        "nodeName": "worker-1", "redfish": {"address": "https://127.0.0.1"}, "credentialsRef": {"name": "bmc"},
    });
    device(spec, status)
}

fn ready(status: &str) -> Value {
    json!([{
        "type": "Ready", "status": status, "reason": "Probed", "message": "fencing works",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }])
}

fn at(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

#[test]
fn what_was_found_before_the_request_is_no_answer() {
    let asked = at("2026-01-01T00:00:10Z");
    for (probed, answered) in [
        ("2026-01-01T00:00:09Z", false),
        ("2026-01-01T00:00:10Z", true),
    ] {
        let status = json!({"conditions": ready("True"), "lastProbeTime": probed});
        let told = told(&of_one_node(status), "worker-1", asked);
        assert_eq!(told.answered, answered);
        assert_eq!(told.message == "Probed: fencing works", answered);
        assert!(told.ready);
    }
    assert!(!told(&of_one_node(json!({})), "worker-1", asked).answered);
}

/// The operator takes a request for answered that is older than its last probe, by its own clock.
#[test]
fn a_request_is_newer_than_the_last_probe_whatever_the_clocks_say() {
    let now = at("2026-01-01T00:00:10Z");
    let probed = |at: &str| of_one_node(json!({"lastProbeTime": at}));
    assert_eq!(asked_at(&of_one_node(json!({})), now), now);
    assert_eq!(asked_at(&probed("2026-01-01T00:00:05Z"), now), now);
    let ahead = asked_at(&probed("2026-01-01T00:01:00Z"), now);
    assert_eq!(ahead, at("2026-01-01T00:01:01Z"));
}

#[test]
fn one_of_a_fleet_is_ready_for_a_node_that_it_does_not_name() {
    let spec = json!({
        "nodeSelector": {}, "redfish": {"address": "https://${node.name}.bmc"}, "credentialsRef": {"name": "bmc"},
    });
    let status = json!({
        "conditions": ready("False"), "lastProbeTime": "2026-01-01T00:00:10Z", "notReadyNodes": ["worker-2"],
        "nodes": {"total": 2, "ready": 1},
    });
    let fleet = device(spec, status);
    let asked = at("2026-01-01T00:00:10Z");
    assert!(told(&fleet, "worker-1", asked).ready);
    assert!(!told(&fleet, "worker-2", asked).ready);
    // More are not ready than it names: whether this one is nobody knows.
    let mut fleet = fleet;
    let status = fleet.status.as_mut().expect("a status");
    status.nodes.as_mut().expect("numbers").total = 3;
    assert!(!told(&fleet, "worker-1", asked).ready);
}

#[test]
fn the_screen_says_why_a_fence_would_not_work() {
    let status = json!({
        "conditions": [{
            "type": "Ready", "status": "False", "reason": "AuthFailed", "message": "the BMC refuses user and password",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }],
        "lastProbeTime": "2026-01-01T00:00:10Z", "powerState": "On",
    });
    let asked = at("2026-01-01T00:00:10Z");
    let test = Test {
        node: "worker-1".to_owned(),
        devices: vec![told(&of_one_node(status), "worker-1", asked)],
    };
    assert_eq!(
        screen(&test),
        "\
DEVICE   REACHABLE   LOGIN     IDENTITY   POWER   READY
bmc      Unknown     Unknown   Unknown    On      False
  bmc: AuthFailed: the BMC refuses user and password
"
    );
}
