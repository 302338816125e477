//! What the answers mean, and what is asked.

use super::*;
use crate::shell::fake::{Fake, failure};
use serde_json::{Value, json};
use std::collections::BTreeSet;

async fn looked(code: u16, body: Value) -> (Result<Served, AskError>, Vec<String>) {
    let server = Fake::start(move |_| (code, body.clone())).await;
    let looked = look(&server.clients.writes).await;
    let asked = server.seen().into_iter().map(|seen| seen.line);
    (looked, asked.collect())
}

#[tokio::test]
async fn of_all_apis_those_of_others_count_and_one_question_is_asked() {
    let group = |name: &str| {
        let version = json!({"groupVersion": format!("{name}/v1"), "version": "v1"});
        json!({"name": name, "versions": [version], "preferredVersion": version})
    };
    let served = ["apps", "remediation.medik8s.io", "medik8s.io", "metal3.io"].map(group);
    let list = json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": served});
    let (looked, asked) = looked(200, list).await;
    let others = BTreeSet::from(["remediation.medik8s.io", "metal3.io"]);
    assert_eq!(looked.ok(), Some(Served::Known(others)));
    assert_eq!(asked, ["GET /apis"]);
}

#[tokio::test]
async fn without_an_answer_what_was_known_stays() {
    let refused = async || {
        let (code, body) = failure(403, "no discovery");
        looked(code, body).await.0
    };
    let (found, mut served) = watch::channel(Served::default());
    tell(&found, refused().await);
    assert_eq!(*served.borrow_and_update(), Served::Unknown);
    let known = || Served::Known(BTreeSet::from(["metal3.io"]));
    tell(&found, Ok(known()));
    assert_eq!(*served.borrow_and_update(), known());
    tell(&found, refused().await);
    tell(&found, Ok(known()));
    assert!(!served.has_changed().expect("sender"), "no news");
    tell(&found, Ok(Served::Known(BTreeSet::new())));
    assert!(served.has_changed().expect("sender"));
}
