//! A level that needs two devices which are one could never prove anything: that is said in peace time.

use super::*;

/// Its Redfish address, if it has one.
pub fn target(device: &FenceDevice, _node: &str) -> Vec<String> {
    let redfish = device.spec.redfish.iter();
    redfish.map(|redfish| redfish.address.clone()).collect()
}

/// A device of `w1` with this label and address, ready to fence.
fn at(label: &str, address: &str) -> FenceDevice {
    let mut device = device("w1", json!({"way": label}), "True", "Probed");
    let redfish = json!({"address": address});
    device.spec.redfish = Some(serde_json::from_value(redfish).expect("a driver"));
    device
}

#[test]
fn two_devices_of_a_level_that_are_one_protect_nobody() {
    let assessed = |require: &str, addresses: [&str; 2]| {
        let levels = json!([{"name": "both", "require": require}]);
        let cluster = Cluster {
            policies: vec![policy("p", json!({"fence": {"levels": levels}}))],
            nodes: vec![node("w1", "True")],
            devices: vec![at("one", addresses[0]), at("two", addresses[1])],
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
