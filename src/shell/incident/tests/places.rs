//! Who has a place in the budget, by what is on the Node.

use super::*;
use crate::shell::brakes::Applicant;
use fencing_api::policy::NodeFencingPolicy;
use fencing_core::observed::{NodeView, Observed, Read};
use fencing_core::settings::Approval;
use fencing_core::taint::NodePatch;
use tokio::task::JoinSet;

pub(super) const FENCES: &str = "GET /apis/nodefencing.io/v1alpha1/nodefences";
const POLICIES: &str = "GET /apis/nodefencing.io/v1alpha1/nodefencingpolicies";

/// How long what a fence of the policy has sent may take to land.
pub(super) const POLICY_LANDING: Duration = Duration::from_secs(690);

/// One fence may be under way at a time.
fn policy() -> Value {
    json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFencingPolicy",
        "metadata": {"name": "prod", "uid": "uid-prod", "generation": 1},
        "spec": {
            "nodeSelector": {}, "budget": {"maxConcurrent": 1, "minHealthy": 0},
            "fence": {
                "mode": "PowerOff", "levels": [{"name": "a", "timeoutSeconds": 90}], "verification": {"lateEffectSeconds": 600},
            },
        },
    })
}

/// A NodeFence of policy `prod` that is bound to its Node.
pub(super) fn of_the_policy(name: &str, node: &str, status: Value) -> Value {
    let mut fence = fence_object("7", of_the_node(status));
    fence["metadata"]["name"] = json!(name);
    fence["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
    fence["spec"]["nodeName"] = json!(node);
    fence["spec"]["policyName"] = json!("prod");
    fence["spec"]["trigger"] = json!({"type": "NodeCondition"});
    fence
}

/// A process that has just begun, where `fence` of `worker-1` and `other` of `worker-2`, with this record, are open.
pub(super) struct Lab {
    pub(super) cluster: Cluster,
    pub(super) context: Arc<Context>,
    pub(super) mine: NodeFence,
    other: NodeFence,
    _watches: JoinSet<()>,
}

impl Lab {
    async fn new(node: Value, mine: Value, other: Value) -> Self {
        let nodes = fake::list("Node", "7", &[]);
        Self::with_nodes(node, mine, other, nodes).await
    }

    async fn with_nodes(node: Value, mine: Value, other: Value, nodes: Value) -> Self {
        let mine = of_the_policy("fence", "worker-1", mine);
        let other = of_the_policy("other", "worker-2", other);
        Self::with_fences(node, mine, other, nodes).await
    }

    pub(super) async fn with_fences(node: Value, mine: Value, other: Value, nodes: Value) -> Self {
        let cluster = cluster(node).await;
        cluster.put("GET /api/v1/nodes", 200, nodes);
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
        let nodes = context.caches.nodes.clone();
        nodes.wait_until_ready().await.expect("the Nodes");
        Self {
            cluster,
            context,
            mine: decoded(mine),
            other: decoded(other),
            _watches: watches,
        }
    }
}

/// S13: the Node was seen without the claim, another fence has the only place since, and then the claim lands. It is given back: at once if
/// this process has sent it, otherwise when no record has named it for a minute. One that was there from the beginning is of the process
/// before this one, and is taken over.
#[tokio::test]
async fn a_claim_that_lands_when_its_place_is_taken_is_given_back() {
    for (is_late, is_own) in [(true, false), (true, true), (false, false)] {
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
        if is_own {
            let incident = incidents.get(&lab.mine).expect("an incident");
            incident.lock().await.sent_claims = vec!["fence-n1".to_owned()];
        }
        run(&lab.context, &incidents, &lab.mine).await;
        if is_late && !is_own {
            assert_eq!(sent(&lab.cluster, PATCH_NODE), Vec::<Value>::new());
            let incident = incidents.get(&lab.mine).expect("an incident");
            let mut incident = incident.lock().await;
            let unnamed = incident.unnamed_claim.as_mut();
            unnamed.expect("a claim that nobody knows").1 = Duration::ZERO;
            drop(incident);
            run(&lab.context, &incidents, &lab.mine).await;
        }
        let writes = sent(&lab.cluster, PATCH_NODE);
        let operations = writes.first().and_then(Value::as_array);
        let last = operations.and_then(|it| it.last()).expect("a write");
        let expected = if is_late { "remove" } else { "replace" };
        assert_eq!(last["op"], expected, "{writes:?}");
    }
}

/// S13: another process has claimed the Node since this one looked, and says so in the NodeFence: it keeps its claim.
#[tokio::test]
async fn a_claim_that_the_record_names_by_now_keeps_its_place() {
    let lab = Lab::new(unclaimed(), json!({}), json!({"claim": "other-n1"})).await;
    let incidents = Incidents::default();
    run(&lab.context, &incidents, &lab.mine).await;
    lab.cluster.put(NODE, 200, fake::node());
    let named = of_the_policy("fence", "worker-1", json!({"claim": "fence-n1"}));
    run(&lab.context, &incidents, &decoded(named)).await;
    let incident = incidents.get(&lab.mine).expect("an incident");
    let incident = incident.lock().await;
    assert_eq!(incident.unnamed_claim, None);
    let stage = incident.memory.stage.map(|(stage, _)| stage);
    assert_eq!(stage, Some(Stage::Held));
    assert_eq!(sent(&lab.cluster, PATCH_NODE), Vec::<Value>::new());
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

/// L5: the only control-plane node may be down for ever, and is never fenced. Younger incidents do not wait for it.
#[tokio::test]
async fn who_waits_for_the_quorum_keeps_no_place_free() {
    let mut node = unclaimed();
    node["metadata"]["labels"] = json!({"node-role.kubernetes.io/control-plane": ""});
    let nodes = fake::list("Node", "7", &[node.clone()]);
    let lab = Lab::with_nodes(node, json!({}), json!({}), nodes).await;
    run(&lab.context, &Incidents::default(), &lab.mine).await;
    let policy: NodeFencingPolicy = serde_json::from_value(policy()).expect("a policy");
    let applicant = |fence| Applicant {
        fence,
        policy: Some(&policy),
        approved: false,
    };
    let brakes = &lab.context.brakes;
    let judged = |fence| brakes.look(&lab.context, &applicant(fence));
    let held = judged(&lab.mine).map_err(|hold| hold.reason.as_str());
    assert_eq!(held, Err("Quorum"));
    assert_eq!(judged(&lab.other), Ok(()));
}

/// The policy with this entry of `pauseRequests`.
fn paused(expires: &str) -> Value {
    let mut policy = policy();
    policy["spec"]["pauseRequests"] = json!([{"name": "ops", "expireTime": expires}]);
    policy
}

/// S13: what was opened before somebody paused the policy, or began to work on the node.
#[tokio::test]
async fn an_open_incident_is_held_while_its_policy_keeps_its_hands_off_the_node() {
    let (future, past) = ("2099-01-01T00:00:00Z", "2001-01-01T00:00:00Z");
    let usual = fixtures::settings;
    let by_human = || Settings {
        human: true,
        ..usual()
    };
    let approved = || Settings {
        approval: Approval::Approved("alice".to_owned()),
        ..usual()
    };
    let cordoned = || NodeView {
        unschedulable: true,
        ..fixtures::node()
    };
    let lab = Lab::new(unclaimed(), json!({}), json!({})).await;
    let incident = Incidents::default().begin(lab.mine.clone());
    let mut incident = incident.lock().await;
    incident.memory.claim = Some(fixtures::own_claim("fence-n1"));
    let mut round = Round {
        context: &lab.context,
        fence: &lab.mine,
        incident: &mut incident,
    };
    for (policy, node, settings, held_for, ends) in [
        (policy(), fixtures::node(), usual(), None, false),
        (
            paused(future),
            fixtures::node(),
            usual(),
            Some("Paused"),
            true,
        ),
        (paused(past), fixtures::node(), usual(), None, false),
        (policy(), cordoned(), usual(), Some("Excluded"), false),
        // An approval says that the machine may be fenced, and not when.
        (policy(), cordoned(), approved(), Some("Excluded"), false),
        (policy(), cordoned(), by_human(), None, false),
        // Its claim stands: the fence goes on.
        (
            paused(future),
            fixtures::claimed("fence-n1"),
            usual(),
            None,
            false,
        ),
        // It is seen without a claim, and one that it has given up lands: it does not.
        (policy(), fixtures::node(), usual(), None, false),
        (
            paused(future),
            fixtures::claimed("fence-n0"),
            usual(),
            Some("Paused"),
            false,
        ),
        (
            paused(future),
            fixtures::claimed("fence-n0"),
            by_human(),
            None,
            false,
        ),
    ] {
        let mut observed = Observed {
            node: Read::Present(node),
            ..fixtures::drained()
        };
        let decoded = serde_json::from_value(policy.clone()).expect("a policy");
        let until = round.admit(&settings, &mut observed, Some(&decoded));
        let reason = observed.hold.map(|hold| hold.reason.as_str());
        assert_eq!((reason, until.is_some()), (held_for, ends), "{policy}");
    }
}

/// L5, HOLES C2: a pod that nobody deletes keeps its own node from being fenced, past its deadline, and no other.
#[tokio::test]
async fn a_quiesce_past_its_deadline_makes_room_for_another_fence() {
    let pod = "GET /api/v1/namespaces/default/pods/db-0";
    for (since, is_free) in [(clock::since_boot(), false), (Duration::ZERO, true)] {
        let mut mine = of_the_policy("fence", "worker-1", json!({"claim": "fence-n1"}));
        mine["spec"]["fence"] = policy()["spec"]["fence"].clone();
        let other = of_the_policy("other", "worker-2", json!({}));
        let nodes = fake::list("Node", "7", &[]);
        let lab = Lab::with_fences(fake::node(), mine, other, nodes).await;
        let stays = json!({"metadata": {"name": "db-0", "namespace": "default", "uid": "uid-db-0"}, "spec": {"containers": []}});
        lab.cluster.put(pod, 200, stays);
        let incidents = Incidents::default();
        let incident = incidents.begin(lab.mine.clone());
        let mut incident = incident.lock().await;
        let runs = fencing_core::observed::PodView {
            deleting: false,
            ..fixtures::pod("db-0")
        };
        let memory = &mut incident.memory;
        memory.claim = Some(fixtures::own_claim("fence-n1"));
        memory.under_claim.lease_before = Some(fixtures::lease());
        memory.under_claim.quiesce.listed = Some([runs.uid.clone()].into());
        memory.under_claim.quiesce.starting = vec![runs];
        memory.stage = Some((Stage::Quiescing, since));
        incident.moments.not_before = Duration::ZERO;
        drop(incident);
        run(&lab.context, &incidents, &lab.mine).await;
        let policy: NodeFencingPolicy = serde_json::from_value(policy()).expect("a policy");
        let applicant = Applicant {
            fence: &lab.other,
            policy: Some(&policy),
            approved: false,
        };
        let judged = lab.context.brakes.look(&lab.context, &applicant);
        assert_eq!(judged.is_ok(), is_free, "{judged:?}");
    }
}
