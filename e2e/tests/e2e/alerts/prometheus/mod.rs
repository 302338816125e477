//! The rules and the dashboard of the chart over a run: a Prometheus scrapes two replicas of the operator, loads the rules as the chart
//! renders them, and every alert is provoked, fires, and resolves when its cause is gone. Then every query of the dashboard has data.
//!
//! It is one test, because what takes long is the same for all: a stage that is to be late is late after a minute, and a human who does not
//! answer is missed after two. Each case has a node and a policy of its own, and all of them are struck at once. One alert waits for longer than
//! all of that takes: [`super::silence`] provokes it.

mod causes;
mod dashboard;
mod readiness;
mod scene;
mod upkeep;

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use e2e::toolchain::{Programs, Toolchain};
use fencing_testbed::debian;
use fencing_testbed::paths::workspace;
use serde_json::{Map, Value, json};
use tokio::process::Command;

use self::scene::Scene;
use super::silence;

/// An alert of the rules: its name, how long it waits here where it waits at all, and what its cause is in this run.
struct Row {
    alert: &'static str,
    wait: Option<&'static str>,
    cause: Cause,
}

/// Where an alert is provoked.
enum Cause {
    /// This befalls the lab here.
    Here(&'static str),
    /// In [`super::silence`], a lab of its own.
    InSilence,
}

const fn row(alert: &'static str, wait: Option<&'static str>, cause: &'static str) -> Row {
    let cause = Cause::Here(cause);
    Row { alert, wait, cause }
}

/// Every alert of charts/node-fencing-operator/files/alerts.yaml.
const ALERTS: [Row; 31] = [
    row(
        "NodeFencingStuck",
        Some("2s"),
        "a machine and its BMC lose their power",
    ),
    row(
        "NodeFencingEscalated",
        Some("2s"),
        "the same: no device can be read",
    ),
    row(
        "NodeFencingDetachStuck",
        Some("2s"),
        "the storage hangs when it is to detach",
    ),
    row(
        "NodeFencingReleaseStuck",
        Some("2s"),
        "nobody releases what only a human may",
    ),
    row(
        "NodeFencingContradiction",
        None,
        "something renews the Lease of a node whose machine reads Off",
    ),
    row(
        "NodeFencingEarlyReportRefuted",
        None,
        "a running node is marked PoweredOff, as the operator would mark it",
    ),
    row(
        "NodeFencingNodeStranded",
        Some("2s"),
        "a mark of a deletion stands without its claim",
    ),
    row(
        "NodeFencingAwaitingApproval",
        None,
        "nobody answers for two minutes",
    ),
    row(
        "NodeFencingHeld",
        Some("2s"),
        "a policy wants all of its nodes healthy for a fence",
    ),
    row(
        "NodeNotReadyNotFenced",
        Some("15s"),
        "a machine loses its power while the operator is frozen",
    ),
    row(
        "OutOfServiceTaintOnReadyNode",
        Some("2s"),
        "somebody taints a Ready node",
    ),
    row(
        "NodeFencingFlapping",
        None,
        "a kubelet hangs, and hangs again after the fence",
    ),
    row(
        "FenceDeviceUnreachable",
        Some("2s"),
        "a BMC's port is closed",
    ),
    row(
        "FenceDeviceWrongMachine",
        Some("2s"),
        "another machine answers at a BMC's address",
    ),
    row(
        "FenceDeviceOffWhileRunning",
        None,
        "a BMC reads Off of a running machine",
    ),
    row(
        "FenceDeviceNotReady",
        Some("2s"),
        "the Secret of a FenceDevice does not exist",
    ),
    row(
        "NodeFencingPolicyNotReady",
        Some("2s"),
        "a policy takes rights that the operator lacks",
    ),
    row(
        "NodeFencingPausedWithoutEnd",
        Some("2s"),
        "a pause has no expireTime",
    ),
    row(
        "FenceDeviceCredentialExpires",
        Some("2s"),
        "a token in a Secret ends within the hour",
    ),
    row(
        "FenceDeviceNameUnresolved",
        Some("2s"),
        "a device is at a name that does not exist",
    ),
    row(
        "FenceDeviceUnreachableFromStandby",
        Some("2s"),
        "a BMC's port is closed after the leader's probe",
    ),
    row(
        "FenceDeviceClockOff",
        Some("2s"),
        "the clock of a BMC is years behind",
    ),
    row(
        "NodesWithoutFenceDevice",
        Some("2s"),
        "the node of any of them",
    ),
    row(
        "NodesWithoutHeadroom",
        Some("2s"),
        "a pod may run on its own node only",
    ),
    row(
        "NodeFencingNoLeader",
        Some("2s"),
        "the replica that leads is killed",
    ),
    row("NodeFencingReplicasLow", Some("2s"), "the same"),
    row("NodeFencingFrozen", None, "etcd is put back"),
    row(
        "NodeFencingAdmissionGuardMissing",
        Some("2s"),
        "the admission policies are deleted",
    ),
    row(
        "NodeFencingReconcileErrors",
        Some("2s"),
        "the API server refuses the claim of a node again and again",
    ),
    row(
        "NodeFencingEventsDropped",
        Some("2s"),
        "the API server refuses Events",
    ),
    Row {
        alert: silence::ALERT,
        wait: Some("2s"),
        cause: Cause::InSilence,
    },
];

/// What the table has for the cause of an alert.
fn cause_of(alert: &str) -> String {
    let row = ALERTS.iter().find(|row| row.alert == alert);
    match row.map(|row| &row.cause) {
        Some(Cause::Here(words)) => (*words).to_owned(),
        Some(Cause::InSilence) => "not provoked here".to_owned(),
        None => "not in the table".to_owned(),
    }
}

/// The rules as the chart makes them of the values of somebody who is in a hurry.
pub async fn rules() -> Result<Value> {
    let waits = ALERTS.iter().filter_map(|row| Some((row.alert, row.wait?)));
    let overrides: Map<_, _> = waits
        .map(|(alert, wait)| (alert.to_owned(), json!({"for": wait})))
        .collect();
    let values = json!({
        "metrics": {"renderMode": "alwaysRender", "prometheusRule": {"enabled": true}},
        "alerts": {"overrides": overrides},
    });
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), values.to_string())?;
    let toolchain = tokio::task::spawn_blocking(|| Toolchain::build(Programs::All)).await??;
    let home = tempfile::tempdir()?;
    let chart = workspace().join("charts/node-fencing-operator");
    let output = Command::new(toolchain.program("helm"))
        .args(["template", "node-fencing-operator"])
        .arg(chart)
        .arg("--values")
        .arg(file.path())
        .env("HOME", home.path())
        .env_remove("KUBECONFIG")
        .output()
        .await?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "helm: {said}");
    let objects: Vec<Value> = serde_saphyr::from_multiple(&String::from_utf8(output.stdout)?)?;
    let mut rules = objects
        .into_iter()
        .find(|object| object["kind"] == "PrometheusRule")
        .context("no PrometheusRule")?;
    Ok(rules["spec"].take())
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// The names that the rules have for `alert` or `record`.
fn names(rules: &Value, what: &str) -> BTreeSet<String> {
    let rules = list(&rules["groups"]).flat_map(|group| list(&group["rules"]));
    let names = rules.filter_map(|rule| rule[what].as_str());
    names.map(str::to_owned).collect()
}

