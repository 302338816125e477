//! What a loop sends: under which version it writes its record, what it leaves alone, and that no device keeps it.

use super::*;
use crate::shell::fake::{self, Cluster, failure};
use fencing_api::settings::PodDeletion;
use fencing_core::answer::Reply;
use fencing_core::decision::{Eviction, Evidence};
use fencing_core::fixtures;
use fencing_core::settings::Settings;
use serde_json::{Value, json};
use std::net::SocketAddr;
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};

mod edited;
mod heard;
mod meanwhile;
mod places;
mod rivals;
mod told;
mod two_processes;
mod urgent;
mod woken;

const NODE: &str = "GET /api/v1/nodes/worker-1";
const FENCE: &str = "GET /apis/nodefencing.io/v1alpha1/nodefences/fence";
const DEVICES: &str = "GET /apis/nodefencing.io/v1alpha1/fencedevices";
const PATCH_NODE: &str = "PATCH /api/v1/nodes/worker-1";
const PATCH_FENCE: &str = "PATCH /apis/nodefencing.io/v1alpha1/nodefences/fence/status";

/// A human's NodeFence `fence` of `worker-1`, that is not bound to a boot yet, at this version of the object.
fn fence_object(version: &str, status: Value) -> Value {
    json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence",
        "metadata": {"name": "fence", "uid": "uid-fence", "resourceVersion": version},
        "spec": {
            "nodeName": "worker-1", "trigger": {"type": "Manual"},
            "fence": {"mode": "PowerOff", "levels": [{"name": "default"}]},
            "recovery": {}, "release": {}, "powerOn": {},
        },
        "status": status,
    })
}

/// A record that is bound to the Node and its boot, with what else is in it.
fn of_the_node(mut status: Value) -> Value {
    json_patch::merge(
        &mut status,
        &json!({"nodeUID": "uid-1", "bootID": "boot-1"}),
    );
    status
}

fn decoded(object: Value) -> NodeFence {
    serde_json::from_value(object).expect("a NodeFence")
}

fn fence(version: &str) -> NodeFence {
    decoded(fence_object(version, json!({})))
}

/// The Node `worker-1` without the claim.
fn unclaimed() -> Value {
    let mut node = fake::node();
    node["spec"] = json!({});
    node
}

/// An API server that has the Node and the NodeFence at version 7, and refuses each write with 409.
async fn cluster(node: Value) -> Cluster {
    let cluster = Cluster::new().await;
    cluster.put(NODE, 200, node);
    cluster.put(FENCE, 200, fence_object("7", json!({})));
    for write in [PATCH_NODE, PATCH_FENCE] {
        let (status, conflict) = failure(409, "the object has been modified");
        cluster.put(write, status, conflict);
    }
    cluster
}

/// Bodies of the requests of this kind so far.
fn sent(cluster: &Cluster, request: &str) -> Vec<Value> {
    let seen = cluster.server.seen().into_iter();
    let of_kind = seen.filter(|seen| seen.line.split('?').next() == Some(request));
    of_kind.map(|seen| seen.body).collect()
}

/// Goes on until one more write of the record has been refused: each waits longer than the one before it.
async fn until_refused(
    cluster: &Cluster,
    context: &Arc<Context>,
    incidents: &Incidents,
    fence: &NodeFence,
) {
    let before = sent(cluster, PATCH_FENCE).len();
    let refused = async {
        while sent(cluster, PATCH_FENCE).len() == before {
            run(context, incidents, fence).await;
            sleep(Duration::from_millis(5)).await;
        }
    };
    let limit = Duration::from_secs(60);
    let in_time = timeout(limit, refused).await;
    assert!(in_time.is_ok(), "{:?}", cluster.requests());
}

/// S9: what a superseded process has on its way must not overwrite the record of its successor.
#[tokio::test]
async fn a_record_is_written_on_the_version_that_this_process_knows() {
    let cluster = cluster(unclaimed()).await;
    let (context, incidents) = (cluster.context(), Incidents::default());
    until_refused(&cluster, &context, &incidents, &fence("7")).await;
    // A human has changed its spec: the same record, under a new version.
    cluster.put(FENCE, 200, fence_object("9", json!({})));
    until_refused(&cluster, &context, &incidents, &fence("9")).await;
    let mut versions: Vec<Value> = sent(&cluster, PATCH_FENCE)
        .into_iter()
        .map(|body| body["metadata"]["resourceVersion"].clone())
        .collect();
    // On a slow machine one run has time for two.
    versions.dedup();
    assert_eq!(versions, ["7", "9"]);
}

