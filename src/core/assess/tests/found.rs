//! What this process has found of a device, and what stands in its status.

use super::*;

#[test]
fn what_this_process_has_found_counts_before_the_status() {
    let cluster = Cluster::healthy(vec![policy("p", json!({}))]);
    let devices: Vec<&FenceDevice> = cluster.devices.iter().collect();
    let assessment = assess(&World {
        policies: &cluster.policies,
        nodes: &cluster.nodes,
        devices: &devices,
        fences: &[],
        attachers: &BTreeSet::new(),
        delays: &[],
        frozen: None,
        lacks: None,
        found: &|_, node| (node == "w2").then_some(Readiness::NotReady),
        targets: &same::target,
        now: wall(NOW),
    });
    assert_eq!(assessment.protected.get("w2"), Some(&false));
    assert_eq!(assessment.protected.get("w1"), Some(&true));
}
