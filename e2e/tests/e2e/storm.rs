//! Case 10: many nodes fail at once. The budget lets them through one at a time, or holds them until a human has looked.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use e2e::lab::{LIMIT, Lab, Setup, condition, stage};
use e2e::workload::{Template, node_of};
use kube::api::DynamicObject;
use serde_json::json;

use crate::outage::{approve, claim_after, name, node_writes, wait_event};

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
async fn one_claim_at_a_time(lab: &Lab) -> Result<()> {
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
    let operator = lab.operator().await?;
    lab.wait_protected().await?;
    // A priority of its own must not make each of the policy's incidents wait for the others.
    let changes = json!({"priority": 10, "budget": {"maxConcurrent": 1}});
    lab.policy("ConfirmOnly", changes).await?;
    let failed: Vec<_> = lab.rigs.iter().take(3).map(|rig| &rig.machine).collect();
    for machine in &failed {
        machine.set_power(false);
    }
    for machine in &failed {
        lab.wait_stage(machine.name(), "Recovered").await?;
    }
    all_run(&lab).await?;
    one_claim_at_a_time(&lab).await?;
    let mut waited = 0;
    for machine in &failed {
        let fence = lab.fence_of(machine.name()).await?;
        waited += usize::from(fence.is_some_and(|fence| condition(&fence, "Held").is_some()));
    }
    ensure!(waited >= 1, "nobody waited for a place in the budget");
    operator.check()?;
    lab.verdict().await
}

fn held_by_storm(fence: &DynamicObject) -> bool {
    condition(fence, "Held").is_some_and(|held| {
        let words = held["message"].as_str().unwrap_or_default();
        held["status"] == "True" && words.contains("Storm") && words.contains("spec.approval")
    })
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
        let words = wait_event(&lab, name(&fence)?, "Held").await?;
        ensure!(words.contains("minHealthy"), "{words}");
        held.push(fence);
    }
    tokio::time::sleep(std::time::Duration::from_secs(10)).await;
    ensure!(node_writes(&lab).await?.is_empty());
    for rig in &failed {
        ensure!(rig.machine.is_on() && rig.bmc.power_commands().is_empty());
    }

    for fence in &held {
        approve(&lab, name(fence)?).await?;
    }
    for rig in &failed {
        let fence = lab.wait_stage(rig.machine.name(), "Recovered").await?;
        ensure!(!rig.machine.is_on());
        lab.silent_after_proof(&fence).await?;
    }
    all_run(&lab).await?;
    operator.check()?;
    lab.verdict().await
}
