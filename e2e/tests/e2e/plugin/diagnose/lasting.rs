//! What is in order for a while and then is not: a pod that is Terminating, a volume that detaches, one that is attached (D11, D3, D16), on nodes that
//! are Ready; then the node of the driver's controller dies (D14), a local disk with it (D15), somebody sets out-of-service (D12), and at last the
//! driver attaches nothing any more (D13).

use anyhow::{Context, Result, ensure};
use e2e::control_plane::Component;
use e2e::csi::{DRIVER, Fault, Faults};
use e2e::lab::{LIMIT, Lab, Setup};
use e2e::machine::Ailment;
use e2e::workload::{is_ready, node_of, wait_node_ready};
use fencing_testbed::eventually::eventually;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::later::Later;
use super::{FOUND, answered, asked_with, ids};
use crate::plugin::scene::{
    bound, deployment, is_waiting, kubectl, make, on, spec, volume, wait_pod,
};
use crate::plugin::session::Session;

/// Exit code where a pod waits for what may be in order.
const WAITS: i32 = 3;
/// What the storage says.
const BUSY: &str = "LUN 7 is busy";
/// Workloads, each with a volume of its name, and where they run.
const MOVES: [(&str, &str); 4] = [
    ("hangs", "node-1"),
    ("refused", "node-2"),
    ("silent", "node-2"),
    ("kept", "node-4"),
];

/// What is found about the object, and that it says so. Which Events there are by then, and in which of two wordings, is a matter of moments, so
/// nothing is held against a file here.
async fn told(
    lab: &Lab,
    session: &mut Session<'_>,
    subject: &str,
    wanted: &[&str],
    words: &[&str],
) -> Result<()> {
    let answer = answered(lab, session, subject, wanted).await?;
    let findings = answer["findings"].to_string();
    let missing = words.iter().find(|it| !findings.contains(**it));
    ensure!(missing.is_none(), "no {missing:?} in {findings}");
    Ok(())
}

/// Each on its node, from where it may move to the third.
async fn workloads(lab: &Lab) -> Result<()> {
    lab.schedulable("node-3", false).await?;
    for (app, node) in MOVES {
        bound(lab, app, "ReadWriteOnce").await?;
        let spec = spec(Some(app), on(&[node, "node-3"]));
        make(lab, &[deployment(app, &spec)]).await?;
    }
    for (app, _) in MOVES {
        let name = wait_pod(lab, app, is_ready).await?;
        if app == "kept" {
            // Once a pod is being deleted, none may be added.
            let patch = "--type=merge -p {\"metadata\":{\"finalizers\":[\"example.com/backup\"]}}";
            kubectl(lab, &format!("patch pod {name} -n work {patch}")).await?;
        }
    }
    lab.schedulable("node-3", true).await?;
    lab.schedulable("node-1", false).await?;
    lab.schedulable("node-2", false).await
}

/// Deletes the pod of this app; the next one waits on the third node for its volume.
async fn moved(lab: &Lab, app: &str) -> Result<String> {
    kubectl(
        lab,
        &format!("delete pod -n work -l app={app} --wait=false"),
    )
    .await?;
    wait_pod(lab, app, is_waiting).await
}

/// D11: the kubelet answers and cannot unmount. For some minutes that may be in order: it is told as a wait, to scripts, too.
async fn terminating(lab: &Lab, session: &mut Session<'_>, later: &Later) -> Result<()> {
    lab.rig(1).machine.ail(Ailment {
        unmount_hung: true,
        ..Ailment::default()
    });
    let pod = moved(lab, "hangs").await?;
    later.minutes(3);
    eventually("it waits", LIMIT, async || {
        let (code, answer) = asked_with(lab, "pvc/hangs -n work", session.flags()).await?;
        ensure!(
            code == WAITS && ids(&answer).is_empty(),
            "{code}: {answer:#}"
        );
        let wait = &answer["waits"][0];
        let seconds = wait["seconds"].as_i64().unwrap_or_default();
        ensure!(
            wait["pod"] == format!("work/{pod}") && wait["holder"] == "node-1",
            "{wait:#}"
        );
        ensure!((180..360).contains(&seconds), "{wait:#}");
        Ok(())
    })
    .await?;
    later.minutes(185);
    let words = [
        "has been Terminating for 3h",
        "it keeps: hangs",
        "nothing to fence",
    ];
    told(lab, session, "pvc/hangs", &["D11"], &words).await
}