/// The table is that of the rules, and all but one are provoked here: those, by name.
fn provoked_here(rules: &Value) -> Result<BTreeSet<String>> {
    let table = |is_in: fn(&&Row) -> bool| -> BTreeSet<String> {
        let rows = ALERTS.iter().filter(is_in);
        rows.map(|row| row.alert.to_owned()).collect()
    };
    let (all, alerts) = (table(|_| true), names(rules, "alert"));
    ensure!(
        all == alerts,
        "the table has {all:?}, the rules have {alerts:?}"
    );
    let here = table(|row| matches!(row.cause, Cause::Here(_)));
    ensure!(here.len() + 1 == all.len(), "only {here:?}");
    Ok(here)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_alert_fires_and_resolves_and_the_dashboard_shows_the_run() -> Result<()> {
    if !debian::available_to_test("every_alert_fires_and_resolves_and_the_dashboard_shows_the_run")?
    {
        return Ok(());
    }
    let rules = rules().await?;
    let table = provoked_here(&rules)?;
    let scene = Scene::set(&rules).await?;
    scene.all_are_provoked().await?;
    dashboard::has_data(&scene, &names(&rules, "record")).await?;
    scene.a_day_goes_by().await?;
    let (fired, resolved) = scene.seen();
    ensure!(fired == table, "there fired {fired:?}");
    ensure!(resolved == table, "there resolved {resolved:?}");
    Ok(())
}
