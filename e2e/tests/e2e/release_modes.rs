//! How an incident ends: the release modes, a human who asks for a fence or lets go, and the quarantine of a node that
//! cannot become Ready while it is under quarantine.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use e2e::audit::{OPERATOR, Request};
use e2e::lab::{LIMIT, Lab, Setup, condition, has_taint, resource, stage};
use e2e::machine::{Ailment, Boot};
use e2e::proxy::writes::{CLAIM, OUT_OF_SERVICE, QUARANTINE};
use e2e::workload::{Template, wait_node_ready};
use k8s_openapi::api::core::v1::Node;
use kube::api::DynamicObject;
use serde_json::json;

use crate::outage::{Outage, claim_after};
use crate::plugin::typed;

fn waits_with(fence: &DynamicObject, words: &str) -> bool {
    let says = condition(fence, "Succeeded").and_then(|it| it["message"].as_str());
    stage(fence) == "AwaitingRelease" && says.is_some_and(|says| says.contains(words))
}

fn is_ours(node: &Node) -> bool {
    has_taint(node, OUT_OF_SERVICE) && has_taint(node, CLAIM)
}

/// `kubectl fence cancel` or `release`, whichever it is time for.
async fn stopped(lab: &Lab, verb: &str, fence: &str) -> Result<()> {
    let line = format!("{verb} nodefence/{fence} --reason \"it is time\"");
    let (code, told, complained) = typed(lab, &line).await?;
    ensure!(
        code == 0 && told.starts_with(&format!("nodefence.nodefencing.io/{fence} {verb}")),
        "{told}{complained}"
    );
    Ok(())
}

/// The other of the two, which names the one that it is time for.
async fn refused_for(lab: &Lab, verb: &str, fence: &str, way_out: &str) -> Result<()> {
    let line = format!("{verb} nodefence/{fence} --reason \"it is no time\"");
    let (code, told, complained) = typed(lab, &line).await?;
    let way_out = format!("kubectl fence {way_out} {fence}");
    ensure!(
        code == 1 && complained.contains(&way_out),
        "{told}{complained}"
    );
    Ok(())
}

