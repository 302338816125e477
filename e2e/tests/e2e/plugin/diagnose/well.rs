//! What looks like a dead node and is none: every node is Ready, and a volume keeps a pod from running all the same.

use anyhow::{Result, ensure};
use e2e::csi::DRIVER;
use e2e::lab::{LIMIT, Lab, Setup};
use e2e::machine::Ailment;
use e2e::workload::is_ready;
use fencing_testbed::eventually::eventually;
use serde_json::{Value, json};

use super::{asked, found, ids, many};
use crate::plugin::scene::{bound, deployment, is_waiting, kubectl, make, on, pod, spec, wait_pod};
use crate::plugin::session::Session;

const ONCE: &str = "ReadWriteOnce";

/// Its pod waits; it is shown as `APP-new`.
async fn waiting(
    lab: &Lab,
    session: &mut Session<'_>,
    app: &str,
    shown: &'static str,
) -> Result<String> {
    let name = wait_pod(lab, app, is_waiting).await?;
    session.shows(&name, shown);
    Ok(format!("pod/{name}"))
}

/// A Deployment that runs on the first node, and may move to the second.
async fn runs_on_one(
    lab: &Lab,
    session: &mut Session<'_>,
    app: &str,
    shown: &'static str,
) -> Result<()> {
    bound(lab, app, ONCE).await?;
    make(
        lab,
        &[deployment(app, &spec(Some(app), on(&["node-1", "node-2"])))],
    )
    .await?;
    let name = wait_pod(lab, app, is_ready).await?;
    session.shows(&name, shown);
    Ok(())
}

/// D4: the new pod of a rollout has to go to another node.
async fn rollout(lab: &Lab, session: &mut Session<'_>) -> Result<()> {
    kubectl(lab, "rollout restart deployment/web -n work").await?;
    let pod = waiting(lab, session, "web", "web-new").await?;
    found(lab, session, &pod, &["D4"]).await
}

/// D5: two workloads that are kept apart, with one claim.
async fn rivals(lab: &Lab, session: &mut Session<'_>) -> Result<()> {
    bound(lab, "both", ONCE).await?;
    make(
        lab,
        &[deployment("left", &spec(Some("both"), on(&["node-1"])))],
    )
    .await?;
    let left = wait_pod(lab, "left", is_ready).await?;
    session.shows(&left, "left-pod");
    make(
        lab,
        &[deployment("right", &spec(Some("both"), on(&["node-2"])))],
    )
    .await?;
    waiting(lab, session, "right", "right-pod").await?;
    found(lab, session, "pvc/both", &["D5"]).await
}

/// D6: a pod was deleted by force, and its kubelet cannot unmount.
async fn unmounting(lab: &Lab, session: &mut Session<'_>) -> Result<()> {
    lab.rig(1).machine.ail(Ailment {
        unmount_hung: true,
        ..Ailment::default()
    });
    kubectl(lab, "delete pod -n work -l app=busy --force").await?;
    let pod = waiting(lab, session, "busy", "busy-new").await?;
    found(lab, session, &pod, &["D6"]).await
}

/// D9: the array goes on having attached what a VolumeAttachment without a finalizer has asked for.
async fn orphan(lab: &Lab, session: &mut Session<'_>) -> Result<()> {
    bound(lab, "orphan", ONCE).await?;
    let asked = json!({"attacher": DRIVER, "nodeName": "node-1", "source": {"persistentVolumeName": "orphan"}});
    let by_hand = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
        "metadata": {"name": "by-hand"}, "spec": asked,
    });
    make(lab, &[by_hand]).await?;
    kubectl(
        lab,
        "wait volumeattachment/by-hand --for=jsonpath={.status.attached}=true",
    )
    .await?;
    let robbed =
        "patch volumeattachment by-hand --type=merge -p {\"metadata\":{\"finalizers\":null}}";
    kubectl(lab, robbed).await?;
    kubectl(lab, "delete volumeattachment by-hand").await?;
    make(
        lab,
        &[deployment("lost", &spec(Some("orphan"), on(&["node-2"])))],
    )
    .await?;
    let pod = waiting(lab, session, "lost", "lost-pod").await?;
    found(lab, session, &pod, &["D9"]).await
}

