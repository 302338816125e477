//! The proxy's matchers, over the patches that the operator writes. The rest is tested before a real API server, in
//! `e2e/tests/e2e/proxy.rs`.

use http::Method;
use serde_json::{Value, json};

use super::{Matcher, Seen, writes};

const FENCE: &str = "/apis/nodefencing.io/v1alpha1/nodefences/node-1-x/status";

fn seen(method: Method, path: &str, body: Value) -> Seen {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    Seen {
        method,
        path: path.to_owned(),
        query: query.to_owned(),
        content_type: "application/json-patch+json".to_owned(),
        body,
    }
}

/// The names of the matchers that match, of those that tests stop the operator at.
fn names(seen: &Seen) -> Vec<String> {
    let all: [Matcher; 14] = [
        writes::create_fence(),
        writes::claim(),
        writes::list_pods(),
        writes::read_node(),
        writes::read_node_lease(),
        writes::fence_status(),
        writes::intent(),
        writes::evidence(),
        writes::delete_pod(),
        writes::taint(),
        writes::release(),
        writes::drop_claim(),
        writes::lift_quarantine(),
        writes::leader_lease(),
    ];
    all.iter()
        .filter(|matcher| matcher.matches(seen))
        .map(|matcher| matcher.name().to_owned())
        .collect()
}

fn node(patch: Value) -> Vec<String> {
    names(&seen(Method::PATCH, "/api/v1/nodes/node-1", patch))
}

fn taint(key: &str) -> Value {
    json!({"key": key, "value": "v", "effect": "NoExecute"})
}

#[test]
fn patches_of_a_node_are_told_apart_by_what_they_do() {
    let uid = json!({"op": "test", "path": "/metadata/uid", "value": "u"});
    let test = |index: u32, key: &str| {
        let path = format!("/spec/taints/{index}");
        json!({"op": "test", "path": path, "value": taint(key)})
    };
    let remove = |index: u32| json!({"op": "remove", "path": format!("/spec/taints/{index}")});
    let add = |place: &str, value: Value| json!({"op": "add", "path": format!("/spec/taints{place}"), "value": value});
    let (claim, oos, quarantine) = (writes::CLAIM, writes::OUT_OF_SERVICE, writes::QUARANTINE);

    assert_eq!(
        node(json!([uid, add("", json!([taint(claim)]))])),
        ["claim"]
    );
    assert_eq!(node(json!([uid, add("/-", taint(claim))])), ["claim"]);
    let replace = json!({"op": "replace", "path": "/spec/taints/1", "value": taint(claim)});
    assert_eq!(
        node(json!([uid, test(1, claim), replace])),
        ["claim"],
        "a take-over"
    );
    assert_eq!(
        node(json!([uid, test(1, claim), add("/-", taint(oos))])),
        ["taint"]
    );
    assert_eq!(
        node(json!([uid, test(1, claim), remove(1)])),
        ["drop claim"]
    );
    let both = json!([
        uid,
        test(0, claim),
        test(2, oos),
        remove(2),
        remove(0),
        add("/-", taint(quarantine))
    ]);
    assert_eq!(node(both), ["release"]);
    let both = json!([uid, test(0, claim), test(1, oos), remove(0), remove(0)]);
    assert_eq!(node(both), ["release"], "the lower index first");
    assert_eq!(
        node(json!([uid, test(0, quarantine), remove(0)])),
        ["lift quarantine"]
    );

    let whole = |old: &[&str], new: &[&str]| {
        let list = |keys: &[&str]| Value::from_iter(keys.iter().map(|key| taint(key)));
        let test = json!({"op": "test", "path": "/spec/taints", "value": list(old)});
        node(json!([test, {"op": "replace", "path": "/spec/taints", "value": list(new)}]))
    };
    assert_eq!(whole(&["a"], &["a", claim]), ["claim"]);
    assert_eq!(whole(&["a", claim], &["a", claim, oos]), ["taint"]);
    assert_eq!(whole(&[claim, oos], &[quarantine]), ["release"]);
    assert_eq!(node(json!([uid])), Vec::<String>::new());
    assert_eq!(
        node(json!({"metadata": {"labels": {"a": "b"}}})),
        Vec::<String>::new()
    );
}