/// What external-attacher has written of the volume's detach; none: nobody has asked for that, or it has not come to an end.
async fn detach_error(lab: &Lab, volume: &str) -> Result<Option<String>> {
    let all = kubectl(lab, "get volumeattachments -o json").await?;
    let all: Value = serde_json::from_str(&all)?;
    let mut of_volume = all["items"].as_array().into_iter().flatten();
    let going = of_volume.find(|it| {
        let is_going = it["metadata"]["deletionTimestamp"].is_string();
        is_going && it["spec"]["source"]["persistentVolumeName"] == volume
    });
    let going = going.with_context(|| format!("no VolumeAttachment of {volume} is to go"))?;
    let message = going["status"]["detachError"]["message"].as_str();
    Ok(message.map(str::to_owned))
}

/// D3: a VolumeAttachment of a Ready node is to go, and its driver refuses, or nothing answers.
async fn undetached(lab: &Lab, session: &mut Session<'_>, later: &Later) -> Result<()> {
    let faults = Faults {
        detach: Fault::failure(BUSY).of_volume("refused"),
        ..Faults::default()
    };
    lab.control_plane.array().set_faults(&faults).await?;
    moved(lab, "refused").await?;
    eventually("the array refuses", LIMIT, async || {
        let error = detach_error(lab, "refused").await?;
        ensure!(error.is_some_and(|it| it.contains(BUSY)), "no such error");
        Ok(())
    })
    .await?;
    later.minutes(55);
    let words = ["node-2, which is Ready,", BUSY, "pod", "nothing to fence"];
    told(lab, session, "pvc/refused", &["D3"], &words).await?;

    lab.control_plane.stop_component(Component::CsiAttacher)?;
    moved(lab, "silent").await?;
    eventually("it is to go", LIMIT, async || {
        let error = detach_error(lab, "silent").await?;
        ensure!(error.is_none(), "{error:?}");
        Ok(())
    })
    .await?;
    let words = ["without an error of"];
    told(lab, session, "pvc/silent", &["D3"], &words).await
}

/// D16: attached by somebody's hand, and no pod there uses it.
async fn unused(lab: &Lab, session: &mut Session<'_>, later: &Later) -> Result<()> {
    bound(lab, "idle", "ReadWriteOnce").await?;
    let asked = json!({"attacher": DRIVER, "nodeName": "node-1", "source": {"persistentVolumeName": "idle"}});
    let by_hand = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
        "metadata": {"name": "by-hand"}, "spec": asked,
    });
    make(lab, &[by_hand]).await?;
    let attached = "wait volumeattachment/by-hand --for=jsonpath={.status.attached}=true";
    kubectl(lab, attached).await?;
    later.minutes(125);
    let words = [
        "old, attached, and not being deleted",
        "no pod on node node-1 uses volume idle",
    ];
    told(lab, session, "pvc/idle", &["D16"], &words).await?;
    // Once a pod waits for it, it is one after some minutes.
    let wants = deployment("wants", &spec(Some("idle"), on(&["node-3"])));
    make(lab, &[wants]).await?;
    let name = wait_pod(lab, "wants", is_waiting).await?;
    later.minutes(7);
    let words = [name.as_str(), "waits for it for "];
    told(lab, session, &format!("pod/{name}"), &["D16"], &words).await
}

/// The controller of the driver as it is mostly installed: beside its external-attacher, on one node.
async fn controller(lab: &Lab) -> Result<()> {
    let mut spec = spec(None, on(&["node-4"]));
    spec["containers"] = json!([{
        "name": "csi-attacher", "image": "lab", "args": [format!("--driver={DRIVER}")],
    }]);
    make(lab, &[deployment("controller", &spec)]).await?;
    wait_pod(lab, "controller", is_ready).await.map(drop)
}

