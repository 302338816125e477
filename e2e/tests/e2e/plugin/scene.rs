//! Workloads of the tests of `diagnose` and `plan`, as kubectl creates them from a file, and what has become of them.

use anyhow::{Context, Result, ensure};
use e2e::csi::DRIVER;
use e2e::lab::{LIMIT, Lab};
use e2e::workload::node_of;
use fencing_testbed::eventually::eventually;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::{Value, json};

/// Where they are.
pub const NAMESPACE: &str = "work";

/// A pod's spec with this claim, if any, and with more.
pub fn spec(claim: Option<&str>, more: Value) -> Value {
    let volume = |it: &str| json!({"name": "data", "persistentVolumeClaim": {"claimName": it}});
    let mut spec = json!({
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": false,
        "containers": [{"name": "main", "image": "lab"}],
        "volumes": claim.map(volume).into_iter().collect::<Vec<_>>(),
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    spec
}

/// A pod that the scheduler binds to one of these nodes.
pub fn on(nodes: &[&str]) -> Value {
    let is_one = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": nodes});
    let terms = json!([{"matchExpressions": [is_one]}]);
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    json!({"affinity": {"nodeAffinity": {required: {"nodeSelectorTerms": terms}}}})
}

/// A pod that nobody makes again.
pub fn pod(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}}, "spec": spec})
}

/// A Deployment of one pod.
pub fn deployment(name: &str, spec: &Value) -> Value {
    workload("Deployment", name, spec, json!({"replicas": 1}))
}

/// A workload of the group `apps`.
pub fn workload(kind: &str, name: &str, spec: &Value, more: Value) -> Value {
    let labels = json!({"app": name});
    let mut own = json!({
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": spec},
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        own[key] = value.clone();
    }
    json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": own})
}

/// A volume, of which `source` says where it is, and the claim of its name that is bound to it.
pub fn volume(name: &str, mode: &str, source: Value) -> [Value; 2] {
    let size = json!({"storage": "1Gi"});
    let mut volume = json!({
        "capacity": size,
        "accessModes": [mode],
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": "lab",
        "claimRef": {"namespace": NAMESPACE, "name": name},
    });
    for (key, value) in source.as_object().into_iter().flatten() {
        volume[key] = value.clone();
    }
    let claim = json!({
        "accessModes": [mode], "storageClassName": "lab", "volumeName": name,
        "resources": {"requests": size},
    });
    [
        json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": volume}),
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": claim}),
    ]
}

/// A volume of the lab's array.
pub fn of_array(name: &str) -> Value {
    json!({"csi": {"driver": DRIVER, "volumeHandle": name}})
}

/// Creates them.
pub async fn make(lab: &Lab, objects: &[Value]) -> Result<()> {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    let path = lab.control_plane.files().directory().join("objects.json");
    std::fs::write(&path, list.to_string())?;
    let path = path.to_str().context("the lab's path is UTF-8")?;
    let create = ["create", "-n", NAMESPACE, "-f", path];
    lab.control_plane.kubectl_text(&create).await.map(drop)
}

/// Creates a volume of the array and its claim, and waits until the two are bound: a pod that comes before that is told of it by Events, now and then.
pub async fn bound(lab: &Lab, name: &str, mode: &str) -> Result<()> {
    make(lab, &volume(name, mode, of_array(name))).await?;
    let line = format!("wait -n {NAMESPACE} pvc/{name} --for=jsonpath={{.status.phase}}=Bound");
    kubectl(lab, &line).await.map(drop)
}

/// The pods of this app.
pub async fn pods(lab: &Lab, app: &str) -> Result<Vec<Pod>> {
    let of_app = ListParams::default().labels(&format!("app={app}"));
    Ok(lab.workloads.api::<Pod>().list(&of_app).await?.items)
}

/// Waits until a pod of this app is as wanted, and returns its name.
pub async fn wait_pod(lab: &Lab, app: &str, wanted: impl Fn(&Pod) -> bool) -> Result<String> {
    let what = format!("a pod of {app} is as wanted");
    let found = eventually(&what, LIMIT, async || {
        let pods = pods(lab, app).await?;
        let found = pods.iter().find(|pod| wanted(pod));
        let told = pods.iter().map(|pod| {
            let conditions = pod.status.as_ref().map(|it| &it.conditions);
            (pod.name_any(), node_of(pod), conditions)
        });
        found
            .map(ResourceExt::name_any)
            .with_context(|| format!("they are {:#?}", told.collect::<Vec<_>>()))
    });
    found.await
}

/// Is it there, and does it wait?
pub fn is_waiting(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|it| it.phase.as_deref());
    phase == Some("Pending") && pod.metadata.deletion_timestamp.is_none()
}

/// Types a line of kubectl, which has to go well.
pub async fn kubectl(lab: &Lab, line: &str) -> Result<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    ensure!(!words.is_empty(), "a command");
    lab.control_plane.kubectl_text(&words).await
}
