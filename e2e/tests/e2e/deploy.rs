//! What `kubectl apply -k deploy` installs: rights that are enough and no more, a Deployment whose pods may run, and tables that
//! answer a user's first questions.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use e2e::control_plane::{ControlPlane, Options, client};
use e2e::lab::LIMIT;
use e2e::operator::{NAMESPACE, SERVICE_ACCOUNT};
use e2e::toolchain::kubernetes_minor;
use fencing_testbed::eventually::eventually;
use fencing_testbed::paths::workspace;
use http::Method;
use kube::Client;
use serde_json::{Value, json};

use crate::verdict::{Body, must};

/// Every right of the operator by namespace: API group, resources (with the names it is restricted to) and verbs. Whoever adds one
/// adds it here, and says why in `deploy/rbac.yaml`.
const RIGHTS: &[(&str, &[&str])] = &[
    (
        "kube-system", // any namespace: what holds in all of them
        &[
            "/nodes get,list,patch,watch",
            "/persistentvolumeclaims get",
            "/pods delete,get,list",
            "nodefencing.io/fencedevices list,watch",
            "nodefencing.io/fencedevices/status patch",
            "nodefencing.io/nodefences create,delete,get,list,watch",
            "nodefencing.io/nodefences/status patch",
            "nodefencing.io/nodefencingpolicies list,watch",
            "nodefencing.io/nodefencingpolicies/status patch",
            "storage.k8s.io/volumeattachments list,watch",
        ],
    ),
    ("kube-node-lease", &["coordination.k8s.io/leases get"]),
    ("default", &["events.k8s.io/events create,patch"]),
    (
        NAMESPACE,
        &[
            "/configmaps get",
            "/secrets get",
            "coordination.k8s.io/leases create",
            "coordination.k8s.io/leases[node-fencing-operator] get,update",
        ],
    ),
];

/// What `deploy/early-detection` adds to them.
const EARLY: &[(&str, &[&str])] = &[
    ("default", &["/nodes/status patch", "/pods/status patch"]),
    (
        "kube-node-lease",
        &[
            "/nodes/status patch",
            "/pods/status patch",
            "coordination.k8s.io/leases list,watch",
        ],
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn deploy_installs_what_it_says() -> Result<()> {
    let plane = ControlPlane::start(Options::named("deploy")).await?;
    apply(&plane).await?;
    plane.wait_for_definitions().await?;
    let path = plane.kubeconfig_for_service_account(NAMESPACE, SERVICE_ACCOUNT, None);
    let operator = client(&path.await?).await?;
    rights_are_least(&operator).await?;
    the_rights_of_early_detection_are_least(&plane, &operator).await?;
    the_policies_type_check(&plane).await?;
    the_deployment_gets_a_pod(&plane).await?;
    tables_answer_the_first_questions(&plane).await?;
    applying_again_changes_nothing(&plane).await
}

/// The API server itself lists what the account may do.
async fn rights_are_least(operator: &Client) -> Result<()> {
    let everywhere = RIGHTS.first().context("rights")?.1;
    for (namespace, own) in RIGHTS {
        let expected: BTreeSet<String> = everywhere
            .iter()
            .chain(*own)
            .map(|r| (*r).to_owned())
            .collect();
        let actual = rights(operator, namespace).await?;
        ensure!(
            actual == expected,
            "in {namespace}: too much {:?}, missing {:?}",
            actual.difference(&expected).collect::<Vec<_>>(),
            expected.difference(&actual).collect::<Vec<_>>()
        );
    }
    Ok(())
}

/// The component grants what `EARLY` says, beside what the account has, and takes it away again.
async fn the_rights_of_early_detection_are_least(
    plane: &ControlPlane,
    operator: &Client,
) -> Result<()> {
    let folder = workspace().join("deploy/early-detection/rbac.yaml");
    let path = folder
        .to_str()
        .context("the workspace's path is not UTF-8")?;
    let mut before = Vec::new();
    for (namespace, _) in EARLY {
        before.push(rights(operator, namespace).await?);
    }
    plane.kubectl_text(&["apply", "-f", path]).await?;
    eventually("it grants just what it says", LIMIT, async || {
        for ((namespace, own), before) in EARLY.iter().zip(&before) {
            let now = rights(operator, namespace).await?;
            let added: BTreeSet<&str> = now.difference(before).map(String::as_str).collect();
            ensure!(
                added == own.iter().copied().collect(),
                "in {namespace}: {added:?}"
            );
        }
        Ok(())
    })
    .await?;
    plane.kubectl_text(&["delete", "-f", path]).await?;
    Ok(())
}

/// The rights in a namespace, without those of everybody who is logged in (reviews of oneself).
async fn rights(client: &Client, namespace: &str) -> Result<BTreeSet<String>> {
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    });
    let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let answer = must(client, Method::POST, path, Some((Body::Object, &review))).await?;
    ensure!(answer["status"]["incomplete"] == false, "{answer}");
    let mut rights = BTreeSet::new();
    for rule in answer["status"]["resourceRules"]
        .as_array()
        .context("no rules")?
    {
        let mut verbs = words(&rule["verbs"]);
        verbs.sort();
        let names = words(&rule["resourceNames"]);
        let names = if names.is_empty() {
            String::new()
        } else {
            format!("[{}]", names.join(","))
        };
        for group in words(&rule["apiGroups"]) {
            for resource in words(&rule["resources"]) {
                if !resource.starts_with("selfsubject") {
                    rights.insert(format!("{group}/{resource}{names} {}", verbs.join(",")));
                }
            }
        }
    }
    Ok(rights)
}

