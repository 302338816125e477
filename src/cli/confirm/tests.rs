//! What is shown to whoever gives their word, to the last blank.

use super::*;
use crate::core::fixtures;
use crate::core::observed::ConditionView;
use serde_json::Value;

const SHOWN: &str = "\
Node worker-1 (nodefence/worker-1-5c0ffee5) of the cluster
https://kubernetes.example.com:6443
last heard of at 2027-01-02T17:55:00Z
DEVICE         POWER       READ
worker-1-bmc   Off         2m ago
pdu            <unknown>   <never>
The incident is Pending: the operator has not begun with it yet; should that
last, `kubectl fence check` says why
1 pod(s) are bound to it
NAMESPACE   POD          VOLUMES
shop        postgres-0   1
If this machine runs after all, two nodes will write to one volume.
";

#[test]
fn what_is_known_of_the_node_stands_before_the_question() {
    let bmc = json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "FenceDevice", "metadata": {"name": "worker-1-bmc"},
        "spec": {"nodeName": "worker-1", "ipmi": {"address": "bmc"}},
        "status": {"powerState": "Off", "lastSuccessTime": "2027-01-02T17:58:00Z"},
    });
    let silent = json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "FenceDevice", "metadata": {"name": "pdu"},
        "spec": {"nodeName": "worker-1", "ipmi": {"address": "pdu"}},
    });
    let claim = json!({"name": "data", "persistentVolumeClaim": {"claimName": "data"}});
    let pod = json!({
        "metadata": {"name": "postgres-0", "namespace": "shop"},
        "spec": {"containers": [], "volumes": [claim, {"name": "cache", "emptyDir": {}}]},
    });
    let device = |it| serde_json::from_value(it).expect("a FenceDevice");
    let scene = Scene {
        node: NodeView {
            name: "worker-1".to_owned(),
            conditions: vec![ConditionView {
                kind: "Ready".to_owned(),
                status: "Unknown".to_owned(),
                transition: "2027-01-02T17:56:00Z".to_owned(),
                heartbeat: "2027-01-02T17:55:00Z".to_owned(),
            }],
            ..fixtures::node()
        },
        devices: vec![device(bmc), device(silent)],
        pods: Ok(vec![serde_json::from_value(pod).expect("a pod")]),
    };
    let now = "2027-01-02T18:00:00Z".parse().expect("a time");
    let server = "https://kubernetes.example.com:6443";
    let fence = json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence", "metadata": {"name": "worker-1-5c0ffee5"},
        "spec": {"nodeName": "worker-1", "trigger": {"type": "Manual"}},
    });
    let fence = serde_json::from_value(fence).expect("a NodeFence");
    let shown = shown(&scene, &fence, server, now);
    assert_eq!(shown, SHOWN);
    assert!(
        shown
            .lines()
            .all(|it| it.len() <= super::super::table::WIDTH)
    );
}

/// A node that is silent since 18:00, and a device that read this at that time.
fn scene(power: &str, read: &str) -> (Scene, NodeFence) {
    let node: Value = json!({
        "metadata": {"name": "node-1", "uid": "uid-1"},
        "status": {"conditions": [{"type": "Ready", "status": "Unknown", "lastTransitionTime": "2027-01-02T18:00:00Z"}]},
    });
    let node: SlimNode = serde_json::from_value(node).expect("a Node");
    let device = json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "FenceDevice", "metadata": {"name": "node-1-bmc"},
        "spec": {"nodeName": "node-1", "driver": {"redfish": {"address": "https://192.0.2.1"}}},
        "status": {"powerState": power, "lastSuccessTime": read},
    });
    let fence = json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence", "metadata": {"name": "node-1-now-abcde"},
        "spec": {"nodeName": "node-1", "trigger": {"type": "Manual"}, "fence": {"mode": "ConfirmOnly"}},
    });
    let scene = Scene {
        node: node.view(),
        devices: vec![serde_json::from_value(device).expect("a FenceDevice")],
        pods: Ok(Vec::new()),
    };
    (scene, serde_json::from_value(fence).expect("a NodeFence"))
}

