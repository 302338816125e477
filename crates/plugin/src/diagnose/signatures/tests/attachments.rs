//! D3, D6, D7 and D9.

use super::*;
use serde_json::{Value, json};

/// Its attacher, by the name of its container and the driver in its arguments.
fn controller(name: &str, node: &str, driver: &str) -> Value {
    let mut pod = pod(name, "Running", Some(node));
    pod["metadata"]["namespace"] = json!("kube-system");
    pod["spec"]["volumes"] = json!([]);
    pod["spec"]["containers"] = json!([
        {"name": "csi-attacher", "image": "registry.k8s.io/sig-storage/csi-attacher:v4.12.0"},
        {"name": "driver", "image": "driver", "args": [format!("--driver-name={driver}")]},
    ]);
    pod
}

fn refused() -> World {
    let mut world = World::waiting("Unknown", EXCLUSIVE);
    taint(&mut world.nodes[0], "node.kubernetes.io/out-of-service");
    world.attachments[0]["metadata"]["deletionTimestamp"] = json!("2026-11-26T06:58:00Z");
    world.attachments[0]["status"]["detachError"] =
        json!({"message": "rpc error: the backend is away"});
    world
}

#[test]
fn d3_a_fenced_nodes_volume_that_its_driver_does_not_detach() {
    let mut world = refused();
    world
        .pods
        .push(controller("ebs-0", "worker-1", "ebs.csi.aws.com"));
    world
        .pods
        .push(controller("other-0", "worker-2", "csi.hpe.com"));
    // That its attacher is on the dead node is told on its own, too.
    assert_eq!(world.ids(), [Id::D3, Id::D14]);
    let found = world.found().remove(0);
    assert!(
        seen(
            &found,
            "ebs.csi.aws.com reports: rpc error: the backend is away"
        ),
        "{found:#?}"
    );
    assert!(
        seen(
            &found,
            "kube-system/ebs-0 is not ready and is on node worker-1, which is not Ready itself"
        ),
        "{found:#?}"
    );
    assert!(!seen(&found, "other-0"), "{found:#?}");
    assert!(
        commands(&found, "kubectl -n kube-system logs ebs-0 -c csi-attacher"),
        "{found:#?}"
    );
}

#[test]
fn d3_without_a_pod_that_detaches_says_where_else_it_may_be() {
    let found = refused().only();
    assert!(seen(&found, "outside of the cluster"), "{found:#?}");
}

#[test]
fn not_d3_while_the_node_is_not_fenced_or_nothing_was_refused() {
    let mut world = refused();
    world.nodes[0]["spec"] = json!({});
    assert_eq!(world.ids(), [Id::D1]);
    let mut world = refused();
    world.attachments[0]["status"] = json!({"attached": true});
    assert_eq!(world.ids(), [Id::D12], "it is under way");
}

/// A mark is somebody's word. Who then takes the volume at the storage may take it from a machine that writes.
#[test]
fn d3_says_that_the_machine_is_down_by_a_proof_that_stands_and_by_nothing_else() {
    let detaching = || condition("Succeeded", "Unknown", "Detaching", "1 volume is left");
    let of = |fences: Vec<Value>, change: fn(&mut Value)| {
        let mut world = refused();
        world.fences = fences;
        change(&mut world.nodes[0]);
        world.only()
    };
    let proof = |confirmed: &str| proven(fence("worker-1", "PowerOff", detaching()), confirmed);
    let found = of(vec![proof("True")], |_| ());
    assert!(
        found
            .cause
            .contains("NodeFence worker-1-fence confirmed its machine off"),
        "{found:#?}"
    );
    assert!(!commands(&found, "kubectl fence test"), "{found:#?}");
    // Devices have contradicted each other on the way to it.
    let mut doubtful = proof("True");
    doubtful["status"]["contradictions"] = json!(["off, and it renewed its Lease"]);
    let found = of(vec![doubtful], |_| ());
    assert!(seen(&found, "Contradiction: off, and"), "{found:#?}");
    assert!(commands(&found, "kubectl fence test"), "{found:#?}");
    let booted: fn(&mut Value) = |it| it["status"]["nodeInfo"]["bootID"] = json!("boot-2");
    let speaks: fn(&mut Value) = |it| it["status"]["conditions"][0]["status"] = json!("False");
    let is: fn(&mut Value) = |_| ();
    for (fences, change) in [
        (vec![], is),
        (vec![fence("worker-1", "PowerOff", detaching())], is),
        (vec![proof("False")], is),
        (vec![proof("Unknown")], is),
        (vec![proof("True")], booted),
        (vec![proof("True")], speaks),
    ] {
        let found = of(fences, change);
        assert!(found.cause.contains("no valid proof"), "{found:#?}");
        let is_told = found.cause.contains("so its machine runs");
        assert_eq!(is_told, std::ptr::fn_addr_eq(change, speaks), "{found:#?}");
        let first = found.fix.first().map(|it| it.command.as_str());
        assert_eq!(first, Some("kubectl fence test worker-1"), "{found:#?}");
    }
}

