//! A node whose BMC is silent is fenced from its storage, by the real controller and sidecars of CSI-Addons. The storage behind them is ours.

use anyhow::{Context, Result, bail, ensure};
use e2e::audit::Request;
use e2e::lab::{
    CLASS, Call, CsiAddons, DEVICE, LIMIT, Lab, Setup, escalation, has_taint, resource,
};
use e2e::proxy::writes::OUT_OF_SERVICE;
use fencing_testbed::bmc::Line;
use fencing_testbed::eventually::eventually;
use jiff::Timestamp;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::api::{Api, DynamicObject, PostParams};
use serde_json::{Value, json};

use super::mounts_to_test;
use crate::outage::{Outage, POD};

/// Whose token CSI-Addons has.
const CSI_ADDONS: &str = "system:serviceaccount:default:default";

/// The BMC first, then the storage.
fn policy() -> Value {
    let bmcs = json!({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]});
    let storage = json!({"matchLabels": {"tier": DEVICE}});
    let level = |name: &str, selector: &Value| json!({"name": name, "deviceSelector": selector, "attempts": 1, "retryPeriodSeconds": 1, "timeoutSeconds": 20});
    json!({"fence": {"levels": [level("bmc", &bmcs), level("storage", &storage)]}})
}

/// A lab with CSI-Addons, and `db-0` running on a node that the storage is known to let in; none: the test is to end here.
async fn outage(name: &str, test: &str) -> Result<Option<(Outage, CsiAddons)>> {
    if !mounts_to_test(test)? {
        return Ok(None);
    }
    let lab = Lab::start(Setup::new(name, 2).alone()).await?;
    let addons = lab.csi_addons().await?;
    let outage = Outage::of(lab, "PowerOff", policy()).await?;
    let lab = &outage.lab;
    eventually("the storage lets all nodes in", LIMIT, async || {
        let device = lab.api("FenceDevice").get(DEVICE).await?;
        let rows = device.data["status"]["positiveControls"].as_array();
        let rows = rows.into_iter().flatten();
        let on = rows.filter(|row| row["powerState"] == "On").count();
        ensure!(on == lab.rigs.len(), "{}", device.data["status"]);
        Ok(())
    })
    .await?;
    Ok(Some((outage, addons)))
}

/// The power is gone, and with it the BMC and the sidecar on the node.
fn cut(outage: &Outage, addons: &CsiAddons) -> Result<()> {
    outage.rig()?.bmc.set_line(Line::Dark)?;
    addons.lose_sidecar(&outage.node)?;
    outage.power(false)
}

/// When the API server got the write that put the node out of service.
async fn tainted_at(outage: &Outage) -> Result<Timestamp> {
    let writes = outage.node_writes().await?;
    let sets_it = |write: &&Request| {
        let mut operations = write.request_object.as_array().into_iter().flatten();
        operations.any(|one| one["op"] == "add" && one["value"]["key"] == OUT_OF_SERVICE)
    };
    let write = writes.iter().find(sets_it);
    Ok(write.context("the node was never tainted")?.received)
}

/// The operator's writes to NetworkFences, in their order.
async fn network_fence_writes(lab: &Lab) -> Result<Vec<Request>> {
    lab.writes_to("networkfences").await
}

/// Each was made, unfenced and deleted once; deleted after CSI-Addons had stored its last result.
async fn was_taken_back_in_order(lab: &Lab) -> Result<()> {
    let writes = network_fence_writes(lab).await?;
    let verbs: Vec<_> = writes.iter().map(|it| it.verb.as_str()).collect();
    ensure!(verbs == ["create", "patch", "delete"], "{verbs:?}");
    let failed = writes.iter().find(|it| !it.succeeded());
    ensure!(failed.is_none(), "{failed:?}");
    let audit = lab.control_plane.audit();
    let results = audit.writes_of(CSI_ADDONS)?.into_iter().filter(|write| {
        let is_status = write.object_ref.subresource == "status";
        is_status && resource(write) == "networkfences" && write.succeeded()
    });
    let results: Vec<Timestamp> = results.map(|it| it.received).collect();
    let [create, patch, delete] = writes.as_slice() else {
        bail!("{verbs:?}")
    };
    let between = |from: Timestamp, to: Timestamp| {
        let mut all = results.iter();
        all.any(|it| (from..to).contains(it))
    };
    ensure!(
        between(create.received, patch.received) && between(patch.received, delete.received),
        "{writes:?} {results:?}"
    );
    Ok(())
}

