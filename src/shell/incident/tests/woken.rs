//! What wakes a loop, and is known to it already.

use super::*;
use crate::shell::wakes::Reason;

/// L7: each round reads by quorum, and the watches tell of all that this process has just read and written itself.
#[tokio::test]
async fn what_the_last_round_knew_begins_no_other_and_an_edit_does() {
    let cluster = cluster(unclaimed()).await;
    let record = of_the_node(json!({}));
    cluster.put(FENCE, 200, fence_object("7", record.clone()));
    let (context, incidents) = (cluster.context(), Incidents::default());
    let known = decoded(fence_object("7", record.clone()));
    let edited = decoded(fence_object("9", record));
    let pause = run(&context, &incidents, &known).await.expect("it is open");
    assert!(pause > AGAIN, "{pause:?}");
    let rounds = || cluster.requests().iter().filter(|it| *it == NODE).count();
    let mut before = rounds();
    let mut is_news = async |reasons: &[Reason], fence: &NodeFence| {
        for reason in reasons {
            context.wakes.wake("fence".to_owned(), reason.clone());
        }
        let again = run(&context, &incidents, fence).await;
        assert!(again.is_some_and(|again| again <= LOOK_AGAIN_MAX));
        rounds() > std::mem::replace(&mut before, rounds())
    };
    let node = |version: &str| Reason::Node(version.to_owned());
    let of_fence = |version: &str| Reason::Fence(version.to_owned());
    assert!(!is_news(&[node("7")], &known).await);
    assert!(!is_news(&[node("7"), of_fence("7")], &known).await);
    assert!(is_news(&[node("8")], &known).await);
    assert!(is_news(&[Reason::Other], &known).await);
    // The record is the same: its version says that a human has changed what is wanted.
    assert!(is_news(&[of_fence("9")], &edited).await);
    assert!(!is_news(&[of_fence("9")], &edited).await);
    // Its own time has come.
    assert!(is_news(&[], &edited).await);
}

/// An echo puts off no look that is due soon.
#[tokio::test]
async fn a_look_that_is_due_soon_stays_due_whatever_else_wakes_the_loop() {
    let cluster = cluster(unclaimed()).await;
    let record = of_the_node(json!({}));
    cluster.put(FENCE, 200, fence_object("7", record.clone()));
    let attachment = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": "csi-1", "uid": "uid-csi-1"},
        "spec": {"attacher": "csi.example.com", "nodeName": "worker-1", "source": {"persistentVolumeName": "pv-1"}},
        "status": {"attached": true},
    });
    let list = fake::list("VolumeAttachment", "7", &[attachment]);
    cluster.put("GET /apis/storage.k8s.io/v1/volumeattachments", 200, list);
    let (context, _watches) = cluster.watching();
    let attachments = &context.caches.attachments;
    attachments.wait_until_ready().await.expect("the list");
    let (incidents, known) = (Incidents::default(), decoded(fence_object("7", record)));
    let pause = run(&context, &incidents, &known).await.expect("it is open");
    assert!(pause > DETACHED_GATHER, "{pause:?}");
    for reason in [Reason::Attachment, Reason::Node("7".to_owned())] {
        context.wakes.wake("fence".to_owned(), reason);
        let pause = run(&context, &incidents, &known).await.expect("it is open");
        assert!(pause <= DETACHED_GATHER, "{pause:?}");
    }
}
