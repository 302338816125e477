//! Who has a place in the budget, by what is on the Node.

use super::*;
use crate::api::policy::NodeFencingPolicy;
use crate::core::taint::NodePatch;
use crate::shell::brakes::Applicant;
use tokio::task::JoinSet;

const FENCES: &str = "GET /apis/nodefencing.io/v1alpha1/nodefences";
const POLICIES: &str = "GET /apis/nodefencing.io/v1alpha1/nodefencingpolicies";

/// One fence may be under way at a time.
fn policy() -> Value {
    json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFencingPolicy",
        "metadata": {"name": "prod", "uid": "uid-prod", "generation": 1},
        "spec": {
            "nodeSelector": {}, "budget": {"maxConcurrent": 1, "minHealthy": 0},
            "fence": {"mode": "PowerOff"},
        },
    })
}

/// A NodeFence of policy `prod` that is bound to its Node.
fn of_the_policy(name: &str, node: &str, status: Value) -> Value {
    let mut fence = fence_object("7", of_the_node(status));
    fence["metadata"]["name"] = json!(name);
    fence["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
    fence["spec"]["nodeName"] = json!(node);
    fence["spec"]["policyName"] = json!("prod");
    fence["spec"]["trigger"] = json!({"type": "NodeCondition"});
    fence
}

/// A process that has just begun, where `fence` of `worker-1` and `other` of `worker-2`, with this record, are open.
struct Lab {
    cluster: Cluster,
    context: Arc<Context>,
    mine: NodeFence,
    other: NodeFence,
    _watches: JoinSet<()>,
}

impl Lab {
    async fn new(node: Value, mine: Value, other: Value) -> Self {
        let cluster = cluster(node).await;
        let mine = of_the_policy("fence", "worker-1", mine);
        let other = of_the_policy("other", "worker-2", other);
        let fences = fake::list("NodeFence", "7", &[mine.clone(), other.clone()]);
        cluster.put(FENCES, 200, fences);
        let policies = fake::list("NodeFencingPolicy", "7", &[policy()]);
        cluster.put(POLICIES, 200, policies);
        cluster.put(FENCE, 200, mine.clone());
        let (context, watches) = cluster.watching();
        let fences = context.caches.fences.clone();
        fences.wait_until_ready().await.expect("the NodeFences");
        let policies = context.caches.policies.clone();
        policies.wait_until_ready().await.expect("the policy");
        Self {
            cluster,
            context,
            mine: decoded(mine),
            other: decoded(other),
            _watches: watches,
        }
    }
}

/// S13: the Node was seen without the claim, another fence has the only place since, and then the claim lands: it is given back. One that
/// was there from the beginning is of the process before this one, and is taken over.
#[tokio::test]
async fn a_claim_that_lands_when_its_place_is_taken_is_given_back() {
    for is_late in [true, false] {
        let mine = if is_late {
            json!({})
        } else {
            json!({"claim": "fence-n1"})
        };
        let lab = Lab::new(unclaimed(), mine, json!({"claim": "other-n1"})).await;
        let incidents = Incidents::default();
        if is_late {
            run(&lab.context, &incidents, &lab.mine).await;
        }
        lab.cluster.put(NODE, 200, fake::node());
        run(&lab.context, &incidents, &lab.mine).await;
        let writes = sent(&lab.cluster, PATCH_NODE);
        let operations = writes.first().and_then(Value::as_array);
        let last = operations.and_then(|it| it.last()).expect("a write");
        let expected = if is_late { "remove" } else { "replace" };
        assert_eq!(last["op"], expected, "{writes:?}");
    }
}

/// L5: who has given its claim back makes room at once. Without an answer nobody knows yet that it is gone.
#[tokio::test]
async fn a_claim_that_is_given_back_makes_room_for_another_fence() {
    let lab = Lab::new(fake::node(), json!({}), json!({})).await;
    let policy: NodeFencingPolicy = serde_json::from_value(policy()).expect("a policy");
    let applicant = |fence| Applicant {
        fence,
        policy: Some(&policy),
        approved: false,
    };
    let brakes = &lab.context.brakes;
    let taken = brakes.admit(&lab.context, &applicant(&lab.mine));
    taken.expect("a place");
    let incident = Incidents::default().begin(lab.mine.clone());
    let mut incident = incident.lock().await;
    let round = Round {
        context: &lab.context,
        fence: &lab.mine,
        incident: &mut incident,
    };
    let refused = failure(503, "later").1;
    for (code, answer, is_free) in [(503, refused, false), (200, fake::node(), true)] {
        lab.cluster.put(PATCH_NODE, code, answer);
        let patch = NodePatch {
            node: "worker-1".to_owned(),
            operations: json!([]),
            valid_from: Duration::ZERO,
            valid_until: None,
        };
        round.drop_claim(patch).await;
        let judged = brakes.look(&lab.context, &applicant(&lab.other));
        assert_eq!(judged.is_ok(), is_free, "{code} {judged:?}");
    }
}
