//! What each finding says, and that an open fence keeps the operator where it is.

use super::*;
use crate::shell::fake::{self, Cluster, Fake, failure};
use fencing_core::observed::{DETACHING, OUT_OF_SERVICE};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::time::timeout;

const LEASE: &str = "GET /apis/coordination.k8s.io/v1/namespaces/ns/leases/node-fencing-operator";
const NODES: &str = "GET /api/v1/nodes";
const WHO: &str = "POST /apis/authentication.k8s.io/v1/selfsubjectreviews";
const FENCES: &str = "GET /apis/nodefencing.io/v1alpha1/nodefences";

fn lease(holder: &str, second: u32) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "node-fencing-operator"},
        "spec": {"holderIdentity": holder, "renewTime": format!("2026-01-01T00:00:{second:02}.000000Z")},
    })
}

fn fence(stage: &str, status: &str, mode: &str) -> Value {
    json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence", "metadata": {"name": "worker-1-a"},
        "spec": {"nodeName": "worker-1", "trigger": {"type": "Manual"}, "fence": {"mode": mode}},
        "status": {"conditions": [{
            "type": "Succeeded", "status": status, "reason": stage, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]},
    })
}

/// The Node with these taints and no other.
fn with_taints(keys: &[&str]) -> Value {
    let mut node = fake::node();
    let taint = |key: &&str| json!({"key": key, "value": "of-somebody", "effect": "NoExecute"});
    node["spec"]["taints"] = keys.iter().map(taint).collect();
    node
}

/// Whether Secrets may be read is not asked, so nobody may say that they may.
#[tokio::test]
async fn the_rights_are_those_that_were_asked_for() {
    let rights_without = async |denied: &'static str| {
        let server = Fake::start(move |seen| {
            let mut review = seen.body.clone();
            let resource = &review["spec"]["resourceAttributes"]["resource"];
            review["status"] = json!({"allowed": resource != denied});
            (201, review)
        });
        rights(&server.await.clients, "ns").await
    };
    let all_but_secrets = rights_without("secrets").await;
    assert_eq!(all_but_secrets.mark, Mark::Well, "{all_but_secrets}");
    assert_eq!(
        all_but_secrets.words,
        "this account has every right that was checked (reading Secrets, which a role may name one by one, is shown by each \
         FenceDevice's conditions)"
    );
    let no_nodes = rights_without("nodes").await;
    assert!(no_nodes.has_failed(), "{no_nodes}");
    assert_eq!(
        no_nodes.words,
        "this account may not get nodes, list nodes, watch nodes, patch nodes: apply deploy/rbac.yaml, or set rbac.create in the chart"
    );
}

#[tokio::test]
async fn a_lease_that_is_renewed_meanwhile_has_a_leader() {
    let count = Arc::new(AtomicU32::new(0));
    let server =
        Fake::start(move |_| (200, lease("op-1", count.fetch_add(1, Ordering::SeqCst)))).await;
    let found = leader(&server.clients, "ns").await;
    assert_eq!(found.mark, Mark::Well, "{found}");
    assert!(
        found
            .words
            .starts_with("op-1 holds and renews the Lease ns/node-fencing-operator")
    );
}

#[tokio::test]
async fn a_lease_that_nobody_holds_has_no_leader() {
    let cluster = Cluster::new().await;
    let clients = &cluster.server.clients;
    let missing = leader(clients, "ns").await;
    assert!(missing.has_failed() && missing.words.starts_with("no replica has the Lease"));
    cluster.put(LEASE, 200, lease("", 1));
    assert!(leader(clients, "ns").await.has_failed());
    let (code, body) = failure(500, "etcd is away");
    cluster.put(LEASE, code, body);
    let unknown = leader(clients, "ns").await;
    assert!(
        unknown.has_failed() && unknown.words.contains("etcd is away"),
        "{unknown}"
    );
}

#[tokio::test]
async fn a_lease_that_is_not_renewed_within_its_duration_has_no_leader() {
    let cluster = Cluster::new().await;
    let mut still = lease("op-1", 1);
    still["spec"]["leaseDurationSeconds"] = json!(1);
    cluster.put(LEASE, 200, still);
    let looked = leader(&cluster.server.clients, "ns");
    let found = timeout(Duration::from_secs(10), looked).await;
    let found = found.expect("it looks no longer than the Lease is held");
    assert!(found.has_failed(), "{found}");
    assert!(
        found
            .words
            .starts_with("the Lease ns/node-fencing-operator of op-1 was not renewed for 1 s, so nothing is fenced; "),
        "{found}"
    );
}

