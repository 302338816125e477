//! What this process has found of a device, and what stands in its status.

use super::*;

#[test]
fn what_this_process_has_found_counts_before_the_status() {
    let cluster = Cluster::healthy(vec![policy("p", json!({}))]);
    let devices: Vec<&FenceDevice> = cluster.devices.iter().collect();
    let assessment = assess(&World {
        policies: &cluster.policies,
        nodes: &cluster.nodes.iter().collect::<Vec<_>>(),
        devices: &devices,
        fences: &[],
        attached: &BTreeMap::new(),
        served: &Served::NotAsked,
        delays: &[],
        frozen: None,
        lacks: None,
        lacks_early: None,
        found: &|_, node| (node == "w2").then_some(Readiness::NotReady),
        targets: &same::target,
        now: wall(NOW),
    });
    assert_eq!(assessment.protected.get("w2"), Some(&false));
    assert_eq!(assessment.protected.get("w1"), Some(&true));
}

#[test]
fn a_fleet_is_ready_for_the_nodes_it_does_not_name() {
    let fleet = |total: u32, ready: u32, named: &[&str]| -> FenceDevice {
        let status = if total == ready && total > 0 {
            "True"
        } else {
            "False"
        };
        serde_json::from_value(json!({
            "apiVersion": "nodefencing.io/v1alpha1",
            "kind": "FenceDevice",
            "metadata": {"name": "fleet", "generation": 1},
            "spec": {"nodeSelector": {}},
            "status": {
                "observedGeneration": 1, "conditions": [condition(READY, status, "Timeout")],
                "nodes": {"total": total, "ready": ready}, "notReadyNodes": named,
            },
        }))
        .expect("a device")
    };
    let table = [
        (fleet(3, 3, &[]), "w1", Readiness::Ready),
        (fleet(3, 2, &["w1"]), "w1", Readiness::NotReady),
        (fleet(3, 2, &["w1"]), "w2", Readiness::Ready),
        // Not all are named, so nothing is known of the others.
        (fleet(90, 30, &["w1"]), "w2", Readiness::NotReady),
        // As far as it knows it serves nobody yet.
        (fleet(0, 0, &[]), "w1", Readiness::NotReady),
    ];
    for (device, node, expected) in table {
        assert_eq!(stored_readiness(&device, node), expected);
    }
}
