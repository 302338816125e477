//! What a policy says about its nodes besides how they are fenced: whom to ask, whom to leave alone, how many at a time, and what is wanted
//! of a machine that is down.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use e2e::lab::{LIMIT, Lab, Setup, condition, escalation, has_taint, stage, taints};
use e2e::machine::Ailment;
use e2e::proxy::writes::CLAIM;
use e2e::workload::{node_of, wait_node_ready};
use fencing_testbed::eventually::eventually;
use k8s_openapi::api::core::v1::Pod;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::budget::{held_for, one_claim_at_a_time};
use crate::devices::{change, message, wait};
use crate::outage::{
    Outage, POD, Watched, approve, deny, keep_before_the_evidence, name, node_writes,
};

/// The nodes that have a NodeFence, each as often as it has one.
async fn fenced(lab: &Lab) -> Result<Vec<String>> {
    let fences = lab.api("NodeFence").list(&Default::default()).await?.items;
    let of_node = |fence: DynamicObject| fence.data["spec"]["nodeName"].as_str().map(str::to_owned);
    let mut nodes: Vec<_> = fences.into_iter().filter_map(of_node).collect();
    nodes.sort();
    Ok(nodes)
}

/// The operator has written to these Nodes and to no other.
async fn touched(lab: &Lab, nodes: &[&str]) -> Result<()> {
    let writes = lab.writes_to("nodes").await?;
    let mut touched: Vec<_> = writes.iter().map(|it| &it.object_ref.name).collect();
    touched.sort();
    touched.dedup();
    ensure!(touched == nodes, "the operator wrote to {touched:?}");
    Ok(())
}

/// A part of a policy that selects the node with this name, whatever other policies do.
fn only(node: &str) -> Value {
    json!({"nodeSelector": {"matchLabels": {"kubernetes.io/hostname": node}}, "priority": 1})
}

/// Asks a human, who has the shortest time that the API allows.
fn asks(on_timeout: &str) -> Value {
    json!({"mode": "Manual", "timeoutSeconds": 30, "onTimeout": on_timeout})
}