/// S9, S21, S23: the record names a claim, a command or the refusal of a word that this process never wrote, so another one has taken the
/// incident over; and lives, so that its claim is left alone for a while.
#[tokio::test]
async fn what_was_known_is_forgotten_once_another_process_has_written_the_record() {
    let records = [
        (json!({}), true),
        (json!({"claim": "fence-x1"}), false),
        (json!({"attempts": [open_attempt()]}), false),
        (json!({"confirmationRefused": "the BMC reads On"}), false),
    ];
    for (status, is_kept) in records {
        let cluster = cluster(unclaimed()).await;
        let (context, incidents) = (cluster.context(), Incidents::default());
        until_refused(&cluster, &context, &incidents, &fence("7")).await;
        cluster.put(FENCE, 200, fence_object("8", status.clone()));
        until_refused(&cluster, &context, &incidents, &fence("7")).await;
        let kept = incidents.get(&fence("8")).is_some();
        assert_eq!(kept, is_kept, "{status}");
        run(&context, &incidents, &fence("8")).await;
        let incident = incidents.get(&fence("8")).expect("an incident");
        let rival_until = incident.lock().await.memory.rival_until;
        assert_eq!(rival_until.is_none(), is_kept, "{status}");
    }
}

/// An off command of a process that may still land.
fn open_attempt() -> Value {
    json!({
        "id": "n1-1", "device": "bmc", "action": "PowerOff", "startTime": "2026-01-01T00:00:00Z",
    })
}

/// S2: what is done rests on a Node that was read just before, and after the last answer of a device.
#[tokio::test]
async fn what_was_read_beside_a_write_is_used_at_once_or_not_at_all() {
    let cluster = cluster(fake::node()).await;
    let (context, fence) = (cluster.context(), fence("7"));
    let incident = Incidents::default().begin(fence.clone());
    let mut incident = incident.lock().await;
    let mut round = Round {
        context: &context,
        fence: &fence,
        incident: &mut incident,
    };
    let pods = None;
    let answer = Answer {
        order: 1,
        reply: DeviceReply::PowerRead {
            answers: vec![],
            pods,
        },
        put_back: None,
    };
    let late = Duration::from_millis(200);
    let table = [
        (Duration::ZERO, vec![], true),
        (late, vec![], false),
        (Duration::ZERO, vec![answer], false),
    ];
    for (later, answers, is_used) in table {
        let reads = round.read().await;
        let now = reads.asked + later;
        round.incident.ahead = Some(reads);
        let used = round.read_ahead(&answers, now).is_some();
        assert_eq!(used, is_used, "{later:?}, {} answers", answers.len());
        assert!(round.read_ahead(&[], now).is_none(), "it is used twice");
    }
}

fn evidence() -> Evidence {
    Evidence {
        claim: "fence-n1".to_owned(),
        node_uid: "uid-1".to_owned(),
        boot_id: "boot-1".to_owned(),
        lease_renew_time: String::new(),
        last_report: String::new(),
        level: "level".to_owned(),
        by_confirmation: false,
        readings: fixtures::off_readings(),
    }
}

/// While the taint is refused, the machine is proven down again and again: what its off took is measured once.
#[tokio::test]
async fn an_off_that_is_proven_twice_is_measured_once() {
    let cluster = cluster(fake::node()).await;
    cluster.put(PATCH_FENCE, 200, fence_object("8", json!({})));
    let (context, fence) = (cluster.context(), fence("7"));
    let incident = Incidents::default().begin(fence.clone());
    let mut incident = incident.lock().await;
    let attempt = fixtures::attempt();
    record::intent(&mut incident.status, &attempt, clock::wall());
    incident.memory.commands.attempt = Some(attempt);
    let mut round = Round {
        context: &context,
        fence: &fence,
        incident: &mut incident,
    };
    let (settings, evidence, now) = (fixtures::settings(), evidence(), clock::since_boot());
    for _ in 0..2 {
        let reply = round.store_evidence(&settings, &evidence, now).await;
        assert_eq!(reply, Reply::Done);
    }
    let metrics = context.metrics.render().expect("metrics");
    let measured = metrics
        .lines()
        .find(|line| line.contains("fence_duration_seconds_count"));
    let count = measured.and_then(|line| line.rsplit(' ').next());
    assert_eq!(count, Some("1"), "{metrics}");
}

/// S2: beside the evidence the Node is read for the deletion of the pods, but not for a taint; beside the deletion it is read for the
/// taint. After a write that failed it is read anew.
#[tokio::test]
async fn only_what_was_read_beside_a_write_that_succeeded_is_kept() {
    let table = [
        (PodDeletion::Expedited, 200, [true, true]),
        (PodDeletion::PodGC, 200, [false, true]),
        (PodDeletion::Expedited, 409, [false, false]),
    ];
    for (pod_deletion, code, kept) in table {
        let cluster = cluster(fake::node()).await;
        let refused = failure(409, "another version").1;
        let answer = |object: Value| match code {
            200 => object,
            _ => refused.clone(),
        };
        cluster.put(PATCH_FENCE, code, answer(fence_object("8", json!({}))));
        let pod = json!({"metadata": {"name": "db-0"}});
        let delete = "DELETE /api/v1/namespaces/default/pods/db-0";
        cluster.put(delete, code, answer(pod));
        let (context, fence) = (cluster.context(), fence("7"));
        let incident = Incidents::default().begin(fence.clone());
        let mut incident = incident.lock().await;
        let mut round = Round {
            context: &context,
            fence: &fence,
            incident: &mut incident,
        };
        let stuck = fixtures::pod("db-0");
        round.incident.memory.under_claim.pods = Some(vec![stuck.clone()]);
        let settings = fixtures::asking(fixtures::settings(), |it| {
            it.recovery.pod_deletion = pod_deletion
        });
        let now = clock::since_boot();
        round.store_evidence(&settings, &evidence(), now).await;
        let beside_evidence = round.incident.ahead.take().is_some();
        let eviction = Eviction {
            pods: vec![stuck],
            valid_until: now + Duration::from_secs(60),
        };
        round.evict(eviction).await;
        let beside_deletion = round.incident.ahead.take().is_some();
        assert_eq!(
            [beside_evidence, beside_deletion],
            kept,
            "{pod_deletion:?} {code}"
        );
    }
}

