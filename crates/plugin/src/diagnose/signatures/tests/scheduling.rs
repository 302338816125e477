//! D10.

use super::*;
use serde_json::json;

const ONE_POD: &str = "0/2 nodes are available: 2 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod. preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod.";
const LIMIT: &str = "0/2 nodes are available: 2 node(s) exceed max volume count.";

fn unscheduled(words: &str) -> World {
    let mut world = World::waiting("True", "");
    world.pods = vec![pod("db-new", "Pending", None)];
    world.events = vec![event("db-new", "FailedScheduling", words)];
    world
}

#[test]
fn d10_a_claim_for_one_pod_that_another_one_uses() {
    let mut world = unscheduled(ONE_POD);
    world.claims = vec![claim(&["ReadWriteOncePod"])];
    world.pods.push(pod("db-old", "Running", Some("worker-1")));
    let found = world.only();
    assert_eq!(found.id, Id::D10);
    assert!(seen(&found, "there is nothing to fence"), "{found:#?}");
    // Nobody has made it but a human, and a pod has no scale.
    assert!(
        commands(&found, "kubectl -n shop delete pod/db-old"),
        "{found:#?}"
    );
    world.pods[1]["metadata"]["ownerReferences"] = owned("StatefulSet", "db");
    assert!(commands(
        &world.only(),
        "kubectl -n shop scale statefulset/db --replicas=0"
    ));
    // Nobody uses it any more: the event is of the past.
    world.pods.pop();
    assert!(world.ids().is_empty());
}

#[test]
fn d10_a_claim_for_one_pod_in_the_words_of_kubernetes_before_1_34() {
    let mut world = unscheduled(
        "0/2 nodes are available: 2 node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode.",
    );
    world.claims = vec![claim(&["ReadWriteOncePod"])];
    world.pods.push(pod("db-old", "Running", Some("worker-1")));
    assert_eq!(world.only().id, Id::D10);
}

#[test]
fn d10_a_rollout_with_a_claim_for_one_pod_is_told_to_stop_the_old_one_first() {
    let mut world = World::rolling(json!({"type": "RollingUpdate"}));
    world.pods[0]["spec"]["nodeName"] = json!(null);
    world.claims = vec![claim(&["ReadWriteOncePod"])];
    world.events = vec![event("db-new", "FailedScheduling", ONE_POD)];
    let found = world.only();
    assert_eq!(found.id, Id::D10);
    assert!(commands(&found, r#""type":"Recreate""#), "{found:#?}");
}

#[test]
fn d10_nodes_that_take_no_volume_more() {
    let mut world = unscheduled(LIMIT);
    world.csi_nodes = vec![json!({
        "metadata": {"name": "worker-1"},
        "spec": {"drivers": [{"name": "ebs.csi.aws.com", "nodeID": "i-1", "allocatable": {"count": 1}}]},
    })];
    let found = world.only();
    assert_eq!(found.id, Id::D10);
    assert!(
        seen(&found, "full: worker-1 (1 of 1, ebs.csi.aws.com)"),
        "{found:#?}"
    );
    // It has found a node since.
    world.pods[0]["spec"]["nodeName"] = json!("worker-1");
    assert!(world.ids().is_empty());
}

/// As on a real control plane: the Event has the words of the first look, when the claim was not bound yet.
#[test]
fn d10_what_the_scheduler_says_last_is_in_the_condition_and_no_event() {
    let mut world =
        unscheduled("0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims.");
    assert!(world.ids().is_empty());
    let told = |words: &str| json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": words}]);
    world.pods[0]["status"]["conditions"] = told(LIMIT);
    assert_eq!(world.ids(), [Id::D10]);
    // And an Event of a limit that is none any more is of the past.
    world.events = vec![event("db-new", "FailedScheduling", LIMIT)];
    world.pods[0]["status"]["conditions"] = told("0/2 nodes are available: 2 Insufficient cpu.");
    assert!(world.ids().is_empty());
}

#[test]
fn d10_a_pod_that_its_kubelet_has_refused_for_its_volumes() {
    let mut world = World::waiting("True", "");
    world.events.clear();
    world.pods[0]["status"] = json!({"phase": "Failed", "reason": "VolumeAttachmentLimitExceeded"});
    assert_eq!(world.ids(), [Id::D10]);
    world.pods[0]["status"]["reason"] = json!("Evicted");
    assert!(world.ids().is_empty());
}

#[test]
fn d10_a_driver_that_is_not_on_the_node() {
    for (reason, words) in [
        (
            "FailedAttachVolume",
            "AttachVolume.Attach failed for volume \"pv-1\" : CSINode worker-2 does not contain driver ebs.csi.aws.com",
        ),
        (
            "FailedMount",
            "MountVolume.MountDevice failed for volume \"pv-1\" : kubernetes.io/csi: attacher.MountDevice failed to create newCsiDriverClient: driver name ebs.csi.aws.com not found in the list of registered CSI drivers",
        ),
    ] {
        let mut world = World::waiting("True", "");
        world.events = vec![event("db-new", reason, words)];
        world.attachments.clear();
        world.csi_nodes = vec![json!({"metadata": {"name": "worker-2"}, "spec": {"drivers": []}})];
        let found = world.only();
        assert_eq!(found.id, Id::D10);
        assert!(
            seen(&found, "node worker-2 has no CSI driver"),
            "{found:#?}"
        );
        world.pods[0]["status"]["phase"] = json!("Running");
        assert!(world.ids().is_empty());
    }
}

/// What the scheduler refuses for other reasons is none of this command's.
#[test]
fn not_d10_where_no_volume_is_in_the_way() {
    let world = unscheduled("0/2 nodes are available: 2 Insufficient cpu.");
    assert!(world.ids().is_empty());
}
