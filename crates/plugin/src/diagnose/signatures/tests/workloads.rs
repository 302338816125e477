//! D4 and D5.

use super::*;
use serde_json::json;

#[test]
fn d4_a_rollout_that_starts_the_new_pod_first() {
    let found =
        World::rolling(json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}}))
            .only();
    assert_eq!(found.id, Id::D4);
    assert!(seen(&found, "there is nothing to fence"), "{found:#?}");
    assert!(
        commands(&found, r#""type":"Recreate","rollingUpdate":null"#),
        "{found:#?}"
    );
    assert!(commands(&found, r#""maxSurge":0"#), "{found:#?}");
    // The API server's own default.
    assert_eq!(World::rolling(json!(null)).ids(), [Id::D4]);
}

/// It goes by itself once the old pod has stopped.
#[test]
fn not_d4_where_the_old_pod_stops_first() {
    for strategy in [
        json!({"type": "Recreate"}),
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}),
    ] {
        let mut world = World::rolling(strategy);
        deleting(&mut world.pods[1]);
        assert!(world.ids().is_empty());
    }
}

/// The same words of attach/detach, and a dead node.
#[test]
fn not_d4_but_d1_where_the_holder_is_silent() {
    let mut world = World::rolling(json!({"type": "RollingUpdate"}));
    world.nodes[0] = node("worker-1", "Unknown");
    assert_eq!(world.ids(), [Id::D1]);
}

#[test]
fn d5_two_workloads_that_want_one_volume() {
    let mut world = World::rolling(json!({"type": "RollingUpdate"}));
    world.pods[1]["metadata"]["ownerReferences"] = owned("StatefulSet", "old");
    world.classes = vec![
        json!({"metadata": {"name": "shared"}, "provisioner": "rook-ceph.cephfs.csi.ceph.com"}),
        json!({"metadata": {"name": "fast"}, "provisioner": "ebs.csi.aws.com"}),
    ];
    let found = world.only();
    assert_eq!(found.id, Id::D5);
    assert!(
        found.title.contains("deployment/db and statefulset/old"),
        "{found:#?}"
    );
    let shared = found
        .fix
        .iter()
        .find(|it| it.why.contains("backend matrix"));
    assert!(
        shared.is_some_and(|it| it.why.ends_with(": shared")),
        "{found:#?}"
    );
}

#[test]
fn d5_replicas_of_one_revision() {
    let mut world = World::rolling(json!({"type": "RollingUpdate"}));
    world.pods[1]["metadata"]["ownerReferences"] = owned("ReplicaSet", "db-2");
    let found = world.only();
    assert_eq!(found.id, Id::D5);
    assert!(
        found.title.contains("replicas of deployment/db"),
        "{found:#?}"
    );
    assert!(
        commands(&found, "scale deployment/db --replicas=1"),
        "{found:#?}"
    );
}

#[test]
fn not_d5_once_one_of_them_is_about_to_go() {
    let mut world = World::rolling(json!({"type": "RollingUpdate"}));
    world.pods[1]["metadata"]["ownerReferences"] = owned("StatefulSet", "old");
    deleting(&mut world.pods[1]);
    assert!(world.ids().is_empty());
}

#[test]
fn neither_once_the_volume_is_attached_where_the_pod_is() {
    let mut world = World::rolling(json!({"type": "RollingUpdate"}));
    world
        .attachments
        .push(attachment("csi-2", "worker-2", "ebs.csi.aws.com"));
    assert!(world.ids().is_empty());
}