fn words(list: &Value) -> Vec<String> {
    let words = list
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    words.map(str::to_owned).collect()
}

/// The controller-manager reads every expression against the types it will meet, and warns of a field that is not there.
async fn the_policies_type_check(plane: &ControlPlane) -> Result<()> {
    let path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
    let checked = eventually("the policies are type-checked", LIMIT, async || {
        let policies = must(&plane.admin(), Method::GET, path, None).await?;
        let policies = policies["items"].as_array().context("no items")?;
        let checked = policies
            .iter()
            .filter(|policy| policy["status"]["typeChecking"].is_object());
        ensure!(
            policies.len() == 12 && checked.count() == 12,
            "they are {policies:?}"
        );
        Ok(policies.clone())
    });
    for policy in checked.await? {
        let warnings = &policy["status"]["typeChecking"]["expressionWarnings"];
        ensure!(
            warnings.is_null(),
            "{}: {warnings:#}",
            policy["metadata"]["name"]
        );
    }
    Ok(())
}

/// The namespace enforces Pod Security `restricted`, and the pod passes.
async fn the_deployment_gets_a_pod(plane: &ControlPlane) -> Result<()> {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/pods");
    let pod = eventually("the Deployment gets a pod", LIMIT, async || {
        let pods = must(&plane.admin(), Method::GET, &path, None).await?;
        pods.pointer("/items/0").cloned().context("there is none")
    })
    .await?;
    ensure!(
        pod["spec"]["priorityClassName"] == "system-cluster-critical",
        "{pod}"
    );
    let tolerates_everything_or_out_of_service = pod["spec"]["tolerations"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|toleration| {
            toleration["key"].is_null() || toleration["key"] == "node.kubernetes.io/out-of-service"
        });
    ensure!(
        !tolerates_everything_or_out_of_service,
        "it would stay on a fenced node: {pod}"
    );
    Ok(())
}

