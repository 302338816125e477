//! What is sent, once or not at all, and what its answer means.

use super::*;
use crate::shell::fake::{self, Cluster, failure};
use fencing_core::fixtures;
use fencing_core::observed::AttachmentView;
use serde_json::json;
use tokio::time::timeout;

const PATCH: &str = "PATCH /api/v1/nodes/worker-1";
const DELETE: &str = "DELETE /api/v1/namespaces/default/pods/db-0";

/// A moment that has passed, and one that has not.
fn past_and_future() -> [Duration; 2] {
    let now = clock::since_boot();
    [
        now.saturating_sub(Duration::from_millis(1)),
        now + Duration::from_secs(60),
    ]
}

fn patch(valid_until: Option<Duration>) -> NodePatch {
    NodePatch {
        valid_from: Duration::ZERO,
        node: "worker-1".to_owned(),
        operations: json!([{"op": "test", "path": "/metadata/uid", "value": "uid-1"}]),
        valid_until,
    }
}

fn eviction(valid_until: Duration) -> Eviction {
    Eviction {
        pods: vec![fixtures::pod("db-0")],
        valid_until,
    }
}

/// L1: the claim is decided on a moment before the policy's wait is over.
#[tokio::test]
async fn a_patch_is_not_sent_before_its_time() {
    let cluster = Cluster::new().await;
    cluster.put(PATCH, 200, fake::node());
    let valid_from = clock::since_boot() + Duration::from_millis(50);
    let early = NodePatch {
        valid_from,
        ..patch(None)
    };
    let context = cluster.context();
    assert_eq!(patch_node(&context, early).await, Reply::Done);
    assert!(clock::since_boot() >= valid_from);
    let sent = cluster.requests();
    let later = NodePatch {
        valid_from: clock::since_boot() + Duration::from_hours(1),
        ..patch(None)
    };
    let waits = timeout(Duration::from_secs(1), patch_node(&context, later));
    assert!(waits.await.is_err());
    assert_eq!(cluster.requests(), sent);
}

/// S18: it may have been found out after the decision.
#[tokio::test]
async fn nothing_that_destroys_is_sent_in_a_cluster_that_went_back() {
    let cluster = Cluster::new().await;
    let context = cluster.context();
    context.revision.note(120, Some("90"));
    let [_, future] = past_and_future();
    let taint = patch_node(&context, patch(Some(future))).await;
    assert!(matches!(taint, Reply::NotSent(_)), "{taint:?}");
    let deletion = evict(&context, eviction(future)).await;
    assert!(matches!(deletion, Reply::NotSent(_)), "{deletion:?}");
    for reply in [
        detach(&context, detachment(future)).await,
        delete_node(&context, self::deletion(future)).await,
    ] {
        assert!(matches!(reply, Reply::NotSent(_)), "{reply:?}");
    }
    assert_eq!(cluster.server.seen().len(), 0);
}

#[tokio::test]
async fn a_patch_is_sent_as_it_was_decided() {
    let cluster = Cluster::new().await;
    cluster.put(PATCH, 200, fake::node());
    let reply = patch_node(&cluster.context(), patch(None)).await;
    assert_eq!(reply, Reply::Done);
    let seen = cluster.server.seen();
    assert_eq!(seen.len(), 1);
    assert!(seen[0].line.contains("fieldManager=node-fencing-operator"));
    assert_eq!(seen[0].body, patch(None).operations);
}

#[tokio::test]
async fn nothing_leaves_once_the_proof_has_died() {
    let [past, future] = past_and_future();
    let cluster = Cluster::new().await;
    cluster.put(PATCH, 200, fake::node());
    cluster.put(
        DELETE,
        200,
        json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}),
    );
    let context = cluster.context();
    for reply in [
        patch_node(&context, patch(Some(past))).await,
        evict(&context, eviction(past)).await,
    ] {
        assert!(matches!(reply, Reply::NotSent(_)), "{reply:?}");
    }
    assert_eq!(cluster.requests(), Vec::<String>::new());
    assert_eq!(patch_node(&context, patch(Some(future))).await, Reply::Done);
    assert_eq!(evict(&context, eviction(future)).await, Reply::Done);
    assert_eq!(cluster.requests().len(), 2);
}

#[tokio::test]
async fn a_refusal_is_told_from_an_answer_that_says_nothing_and_neither_is_repeated() {
    // What the API server answers, and whether nothing was certainly written.
    let table = [
        (403, true),
        (404, true),
        (409, true),
        (422, true),
        (429, true),
        (500, false),
        (503, false),
        (504, false),
    ];
    for (code, refused) in table {
        let cluster = Cluster::new().await;
        let (status, body) = failure(code, "the server's words");
        cluster.put(PATCH, status, body);
        let reply = patch_node(&cluster.context(), patch(None)).await;
        let expected = Reply::Refused(code, "the server's words".to_owned());
        assert_eq!(reply == expected, refused, "{code}: {reply:?}");
        assert_eq!(matches!(reply, Reply::Unknown(_)), !refused, "{code}");
        assert_eq!(cluster.requests().len(), 1, "{code}");
    }
}

