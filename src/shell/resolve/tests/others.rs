//! What other NodeFences have done to the node since its release, for whether its machine is turned on.

use super::*;
use fencing_core::fixtures;
use fencing_core::power_on::PowerOn;

const BEFORE: &str = "2026-01-01T00:00:00Z";
const AFTER: &str = "2026-01-01T00:09:00Z";

/// Released a minute after that.
fn record() -> NodeFenceStatus {
    let record = json!({"taintAppliedTime": "2026-01-01T00:05:00Z", "taintRemovedTime": "2026-01-01T00:10:00Z"});
    serde_json::from_value(record).expect("a record")
}

fn wanted() -> PowerOn {
    PowerOn {
        delay: Duration::ZERO,
        timeout: Duration::ZERO,
        stop: None,
        hold: None,
    }
}

/// A NodeFence with this record.
fn other(name: &str, node: &str, status: &Value) -> NodeFence {
    let mut other = serde_json::to_value(fence("PowerOff", 3)).expect("an object");
    other["metadata"]["name"] = json!(name);
    other["spec"]["nodeName"] = json!(node);
    other["status"] = status.clone();
    serde_json::from_value(other).expect("a NodeFence")
}

/// What NodeFence `fence` of worker-1, with this record, says beside the other one.
fn stop(status: &NodeFenceStatus, other: NodeFence, wanted: Option<PowerOn>) -> Option<String> {
    let settings = Settings {
        power_on: wanted,
        ..fixtures::settings()
    };
    let settings = by_others(settings, status, || vec![other]);
    settings.power_on.and_then(|wanted| wanted.stop)
}

fn ended() -> Value {
    json!([{
        "type": "Succeeded", "status": "False", "reason": "Aborted", "message": "", "lastTransitionTime": AFTER,
    }])
}

/// S11, S23: another NodeFence that was admitted, or has commanded anything, since the taint went on has the node, whether it is open or not.
#[test]
fn another_nodefence_that_has_had_the_node_since_stops_a_power_on() {
    let off = |at: &str| json!([{"device": "bmc", "action": "PowerOff", "startTime": at}]);
    for (name, node, status, stops) in [
        ("other", "worker-1", json!({}), false),
        ("other", "worker-1", json!({"approvedTime": BEFORE}), false),
        ("other", "worker-1", json!({"approvedTime": AFTER}), true),
        ("other", "worker-1", json!({"attempts": off(BEFORE)}), false),
        ("other", "worker-1", json!({"attempts": off(AFTER)}), true),
        ("other", "worker-1", json!({"claim": "other-n1"}), true),
        (
            "other",
            "worker-1",
            json!({"claim": "other-n1", "conditions": ended()}),
            false,
        ),
        (
            "other",
            "worker-1",
            json!({"approvedTime": AFTER, "conditions": ended()}),
            true,
        ),
        (
            "other",
            "worker-1",
            json!({"approvedTime": AFTER, "nodeUID": "uid-2"}),
            false,
        ),
        ("other", "worker-2", json!({"approvedTime": AFTER}), false),
        ("fence", "worker-1", json!({"approvedTime": AFTER}), false),
    ] {
        let stopped = stop(&record(), other(name, node, &status), Some(wanted()));
        assert_eq!(stopped.is_some(), stops, "{name} {node} {status}");
        assert!(stopped.is_none_or(|why| why.contains("NodeFence other")));
    }
}

#[test]
fn it_is_told_after_a_no_and_not_before_the_taint() {
    let taken = || other("other", "worker-1", &json!({"approvedTime": AFTER}));
    let denied = PowerOn {
        stop: Some("denied".to_owned()),
        ..wanted()
    };
    let why = stop(&record(), taken(), Some(denied));
    assert_eq!(why.as_deref(), Some("denied"));
    assert_eq!(stop(&record(), taken(), None), None);
    let none = NodeFenceStatus::default();
    assert_eq!(stop(&none, taken(), Some(wanted())), None);
}
