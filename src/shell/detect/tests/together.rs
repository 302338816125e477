//! Nodes that are due at the same time.

use super::*;

/// L1: of a storm the last would wait for the requests of all others. And each that could not be opened is tried again.
#[tokio::test]
async fn nodes_that_are_due_together_are_read_before_the_first_record_is_written() {
    let cluster = Cluster::new().await;
    let names = ["worker-1", "worker-2"].map(str::to_owned);
    let nodes = names.each_ref().map(|name| {
        let mut node = node("Unknown", false, false);
        node["metadata"]["name"] = json!(name);
        cluster.put(&format!("GET /api/v1/nodes/{name}"), 200, node.clone());
        node
    });
    let nodes = fake::list("Node", "7", &nodes);
    cluster.put("GET /api/v1/nodes", 200, nodes);
    let policies = fake::list("NodeFencingPolicy", "7", &[policy()]);
    let path = "GET /apis/nodefencing.io/v1alpha1/nodefencingpolicies";
    cluster.put(path, 200, policies);
    let (context, _watches) = cluster.watching();
    let caches = &context.caches;
    caches.nodes.wait_until_ready().await.expect("the Nodes");
    caches.policies.wait_until_ready().await.expect("policies");
    let mut detector = Detector::new(context.clone());
    for name in &names {
        let node = caches.node(name).expect("it is there");
        let onsets = detector.onsets.entry(name.clone()).or_default();
        onsets.note(&node.view, clock::since_boot());
    }
    detector.open_incidents(&names).await;
    let is_one = |line: &String| line.starts_with("GET /api/v1/nodes/") || line.starts_with("POST");
    let requests = cluster.requests();
    let verbs = requests.iter().filter(|line| is_one(line));
    let verbs: Vec<_> = verbs.map(|line| line.split(' ').next()).collect();
    let expected = ["GET", "GET", "POST", "POST"];
    assert_eq!(verbs, expected.map(Some), "{requests:?}");
    assert_eq!(detector.due.len(), names.len());
}
