//! Unhealthy nodes that have to wait, as the policy's condition tells of them.

use super::*;
use crate::delay::Why;

#[test]
fn unhealthy_nodes_that_wait_are_told_of_and_a_crowd_is_counted() {
    let waits = |policy: &str, node: &str| Delayed {
        node: node.to_owned(),
        policy: policy.to_owned(),
        why: Why::Wait(std::time::Duration::ZERO),
        message: format!("Node {node} waits"),
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
        words.ends_with("; Node n4 waits; 2 more of its nodes are waiting"),
        "{words}"
    );
}

/// The clock of these tests stands at [`NOW`].
#[test]
fn an_entry_that_has_expired_pauses_nothing_and_is_told_of() {
    let entry = |expires: &str| json!({"name": "ops", "expireTime": expires});
    let says = |entries: Value| {
        let paused = policy("p", json!({"pauseRequests": entries}));
        ready(&Cluster::healthy(vec![paused]).status("p"))
    };
    let (shown, words) = says(json!([entry("2099-01-01T00:00:00Z")]));
    assert_eq!(shown, "False/Paused");
    assert!(
        words.contains("ops (until 2099-01-01T00:00:00Z)"),
        "{words}"
    );
    let (shown, words) = says(json!([entry("1970-01-01T00:00:00Z")]));
    assert_eq!(shown, "True/Active");
    let expired = "warning: entry ops of `pauseRequests` has no effect (expired at 1970-01-01T00:00:00Z); remove it";
    assert!(words.contains(expired), "{words}");
}
