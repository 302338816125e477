//! A small cluster for unit tests: each test changes the one thing that it is about. Its objects are as the API server prints them.

use super::facts::{Facts, Listed};
use super::finding::{Finding, Id};
use super::signatures::findings;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// When the facts were read.
pub const NOW: &str = "2026-11-26T07:00:00Z";
/// Attach/detach's words where no pod on the other node wants the volume (upstream's `reconciler_test.go`, v1.36).
pub const EXCLUSIVE: &str = "Multi-Attach error for volume \"pv-1\" Volume is already exclusively attached to one node and can't be attached to another";
/// Where a pod there does.
pub const USED: &str =
    "Multi-Attach error for volume \"pv-1\" Volume is already used by pod(s) db-old";

/// The objects.
#[derive(Debug, Clone, Default)]
pub struct World {
    pub nodes: Vec<Value>,
    pub pods: Vec<Value>,
    pub claims: Vec<Value>,
    pub volumes: Vec<Value>,
    pub classes: Vec<Value>,
    pub attachments: Vec<Value>,
    pub csi_nodes: Vec<Value>,
    pub drivers: Vec<Value>,
    pub events: Vec<Value>,
    pub replica_sets: Vec<Value>,
    pub deployments: Vec<Value>,
    pub fences: Vec<Value>,
    pub policies: Vec<Value>,
}

fn typed<T: DeserializeOwned>(objects: &[Value]) -> Listed<T> {
    let objects = objects.iter().cloned();
    let objects = objects.map(|it| serde_json::from_value(it).expect("an object"));
    objects.collect::<Vec<T>>().into()
}

impl World {
    pub fn facts(&self) -> Facts {
        Facts {
            now: NOW.parse().expect("a time"),
            nodes: typed(&self.nodes),
            pods: typed(&self.pods),
            claims: typed(&self.claims),
            volumes: typed(&self.volumes),
            classes: typed(&self.classes),
            attachments: typed(&self.attachments),
            csi_nodes: typed(&self.csi_nodes),
            drivers: typed(&self.drivers),
            events: typed(&self.events),
            replica_sets: typed(&self.replica_sets),
            deployments: typed(&self.deployments),
            fences: typed(&self.fences),
            policies: typed(&self.policies),
        }
    }

    /// What is found there.
    pub fn found(&self) -> Vec<Finding> {
        findings(&self.facts())
    }

    /// By their signatures.
    pub fn ids(&self) -> Vec<Id> {
        self.found().iter().map(|it| it.id).collect()
    }

    /// The one finding there is.
    pub fn only(&self) -> Finding {
        let mut found = self.found();
        assert_eq!(found.len(), 1, "{found:#?}");
        found.remove(0)
    }

    /// Pod `db-new` waits on worker-2 for volume pv-1, which worker-1 has.
    pub fn waiting(ready: &str, words: &str) -> Self {
        Self {
            nodes: vec![node("worker-1", ready), node("worker-2", "True")],
            pods: vec![pod("db-new", "Pending", Some("worker-2"))],
            claims: vec![claim(&["ReadWriteOnce"])],
            volumes: vec![volume("ebs.csi.aws.com", &["ReadWriteOnce"])],
            attachments: vec![attachment("csi-1", "worker-1", "ebs.csi.aws.com")],
            events: vec![event("db-new", "FailedAttachVolume", words)],
            ..Self::default()
        }
    }

    /// And `db-old`, of another revision of the same Deployment, runs on worker-1.
    pub fn rolling(strategy: Value) -> Self {
        let mut world = Self::waiting("True", USED);
        world.pods.push(pod("db-old", "Running", Some("worker-1")));
        for (pod, set) in world.pods.iter_mut().zip(["db-2", "db-1"]) {
            pod["metadata"]["ownerReferences"] = owned("ReplicaSet", set);
        }
        world.replica_sets = ["db-1", "db-2"].map(|it| replica_set(it, "db")).to_vec();
        world.deployments = vec![json!({
            "metadata": {"namespace": "shop", "name": "db", "uid": "db"},
            "spec": {"replicas": 1, "strategy": strategy},
        })];
        world
    }
}

pub fn node(name: &str, ready: &str) -> Value {
    json!({
        "metadata": {"name": name, "uid": format!("{name}-uid"), "labels": {"rack": "7"}},
        "spec": {},
        "status": {
            "conditions": [{
                "type": "Ready", "status": ready,
                "lastTransitionTime": "2026-11-26T06:50:00Z", "lastHeartbeatTime": "2026-11-26T06:49:00Z",
            }],
            "nodeInfo": {"bootID": "boot-1", "systemUUID": "uuid"},
        },
    })
}