/// The columns of `kubectl get`, also by short name and category.
async fn tables_answer_the_first_questions(plane: &ControlPlane) -> Result<()> {
    let examples = workspace().join("tests/data/api/tables.yaml");
    let examples = examples
        .to_str()
        .context("the workspace's path is not UTF-8")?;
    plane.kubectl_text(&["apply", "-f", examples]).await?;
    for (short_name, wide, header) in [
        (
            "nfp",
            false,
            "NAME MODE WINDOW NODES PROTECTED OPEN READY AGE",
        ),
        (
            "nfp",
            true,
            "NAME MODE WINDOW NODES PROTECTED OPEN READY APPROVAL BUDGET LAST-INCIDENT REASON AGE",
        ),
        (
            "fdev",
            false,
            "NAME NODE DRIVER POWER READY IDENTITY LAST-OK AGE",
        ),
        (
            "fdev",
            true,
            "NAME NODE DRIVER POWER READY IDENTITY LAST-OK REASON MODEL AGE",
        ),
        (
            "nf",
            false,
            "NAME NODE POLICY STAGE DOWN VOLUMES DETACHED AGE",
        ),
        (
            "nf",
            true,
            "NAME NODE POLICY STAGE DOWN VOLUMES DETACHED ATTEMPTS DEADLINE MESSAGE AGE",
        ),
    ] {
        let output = if wide { "wide" } else { "" };
        let table = plane
            .kubectl_text(&["get", short_name, "-o", output])
            .await?;
        let first: Vec<_> = table
            .lines()
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .collect();
        ensure!(
            first.join(" ") == header,
            "{short_name} {output}: {first:?}"
        );
    }
    a_deadline_is_shown_as_a_time(plane).await?;
    let all = plane
        .kubectl_text(&["get", "fencing", "-o", "name"])
        .await?;
    ensure!(all.lines().count() == 4, "category fencing: {all}");
    selected_by_a_field(plane).await
}

/// Kubernetes 1.30 has field selectors of custom resources behind a gate that is off (`CustomResourceFieldSelectors`).
async fn selected_by_a_field(plane: &ControlPlane) -> Result<()> {
    let get = ["get", "nf", "--field-selector", "spec.nodeName=worker-1"];
    let output = plane.kubectl(&[&get[..], &["-o", "name"]].concat()).await?;
    if kubernetes_minor() < 31 {
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(
            error.contains("field label not supported: spec.nodeName"),
            "field selector: {error}"
        );
        return Ok(());
    }
    let of_node = String::from_utf8_lossy(&output.stdout);
    ensure!(
        of_node.trim() == "nodefence.nodefencing.io/of-worker-1",
        "field selector: {of_node}"
    );
    Ok(())
}

/// A stage's end lies ahead, and kubectl shows a date that does as `<invalid>`.
async fn a_deadline_is_shown_as_a_time(plane: &ControlPlane) -> Result<()> {
    let deadline = "2999-01-01T00:00:00Z";
    let status = json!({"status": {"stageDeadlineTime": deadline}}).to_string();
    let patch = [
        "patch",
        "nf",
        "of-worker-1",
        "--subresource=status",
        "--type=merge",
        "-p",
        &status,
    ];
    plane.kubectl_text(&patch).await?;
    let table = plane.kubectl_text(&["get", "nf", "-o", "wide"]).await?;
    ensure!(
        table.contains(deadline) && !table.contains("<invalid>"),
        "{table}"
    );
    Ok(())
}

/// Nothing in `deploy/` fights with a default of the API server.
async fn applying_again_changes_nothing(plane: &ControlPlane) -> Result<()> {
    let said = apply(plane).await?;
    let changed: Vec<_> = said
        .lines()
        .filter(|line| !line.ends_with(" unchanged"))
        // kubectl always patches a budget's selector, which is replaced as a whole (`patchStrategy`, k8s.io/api/policy/v1).
        .filter(|line| !line.starts_with("poddisruptionbudget.policy/"))
        // And on 1.30 `selectableFields`, which the API server drops.
        .filter(|line| kubernetes_minor() > 30 || !line.starts_with("customresourcedefinition"))
        .collect();
    ensure!(changed.is_empty(), "changed by a second apply: {changed:?}");
    Ok(())
}

/// Installs as docs/how-to/install.md says, with the Deployment.
async fn apply(plane: &ControlPlane) -> Result<String> {
    let directory = workspace().join("deploy");
    let path = directory.to_str();
    let path = path.context("the workspace's path is not UTF-8")?;
    plane.kubectl_text(&["apply", "-k", path]).await
}
