//! What people have reported, each cut down to the objects that count.

use super::finding::{Finding, Id};
use super::*;
use serde_json::{Value, json};

mod errors;

/// What diagnose says, as text and to programs, with its exit code.
fn asked(world: &World, scope: &Scope) -> (u8, Vec<Finding>, String) {
    let facts = world.facts();
    let diagnosis = diagnose(&facts, scope).expect("a diagnosis");
    let text = told(&diagnosis, scope, facts.now);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let value = serialized(Form::Json, &diagnosis).expect("JSON");
    let value: Value = serde_json::from_str(&value).expect("JSON");
    let ids: Vec<String> = value["findings"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|it| it["id"].as_str().unwrap_or_default().to_owned())
        .collect();
    let found: Vec<String> = diagnosis
        .findings
        .iter()
        .map(|it| format!("{:?}", it.id))
        .collect();
    assert_eq!(ids, found, "JSON carries the same as the text");
    (diagnosis.code(), diagnosis.findings, text)
}

/// The one finding of the namespace.
fn only(world: &World) -> (Finding, String) {
    let (code, mut found, text) = asked(world, &Scope::Namespace("shop".to_owned()));
    assert_eq!((code, found.len()), (2, 1), "{text}");
    (found.remove(0), text)
}

fn says(text: &str, words: &[&str]) {
    for it in words {
        assert!(text.contains(it), "no {it:?} in\n{text}");
    }
}

fn old(object: &mut Value, made: &str) {
    object["metadata"]["creationTimestamp"] = json!(made);
}

/// Pod `db-new` waits on worker-2 since 06:00 for volume pv-1 of this driver, which nothing has.
fn pending(driver: &str, reason: &str, words: &str) -> World {
    let mut world = World::waiting("True", "");
    world.volumes = vec![volume(driver, &["ReadWriteOnce"])];
    world.attachments.clear();
    world.events = vec![event("db-new", reason, words)];
    old(&mut world.pods[0], "2026-11-26T06:00:00Z");
    world
}

/// A VolumeAttachment of this node that was deleted at 06:05.
fn going(node: &str, driver: &str, error: Option<&str>) -> Value {
    let mut going = attachment("csi-1", node, driver);
    going["metadata"]["deletionTimestamp"] = json!("2026-11-26T06:05:00Z");
    going["status"]["detachError"] = json!(error.map(|it| json!({"message": it})));
    going
}

#[test]
fn diag_attachment_being_deleted_own_node() {
    let words =
        "MountVolume.WaitForAttach failed for volume \"pv-1\" : volume attachment is being deleted";
    let mut world = pending("csi.san.synology.com", "FailedMount", words);
    let error = "rpc error: code = DeadlineExceeded desc = context deadline exceeded";
    world.attachments = vec![going("worker-2", "csi.san.synology.com", Some(error))];
    let (found, text) = only(&world);
    assert_eq!(found.id, Id::D3);
    says(
        &text,
        &[
            "node worker-2, which is Ready",
            "being deleted for 55m",
            error,
            "pod shop/db-new",
        ],
    );
    // Nothing is refused, and it does not end either.
    world.attachments = vec![going("worker-2", "csi.san.synology.com", None)];
    says(
        &only(&world).1,
        &["csi.san.synology.com does not answer", "without an error"],
    );
    // A minute after it was deleted that is in order, and the pod tells of its event alone.
    world.attachments[0]["metadata"]["deletionTimestamp"] = json!("2026-11-26T06:59:00Z");
    assert_eq!(only(&world).0.id, Id::D17);
}

#[test]
fn diag_detach_error_ready_node() {
    let driver = "named-disk.csi.cloud-director.vmware.com";
    let mut world = pending(driver, "FailedAttachVolume", EXCLUSIVE);
    let error = "rpc error: code = Internal desc = disk is attached to a different VM";
    world.attachments = vec![going("worker-1", driver, Some(error))];
    let (found, text) = only(&world);
    assert_eq!(found.id, Id::D3);
    says(
        &text,
        &[
            "being deleted for 55m",
            error,
            "never # remove its finalizer",
            "nothing to fence",
        ],
    );
    assert!(!text.contains("kubectl fence test"), "{text}");
}

fn terminating() -> World {
    let mut world = World::waiting("True", USED);
    world.pods.push(pod("db-old", "Running", Some("worker-1")));
    old(&mut world.pods[0], "2026-11-26T04:00:00Z");
    world.pods[1]["metadata"]["deletionTimestamp"] = json!("2026-11-26T04:00:00Z");
    world.pods[1]["metadata"]["deletionGracePeriodSeconds"] = json!(30);
    world
}

