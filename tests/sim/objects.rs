//! The objects of a cluster, and small questions about them.

use crate::libc::elapsed;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

/// Where the operator lives.
pub const NAMESPACE: &str = "node-fencing-system";
/// Lease of the operator's election.
pub const ELECTION: &str = "node-fencing-operator";
/// Where the workload lives.
pub const WORK: &str = "default";
/// Where kubelets have their Leases.
pub const NODE_LEASES: &str = "kube-node-lease";
/// The taint that frees volumes.
pub const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
/// Under this mark the operator itself takes the volumes, and the Node last.
pub const DETACHING: &str = "nodefencing.io/detaching";
/// The operator's claim.
pub const CLAIM: &str = "nodefencing.io/claim";
/// The operator's mark on a machine that was down.
pub const QUARANTINE: &str = "nodefencing.io/quarantine";
/// Why a Node is Unknown that the operator has reported early.
pub const POWERED_OFF: &str = "PoweredOff";
/// Set by the controller-manager.
pub const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// The Secret of all BMCs, and the password in it.
pub const SECRET: &str = "bmc";
/// The password that the BMCs take.
pub const PASSWORD: &str = "secret";

/// Now, as objects write it.
pub fn now() -> String {
    let begun = Timestamp::from_second(1_767_225_600).expect("a time");
    let gone = SignedDuration::try_from(elapsed()).unwrap_or_default();
    let now = begun.checked_add(gone).unwrap_or(begun);
    now.round(jiff::Unit::Microsecond)
        .unwrap_or(now)
        .to_string()
}

/// A Node as its kubelet registers it.
pub fn node(name: &str, machine: &str, uuid: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {},
        "status": {
            "conditions": [condition("False")],
            "nodeInfo": {"bootID": "", "systemUUID": uuid},
            "addresses": [{"type": "InternalIP", "address": format!("{machine}.sim")}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        },
    })
}

/// The condition Ready.
pub fn condition(status: &str) -> Value {
    json!({"type": "Ready", "status": status, "lastHeartbeatTime": now(), "lastTransitionTime": now()})
}

/// What a pod is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Writes to a volume.
    Database,
    /// Has none.
    Web,
    /// Runs on every node and tolerates everything.
    Agent,
    /// The mirror of a static pod.
    Static,
}

/// A pod that is bound to this node.
pub fn pod(name: &str, node: &str, role: Role) -> Value {
    let unreachable = json!({"key": UNREACHABLE, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
    let mut pod = json!({
        "metadata": {"name": name, "namespace": WORK, "labels": {"app": name}},
        "spec": {"nodeName": node, "containers": [{"name": "main"}], "tolerations": [unreachable]},
        "status": {"phase": "Pending"},
    });
    match role {
        Role::Database => {
            let claim = json!({"claimName": format!("data-{name}")});
            pod["spec"]["volumes"] = json!([{"name": "data", "persistentVolumeClaim": claim}]);
        }
        Role::Web => {}
        Role::Agent => pod["spec"]["tolerations"] = json!([{"operator": "Exists"}]),
        Role::Static => {
            pod["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "hash"});
            pod["spec"]["tolerations"] = json!([{"operator": "Exists", "effect": "NoExecute"}]);
        }
    }
    pod
}

/// The PersistentVolume of a pod, if it has one.
pub fn volume(pod: &Value) -> Option<String> {
    let claim = pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"].as_str()?;
    Some(format!("pv-{claim}"))
}

/// The VolumeAttachment of a volume at a node.
pub fn attachment(volume: &str, node: &str) -> Value {
    json!({
        "metadata": {"name": format!("csi-{volume}-{node}"), "finalizers": ["external-attacher/sim"]},
        "spec": {"attacher": "sim", "nodeName": node, "source": {"persistentVolumeName": volume}},
        "status": {"attached": false},
    })
}

/// A text of an object.
pub fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The taints of a Node.
pub fn taints(node: &Value) -> &[Value] {
    node["spec"]["taints"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default()
}

/// The taint of this key.
pub fn taint<'a>(node: &'a Value, key: &str) -> Option<&'a Value> {
    taints(node).iter().find(|taint| taint["key"] == key)
}

/// Under which of these the volumes of the Node may be taken.
pub const EFFECTS: [&str; 2] = [OUT_OF_SERVICE, DETACHING];

/// Value of the taint of this key.
pub fn value_of(node: &Value, key: &str) -> Option<String> {
    taint(node, key).map(|it| text(it, "/value").to_owned())
}

/// `status` of the condition Ready.
pub fn ready(node: &Value) -> &str {
    let conditions = node["status"]["conditions"].as_array();
    let ready = conditions
        .into_iter()
        .flatten()
        .find(|one| one["type"] == "Ready");
    ready.map_or("", |ready| text(ready, "/status"))
}

/// `reason` of the condition Ready.
pub fn reason(node: &Value) -> &str {
    let conditions = node["status"]["conditions"].as_array();
    let mut all = conditions.into_iter().flatten();
    let ready = all.find(|one| one["type"] == "Ready");
    ready.map_or("", |ready| text(ready, "/reason"))
}

/// Is the object being deleted?
pub fn is_leaving(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

/// Does the pod tolerate the taint, at least for now?
pub fn tolerates(pod: &Value, taint: &Value) -> bool {
    let tolerations = pod["spec"]["tolerations"].as_array();
    tolerations.into_iter().flatten().any(|one| {
        let key = one["key"].is_null() || one["key"] == taint["key"];
        let effect = one["effect"].is_null() || one["effect"] == taint["effect"];
        key && effect && (one["operator"] == "Exists" || one["value"] == taint["value"])
    })
}

/// Does it tolerate out-of-service for good?
pub fn tolerates_out_of_service(pod: &Value) -> bool {
    tolerates(
        pod,
        &json!({"key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute"}),
    )
}

/// Has the NodeFence ended?
pub fn is_ended(fence: &Value) -> bool {
    let conditions = fence["status"]["conditions"].as_array();
    let succeeded = conditions
        .into_iter()
        .flatten()
        .find(|one| one["type"] == "Succeeded");
    succeeded.is_some_and(|condition| condition["status"] != "Unknown")
}

/// The reason of `Succeeded`.
pub fn stage(fence: &Value) -> &str {
    let conditions = fence["status"]["conditions"].as_array();
    let succeeded = conditions
        .into_iter()
        .flatten()
        .find(|one| one["type"] == "Succeeded");
    succeeded.map_or("", |condition| text(condition, "/reason"))
}
