//! What an answer of the API server means to the driver whose objects are there.

use super::*;
use crate::shell::fake::{self, Cluster, failure};
use serde_json::json;

const LIST: &str = "/apis/csiaddons.openshift.io/v1alpha1/networkfences";
const CLASS: &str = "/apis/csiaddons.openshift.io/v1alpha1/networkfenceclasses/rbd";

fn of(cluster: &Cluster) -> OwnApiServer {
    OwnApiServer::new(&cluster.server.clients)
}

#[tokio::test]
async fn only_a_whole_list_counts() {
    let cluster = Cluster::new().await;
    let api = of(&cluster);
    assert!(api.list(LIST).await.is_err(), "404 is no empty list");
    let whole = fake::list("NetworkFence", "9", &[json!({"metadata": {"name": "a"}})]);
    cluster.put(&format!("GET {LIST}"), 200, whole.clone());
    assert_eq!(api.list(LIST).await.map(|it| it.len()), Ok(1));
    for (at, value) in [
        ("/metadata/continue", json!("more")),
        ("/metadata/resourceVersion", json!("")),
        ("/items", json!(null)),
    ] {
        let mut cut = whole.clone();
        cut["metadata"]["continue"] = json!("");
        *cut.pointer_mut(at).expect("a field") = value;
        cluster.put(&format!("GET {LIST}"), 200, cut);
        assert!(api.list(LIST).await.is_err(), "{at}");
    }
}

#[tokio::test]
async fn only_the_api_server_says_that_an_object_is_not_there() {
    let cluster = Cluster::new().await;
    let api = of(&cluster);
    assert_eq!(api.get(CLASS).await, Ok(None));
    assert_eq!(api.node("worker-1").await, Ok(None));
    let mut of_a_proxy = failure(404, "no such page").1;
    of_a_proxy["reason"] = json!("Test");
    cluster.put(&format!("GET {CLASS}"), 404, of_a_proxy);
    assert!(api.get(CLASS).await.is_err());
    cluster.put(
        &format!("GET {CLASS}"),
        200,
        json!({"metadata": {"name": "other"}}),
    );
    assert!(api.get(CLASS).await.is_err());
    cluster.put(
        &format!("GET {CLASS}"),
        200,
        json!({"metadata": {"name": "rbd"}}),
    );
    assert!(api.get(CLASS).await.is_ok_and(|it| it.is_some()));
    cluster.put("GET /api/v1/nodes/worker-1", 200, fake::node());
    let node = api
        .node("worker-1")
        .await
        .expect("an answer")
        .expect("a Node");
    assert_eq!(
        (node.uid.as_str(), node.claim()),
        ("uid-1", Some("fence-n1"))
    );
}

/// S20, S23: only a refusal has made nothing.
#[tokio::test]
async fn a_creation_is_sent_once_and_unknown_unless_it_was_refused() {
    for (code, made) in [
        (403, "refused"),
        (409, "refused"),
        (500, "unknown"),
        (503, "unknown"),
    ] {
        let cluster = Cluster::new().await;
        cluster.put(&format!("POST {LIST}"), code, failure(code, "no").1);
        let outcome = of(&cluster).create(LIST, json!({})).await;
        match made {
            "refused" => assert!(
                matches!(outcome, Err(NotCreated::Refused(_))),
                "{code} {outcome:?}"
            ),
            _ => assert!(
                matches!(outcome, Err(NotCreated::Unknown(_))),
                "{code} {outcome:?}"
            ),
        }
        assert_eq!(cluster.requests().len(), 1, "{code}");
    }
    let cluster = Cluster::new().await;
    cluster.put(&format!("POST {LIST}"), 201, json!({}));
    assert_eq!(
        of(&cluster)
            .create(LIST, json!({"kind": "NetworkFence"}))
            .await,
        Ok(())
    );
    assert_eq!(
        cluster.server.seen()[0].body,
        json!({"kind": "NetworkFence"})
    );
}

/// A role that was never bound is one thing, a refusal by anything else another.
#[tokio::test]
async fn a_right_that_no_role_grants_is_told_from_another_refusal() {
    let rbac = |verb: &str| {
        let words = format!(
            r#"networkfences.csiaddons.openshift.io is forbidden: User "system:serviceaccount:a:b" cannot {verb} resource "networkfences""#
        );
        failure(403, &words)
    };
    let cluster = Cluster::new().await;
    let api = of(&cluster);
    for (verb, line) in [("list", "GET"), ("create", "POST")] {
        let (code, refused) = rbac(verb);
        cluster.put(&format!("{line} {LIST}"), code, refused);
    }
    let (code, refused) = rbac("get");
    cluster.put(&format!("GET {CLASS}"), code, refused);
    let lacks = |request: &str| NotRead::NotGranted(format!("{request}.csiaddons.openshift.io"));
    assert_eq!(api.list(LIST).await, Err(lacks("list networkfences")));
    assert_eq!(api.get(CLASS).await, Err(lacks("get networkfenceclasses")));
    let made = api.create(LIST, json!({})).await;
    let request = "create networkfences.csiaddons.openshift.io".to_owned();
    assert_eq!(made, Err(NotCreated::NotGranted(request)));

    let (code, refused) = failure(403, "admission webhook \"w\" denied the request");
    for (verb, path) in [("GET", LIST), ("POST", LIST)] {
        cluster.put(&format!("{verb} {path}"), code, refused.clone());
    }
    assert!(matches!(api.list(LIST).await, Err(NotRead::Failed(_))));
    let made = api.create(LIST, json!({})).await;
    assert!(matches!(made, Err(NotCreated::Refused(_))), "{made:?}");
}
