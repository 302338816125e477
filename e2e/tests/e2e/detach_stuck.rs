//! Case 11: the storage does not detach, or a controller that has to see to it does not run. The taint stays, somebody is called with the
//! name of what holds it (a VolumeAttachment with its error, a pod), and when that heals, the node is released without anybody's doing (F55).

use anyhow::{Context, Result, ensure};
use e2e::csi::{Fault, Faults};
use e2e::lab::{LIMIT, condition, has_taint};
use e2e::proxy::writes::OUT_OF_SERVICE;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::Api;
use serde_json::json;

use crate::outage::{Outage, POD};

const ON_FIRE: &str = "the array is on fire";

/// What holds the volume at the node.
enum Cause {
    /// The storage array.
    Array(Fault),
    /// This controller of the controller-manager does not run.
    Off(&'static str),
}

impl Cause {
    async fn begins(&self, outage: &Outage) -> Result<()> {
        let plane = &outage.lab.control_plane;
        match self {
            Self::Array(detach) => {
                let faults = Faults {
                    detach: detach.clone(),
                    ..Faults::default()
                };
                plane.array().set_faults(&faults).await
            }
            Self::Off(controller) => plane.run_without(&[controller]).await,
        }
    }

    async fn ends(&self, outage: &Outage) -> Result<()> {
        let plane = &outage.lab.control_plane;
        match self {
            Self::Array(_) => plane.array().clear_faults().await,
            Self::Off(_) => plane.run_without(&[]).await,
        }
    }
}

/// What the record and the Event have to name.
enum Named {
    /// The VolumeAttachment, and what it has to say, if it says anything.
    Attachment(Option<&'static str>),
    /// The pod.
    Pod,
}

async fn stuck(test: &str, cause: Cause, named: Named) -> Result<()> {
    let recovery = match named {
        Named::Attachment(_) => json!({"detachTimeoutSeconds": 60}),
        // The operator's own deletion of pods would leave nothing to pod GC.
        Named::Pod => json!({"detachTimeoutSeconds": 60, "podDeletion": "PodGC"}),
    };
    let policy = json!({"recovery": recovery});
    let outage = Outage::prepare(test, "ConfirmOnly", policy).await?;
    cause.begins(&outage).await?;
    outage.cut().await?;
    let attachment = attachment_of(&outage).await?;
    let (object, says) = match named {
        Named::Attachment(error) => (attachment, error.unwrap_or_default()),
        Named::Pod => (format!("work/{POD}"), ""),
    };
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
    ensure!(words.contains(&object) && words.contains(says), "{words}");
    let told = outage.lab.wait_told(&fence, "DetachStuck").await?;
    ensure!(told.contains(&object), "{told}");
    outage
        .stays("the taint", |node| has_taint(node, OUT_OF_SERVICE))
        .await?;

    cause.ends(&outage).await?;
    let recovered = outage.lab.wait_stage(&outage.node, "Recovered").await?;
    ensure!(condition(&recovered, "Escalated").is_some_and(|it| it["status"] == "False"));
    outage
        .lab
        .workloads
        // Attach/detach itself backs off for up to two minutes after a detach that failed.
        .wait_running_elsewhere(POD, &outage.node, 3 * LIMIT)
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
    let fails = Cause::Array(Fault::failure(ON_FIRE));
    stuck("detach-fails", fails, Named::Attachment(Some(ON_FIRE))).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_detach_that_hangs_keeps_the_taint_and_calls_somebody() -> Result<()> {
    let hangs = Cause::Array(Fault::hang());
    stuck("detach-hangs", hangs, Named::Attachment(None)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_attach_detach_controller_the_taint_stays_and_somebody_is_called() -> Result<()>
{
    let off = Cause::Off("persistentvolume-attach-detach-controller");
    stuck("detach-off", off, Named::Attachment(None)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_pod_gc_the_taint_stays_and_somebody_is_called() -> Result<()> {
    let off = Cause::Off("pod-garbage-collector-controller");
    stuck("pod-gc-off", off, Named::Pod).await
}
