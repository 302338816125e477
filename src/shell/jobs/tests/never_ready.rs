//! Whoever registers a Node chooses its name, and with it the host of a fleet's address: no password goes there before the Node was Ready.

use super::*;
use fencing_drivers::address::Lookup;
use std::sync::atomic::{AtomicUsize, Ordering};

const NAME: &str = "x.attacker.test";
const SECRET: &str = "GET /api/v1/namespaces/ns/secrets/bmc";

/// A look at a fleet whose address ends with the name of the Node, the Node in this state, and a resolver that knows each host: what it said, which of
/// the Secret and the device was asked for, and how many names.
async fn look(ready: &str, status: &Value) -> (Result<(), String>, Vec<String>, usize) {
    let cluster = Cluster::new().await;
    let mut node = fake::node();
    node["metadata"]["name"] = json!(NAME);
    node["status"]["conditions"] = json!([{"type": "Ready", "status": ready}]);
    cluster.put("GET /api/v1/nodes", 200, fake::list("Node", "7", &[node]));
    let redfish = json!({
        "address": format!("http://bmc-${{node.name}}:{}", cluster.server.address.port()),
        "systemID": "1",
        "tls": {"verification": "None"},
    });
    let fleet = json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "FenceDevice",
        "metadata": {"name": "bmc", "uid": "uid-bmc", "generation": 1},
        "spec": {"nodeSelector": {}, "redfish": redfish, "credentialsRef": {"name": "bmc"}},
        "status": status,
    });
    let fleet = fake::list("FenceDevice", "7", &[fleet]);
    cluster.put("GET /apis/nodefencing.io/v1alpha1/fencedevices", 200, fleet);
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "bmc", "annotations": {"nodefencing.io/allowed-hosts": "*.attacker.test"}},
        "data": {"username": "cm9vdA==", "password": "c2VjcmV0"},
    });
    cluster.put(SECRET, 200, secret);
    cluster.put(SYSTEM, 200, system("On", MACHINE));
    let lookups = Arc::new(AtomicUsize::new(0));
    let asked = Arc::clone(&lookups);
    let lookup = Lookup::new(move |_, port| {
        asked.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move { Ok(vec![([127, 0, 0, 1], port).into()]) })
    });
    cluster.lookup.set(lookup).expect("the first one");
    let (context, _watches) = cluster.watching();
    let (devices, nodes) = (context.caches.devices.clone(), context.caches.nodes.clone());
    devices.wait_until_ready().await.expect("the devices");
    nodes.wait_until_ready().await.expect("the nodes");
    let job = Job {
        lease: None,
        heard: Heard::default(),
        early: None,
        order: DeviceOrder::ReadPower,
        level: fixtures::level(),
        limit: Duration::from_secs(10),
        settings: Settings {
            node: NAME.to_owned(),
            ..fixtures::settings()
        },
        claim: None,
    };
    let reply = run(&context, &job).await;
    let DeviceReply::PowerRead { mut answers, .. } = reply else {
        panic!("{reply:?}");
    };
    let said = answers.remove(0).reading.map(drop);
    let mut requests = cluster.requests();
    requests.retain(|it| it == SECRET || it == SYSTEM);
    (said, requests, lookups.load(Ordering::Relaxed))
}

#[tokio::test]
async fn a_fleets_password_is_used_for_no_node_that_was_never_ready() {
    let nothing = json!({});
    let (said, requests, lookups) = look("Unknown", &nothing).await;
    let words = said.expect_err("it was asked");
    assert!(
        words.starts_with("this FenceDevice has not answered for Node x.attacker.test"),
        "{words}"
    );
    assert_eq!((requests, lookups), (Vec::new(), 0));
    let row = json!({"nodeName": NAME, "nodeUID": "uid-1", "bootID": "boot-0", "powerState": "On", "sinceTime": "2026-11-28T09:00:00Z"});
    let answered = json!({"observedGeneration": 1, "positiveControls": [row]});
    for (ready, status) in [("True", nothing), ("Unknown", answered)] {
        let (said, requests, lookups) = look(ready, &status).await;
        assert_eq!(said, Ok(()), "{ready}");
        assert_eq!(requests, [SECRET, SYSTEM], "{ready}");
        assert_eq!(lookups, 1, "{ready}");
    }
}
