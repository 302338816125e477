//! Objects as the API server writes them, read by the slim types.

use super::super::quantity::parse;
use super::*;
use serde_json::{Value, json};

fn of<T: DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).expect("an object")
}

#[test]
fn a_node_is_read_with_what_it_has_to_give() {
    let node: WideNode = of(json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "w1", "uid": "u", "labels": {"zone": "a"}, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"unschedulable": true, "taints": [{"key": "k", "effect": "NoSchedule"}], "podCIDR": "10.0.0.0/24"},
        "status": {
            "allocatable": {"cpu": "3920m", "memory": "7Gi", "pods": "110"},
            "capacity": {"cpu": "4"},
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": null}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {"bootID": "b", "systemUUID": "s", "kubeletVersion": "v1.36.3"},
        },
    }));
    let view = node.view();
    assert_eq!((view.name.as_str(), view.boot_id.as_str()), ("w1", "b"));
    assert!(view.unschedulable && view.taint("k").is_some());
    assert_eq!(
        amounts(&node.status.allocatable).get("cpu"),
        parse("3.92").as_ref()
    );
}

#[test]
fn a_pod_of_another_node_is_read_with_what_it_asks_for() {
    let pod: AskingPod = of(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "nodeName": "w2",
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "250m"}, "limits": {"cpu": "1"}}}],
            "initContainers": [{"name": "i", "image": "i", "resources": {}, "restartPolicy": "Always"}],
        },
        "status": {"phase": "Running"},
    }));
    assert_eq!(pod.spec.node, "w2");
    assert_eq!(pod.spec.asked.amounts().get("cpu"), parse("250m").as_ref());
}

#[test]
fn a_deployment_is_read_with_its_strategy() {
    let deployment: SlimDeployment = of(json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"strategy": {"type": "Recreate"}, "selector": {}, "template": {}},
    }));
    assert_eq!(deployment.strategy(), "Recreate");
    assert_eq!(key(&deployment), ("shop".to_owned(), "web".to_owned()));
}

/// Whoever leads from the node dies with it; the others have to be elsewhere and ready.
#[test]
fn the_operators_replicas_are_counted_by_where_they_are() {
    let pod = |name: &str, node: &str, ready: &str| -> Pod {
        let args = ["--max-concurrent-fences=7"];
        of(json!({
            "metadata": {"name": name},
            "spec": {"nodeName": node, "containers": [{"name": "operator", "args": args}]},
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        }))
    };
    let pods = [
        pod("op-1", "w1", "True"),
        pod("op-10", "w2", "True"),
        pod("op-3", "w3", "False"),
    ];
    let of = |holder: &str| replicas(&pods, holder, "w1");
    let here = Replicas {
        leader_is_here: true,
        elsewhere: 1,
    };
    assert_eq!(of("op-1_0a1b2c3d"), here);
    assert!(!of("op-10_0a1b2c3d").leader_is_here);
    assert!(!of("").leader_is_here);
    assert_eq!(flag(&pods, CAP), Some("7"));
}

#[test]
fn what_cannot_be_read_is_told() {
    let mut gaps = Gaps::default();
    assert_eq!(gaps.note("claims", Ok(1)), Some(1));
    assert_eq!(
        gaps.note::<u8>("volumes", Err("forbidden".to_owned())),
        None
    );
    assert_eq!(gaps.0, ["volumes: forbidden"]);
}
