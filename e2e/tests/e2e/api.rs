//! What a real API server says to objects of the operator's API: the examples of the documentation, and every input that must
//! be refused before the operator sees it (a schema bound or a CEL rule with a message that names the field and the way out).

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use e2e::control_plane::{ControlPlane, Options};
use e2e::operator::{NAMESPACE, SERVICE_ACCOUNT};
use e2e::toolchain::is_usual_kubernetes;
use fencing_testbed::paths::workspace;
use fencing_testbed::pki::User;
use http::Method;
use kube::Client;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::verdict::{Body, Expect, Tally, Verdict, call, must};

/// A row of `verdicts.yaml`.
#[derive(Deserialize)]
struct Row {
    name: String,
    policy: Option<Value>,
    device: Option<Value>,
    fence: Option<Value>,
    then: Option<Value>,
    expect: Expect,
    message: Option<String>,
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_get_the_verdicts_of_the_tables() -> Result<()> {
    let plane = ControlPlane::start(Options::named("api")).await?;
    plane.apply_deploy().await?;
    let path = plane.kubeconfig_for_service_account(NAMESPACE, SERVICE_ACCOUNT, None);
    let operator = e2e::control_plane::client(&path.await?).await?;
    // Whoever gives a word in these files.
    let alice = User::new("alice", Some("system:masters"));
    let client = Client::try_from(plane.client_config(&alice).await?)?;
    let mut tally = Tally::default();
    examples(&client, &operator, &mut tally).await?;
    rows(&client, &operator, &mut tally).await?;
    too_large(&client, &mut tally).await?;
    status_is_a_subresource(&client).await?;
    the_operator_may_write_every_field_of_a_status(&client, &operator).await?;
    a_second_apply_finds_no_difference(&plane).await?;
    tally.finish(145)
}

/// Applies the examples in their order, as a user would. The records of policies are created by the operator.
async fn examples(client: &Client, operator: &Client, tally: &mut Tally) -> Result<()> {
    let objects: Vec<Value> = serde_saphyr::from_multiple(&data("examples.yaml")?)?;
    for mut object in objects {
        let name = text(&object, "/metadata/name")?;
        let kind = text(&object, "/kind")?;
        let fails = object.pointer("/metadata/annotations/check~1expect") == Some(&json!("fail"));
        let path = format!("{}/{name}", collection(&kind)?);
        let verdict = match call(client, Method::GET, &path, None).await? {
            Ok(stored) => {
                object["metadata"]["resourceVersion"] =
                    stored["metadata"]["resourceVersion"].clone();
                let path = format!("{path}?fieldValidation=Strict");
                call(client, Method::PUT, &path, Some((Body::Object, &object))).await?
            }
            Err(_) if object.pointer("/spec/trigger/type") == Some(&json!("NodeCondition")) => {
                create(operator, &kind, &object).await?
            }
            Err(_) => create(client, &kind, &object).await?,
        };
        let expect = if fails { Expect::Deny } else { Expect::Allow };
        tally.judge(&format!("example {kind} {name}"), expect, None, &verdict);
    }
    Ok(())
}

/// A NodeFence as people may create it.
fn by_hand() -> Value {
    json!({
        "nodeName": "w",
        "trigger": {"type": "Manual", "requestedBy": "alice", "reason": "dark"},
        "fence": {"mode": "Observe"},
    })
}

/// The rows of `verdicts.yaml`, each an object of its own. Those of a policy are created by the operator.
async fn rows(client: &Client, operator: &Client, tally: &mut Tally) -> Result<()> {
    let rows: Vec<Row> = serde_saphyr::from_str(&data("verdicts.yaml")?)?;
    for (index, row) in rows.into_iter().enumerate() {
        let (kind, spec) = match (row.policy, row.device, row.fence) {
            (Some(spec), None, None) => ("NodeFencingPolicy", spec),
            (None, Some(spec), None) => ("FenceDevice", spec),
            (None, None, Some(spec)) => ("NodeFence", spec),
            _ => anyhow::bail!("{}: one of policy, device, fence", row.name),
        };
        let name = format!("row-{index}");
        let creator = match spec.get("policyName") {
            Some(_) => operator,
            None => client,
        };
        let mut verdict = create(creator, kind, &object(kind, &name, &spec)).await?;
        if let Some(change) = row.then {
            verdict
                .map_err(|status| anyhow::anyhow!("{}: set-up: {}", row.name, status.message))?;
            let path = format!("{}/{name}?fieldValidation=Strict", collection(kind)?);
            let patch = json!({"spec": change});
            verdict = call(client, Method::PATCH, &path, Some((Body::Merge, &patch))).await?;
        }
        let words = row.message.as_deref().map(of_this_kubernetes);
        tally.judge_words(&row.name, row.expect, words, &verdict);
    }
    Ok(())
}

/// Up to 1.35 the API server does not say first that a number is no int32.
fn of_this_kubernetes(words: &str) -> &str {
    let rest = || {
        let (first, rest) = words.strip_prefix('[')?.split_once(", ")?;
        let is_it = first.contains("with format int32") && !is_usual_kubernetes();
        rest.strip_suffix(']').filter(|_| is_it)
    };
    rest().unwrap_or(words)
}

/// What is too large to write down.
async fn too_large(client: &Client, tally: &mut Tally) -> Result<()> {
    let entries: Vec<_> = (0..10_001)
        .map(|n| json!({"name": format!("p{n}")}))
        .collect();
    let spec = json!({"nodeSelector": {}, "pauseRequests": entries});
    let policy = object("NodeFencingPolicy", "many", &spec);
    let verdict = create(client, "NodeFencingPolicy", &policy).await?;
    let message = "spec.pauseRequests: Too many: 10001: must have at most 16 items";
    tally.judge_words("10,001 entries", Expect::Deny, Some(message), &verdict);

    let spec = by_hand();
    for (length, expect) in [(54, Expect::Allow), (55, Expect::Deny)] {
        let fence = object("NodeFence", &"n".repeat(length), &spec);
        let verdict = create(client, "NodeFence", &fence).await?;
        let message = Some(
            "name must be 54 characters or fewer: with a hyphen and 8 more it is a taint's value, of 63 at most",
        );
        tally.judge(
            &format!("name of {length} characters"),
            expect,
            message,
            &verdict,
        );
    }
    Ok(())
}

/// A status in an object that is created is dropped: only the operator writes one.
async fn status_is_a_subresource(client: &Client) -> Result<()> {
    let spec = by_hand();
    let mut fence = object("NodeFence", "forged", &spec);
    fence["status"] = json!({"claim": "forged"});
    let path = collection("NodeFence")?;
    let stored = must(client, Method::POST, &path, Some((Body::Object, &fence))).await?;
    anyhow::ensure!(
        stored.get("status").is_none(),
        "the status was stored: {stored}"
    );
    Ok(())
}

/// With its own rights, and read back as it was written.
async fn the_operator_may_write_every_field_of_a_status(
    admin: &Client,
    operator: &Client,
) -> Result<()> {
    let statuses: BTreeMap<String, Value> = serde_saphyr::from_str(&data("statuses.yaml")?)?;
    let specs = [
        ("NodeFencingPolicy", json!({"nodeSelector": {}})),
        ("FenceDevice", json!({"nodeName": "w", "manual": {}})),
        ("NodeFence", by_hand()),
    ];
    for (kind, spec) in specs {
        let status = statuses.get(kind).context("no such status")?;
        let path = collection(kind)?;
        let object = object(kind, "status", &spec);
        must(admin, Method::POST, &path, Some((Body::Object, &object))).await?;
        let path = format!("{path}/status/status?fieldValidation=Strict");
        let patch = json!({"status": status});
        let stored = must(operator, Method::PATCH, &path, Some((Body::Merge, &patch))).await?;
        anyhow::ensure!(&stored["status"] == status, "{kind}: {}", stored["status"]);
    }
    Ok(())
}

/// kubectl compares a list with the manifest as a whole, as Argo CD does: what the API server filled into an item would be a difference for ever.
async fn a_second_apply_finds_no_difference(plane: &ControlPlane) -> Result<()> {
    let spec = json!({
        "nodeSelector": {},
        "fence": {"mode": "PowerOff", "levels": [{"name": "bmc"}]},
        "windows": [{"name": "night", "days": ["Mon"], "start": "22:00", "end": "06:00", "mode": "Observe"}],
    });
    let path = plane.files().directory().join("levels.json");
    let policy = object("NodeFencingPolicy", "levels", &spec);
    std::fs::write(&path, policy.to_string())?;
    let apply = ["apply", "-f", path.to_str().context("UTF-8")?];
    plane.kubectl_text(&apply).await?;
    let again = plane.kubectl_text(&apply).await?;
    anyhow::ensure!(again.trim().ends_with("/levels unchanged"), "{again}");
    Ok(())
}

async fn create(client: &Client, kind: &str, object: &Value) -> Result<Verdict> {
    let path = format!("{}?fieldValidation=Strict", collection(kind)?);
    call(client, Method::POST, &path, Some((Body::Object, object))).await
}

fn object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "nodefencing.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    })
}

/// The path of a kind's objects.
fn collection(kind: &str) -> Result<String> {
    let plural = match kind {
        "NodeFencingPolicy" => "nodefencingpolicies",
        "FenceDevice" => "fencedevices",
        "NodeFence" => "nodefences",
        _ => anyhow::bail!("no kind {kind}"),
    };
    Ok(format!("/apis/nodefencing.io/v1alpha1/{plural}"))
}

fn text(object: &Value, pointer: &str) -> Result<String> {
    let value = object.pointer(pointer).and_then(Value::as_str);
    Ok(value.with_context(|| format!("no {pointer}"))?.to_owned())
}

/// A file of `tests/data/api`.
pub fn data(name: &str) -> Result<String> {
    let path = workspace().join("tests/data/api").join(name);
    std::fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))
}
