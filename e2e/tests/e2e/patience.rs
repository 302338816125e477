//! A node that joined or was fenced a moment ago has to wait, and it is said why; a record that nobody wants to keep goes.

use std::time::Instant;

use anyhow::{Result, bail, ensure};
use e2e::lab::{LIMIT, Lab, condition};
use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::outage::{Outage, name};

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
    outage.restore().await?;

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
