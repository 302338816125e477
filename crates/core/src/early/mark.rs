//! The writes by which a Node is reported as not Ready before Kubernetes has noticed, and its pods with it.

use super::Verdict;
use crate::observed::NodeView;
use crate::taint::NodePatch;
use serde_json::{Value, json};
use std::time::Duration;

/// Reason of the condition `Ready` that the operator has set. Kubernetes' own is `NodeStatusUnknown`.
pub const REASON: &str = "PoweredOff";

/// Reason of a pod's condition `Ready` that the operator has set. Kubernetes sets none.
pub const POD_REASON: &str = "NodePoweredOff";

/// Sets `Ready` from `True` to `Unknown` at `date` (RFC 3339, seconds), by a JSON Patch of `nodes/status`. `says`: who reads Off. None: the Node has no
/// such condition.
///
/// What node-lifecycle writes, but for the reason, and the kubelet's `lastHeartbeatTime` is left alone as there: from another one on the grace period
/// would begin anew (`pkg/controller/nodelifecycle/node_lifecycle_controller.go`, `tryUpdateNodeHealth`, v1.36). It is tested, so that a report of
/// the kubelet that comes first refuses the write.
pub fn unknown(node: &NodeView, says: &str, date: &str, verdict: &Verdict) -> Option<NodePatch> {
    let place = node.conditions.iter().position(|it| it.kind == "Ready")?;
    let ready = node.conditions.get(place)?;
    let path = |field: &str| format!("/status/conditions/{place}/{field}");
    let test = |path: String, value: &str| json!({"op": "test", "path": path, "value": value});
    let set = |field: &str, value: &str| json!({"op": "add", "path": path(field), "value": value});
    let message = format!("{says}, and the kubelet is silent: reported by node-fencing-operator");
    let operations = vec![
        test("/metadata/uid".to_owned(), &node.uid),
        test("/status/nodeInfo/bootID".to_owned(), &node.boot_id),
        test(path("type"), "Ready"),
        test(path("status"), "True"),
        test(path("lastHeartbeatTime"), &ready.heartbeat),
        set("status", "Unknown"),
        set("reason", REASON),
        set("message", &message),
        set("lastTransitionTime", date),
    ];
    Some(NodePatch {
        node: node.name.clone(),
        operations: Value::Array(operations),
        valid_from: Duration::ZERO,
        valid_until: Some(verdict.valid_until()),
    })
}

/// Sets `Ready` of a pod of this uid from `True` to `False` at `date` (RFC 3339, seconds), by a JSON Patch of `pods/status`; `place`: of the condition.
///
/// Kubernetes does so for all pods of a node that it gives up itself, and not where `Ready` of the Node is not `True` any more when it looks
/// (`pkg/controller/nodelifecycle/node_lifecycle_controller.go`, `MarkPodsNotReady`, v1.36): one that stays would be served for ever.
pub fn pod_not_ready(uid: &str, place: usize, node: &str, date: &str) -> Value {
    let path = |field: &str| format!("/status/conditions/{place}/{field}");
    let message = format!("the machine of Node {node} is off: reported by node-fencing-operator");
    json!([
        {"op": "test", "path": "/metadata/uid", "value": uid},
        {"op": "test", "path": path("type"), "value": "Ready"},
        {"op": "test", "path": path("status"), "value": "True"},
        {"op": "replace", "path": path("status"), "value": "False"},
        {"op": "add", "path": path("reason"), "value": POD_REASON},
        {"op": "add", "path": path("message"), "value": message},
        {"op": "add", "path": path("lastTransitionTime"), "value": date},
    ])
}
