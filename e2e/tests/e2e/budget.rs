//! Case 10: many nodes fail at once. The budget lets them through one at a time, or holds them until a human has looked; those of the control
//! plane whatever a human says, until enough of them are back.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use e2e::lab::{LIMIT, Lab, Setup, condition, stage};
use e2e::machine::Ailment;
use e2e::workload::{Template, node_of, wait_node_ready};
use fencing_testbed::eventually::eventually;
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

/// By the audit log, no two of the operator's claims on these nodes ever stood at once.
pub async fn one_claim_at_a_time(lab: &Lab, nodes: &[&str]) -> Result<()> {
    let mut claims = BTreeMap::new();
    for write in node_writes(lab).await? {
        let node = write.object_ref.name.clone();
        if !nodes.contains(&node.as_str()) {
            continue;
        }
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
    one_claim_at_a_time(&lab, &["node-1", "node-2", "node-3"]).await?;
    operator.check()?;
    lab.verdict().await
}

/// Held, and with all of these words.
pub fn held_for(fence: &DynamicObject, reasons: &[&str]) -> bool {
    condition(fence, "Held").is_some_and(|held| {
        let words = held["message"].as_str().unwrap_or_default();
        held["status"] == "True" && reasons.iter().all(|reason| words.contains(reason))
    })
}

fn held_by_max_concurrent(fence: &DynamicObject) -> bool {
    held_for(fence, &["budget.maxConcurrent"])
}

fn held_by_storm(fence: &DynamicObject) -> bool {
    held_for(fence, &["MinHealthy", "spec.approval"])
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
        rig.machine.ail(Ailment {
            kubelet_hung: true,
            ..Ailment::default()
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

/// As kubeadm sets it.
const CONTROL_PLANE_LABEL: &str = "node-role.kubernetes.io/control-plane=";
const CONTROL_PLANE: [&str; 3] = ["node-1", "node-2", "node-3"];
const QUORUM: &str = "held (Quorum): 1 of 3 control-plane nodes would stay Ready, quorum requires 2; bring one back, or set `budget.controlPlane: Ignore`";

/// These are held for the quorum, in these very words, with their machines on and nothing of ours on the Nodes.
async fn wait_held_for_the_quorum(lab: &Lab, nodes: &[&str]) -> Result<Vec<DynamicObject>> {
    let mut held = Vec::new();
    for node in nodes {
        let is_held = |fence: &DynamicObject| held_for(fence, &["(Quorum)"]);
        let fence = lab.wait_fence(node, is_held).await?;
        let words = &condition(&fence, "Held").context("it is held")?["message"];
        ensure!(*words == QUORUM && stage(&fence) == "Held", "{words}");
        let rig = lab.rig_of(node)?;
        ensure!(rig.machine.is_on() && rig.bmc.power_commands().is_empty());
        held.push(fence);
    }
    let writes = node_writes(lab).await?;
    let touched = writes.iter().map(|write| write.object_ref.name.as_str());
    ensure!(!touched.into_iter().any(|node| nodes.contains(&node)));
    Ok(held)
}

/// Their kubelets only hang, as above. No approval makes up for a member of etcd.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_control_plane_keeps_its_quorum_whoever_approves_until_one_is_back_or_the_policy_says_so()
-> Result<()> {
    let lab = Lab::start(Setup::new("quorum", 4)).await?;
    let operator = lab.operator().await?;
    lab.wait_protected().await?;
    for node in CONTROL_PLANE {
        let label = ["label", "node", node, CONTROL_PLANE_LABEL];
        lab.control_plane.kubectl_text(&label).await?;
    }
    let hangs = |number: usize, yes: bool| {
        lab.rig(number).machine.ail(Ailment {
            kubelet_hung: yes,
            ..Ailment::default()
        });
    };
    let ready = async |node: &str, wanted: &str| {
        wait_node_ready(lab.control_plane.admin(), node, wanted, LIMIT).await
    };
    // There is no policy before both are down: of two that fail one after the other the first would be fenced.
    hangs(1, true);
    hangs(2, true);
    ready("node-1", "Unknown").await?;
    ready("node-2", "Unknown").await?;
    let policy = json!({"budget": {"maxConcurrent": 10}});
    lab.policy("PowerOff", policy).await?;
    let both = ["node-1", "node-2"];
    for fence in wait_held_for_the_quorum(&lab, &both).await? {
        let told = lab.wait_told(&fence, "Held").await?;
        ensure!(told == QUORUM, "{told}");
        approve(&lab, name(&fence)?).await?;
    }

    // In the time in which another node's outage begins and ends, nothing becomes of these.
    hangs(4, true);
    lab.wait_stage("node-4", "Recovered").await?;
    let held = wait_held_for_the_quorum(&lab, &both).await?;
    let is_approved = |fence: &&DynamicObject| fence.data["spec"]["approval"].is_object();
    ensure!(held.iter().filter(is_approved).count() == 2);

    // One is back, and is not fenced any more; the other one need not be asked for again.
    hangs(2, false);
    lab.wait_stage("node-2", "SelfRecovered").await?;
    let fenced = lab.wait_stage("node-1", "Recovered").await?;
    ensure!(fenced.metadata.uid == held[0].metadata.uid && !lab.rig(1).machine.is_on());

    // With one machine off it is the same again for the second, and the policy's owner decides.
    hangs(2, true);
    let is_new = |fence: &DynamicObject| fence.metadata.uid != held[1].metadata.uid;
    lab.wait_fence("node-2", is_new).await?;
    wait_held_for_the_quorum(&lab, &["node-2"]).await?;
    let ignores = json!({"budget": {"maxConcurrent": 10, "controlPlane": "Ignore"}});
    lab.policy("PowerOff", ignores).await?;
    lab.wait_stage("node-2", "Recovered").await?;
    ensure!(!lab.rig(2).machine.is_on() && lab.rig(3).machine.is_on());
    operator.check()?;
    lab.verdict().await
}
