//! Case 10: many nodes fail at once. The budget lets them through one at a time, or holds them until a human has looked.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use e2e::eventually::eventually;
use e2e::lab::{LIMIT, Lab, Setup, condition, stage};
use e2e::workload::{Template, node_of};
use kube::api::DynamicObject;
use serde_json::json;

use crate::outage::{approve, claim_after, keep_before_the_evidence, name, node_writes};

const DATABASES: [&str; 3] = ["one", "two", "three"];

/// Machines, of which the last survives; databases anywhere.
async fn start(test: &str, machines: usize) -> Result<Lab> {
    let lab = Lab::start(Setup::new(test, machines)).await?;
    for name in DATABASES {
        lab.workloads
            .stateful_set(name, &Template::default())
            .await?;
    }
    for name in DATABASES {
        lab.workloads
            .wait_running(&format!("{name}-0"), LIMIT)
            .await?;
    }
    Ok(lab)
}

/// All databases run on nodes that have power.
async fn all_run(lab: &Lab) -> Result<()> {
    for name in DATABASES {
        let survives = |node: &str| lab.rig_of(node).is_ok_and(|rig| rig.machine.is_on());
        lab.workloads
            .wait_pod(&format!("{name}-0"), LIMIT, "run on a survivor", |pod| {
                pod.is_some_and(|pod| e2e::workload::is_ready(pod) && survives(node_of(pod)))
            })
            .await?;
    }
    Ok(())
}

/// By the audit log, no two of the operator's claims ever stood at once.
pub async fn one_claim_at_a_time(lab: &Lab) -> Result<()> {
    let mut claims = BTreeMap::new();
    for write in node_writes(lab).await? {
        let node = write.object_ref.name.clone();
        match claim_after(&write) {
            Some(claim) => claims.insert(node, claim),
            None => claims.remove(&node),
        };
        ensure!(claims.len() <= 1, "claims stand side by side: {claims:?}");
    }
    ensure!(claims.is_empty(), "a claim was left behind: {claims:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_nodes_fail_and_are_fenced_one_at_a_time() -> Result<()> {
    let lab = start("one-at-a-time", 4).await?;
    let proxy = lab.proxy()?;
    let operator = lab.operator_behind(&proxy).await?;
    lab.wait_protected().await?;
    // A priority of its own must not make each of the policy's incidents wait for the others.
    let changes = json!({"priority": 10, "budget": {"maxConcurrent": 1}});
    lab.policy("ConfirmOnly", changes).await?;
    let failed: Vec<_> = lab.rigs.iter().take(3).map(|rig| &rig.machine).collect();
    for machine in &failed {
        machine.set_power(false);
    }
    // Whoever is first is kept from going on until the others have found the only place in the budget taken.
    let kept = keep_before_the_evidence(&proxy).await?;
    eventually("two wait for the budget", LIMIT, async || {
        let fences = lab.api("NodeFence").list(&Default::default()).await?.items;
        let waiting = fences.iter().filter(|fence| held_by_max_concurrent(fence));
        let stages: Vec<_> = fences.iter().map(stage).collect();
        ensure!(waiting.count() == 2, "the stages are {stages:?}");
        Ok(())
    })
    .await?;
    kept.remove();
    for machine in &failed {
        lab.wait_stage(machine.name(), "Recovered").await?;
    }
    all_run(&lab).await?;
    one_claim_at_a_time(&lab).await?;
    operator.check()?;
    lab.verdict().await
}

/// Held, and with all of these words.
fn held_for(fence: &DynamicObject, reasons: &[&str]) -> bool {
    condition(fence, "Held").is_some_and(|held| {
        let words = held["message"].as_str().unwrap_or_default();
        held["status"] == "True" && reasons.iter().all(|reason| words.contains(reason))
    })
}

fn held_by_max_concurrent(fence: &DynamicObject) -> bool {
    held_for(fence, &["budget.maxConcurrent"])
}

fn held_by_storm(fence: &DynamicObject) -> bool {
    held_for(fence, &["Storm", "spec.approval"])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_the_cluster_fails_and_is_held_until_a_human_approves() -> Result<()> {
    let lab = start("half-fails", 4).await?;
    let operator = lab.operator().await?;
    lab.wait_protected().await?;
    lab.policy(
        "PowerOff",
        json!({"budget": {"minHealthy": "51%", "maxConcurrent": 10}}),
    )
    .await?;
    // Their kubelets only hang: nothing but an approved off command makes these machines safe to leave.
    let failed: Vec<_> = lab.rigs.iter().take(2).collect();
    for rig in &failed {
        rig.machine.ail(e2e::machine::Ailment {
            kubelet_hung: true,
            ..Default::default()
        });
    }
    let mut held = Vec::new();
    for rig in &failed {
        let fence = lab.wait_fence(rig.machine.name(), held_by_storm).await?;
        ensure!(stage(&fence) == "Held");
        let words = lab.wait_told(&fence, "Held").await?;
        ensure!(words.contains("minHealthy"), "{words}");
        held.push(fence);
    }
    ensure!(node_writes(&lab).await?.is_empty());
    // Each waits for its own approval, also while another one that has it is fenced.
    for (index, fence) in held.iter().enumerate() {
        for waiting in &failed[index..] {
            ensure!(waiting.machine.is_on() && waiting.bmc.power_commands().is_empty());
        }
        approve(&lab, name(fence)?).await?;
        let machine = &failed[index].machine;
        let fence = lab.wait_stage(machine.name(), "Recovered").await?;
        ensure!(!machine.is_on());
        lab.silent_after_proof(&fence).await?;
    }
    all_run(&lab).await?;
    operator.check()?;
    lab.verdict().await
}
