//! Claims whose NodeFence nobody can read.

use super::*;

const PATCH: &str = "PATCH /api/v1/nodes/worker-1";

/// Whoever deletes a NodeFence at work deletes what it knew of its commands, and of one that cannot be decoded nobody knows it: people are told,
/// once.
#[tokio::test]
async fn a_claim_that_nobody_sees_to_is_told_once() {
    let undecodable = || {
        let mut fence = fence(false);
        fence["spec"]["nodeName"] = json!(7);
        fence
    };
    // The Node, the cached NodeFence, the stored one, and how often somebody is told.
    let gone = || failure(404, "not found");
    let table = [
        (node("True", true, false), None, gone(), 1),
        (node("True", true, false), None, (200, fence(true)), 0),
        (node("Unknown", true, false), None, gone(), 0),
        (
            node("True", true, false),
            Some(undecodable()),
            (200, undecodable()),
            1,
        ),
        (
            node("Unknown", true, true),
            Some(undecodable()),
            (200, undecodable()),
            1,
        ),
        (
            node("True", true, false),
            None,
            failure(500, "etcd is slow"),
            0,
        ),
    ];
    for (live, cached, (status, stored), told) in table {
        let mut lab = Lab::new(live.clone(), None, cached.into_iter().collect()).await;
        lab.cluster.put(NODE, 200, live.clone());
        lab.cluster.put(PATCH, 200, live.clone());
        lab.cluster
            .put(&format!("GET {FENCES}/fence"), status, stored.clone());
        for _ in 0..3 {
            lab.writes().await;
        }
        assert_eq!(lab.told(), told, "{live} {stored}");
    }
}

/// Whoever has deleted the NodeFence that could not be decoded reads what that means; but not that the claim is gone before it is.
#[tokio::test]
async fn what_was_told_of_a_claim_hides_nothing_that_comes_after() {
    let live = node("True", true, false);
    let mut undecodable = fence(false);
    undecodable["spec"]["nodeName"] = json!(7);
    let stored = format!("GET {FENCES}/fence");
    let mut lab = Lab::new(live.clone(), None, vec![undecodable.clone()]).await;
    lab.cluster.put(NODE, 200, live.clone());
    lab.cluster.put(&stored, 200, undecodable);
    lab.writes().await;
    assert_eq!(lab.told(), 1);
    let (gone, busy) = (failure(404, "not found"), failure(409, "it has changed"));
    lab.cluster.put(&stored, gone.0, gone.1);
    lab.cluster.put(PATCH, busy.0, busy.1);
    lab.writes().await;
    assert_eq!(lab.told(), 1, "it carries the claim still");
    // Whether this one was written nobody knows, and another time there may be no claim any more.
    let (code, unknown) = failure(500, "etcd is slow");
    lab.cluster.put(PATCH, code, unknown);
    lab.writes().await;
    assert_eq!(lab.told(), 2);
}
