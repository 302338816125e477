//! What a thief gets with the operator's token: nothing that RBAC and the admission policies keep from the operator itself.

use anyhow::Result;
use http::Method;
use serde_json::{Value, json};

use crate::admission::Guarded;
use crate::verdict::{Body, Expect, Tally, call, must};

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
const PODS: &str = "/api/v1/namespaces/default/pods";
const FENCES: &str = "/apis/nodefencing.io/v1alpha1/nodefences";
const OWN: &str = "/api/v1/namespaces/node-fencing-system";
const POD: &str = "/api/v1/namespaces/default/pods/runs";
const READY: &str = "/api/v1/nodes/stolen-ready";
const DARK: &str = "/api/v1/nodes/stolen-dark";
const FOREIGN: &str = "/api/v1/nodes/stolen-foreign";

/// What is tried: an invariant or a right, the request, and part of the refusal.
type Try = (
    &'static str,
    Method,
    String,
    Option<(Body, Value)>,
    &'static str,
);

/// Tries it all with the account's own rights, as `deploy/rbac.yaml` grants them.
pub async fn try_all(guarded: &Guarded, tally: &mut Tally) -> Result<()> {
    let foreign = [
        json!({"key": "foo", "value": "x", "effect": "NoSchedule"}),
        json!({"key": "node.kubernetes.io/out-of-service", "value": "human", "effect": "NoExecute"}),
    ];
    guarded.node("stolen-ready", &[], "True", "b").await?;
    guarded.node("stolen-dark", &[], "Unknown", "b").await?;
    guarded
        .node("stolen-foreign", &foreign, "Unknown", "b")
        .await?;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "runs"},
        "spec": {"nodeName": "stolen-ready", "containers": [{"name": "c", "image": "i"}]},
    });
    must(
        &guarded.admin,
        Method::POST,
        PODS,
        Some((Body::Object, &pod)),
    )
    .await?;
    for (name, method, path, body, message) in
        invariants().into_iter().chain(secrets()).chain(rights())
    {
        let body = body.as_ref().map(|(kind, value)| (*kind, value));
        let verdict = call(&guarded.operator, method, &path, body).await?;
        let name = format!("stolen token: {name}");
        tally.judge(&name, Expect::Deny, Some(message), &verdict);
    }
    must(&guarded.admin, Method::DELETE, POD, None).await?;
    let by_name = json!({"gracePeriodSeconds": 0});
    let body = Some((Body::Object, &by_name));
    let verdict = call(&guarded.operator, Method::DELETE, POD, body).await?;
    let message = Some("S10: the operator may delete a pod only by its uid");
    tally.judge(
        "stolen token: S10, delete by name",
        Expect::Deny,
        message,
        &verdict,
    );
    let uid = set_ready(guarded, "True").await?;
    let by_uid = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": uid}});
    let body = Some((Body::Object, &by_uid));
    let verdict = call(&guarded.operator, Method::DELETE, POD, body).await?;
    tally.judge(
        "stolen token: S2, hasten a pod that stops on a Ready node",
        Expect::Deny,
        Some("S2: the operator may not delete a pod that is Ready"),
        &verdict,
    );
    // What is tried after this meets it, too.
    set_ready(guarded, "False").await?;
    for path in [READY, DARK, FOREIGN] {
        must(&guarded.admin, Method::DELETE, path, None).await?;
    }
    Ok(())
}

/// Sets the pod's condition Ready, and returns its uid.
async fn set_ready(guarded: &Guarded, status: &str) -> Result<Value> {
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": status}]}});
    let (path, body) = (format!("{POD}/status"), Some((Body::Merge, &ready)));
    let pod = must(&guarded.admin, Method::PATCH, &path, body).await?;
    Ok(pod["metadata"]["uid"].clone())
}

/// What RBAC grants and the admission policies refuse.
fn invariants() -> Vec<Try> {
    let taint =
        |key: &str, value: &str| json!([{"key": key, "value": value, "effect": "NoExecute"}]);
    let claim = || {
        let mut taints = taint("nodefencing.io/claim", "f-1");
        taints[0]["timeAdded"] = json!("2026-01-02T00:00:00Z");
        json!({"spec": {"taints": taints}})
    };
    let oos =
        || json!({"spec": {"taints": taint("node.kubernetes.io/out-of-service", "nodeshutdown")}});
    let merge = |value| Some((Body::Merge, value));
    let now = || Some((Body::Object, json!({"gracePeriodSeconds": 0})));
    let manual = json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence", "metadata": {"name": "stolen"},
        "spec": {
            "nodeName": "w",
            "trigger": {"type": "Manual", "requestedBy": "admin", "reason": "theft"},
            "fence": {"mode": "Observe"},
        },
    });
    let patch = Method::PATCH;
    vec![
        (
            "S6, claim a Ready node",
            patch.clone(),
            READY.into(),
            merge(claim()),
            "S6: a Ready node may not be claimed",
        ),
        (
            "S6 and S9, taint a Ready node without a claim",
            patch.clone(),
            READY.into(),
            merge(oos()),
            "S9: out-of-service may only be added",
        ),
        (
            "S7, label a node",
            patch.clone(),
            DARK.into(),
            merge(json!({"metadata": {"labels": {"a": "b"}}})),
            "S7",
        ),
        (
            "S7, cordon a node",
            patch.clone(),
            DARK.into(),
            merge(json!({"spec": {"unschedulable": true}})),
            "S7",
        ),
        (
            "S7, remove a foreign taint",
            patch.clone(),
            FOREIGN.into(),
            merge(json!({"spec": {"taints": null}})),
            "S7: the operator may change no taint but its own",
        ),
        (
            "S8, claim beside a foreign out-of-service",
            patch.clone(),
            FOREIGN.into(),
            Some((
                Body::Json,
                json!([{"op": "add", "path": "/spec/taints/-", "value": claim()["spec"]["taints"][0]}]),
            )),
            "S8",
        ),
        (
            "S8, remove a foreign out-of-service",
            patch.clone(),
            FOREIGN.into(),
            Some((
                Body::Json,
                json!([{"op": "remove", "path": "/spec/taints/1"}]),
            )),
            "S8",
        ),
        (
            "S9, taint without a claim",
            patch,
            DARK.into(),
            merge(oos()),
            "S9",
        ),
        (
            "S2, delete a running pod",
            Method::DELETE,
            POD.into(),
            now(),
            "S2: the operator may only delete a pod that is being deleted already",
        ),
        (
            "fence as a human",
            Method::POST,
            FENCES.into(),
            Some((Body::Object, manual)),
            "the operator may open a NodeFence for a policy's node condition",
        ),
    ]
}

