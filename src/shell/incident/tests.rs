//! What a loop sends: under which version it writes its record, what it leaves alone, and that no device keeps it.

use super::*;
use crate::shell::fake::{self, Cluster, failure};
use serde_json::{Value, json};
use tokio::time::sleep;

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

/// After a write that was refused the next one waits 50 ms, then 100 ms.
async fn back_off() {
    sleep(Duration::from_millis(120)).await;
}

/// S9: what a superseded process has on its way must not overwrite the record of its successor.
#[tokio::test]
async fn a_record_is_written_on_the_version_that_this_process_knows() {
    let cluster = cluster(unclaimed()).await;
    let (context, incidents) = (cluster.context(), Incidents::default());
    run(&context, &incidents, &fence("7")).await;
    back_off().await;
    // A human has changed its spec: the same record, under a new version.
    run(&context, &incidents, &fence("9")).await;
    let versions: Vec<Value> = sent(&cluster, PATCH_FENCE)
        .into_iter()
        .map(|body| body["metadata"]["resourceVersion"].clone())
        .collect();
    assert_eq!(versions, ["7", "9"]);
}

/// S9: the record names a claim that this process never wrote, so another one has taken the incident over.
#[tokio::test]
async fn what_was_known_is_forgotten_once_another_process_has_written_the_record() {
    let claims = [(json!({}), true), (json!({"claim": "fence-x1"}), false)];
    for (status, is_kept) in claims {
        let cluster = cluster(unclaimed()).await;
        let (context, incidents) = (cluster.context(), Incidents::default());
        run(&context, &incidents, &fence("7")).await;
        back_off().await;
        cluster.put(FENCE, 200, fence_object("8", status.clone()));
        run(&context, &incidents, &fence("7")).await;
        assert_eq!(sent(&cluster, PATCH_FENCE).len(), 2, "{status}");
        let kept = incidents.get(&fence("8")).is_some();
        assert_eq!(kept, is_kept, "{status}");
    }
}

/// S13: the claim is of a process before this one, which runs on the very node that is to go down.
#[tokio::test]
async fn no_claim_is_taken_over_from_the_node_that_is_to_go_down() {
    let table = [(Some("worker-1"), 0), (Some("worker-2"), 1), (None, 1)];
    for (own_node, writes) in table {
        let cluster = cluster(fake::node()).await;
        let mut context = cluster.context();
        let shared = Arc::get_mut(&mut context).expect("nobody else has it yet");
        shared.own_node = own_node.map(str::to_owned);
        run(&context, &Incidents::default(), &fence("7")).await;
        assert_eq!(sent(&cluster, PATCH_NODE).len(), writes, "{own_node:?}");
    }
}

/// A FenceDevice of this node, the machine of which is this Redfish system.
fn device(cluster: &Cluster, node: &str, system: &str) -> Value {
    let redfish = json!({
        "address": format!("http://{}", cluster.server.address),
        "systemID": system,
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

/// Two nodes, each claimable, each with a device that says On and names no machine.
async fn two_nodes() -> Cluster {
    let cluster = cluster(unclaimed()).await;
    let devices = [
        device(&cluster, "worker-1", "1"),
        device(&cluster, "worker-2", "2"),
    ];
    let devices = fake::list("FenceDevice", "7", &devices);
    cluster.put(DEVICES, 200, devices);
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "bmc"},
        "data": {"username": "cm9vdA==", "password": "c2VjcmV0"},
    });
    cluster.put("GET /api/v1/namespaces/ns/secrets/bmc", 200, secret);
    for (node, number) in [("worker-1", 1), ("worker-2", 2)] {
        let mut object = unclaimed();
        object["metadata"]["name"] = json!(node);
        cluster.put(&format!("GET /api/v1/nodes/{node}"), 200, object);
        let system =
            json!({"@odata.type": "#ComputerSystem.v1_20_0.ComputerSystem", "PowerState": "On"});
        cluster.put(&format!("GET /redfish/v1/Systems/{number}"), 200, system);
        let fence = bound(&format!("fence-{number}"), node);
        let path = format!("GET /apis/nodefencing.io/v1alpha1/nodefences/fence-{number}");
        cluster.put(&path, 200, fence);
    }
    cluster
}

/// L5: the device of one node is silent, and the other node is claimed meanwhile.
#[tokio::test]
async fn a_device_that_hangs_keeps_neither_its_own_loop_nor_another_node() {
    let cluster = two_nodes().await;
    let hangs = Duration::from_secs(4);
    let asked = "GET /redfish/v1/Systems/1";
    cluster.delay(asked, hangs);
    let (context, _watches) = cluster.watching();
    let devices = context.caches.devices.clone();
    devices.wait_until_ready().await.expect("the devices");
    context.devices.survey(&[], &[]);
    let (incidents, begun) = (Incidents::default(), clock::since_boot());
    let [one, other] = [("fence-1", "worker-1"), ("fence-2", "worker-2")];
    let one = decoded(bound(one.0, one.1));
    let other = decoded(bound(other.0, other.1));
    run(&context, &incidents, &one).await;
    while sent(&cluster, asked).is_empty() {
        sleep(Duration::from_millis(5)).await;
    }
    while sent(&cluster, "PATCH /api/v1/nodes/worker-2").is_empty() {
        run(&context, &incidents, &other).await;
        sleep(Duration::from_millis(5)).await;
        let took = clock::since_boot().saturating_sub(begun);
        assert!(took < hangs, "{:?}", cluster.requests());
    }
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
