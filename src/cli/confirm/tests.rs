//! What is shown to whoever gives their word, to the last blank.

use super::*;
use crate::core::fixtures;
use crate::core::observed::ConditionView;

const SHOWN: &str = "\
Node worker-1 (nodefence/worker-1-5c0ffee5) of the cluster
https://kubernetes.example.com:6443
last heard of at 2027-01-02T17:55:00Z
DEVICE         POWER       READ
worker-1-bmc   Off         2m ago
pdu            <unknown>   <never>
1 pod(s) are bound to it
NAMESPACE   POD          VOLUMES
shop        postgres-0   1
If this machine runs after all, two nodes will write to one volume. Type the
node's name to confirm that it has no power:
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
    let shown = shown(&scene, "worker-1-5c0ffee5", server, now);
    assert_eq!(shown, SHOWN);
    assert!(
        shown
            .lines()
            .all(|it| it.len() <= super::super::table::WIDTH)
    );
}