#[test]
fn writes_of_a_status_are_told_apart_by_what_they_say() {
    let status = |method: Method, body: Value| names(&seen(method, FENCE, body));
    let attempt = |more: Value| {
        let mut attempt = json!({"id": "1", "device": "d", "action": "PowerOff"});
        attempt
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        attempt
    };
    let begun = json!({"status": {"attempts": [attempt(json!({}))]}});
    assert_eq!(
        status(Method::PATCH, begun.clone()),
        ["NodeFence status", "intent"]
    );
    assert_eq!(status(Method::PUT, begun), ["NodeFence status", "intent"]);
    let patch = json!([{"op": "add", "path": "/status/attempts/-", "value": attempt(json!({}))}]);
    assert_eq!(status(Method::PATCH, patch), ["NodeFence status", "intent"]);
    let done = json!({"status": {"attempts": [attempt(json!({"result": "Succeeded"}))]}});
    assert_eq!(status(Method::PATCH, done), ["NodeFence status"]);
    let read = json!({"status": {"attempts": [{"device": "d", "action": "Status"}]}});
    assert_eq!(status(Method::PATCH, read), ["NodeFence status"]);

    let proven = json!({"status": {"evidence": {"claim": "c"}}});
    assert_eq!(
        status(Method::PATCH, proven),
        ["NodeFence status", "evidence"]
    );
    let patch = json!([{"op": "add", "path": "/status/evidence", "value": {"claim": "c"}}]);
    assert_eq!(
        status(Method::PATCH, patch),
        ["NodeFence status", "evidence"]
    );
    let later =
        json!({"status": {"evidence": {"claim": "c"}, "taintAppliedTime": "2026-01-01T00:00:00Z"}});
    assert_eq!(status(Method::PATCH, later), ["NodeFence status"]);
}

#[test]
fn reads_and_other_writes_are_told_apart_by_their_path() {
    let name = |method: Method, path: &str| names(&seen(method, path, Value::Null));
    assert_eq!(
        name(Method::POST, "/apis/nodefencing.io/v1alpha1/nodefences"),
        ["create NodeFence"]
    );
    assert_eq!(
        name(
            Method::POST,
            "/apis/nodefencing.io/v1alpha1/nodefences?fieldManager=x"
        ),
        ["create NodeFence"]
    );
    assert_eq!(
        name(Method::DELETE, "/api/v1/namespaces/a/pods/b"),
        ["delete pod"]
    );
    assert_eq!(
        name(Method::GET, "/api/v1/pods?fieldSelector=spec.nodeName%3Dn"),
        ["list pods"]
    );
    assert_eq!(
        name(Method::GET, "/api/v1/pods?watch=true"),
        Vec::<String>::new()
    );
    assert_eq!(name(Method::GET, "/api/v1/nodes/n"), ["read Node"]);
    assert_eq!(
        name(Method::GET, "/api/v1/nodes/n?resourceVersion=0"),
        Vec::<String>::new()
    );
    assert_eq!(
        name(Method::GET, "/api/v1/nodes?watch=true"),
        Vec::<String>::new()
    );
    let leases = "/apis/coordination.k8s.io/v1/namespaces";
    assert_eq!(
        name(Method::GET, &format!("{leases}/kube-node-lease/leases/n")),
        ["read node Lease"]
    );
    assert_eq!(
        name(Method::PATCH, &format!("{leases}/fencing/leases/x")),
        ["leader Lease"]
    );
    assert_eq!(
        name(Method::PATCH, &format!("{leases}/kube-node-lease/leases/n")),
        Vec::<String>::new()
    );
    let review = seen(
        Method::POST,
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        Value::Null,
    );
    assert!(!writes::any_write().matches(&review));
    let dry_run = seen(Method::PATCH, "/api/v1/nodes/n?dryRun=All", Value::Null);
    assert!(!writes::any_write().of("n").matches(&dry_run));
    assert!(writes::any_write().of("n").matches(&seen(
        Method::PATCH,
        "/api/v1/nodes/n",
        Value::Null
    )));
    assert!(!writes::any_write().of("m").matches(&seen(
        Method::PATCH,
        "/api/v1/nodes/n",
        Value::Null
    )));
}
