//! A node whose BMC is silent, fenced from its storage by the real CSI-Addons. `make test-all` runs these: its controller and its sidecar take minutes
//! to build.

use anyhow::{Result, ensure};
use e2e::csi::DRIVER;
use e2e::csi_addons::{CLASS, CsiAddons, objects};
use e2e::lab::{LIMIT, Lab, Setup, escalation, has_taint};
use e2e::machine::Machine;
use fencing_testbed::bmc::Line;
use fencing_testbed::eventually::eventually;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

use crate::outage::{Outage, POD};

const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// The BMC first, then the storage.
fn policy() -> Value {
    let bmcs = json!({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]});
    let storage = json!({"matchLabels": {"tier": "storage"}});
    let level = |name: &str, selector: &Value| json!({"name": name, "deviceSelector": selector, "attempts": 1, "retryPeriodSeconds": 1, "timeoutSeconds": 20});
    json!({"fence": {"levels": [level("bmc", &bmcs), level("storage", &storage)]}})
}

/// A lab with CSI-Addons and a storage for all of its nodes, and `db-0` running.
async fn outage(name: &str) -> Result<(Outage, CsiAddons)> {
    let lab = Lab::start(Setup::new(name, 2).alone()).await?;
    let addons = CsiAddons::start(&lab).await?;
    let device = json!({
        "nodeSelector": {}, "identityCheck": "Skip", "probe": {"periodSeconds": 30},
        "networkFence": {"provisioner": DRIVER, "networkFenceClassName": CLASS},
    });
    let object = json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "FenceDevice",
        "metadata": {"name": "storage", "labels": {"tier": "storage"}}, "spec": device,
    });
    let params = kube::api::PatchParams::apply("lab").force();
    let api = lab.api("FenceDevice");
    api.patch("storage", &params, &kube::api::Patch::Apply(&object))
        .await?;
    let outage = Outage::of(lab, "PowerOff", policy()).await?;
    Ok((outage, addons))
}

/// The power is gone, and the BMC with it.
fn cut(outage: &Outage) -> Result<()> {
    outage.rig()?.bmc.set_line(Line::Dark)?;
    outage.power(false)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "builds CSI-Addons: `make test-all`"]
async fn node_with_a_silent_bmc_is_fenced_from_its_storage_and_let_in_after_its_reboot()
-> Result<()> {
    let (outage, addons) = outage("storage-fence").await?;
    let Outage { lab, node, .. } = &outage;
    cut(&outage)?;
    lab.workloads
        .wait_running_elsewhere(POD, node, LIMIT)
        .await?;
    let fences = objects(lab, "NetworkFence", "networkfences");
    let fence = fences.get(&format!("{node}.{CLASS}")).await?;
    ensure!(
        fence.data["status"]["message"] == "fencing operation successful",
        "{:?}",
        fence.data
    );
    let fenced = addons.storage()?.fenced;
    ensure!(fenced.len() == 1, "{fenced:?}");
    // Everything has moved, and only another boot lets the taint go.
    lab.wait_stage(node, "AwaitingRelease").await?;
    let waiting = lab.wait_fence(node, |fence| {
        let words = fence.data["status"].to_string();
        words.contains("boot the machine")
    });
    waiting.await?;
    ensure!(has_taint(&lab.node(node).await?, OUT_OF_SERVICE));
    outage.rig()?.bmc.set_line(Line::Up)?;
    outage.restore().await?;
    lab.wait_stage(node, "Recovered").await?;
    ensure!(!has_taint(&lab.node(node).await?, OUT_OF_SERVICE));
    eventually(
        "the storage lets the node in, and the object is gone",
        LIMIT,
        async || {
            let left = fences.list(&Default::default()).await?.items;
            ensure!(left.is_empty(), "{left:?}");
            let storage = addons.storage()?;
            ensure!(storage.fenced.is_empty(), "{storage:?}");
            Ok(())
        },
    )
    .await?;
    let calls = addons.storage()?.calls;
    ensure!(
        calls.first().is_some_and(|it| it.starts_with("fence ")),
        "{calls:?}"
    );
    ensure!(
        calls.last().is_some_and(|it| it.starts_with("unfence ")),
        "{calls:?}"
    );
    ensure!(lab.times_tainted(node).await? == 1);
    outage.verdict().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "builds CSI-Addons: `make test-all`"]
async fn volume_of_another_driver_keeps_the_node_from_being_tainted() -> Result<()> {
    let (outage, addons) = outage("storage-foreign").await?;
    let Outage { lab, node, .. } = &outage;
    let attachments: Api<VolumeAttachment> = Api::all(lab.control_plane.admin());
    let foreign = serde_json::from_value(json!({
        "metadata": {"name": "foreign"},
        "spec": {"attacher": "other.csi", "nodeName": node, "source": {"persistentVolumeName": "pv-foreign"}},
    }))?;
    attachments.create(&PostParams::default(), &foreign).await?;
    cut(&outage)?;
    let names_it = |words: &str| words.contains("pv-foreign of other.csi (foreign)");
    let stuck =
        |fence: &_| matches!(escalation(fence), Some(("DeviceFailed", words)) if names_it(words));
    lab.wait_fence(node, stuck).await?;
    ensure!(lab.times_tainted(node).await? == 0);
    let storage = addons.storage()?;
    ensure!(
        storage.calls.is_empty(),
        "nobody is shut out for nothing: {storage:?}"
    );
    // Somebody takes it off.
    attachments.delete("foreign", &Default::default()).await?;
    lab.workloads
        .wait_running_elsewhere(POD, node, LIMIT)
        .await?;
    ensure!(lab.times_tainted(node).await? == 1);
    outage.verdict().await
}
