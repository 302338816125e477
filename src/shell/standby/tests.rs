//! What a replica that stands by finds of a BMC, and that it asks it for nothing.

use super::*;
use crate::shell::context::Context;
use crate::shell::fake::{self, Cluster};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fencing_core::fixtures;
use fencing_testbed::bmc::{Bmc, BmcCa, Credentials, Plug};
use fencing_testbed::https::Line;
use serde_json::{Value, json};
use std::net::IpAddr;

/// A BMC, and the objects that lead to it.
struct Bench {
    bmc: Bmc,
    cluster: Cluster,
}

impl Bench {
    /// The BMC at this address, which the leader reaches or not, of a Node that is Ready or not.
    async fn new(address: [u8; 4], reachable: &str, ready: &str) -> Self {
        let authority = BmcCa::new("BMCs of a test").expect("an authority");
        let plug = Arc::new(Plug::new("worker-1", fixtures::MACHINE));
        let bmc = Bmc::start(
            IpAddr::from(address),
            plug,
            Credentials::default(),
            &authority,
        );
        let bmc = bmc.expect("a BMC");
        let Credentials { username, password } = bmc.credentials();
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "bmc"},
            "data": {"username": STANDARD.encode(username), "password": STANDARD.encode(password)},
        });
        let ca = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ca"}, "data": {"ca.crt": authority.pem()}});
        let redfish = json!({"address": bmc.url(), "tls": {"caRef": {"name": "ca"}}});
        let reachable = json!({
            "type": "Reachable", "status": reachable, "reason": "Answered", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
        });
        let device = json!({
            "apiVersion": "nodefencing.io/v1alpha1", "kind": "FenceDevice", "metadata": {"name": "bmc", "generation": 1},
            "spec": {"nodeName": "worker-1", "redfish": redfish, "credentialsRef": {"name": "bmc"}},
            "status": {"conditions": [reachable]},
        });
        let mut node: Value = fake::node();
        node["status"]["conditions"][0]["status"] = ready.into();
        let cluster = Cluster::new().await;
        let path = |kind: &str, name: &str| format!("GET /api/v1/namespaces/ns/{kind}/{name}");
        cluster.put(&path("secrets", "bmc"), 200, secret);
        cluster.put(&path("configmaps", "ca"), 200, ca);
        let devices = fake::list("FenceDevice", "7", &[device]);
        let of_devices = "GET /apis/nodefencing.io/v1alpha1/fencedevices";
        cluster.put(of_devices, 200, devices);
        cluster.put("GET /api/v1/nodes", 200, fake::list("Node", "7", &[node]));
        Self { bmc, cluster }
    }
}

/// A replica that stands by, with what it shares.
async fn standby(context: &Context) -> Standby {
    let caches = context.caches.clone();
    caches.nodes.wait_until_ready().await.expect("the Nodes");
    caches
        .devices
        .wait_until_ready()
        .await
        .expect("the devices");
    Standby::new(caches, Arc::clone(&context.devices))
}

#[tokio::test]
async fn it_opens_a_connection_to_what_the_leader_reaches_and_asks_for_nothing() {
    let bench = Bench::new([127, 89, 0, 1], "True", "True").await;
    let (context, _watches) = bench.cluster.watching();
    let standby = standby(&context).await;
    let pair = ("bmc".to_owned(), "worker-1".to_owned());
    assert_eq!(standby.sample(), std::slice::from_ref(&pair));
    assert_eq!(standby.look(&pair).await, Some(("redfish", true)));
    bench.bmc.set_line(Line::Refused).expect("a closed port");
    assert_eq!(standby.look(&pair).await, Some(("redfish", false)));
    bench.bmc.set_line(Line::Up).expect("an open port");
    assert_eq!(standby.look(&pair).await, Some(("redfish", true)));
    assert!(bench.bmc.log().is_empty(), "{:?}", bench.bmc.log());
}

#[tokio::test]
async fn a_device_that_the_leader_does_not_reach_is_left_to_it() {
    let bench = Bench::new([127, 89, 0, 2], "False", "True").await;
    let (context, _watches) = bench.cluster.watching();
    assert!(standby(&context).await.sample().is_empty());
}

/// Its BMC may have room for one connection, and a fence may be near.
#[tokio::test]
async fn the_device_of_a_node_that_is_not_ready_is_left_alone() {
    let bench = Bench::new([127, 89, 0, 3], "True", "Unknown").await;
    let (context, _watches) = bench.cluster.watching();
    let pair = ("bmc".to_owned(), "worker-1".to_owned());
    assert_eq!(standby(&context).await.look(&pair).await, None);
}
