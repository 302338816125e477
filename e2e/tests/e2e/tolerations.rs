//! What a real controller-manager does with pods of many tolerations on a node that is fenced. The operator's own rule is held against
//! the same table: a pod that goes later frees its volume then, whatever machine it runs on by that time.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::control_plane::{ControlPlane, Options};
use e2e::simulated::{Fleet, FleetOptions, MachineSpec};
use e2e::volume::Volumes;
use e2e::workload::wait_node_ready;
use fencing_testbed::eventually::eventually;
use fencing_testbed::paths::workspace;
use http::Method;
use kube::Client;
use serde_json::{Value, json};

use crate::verdict::{Body, call, must};

const PATIENCE: Duration = Duration::from_secs(120);
const PODS: &str = "/api/v1/namespaces/default/pods";
const NODE: &str = "/api/v1/nodes/dark";
/// Longer than any time limit of the table: who is there after that stays.
const LONGEST_SECONDS: u32 = 10;

/// A pod on the node. None: the API server takes no such pod.
async fn create(client: &Client, name: &str, tolerations: &Value) -> Result<Option<Value>> {
    let pod = json!({
        "metadata": {"name": name},
        "spec": {
            "nodeName": "dark", "tolerations": tolerations, "automountServiceAccountToken": false,
            "containers": [{"name": "c", "image": "none"}],
        },
    });
    Ok(call(client, Method::POST, PODS, Some((Body::Object, &pod)))
        .await?
        .ok())
}

async fn is_there(client: &Client, name: &str) -> Result<bool> {
    let verdict = call(client, Method::GET, &format!("{PODS}/{name}"), None).await?;
    Ok(verdict.is_ok_and(|pod| pod["metadata"]["deletionTimestamp"].is_null()))
}

/// A Node without a kubelet, and with `unreachable` from node-lifecycle itself.
async fn dark_node(client: &Client) -> Result<()> {
    let node = json!({"metadata": {"name": "dark"}});
    must(
        client,
        Method::POST,
        "/api/v1/nodes",
        Some((Body::Object, &node)),
    )
    .await?;
    eventually("nobody has heard of the kubelet", PATIENCE, async || {
        let node = must(client, Method::GET, NODE, None).await?;
        let taints = node["spec"]["taints"].as_array().cloned();
        let is_unreachable = taints.unwrap_or_default().iter().any(|taint| {
            taint["key"] == "node.kubernetes.io/unreachable" && taint["effect"] == "NoExecute"
        });
        ensure!(is_unreachable, "{}", node["spec"]);
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fenced_node_keeps_and_evicts_what_the_table_says() -> Result<()> {
    let plane = ControlPlane::start(Options {
        toleration_seconds: Some(3),
        ..Options::named("tolerations")
    })
    .await?;
    let client = plane.admin();
    // Of nodes none of which is Ready, node-lifecycle evicts nobody.
    let directory = tempfile::tempdir()?;
    let volumes = Volumes::new(directory.path())?;
    let fleet = Fleet::new(plane.admin(), volumes, FleetOptions::default());
    let lit = fleet.add(MachineSpec::new("lit").with_credentials(&plane).await?);
    lit.set_power(true);
    wait_node_ready(plane.admin(), "lit", "True", PATIENCE).await?;
    dark_node(&client).await?;

    let path = workspace().join("tests/data/tolerations.yaml");
    let table = std::fs::read_to_string(&path)?;
    let rows: Vec<Value> = serde_saphyr::from_str(&table)?;
    let mut taken = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let pod = create(&client, &format!("row-{index}"), &row["tolerations"]).await?;
        taken.push(pod.is_some());
    }
    let limit = json!([{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": LONGEST_SECONDS}]);
    create(&client, "last", &limit)
        .await?
        .context("the last pod")?;
    // As the operator leaves a node that it has fenced. The claim is the last that it can have come to.
    let taint = |key: &str, value: &str| json!({"op": "add", "path": "/spec/taints/-", "value": {"key": key, "value": value, "effect": "NoExecute"}});
    let taints = json!([
        taint("nodefencing.io/claim", "dark-4a5b6c7d-deadbeef"),
        taint("node.kubernetes.io/out-of-service", "nodeshutdown"),
    ]);
    must(&client, Method::PATCH, NODE, Some((Body::Json, &taints))).await?;
    eventually("the last pod goes", PATIENCE, async || {
        ensure!(!is_there(&client, "last").await?, "it is there");
        Ok(())
    })
    .await?;

    let mut recorded = table.clone();
    for (index, row) in rows.iter().enumerate() {
        let verdict = match taken[index] {
            false => "refused",
            true if is_there(&client, &format!("row-{index}")).await? => "stays",
            true => "evicted",
        };
        let name = row["name"].as_str().context("a name")?;
        println!("{verdict:<8} {name}");
        recorded = with_verdict(&recorded, index, verdict).context("a line for each row")?;
    }
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &recorded)?;
        return Ok(());
    }
    ensure!(recorded == table, "UPDATE=1 would write it as\n{recorded}");
    Ok(())
}

/// The table with this verdict in the row of this number, each of which is a line.
fn with_verdict(table: &str, index: usize, verdict: &str) -> Option<String> {
    let line = table
        .lines()
        .filter(|line| line.starts_with("- "))
        .nth(index)?;
    let (before, _) = line.rsplit_once("verdict: ")?;
    Some(table.replace(line, &format!("{before}verdict: {verdict}}}")))
}
