//! One replica hears nothing of Nodes for ten minutes, which is what an alert is for. Only its `for` is shortened: so it takes as long, and has
//! a lab of its own, in which nothing else happens. Other tests go on meanwhile.
//!
//! A proxy before the replica that stands by begins every answer about all Nodes and never goes on with it, be it a list or a watch; everything
//! else it passes on. Of FenceDevices it holds up the watches alone: the lists are heard of, and the alert stays silent. Then the other replica
//! ends, and this one leads: it does not see a node fail, until the proxy lets it hear again.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::lab::{LIMIT, Lab, Setup};
use e2e::operator::Operator;
use e2e::prometheus::{Job, Prometheus};
use e2e::proxy::{Action, Line, Matcher, Proxy, Rule, writes};
use e2e::workload::wait_node_ready;
use fencing_testbed::debian;
use fencing_testbed::eventually::eventually;
use http::Method;
use jiff::Timestamp;
use serde_json::json;
use tokio::time::sleep;

use super::prometheus::rules;
use crate::replicas::{standby_by, wait_leads};

/// The alert.
pub const ALERT: &str = "NodeFencingWatchStale";
/// What it waits for, as its rule has it.
const SILENCE: Duration = Duration::from_mins(10);
/// Longer than the lab's policy waits before a node has a NodeFence.
const POLICY_WAITS: Duration = Duration::from_secs(15);
/// Between two looks back, in seconds.
const STEP: u32 = 1;

/// Ends all connections through the proxy, and lets the operator open others.
fn connect_anew(proxy: &Proxy) -> Result<()> {
    proxy.set_line(Line::Refused)?;
    proxy.set_line(Line::Up)
}

/// Somebody has run into it.
async fn wait_hit(rule: &Rule, what: &str) -> Result<()> {
    eventually(&format!("{what} are asked for"), LIMIT, async || {
        ensure!(rule.hits() > 0, "not yet");
        Ok(())
    })
    .await
}

/// The replica's log tells of Nodes what the runbook has somebody look for, and of FenceDevices nothing since then: a watch that is silent
/// is not interrupted.
fn log_tells_of_nodes(operator: &Operator, since: Timestamp) -> Result<()> {
    let lines = operator.log_lines()?;
    let told = lines.iter().filter(|line| {
        let at = line["timestamp"].as_str().and_then(|at| at.parse().ok());
        let words = line["message"].as_str().unwrap_or_default();
        at > Some(since) && words.starts_with("watch interrupted")
    });
    let told: Vec<_> = told.collect();
    let of_nodes = |line: &&serde_json::Value| {
        let error = line["error"].as_str().unwrap_or_default();
        line["kind"] == "Node" && error.starts_with("its list failed")
    };
    ensure!(told.iter().any(of_nodes), "{told:#?}");
    let of_devices = told.iter().find(|line| line["kind"] == "FenceDevice");
    ensure!(of_devices.is_none(), "{of_devices:#?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_hears_nothing_of_nodes_is_told_of_until_it_hears_again() -> Result<()> {
    if !debian::available_to_test(
        "a_replica_that_hears_nothing_of_nodes_is_told_of_until_it_hears_again",
    )? {
        return Ok(());
    }
    let lab = Lab::start(Setup::new("silence", 2)).await?;
    let leader = lab.operator().await?;
    wait_leads(&leader, true).await?;
    let proxy = lab.proxy()?;
    let standby = standby_by(&lab, Some(proxy.url())).await?;
    lab.wait_protected().await?;
    lab.policy("ConfirmOnly", json!({})).await?;
    let ports = [&leader, &standby].map(Operator::port);
    let job = Job {
        name: "node-fencing-operator",
        ports: ports.to_vec(),
    };
    let plane = &lab.control_plane;
    let directory = plane.files().directory();
    let prometheus = Prometheus::start(plane.guard(), directory, &rules().await?, &[job]).await?;
    prometheus.wait_up(ports.len()).await?;
    let begin = Timestamp::now();

    let every_node = Matcher::new("all Nodes").method(Method::GET);
    let nodes = proxy.rule(every_node.path("/api/v1/nodes"), Action::Dead);
    let devices = proxy.rule(writes::watch("fencedevices"), Action::Dead);
    connect_anew(&proxy)?;
    wait_hit(&nodes, "all Nodes").await?;
    wait_hit(&devices, "watches of FenceDevices").await?;
    let silent_since = Timestamp::now();
    let instance = format!("127.0.0.1:{}", standby.port());
    let labels = [("kind", "Node"), ("instance", instance.as_str())];
    let alert = prometheus
        .wait_firing(ALERT, &labels, SILENCE + LIMIT)
        .await?;
    let summary = alert.annotations.get("summary").context("no summary")?;
    let is_of_it = summary.starts_with("No watch events for Node in 10m");
    ensure!(is_of_it && summary.contains(&instance), "{summary}");
    log_tells_of_nodes(&standby, silent_since)?;

    leader.kill()?;
    wait_leads(&standby, true).await?;
    lab.rig(1).machine.set_power(false);
    wait_node_ready(plane.admin(), "node-1", "Unknown", LIMIT).await?;
    sleep(POLICY_WAITS).await;
    ensure!(lab.fence_of("node-1").await?.is_none(), "it was seen");
    nodes.remove();
    devices.remove();
    connect_anew(&proxy)?;
    prometheus.wait_resolved(ALERT, &[], LIMIT).await?;
    lab.wait_stage("node-1", "Recovered").await?;

    // Nothing else was ever said to be silent, nor by the other replica.
    let all = format!("count by (instance, kind) (ALERTS{{alertname=\"{ALERT}\"}})");
    let all = prometheus.query_range(&all, begin, STEP).await?;
    let is_it = |(name, value): &(&str, &str)| {
        all.iter()
            .all(|it| it.metric.get(*name).is_some_and(|it| it == value))
    };
    ensure!(all.len() == 1 && labels.iter().all(is_it), "{all:#?}");
    standby.check()?;
    lab.verdict().await
}
