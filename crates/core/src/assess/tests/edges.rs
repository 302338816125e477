//! Where the numbers and the words of a policy's status change over.

use super::*;

fn remaining(extra: Value, fences: Vec<NodeFence>, ready: [&str; 3]) -> Option<u32> {
    let mut cluster = Cluster::healthy(vec![policy("p", extra)]);
    for (node, ready) in cluster.nodes.iter_mut().zip(ready) {
        *node = self::node(&node.name, ready);
    }
    cluster.fences = fences;
    cluster.status("p").budget_remaining
}

#[test]
fn a_conflict_counts_its_nodes_and_is_told_to_nobody_else() {
    let rival = json!({"priority": 1});
    let cluster = Cluster::healthy(vec![
        policy("a", rival.clone()),
        policy("b", rival),
        policy("c", json!({})),
    ]);
    let (shown, words) = ready(&cluster.status("b"));
    assert_eq!(shown, "False/Conflict");
    assert!(
        words.ends_with("(and 2 more of its nodes are contested)"),
        "{words}"
    );
    assert_eq!(ready(&cluster.status("c")).0, "True/NoNodes");
}

#[test]
fn who_has_claimed_its_node_takes_a_place_in_the_budget_and_nobody_else_does() {
    let open = |stage: Stage| fence("p", stage, "Unknown", None);
    let with = |mut fence: NodeFence, extra: Value| {
        let status = serde_json::to_value(&fence.status).expect("a status");
        let mut status = status.as_object().cloned().expect("a status");
        status.extend(extra.as_object().cloned().expect("an object"));
        fence.status = serde_json::from_value(status.into()).expect("a status");
        fence
    };
    let claimed = |stage: Stage| with(open(stage), json!({"claim": "f.1"}));
    let held = |mut fence: NodeFence, status: &str| {
        let held = serde_json::from_value(condition(HELD, status, "Budget")).expect("a condition");
        let status = fence.status.as_mut().expect("a status");
        status.conditions.push(held);
        fence
    };
    let at = "2026-01-01T00:00:00Z";
    let tainted = json!({"taintAppliedTime": at});
    let released = json!({"taintAppliedTime": at, "taintRemovedTime": at});
    let cases = [
        (open(Stage::Checking), false, 1),
        (open(Stage::AwaitingApproval), true, 1),
        (open(Stage::Held), true, 1),
        (open(Stage::Observing), false, 1),
        (held(open(Stage::Checking), "True"), true, 1),
        (held(open(Stage::Checking), "False"), false, 1),
        (claimed(Stage::Quiescing), false, 0),
        // It waits for the taint of somebody else, under its claim.
        (held(claimed(Stage::Held), "True"), true, 0),
        (with(open(Stage::Detaching), tainted), false, 0),
        (with(open(Stage::PoweringOn), released), false, 1),
    ];
    for (fence, is_held, left) in cases {
        let mut cluster =
            Cluster::healthy(vec![policy("p", json!({"budget": {"maxConcurrent": 1}}))]);
        cluster.fences = vec![fence.clone()];
        let status = cluster.status("p");
        let found = (status.held_incidents, status.budget_remaining);
        assert_eq!(found, (Some(u32::from(is_held)), Some(left)), "{fence:?}");
    }
}

#[test]
fn just_enough_nodes_are_no_storm_and_a_fence_counts_for_less_than_an_hour() {
    let most = || json!({"budget": {"minHealthy": 2}});
    let (two, one) = (["True", "True", "Unknown"], ["True", "Unknown", "Unknown"]);
    assert_eq!(remaining(most(), Vec::new(), two), Some(2));
    assert_eq!(remaining(most(), Vec::new(), one), Some(0));

    let once = || json!({"budget": {"maxPerHour": 1}});
    let approved = |second| vec![fence("p", Stage::Recovered, "True", Some(second))];
    assert_eq!(remaining(once(), approved(NOW - 3600), two), Some(1));
    assert_eq!(remaining(once(), approved(NOW - 3599), two), Some(0));
}

#[test]
fn five_nodes_are_named_and_of_six_that_there_are_more() {
    let words = |names: &[&str]| {
        let mut cluster = Cluster::healthy(vec![policy("p", json!({}))]);
        cluster
            .nodes
            .extend(names.iter().map(|name| node(name, "True")));
        ready(&cluster.status("p")).1
    };
    let five = words(&["n1", "n2", "n3", "n4", "n5"]);
    assert!(five.contains("(n1, n2, n3, n4, n5)"), "{five}");
    let six = words(&["n1", "n2", "n3", "n4", "n5", "n6"]);
    assert!(six.contains("(n1, n2, n3, n4, n5, …)"), "{six}");
}

#[test]
fn a_wait_as_long_as_the_grace_period_is_not_hasty() {
    let waits = |seconds: u32| {
        let condition = json!({"type": "Ready", "status": "Unknown", "durationSeconds": seconds});
        let extra = json!({"unhealthyConditions": [condition]});
        ready(&Cluster::healthy(vec![policy("p", extra)]).status("p")).1
    };
    assert!(waits(39).contains("warning: "));
    assert!(!waits(40).contains("warning: "));
}

/// S18: whoever asks why a node is not fenced looks at its policy.
#[test]
fn a_policy_of_a_cluster_that_went_back_does_not_act() {
    let mut cluster = Cluster::healthy(vec![policy("p", json!({}))]);
    cluster.frozen = Some("the versions went back; look, then restart the operator");
    let words = "nothing is fenced: the versions went back; look, then restart the operator";
    let expected = ("False/ClusterWentBack".to_owned(), words.to_owned());
    assert_eq!(ready(&cluster.status("p")), expected);
}
