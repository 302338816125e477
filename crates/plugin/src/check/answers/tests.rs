//! A cluster that is silent, refuses, or is none: what `check` says of it.

use super::super::{Finding, Mark, before, look};
use super::*;
use crate::cluster::Limits;
use fencing_cluster::client::Clients;
use fencing_cluster::fake::{Fake, Seen, failure};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;

fn cluster(clients: Clients, read: Duration) -> Cluster {
    Cluster {
        clients,
        namespace: "node-fencing-system".to_owned(),
        limits: Limits {
            read,
            ..Limits::of(None)
        },
    }
}

/// What is asked for an object or a list is refused or not known; the version is told.
async fn found(answer: fn(&Seen) -> (u16, Value)) -> Vec<Finding> {
    let server = Fake::start(answer).await;
    let cluster = cluster(server.clients.clone(), Duration::from_secs(10));
    before::look(&cluster).await.expect("findings")
}

fn version() -> (u16, Value) {
    let version = json!({
        "major": "1", "minor": "36", "gitVersion": "v1.36.3", "gitCommit": "", "gitTreeState": "", "buildDate": "", "goVersion": "",
        "compiler": "", "platform": "",
    });
    (200, version)
}

fn forbidden() -> (u16, Value) {
    let (code, mut status) = failure(403, "that is forbidden");
    status["reason"] = json!("Forbidden");
    (code, status)
}

/// It accepts, and that is all.
#[tokio::test]
async fn a_silent_api_server_is_given_up_within_the_bound_which_is_named_with_the_way_out() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let server = format!("http://{}", listener.local_addr().expect("an address"));
    let config = kube::Config::new(server.parse().expect("a URL"));
    let clients = Clients::from_config(config).expect("clients");
    let silent = cluster(clients, Duration::from_secs(1));
    let begun = Instant::now();
    let of_check = look(&silent).await.expect("findings");
    let of_pre = before::look(&silent).await.expect("findings");
    // Generous for a machine that does other things: without a bound it is the kernel's, some two minutes.
    assert!(begun.elapsed() < Duration::from_secs(30));
    for findings in [of_check, of_pre] {
        let [finding] = findings.as_slice() else {
            panic!("{findings:?}");
        };
        assert_eq!(finding.status, Mark::Failed);
        for words in [server.as_str(), "within 1 s", "--request-timeout"] {
            assert!(finding.message.contains(words), "{}", finding.message);
        }
    }
    let listed = silent.ours::<fencing_api::fence::NodeFence>().await;
    let error = listed.expect_err("silent").to_string();
    for words in [server.as_str(), "within 1 s", "--request-timeout"] {
        assert!(error.contains(words), "{error}");
    }
}

/// Nobody listens there: the words are for whoever types, who has no service account.
#[tokio::test]
async fn a_dead_api_server_is_told_without_a_word_of_the_pods_service_account() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let server = format!("http://{}", listener.local_addr().expect("an address"));
    drop(listener);
    let config = kube::Config::new(server.parse().expect("a URL"));
    let clients = Clients::from_config(config).expect("clients");
    let dead = cluster(clients, Duration::from_secs(10));
    for findings in [
        look(&dead).await.expect("findings"),
        before::look(&dead).await.expect("findings"),
    ] {
        let message = &findings[0].message;
        assert!(message.contains(&server), "{message}");
        assert!(message.contains("failed to connect to"), "{message}");
        assert!(!message.contains("service account"), "{message}");
    }
}

#[tokio::test]
async fn who_may_not_ask_for_the_version_is_told_who_may() {
    let findings = found(|_| forbidden()).await;
    let message = &findings[0].message;
    assert!(
        message.contains("you may not ask http://127.0.0.1"),
        "{message}"
    );
    assert!(message.contains("system:discovery"), "{message}");
    assert!(!message.contains("service account"), "{message}");
}

/// It is no finding: `--wait` would wait for what no time brings.
#[tokio::test]
async fn who_is_not_known_is_told_so_as_by_every_command() {
    let server = Fake::start(|_: &Seen| {
        let (code, mut status) = failure(401, "Unauthorized");
        status["reason"] = json!("Unauthorized");
        (code, status)
    })
    .await;
    let cluster = cluster(server.clients.clone(), Duration::from_secs(10));
    for looked in [look(&cluster).await, before::look(&cluster).await] {
        let error = looked.expect_err("nobody");
        assert!(matches!(error, ClusterError::Unauthorized(_)), "{error}");
        assert!(error.to_string().contains("log in again"), "{error}");
    }
}

#[tokio::test]
async fn what_is_no_api_server_is_named() {
    let findings = found(|_| failure(404, "page not found")).await;
    let message = &findings[0].message;
    assert!(
        message.contains("is it a Kubernetes API server?"),
        "{message}"
    );
    assert!(message.contains("--context"), "{message}");
}