/// S13: the claim is of a process before this one, which runs on the very node that is to go down.
#[tokio::test]
async fn no_claim_is_taken_over_from_the_node_that_is_to_go_down() {
    let table = [
        (Some("worker-1"), json!({}), false),
        (Some("worker-1"), json!({"claim": "fence-n1"}), false),
        (Some("worker-2"), json!({}), true),
        (None, json!({"claim": "fence-n1"}), true),
    ];
    for (own_node, record, takes_over) in table {
        let cluster = cluster(fake::node()).await;
        let record = fence_object("7", of_the_node(record));
        cluster.put(FENCE, 200, record.clone());
        let mut context = cluster.context();
        let shared = Arc::get_mut(&mut context).expect("nobody else has it yet");
        shared.own_node = own_node.map(str::to_owned);
        run(&context, &Incidents::default(), &decoded(record)).await;
        let taken_over = !sent(&cluster, PATCH_NODE).is_empty();
        assert_eq!(taken_over, takes_over, "{own_node:?}");
    }
}

/// A FenceDevice of this node at this address.
fn device(address: SocketAddr, node: &str) -> Value {
    let redfish = json!({
        "address": format!("http://{address}"),
        "systemID": "1",
        "tls": {"verification": "None"},
    });
    json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "FenceDevice",
        "metadata": {"name": format!("bmc-{node}"), "uid": format!("uid-{node}"), "generation": 1},
        "spec": {
            "nodeName": node, "redfish": redfish, "credentialsRef": {"name": "bmc"},
            "identityCheck": "Skip",
        },
    })
}

/// Two nodes, each claimable. The device of the second one says On, that of the first one is at this address.
async fn two_nodes(first: SocketAddr) -> Cluster {
    let cluster = cluster(unclaimed()).await;
    let devices = [
        device(first, "worker-1"),
        device(cluster.server.address, "worker-2"),
    ];
    let devices = fake::list("FenceDevice", "7", &devices);
    cluster.put(DEVICES, 200, devices);
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "bmc"},
        "data": {"username": "cm9vdA==", "password": "c2VjcmV0"},
    });
    cluster.put("GET /api/v1/namespaces/ns/secrets/bmc", 200, secret);
    let system =
        json!({"@odata.type": "#ComputerSystem.v1_20_0.ComputerSystem", "PowerState": "On"});
    cluster.put("GET /redfish/v1/Systems/1", 200, system);
    for (fence, node) in [("fence-1", "worker-1"), ("fence-2", "worker-2")] {
        let mut object = unclaimed();
        object["metadata"]["name"] = json!(node);
        cluster.put(&format!("GET /api/v1/nodes/{node}"), 200, object);
        let path = format!("GET /apis/nodefencing.io/v1alpha1/nodefences/{fence}");
        cluster.put(&path, 200, bound(fence, node));
    }
    cluster
}

/// L5: the device of one node takes the connection and is silent, and the other node is claimed meanwhile.
#[tokio::test]
async fn a_device_that_hangs_keeps_neither_its_own_loop_nor_another_node() {
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let cluster = two_nodes(silent.local_addr().expect("an address")).await;
    let (context, _watches) = cluster.watching();
    let devices = context.caches.devices.clone();
    devices.wait_until_ready().await.expect("the devices");
    context.devices.survey(&[], &[]);
    let incidents = Incidents::default();
    let one = decoded(bound("fence-1", "worker-1"));
    let other = decoded(bound("fence-2", "worker-2"));
    let meanwhile = async {
        run(&context, &incidents, &one).await;
        let connection = silent.accept().await;
        while sent(&cluster, "PATCH /api/v1/nodes/worker-2").is_empty() {
            run(&context, &incidents, &other).await;
            sleep(Duration::from_millis(5)).await;
        }
        connection
    };
    // Shorter than a look at a device may take.
    let in_time = timeout(Duration::from_secs(15), meanwhile).await;
    assert!(in_time.is_ok(), "{:?}", cluster.requests());
    assert!(sent(&cluster, PATCH_NODE).is_empty());
}

/// A human's NodeFence that is bound to the boot that the fake Node has.
fn bound(name: &str, node: &str) -> Value {
    let mut fence = fence_object("7", json!({}));
    fence["metadata"]["name"] = json!(name);
    fence["metadata"]["uid"] = json!(format!("uid-{name}"));
    fence["spec"]["nodeName"] = json!(node);
    fence["spec"]["nodeUID"] = json!("uid-1");
    fence["spec"]["bootID"] = json!("boot-1");
    fence
}
