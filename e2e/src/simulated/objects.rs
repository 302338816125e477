//! The objects that a simulated kubelet writes: Node, CSINode, Lease and the status of pods. No decisions here.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ContainerStatus, Node, Pod, Taint, Toleration};
use k8s_openapi::api::storage::v1::CSINode;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::{FleetOptions, MachineSpec};

/// What a node says about itself in `status`, as far as it changes while the machine runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Report {
    /// Ready, or the message that says why not.
    pub ready: Result<(), String>,
    /// `status.volumesInUse`.
    pub volumes_in_use: BTreeSet<String>,
}

/// The unique name of a CSI volume in `volumesInUse` and `volumesAttached`.
pub(super) fn unique_volume_name(driver: &str, handle: &str) -> String {
    format!("kubernetes.io/csi/{driver}^{handle}")
}

/// The labels that the kubelet sets on its Node.
pub(super) fn node_labels(spec: &MachineSpec) -> BTreeMap<String, String> {
    let mut labels = spec.labels.clone();
    let mut set = |key: &str, value: &str| labels.insert(key.to_owned(), value.to_owned());
    set("kubernetes.io/hostname", &spec.name);
    set("kubernetes.io/os", "linux");
    set("kubernetes.io/arch", "amd64");
    if let Some(zone) = &spec.zone {
        set("topology.kubernetes.io/zone", zone);
    }
    labels
}

/// The Node as the kubelet registers it.
pub(super) fn node(spec: &MachineSpec, status: &Value) -> Node {
    let node = json!({
        "metadata": {
            "name": spec.name,
            "labels": node_labels(spec),
            "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
        },
        "status": status["status"],
    });
    serde_json::from_value(node).expect("a Node")
}

/// The patch of the Node's status.
pub(super) fn node_status(
    spec: &MachineSpec,
    options: &FleetOptions,
    boot_id: &str,
    report: &Report,
) -> Value {
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let condition = |kind: &str, status: &str, reason: &str, message: &str| json!({"type": kind, "status": status, "reason": reason, "message": message, "lastHeartbeatTime": now});
    let ready = match &report.ready {
        Ok(()) => condition(
            "Ready",
            "True",
            "KubeletReady",
            "kubelet is posting ready status",
        ),
        Err(message) => condition("Ready", "False", "KubeletNotReady", message),
    };
    let resources =
        json!({"cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi"});
    json!({"status": {
        "addresses": [
            {"type": "InternalIP", "address": spec.address},
            {"type": "Hostname", "address": spec.name},
        ],
        "capacity": resources,
        "allocatable": resources,
        "conditions": [
            condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
            condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
            condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
            ready,
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "architecture": "amd64",
            "bootID": boot_id,
            "containerRuntimeVersion": "simulated://1",
            "kernelVersion": "simulated",
            "kubeProxyVersion": "",
            "kubeletVersion": options.kubelet_version,
            "machineID": spec.system_uuid.replace('-', ""),
            "operatingSystem": "linux",
            "osImage": "Simulated Linux",
            "systemUUID": spec.system_uuid,
        },
        "volumesInUse": report.volumes_in_use,
    }})
}

