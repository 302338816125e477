//! What is deleted, and that nothing is in a cluster that went back in time.

use super::*;
use crate::shell::fake::{self, Cluster};
use serde_json::json;

const API: &str = "/apis/nodefencing.io/v1alpha1";

/// A policy that keeps no record for longer than a minute, and a record that ended in 1970.
async fn cluster() -> Cluster {
    let policy = json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFencingPolicy",
        "metadata": {"name": "prod"},
        "spec": {"nodeSelector": {}, "history": {"ttlSeconds": 60}, "fence": {"mode": "PowerOff"}},
    });
    let succeeded = json!({
        "type": "Succeeded", "status": "True", "reason": "Recovered", "message": "",
        "lastTransitionTime": "1970-01-01T00:00:00Z",
    });
    let fence = json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence",
        "metadata": {"name": "fence", "uid": "uid-fence", "resourceVersion": "5"},
        "spec": {
            "nodeName": "worker-1", "policyName": "prod", "trigger": {"type": "NodeCondition"},
            "fence": {"mode": "PowerOff"}, "recovery": {}, "release": {}, "powerOn": {},
        },
        "status": {"conditions": [succeeded], "completionTime": "1970-01-01T00:00:00Z"},
    });
    let cluster = Cluster::new().await;
    for (kind, plural, object) in [
        ("NodeFencingPolicy", "nodefencingpolicies", policy),
        ("NodeFence", "nodefences", fence),
    ] {
        let list = fake::list(kind, "7", &[object]);
        cluster.put(&format!("GET {API}/{plural}"), 200, list);
    }
    cluster
}

/// S18.
#[tokio::test]
async fn an_old_record_is_deleted_but_not_in_a_cluster_that_went_back() {
    for went_back in [false, true] {
        let cluster = cluster().await;
        let (context, _watches) = cluster.watching();
        let (policies, fences) = (&context.caches.policies, &context.caches.fences);
        policies.wait_until_ready().await.expect("the policies");
        fences.wait_until_ready().await.expect("the NodeFences");
        if went_back {
            context.revision.saw(Some("120"));
            context.revision.note(120, Some("90"));
        }
        clear(&context).await;
        let requests = cluster.requests();
        let deletes = |line: &&String| line.starts_with("DELETE ");
        let deletions = requests.iter().filter(deletes).count();
        assert_eq!(deletions, usize::from(!went_back), "{requests:?}");
    }
}
