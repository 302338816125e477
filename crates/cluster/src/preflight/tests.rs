//! Old servers, missing resources, missing rights, and that the rights are those of `deploy/rbac.yaml`.

use super::*;
use crate::fake::{self, Fake, Seen};
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn version(major: &str, minor: &str) -> Value {
    json!({
        "major": major, "minor": minor, "gitVersion": format!("v{major}.{minor}.3-provider.7"), "gitCommit": "", "gitTreeState": "",
        "buildDate": "", "goVersion": "", "compiler": "", "platform": "",
    })
}

fn resources(names: &[&str]) -> Value {
    let resource = |name: &&str| json!({"name": name, "singularName": "", "namespaced": false, "kind": "X", "verbs": []});
    let list: Vec<_> = names.iter().map(resource).collect();
    json!({"kind": "APIResourceList", "groupVersion": "nodefencing.io/v1alpha1", "resources": list})
}

const ALL: [&str; 6] = [
    "nodefencingpolicies",
    "nodefencingpolicies/status",
    "fencedevices",
    "fencedevices/status",
    "nodefences",
    "nodefences/status",
];

async fn checked(
    minor: &'static str,
    crds: impl Fn() -> (u16, Value) + Clone + Send + Sync + 'static,
) -> Result<String, Error> {
    let fake = Fake::start(move |seen: &Seen| match seen.line.as_str() {
        "GET /version" => (200, version("1", minor)),
        "GET /apis/nodefencing.io/v1alpha1" => crds(),
        other => panic!("unexpected {other}"),
    })
    .await;
    cluster(&fake.clients).await
}

#[tokio::test]
async fn a_server_that_is_new_enough_and_complete_will_do() {
    for minor in ["30", "30+", "36"] {
        let found = checked(minor, || (200, resources(&ALL))).await;
        assert_eq!(found.expect("fine"), format!("v1.{minor}.3-provider.7"));
    }
}

#[tokio::test]
async fn an_old_server_is_named_with_its_version() {
    for minor in ["29", "29+", "9", ""] {
        let error = checked(minor, || (200, resources(&ALL)))
            .await
            .expect_err("too old");
        assert!(!error.is_transient());
        let words = error.to_string();
        assert!(
            words.contains(&format!("Kubernetes v1.{minor}.3-provider.7")),
            "{words}"
        );
        assert!(words.contains("1.30 or newer"), "{words}");
        assert!(
            words.contains("deploy/admission.yaml") && words.contains("upgrade the cluster"),
            "{words}"
        );
    }
}

#[tokio::test]
async fn missing_resources_are_named_with_what_to_apply() {
    let error = checked("36", || fake::failure(404, "page not found"))
        .await
        .expect_err("none");
    let words = error.to_string();
    assert!(!error.is_transient());
    assert!(ALL.iter().all(|name| words.contains(name)), "{words}");
    assert!(words.contains("kubectl apply -k crds"), "{words}");
    // CustomResourceDefinitions of an older version: one kind and one subresource are missing.
    let older = || (200, resources(&ALL[..4]));
    let words = checked("36", older).await.expect_err("older").to_string();
    assert!(
        words.contains("does not serve nodefences, nodefences/status as"),
        "{words}"
    );
}

#[tokio::test]
async fn a_server_that_fails_is_asked_again() {
    let error = checked("36", || fake::failure(500, "etcd is away"))
        .await
        .expect_err("failure");
    assert!(error.is_transient());
    let words = crate::text::chain(&error);
    assert!(
        words.starts_with("failed to ask the API server http://127.0.0.1:"),
        "{words}"
    );
    assert!(
        words.contains(" for its custom resources: etcd is away (500); "),
        "{words}"
    );
}

/// Whoever has named the wrong cluster or the wrong user sees which, what to look at, and no value of Rust.
#[tokio::test]
async fn a_server_that_refuses_the_token_is_named_with_the_way_out() {
    let fake = Fake::start(|_: &Seen| fake::failure(401, "Unauthorized")).await;
    let error = cluster(&fake.clients).await.expect_err("refused");
    assert!(error.is_transient());
    let server = &fake.clients.server;
    assert_eq!(
        crate::text::chain(&error),
        format!(
            "failed to ask the API server {server} for its version: Unauthorized (401); check `server` and the user of the kubeconfig, or the pod's service account"
        )
    );
    let error = missing_rights(&fake.clients, "fencing").await;
    let words = crate::text::chain(&error.expect_err("refused"));
    assert!(
        words.contains(" about the operator's rights: Unauthorized (401); "),
        "{words}"
    );
}