#[test]
fn d3_without_the_operator_asks_nobody_who_is_not_there() {
    let mut facts = refused().facts();
    facts.policies.unknown = Some(
        "the cluster has no API group `nodefencing.io`: the operator is not installed".to_owned(),
    );
    let found = crate::diagnose::signatures::findings(&facts);
    assert_eq!(found[0].id, Id::D3);
    let first = &found[0].fix[0];
    assert!(first.why.contains("the machine is off"), "{first:?}");
    assert!(!commands(&found[0], "kubectl fence"), "{found:#?}");
}

/// The refusal is the cause, and the incident that waits for it is not told beside it.
#[test]
fn d3_stands_for_the_d2_that_waits_for_it() {
    let mut world = refused();
    let detaching = condition("Succeeded", "Unknown", "Detaching", "1 volume is left");
    world.fences = vec![fence("worker-1", "PowerOff", detaching)];
    assert_eq!(world.ids(), [Id::D3]);
}

fn mounted() -> World {
    let mut world = World::waiting("True", EXCLUSIVE);
    world.nodes[0]["status"]["volumesInUse"] = json!(["kubernetes.io/csi/ebs.csi.aws.com^vol-1"]);
    world
}

#[test]
fn d6_a_kubelet_that_keeps_what_no_pod_uses() {
    let found = mounted().only();
    assert_eq!(found.id, Id::D6);
    assert!(seen(&found, "status.volumesInUse"), "{found:#?}");
    assert!(
        commands(&found, "/api/v1/nodes/worker-1/proxy/logs/"),
        "{found:#?}"
    );
}

#[test]
fn not_d6_once_it_is_unmounted_nor_where_not_all_pods_can_be_seen() {
    let mut world = mounted();
    world.nodes[0]["status"]["volumesInUse"] = json!([]);
    assert!(world.ids().is_empty());
    let mut facts = mounted().facts();
    facts.pods.unknown = Some("only those of namespace shop".to_owned());
    assert!(crate::diagnose::signatures::findings(&facts).is_empty());
}

#[test]
fn not_d6_but_d1_where_the_kubelet_is_silent() {
    let mut world = mounted();
    let in_use = world.nodes[0]["status"]["volumesInUse"].clone();
    world.nodes[0] = node("worker-1", "Unknown");
    world.nodes[0]["status"]["volumesInUse"] = in_use;
    assert_eq!(world.ids(), [Id::D1]);
}

