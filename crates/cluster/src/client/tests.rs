//! Where the configuration comes from, and how often each client sends a request.

use super::*;
use crate::fake::{self, Fake};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

#[test]
fn the_flag_comes_first_then_the_environment_then_the_pod() {
    let everything = |name: &str| Some(format!("value of {name}"));
    let flag = Some(Path::new("/a"));
    assert_eq!(source(flag, everything), Some(Source::File("/a".into())));
    let variable = Source::Environment("value of KUBECONFIG".to_owned());
    assert_eq!(source(None, everything), Some(variable));
    let pod = |name: &str| match name {
        "KUBECONFIG" => Some(String::new()),
        _ => everything(name),
    };
    assert_eq!(source(None, pod), Some(Source::ServiceAccount));
    assert_eq!(source(None, |_| None), None);
}

#[tokio::test]
async fn a_bad_kubeconfig_is_named() {
    let missing = Some(Path::new("/nowhere/config"));
    let error = Clients::new(missing).await.err().expect("an error");
    let words = crate::text::chain(&error);
    assert!(
        words.starts_with("failed to read the kubeconfig /nowhere/config (--kubeconfig): "),
        "{words}"
    );
    assert!(words.contains("the file does not exist"), "{words}");
    assert!(words.ends_with(WAY_OUT), "{words}");
    assert_eq!(words.matches("/nowhere/config").count(), 1, "{words}");
}

const WAY_OUT: &str =
    "; name one with which `kubectl --kubeconfig FILE get nodes` works, or none in a pod";

#[tokio::test]
async fn an_empty_kubeconfig_is_no_cluster() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let path = file.path().display();
    let error = Clients::new(Some(file.path()))
        .await
        .err()
        .expect("an error");
    assert_eq!(
        crate::text::chain(&error),
        format!(
            "failed to read the kubeconfig {path} (--kubeconfig): it has no `current-context`{WAY_OUT}"
        )
    );
}

/// Somebody may have put a password there.
#[test]
fn a_cluster_is_shown_without_user_information_and_query() {
    for (url, said) in [
        ("https://10.0.0.1:6443/", "https://10.0.0.1:6443"),
        (
            "https://me:pass@rancher.example/k8s/clusters/c-1?token=x",
            "https://rancher.example/k8s/clusters/c-1",
        ),
        ("http://[::1]:8080", "http://[::1]:8080"),
    ] {
        assert_eq!(shown(&http::Uri::from_static(url)), said);
    }
}

async fn patch(client: Client) -> Result<Node, kube::Error> {
    let nodes: Api<Node> = Api::all(client);
    let patch = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
    nodes
        .patch("worker-1", &PatchParams::default(), &patch)
        .await
}

#[tokio::test]
async fn a_guarded_write_is_sent_once_and_a_read_client_repeats_it() {
    for code in [429, 503, 504] {
        let answers = Arc::new(AtomicU32::new(0));
        let fake = Fake::start(move |_| match answers.fetch_add(1, Ordering::SeqCst) {
            0 | 1 => fake::failure(code, "not now"),
            _ => (200, json!({"metadata": {"name": "worker-1"}})),
        })
        .await;
        let error = patch(fake.clients.writes.clone())
            .await
            .expect_err("refused");
        assert!(matches!(error, kube::Error::Api(status) if status.code == code));
        assert_eq!(
            fake.seen().len(),
            1,
            "a guarded write was repeated after {code}"
        );
        patch(fake.clients.reads.clone()).await.expect("repeated");
        assert_eq!(fake.seen().len(), 3);
        assert_eq!(
            fake.seen()[0].agent,
            concat!("node-fencing-operator/", env!("CARGO_PKG_VERSION"))
        );
    }
}

/// S20: who answers so may have passed the request on before.
#[tokio::test]
async fn a_refusal_that_is_no_status_leaves_open_what_was_written() {
    for (body, is_refused) in [
        (fake::failure(403, "no").1, true),
        (json!("blocked"), false),
    ] {
        let fake = Fake::start(move |_| (403, body.clone())).await;
        let error = ask(patch(fake.clients.writes.clone())).await.err();
        let refused = matches!(error, Some(AskError::Refused { code: 403, .. }));
        assert_eq!(refused, is_refused, "{error:?}");
    }
}

#[test]
fn a_guarded_write_has_a_hard_limit() {
    let config = guarded(Config::new(http::Uri::from_static("http://127.0.0.1:1")));
    assert!(!config.default_retry && config.reset_reader_on_write);
    assert_eq!(config.read_timeout, Some(IDLE_TIMEOUT));
    assert_eq!(config.write_timeout, Some(REQUEST_TIMEOUT));
}