/// An API server that grants everything but what `denied` says.
async fn granting(denied: impl Fn(&Value) -> bool + Clone + Send + Sync + 'static) -> Vec<String> {
    let fake = Fake::start(move |seen: &Seen| {
        assert_eq!(
            seen.line,
            "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews?"
        );
        let attributes = &seen.body["spec"]["resourceAttributes"];
        let mut answer = seen.body.clone();
        answer["status"] = json!({"allowed": !denied(attributes)});
        (201, answer)
    })
    .await;
    let missing = missing_rights(&fake.clients, "fencing")
        .await
        .expect("answers");
    missing.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn missing_rights_are_listed_in_order_but_for_secrets_that_may_be_named() {
    assert_eq!(granting(|_| false).await, [""; 0]);
    let no_nodes_no_secrets = |right: &Value| match right["resource"].as_str() {
        Some("nodes") => right["verb"] == "patch",
        Some("nodefences") => right["subresource"] == "status",
        Some("secrets" | "leases") => true,
        _ => false,
    };
    assert_eq!(
        granting(no_nodes_no_secrets).await,
        [
            "patch nodes",
            "patch nodefences.nodefencing.io/status",
            "get leases.coordination.k8s.io in namespace kube-node-lease",
            "get leases.coordination.k8s.io in namespace fencing",
            "create leases.coordination.k8s.io in namespace fencing",
            "update leases.coordination.k8s.io in namespace fencing",
        ]
    );
}

/// `(namespace or "", group, resource, verb)` of every right that this file of `deploy/` grants.
fn granted(file: &str) -> BTreeSet<(String, String, String, String)> {
    let path = format!("{}/../../deploy/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("a file of deploy/");
    let texts = |value: &Value| -> Vec<String> {
        let list = value.as_array().expect("a list").iter();
        list.map(|one| one.as_str().expect("text").to_owned())
            .collect()
    };
    let mut granted = BTreeSet::new();
    for document in text.split("\n---\n") {
        let object: Value = serde_saphyr::from_str(document).expect("YAML");
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        for rule in object["rules"].as_array().into_iter().flatten() {
            for group in texts(&rule["apiGroups"]) {
                for resource in texts(&rule["resources"]) {
                    for verb in texts(&rule["verbs"]) {
                        granted.insert((
                            namespace.to_owned(),
                            group.clone(),
                            resource.clone(),
                            verb,
                        ));
                    }
                }
            }
        }
    }
    granted
}

#[test]
fn every_right_is_granted_by_the_manifest_and_every_granted_one_is_needed() {
    for (rights, file) in [
        (RIGHTS, "rbac.yaml"),
        (DELETION_RIGHTS, "delete-node/rbac.yaml"),
        (NETWORK_FENCE_RIGHTS, "network-fence/rbac.yaml"),
        (EARLY_DETECTION_RIGHTS, "early-detection/rbac.yaml"),
        (HEADROOM_RIGHTS, "headroom/rbac.yaml"),
        (CALLERS_RIGHTS, "callers/rbac.yaml"),
    ] {
        compare(rights, file);
    }
}

fn compare(rights: &[Right], file: &str) {
    let needed: BTreeSet<_> = rights
        .iter()
        .flat_map(|right| right.verbs.iter().map(move |verb| (right, verb)))
        .map(|(right, verb)| {
            let namespace = namespace(right.scope, "node-fencing-system").unwrap_or_default();
            (
                namespace,
                right.group.to_owned(),
                right.resource.to_owned(),
                (*verb).to_owned(),
            )
        })
        .collect();
    let granted = granted(file);
    let missing: Vec<_> = needed.difference(&granted).collect();
    assert!(
        missing.is_empty(),
        "deploy/{file} does not grant {missing:?}"
    );
    let spare: Vec<_> = granted.difference(&needed).collect();
    assert!(
        spare.is_empty(),
        "nothing needs {spare:?}, which deploy/{file} grants"
    );
}

#[test]
fn a_version_that_was_never_run_is_known() {
    let untried = ["v1.30.0", "v1.33.3-provider.7"];
    assert!(untried.into_iter().all(is_untried));
    let others = ["v1.34.0", "v1.36.3+k3s1", "v2.0.0", "1.30"];
    assert!(!others.into_iter().any(is_untried));
}
