//! A node that its policy keeps its hands off, before its incident is opened and after; and the cap for the whole cluster.

use anyhow::{Result, ensure};
use e2e::lab::{LIMIT, Lab, Setup, condition, stage};
use e2e::operator::Options;
use fencing_testbed::eventually::eventually;
use jiff::{Timestamp, ToSpan, Unit};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use crate::budget::one_claim_at_a_time;
use crate::outage::{Outage, approve, keep_before_the_evidence, name};
use crate::patience::policy_says;

/// A policy with one entry of `pauseRequests`.
fn paused(expires: Option<Timestamp>) -> Value {
    let mut entry = json!({"name": "upgrade", "reason": "new switches"});
    if let Some(expires) = expires {
        entry["expireTime"] = json!(expires.to_string());
    }
    json!({"pauseRequests": [entry], "budget": {"maxConcurrent": 2}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_runs_out_and_the_fence_begins_by_itself() -> Result<()> {
    let outage = Outage::prepare("pause", "ConfirmOnly", paused(None)).await?;
    let lab = &outage.lab;
    outage.cut().await?;
    let told = lab.wait_told_of(&outage.node, "FenceWithheld").await?;
    let words = "is not fenced (Paused): policy lab is paused by its `pauseRequests`: upgrade (new switches)";
    ensure!(told.contains(words), "{told}");
    policy_says(
        lab,
        &format!("Node {} is Ready=Unknown and {words}", outage.node),
    )
    .await?;
    ensure!(lab.fence_of(&outage.node).await?.is_none());

    // Nobody takes the entry back.
    let expires = (Timestamp::now() + 10.seconds()).round(Unit::Second)?;
    lab.policy("ConfirmOnly", paused(Some(expires))).await?;
    let fence = lab.wait_stage(&outage.node, "Recovered").await?;
    let created = fence.metadata.creation_timestamp.as_ref();
    ensure!(
        created.is_some_and(|created| created.0 >= expires),
        "opened at {created:?}, and the pause was until {expires}"
    );
    policy_says(lab, "entry upgrade of `pauseRequests` has no effect").await?;
    outage.restore().await?;
    outage.verdict().await
}

/// Held, and with these words.
fn held_for(fence: &DynamicObject, words: &str) -> bool {
    let held = condition(fence, "Held").filter(|held| held["status"] == "True");
    let message = held.and_then(|held| held["message"].as_str());
    stage(fence) == "Held" && message.is_some_and(|message| message.contains(words))
}

/// Whoever works on the node begins or ends it.
async fn maintains(lab: &Lab, node: &str, status: &str) -> Result<()> {
    let nodes: Api<Node> = Api::all(lab.control_plane.admin());
    let sign = json!({
        "type": "MaintenanceInProgress", "status": status, "reason": "Test", "message": "",
        "lastTransitionTime": Timestamp::now().to_string(),
    });
    let patch = Patch::Strategic(json!({"status": {"conditions": [sign]}}));
    nodes
        .patch_status(node, &PatchParams::default(), &patch)
        .await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_incident_does_not_begin_while_somebody_works_on_the_node() -> Result<()> {
    let outage = Outage::prepare("worked-on", "ConfirmOnly", json!({})).await?;
    let (lab, node) = (&outage.lab, &outage.node);
    let storm = json!({"budget": {"minHealthy": "100%", "maxConcurrent": 2}});
    lab.policy("PowerOff", storm).await?;
    outage.cut().await?;
    let fence = lab
        .wait_fence(node, |it| held_for(it, "(MinHealthy)"))
        .await?;

    lab.schedulable(node, false).await?;
    lab.wait_fence(node, |it| held_for(it, "(Excluded)"))
        .await?;
    // An approval lifts the storm, and not what a human says of the node.
    approve(lab, name(&fence)?).await?;
    maintains(lab, node, "True").await?;
    lab.schedulable(node, true).await?;
    let held = lab
        .wait_fence(node, |it| held_for(it, "(Maintenance)"))
        .await?;
    ensure!(
        held_for(&held, "condition MaintenanceInProgress=True"),
        "{:?}",
        condition(&held, "Held")
    );
    ensure!(outage.node_writes().await?.is_empty());

    maintains(lab, node, "False").await?;
    lab.wait_stage(node, "Recovered").await?;
    outage.restore().await?;
    outage.verdict().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_of_two_policies_are_fenced_one_at_a_time_under_the_clusters_cap() -> Result<()> {
    let lab = Lab::start(Setup::new("cap", 3)).await?;
    let proxy = lab.proxy()?;
    let options = Options {
        server: Some(proxy.url()),
        arguments: vec!["--max-concurrent-fences=1".to_owned()],
        ..Options::default()
    };
    let operator = lab.operator_with(options).await?;
    lab.wait_protected().await?;
    lab.policy("ConfirmOnly", json!({})).await?;
    // The second node has a policy of its own, whose budget nobody else uses.
    let [first, second] = [1, 2].map(|number| lab.rig(number).machine.name().to_owned());
    let label = ["label", "node", second.as_str(), "lab/second=yes"];
    lab.control_plane.kubectl_text(&label).await?;
    let mut own = lab.api("NodeFencingPolicy").get("lab").await?.data["spec"].clone();
    own["priority"] = json!(1);
    own["nodeSelector"] = json!({"matchLabels": {"lab/second": "yes"}});
    lab.apply("NodeFencingPolicy", "second", own).await?;

    for number in [1, 2] {
        lab.rig(number).machine.set_power(false);
    }
    // Whoever is first is kept from going on until the other one has found the only place taken.
    let kept = keep_before_the_evidence(&proxy).await?;
    let waits = eventually("one waits for the cluster's cap", LIMIT, async || {
        for node in [&first, &second] {
            let fence = lab.fence_of(node).await?;
            let held = fence.filter(|it| held_for(it, "(ClusterCap)"));
            if let Some(fence) = held {
                return Ok(fence);
            }
        }
        anyhow::bail!("none does")
    })
    .await?;
    ensure!(
        held_for(&waits, "`--max-concurrent-fences`"),
        "{:?}",
        condition(&waits, "Held")
    );
    kept.remove();
    for node in [&first, &second] {
        lab.wait_stage(node, "Recovered").await?;
    }
    one_claim_at_a_time(&lab, &[&first, &second]).await?;
    operator.check()?;
    lab.verdict().await
}