#[test]
fn a_device_that_read_on_in_the_outage_is_told_with_how_it_is_read_anew() {
    let (scene, fence) = scene("On", "2027-01-02T18:00:20Z");
    let words = against(&scene, &fence).expect_err("it reads On");
    for part in [
        "FenceDevice node-1-bmc has read On at 2027-01-02T18:00:20Z",
        "kubectl fence release node-1-now-abcde --reason WHY",
        "kubectl fence test node-1 --device node-1-bmc",
        "kubectl fence now node-1 --mode ConfirmOnly --reason WHY",
    ] {
        assert!(words.contains(part), "no `{part}` in {words}");
    }
}

#[test]
fn a_reading_from_before_the_outage_is_shown_as_one_and_speaks_against_nothing() {
    let now = "2027-01-02T18:01:00Z".parse().expect("a time");
    let plain = "NO DEVICE'S STATUS IS OF THIS OUTAGE";
    let (old, fence) = scene("On", "2027-01-02T17:59:00Z");
    against(&old, &fence).expect("it says nothing of the outage");
    let text = shown(&old, &fence, "https://192.0.2.9", now);
    assert!(text.contains("2m ago, before the outage\n"), "{text}");
    assert!(text.contains(plain), "{text}");
    assert!(!text.contains("Type the node's name"), "{text}");
    let (new, fence) = scene("Off", "2027-01-02T18:00:50Z");
    let text = shown(&new, &fence, "https://192.0.2.9", now);
    assert!(
        text.contains("10s ago\n") && !text.contains(plain),
        "{text}"
    );
}

#[test]
fn a_word_is_refused_while_the_incident_reads_on_and_where_it_would_move_nothing() {
    let now = |spec: Value, words: &str| {
        let fence = json!({
            "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence", "metadata": {"name": "node-1-5c0ffee5"},
            "spec": spec,
            "status": {"conditions": [{
                "type": "Escalated", "status": "True", "reason": "StillOn", "message": words,
                "lastTransitionTime": "2027-01-02T18:00:30Z",
            }]},
        });
        serde_json::from_value::<NodeFence>(fence).expect("a NodeFence")
    };
    let proves = json!({"nodeName": "node-1", "trigger": {"type": "Manual"}, "fence": {"mode": "ConfirmOnly"}});
    let (mut scene, _) = scene("On", "2027-01-02T17:59:00Z");
    let on = now(proves.clone(), "FenceDevice node-1-bmc reads On (On)");
    let refused = against(&scene, &on).expect_err("it reads On");
    assert!(refused.contains(
        "FenceDevice node-1-bmc reads On (On): the operator takes your word for nothing"
    ));
    // Whoever has pulled the cords has left the outlets on.
    let outlets = json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "FenceDevice", "metadata": {"name": "node-1-pdu"},
        "spec": {"nodeName": "node-1", "pdu": {"address": "192.0.2.2", "model": "APCRackPDU2", "outlets": [3]}},
        "status": {"powerState": "On", "lastSuccessTime": "2027-01-02T18:00:20Z"},
    });
    let outlets = serde_json::from_value(outlets).expect("a FenceDevice");
    scene.devices.push(outlets);
    let on = now(proves, "FenceDevice node-1-pdu reads On (1)");
    assert_eq!(against(&scene, &on), Ok(()));
    // What is unknown speaks against no word, and a mark without a record is released by one.
    let unknown = json!({"nodeName": "node-1", "trigger": {"type": "Manual"}, "fence": {"mode": "ConfirmOnly"}});
    let unknown = now(
        unknown,
        "FenceDevice node-1-bmc reads Unknown (Paused): mode ConfirmOnly never",
    );
    assert_eq!(against(&scene, &unknown), Ok(()));
    let adopted = json!({"nodeName": "node-1", "trigger": {"type": "External"}, "fence": {"mode": "Observe"}});
    assert_eq!(
        against(&scene, &now(adopted, "FenceDevice node-1-pdu reads On (1)")),
        Ok(())
    );
    let observes = json!({"nodeName": "node-1", "trigger": {"type": "NodeCondition"}, "fence": {"mode": "Observe"}});
    let refused = against(&scene, &now(observes, "")).expect_err("it only observes");
    assert!(
        refused.contains("kubectl fence now node-1 --mode ConfirmOnly"),
        "{refused}"
    );
}
