//! A node that joined or was fenced a moment ago has to wait, and it is said why; a record that nobody wants to keep goes.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use e2e::clocks::available_to_test;
use e2e::lab::{LIMIT, Lab, Setup, condition};
use jiff::Timestamp;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::clocks::move_date;
use crate::outage::{Outage, Watched, name};

const AN_HOUR: u32 = 3600;

/// Waits until the policy's condition `Ready` says these words.
pub async fn policy_says(lab: &Lab, words: &str) -> Result<()> {
    let begin = Instant::now();
    loop {
        let policy = lab.api("NodeFencingPolicy").get("lab").await?;
        let says = condition(&policy, "Ready").map(|it| it["message"].to_string());
        let says = says.unwrap_or_default();
        if says.contains(words) {
            return Ok(());
        }
        ensure!(
            begin.elapsed() < LIMIT,
            "the policy says {says}, not {words}"
        );
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}

async fn records(lab: &Lab) -> Result<Vec<String>> {
    let all: Vec<DynamicObject> = lab.api("NodeFence").list(&Default::default()).await?.items;
    all.iter()
        .map(|fence| name(fence).map(str::to_owned))
        .collect()
}

/// Stays dark for longer than the policy's condition wants (10 s), and is not fenced: there are these NodeFences. No other node can
/// serve as a measure of time here, the policy makes all of them wait.
async fn nothing_begins(outage: &Outage, known: &[String]) -> Result<()> {
    tokio::time::sleep(std::time::Duration::from_secs(12)).await;
    let found = records(&outage.lab).await?;
    ensure!(found == known, "{found:?}");
    Ok(())
}

async fn wait_gone(lab: &Lab, fence: &str) -> Result<()> {
    let begin = Instant::now();
    while records(lab).await?.iter().any(|record| record == fence) {
        if begin.elapsed() > LIMIT {
            bail!("NodeFence {fence} is still there");
        }
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    }
    Ok(())
}

fn waits(uptime: u32, cooldown: u32) -> Value {
    json!({
        "exclusions": {"minUptimeSeconds": uptime},
        "budget": {"cooldownSeconds": cooldown},
        "history": {"limit": 1},
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_young_node_and_one_just_fenced_wait_and_old_records_go() -> Result<()> {
    let outage = Outage::prepare("patience", "ConfirmOnly", waits(AN_HOUR, 0)).await?;
    outage.cut().await?;
    let told = outage
        .lab
        .wait_told_of(&outage.node, "FenceDelayed")
        .await?;
    ensure!(told.contains("`exclusions.minUptimeSeconds`"), "{told}");
    policy_says(&outage.lab, "it joined less than 3600 s ago").await?;
    nothing_begins(&outage, &[]).await?;

    // The wait is the live policy's: shortened, the incident is due at once.
    outage.lab.policy("ConfirmOnly", waits(0, AN_HOUR)).await?;
    let first = outage.lab.wait_stage(&outage.node, "Recovered").await?;
    let first = name(&first)?.to_owned();
    outage.restore_and_probe().await?;

    // The next outage of the node comes too soon, for this process and for the one that follows it.
    outage.cut().await?;
    policy_says(&outage.lab, "`budget.cooldownSeconds`").await?;
    outage.operator.kill()?;
    outage.operator.start_again().await?;
    nothing_begins(&outage, std::slice::from_ref(&first)).await?;
    policy_says(
        &outage.lab,
        &format!("NodeFence {first}, ended less than 3600 s ago"),
    )
    .await?;

    outage.lab.policy("ConfirmOnly", waits(0, 0)).await?;
    let recovered = |fence: &DynamicObject| {
        e2e::lab::stage(fence) == "Recovered" && fence.metadata.name.as_deref() != Some(&first)
    };
    outage.lab.wait_fence(&outage.node, recovered).await?;
    wait_gone(&outage.lab, &first).await?;
    ensure!(records(&outage.lab).await?.len() == 1);
    outage.restore().await?;
    outage.verdict().await
}

/// All but the first are only watched.
fn watched(number: usize) -> BTreeMap<String, String> {
    [("lab/watched".to_owned(), (number > 1).to_string())].into()
}

/// A policy for the watched nodes, which keeps so many records for the 30 days that are the default.
async fn watch(lab: &Lab, limit: u32) -> Result<()> {
    let policy = json!({
        "nodeSelector": {"matchLabels": {"lab/watched": "true"}}, "priority": 1,
        "history": {"limit": limit},
    });
    lab.policy_named("watched", "Observe", policy).await
}

/// When the incident of this node ended.
async fn wait_ended(lab: &Lab, node: &str) -> Result<Timestamp> {
    let has_ended = |fence: &DynamicObject| fence.data["status"]["completionTime"].is_string();
    let fence = lab.wait_fence(node, has_ended).await?;
    let ended = fence.data["status"]["completionTime"].as_str();
    Ok(ended.context("it has ended")?.parse()?)
}

/// Its date decides alone: the operator looks for what is too old and for what is too much in one go, the oldest first. So when a record is
/// gone that was too much, the older one has been found too young.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_goes_when_it_is_older_than_its_policy_keeps_it_and_no_sooner() -> Result<()> {
    if !available_to_test("too-old")? {
        return Ok(());
    }
    let setup = Setup {
        labels: watched,
        ..Setup::new("too-old", 3)
    };
    let ttl = json!({"history": {"ttlSeconds": AN_HOUR}});
    let scene = Watched::set(setup, ttl).await?;
    let lab = &scene.lab;
    let clocks = scene.operator.clocks()?;
    scene.power(1, false).await?;
    let fenced = lab.wait_stage("node-1", "Recovered").await?;
    let fenced = name(&fenced)?.to_owned();
    let ended = wait_ended(lab, "node-1").await?;
    scene.power(1, true).await?;

    watch(lab, 2).await?;
    for on in [false, true] {
        scene.power(2, on).await?;
        scene.power(3, on).await?;
        if !on {
            lab.wait_stage("node-2", "Observing").await?;
            lab.wait_stage("node-3", "Observing").await?;
        }
    }
    let mut later = Vec::new();
    for node in ["node-2", "node-3"] {
        let record = lab.fence_of(node).await?.context("it has a NodeFence")?;
        later.push((wait_ended(lab, node).await?, name(&record)?.to_owned()));
    }
    later.sort();
    ensure!(later.iter().all(|(at, _)| *at > ended) && records(lab).await?.len() == 3);

    // Minutes before its time, and one of the others is too much from now on.
    let age = Timestamp::now().as_second() - ended.as_second();
    move_date(&scene.operator, &clocks, i64::from(AN_HOUR) - 300 - age)?;
    watch(lab, 1).await?;
    wait_gone(lab, &later[0].1).await?;
    let kept = records(lab).await?;
    ensure!(kept.len() == 2 && kept.contains(&fenced), "{kept:?}");

    move_date(&scene.operator, &clocks, 301)?;
    wait_gone(lab, &fenced).await?;
    ensure!(records(lab).await? == [later[1].1.as_str()]);
    scene.operator.check()?;
    lab.verdict().await
}