/// Ended without a fence, for all to read, in the condition and in an Event.
async fn given_up(lab: &Lab, node: &str, words: &str) -> Result<String> {
    let fence = lab.wait_stage(node, "Aborted").await?;
    let ended = condition(&fence, "Succeeded").context("it has a stage")?;
    let says = ended["message"].as_str().unwrap_or_default();
    ensure!(
        ended["status"] == "False" && says.contains(words),
        "{ended}"
    );
    let told = lab.wait_told(&fence, "Aborted").await?;
    ensure!(told == says, "told was {told}, and it ended with {says}");
    fence.metadata.uid.context("it has a UID")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_human_denies_one_fence_and_leaves_two_without_an_answer() -> Result<()> {
    let lab = Lab::start(Setup::new("approval", 3)).await?;
    let operator = lab.operator().await?;
    lab.wait_protected().await?;
    let impatient = json!({"fence": {"approval": asks("Abort")}});
    lab.policy("ConfirmOnly", impatient).await?;
    let mut patient = only("node-3");
    patient["fence"] = json!({"approval": asks("Wait")});
    lab.policy_named("patient", "ConfirmOnly", patient).await?;
    for rig in &lab.rigs {
        rig.machine.set_power(false);
    }

    let denied = lab.wait_stage("node-1", "AwaitingApproval").await?;
    let asked = lab.wait_told(&denied, "AwaitingApproval").await?;
    ensure!(asked.contains("`spec.approval`"), "{asked}");
    deny(&lab, name(&denied)?, "its disks are being copied").await?;
    let denied = given_up(
        &lab,
        "node-1",
        "denied by admin: its disks are being copied",
    )
    .await?;
    let late = "no approval within 30 s (`fence.approval.timeoutSeconds`, `onTimeout` is Abort)";
    let late = given_up(&lab, "node-2", late).await?;

    let is_overdue = |fence: &DynamicObject| {
        escalation(fence).is_some_and(|(reason, _)| reason == "ApprovalOverdue")
    };
    let waits = lab.wait_fence("node-3", is_overdue).await?;
    ensure!(stage(&waits) == "AwaitingApproval");
    let called = lab.wait_told(&waits, "ApprovalOverdue").await?;
    ensure!(
        called.contains("within 30 s") && called.contains("to Approved or Denied"),
        "{called}"
    );
    lab.hands_off().await?;

    // An answer that comes late counts, and nobody is called any more.
    approve(&lab, name(&waits)?).await?;
    let recovered = lab.wait_stage("node-3", "Recovered").await?;
    let escalated = condition(&recovered, "Escalated").context("it had been")?;
    ensure!(
        escalated["status"] == "False" && escalated["reason"] == "Resolved",
        "{escalated}"
    );
    // Both outages go on, and what was decided about them stands.
    for (node, uid) in [("node-1", denied), ("node-2", late)] {
        let fence = lab.fence_of(node).await?.context("it has a NodeFence")?;
        ensure!(fence.metadata.uid == Some(uid) && stage(&fence) == "Aborted");
    }
    ensure!(fenced(&lab).await? == ["node-1", "node-2", "node-3"]);
    touched(&lab, &["node-3"]).await?;
    operator.check()?;
    lab.verdict().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_of_a_paused_policy_and_excluded_ones_are_left_alone_until_it_says_otherwise()
-> Result<()> {
    let lab = Lab::start(Setup::new("left-alone", 5)).await?;
    let operator = lab.operator().await?;
    lab.wait_protected().await?;
    let policy = json!({
        "exclusions": {"annotations": ["lab/repair"], "taints": ["lab/burn-in"]},
        "pauseRequests": [{"name": "upgrade", "reason": "new firmware in all switches"}],
        "budget": {"maxConcurrent": 10},
    });
    lab.policy("ConfirmOnly", policy).await?;
    // It is paused for its own nodes only.
    lab.policy_named("other", "ConfirmOnly", only("node-5"))
        .await?;
    let ready = async |wanted: &str| wait(&lab, "NodeFencingPolicy", "lab", "Ready", wanted).await;
    let words = message(&ready("False/Paused").await?, "Ready");
    ensure!(
        words.contains("`pauseRequests`")
            && words.contains("upgrade (new firmware in all switches)"),
        "{words}"
    );
    let kubectl = async |words: &[&str]| lab.control_plane.kubectl_text(words).await.map(drop);
    kubectl(&["cordon", "node-1"]).await?;
    kubectl(&["annotate", "node", "node-2", "lab/repair=disk 3"]).await?;
    kubectl(&["taint", "node", "node-3", "lab/burn-in=week-2:NoSchedule"]).await?;
    for rig in &lab.rigs {
        rig.machine.set_power(false);
    }
    for rig in &lab.rigs {
        let admin = lab.control_plane.admin();
        wait_node_ready(admin, rig.machine.name(), "Unknown", LIMIT).await?;
    }

    // In the time in which one outage begins and ends, there is no incident of the others.
    lab.wait_stage("node-5", "Recovered").await?;
    ensure!(fenced(&lab).await? == ["node-5"]);
    change(
        &lab,
        "NodeFencingPolicy",
        "lab",
        json!({"pauseRequests": []}),
    )
    .await?;
    lab.wait_stage("node-4", "Recovered").await?;
    ensure!(fenced(&lab).await? == ["node-4", "node-5"]);
    touched(&lab, &["node-4", "node-5"]).await?;
    // Whoever asks why nothing happens sees that they are down.
    let policy = ready("True/Active").await?;
    let nodes = &policy.data["status"]["nodes"];
    ensure!(
        nodes["selected"] == 4 && nodes["unhealthy"] == 4,
        "{nodes:#}"
    );

    kubectl(&["uncordon", "node-1"]).await?;
    kubectl(&["annotate", "node", "node-2", "lab/repair-"]).await?;
    kubectl(&["taint", "node", "node-3", "lab/burn-in-"]).await?;
    for node in ["node-1", "node-2", "node-3"] {
        let fence = lab.wait_stage(node, "Recovered").await?;
        let told = lab.wait_told(&fence, "Recovered").await?;
        ensure!(told.contains("machine confirmed off"), "{told}");
    }
    operator.check()?;
    lab.verdict().await
}

/// The first two machines stand in one rack.
fn racks(number: usize) -> BTreeMap<String, String> {
    let rack = if number <= 2 { "a" } else { "b" };
    [("lab/rack".to_owned(), rack.to_owned())].into()
}

/// Waits until a fence of the two of rack `a` is held with all of these words.
async fn wait_held(lab: &Lab, words: &[&str]) -> Result<DynamicObject> {
    eventually("a fence of the rack is held", LIMIT, async || {
        for node in ["node-1", "node-2"] {
            let fence = lab.fence_of(node).await?.context("it has a NodeFence")?;
            if held_for(&fence, words) {
                return Ok(fence);
            }
        }
        anyhow::bail!("not for {words:?}")
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rack_is_fenced_one_node_at_a_time_and_the_hour_only_so_often() -> Result<()> {
    let setup = Setup {
        labels: racks,
        ..Setup::new("rack-and-hour", 3)
    };
    let rack = json!({"topologyKey": "lab/rack", "maxConcurrent": 1});
    let budget = json!({"maxConcurrent": 10, "maxPerHour": 2, "failureDomain": rack});
    let scene = Watched::set(setup, json!({"budget": budget})).await?;
    let lab = &scene.lab;
    for rig in &lab.rigs {
        rig.machine.set_power(false);
    }

    // Whoever is first in the rack is kept from going on. The other rack waits for nobody.
    let kept = keep_before_the_evidence(&scene.proxy).await?;
    let held = wait_held(lab, &["(FailureDomain)"]).await?;
    let words = lab.wait_told(&held, "Held").await?;
    ensure!(
        words.contains("1 fence in progress in lab/rack a, at most 1 allowed")
            && words.contains("`budget.failureDomain`"),
        "{words}"
    );
    let (first, last) = if held.data["spec"]["nodeName"] == "node-1" {
        ("node-2", "node-1")
    } else {
        ("node-1", "node-2")
    };
    let is_claimed = |node: &_| has_taint(node, CLAIM);
    for node in [first, "node-3"] {
        lab.wait_node(node, "it is claimed", is_claimed).await?;
    }
    kept.remove();
    for node in [first, "node-3"] {
        lab.wait_stage(node, "Recovered").await?;
    }

    // Its rack is free, and the hour is not.
    let words = "2 fences of the policy began in the last hour, `budget.maxPerHour` is 2; wait, or approve this NodeFence (`spec.approval`)";
    let held = wait_held(lab, &["(MaxPerHour)", words]).await?;
    touched(lab, &[first, "node-3"]).await?;
    approve(lab, name(&held)?).await?;
    let recovered = lab.wait_stage(last, "Recovered").await?;
    ensure!(recovered.metadata.uid == held.metadata.uid);
    one_claim_at_a_time(lab, &["node-1", "node-2"]).await?;
    scene.operator.check()?;
    lab.verdict().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strategy_none_proves_the_machine_down_and_leaves_pods_and_volumes_to_others() -> Result<()>
{
    let lab = Lab::start(Setup::new("strategy-none", 2)).await?;
    let nothing_more = json!({"recovery": {"strategy": "None"}});
    let outage = Outage::of(lab, "PowerOff", nothing_more).await?;
    let Outage { lab, node, .. } = &outage;
    let rig = outage.rig()?;
    rig.machine.ail(Ailment {
        kubelet_hung: true,
        ..Ailment::default()
    });

    let is_done = |fence: &DynamicObject| {
        condition(fence, "Succeeded").is_some_and(|it| it["status"] == "True")
    };
    let fence = lab.wait_fence(node, is_done).await?;
    ensure!(!rig.machine.is_on() && rig.bmc.power_commands().len() == 1);
    ensure!(condition(&fence, "NodeConfirmedDown").is_some_and(|it| it["status"] == "True"));
    let told = lab.wait_told(&fence, stage(&fence)).await?;
    ensure!(
        told.contains("confirmed off") && told.contains("`recovery.strategy: None`"),
        "{told}"
    );
    lab.silent_after_proof(&fence).await?;

    // Nothing of the operator is left, and nothing was taken from the node.
    let now = lab.node(node).await?;
    let is_ours = |key: &String| key.contains("nodefencing.io") || key.contains("out-of-service");
    ensure!(!taints(&now).iter().any(is_ours), "{:?}", taints(&now));
    ensure!(lab.times_tainted(node).await? == 0);
    ensure!(node_writes(lab).await?.len() == 2, "the claim, and its end");
    ensure!(lab.writes_to("pods").await?.is_empty());
    let pod = lab.workloads.api::<Pod>().get(POD).await?;
    ensure!(pod.metadata.uid == outage.pod.metadata.uid && node_of(&pod) == node);

    // Whoever turns the machine on again has a node like any other, and the database with it.
    rig.machine.ail(Ailment::default());
    outage.restore().await?;
    lab.workloads.wait_running(POD, LIMIT).await?;
    ensure!(fenced(lab).await? == [node.as_str()]);
    outage.verdict().await
}