/// The storage came first, by the words that the driver relies on, and the taint after it. Gives the call of the storage.
async fn was_shut_out_before_the_taint(outage: &Outage, addons: &CsiAddons) -> Result<Call> {
    let Outage { lab, node, .. } = outage;
    let fences = lab.csi_addons_objects("NetworkFence");
    let fence = fences.get(&format!("{node}.{CLASS}")).await?;
    let status = &fence.data["status"];
    let said = json!({"result": "Succeeded", "message": "fencing operation successful"});
    ensure!(*status == said, "{status}");
    ensure!(fence.metadata.generation == Some(1), "{fence:?}");
    let storage = addons.storage()?;
    let [shut_out] = storage.calls.as_slice() else {
        bail!("{storage:?}")
    };
    ensure!(shut_out.verb == "fence" && shut_out.clients == storage.fenced);
    ensure!(json!(shut_out.clients) == fence.data["spec"]["cidrs"]);
    let tainted = tainted_at(outage).await?;
    ensure!(shut_out.at < tainted, "{shut_out:?}, tainted at {tainted}");
    Ok(shut_out.clone())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute, which CI has no time for; `make peers` and `make test-all` run it"]
async fn power_cut_with_a_silent_bmc_moves_the_volume_by_csi_addons() -> Result<()> {
    let test = "power_cut_with_a_silent_bmc_moves_the_volume_by_csi_addons";
    let Some((outage, addons)) = outage("csi-addons-cut", test).await? else {
        return Ok(());
    };
    let Outage { lab, node, .. } = &outage;
    ensure!(addons.storage()?.calls.is_empty(), "all are let in");
    cut(&outage, &addons)?;
    lab.workloads
        .wait_running_elsewhere(POD, node, LIMIT)
        .await?;

    let shut_out = was_shut_out_before_the_taint(&outage, &addons).await?;

    // Only another boot lets the taint go, and the node in.
    let waits = |fence: &DynamicObject| {
        let status = fence.data["status"].to_string();
        status
            .contains("keeps the node from its volumes, and its machine may run; boot the machine")
    };
    lab.wait_fence(node, waits).await?;
    ensure!(has_taint(&lab.node(node).await?, OUT_OF_SERVICE));
    outage.rig()?.bmc.set_line(Line::Up)?;
    let back = Timestamp::now();
    ensure!(addons.storage()?.calls.len() == 1, "it stays shut out");
    outage.restore().await?;
    let record = lab.wait_stage(node, "Recovered").await?;
    ensure!(!has_taint(&lab.node(node).await?, OUT_OF_SERVICE));
    let readings = &record.data["status"]["evidence"]["readings"];
    let off = readings.as_array().context("readings")?.iter().rev();
    let off = off.take_while(|it| it["device"] == DEVICE && it["powerState"] == "Off");
    ensure!(off.count() > 1, "{readings}");

    let fences = lab.csi_addons_objects("NetworkFence");
    eventually("the object is gone", LIMIT, async || {
        let left = fences.list(&Default::default()).await?.items;
        ensure!(left.is_empty(), "{left:?}");
        Ok(())
    })
    .await?;
    let storage = addons.storage()?;
    ensure!(storage.fenced.is_empty(), "{storage:?}");
    let [_, let_in] = storage.calls.as_slice() else {
        bail!("{storage:?}")
    };
    ensure!(let_in.verb == "unfence" && let_in.clients == shut_out.clients);
    ensure!(let_in.at > back, "{let_in:?}, back at {back}");
    was_taken_back_in_order(lab).await?;
    ensure!(lab.times_tainted(node).await? == 1);
    ensure!(outage.rig()?.machine.is_on());
    outage.verdict().await
}

/// Another driver's volume may be written by a machine that runs: the storage is not even asked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute, which CI has no time for; `make peers` and `make test-all` run it"]
async fn volume_of_another_driver_keeps_csi_addons_from_being_asked() -> Result<()> {
    let test = "volume_of_another_driver_keeps_csi_addons_from_being_asked";
    let Some((outage, addons)) = outage("csi-addons-other", test).await? else {
        return Ok(());
    };
    let Outage { lab, node, .. } = &outage;
    let attachments: Api<VolumeAttachment> = Api::all(lab.control_plane.admin());
    let foreign = serde_json::from_value(json!({
        "metadata": {"name": "foreign"},
        "spec": {"attacher": "other.csi", "nodeName": node, "source": {"persistentVolumeName": "pv-foreign"}},
    }))?;
    attachments.create(&PostParams::default(), &foreign).await?;
    cut(&outage, &addons)?;
    let says_so = |words: &str| {
        words.contains("the storage fence does not cover volume pv-foreign of other.csi (foreign)")
    };
    let stuck =
        |fence: &_| matches!(escalation(fence), Some(("DeviceFailed", words)) if says_so(words));
    lab.wait_fence(node, stuck).await?;
    ensure!(lab.times_tainted(node).await? == 0);
    ensure!(network_fence_writes(lab).await?.is_empty());
    let storage = addons.storage()?;
    ensure!(storage.calls.is_empty(), "{storage:?}");

    // Someone detaches it, and the next round of the levels is enough.
    attachments.delete("foreign", &Default::default()).await?;
    lab.workloads
        .wait_running_elsewhere(POD, node, LIMIT)
        .await?;
    ensure!(lab.times_tainted(node).await? == 1);
    outage.verdict().await
}