#[test]
fn diag_terminating_on_ready_node() {
    let mut world = terminating();
    let (found, text) = only(&world);
    assert_eq!(found.id, Id::D11);
    says(
        &text,
        &[
            "shop/db-old has been Terminating for 3h",
            "grace period of 30s",
            "proxy/logs/?query=kubelet",
            "nothing to fence",
        ],
    );
    assert!(!text.contains("--force"), "{text}");
    // Five minutes may be in order: it waits.
    world.pods[1]["metadata"]["deletionTimestamp"] = json!("2026-11-26T06:55:00Z");
    old(&mut world.pods[0], "2026-11-26T06:55:00Z");
    let (code, found, text) = asked(&world, &Scope::All);
    assert_eq!((code, found.len()), (3, 0), "{text}");
}

#[test]
fn diag_finalizer_under_human_taint() {
    let mut world = terminating();
    world.pods.remove(0);
    world.events.clear();
    world.nodes[0] = node("worker-1", "Unknown");
    taint(&mut world.nodes[0], "node.kubernetes.io/out-of-service");
    world.pods[0]["metadata"]["finalizers"] = json!(["example.com/backup"]);
    let (found, text) = only(&world);
    assert_eq!(found.id, Id::D11);
    says(
        &text,
        &[
            "shop/db-old",
            "finalizer example.com/backup",
            "pv-1",
            "no NodeFence is open",
        ],
    );
    // Pod GC has ended it.
    let mut ended = world.clone();
    ended.pods[0]["status"]["phase"] = json!("Failed");
    let (found, text) = only(&ended);
    assert_eq!(found.id, Id::D11);
    says(
        &text,
        &[
            "finalizer example.com/backup keeps it Objects",
            "have ended",
        ],
    );
    ended.pods[0]["metadata"]["finalizers"] = Value::Null;
    assert!(!ended.ids().contains(&Id::D11), "it goes at once");
    // Its own incident tells it.
    let detaching = condition("Succeeded", "Unknown", "Detaching", "1 pod is left");
    world.fences = vec![fence("worker-1", "PowerOff", detaching)];
    assert_eq!(world.ids(), [Id::D2]);
}

#[test]
fn diag_attachment_of_a_driver_that_attaches_nothing() {
    let driver = "nfs.xsky.example";
    let mut world = pending(driver, "FailedMount", "");
    world.events.clear();
    world.pods[0]["status"]["phase"] = json!("Running");
    world.attachments = vec![attachment("csi-1", "worker-1", driver)];
    world.nodes[0] = node("worker-1", "Unknown");
    taint(&mut world.nodes[0], "node.kubernetes.io/out-of-service");
    world.drivers = vec![json!({"metadata": {"name": driver}, "spec": {"attachRequired": false}})];
    let (found, text) = only(&world);
    assert_eq!(found.id, Id::D13);
    says(
        &text,
        &[
            "VolumeAttachment csi-1",
            "attachRequired false",
            "waits for it in Detaching",
        ],
    );
    // One that attaches: then it is the human's taint that is told.
    world.drivers[0]["spec"]["attachRequired"] = json!(true);
    assert_eq!(only(&world).0.id, Id::D12);
}

#[test]
fn a_node_out_of_service_without_a_nodefence_is_told_even_if_it_is_ready() {
    for ready in ["Unknown", "True"] {
        let mut world = World::waiting(ready, EXCLUSIVE);
        taint(&mut world.nodes[0], "node.kubernetes.io/out-of-service");
        let (found, text) = only(&world);
        assert_eq!(found.id, Id::D12, "{ready}");
        says(&text, &["no NodeFence is open"]);
        let runs = text.contains("kubectl taint nodes worker-1");
        assert_eq!(runs, ready == "True", "{text}");
        // Whether one is open is not known: nothing is concluded.
        let mut facts = world.facts();
        facts.fences.unknown = Some("forbidden".to_owned());
        let ids = super::super::signatures::findings(&facts);
        assert!(ids.iter().all(|it| it.id != Id::D12), "{ids:#?}");
    }
}

