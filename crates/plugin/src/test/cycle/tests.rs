//! What keeps a machine from being turned off for a test.

use super::*;
use serde_json::{Value, json};

fn pod(change: Value) -> Pod {
    let mut pod =
        json!({"metadata": {"name": "db-0", "namespace": "work"}, "spec": {"containers": []}});
    json_patch::merge(&mut pod, &change);
    serde_json::from_value(pod).expect("a pod")
}

#[test]
fn what_a_drain_takes_away_is_work() {
    assert!(is_work(&pod(json!({}))));
    assert!(is_work(&pod(json!({"status": {"phase": "Pending"}}))));
    for phase in ["Succeeded", "Failed"] {
        assert!(!is_work(&pod(json!({"status": {"phase": phase}}))));
    }
    let owned = |kind: &str, controller: bool| {
        let owner = json!({"apiVersion": "apps/v1", "kind": kind, "name": "it", "uid": "1", "controller": controller});
        pod(json!({"metadata": {"ownerReferences": [owner]}}))
    };
    assert!(!is_work(&owned("DaemonSet", true)));
    assert!(is_work(&owned("DaemonSet", false)));
    assert!(is_work(&owned("StatefulSet", true)));
    let mirror = json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": "1"}}});
    assert!(!is_work(&pod(mirror)));
}

/// The test asks for a cordoned node, and no such one is turned on.
#[test]
fn who_begins_is_told_to_uncordon_the_node_while_its_machine_is_off() {
    for is_to_be_typed in [true, false] {
        let told = opening("w1", "https://api", is_to_be_typed);
        let flat = told.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [
            "kubectl uncordon w1",
            "at stage PoweringOn: the machine is off, nothing is attached",
        ] {
            assert!(flat.contains(part), "no `{part}` in {told}");
        }
        assert_eq!(flat.ends_with("to start:"), is_to_be_typed, "{told}");
    }
}

/// Whoever changes it changes what is said.
#[test]
fn the_time_to_uncordon_the_node_is_that_of_the_settings() {
    assert_eq!(PowerOnSettings::default().timeout_seconds, 15 * 60);
    assert!(opening("w1", "s", false).contains("15"));
}

#[test]
fn no_machine_is_cycled_under_the_hands_of_who_has_denied_a_fence() {
    let node = NodeView {
        name: "w-1".to_owned(),
        ..fencing_core::fixtures::node()
    };
    let fence = |decision: &str| -> NodeFence {
        let approval = json!({"decision": decision, "user": "ann", "reason": "we work on it", "time": "2027-01-02T18:00:00Z"});
        let fence = json!({
            "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence", "metadata": {"name": "w-1-5c0ffee5"},
            "spec": {"nodeName": "w-1", "trigger": {"type": "Manual"}, "approval": approval},
        });
        serde_json::from_value(fence).expect("a NodeFence")
    };
    let policy = json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFencingPolicy", "metadata": {"name": "all"},
        "spec": {"nodeSelector": {}, "fence": {"mode": "PowerOff", "levels": [{"name": "bmc"}]}},
    });
    let policies = [serde_json::from_value(policy).expect("a policy")];
    let wished = |of: NodeFence| {
        let wish = Wish {
            mode: Some(FenceMode::PowerOff),
            turns_on: None,
            user: "bob".to_owned(),
            reason: "test".to_owned(),
        };
        wished(&node, &policies, &[of], wish)
    };
    let mut over = fence("Approved");
    let ended = json!({"conditions": [{
        "type": "Succeeded", "status": "True", "reason": "Recovered", "message": "", "lastTransitionTime": "2027-01-02T18:00:00Z",
    }]});
    over.status = Some(serde_json::from_value(ended).expect("a status"));
    wished(over).expect("nobody is at it");
    let words = wished(fence("Denied")).expect_err("ann is at it");
    assert!(words.contains("was denied by ann"), "{words}");
    let way_out = "valid until its NodeFence is deleted; ask that person, then: kubectl delete nodefence w-1-5c0ffee5 ";
    assert!(words.contains(way_out), "{words}");
    let mut of_boot = fence("Denied");
    of_boot.spec.boot_id = Some(node.boot_id.clone());
    let words = wished(of_boot).expect_err("ann is at it");
    assert!(
        words.contains("valid until the machine boots or"),
        "{words}"
    );
}