/// Its taints are taken away by nobody else.
#[tokio::test]
async fn the_operator_may_go_when_nothing_of_it_is_left() {
    for (node, fences, is_well, words) in [
        (with_taints(&[]), vec![], true, "no open NodeFence"),
        (with_taints(&[OUT_OF_SERVICE]), vec![], true, ""),
        (
            with_taints(&[OUT_OF_SERVICE, QUARANTINE]),
            vec![],
            false,
            "Node worker-1 has taint nodefencing.io/quarantine: only the operator removes",
        ),
        (
            with_taints(&[DETACHING]),
            vec![],
            false,
            "Node worker-1 has taint nodefencing.io/detaching: only the operator removes",
        ),
        (
            with_taints(&[]),
            vec![fence("Recovered", "True", "PowerOff")],
            true,
            "",
        ),
        (
            with_taints(&[]),
            vec![fence("Observing", "Unknown", "Observe")],
            true,
            "",
        ),
        (
            with_taints(&[]),
            vec![fence("Fencing", "Unknown", "PowerOff")],
            false,
            "NodeFence worker-1-a of Node worker-1 is open: only the operator removes",
        ),
        (
            fake::node(),
            vec![],
            false,
            "Node worker-1 has taint nodefencing.io/claim: only the operator removes",
        ),
    ] {
        let cluster = Cluster::new().await;
        cluster.put(NODES, 200, fake::list("Node", "1", &[node]));
        let mut list = fake::list("NodeFence", "1", &fences);
        list["apiVersion"] = json!("nodefencing.io/v1alpha1");
        cluster.put(FENCES, 200, list);
        let found = may_go(&cluster.server.clients).await;
        let mark = if is_well { Mark::Well } else { Mark::Failed };
        assert_eq!(found.mark, mark, "{found}");
        assert!(found.words.starts_with(words), "{found}");
        let has_way_out = ["docs/how-to/uninstall.md", "helm uninstall --no-hooks"]
            .iter()
            .all(|part| found.words.contains(part));
        assert_eq!(has_way_out, !is_well, "{found}");
    }
    // What cannot be asked is no permission.
    let cluster = Cluster::new().await;
    assert!(may_go(&cluster.server.clients).await.has_failed());
    cluster.put(NODES, 200, fake::list("Node", "1", &[]));
    assert!(may_go(&cluster.server.clients).await.has_failed());
}

#[tokio::test]
async fn an_api_server_that_will_not_do_is_the_only_finding() {
    let cluster = Cluster::new().await;
    let found = is_well(&cluster.server.clients, "ns").await;
    let [found] = found.as_slice() else {
        panic!("{found:?}")
    };
    assert!(found.has_failed());
    assert!(
        found
            .to_string()
            .starts_with("FAIL failed to ask the API server"),
        "{found}"
    );
}

#[tokio::test]
async fn a_guard_that_is_missing_is_a_failure() {
    let cluster = Cluster::new().await;
    cluster.put(NODES, 200, fake::list("Node", "1", &[fake::node()]));
    let node = json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": {"name": "worker-1"}});
    cluster.put("PATCH /api/v1/nodes/worker-1", 200, node);
    let clients = &cluster.server.clients;
    let missing = admission(clients, "ns").await;
    assert!(
        missing.has_failed() && missing.words == guard::MISSING,
        "{missing}"
    );
    let (code, body) = failure(
        403,
        &format!("denied: {}", crate::shell::foreign_text::REFUSAL),
    );
    cluster.put("PATCH /api/v1/nodes/worker-1", code, body);
    assert_eq!(
        admission(clients, "ns").await,
        well(guard::STANDS.to_owned())
    );
    let (code, body) = failure(500, "later");
    cluster.put("PATCH /api/v1/nodes/worker-1", code, body);
    assert!(admission(clients, "ns").await.has_failed());
    cluster.put(NODES, 200, fake::list("Node", "1", &[]));
    assert_eq!(admission(clients, "ns").await.mark, Mark::Well);
}

/// They hold the operator's account alone, so that whoever else asks is refused by nothing, or by something else.
#[tokio::test]
async fn whoever_is_not_the_operator_cannot_tell_whether_the_guard_stands() {
    let cluster = Cluster::new().await;
    let clients = &cluster.server.clients;
    cluster.put(NODES, 200, fake::list("Node", "1", &[fake::node()]));
    let i_am = |name: &str| {
        let user = json!({"username": name});
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", "metadata": {}, "status": {"userInfo": user}});
        cluster.put(WHO, 201, review);
    };
    let node = json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": {"name": "worker-1"}});
    let no_right = failure(403, "User \"jane\" cannot patch resource \"nodes\"");
    for (code, body) in [(200, node), no_right] {
        cluster.put("PATCH /api/v1/nodes/worker-1", code, body);
        for other in ["jane", "system:serviceaccount:ns-2:operator"] {
            i_am(other);
            let found = admission(clients, "ns").await;
            assert_eq!(found.mark, Mark::Skipped, "{found}");
            let told = found.to_string();
            let begin = format!(
                "SKIP the admission policies apply to accounts of namespace ns only, not to {other}; "
            );
            assert!(told.starts_with(&begin), "{told}");
            assert!(
                told.contains("kubectl -n ns exec deployment/node-fencing-operator -- /node-fencing-operator check"),
                "{told}"
            );
        }
        for own in ["system:serviceaccount:ns:operator", ""] {
            i_am(own);
            assert!(admission(clients, "ns").await.has_failed(), "{own}");
        }
    }
}