#[test]
fn an_attachment_that_no_pod_uses_is_told_after_hours_or_once_a_pod_has_waited() {
    let mut world = World::waiting("True", EXCLUSIVE);
    old(&mut world.attachments[0], "2026-11-25T07:00:00Z");
    old(&mut world.pods[0], "2026-11-26T06:50:00Z");
    let (found, text) = only(&world);
    assert_eq!(found.id, Id::D16);
    says(
        &text,
        &[
            "attached to node worker-1, where no pod uses it",
            "waits for it for 10m",
        ],
    );
    let mut idle = world.clone();
    idle.pods.clear();
    idle.events.clear();
    assert_eq!(idle.ids(), [Id::D16]);
    old(&mut idle.attachments[0], "2026-11-26T06:30:00Z");
    assert!(idle.ids().is_empty(), "a job may have ended just now");
    // Somebody uses it there, or not all pods could be read.
    let mut used = world.clone();
    used.pods[0] = pod("db", "Running", Some("worker-1"));
    assert!(used.ids().is_empty());
    let mut facts = world.facts();
    facts.pods.unknown = Some("forbidden".to_owned());
    let found = super::super::signatures::findings(&facts);
    assert!(found.iter().all(|it| it.id != Id::D16), "{found:#?}");
}

#[test]
fn a_driver_whose_attachers_are_all_on_dead_nodes_is_told() {
    let mut world = World::waiting("Unknown", EXCLUSIVE);
    let attacher = |name: &str, node: &str| {
        let mut pod = pod(name, "Running", Some(node));
        pod["metadata"]["namespace"] = json!("kube-system");
        pod["spec"] = json!({"nodeName": node, "containers": [{"name": "csi-attacher", "args": ["ebs.csi.aws.com"]}]});
        pod
    };
    world.pods.push(attacher("ebs-0", "worker-1"));
    assert_eq!(world.ids(), [Id::D1, Id::D14]);
    let (_, _, text) = asked(&world, &Scope::All);
    says(
        &text,
        &[
            "kube-system/ebs-0 is not ready and is on node worker-1",
            "kubectl fence status worker-1",
        ],
    );
    // The next one finds no node.
    let mut waiting = attacher("ebs-2", "");
    waiting["spec"]["nodeName"] = Value::Null;
    world.pods.push(waiting);
    assert_eq!(world.ids(), [Id::D1, Id::D14]);
    world.pods.push(attacher("ebs-1", "worker-2"));
    assert_eq!(world.ids(), [Id::D1], "another replica is well");
}

fn tied(hostname: &str) -> World {
    let mut world = pending(
        "local",
        "FailedScheduling",
        "0/2 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) didn't match PersistentVolume's node affinity.",
    );
    world.pods[0]["spec"]["nodeName"] = Value::Null;
    let rule = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": [hostname]});
    let spec = &mut world.volumes[0]["spec"];
    spec["csi"] = Value::Null;
    spec["local"] = json!({"path": "/data"});
    spec["nodeAffinity"] =
        json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}});
    for node in &mut world.nodes {
        node["metadata"]["labels"]["kubernetes.io/hostname"] = node["metadata"]["name"].clone();
    }
    world
}

#[test]
fn a_local_volume_of_a_lost_node_is_told_from_one_whose_node_refuses_the_pod() {
    let gone = tied("worker-9");
    let (found, text) = only(&gone);
    assert_eq!(found.id, Id::D15);
    says(
        &text,
        &[
            "nodes that do not exist",
            "hostname In worker-9",
            "No fence moves it",
        ],
    );
    let mut down = tied("worker-1");
    // Its Event has expired: the volume says enough.
    down.events.clear();
    down.nodes[0] = node("worker-1", "Unknown");
    down.nodes[0]["metadata"]["labels"]["kubernetes.io/hostname"] = json!("worker-1");
    let (found, text) = only(&down);
    assert_eq!(found.id, Id::D15);
    says(
        &text,
        &[
            "from nodes that are not Ready",
            "node worker-1 has Ready Unknown",
        ],
    );
    let (found, text) = only(&tied("worker-1"));
    assert_eq!(found.id, Id::D15);
    says(&text, &["from nodes that refuse the pod"]);
    assert!(!text.contains("delete pvc"), "{text}");
    let mut other = tied("worker-1");
    other.events[0]["message"] = json!("0/2 nodes are available: 2 Insufficient cpu.");
    assert_eq!(only(&other).0.id, Id::D17);
}

/// How it was: the one step was `get -o yaml`.
#[test]
fn a_node_that_is_no_more_leaves_a_way_out_at_the_storage() {
    let mut world = World::waiting("True", EXCLUSIVE);
    world.nodes.remove(0);
    world.attachments = vec![going(
        "worker-1",
        "ebs.csi.aws.com",
        Some("rpc error: instance not found"),
    )];
    let found = world.only();
    assert_eq!(found.id, Id::D7);
    let has = |says: &str| found.fix.iter().any(|it| it.command.contains(says));
    assert!(
        has("aws ec2 describe-volumes --volume-ids vol-1"),
        "{found:#?}"
    );
    assert!(has("kubectl get pv pv-1"), "{found:#?}");
}
