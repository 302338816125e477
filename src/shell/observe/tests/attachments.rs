//! Incidents that ask for VolumeAttachments at the same time.

use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};

fn lists(cluster: &Cluster) -> usize {
    let requests = cluster.requests();
    let lists = requests.iter().filter(|line| line.contains(ATTACHMENTS));
    lists.count()
}

/// S12: a list that was begun before the question may show what was there before it, so that it answers none that came later.
#[tokio::test]
async fn those_who_ask_while_a_list_is_under_way_share_the_next() {
    let cluster = &cluster().await;
    cluster.delay(ATTACHMENTS, Duration::from_millis(300));
    let context = &cluster.context();
    let ask = |node: &'static str| {
        let lists = context.attachments.clone();
        async move { lists.of(&context.reads, &context.revision, node).await }
    };
    let begun = AtomicUsize::new(0);
    let later = |node| {
        let begun = &begun;
        async move {
            while lists(cluster) == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            begun.fetch_add(1, Ordering::Relaxed);
            ask(node).await
        }
    };
    let (first, one, two) = tokio::join!(ask("worker-1"), later("worker-2"), later("worker-3"));
    let names = |answer: &Read<Vec<AttachmentView>>| {
        let all = answer.present().expect("a list").iter();
        all.map(|it| it.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&first), ["csi-1"]);
    assert_eq!(names(&one), ["csi-2"]);
    assert_eq!(names(&two), [""; 0]);
    assert_eq!(lists(cluster), 2);
    assert_eq!(
        begun.into_inner(),
        2,
        "both asked while a list was under way"
    );
    // Whoever asks when none is under way has one of its own.
    assert_eq!(names(&ask("worker-1").await), ["csi-1"]);
    assert_eq!(lists(cluster), 3);
}

/// In a storm one list after the other would keep the API server from everything else.
#[tokio::test]
async fn a_list_that_took_long_is_followed_by_a_rest() {
    let cluster = cluster().await;
    let time = Duration::from_millis(250);
    cluster.delay(ATTACHMENTS, time);
    let context = cluster.context();
    let begun = clock::since_boot();
    for _ in 0..2 {
        let lists = &context.attachments;
        let answer = lists
            .of(&context.reads, &context.revision, "worker-1")
            .await;
        assert!(answer.present().is_some());
    }
    assert!(clock::since_boot() - begun >= 3 * time);
    assert_eq!(lists(&cluster), 2);
}

/// Whoever goes away leaves the others their answer.
#[tokio::test]
async fn a_list_goes_on_when_the_first_who_asked_goes_away() {
    let cluster = cluster().await;
    cluster.delay(ATTACHMENTS, Duration::from_millis(200));
    let context = cluster.context();
    let ask = || {
        context
            .attachments
            .of(&context.reads, &context.revision, "worker-1")
    };
    let gone = tokio::time::timeout(Duration::from_millis(50), ask()).await;
    assert!(gone.is_err());
    assert!(ask().await.present().is_some());
}

/// F22: neither for the one nor for the other.
#[tokio::test]
async fn a_list_that_is_cut_answers_nobody() {
    let cluster = cluster().await;
    let mut cut = fake::list("VolumeAttachment", "7", &[]);
    cut["metadata"]["continue"] = json!("more");
    let unversioned = json!({"kind": "VolumeAttachmentList", "metadata": {}, "items": []});
    let empty = json!({"kind": "VolumeAttachmentList", "metadata": {"resourceVersion": "7"}});
    let context = cluster.context();
    for wrong in [cut, unversioned, empty] {
        cluster.put(ATTACHMENTS, 200, wrong.clone());
        let lists = &context.attachments;
        let answer = lists
            .of(&context.reads, &context.revision, "worker-1")
            .await;
        assert!(matches!(answer, Read::Failed(_)), "{wrong}: {answer:?}");
    }
}