#[tokio::test]
async fn a_pod_is_deleted_only_if_it_still_is_the_one_that_was_seen() {
    let [_, future] = past_and_future();
    let cluster = Cluster::new().await;
    let context = cluster.context();
    // It is gone already: there is nothing left to do.
    assert_eq!(evict(&context, eviction(future)).await, Reply::Done);
    let body = cluster.server.seen()[0].body.clone();
    assert_eq!(body["gracePeriodSeconds"], 0);
    assert_eq!(
        body["preconditions"],
        json!({"uid": "uid-db-0", "resourceVersion": "7"})
    );
    // Another pod of that name: nothing is done, and the next list tells.
    let (status, conflict) = failure(409, "the UID does not match");
    cluster.put(DELETE, status, conflict);
    let reply = evict(&context, eviction(future)).await;
    assert!(matches!(reply, Reply::Refused(409, _)), "{reply:?}");
}

fn detachment(valid_until: Duration) -> Detachment {
    Detachment {
        attachments: vec![AttachmentView {
            name: "csi-1".to_owned(),
            uid: "uid-va".to_owned(),
            attacher: "driver".to_owned(),
            volume: "pv-1".to_owned(),
            deleting: false,
            detach_error: None,
        }],
        valid_until,
    }
}

fn deletion(valid_until: Duration) -> NodeDeletion {
    NodeDeletion {
        node: "worker-1".to_owned(),
        uid: "uid-1".to_owned(),
        resource_version: "7".to_owned(),
        valid_until,
    }
}

/// S10: of another uid it is another attachment, perhaps of a pod that runs.
#[tokio::test]
async fn a_volume_attachment_is_deleted_only_if_it_still_is_the_one_that_was_seen() {
    const ATTACHMENT: &str = "DELETE /apis/storage.k8s.io/v1/volumeattachments/csi-1";
    let [past, future] = past_and_future();
    let cluster = Cluster::new().await;
    let context = cluster.context();
    let late = detach(&context, detachment(past)).await;
    assert!(matches!(late, Reply::NotSent(_)), "{late:?}");
    // It is gone already.
    assert_eq!(detach(&context, detachment(future)).await, Reply::Done);
    let seen = cluster.server.seen();
    assert_eq!(seen.len(), 1);
    assert!(seen[0].line.starts_with(ATTACHMENT), "{}", seen[0].line);
    assert_eq!(seen[0].body["preconditions"], json!({"uid": "uid-va"}));
    let (status, conflict) = failure(409, "the UID does not match");
    cluster.put(ATTACHMENT, status, conflict);
    let reply = detach(&context, detachment(future)).await;
    assert!(matches!(reply, Reply::Refused(409, _)), "{reply:?}");
}

/// S9: whatever is written to it meanwhile keeps it.
#[tokio::test]
async fn a_node_is_deleted_only_as_it_was_read_and_while_the_reading_is_fresh() {
    let [past, future] = past_and_future();
    let cluster = Cluster::new().await;
    let context = cluster.context();
    let late = delete_node(&context, deletion(past)).await;
    assert!(matches!(late, Reply::NotSent(_)), "{late:?}");
    delete_node(&context, deletion(future)).await;
    let seen = cluster.server.seen();
    assert_eq!(seen.len(), 1);
    let line = "DELETE /api/v1/nodes/worker-1";
    assert!(seen[0].line.starts_with(line), "{}", seen[0].line);
    let read = json!({"uid": "uid-1", "resourceVersion": "7"});
    assert_eq!(seen[0].body["preconditions"], read);
}

/// S9: the record that was judged, at the version that was judged, and no other.
#[tokio::test]
async fn a_record_is_deleted_only_as_it_was_judged() {
    let cluster = Cluster::new().await;
    let spec = json!({
        "nodeName": "worker-1", "trigger": {"type": "NodeCondition"},
        "fence": {"mode": "PowerOff"}, "recovery": {}, "release": {}, "powerOn": {},
    });
    let mut fence = NodeFence::new("fence", serde_json::from_value(spec).expect("a spec"));
    fence.metadata.uid = Some("uid-fence".to_owned());
    fence.metadata.resource_version = Some("7".to_owned());
    delete_record(&cluster.context(), &fence).await;
    let seen = cluster.server.seen();
    assert!(
        seen[0]
            .line
            .starts_with("DELETE /apis/nodefencing.io/v1alpha1/nodefences/fence")
    );
    let judged = json!({"uid": "uid-fence", "resourceVersion": "7"});
    assert_eq!(seen[0].body["preconditions"], judged);
}

/// Like every other write of ours: the API server's audit log and `managedFields` name who made it.
#[tokio::test]
async fn a_record_is_created_by_this_manager() {
    let cluster = Cluster::new().await;
    let spec = json!({
        "nodeName": "worker-1", "trigger": {"type": "NodeCondition"},
        "fence": {"mode": "PowerOff"}, "recovery": {}, "release": {}, "powerOn": {},
    });
    let fence = NodeFence::new("fence", serde_json::from_value(spec).expect("a spec"));
    create_fence(&cluster.context(), &fence).await;
    let seen = cluster.server.seen();
    assert!(seen[0].line.contains("fieldManager=node-fencing-operator"));
}
