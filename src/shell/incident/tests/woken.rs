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
