//! What is asked of the API server for one object, look after look.

use super::*;
use crate::shell::events::Events;
use crate::shell::fake::{self, Cluster, failure};
use fencing_cluster::stop::Stopper;

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
    let looked = look(&cluster.context(), &mut Book::default()).await;
    assert_eq!(looked, Ok(true));
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
    assert_eq!(look(&context, &mut Book::default()).await, Ok(true));
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
    let looked = look(&cluster.context(), &mut Book::default()).await;
    assert_eq!(looked, Ok(false));
}

/// L3: what does not end is said, once for the same words.
#[tokio::test]
async fn what_does_not_end_is_told_once() {
    let cluster = cluster(object()).await;
    let mut gone = object();
    gone["metadata"]["annotations"]["nodefencing.io/node-uid"] = json!("uid-0");
    cluster.put(ALL, 200, fake::list("NetworkFence", "9", &[gone]));
    let (context, mut book) = (cluster.context(), Book::default());
    for _ in 0..2 {
        assert_eq!(look(&context, &mut book).await, Ok(true));
    }
    let told = words(&book);
    assert!(
        matches!(told.as_slice(), [words] if words.contains("another UID")),
        "{told:?}"
    );
}

/// What was told of each object.
fn words(book: &Book) -> Vec<String> {
    let told = book.seen.values().filter_map(|seen| seen.told.as_ref());
    told.map(|(words, _)| words.clone()).collect()
}

/// L3: the metric shows the node for as long as its storage shuts it out and only a human can act, also one that is gone.
#[tokio::test]
async fn a_node_that_stays_fenced_is_shown_until_it_is_let_in() {
    let mut other = object();
    other["metadata"]["annotations"]["nodefencing.io/node-uid"] = json!("uid-0");
    let cluster = cluster(other).await;
    let (context, mut book) = (cluster.context(), Book::default());
    let stays = [("worker-1".to_owned(), "StorageFenceStays")];
    assert_eq!(look(&context, &mut book).await, Ok(true));
    assert_eq!(context.stranded.rows(), stays);
    // As when its Node is deleted.
    context.stranded.forget("worker-1");
    assert_eq!(look(&context, &mut book).await, Ok(true));
    assert_eq!(context.stranded.rows(), stays);
    // It is being unfenced, and that takes its time.
    let asked = unfenced("fencing operation successful");
    cluster.put(ALL, 200, fake::list("NetworkFence", "9", &[asked]));
    assert_eq!(look(&context, &mut book).await, Ok(true));
    assert_eq!(context.stranded.rows(), []);
    // Too long.
    for seen in book.seen.values_mut() {
        seen.since = seen.since.and_then(|it| it.checked_sub(UNFENCE_TIME_MAX));
    }
    assert_eq!(look(&context, &mut book).await, Ok(true));
    assert_eq!(context.stranded.rows(), stays);
    assert!(
        words(&book)
            .iter()
            .any(|it| it.ends_with("CSI-Addons reports `Succeeded: fencing operation successful`")),
        "{book:?}"
    );
    cluster.put(ALL, 200, fake::list("NetworkFence", "9", &[]));
    assert_eq!(look(&context, &mut book).await, Ok(false));
    assert_eq!(context.stranded.rows(), []);
}

/// L3: one that bears our label and is not understood is not left in silence.
#[tokio::test]
async fn one_of_ours_that_cannot_be_read_is_told_and_shown() {
    let mut undecodable = object();
    undecodable["spec"]["cidrs"] = json!("10.0.0.7/32");
    let mut unnamed = object();
    unnamed["metadata"]["annotations"] = json!({"nodefencing.io/node": "worker-1"});
    for (object, reason, says) in [
        (undecodable, "Undecodable", "it cannot be decoded"),
        (unnamed, "StorageFenceStays", "its annotations do not name"),
    ] {
        let cluster = cluster(object).await;
        let mut context = Arc::into_inner(cluster.context()).expect("no other has it");
        let reads = cluster.server.clients.reads.clone();
        let (events, publisher) = Events::new(reads, None, Arc::clone(&context.metrics));
        context.events = events;
        let mut book = Book::default();
        for _ in 0..2 {
            assert_eq!(look(&context, &mut book).await, Ok(true));
        }
        let stays = [("worker-1".to_owned(), "StorageFenceStays")];
        assert_eq!(context.stranded.rows(), stays, "{reason}");
        // It has nothing more to tell.
        drop(context);
        let (_stopper, stop) = Stopper::new();
        publisher.run(stop).await;
        let seen = cluster.server.seen().into_iter();
        let written: Vec<_> = seen.filter(|it| !it.line.starts_with("GET ")).collect();
        let [event] = written.as_slice() else {
            panic!("{written:?}")
        };
        assert_eq!(event.body["reason"], reason);
        assert_eq!(event.body["regarding"]["kind"], "NetworkFence");
        assert_eq!(event.body["regarding"]["uid"], "uid-nf");
        let note = event.body["note"].as_str().unwrap_or_default();
        assert!(note.starts_with(says), "{note}");
    }
}

/// Where nobody has granted it, nothing is asked for that the API server would refuse.
#[tokio::test]
async fn without_the_right_none_is_looked_for() {
    const REVIEWS: &str = "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let cluster = cluster(object()).await;
    let context = cluster.context();
    for allowed in [false, true] {
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "metadata": {}, "spec": {},
            "status": {"allowed": allowed},
        });
        cluster.put(REVIEWS, 201, review);
        let may = may_look(&context).await;
        assert!(matches!(may, Ok(it) if it == allowed), "{may:?}");
    }
    let (code, refused) = failure(
        403,
        r#"networkfences.csiaddons.openshift.io is forbidden: User "x" cannot list resource "networkfences""#,
    );
    cluster.put(ALL, code, refused);
    let looked = look(&context, &mut Book::default()).await;
    assert_eq!(looked, Err(NotGranted));
    let (code, failed) = failure(500, "etcd is away");
    cluster.put(REVIEWS, code, failed);
    assert!(may_look(&context).await.is_err(), "asked again soon");
}
