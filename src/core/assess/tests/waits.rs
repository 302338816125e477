//! Unhealthy nodes that have to wait, as the policy's condition tells of them.

use super::*;

#[test]
fn unhealthy_nodes_that_wait_are_told_of_and_a_crowd_is_counted() {
    let waits = |policy: &str, node: &str| Delayed {
        node: node.to_owned(),
        policy: policy.to_owned(),
        until: std::time::Duration::ZERO,
        words: format!("Node {node} waits"),
    };
    let mut cluster = Cluster::healthy(vec![
        policy("p", json!({})),
        policy("q", json!({"priority": -1})),
    ]);
    cluster.delays = vec![waits("p", "w1"), waits("other", "w9")];
    let (reason, words) = ready(&cluster.status("p"));
    assert_eq!(reason, "True/Active");
    assert!(words.ends_with("; Node w1 waits"), "{words}");
    assert!(!ready(&cluster.status("q")).1.contains("waits"));

    cluster.delays = (0..7)
        .map(|number| waits("p", &format!("n{number}")))
        .collect();
    let (_, words) = ready(&cluster.status("p"));
    assert!(
        words.ends_with("; Node n4 waits; 2 more of its nodes wait too"),
        "{words}"
    );
}
