//! Case 11: the storage does not detach. The taint stays, somebody is called with the VolumeAttachment's name and its error,
//! and when the storage heals, the node is released without anybody's doing (F55).

use anyhow::{Context, Result, ensure};
use e2e::csi::{Fault, Faults};
use e2e::lab::{LIMIT, condition, has_taint};
use e2e::proxy::writes::OUT_OF_SERVICE;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::Api;
use serde_json::json;

use crate::outage::Outage;

const ON_FIRE: &str = "the array is on fire";

/// `error` is what the VolumeAttachment has to say, if it says anything.
async fn stuck(test: &str, detach: Fault, error: Option<&str>) -> Result<()> {
    let shortest = json!({"recovery": {"detachTimeoutSeconds": 60}});
    let outage = Outage::prepare(test, "ConfirmOnly", shortest).await?;
    let faults = Faults {
        detach,
        ..Faults::default()
    };
    let array = outage.lab.control_plane.array();
    array.set_faults(&faults).await?;
    outage.cut().await?;
    let attachment = attachment_of(&outage).await?;
    let fence = outage.lab.wait_stage(&outage.node, "Detaching").await?;

    let message = |fence: &kube::api::DynamicObject| {
        let escalated = condition(fence, "Escalated")?;
        let is_it = escalated["status"] == "True" && escalated["reason"] == "DetachStuck";
        is_it.then(|| escalated["message"].as_str().unwrap_or_default().to_owned())
    };
    let escalated = outage
        .lab
        .wait_fence(&outage.node, |fence| message(fence).is_some())
        .await?;
    let words = message(&escalated).context("it is escalated")?;
    ensure!(words.contains(&attachment), "{words}");
    ensure!(error.is_none_or(|error| words.contains(error)), "{words}");
    let told = outage.lab.wait_told(&fence, "DetachStuck").await?;
    ensure!(told.contains(&attachment), "{told}");
    outage
        .stays("the taint", |node| has_taint(node, OUT_OF_SERVICE))
        .await?;

    array.clear_faults().await?;
    let recovered = outage.lab.wait_stage(&outage.node, "Recovered").await?;
    ensure!(condition(&recovered, "Escalated").is_some_and(|it| it["status"] == "False"));
    outage
        .lab
        .workloads
        // Attach/detach itself backs off for up to two minutes after a detach that failed.
        .wait_running_elsewhere("db-0", &outage.node, 3 * LIMIT)
        .await?;
    outage.lab.silent_after_proof(&recovered).await?;
    outage.verdict().await
}

/// The name of the VolumeAttachment of the node's only volume.
async fn attachment_of(outage: &Outage) -> Result<String> {
    let api: Api<VolumeAttachment> = Api::all(outage.lab.control_plane.admin());
    let all = api.list(&Default::default()).await?;
    let mut of_node = all
        .items
        .into_iter()
        .filter(|attachment| attachment.spec.node_name == outage.node);
    let attachment = of_node.next().context("the volume is attached")?;
    attachment.metadata.name.context("it has a name")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_detach_that_fails_keeps_the_taint_and_calls_somebody() -> Result<()> {
    stuck("detach-fails", Fault::failure(ON_FIRE), Some(ON_FIRE)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_detach_that_hangs_keeps_the_taint_and_calls_somebody() -> Result<()> {
    stuck("detach-hangs", Fault::hang(), None).await
}