/// D14 and D15: the node of the controller dies, and with it a disk of its own. No policy selects it (D1).
async fn dead(lab: &Lab, session: &mut Session<'_>, later: &Later) -> Result<()> {
    lab.rig_of("node-4")?.machine.set_power(false);
    wait_node_ready(lab.control_plane.admin(), "node-4", "Unknown", LIMIT).await?;
    later.minutes(7);
    let words = ["no running pod attaches or detaches", "work/controller-"];
    told(lab, session, "node/node-4", &["D1", "D14"], &words).await?;

    let rule = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-4"]});
    let disk = json!({
        "local": {"path": "/disk"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}},
    });
    make(lab, &volume("disk", "ReadWriteOnce", disk)).await?;
    let bound = "wait -n work pvc/disk --for=jsonpath={.status.phase}=Bound";
    kubectl(lab, bound).await?;
    let tied = spec(Some("disk"), json!({}));
    make(lab, &[deployment("tied", &tied)]).await?;
    let name = wait_pod(lab, "tied", is_waiting).await?;
    let refused =
        format!("wait -n work pod/{name} --for=condition=PodScheduled=false --timeout=60s");
    kubectl(lab, &refused).await?;
    let words = ["nodes that are not Ready", "the data is on the disks"];
    told(lab, session, &format!("pod/{name}"), &["D15"], &words).await
}

/// D12, and D11 for a pod whose finalizer keeps it there: pod GC has ended it, and somebody's controller is to let it go.
async fn by_human(lab: &Lab, session: &mut Session<'_>, later: &Later) -> Result<()> {
    let is_there = |pod: &Pod| node_of(pod) == "node-4";
    let old = wait_pod(lab, "kept", is_there).await?;
    moved(lab, "kept").await?;
    let taint = "taint node node-4 node.kubernetes.io/out-of-service=nodeshutdown:NoExecute";
    kubectl(lab, taint).await?;
    later.minutes(0);
    let words = ["no NodeFence is open for it", "kept-"];
    told(lab, session, "node/node-4", &["D12", "D15"], &words).await?;
    later.minutes(185);
    // Of its volume, which the attacher that is gone does not detach, D3 tells.
    let words = ["finalizer example.com/backup keeps it", "have ended"];
    told(lab, session, &format!("pod/{old}"), &["D3", "D11"], &words).await?;
    let free = "--type=merge -p {\"metadata\":{\"finalizers\":null}}";
    kubectl(lab, &format!("patch pod {old} -n work {free}")).await?;
    Ok(())
}

/// D13: the CSIDriver is made again, as one that attaches nothing.
async fn unattaching(lab: &Lab, session: &mut Session<'_>) -> Result<()> {
    kubectl(lab, &format!("delete csidriver {DRIVER}")).await?;
    let driver = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver",
        "metadata": {"name": DRIVER}, "spec": {"attachRequired": false},
    });
    make(lab, &[driver]).await?;
    let words = ["by-hand", "attachRequired false"];
    told(lab, session, "pvc/idle", &["D13"], &words).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_lasts_longer_than_it_should_becomes_a_finding() -> Result<()> {
    let lab = Lab::start(Setup::new("diagnose-lasting", 4)).await?;
    let lab = &lab;
    let later = &Later::start(lab).await?;
    let title = "Volumes stay where they are, minutes and hours long";
    let mut session = Session::new(lab, "node-1", title).with(&later.flags);
    let said = &mut session;
    // The way out of D1 is a label; by it this policy governs the node, which only looks.
    let looks = json!({"nodeSelector": {"matchLabels": {"lab/policy": "looks"}}});
    lab.policy_named("looks", "Observe", looks).await?;
    workloads(lab).await?;
    terminating(lab, said, later).await?;
    unused(lab, said, later).await?;
    undetached(lab, said, later).await?;
    controller(lab).await?;
    dead(lab, said, later).await?;
    by_human(lab, said, later).await?;
    unattaching(lab, said).await?;
    let (code, _) = asked_with(lab, "-A", &later.flags).await?;
    ensure!(code == FOUND, "exit code {code}");
    lab.rig(1).machine.ail(Ailment::default());
    lab.volumes_are_whole().await
}