/// Of Secrets only those of its own namespace whose names the thief knows.
fn secrets() -> Vec<Try> {
    [
        (
            "read a Secret elsewhere",
            "/api/v1/namespaces/kube-system/secrets/any".to_owned(),
        ),
        (
            "read a Secret of default",
            "/api/v1/namespaces/default/secrets/any".to_owned(),
        ),
        ("list all Secrets", "/api/v1/secrets".to_owned()),
        ("list its own Secrets", format!("{OWN}/secrets")),
        ("watch its own Secrets", format!("{OWN}/secrets?watch=true")),
        (
            "read a ConfigMap elsewhere",
            "/api/v1/namespaces/kube-system/configmaps/any".to_owned(),
        ),
        ("read a pod's log", format!("{POD}/log")),
        ("reach a kubelet", format!("{READY}/proxy/pods")),
    ]
    .into_iter()
    .map(|(name, path)| (name, Method::GET, path, None, "cannot "))
    .collect()
}

/// What RBAC does not grant.
fn rights() -> Vec<Try> {
    let object = |kind: &str, version: &str| {
        let value = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "stolen"}});
        Some((Body::Object, value))
    };
    let merge = |value| Some((Body::Merge, value));
    let rbac = "rbac.authorization.k8s.io/v1";
    [
        (
            "run a command in a pod",
            Method::POST,
            format!("{POD}/exec?command=sh"),
            None,
        ),
        (
            "create a pod",
            Method::POST,
            PODS.to_owned(),
            object("Pod", "v1"),
        ),
        (
            "change a pod",
            Method::PATCH,
            POD.to_owned(),
            merge(json!({"metadata": {"labels": {"a": "b"}}})),
        ),
        (
            "evict a pod",
            Method::POST,
            format!("{POD}/eviction"),
            object("Eviction", "policy/v1"),
        ),
        (
            "delete all pods of a namespace",
            Method::DELETE,
            PODS.to_owned(),
            None,
        ),
        ("delete a node", Method::DELETE, READY.to_owned(), None),
        (
            "replace a node",
            Method::PUT,
            READY.to_owned(),
            object("Node", "v1"),
        ),
        (
            "report a node's status",
            Method::PATCH,
            format!("{READY}/status"),
            merge(json!({"status": {}})),
        ),
        (
            "report a pod's status",
            Method::PATCH,
            format!("{POD}/status"),
            merge(json!({"status": {}})),
        ),
        (
            "list the kubelets' Leases",
            Method::GET,
            "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases".to_owned(),
            None,
        ),
        (
            "create a node",
            Method::POST,
            "/api/v1/nodes".to_owned(),
            object("Node", "v1"),
        ),
        (
            "detach a volume",
            Method::DELETE,
            "/apis/storage.k8s.io/v1/volumeattachments/any".to_owned(),
            None,
        ),
        (
            "change a NodeFence",
            Method::PATCH,
            format!("{FENCES}/any"),
            merge(json!({"spec": {}})),
        ),
        (
            "change a policy",
            Method::PATCH,
            "/apis/nodefencing.io/v1alpha1/nodefencingpolicies/any".to_owned(),
            merge(json!({"spec": {}})),
        ),
        (
            "add a FenceDevice",
            Method::POST,
            "/apis/nodefencing.io/v1alpha1/fencedevices".to_owned(),
            object("FenceDevice", "nodefencing.io/v1alpha1"),
        ),
        (
            "make itself another token",
            Method::POST,
            format!("{OWN}/serviceaccounts/node-fencing-operator/token"),
            object("TokenRequest", "authentication.k8s.io/v1"),
        ),
        (
            "give itself rights",
            Method::POST,
            format!("/apis/{rbac}/clusterrolebindings"),
            object("ClusterRoleBinding", rbac),
        ),
        (
            "remove the guard",
            Method::DELETE,
            format!("{POLICIES}/node-fencing-operator-nodes"),
            None,
        ),
        (
            "unbind the guard",
            Method::DELETE,
            format!("{BINDINGS}/node-fencing-operator-nodes"),
            None,
        ),
    ]
    .into_iter()
    .map(|(name, method, path, body)| (name, method, path, body, "cannot "))
    .collect()
}
