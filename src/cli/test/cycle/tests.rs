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
