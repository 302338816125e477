//! Which addresses are shut out, by what CSI-Addons shows.

use super::super::facts::{Class, Sidecar, Wanted, clients};
use super::CIDR;
use fencing_api::device::{ClientAddresses, NetworkFenceDriver};
use serde_json::{Value, json};

/// As the sidecar on the node is shown.
pub(super) fn sidecar() -> Value {
    json!({
        "metadata": {"name": "worker-1-rook-ceph-daemonset-csi-rbdplugin", "namespace": "rook-ceph"},
        "spec": {"driver": {"name": "rbd.csi.ceph.com", "endpoint": "pod://csi-rbdplugin-x.rook-ceph:9070", "nodeID": "worker-1"}},
        "status": {
            "state": "Connected",
            "capabilities": ["service.NODE_SERVICE", "network_fence.GET_CLIENTS_TO_FENCE"],
            "networkFenceClientStatus": [{"networkFenceClassName": "rbd", "ClientDetails": [{"id": "cluster-1", "cidrs": [CIDR]}]}],
        },
    })
}

fn named(sidecars: &[Value], of: ClientAddresses) -> Result<(Vec<String>, bool), String> {
    let sidecars: Vec<Sidecar> = serde_json::from_value(json!(sidecars)).expect("sidecars");
    let wanted = Wanted {
        node: "worker-1",
        addresses: &["10.0.0.7".to_owned(), "fd00::7".to_owned()],
        provisioner: "rbd.csi.ceph.com",
        class: "rbd",
        client_addresses: of,
    };
    clients(&sidecars, wanted).map(|it| (it.cidrs, it.is_connected))
}

fn at(path: &str, value: Value) -> Value {
    super::with(sidecar(), path, value)
}

const CIDRS: &str = "/status/networkFenceClientStatus/0/ClientDetails/0/cidrs";

#[test]
fn the_clients_are_those_of_this_driver_class_and_node() {
    let of = |sidecars: &[Value]| named(sidecars, ClientAddresses::OfNode);
    assert_eq!(of(&[sidecar()]), Ok((vec![CIDR.to_owned()], true)));
    for (path, value) in [
        ("/spec/driver/name", json!("cephfs.csi.ceph.com")),
        ("/spec/driver/nodeID", json!("worker-2")),
        (
            "/status/networkFenceClientStatus/0/networkFenceClassName",
            json!("other"),
        ),
        (CIDRS, json!([])),
        ("/status", json!({})),
    ] {
        assert!(of(&[at(path, value)]).is_err(), "{path}");
    }
    let mut deleted = sidecar();
    deleted["metadata"]["deletionTimestamp"] = json!("2026-01-02T00:00:00Z");
    assert!(of(&[deleted]).is_err());
    // The sidecar of the controller names none, and need not be connected.
    let controller = at("/status", json!({"state": "Failed"}));
    let second = at(CIDRS, json!(["fd00::7/128"]));
    let all = of(&[controller, sidecar(), second]);
    assert_eq!(
        all,
        Ok((vec![CIDR.to_owned(), "fd00::7/128".to_owned()], true))
    );
    let lost = at("/status/state", json!("Retrying"));
    assert_eq!(of(&[lost]), Ok((vec![CIDR.to_owned()], false)));
}

/// Upstream's documentation writes the field as it writes all others.
#[test]
fn the_field_of_the_clients_is_read_in_both_spellings() {
    let mut other = sidecar();
    let status = &mut other["status"]["networkFenceClientStatus"][0];
    status["clientDetails"] = status["ClientDetails"].take();
    status
        .as_object_mut()
        .expect("a status")
        .remove("ClientDetails");
    assert!(named(&[other], ClientAddresses::OfNode).is_ok());
}

/// A fence of an address that the node no longer has stops nothing, and one of many stops others.
#[test]
fn an_address_that_is_not_the_nodes_or_no_single_one_is_refused() {
    for (cidr, of_node, of_storage) in [
        (CIDR, true, true),
        ("fd00::7/128", true, true),
        ("10.0.0.8/32", false, true),
        ("10.0.0.0/24", false, false),
        ("10.0.0.7/31", false, false),
        ("10.0.0.7", false, false),
        ("fd00::/64", false, false),
        ("", false, false),
        ("nonsense/32", false, false),
    ] {
        let sidecar = at(CIDRS, json!([CIDR, cidr]));
        let is_taken = |of| named(std::slice::from_ref(&sidecar), of).is_ok();
        assert_eq!(is_taken(ClientAddresses::OfNode), of_node, "{cidr}");
        assert_eq!(
            is_taken(ClientAddresses::OfStorageNetwork),
            of_storage,
            "{cidr}"
        );
    }
}

/// The fence of a class shuts nodes out of its own storage alone.
#[test]
fn a_class_of_another_storage_covers_other_volumes() {
    let check = |class: Value, cluster_id: Option<&str>| {
        let class: Class =
            serde_json::from_value(json!({"metadata": {"name": "rbd"}, "spec": class}))
                .expect("a class");
        class.check(&NetworkFenceDriver {
            provisioner: "rbd.csi.ceph.com".to_owned(),
            cluster_id: cluster_id.map(str::to_owned),
            network_fence_class_name: "rbd".to_owned(),
            client_addresses: ClientAddresses::OfNode,
        })
    };
    let own = json!({"provisioner": "rbd.csi.ceph.com"});
    let of = |id: &str| json!({"provisioner": "rbd.csi.ceph.com", "parameters": {"clusterID": id}});
    assert_eq!(check(own.clone(), None), Ok(()));
    assert_eq!(check(of("a"), Some("a")), Ok(()));
    for (class, cluster_id) in [
        (json!({"provisioner": "cephfs.csi.ceph.com"}), None),
        (json!({}), None),
        (own, Some("a")),
        (of("a"), Some("b")),
        (of("a"), None),
    ] {
        let why = check(class.clone(), cluster_id);
        assert!(why.is_err(), "{class} is taken for {cluster_id:?}");
    }
}
