//! What each answer means, and who is told.

use super::*;
use crate::shell::fake::{Fake, failure};
use serde_json::Value;

const DENIED: &str = "nodes \"worker-1\" is forbidden: ValidatingAdmissionPolicy 'node-fencing-operator-nodes' with binding \
                      'node-fencing-operator-nodes' denied request: S7: the operator may change nothing of a Node but its taints";

async fn seen(code: u16, body: Value) -> (Guard, Vec<crate::shell::fake::Seen>) {
    let server = Fake::start(move |_| (code, body.clone())).await;
    let guard = look(&server.clients.writes, "worker-1").await;
    (guard, server.seen())
}

#[tokio::test]
async fn only_an_accepted_dry_run_says_that_the_guard_is_missing() {
    let accepted = json!({
        "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": {"name": "worker-1"},
    });
    let (guard, requests) = seen(200, accepted).await;
    assert_eq!(guard, Guard::Missing);
    let [request] = requests.as_slice() else {
        panic!("{requests:?}")
    };
    assert!(request.line.starts_with("PATCH /api/v1/nodes/worker-1?"));
    assert!(request.line.contains("dryRun=All"), "{}", request.line);
    let label = json!({"metadata": {"labels": {"nodefencing.io/admission-guard": "tried"}}});
    assert_eq!(request.body, label);

    let (code, body) = failure(403, DENIED);
    assert_eq!(seen(code, body).await.0, Guard::Stands);
    let rbac = "nodes \"worker-1\" is forbidden: User \"x\" cannot patch resource \"nodes\"";
    for (code, message) in [
        (403, rbac),
        (400, "no dry run"),
        (404, "gone"),
        (500, DENIED),
    ] {
        let (code, body) = failure(code, message);
        assert_eq!(seen(code, body).await.0, Guard::Unknown, "{code} {message}");
    }
}

#[test]
fn one_look_without_the_guard_is_followed_by_another_soon() {
    let mut is_suspected = false;
    let mut next = |seen| judged(seen, &mut is_suspected);
    assert_eq!(next(Guard::Stands), (Guard::Stands, LOOK_PERIOD));
    assert_eq!(next(Guard::Missing), (Guard::Unknown, SECOND_LOOK));
    assert_eq!(next(Guard::Stands), (Guard::Stands, LOOK_PERIOD));
    assert_eq!(next(Guard::Missing), (Guard::Unknown, SECOND_LOOK));
    assert_eq!(next(Guard::Missing), (Guard::Missing, LOOK_PERIOD));
    // An API server that does not answer does not make it forgotten.
    assert_eq!(next(Guard::Unknown), (Guard::Unknown, LOOK_PERIOD));
    assert_eq!(next(Guard::Missing), (Guard::Missing, LOOK_PERIOD));
    assert_eq!(next(Guard::Stands), (Guard::Stands, LOOK_PERIOD));
    assert_eq!(next(Guard::Missing), (Guard::Unknown, SECOND_LOOK));
}

#[test]
fn what_is_not_known_leaves_what_was_known() {
    let (found, mut guard) = watch::channel(Guard::default());
    tell(&found, Guard::Missing);
    assert!(guard.has_changed().expect("sender"));
    assert_eq!(*guard.borrow_and_update(), Guard::Missing);
    tell(&found, Guard::Unknown);
    tell(&found, Guard::Missing);
    assert!(!guard.has_changed().expect("sender"));
    assert_eq!(*guard.borrow(), Guard::Missing);
}

#[test]
fn a_policy_says_it_while_it_is_missing_and_nothing_where_it_never_was() {
    let mut conditions = vec![];
    let mut told = |guard: Guard| {
        guard.tell(&mut conditions, Some(1), Timestamp::UNIX_EPOCH);
        find(&conditions, ADMISSION_GUARD_MISSING).map(|it| it.status.clone())
    };
    assert_eq!(told(Guard::Unknown), None);
    assert_eq!(told(Guard::Stands), None);
    assert_eq!(told(Guard::Missing).as_deref(), Some("True"));
    assert_eq!(told(Guard::Unknown).as_deref(), Some("True"));
    assert_eq!(told(Guard::Stands).as_deref(), Some("False"));
}