/// The status of the Node's condition Ready.
pub(super) fn is_ready(node: &Node) -> bool {
    let conditions = node
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// The CSINode with the one driver of the lab.
pub(super) fn csi_node(spec: &MachineSpec, options: &FleetOptions, node_uid: &str) -> CSINode {
    let csi_node = json!({
        "metadata": {
            "name": spec.name,
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": spec.name, "uid": node_uid}],
        },
        "spec": {"drivers": [{"name": options.csi_driver, "nodeID": spec.name, "topologyKeys": []}]},
    });
    serde_json::from_value(csi_node).expect("a CSINode")
}

/// The Lease of the Node. It belongs to the Node if the kubelet has seen that one's UID yet.
pub(super) fn lease(spec: &MachineSpec, options: &FleetOptions, node_uid: Option<&str>) -> Lease {
    let owner =
        |uid: &str| json!([{"apiVersion": "v1", "kind": "Node", "name": spec.name, "uid": uid}]);
    let lease = json!({
        "metadata": {"name": spec.name, "ownerReferences": node_uid.map(owner)},
        "spec": {
            "holderIdentity": spec.name,
            "leaseDurationSeconds": options.lease_duration_seconds,
            "renewTime": Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string(),
        },
    });
    serde_json::from_value(lease).expect("a Lease")
}

/// The address of each pod of a node, on paper: that of the node would be one of 127.0.0.0/8, which no EndpointSlice takes.
fn pod_address(spec: &MachineSpec) -> Option<IpAddr> {
    match spec.address? {
        IpAddr::V4(node) if node.is_loopback() => {
            let [_, _, high, low] = node.octets();
            Some(Ipv4Addr::new(10, 88, high, low).into())
        }
        other => Some(other),
    }
}

/// The mirror pod that shows the static pod `name` of a node.
pub(super) fn mirror_pod(spec: &MachineSpec, name: &str, node_uid: &str) -> Pod {
    let pod = json!({
        "metadata": {
            "name": format!("{name}-{}", spec.name),
            "namespace": "default",
            "labels": {"app": name},
            "annotations": {
                "kubernetes.io/config.mirror": "1",
                "kubernetes.io/config.hash": "1",
                "kubernetes.io/config.source": "file",
            },
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": spec.name, "uid": node_uid, "controller": true}],
        },
        "spec": {
            "nodeName": spec.name,
            "hostNetwork": true,
            "containers": [{"name": name, "image": "static"}],
            "tolerations": [{"operator": "Exists", "effect": "NoExecute"}],
        },
    });
    serde_json::from_value(pod).expect("a Pod")
}

/// What became of a pod's containers in this boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// They run.
    Running,
    /// They exited after SIGTERM.
    Exited,
    /// They were killed when the grace period was over, or died with the power in an earlier boot.
    Killed,
}

/// The patch of a pod's status when its containers have started or stopped.
pub(super) fn pod_status(pod: &Pod, spec: &MachineSpec, boot_id: &str, phase: Phase) -> Value {
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let running = phase == Phase::Running;
    let before = pod
        .status
        .as_ref()
        .and_then(|status| status.container_statuses.clone())
        .unwrap_or_default();
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let statuses = containers.map(|container| {
        let before = before.iter().find(|status| status.name == container.name);
        container_status(container, before, boot_id, &now, phase)
    });
    let ready = if running { "True" } else { "False" };
    let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "lastTransitionTime": now});
    let started = pod
        .status
        .as_ref()
        .and_then(|status| status.start_time.as_ref());
    json!({
        "metadata": {"uid": pod.uid()},
        "status": {
            "phase": match phase {
                Phase::Running => "Running",
                Phase::Exited => "Succeeded",
                Phase::Killed => "Failed",
            },
            "startTime": started.map_or(json!(now), |time| json!(time)),
            "hostIP": spec.address,
            "podIP": pod_address(spec),
            "podIPs": [{"ip": pod_address(spec)}],
            "conditions": [
                condition("PodReadyToStartContainers", ready),
                condition("Initialized", "True"),
                condition("Ready", ready),
                condition("ContainersReady", ready),
            ],
            "containerStatuses": statuses.collect::<Vec<_>>(),
        },
    })
}

