//! What drivers, kubelets and the scheduler say of a pod, in whatever words; and waits of which nothing is said.

use super::*;
use crate::diagnose::backends;

/// The words of each storage, and one that the list of all drivers does not have.
#[test]
fn every_backend_is_understood_when_it_says_that_a_volume_is_in_use() {
    let mut many = 0;
    for row in backends::rows() {
        for phrase in &row.in_use {
            for reason in ["FailedAttachVolume", "FailedMount"] {
                let driver = row.provisioners[0].replace('*', "x.");
                let words = format!(
                    "AttachVolume.Attach failed for volume \"pv-1\" : rpc error: code = Internal desc = {}",
                    phrase.says.to_uppercase()
                );
                let (found, _) = only(&pending(&driver, reason, &words));
                assert_eq!(found.id, Id::D9, "{driver}: {words}");
                many += 1;
            }
        }
    }
    assert!(many > 30, "{many}");
}

#[test]
fn diag_vsphere_in_use() {
    for error in [
        "The resource 'volume' is in use.",
        "Cause: (types.ResourceInUse) {}",
    ] {
        let words = format!(
            "AttachVolume.Attach failed for volume \"pv-1\" : rpc error: code = Internal desc = Failed to attach disk: \"vol-1\" with node: \"w2\" err {error}"
        );
        let (found, text) = only(&pending(
            "csi.vsphere.vmware.com",
            "FailedAttachVolume",
            &words,
        ));
        assert_eq!(found.id, Id::D9);
        says(
            &text,
            &[
                "attached elsewhere, and the cluster has no such VolumeAttachment",
                error,
            ],
        );
    }
}

#[test]
fn diag_piraeus_primary_elsewhere() {
    let words = "MountVolume.SetUp failed for volume \"pv-1\" : rpc error: code = Internal desc = NodePublishVolume failed for pv-1: failed to set source device readwrite: exit status 1";
    let mut world = pending("linstor.csi.linbit.com", "FailedMount", words);
    world.attachments = vec![attachment("csi-2", "worker-2", "linstor.csi.linbit.com")];
    let (found, text) = only(&world);
    assert_eq!(found.id, Id::D9);
    says(&text, &["resource list -r vol-1"]);
}

/// No one has seen these words: the reason of the event decides, and they are quoted.
#[test]
fn diag_driver_error_is_no_finding() {
    let attach = "AttachVolume.Attach failed for volume \"pv-1\" : rpc error: code = Internal desc = SvcError :: NoOnlineReplicas";
    let mount = "MountVolume.MountDevice failed for volume \"pv-1\" : rpc error: code = Aborted desc = an operation with the given Volume ID vol-1 already exists";
    for (reason, words, way) in [
        (
            "FailedAttachVolume",
            attach,
            "kubectl -n kube-system logs csi-0 -c csi-attacher",
        ),
        (
            "FailedMount",
            mount,
            "kubectl -n kube-system logs csi-0 --all-containers",
        ),
    ] {
        let mut world = pending("io.openebs.csi-mayastor", reason, words);
        let mut serving = pod("csi-0", "Running", Some("worker-2"));
        serving["metadata"]["namespace"] = json!("kube-system");
        serving["spec"] = json!({"nodeName": "worker-2", "containers": [{"name": "csi-attacher", "args": ["io.openebs.csi-mayastor"]}]});
        world.pods.push(serving);
        let (found, text) = only(&world);
        assert_eq!(found.id, Id::D17);
        says(&text, &[&format!("{reason}: {words}"), way, "no dead node"]);
        assert_eq!(text.contains("an earlier call"), reason == "FailedMount");
        // An hour later it is said no more, and is not over: that it is once the volume is mounted.
        let mut later = world.clone();
        later.events[0]["lastTimestamp"] = json!("2026-11-26T06:01:00Z");
        assert_eq!(later.ids(), [Id::D17], "{reason}");
        let mut mounted = later.clone();
        mounted.pods[0]["status"]["conditions"] =
            json!([{"type": "PodReadyToStartContainers", "status": "True"}]);
        assert!(mounted.ids().is_empty(), "{reason}");
        // Some seconds old, it waits, and scripts see that.
        old(&mut world.pods[0], "2026-11-26T06:59:50Z");
        let (code, found, text) = asked(&world, &Scope::Namespace("shop".to_owned()));
        assert_eq!((code, found.len()), (3, 0), "{text}");
        says(&text, &["10s old", words, "try again"]);
    }
}

#[test]
fn what_the_volumeattachment_says_counts_where_no_event_is_left() {
    let mut world = pending("csi.example.com", "FailedAttachVolume", "");
    world.events.clear();
    let mut own = attachment("csi-2", "worker-2", "csi.example.com");
    own["status"] =
        json!({"attached": false, "attachError": {"message": "rpc error: LUN 9 is offline"}});
    world.attachments = vec![own];
    let (found, text) = only(&world);
    assert_eq!(found.id, Id::D17);
    says(&text, &["LUN 9 is offline"]);
}

#[test]
fn what_the_scheduler_says_is_a_finding_whatever_it_is() {
    let words = "0/2 nodes are available: 2 Insufficient cpu.";
    let mut world = pending("csi.example.com", "FailedScheduling", words);
    world.pods[0]["spec"]["nodeName"] = Value::Null;
    let (found, text) = only(&world);
    assert_eq!(found.id, Id::D17);
    says(&text, &[words, "the scheduler finds no node"]);
}

/// A wait has an age, and after that it is a finding; `waits` carries it to programs.
#[test]
fn a_wait_that_lasts_becomes_a_finding() {
    let mut world = World::waiting("True", EXCLUSIVE);
    world.attachments.clear();
    world.nodes[0]["status"]["volumesAttached"] =
        json!([{"name": "kubernetes.io/csi/ebs.csi.aws.com^vol-1"}]);
    let scope = Scope::One(Kind::Pod, "shop".to_owned(), "db-new".to_owned());
    for (made, code, ids) in [
        ("2026-11-26T06:55:00Z", 3, &[][..]),
        ("2026-11-26T06:54:00Z", 2, &[Id::D17]),
    ] {
        old(&mut world.pods[0], made);
        let facts = world.facts();
        let diagnosis = diagnose(&facts, &scope).expect("a diagnosis");
        assert_eq!((diagnosis.code(), ids_of(&diagnosis)), (code, ids.to_vec()));
        let waits = diagnosis
            .waits
            .iter()
            .map(|it| (it.seconds, it.holder.as_deref()));
        let is = (code == 3).then_some((300, Some("worker-1")));
        assert_eq!(waits.collect::<Vec<_>>(), Vec::from_iter(is));
    }
    // It has its node for ten seconds only.
    world.pods[0]["status"]["conditions"] = json!([{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-26T06:59:50Z"}]);
    assert_eq!(asked(&world, &Scope::All).0, 3);
}

fn ids_of(diagnosis: &Diagnosis) -> Vec<Id> {
    diagnosis.findings.iter().map(|it| it.id).collect()
}
