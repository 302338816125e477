//! A level that needs two devices which are one could never prove anything: that is said in peace time.

use super::*;

/// Its Redfish address, if it has one.
pub fn target(device: &FenceDevice, _node: &NodeView) -> Vec<String> {
    let redfish = device.spec.drivers.redfish.iter();
    redfish.map(|redfish| redfish.address.clone()).collect()
}

/// A device of this node with this label and address, ready to fence.
fn at(node: &str, label: &str, address: &str) -> FenceDevice {
    let mut device = device(node, json!({"way": label}), "True", "Probed");
    let redfish = json!({"address": address});
    device.spec.drivers.redfish = Some(serde_json::from_value(redfish).expect("a driver"));
    device
}

#[test]
fn two_devices_of_a_level_that_are_one_protect_nobody() {
    let assessed = |require: &str, addresses: [&str; 2]| {
        let levels = json!([{"name": "both", "require": require}]);
        let cluster = Cluster {
            policies: vec![policy("p", json!({"fence": {"levels": levels}}))],
            nodes: vec![node("w1", "True")],
            devices: vec![at("w1", "one", addresses[0]), at("w1", "two", addresses[1])],
            ..Cluster::default()
        };
        ready(&cluster.status("p"))
    };
    let (one, other) = ("https://192.0.2.1", "https://192.0.2.2");
    let (reason, words) = assessed("All", [one, one]);
    assert_eq!(reason, "False/SameDeviceTwice");
    for part in [
        "level `both`",
        "Node w1",
        "deviceSelector",
        "{\"way\":\"one\"}",
    ] {
        assert!(words.contains(part), "{part}: {words}");
    }
    assert_eq!(assessed("All", [one, other]).0, "True/Active");
    // One of them is enough there, and the other one only costs time.
    assert_eq!(assessed("Any", [one, one]).0, "True/Active");
}

#[test]
fn two_of_three_that_are_one_are_found_and_the_other_nodes_are_counted() {
    let (one, other) = ("https://192.0.2.1", "https://192.0.2.2");
    let levels = json!([{"name": "all", "require": "All"}]);
    let three = |node| {
        [
            at(node, "one", one),
            at(node, "two", one),
            at(node, "three", other),
        ]
    };
    let cluster = Cluster {
        policies: vec![policy("p", json!({"fence": {"levels": levels}}))],
        nodes: ["w1", "w2", "w3"].map(|name| node(name, "True")).into(),
        devices: ["w1", "w2", "w3"].into_iter().flat_map(three).collect(),
        ..Cluster::default()
    };
    let (reason, words) = ready(&cluster.status("p"));
    assert_eq!(reason, "False/SameDeviceTwice");
    assert!(words.ends_with("(and 2 more)"), "{words}");
}