pub fn taint(node: &mut Value, key: &str) {
    node["spec"]["taints"] = json!([{"key": key, "value": "nodeshutdown", "effect": "NoExecute"}]);
}

/// A pod of namespace shop with the claim `data`; its uid is its name.
pub fn pod(name: &str, phase: &str, node: Option<&str>) -> Value {
    json!({
        "metadata": {
            "namespace": "shop", "name": name, "uid": name, "creationTimestamp": "2026-11-26T06:59:50Z",
        },
        "spec": {
            "nodeName": node,
            "containers": [{"name": "db", "image": "db"}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
        },
        "status": {"phase": phase},
    })
}

pub fn deleting(pod: &mut Value) {
    pod["metadata"]["deletionTimestamp"] = json!("2026-11-26T06:55:00Z");
}

pub fn claim(modes: &[&str]) -> Value {
    json!({
        "metadata": {"namespace": "shop", "name": "data"},
        "spec": {"volumeName": "pv-1", "accessModes": modes, "storageClassName": "fast"},
        "status": {"phase": "Bound"},
    })
}

pub fn volume(driver: &str, modes: &[&str]) -> Value {
    json!({
        "metadata": {"name": "pv-1"},
        "spec": {
            "accessModes": modes,
            "claimRef": {"namespace": "shop", "name": "data"},
            "csi": {"driver": driver, "volumeHandle": "vol-1"},
        },
        "status": {"phase": "Bound"},
    })
}

pub fn attachment(name: &str, node: &str, driver: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {"attacher": driver, "nodeName": node, "source": {"persistentVolumeName": "pv-1"}},
        "status": {"attached": true},
    })
}

/// An event of a pod.
pub fn event(pod: &str, reason: &str, message: &str) -> Value {
    json!({
        "metadata": {"namespace": "shop", "name": format!("{pod}.{reason}")},
        "involvedObject": {"kind": "Pod", "namespace": "shop", "name": pod, "uid": pod},
        "reason": reason,
        "message": message,
        "lastTimestamp": "2026-11-26T06:59:55Z",
    })
}

pub fn owned(kind: &str, name: &str) -> Value {
    json!([{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": name, "controller": true}])
}

pub fn replica_set(name: &str, deployment: &str) -> Value {
    json!({"metadata": {
        "namespace": "shop", "name": name, "uid": name,
        "ownerReferences": owned("Deployment", deployment),
    }})
}

pub fn policy(mode: &str, extra: Value) -> Value {
    let mut policy = json!({
        "metadata": {"name": "workers"},
        "spec": {"nodeSelector": {"matchLabels": {"rack": "7"}}, "fence": {"mode": mode, "levels": [{"name": "bmc"}]}},
        "status": {"conditions": [condition("Ready", "True", "Ready", "would act")]},
    });
    for (key, value) in extra.as_object().into_iter().flatten() {
        policy["spec"][key] = value.clone();
    }
    policy
}

pub fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({
        "type": kind, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": "2026-11-26T06:59:00Z",
    })
}

/// The same, with a proof of which this is said by now.
pub fn proven(mut fence: Value, confirmed: &str) -> Value {
    let at = "2026-11-26T06:57:00Z";
    let node = fence["spec"]["nodeUID"].clone();
    fence["status"]["evidence"] = json!({
        "claim": "c", "nodeUID": node, "nodeBootID": "boot-1", "quiescedTime": at, "provenTime": at, "readings": [],
    });
    let told = condition("NodeConfirmedDown", confirmed, "Proven", "said");
    let conditions = fence["status"]["conditions"].as_array_mut();
    conditions.expect("a list").push(told);
    fence
}

pub fn fence(node: &str, mode: &str, succeeded: Value) -> Value {
    json!({
        "metadata": {"name": format!("{node}-fence"), "creationTimestamp": "2026-11-26T06:55:00Z"},
        "spec": {
            "nodeName": node, "nodeUID": format!("{node}-uid"), "bootID": "boot-1",
            "trigger": {"type": "NodeCondition"},
            "fence": {"mode": mode, "levels": [{"name": "bmc"}]},
        },
        "status": {"conditions": [succeeded], "stageStartTime": "2026-11-26T06:59:00Z"},
    })
}