fn container_status(
    container: &k8s_openapi::api::core::v1::Container,
    before: Option<&ContainerStatus>,
    boot_id: &str,
    now: &str,
    phase: Phase,
) -> Value {
    let (name, image) = (
        &container.name,
        container.image.as_deref().unwrap_or_default(),
    );
    let id = format!("simulated://{boot_id}-{name}");
    // A container of an earlier boot counts as one restart; one that this boot reported already does not.
    let restarts = before.map_or(0, |before| {
        before.restart_count
            + i32::from(
                before
                    .container_id
                    .as_ref()
                    .is_some_and(|other| *other != id),
            )
    });
    let terminated = |code: u8, reason: &str| json!({"terminated": {"exitCode": code, "reason": reason, "finishedAt": now, "containerID": id}});
    let state = match phase {
        Phase::Running => json!({"running": {"startedAt": now}}),
        Phase::Exited => terminated(0, "Completed"),
        Phase::Killed => terminated(137, "Error"),
    };
    let running = phase == Phase::Running;
    json!({
        "name": name,
        "image": image,
        "imageID": image,
        "containerID": id,
        "ready": running,
        "started": running,
        "restartCount": restarts,
        "state": state,
    })
}

/// The patch of the status of a pod that the kubelet refuses at admission for a taint of the node.
pub(super) fn refused_pod_status(pod: &Pod) -> Value {
    let message = "Pod was rejected: Predicate TaintToleration failed";
    json!({"metadata": {"uid": pod.uid()}, "status": {"phase": "Failed", "reason": "TaintToleration", "message": message}})
}

/// The first NoExecute taint of `node` that `pod` does not tolerate.
pub(super) fn untolerated<'a>(node: &'a Node, pod: &Pod) -> Option<&'a Taint> {
    let tolerations = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.tolerations.as_deref())
        .unwrap_or_default();
    let taints = node
        .spec
        .as_ref()
        .and_then(|spec| spec.taints.as_deref())
        .unwrap_or_default();
    let is_tolerated = |taint: &Taint| {
        tolerations
            .iter()
            .any(|toleration| tolerates(toleration, taint))
    };
    taints
        .iter()
        .find(|taint| taint.effect == "NoExecute" && !is_tolerated(taint))
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let any_or = |wanted: &Option<String>, is: &str| {
        wanted.as_deref().is_none_or(|w| w.is_empty() || w == is)
    };
    let same_value = || {
        toleration.value.as_deref().unwrap_or_default()
            == taint.value.as_deref().unwrap_or_default()
    };
    any_or(&toleration.effect, &taint.effect)
        && any_or(&toleration.key, &taint.key)
        && (toleration.operator.as_deref() == Some("Exists") || same_value())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node_with(taint: Value) -> Node {
        serde_json::from_value(json!({"metadata": {}, "spec": {"taints": [taint]}}))
            .expect("a Node")
    }

    fn pod_with(tolerations: Value) -> Pod {
        let pod = json!({"metadata": {}, "spec": {"containers": [], "tolerations": tolerations}});
        serde_json::from_value(pod).expect("a Pod")
    }

    #[test]
    fn a_noexecute_taint_is_tolerated_only_by_its_toleration() {
        let node = node_with(json!({"key": "k", "value": "v", "effect": "NoExecute"}));
        let tolerated = |tolerations| untolerated(&node, &pod_with(tolerations)).is_none();
        assert!(!tolerated(json!([])));
        assert!(!tolerated(
            json!([{"key": "k", "operator": "Exists", "effect": "NoSchedule"}])
        ));
        assert!(!tolerated(
            json!([{"key": "k", "operator": "Equal", "value": "other", "effect": "NoExecute"}])
        ));
        assert!(!tolerated(json!([{"key": "other", "operator": "Exists"}])));
        assert!(tolerated(
            json!([{"key": "k", "value": "v", "effect": "NoExecute"}])
        ));
        assert!(tolerated(json!([{"key": "k", "operator": "Exists"}])));
        assert!(tolerated(json!([{"operator": "Exists"}])));
    }

    #[test]
    fn a_noschedule_taint_does_not_concern_the_kubelet() {
        let node = node_with(json!({"key": "k", "effect": "NoSchedule"}));
        assert!(untolerated(&node, &pod_with(json!([]))).is_none());
    }
}