fn is_free(node: &Node) -> bool {
    !has_taint(node, OUT_OF_SERVICE) && !has_taint(node, CLAIM) && !has_taint(node, QUARANTINE)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_recovery_keeps_the_taint_until_the_machine_has_booted_anew() -> Result<()> {
    let mode = json!({"release": {"mode": "AfterRecovery"}});
    let outage = Outage::prepare("after-recovery", "PowerOff", mode).await?;
    outage.rig()?.machine.ail(Ailment {
        kubelet_hung: true,
        ..Ailment::default()
    });
    outage
        .lab
        .workloads
        .wait_running_elsewhere("db-0", &outage.node, LIMIT)
        .await?;
    outage
        .lab
        .wait_fence(&outage.node, |fence| waits_with(fence, "AfterRecovery"))
        .await?;
    outage.stays("the taint", is_ours).await?;

    // The machine takes its time to boot: it reads On for a while, and is not turned off again.
    let rig = outage.rig()?;
    rig.machine.ail(Ailment::default());
    rig.machine.next_boot(Boot {
        delay: std::time::Duration::from_secs(15),
        ..Boot::default()
    });
    outage.power(true)?;
    let recovered = outage.lab.wait_stage(&outage.node, "Recovered").await?;
    ensure!(rig.machine.is_on());
    ensure!(
        rig.bmc.power_commands().len() == 1,
        "the recovering machine was turned off"
    );
    outage
        .lab
        .wait_node(&outage.node, "no taint of ours, no quarantine", is_free)
        .await?;
    outage.lab.silent_after_proof(&recovered).await?;
    ensure!(outage.node_writes().await?.len() == 3);
    outage.verdict().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn manual_keeps_the_taint_until_a_human_lets_go() -> Result<()> {
    let mode = json!({"release": {"mode": "Manual"}});
    let outage = Outage::prepare("release-manual", "ConfirmOnly", mode).await?;
    // Its volume need not detach: the operator looks up which one it is.
    let tolerating = Template {
        tolerates_all: true,
        node: Some(outage.node.clone()),
        ..Template::default()
    };
    let workloads = &outage.lab.workloads;
    workloads.stateful_set("stays", &tolerating).await?;
    let stays = workloads.wait_running("stays-0", LIMIT).await?;
    outage.cut().await?;
    let fence = outage
        .lab
        .wait_fence(&outage.node, |fence| waits_with(fence, "Manual"))
        .await?;
    outage.stays("the taint", is_ours).await?;
    let name = crate::outage::name(&fence)?;
    refused_for(&outage.lab, "cancel", name, "release").await?;
    stopped(&outage.lab, "release", name).await?;
    outage.lab.wait_stage(&outage.node, "Recovered").await?;
    let node = outage.lab.node(&outage.node).await?;
    ensure!(!has_taint(&node, OUT_OF_SERVICE) && has_taint(&node, QUARANTINE));
    let audit = outage.lab.control_plane.audit();
    audit.settled().await?;
    let asked = audit.requests_of(OPERATOR)?;
    let is_lookup = |request: &Request| resource(request) == "persistentvolumeclaims";
    ensure!(asked.iter().any(is_lookup), "its claim was not read");
    outage.restore().await?;
    let still = outage.lab.workloads.wait_running("stays-0", LIMIT).await?;
    ensure!(still.metadata.uid == stays.metadata.uid, "it did not stay");
    outage
        .lab
        .wait_node(&outage.node, "the quarantine is lifted", is_free)
        .await?;
    outage.verdict().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn letting_go_before_the_taint_stops_the_fence() -> Result<()> {
    let outage = Outage::prepare("let-go-early", "ConfirmOnly", json!({})).await?;
    outage.cut().await?;
    let kept = outage.keep_before_the_evidence().await?;
    let fence = outage.lab.wait_fence(&outage.node, |_| true).await?;
    let name = crate::outage::name(&fence)?;
    refused_for(&outage.lab, "release", name, "cancel").await?;
    stopped(&outage.lab, "cancel", name).await?;
    let ended = outage.lab.wait_stage(&outage.node, "Aborted").await?;
    kept.remove();
    ensure!(condition(&ended, "Succeeded").is_some_and(|it| {
        it["message"]
            .as_str()
            .is_some_and(|words| words.contains("desiredState"))
    }));
    outage.stays("nothing of ours on the node", is_free).await?;
    let writes = outage.node_writes().await?;
    ensure!(writes.len() == 2, "the claim, and the claim back");
    ensure!(
        writes
            .last()
            .is_some_and(|write| claim_after(write).is_none())
    );
    outage.verdict().await
}

/// A human asks for a fence now.
async fn ask(lab: &Lab, name: &str, node: &str) -> Result<()> {
    let spec = json!({
        "nodeName": node,
        "trigger": {"type": "Manual", "requestedBy": "admin", "reason": "it smells of smoke"},
        "fence": {
            "mode": "PowerOff",
            "levels": [{"name": "bmc", "retryPeriodSeconds": 1}],
            "verification": {"readPeriodSeconds": 1, "lateEffectSeconds": 5},
        },
    });
    lab.apply("NodeFence", name, spec).await.map(drop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_human_may_have_a_node_fenced_now_unless_it_is_ready() -> Result<()> {
    // The policy only watches: what happens is the human's doing.
    let patient = json!({"unhealthyConditions": [{"type": "Ready", "status": "Unknown", "durationSeconds": 3600}]});
    let outage = Outage::prepare("fence-now", "PowerOff", patient).await?;
    let rig = outage.rig()?;
    ask(&outage.lab, "too-early", &outage.node).await?;
    let refused = outage.lab.wait_stage(&outage.node, "Aborted").await?;
    ensure!(condition(&refused, "Succeeded").is_some_and(|it| {
        it["message"]
            .as_str()
            .is_some_and(|words| words.contains("Ready node is never fenced"))
    }));
    ensure!(rig.bmc.power_commands().is_empty() && outage.node_writes().await?.is_empty());

    rig.machine.ail(Ailment {
        kubelet_hung: true,
        ..Ailment::default()
    });
    wait_node_ready(
        outage.lab.control_plane.admin(),
        &outage.node,
        "Unknown",
        LIMIT,
    )
    .await?;
    ask(&outage.lab, "fence-now", &outage.node).await?;
    let fence = outage.lab.wait_stage(&outage.node, "Recovered").await?;
    ensure!(fence.metadata.name.as_deref() == Some("fence-now"));
    ensure!(!rig.machine.is_on() && rig.bmc.power_commands().len() == 1);
    outage
        .lab
        .workloads
        .wait_running_elsewhere("db-0", &outage.node, LIMIT)
        .await?;
    outage.lab.silent_after_proof(&fence).await?;
    outage.verdict().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quarantine_ends_with_the_boot_though_ready_waits_for_a_daemon_set() -> Result<()> {
    let outage = Outage::prepare("quarantine", "ConfirmOnly", json!({})).await?;
    outage
        .lab
        .workloads
        .daemon_set("network", &Template::network_plugin())
        .await?;
    outage.cut().await?;
    outage.lab.wait_stage(&outage.node, "Recovered").await?;
    ensure!(has_taint(&outage.lab.node(&outage.node).await?, QUARANTINE));
    outage.rig()?.machine.next_boot(Boot {
        ready_needs_daemonset: Some("work/network".to_owned()),
        ..Boot::default()
    });
    // It becomes Ready at all only because nobody waits for that before the quarantine is lifted.
    outage.restore().await?;
    outage
        .lab
        .wait_node(&outage.node, "the quarantine is lifted", is_free)
        .await?;
    outage.verdict().await
}

/// When `Ready` last changed.
fn ready_since(node: &Node) -> Option<String> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions.iter().find(|it| it.type_ == "Ready")?;
    Some(ready.last_transition_time.as_ref()?.0.to_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_was_turned_off_while_it_reported_is_left_alone_when_it_is_silent() -> Result<()>
{
    let unhealthy = |seconds: u32| {
        let of =
            |status: &str| json!({"type": "Ready", "status": status, "durationSeconds": seconds});
        json!({"unhealthyConditions": [of("False"), of("Unknown")]})
    };
    let mut setup = Setup::new("silent", 2);
    setup.control_plane.node_monitor_grace = Duration::from_secs(30);
    let outage = Outage::of(Lab::start(setup).await?, "PowerOff", unhealthy(3600)).await?;
    let (lab, node, rig) = (&outage.lab, &outage.node, outage.rig()?);
    rig.machine.next_boot(Boot {
        ready_needs_daemonset: Some("work/never".to_owned()),
        ..Boot::default()
    });
    outage.power(false)?;
    outage.power(true)?;
    wait_node_ready(lab.control_plane.admin(), node, "False", LIMIT).await?;
    lab.policy("PowerOff", unhealthy(10)).await?;
    let fence = lab.wait_stage(node, "Recovered").await?;
    ensure!(!rig.machine.is_on());

    // Only now does Kubernetes notice, and dates the condition anew.
    let silent = wait_node_ready(lab.control_plane.admin(), node, "Unknown", LIMIT).await?;
    let ended = fence.data["status"]["completionTime"].as_str();
    ensure!(
        ready_since(&silent).as_deref() > ended,
        "it was noticed too early to show anything"
    );
    // A second incident would open after 10 s.
    let is_over = Instant::now() + Duration::from_secs(15);
    while Instant::now() < is_over {
        let now = lab.node(node).await?;
        let is_left = has_taint(&now, QUARANTINE) && !has_taint(&now, CLAIM);
        ensure!(is_left, "the outage that was cleared is fenced again");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    ensure!(
        rig.bmc.power_commands().len() == 1,
        "it was turned off twice"
    );
    lab.silent_after_proof(&fence).await?;
    outage.verdict().await
}
