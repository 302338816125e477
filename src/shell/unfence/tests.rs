//! What is asked of the API server for one object, look after look.

use super::*;
use crate::shell::fake::{self, Cluster, failure};

const ALL: &str = "GET /apis/csiaddons.openshift.io/v1alpha1/networkfences";
const ONE: &str = "/apis/csiaddons.openshift.io/v1alpha1/networkfences/worker-1.rbd";
const NODE: &str = "GET /api/v1/nodes/worker-1";
const FENCE: &str = "GET /apis/nodefencing.io/v1alpha1/nodefences/fence";

/// One of ours, fenced in boot `boot-0`.
fn object() -> Value {
    json!({
        "apiVersion": "csiaddons.openshift.io/v1alpha1", "kind": "NetworkFence",
        "metadata": {
            "name": "worker-1.rbd", "uid": "uid-nf", "resourceVersion": "9", "generation": 1,
            "labels": {"app.kubernetes.io/managed-by": "node-fencing-operator"},
            "annotations": {
                "nodefencing.io/node": "worker-1", "nodefencing.io/node-uid": "uid-1", "nodefencing.io/boot-id": "boot-0",
                "nodefencing.io/node-fence": "fence",
            },
        },
        "spec": {"networkFenceClassName": "rbd", "fenceState": "Fenced", "cidrs": ["10.0.0.7/32"]},
        "status": {"result": "Succeeded", "message": "fencing operation successful"},
    })
}

fn unfenced(message: &str) -> Value {
    let mut object = object();
    object["spec"]["fenceState"] = json!("Unfenced");
    object["metadata"]["generation"] = json!(2);
    object["status"]["message"] = json!(message);
    object
}

/// A cluster with this object, whose Node has rebooted since.
async fn cluster(object: Value) -> Cluster {
    let cluster = Cluster::new().await;
    cluster.put(ALL, 200, fake::list("NetworkFence", "9", &[object]));
    cluster.put(NODE, 200, fake::node());
    for verb in ["PATCH", "DELETE"] {
        cluster.put(&format!("{verb} {ONE}"), 200, json!({}));
    }
    cluster
}

/// The writes of a look.
async fn writes(cluster: &Cluster) -> Vec<(String, Value)> {
    let before = cluster.server.seen().len();
    assert!(look(&cluster.context(), &mut Book::new()).await);
    let seen = cluster.server.seen().into_iter().skip(before);
    let writes = seen.filter(|it| !it.line.starts_with("GET "));
    writes.map(|it| (it.line, it.body)).collect()
}

#[tokio::test]
async fn it_is_unfenced_waited_for_and_only_then_deleted() {
    let fenced = writes(&cluster(object()).await).await;
    let [(line, patch)] = fenced.as_slice() else {
        panic!("{fenced:?}")
    };
    assert!(line.starts_with(&format!("PATCH {ONE}?")), "{line}");
    assert_eq!(
        *patch,
        json!([
            {"op": "test", "path": "/metadata/uid", "value": "uid-nf"},
            {"op": "test", "path": "/spec/fenceState", "value": "Fenced"},
            {"op": "replace", "path": "/spec/fenceState", "value": "Unfenced"},
        ])
    );
    // Without observedGeneration, it still has the word of the fencing.
    let asked = unfenced("fencing operation successful");
    assert_eq!(writes(&cluster(asked).await).await, []);
    let done = unfenced("unfencing operation successful");
    let deleted = writes(&cluster(done.clone()).await).await;
    let [(line, options)] = deleted.as_slice() else {
        panic!("{deleted:?}")
    };
    assert_eq!(*line, format!("DELETE {ONE}"));
    assert_eq!(
        options["preconditions"],
        json!({"uid": "uid-nf", "resourceVersion": "9"})
    );
    let mut going = done;
    going["metadata"]["deletionTimestamp"] = json!("2026-01-02T00:00:00Z");
    assert_eq!(writes(&cluster(going).await).await, []);
}

