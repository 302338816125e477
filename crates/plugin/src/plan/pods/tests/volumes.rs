//! Pods with volumes: what they take along, what stays, and what keeps them waiting.

use super::*;

fn only_on(key: &str, value: &str) -> Value {
    let term = json!({"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]});
    json!({"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}})
}

#[test]
fn a_pod_of_a_stateful_set_takes_its_volume_along() {
    let world = World::with_volume(json!({}));
    let plan = world.one(&with_claim("StatefulSet"));
    assert_eq!(
        (plan.outcome, plan.reason),
        (Outcome::Recovers, Reason::Free)
    );
    let volume = plan.volumes.first().expect("a volume");
    assert_eq!(volume.fate, Fate::Moves);
    assert_eq!(volume.source, "csi.example.com");
    assert!(plan.has_moving_volumes());
    assert!(plan.notes.is_empty(), "{:?}", plan.notes);
    // Two of them on one node do not start together.
    let plans = world.judge(&[with_claim("StatefulSet"), with_claim("StatefulSet")]);
    assert!(
        plans
            .iter()
            .all(|it| it.notes.join(" ").contains("Parallel"))
    );
}

/// A rollout hangs on such a volume, a failover does not: people take the one for the other.
#[test]
fn a_deployment_that_rolls_over_recovers_with_its_volume_and_is_told_of_its_strategy() {
    let mut world = World::with_volume(json!({}));
    world.rolling.insert(("shop".to_owned(), "web".to_owned()));
    let plan = world.one(&with_claim("ReplicaSet"));
    assert_eq!(plan.outcome, Outcome::Recovers);
    let notes = plan.notes.join(" ");
    assert!(
        notes.contains("Recreate") && notes.contains("Deployment web"),
        "{notes}"
    );
    world.rolling.clear();
    assert!(world.one(&with_claim("ReplicaSet")).notes.is_empty());
}

#[test]
fn a_volume_for_many_is_mounted_at_once() {
    for extra in [
        json!({"accessModes": ["ReadWriteMany"]}),
        json!({"csi": null, "nfs": {"path": "/", "server": "s"}}),
    ] {
        let plan = World::with_volume(extra).one(&with_claim("StatefulSet"));
        assert_eq!(plan.outcome, Outcome::Recovers);
        assert_eq!(plan.volumes.first().map(|it| it.fate), Some(Fate::Shared));
    }
    let mut world = World::with_volume(json!({}));
    world
        .storage
        .unattached
        .insert("csi.example.com".to_owned());
    let plan = world.one(&with_claim("StatefulSet"));
    assert_eq!(plan.volumes.first().map(|it| it.fate), Some(Fate::Shared));
}

#[test]
fn a_local_volume_keeps_its_pod_waiting_for_the_machine() {
    let affinity = only_on("kubernetes.io/hostname", DEAD);
    let mut local = json!({"csi": null, "local": {"path": "/mnt"}});
    json_patch::merge(&mut local, &affinity);
    let waits = (Outcome::Waits, Reason::LocalVolume);
    assert_eq!(
        World::with_volume(local).says(&with_claim("StatefulSet")),
        waits
    );
    // A CSI driver of local disks says so by the same label.
    assert_eq!(
        World::with_volume(affinity).says(&with_claim("StatefulSet")),
        waits
    );
}

#[test]
fn a_volume_of_a_zone_without_another_node_keeps_its_pod_waiting() {
    let affinity = only_on("topology.kubernetes.io/zone", "a");
    let mut world = World::with_volume(affinity);
    assert_eq!(
        world.says(&with_claim("StatefulSet")),
        (Outcome::Recovers, Reason::Free)
    );
    world.nodes.remove(1);
    world.free.remove(1);
    let plan = world.one(&with_claim("StatefulSet"));
    assert_eq!(
        (plan.outcome, plan.reason),
        (Outcome::Waits, Reason::VolumeOutOfReach)
    );
    assert!(plan.message.contains("zone a"), "{}", plan.message);
}

/// The zone has another node, which cannot take pods now.
#[test]
fn a_zone_whose_other_node_is_cordoned_is_no_help() {
    let mut world = World::with_volume(only_on("topology.kubernetes.io/zone", "a"));
    world.nodes[1].unschedulable = true;
    let waits = (Outcome::Waits, Reason::VolumeOutOfReach);
    assert_eq!(world.says(&with_claim("StatefulSet")), waits);
}

#[test]
fn what_is_written_to_a_host_path_stays_behind() {
    let volume = json!({"name": "data", "hostPath": {"path": "/srv"}});
    let with = |read_only: bool| {
        let mount = json!({"name": "data", "mountPath": "/srv", "readOnly": read_only});
        let containers = json!([{"name": "web", "volumeMounts": [mount]}]);
        pod(
            "ReplicaSet",
            json!({"spec": {"volumes": [volume], "containers": containers}}),
        )
    };
    let world = World::new();
    assert_eq!(
        world.says(&with(false)),
        (Outcome::WithoutData, Reason::HostPath)
    );
    assert_eq!(world.says(&with(true)), (Outcome::Recovers, Reason::Free));
}

#[test]
fn an_empty_dir_is_lost_and_the_pod_recovers() {
    let volume = json!({"name": "cache", "emptyDir": {}});
    let plan = World::new().one(&pod("ReplicaSet", json!({"spec": {"volumes": [volume]}})));
    assert_eq!(plan.outcome, Outcome::Recovers);
    assert_eq!(plan.volumes.first().map(|it| it.fate), Some(Fate::Lost));
    assert!(
        plan.notes.iter().any(|it| it.contains("lost")),
        "{:?}",
        plan.notes
    );
}

#[test]
fn a_claim_without_a_volume_keeps_its_pod_waiting() {
    let waits = (Outcome::Waits, Reason::VolumeOutOfReach);
    assert_eq!(World::new().says(&with_claim("StatefulSet")), waits);
}