#[test]
fn d7_a_volumeattachment_of_a_node_that_is_no_more() {
    let mut world = World::waiting("True", EXCLUSIVE);
    world.pods.clear();
    world.nodes.remove(0);
    let found = world.only();
    assert_eq!(found.id, Id::D7);
    assert!(
        commands(&found, "kubectl delete volumeattachment csi-1"),
        "{found:#?}"
    );
    assert!(
        found
            .fix
            .iter()
            .any(|it| it.command.contains("delete") && it.why.contains("the machine is off"))
    );
    // An incident that is open sees to it.
    let open = condition("Succeeded", "Unknown", "Verifying", "reads the power");
    world.fences = vec![fence("worker-1", "PowerOff", open)];
    let found = world.only();
    assert!(!commands(&found, "kubectl delete"), "{found:#?}");
    assert!(
        commands(&found, "kubectl fence status worker-1-fence"),
        "{found:#?}"
    );
    // How the last one has ended, which says nothing of the machine by now.
    let still_on = condition("Succeeded", "False", "StillOn", "the BMC reads On");
    world.fences = vec![fence("worker-1", "PowerOff", still_on)];
    let found = world.only();
    assert!(
        seen(&found, "has ended StillOn: the BMC reads On"),
        "{found:#?}"
    );
    let mut facts = world.facts();
    facts.fences = crate::diagnose::facts::Listed {
        unknown: Some("forbidden".to_owned()),
        ..Default::default()
    };
    let found = crate::diagnose::signatures::findings(&facts);
    let told = "whether an incident of it is open is not known: forbidden";
    assert!(seen(&found[0], told), "{found:#?}");
    world.fences.clear();
    // Somebody has deleted it, and its driver refuses: to delete it once more does nothing.
    world.attachments[0]["metadata"]["deletionTimestamp"] = json!("2026-11-26T06:58:00Z");
    world.attachments[0]["status"]["detachError"] = json!({"message": "rpc error: away"});
    let found = world.only();
    assert!(!commands(&found, "kubectl delete"), "{found:#?}");
    assert!(
        commands(&found, "kubectl get volumeattachment csi-1 -o yaml"),
        "{found:#?}"
    );
}

#[test]
fn not_d7_while_the_node_is_there_or_nodes_cannot_be_listed() {
    let mut world = World::waiting("Unknown", EXCLUSIVE);
    world.pods.clear();
    assert_eq!(world.ids(), [Id::D1]);
    let mut facts = world.facts();
    facts.nodes.items.clear();
    facts.nodes.unknown = Some("forbidden".to_owned());
    assert!(crate::diagnose::signatures::findings(&facts).is_empty());
}

/// As Longhorn says it (`csi/controller_server.go`).
const ELSEWHERE: &str = "AttachVolume.Attach failed for volume \"pv-1\" : rpc error: code = FailedPrecondition desc = volume pv-1 cannot be attached to node worker-2 is already attached to node worker-1";

fn orphan() -> World {
    let mut world = World::waiting("True", ELSEWHERE);
    world.attachments.clear();
    world
}

#[test]
fn d9_the_storage_has_an_attachment_that_the_cluster_does_not_know() {
    let mut world = orphan();
    world.volumes = vec![volume("driver.longhorn.io", &["ReadWriteOnce"])];
    let found = world.only();
    assert_eq!(found.id, Id::D9);
    assert!(
        seen(&found, "already attached to node worker-1"),
        "{found:#?}"
    );
    assert!(
        commands(&found, "get volumes.longhorn.io vol-1"),
        "{found:#?}"
    );
}

#[test]
fn d9_of_a_storage_that_nobody_has_told_of_still_has_a_way_out() {
    let mut world = orphan();
    world.volumes = vec![volume("csi.example.com", &["ReadWriteOnce"])];
    let found = world.only();
    assert!(
        found.fix.iter().any(|it| it.why.contains("no command of")),
        "{found:#?}"
    );
}

/// RBD says so when it mounts.
#[test]
fn d9_by_the_words_of_a_mount() {
    let mut world = orphan();
    let words = "MountVolume.MountDevice failed for volume \"pv-1\" : rpc error: code = Internal desc = rbd image replicapool/csi-vol-1 is still being used";
    world.events = vec![event("db-new", "FailedMount", words)];
    world.attachments = vec![attachment(
        "csi-2",
        "worker-2",
        "rook-ceph.rbd.csi.ceph.com",
    )];
    world.volumes = vec![volume("rook-ceph.rbd.csi.ceph.com", &["ReadWriteOnce"])];
    let found = world.only();
    assert_eq!(found.id, Id::D9);
    assert!(commands(&found, "rbd status"), "{found:#?}");
}

#[test]
fn not_d9_where_a_volumeattachment_says_who_has_it_or_the_error_is_another() {
    let mut world = orphan();
    world.attachments = vec![attachment("csi-1", "worker-1", "ebs.csi.aws.com")];
    assert!(world.ids().is_empty());
    let mut world = orphan();
    let words = "AttachVolume.Attach failed for volume \"pv-1\" : rpc error: code = NotFound desc = no such volume";
    world.events = vec![event("db-new", "FailedAttachVolume", words)];
    assert!(world.ids().is_empty());
}
