//! The two replicas of the chart's Deployment, where the scheduler puts them, each with what its pod gives it. The machine of the leader loses
//! its power, and with it the leader: the other replica fences it. Helm 4 installs them; Helm 3 would render the same, as `render` of the module
//! above holds for every values file, and both live through a release in [`super::release`].

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use e2e::lab::{LIMIT, Lab, Setup};
use e2e::operator::{self, NAMESPACE, Operator, SERVICE_ACCOUNT};
use e2e::workload::Template;
use fencing_testbed::eventually::eventually;
use serde_json::{Value, json};

use super::{RELEASE, chart};
use crate::replicas::wait_leads;

/// The pods of the Deployment that are bound to a node, and not about to go.
async fn pods(lab: &Lab) -> Result<Vec<Value>> {
    let get = ["get", "pods", "-n", NAMESPACE, "-o", "json"];
    let pods: Value = serde_json::from_str(&lab.control_plane.kubectl_text(&get).await?)?;
    let pods = pods["items"].as_array().cloned().unwrap_or_default();
    let stays = |pod: &Value| {
        pod["metadata"]["deletionTimestamp"].is_null() && pod["spec"]["nodeName"].is_string()
    };
    Ok(pods.into_iter().filter(stays).collect())
}

fn node(pod: &Value) -> Result<&str> {
    pod["spec"]["nodeName"].as_str().context("it has no node")
}

/// Two of them, on two machines that are not this one.
async fn two_pods(lab: &Lab, without: Option<&str>) -> Result<[Value; 2]> {
    eventually("two pods have a node each", LIMIT, async || {
        let pods = pods(lab).await?;
        let [one, other] = <[Value; 2]>::try_from(pods)
            .map_err(|pods| anyhow::anyhow!("there are {}", pods.len()))?;
        ensure!(node(&one)? != node(&other)?, "both on {}", node(&one)?);
        for pod in [&one, &other] {
            ensure!(Some(node(pod)?) != without, "one is on {}", node(pod)?);
        }
        Ok([one, other])
    })
    .await
}

/// The operator as this pod's kubelet starts it.
async fn replica(lab: &Lab, pod: &Value) -> Result<Operator> {
    // The lab starts it as this account, with a token of this account.
    let account = &pod["spec"]["serviceAccountName"];
    ensure!(account == SERVICE_ACCOUNT, "it runs as {account}");
    let container = &pod["spec"]["containers"][0];
    let fields = container["env"].as_array().context("no env")?;
    // What the lab sets below, and nothing else.
    let expected = [
        ("NODE_NAME", "spec.nodeName"),
        ("POD_NAME", "metadata.name"),
        ("POD_NAMESPACE", "metadata.namespace"),
    ];
    let is_expected = |(field, (name, path)): (&Value, (&str, &str))| {
        field["name"] == name && field["valueFrom"]["fieldRef"]["fieldPath"] == path
    };
    ensure!(
        fields.len() == expected.len() && fields.iter().zip(expected).all(is_expected),
        "{fields:?}"
    );
    let arguments: Option<Vec<String>> = container["args"].as_array().and_then(|all| {
        all.iter()
            .map(|it| it.as_str().map(str::to_owned))
            .collect()
    });
    let name = pod["metadata"]["name"].as_str().context("no name")?;
    let options = operator::Options {
        name: name.to_owned(),
        node_name: node(pod)?.to_owned(),
        of_its_pod: Some(arguments.context("no arguments")?),
        ..operator::Options::default()
    };
    lab.operator_with(options).await
}

async fn install(lab: &Lab) -> Result<()> {
    let chart = chart()?;
    // The lab's BMCs are on loopback, and it has applied `deploy/` before.
    let arguments = [
        "install",
        RELEASE,
        &chart,
        "--namespace",
        NAMESPACE,
        "--take-ownership",
        "--force-conflicts",
        "--set=devicesNetwork.allowCIDRs={127.0.0.0/8}",
    ];
    let output = lab.control_plane.run("helm", &arguments).await?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

/// A StatefulSet whose only pod runs on this node, and may go to others later.
async fn database_on(lab: &Lab, node: &str) -> Result<()> {
    for rig in &lab.rigs {
        let name = rig.machine.name();
        lab.schedulable(name, name == node).await?;
    }
    let template = Template::default();
    lab.workloads.stateful_set("db", &template).await?;
    lab.workloads.wait_running("db-0", LIMIT).await?;
    for rig in &lab.rigs {
        lab.schedulable(rig.machine.name(), true).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_machine_of_the_leader_loses_its_power() -> Result<()> {
    let lab = Lab::start(Setup::new("chart-replicas", 3).alone()).await?;
    install(&lab).await?;
    let [first, second] = two_pods(&lab, None).await?;
    let lost = node(&first)?;
    let leader = replica(&lab, &first).await?;
    wait_leads(&leader, true).await?;
    let standby = replica(&lab, &second).await?;
    lab.wait_protected().await?;
    lab.policy("ConfirmOnly", json!({})).await?;
    database_on(&lab, lost).await?;
    ensure!(!standby.leads().await?, "both lead");

    let cut = Instant::now();
    lab.rig_of(lost)?.machine.set_power(false);
    leader.kill()?;
    wait_leads(&standby, true).await?;
    let leads = cut.elapsed().as_secs_f64();
    let workloads = &lab.workloads;
    workloads
        .wait_running_elsewhere("db-0", lost, LIMIT)
        .await?;
    eprintln!(
        "the standby leads after {leads:.1} s (a lease is 15 s), and db-0 runs again after {:.1} s",
        cut.elapsed().as_secs_f64()
    );
    lab.wait_stage(lost, "Recovered").await?;
    ensure!(lab.times_tainted(lost).await? == 1);
    // The leader's pod was as stuck as any other: its place is taken by now, on the machine that is left.
    two_pods(&lab, Some(lost)).await?;
    standby.check()?;
    lab.verdict().await
}