/// The role of those who read comes with the operator.
#[tokio::test]
async fn before_the_installation_nobody_is_sent_to_a_role_that_is_not_there() {
    let findings = found(|request| match request.line.contains("/version") {
        true => version(),
        false => forbidden(),
    })
    .await;
    assert_eq!(findings.len(), 5, "{findings:?}");
    for finding in &findings[1..] {
        assert_eq!(finding.status, Mark::Unknown, "{finding:?}");
        let message = &finding.message;
        assert!(message.contains("that is forbidden"), "{message}");
        assert!(message.contains("cluster-admin"), "{message}");
        assert!(
            !message.contains("node-fencing-cluster-viewer"),
            "{message}"
        );
    }
}

#[tokio::test]
async fn a_kind_that_the_cluster_does_not_serve_is_not_known_and_ends_nothing() {
    let findings = found(|request| match request.line.contains("/version") {
        true => version(),
        false => failure(404, "the server could not find the requested resource"),
    })
    .await;
    assert_eq!(findings.len(), 5, "{findings:?}");
    for finding in &findings[1..] {
        assert_eq!(finding.status, Mark::Unknown, "{finding:?}");
        assert!(finding.message.contains("could not find"), "{finding:?}");
    }
}

/// Somebody has deleted it between the look and the write: the operator is there all the same.
#[tokio::test]
async fn an_object_that_is_gone_is_told_as_that_and_not_as_an_operator_that_is_not_there() {
    use crate::cluster::Write;
    use fencing_api::fence::NodeFence;
    for (message, told) in [
        (
            "nodefences.nodefencing.io \"w1-1\" not found",
            "`w1-1` does not exist",
        ),
        (
            "the server could not find the requested resource",
            "has no API group nodefencing.io",
        ),
    ] {
        let server = Fake::start(move |_: &Seen| failure(404, message)).await;
        let cluster = cluster(server.clients.clone(), Duration::from_secs(10));
        let write = Write {
            dry_run: false,
            role: "node-fencing-fencer",
        };
        let patched = cluster.patch::<NodeFence>("w1-1", &json!({}), &write).await;
        let error = patched.expect_err(told).to_string();
        assert!(error.contains(told), "{error}");
    }
}

/// `approve`, `now` and the others list, and pass such an object over; who asks for one by its name is told why there is no answer.
#[tokio::test]
async fn an_object_that_another_version_has_written_is_told_as_that() {
    use fencing_api::policy::NodeFencingPolicy;
    let server = Fake::start(|_: &Seen| {
        let spec = json!({"nodeSelector": {}, "fence": {"mode": "Teleport"}});
        let policy = json!({
            "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFencingPolicy", "metadata": {"name": "workers"}, "spec": spec,
        });
        (200, policy)
    })
    .await;
    let cluster = cluster(server.clients.clone(), Duration::from_secs(10));
    let found = cluster.find_ours::<NodeFencingPolicy>("workers").await;
    let error = found.expect_err("another version").to_string();
    for words in [
        "NodeFencingPolicy workers cannot be read by this plugin",
        "Unknown variant Teleport",
        "`kubectl fence version`",
    ] {
        assert!(error.contains(words), "{error}");
    }
    assert!(!error.contains("/readyz"), "it has answered: {error}");
}

#[tokio::test]
async fn an_object_of_ours_that_is_not_there_is_none() {
    use fencing_api::policy::NodeFencingPolicy;
    let server = Fake::start(|_: &Seen| {
        let (code, mut status) = failure(404, "not found");
        status["reason"] = json!("NotFound");
        (code, status)
    })
    .await;
    let cluster = cluster(server.clients.clone(), Duration::from_secs(10));
    let found = cluster.find_ours::<NodeFencingPolicy>("workers").await;
    assert!(found.expect("an answer").is_none());
}

/// It answers but for one question, and that one ends nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_schema_that_does_not_come_is_not_known_after_the_limit_of_a_request() {
    let server = Fake::start(|request: &Seen| {
        if request.line.contains("/openapi/") {
            std::thread::sleep(Duration::from_secs(4));
        }
        match request.line.contains("/version") {
            true => version(),
            false if request.line.contains("/apis/nodefencing.io/v1alpha1") => {
                let kinds = ["nodefencingpolicies", "fencedevices", "nodefences"];
                let names = kinds
                    .into_iter()
                    .flat_map(|it| [it.to_owned(), format!("{it}/status")]);
                let resources = names.map(|name| json!({"name": name, "singularName": "", "namespaced": false, "kind": "It", "verbs": []}));
                let resources: Vec<Value> = resources.collect();
                (200, json!({"kind": "APIResourceList", "groupVersion": "nodefencing.io/v1alpha1", "resources": resources}))
            }
            false => forbidden(),
        }
    })
    .await;
    let cluster = cluster(server.clients.clone(), Duration::from_secs(1));
    let findings = super::super::cluster::look(&cluster)
        .await
        .expect("findings");
    let schemas = findings.iter().find(|it| it.check == "custom-resources");
    let schemas = schemas.expect("a finding");
    assert_eq!(schemas.status, Mark::Unknown, "{schemas:?}");
    assert!(schemas.message.contains("within 1 s"), "{schemas:?}");
    assert_eq!(findings.len(), 3, "{findings:?}");
}