/// S1, S8, S10, S18.
#[tokio::test]
async fn nothing_is_done_in_the_fenced_boot_to_others_or_in_a_cluster_that_went_back() {
    let with = |at: &str, value: Value| {
        let mut object = object();
        *object.pointer_mut(at).expect("a field") = value;
        object
    };
    let annotation = |key: &str| format!("/metadata/annotations/nodefencing.io~1{key}");
    for object in [
        with(&annotation("boot-id"), json!("boot-1")),
        with(&annotation("node-uid"), json!("uid-0")),
        with("/metadata/labels", json!({})),
        with("/metadata/annotations", json!({})),
        with("/metadata/generation", json!(3)),
    ] {
        let writes = writes(&cluster(object.clone()).await).await;
        assert_eq!(writes, [], "{object}");
    }
    let cluster = cluster(object()).await;
    let context = cluster.context();
    context.revision.saw(Some("120"));
    context.revision.note(120, Some("90"));
    assert!(look(&context, &mut Book::new()).await);
    assert!(
        !cluster
            .requests()
            .iter()
            .any(|line| line.contains("networkfences"))
    );
}

/// An incident that was cancelled before anything was stored has moved nothing.
#[tokio::test]
async fn an_incident_that_moved_nothing_lets_the_node_in_again() {
    let mut object = object();
    object["metadata"]["annotations"]["nodefencing.io/boot-id"] = json!("boot-1");
    let fence = |status: Value| {
        json!({
            "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence", "metadata": {"name": "fence", "uid": "uid-fence"},
            "spec": {"nodeName": "worker-1", "trigger": {"type": "Manual"}, "fence": {}, "recovery": {}, "release": {}, "powerOn": {}},
            "status": status,
        })
    };
    let ended = json!({
        "type": "Succeeded", "status": "False", "reason": "Aborted", "message": "",
        "lastTransitionTime": "2026-01-02T00:00:00Z",
    });
    let mut unclaimed = fake::node();
    unclaimed["spec"] = json!({});
    for (status, node, is_over) in [
        (json!({"conditions": [ended]}), unclaimed.clone(), true),
        (json!({"conditions": [ended]}), fake::node(), false),
        (json!({}), unclaimed.clone(), false),
        (
            json!({"conditions": [ended], "taintAppliedTime": "2026-01-02T00:00:00Z"}),
            unclaimed,
            false,
        ),
    ] {
        let cluster = cluster(object.clone()).await;
        cluster.put(FENCE, 200, fence(status.clone()));
        cluster.put(NODE, 200, node);
        assert_eq!(
            writes(&cluster).await.len(),
            usize::from(is_over),
            "{status}"
        );
    }
}

#[tokio::test]
async fn a_list_that_is_cut_or_fails_is_looked_at_again() {
    let cluster = cluster(object()).await;
    let mut cut = fake::list("NetworkFence", "9", &[object()]);
    cut["metadata"]["continue"] = json!("more");
    cluster.put(ALL, 200, cut);
    assert_eq!(writes(&cluster).await, []);
    let (code, failed) = failure(500, "broken");
    cluster.put(ALL, code, failed);
    assert_eq!(writes(&cluster).await, []);
    cluster.put(ALL, 200, fake::list("NetworkFence", "9", &[]));
    assert!(!look(&cluster.context(), &mut Book::new()).await);
}

/// L3: what does not end is said, once for the same words.
#[tokio::test]
async fn what_does_not_end_is_told_once() {
    let cluster = cluster(object()).await;
    let mut gone = object();
    gone["metadata"]["annotations"]["nodefencing.io/node-uid"] = json!("uid-0");
    cluster.put(ALL, 200, fake::list("NetworkFence", "9", &[gone]));
    let (context, mut book) = (cluster.context(), Book::new());
    for _ in 0..2 {
        assert!(look(&context, &mut book).await);
    }
    let told = book.values().filter_map(|seen| seen.told.as_ref());
    let told: Vec<&str> = told.map(|(words, _)| words.as_str()).collect();
    assert!(
        matches!(told.as_slice(), [words] if words.contains("another UID")),
        "{told:?}"
    );
}