/// D10: a claim for one pod, which has one.
async fn for_one_pod(lab: &Lab, session: &mut Session<'_>) -> Result<()> {
    bound(lab, "single", "ReadWriteOncePod").await?;
    make(
        lab,
        &[deployment("first", &spec(Some("single"), on(&["node-2"])))],
    )
    .await?;
    let first = wait_pod(lab, "first", is_ready).await?;
    session.shows(&first, "first-pod");
    make(
        lab,
        &[pod("second", &spec(Some("single"), on(&["node-2"])))],
    )
    .await?;
    found(lab, session, "pod/second", &["D10"]).await
}

/// What a kubelet writes when a driver registers, or goes.
async fn drivers(lab: &Lab, drivers: &Value) -> Result<()> {
    let patch = json!({"spec": {"drivers": drivers}}).to_string();
    kubectl(
        lab,
        &format!("patch csinode node-3 --type=merge -p {patch}"),
    )
    .await?;
    Ok(())
}

/// D10: the driver is not on the pod's node.
async fn without_driver(lab: &Lab, session: &mut Session<'_>) -> Result<()> {
    drivers(lab, &json!([])).await?;
    bound(lab, "bare", ONCE).await?;
    make(lab, &[pod("bare", &spec(Some("bare"), on(&["node-3"])))]).await?;
    found(lab, session, "pod/bare", &["D10"]).await
}

/// D10: the node has as many volumes as it takes.
async fn limit(lab: &Lab, session: &mut Session<'_>) -> Result<()> {
    drivers(lab, &json!([{"name": DRIVER, "nodeID": "node-3", "topologyKeys": [], "allocatable": {"count": 1}}])).await?;
    lab.workloads.wait_running("bare", LIMIT).await?;
    bound(lab, "more", ONCE).await?;
    make(lab, &[pod("more", &spec(Some("more"), on(&["node-3"])))]).await?;
    found(lab, session, "pod/more", &["D10"]).await
}

/// Exit code 0, and nothing found: a pod, its claim and its node.
async fn healthy(lab: &Lab, session: &mut Session<'_>) -> Result<()> {
    bound(lab, "calm", ONCE).await?;
    make(lab, &[pod("calm", &spec(Some("calm"), on(&["node-3"])))]).await?;
    lab.workloads.wait_running("calm", LIMIT).await?;
    for subject in ["pod/calm", "pvc/calm", "node/node-3"] {
        let line = format!("diagnose {subject} -n work");
        let (code, said) = session.exits(&line).await?;
        let is_calm = said.contains("Nothing of D1 to D17");
        ensure!(code == 0 && is_calm, "{code}: {said}");
    }
    kubectl(lab, "delete pod calm -n work").await?;
    // Or it counts for the limit of the node.
    eventually("its volume is detached", LIMIT, async || {
        let attached = lab.control_plane.array().attached().await?;
        ensure!(!attached.contains_key("calm"), "{attached:?}");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_keeps_pods_from_their_volumes_on_nodes_that_are_well_is_told() -> Result<()> {
    let lab = Lab::start(Setup::new("diagnose-well", 3)).await?;
    let lab = &lab;
    let mut session = Session::new(
        lab,
        "node-1",
        "Every node is Ready, and pods wait for volumes",
    );
    let said = &mut session;
    healthy(lab, said).await?;
    lab.schedulable("node-2", false).await?;
    runs_on_one(lab, said, "web", "web-old").await?;
    runs_on_one(lab, said, "busy", "busy-old").await?;
    lab.schedulable("node-2", true).await?;
    rivals(lab, said).await?;
    lab.schedulable("node-1", false).await?;
    rollout(lab, said).await?;
    unmounting(lab, said).await?;
    orphan(lab, said).await?;
    for_one_pod(lab, said).await?;
    without_driver(lab, said).await?;
    limit(lab, said).await?;
    session.hold("diagnose/well")?;

    let (_, few) = asked(lab, "-A").await?;
    let in_few = ids(&few).join(" ");
    ensure!(in_few == "D4 D5 D6 D9 D10 D10", "{in_few}");
    many::fill(lab).await?;
    let in_many = many::measured(lab).await?;
    // Those that fill it are attached by a driver that attaches nothing, which is told once.
    let wanted = format!("{in_few} D13");
    ensure!(in_many == wanted, "among many pods it finds {in_many}");
    lab.rig(1).machine.ail(Ailment::default());
    lab.volumes_are_whole().await
}
