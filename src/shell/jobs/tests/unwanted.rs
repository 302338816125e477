//! S11, S15, S21: somebody says no while the command waits for its turn. The round sees it only when its cache does, so the command asks itself.

use super::*;
use fencing_core::observed::DETACHING;

pub(super) const FENCE: &str = "GET /apis/nodefencing.io/v1alpha1/nodefences/fence";
const POLICIES: &str = "GET /apis/nodefencing.io/v1alpha1/nodefencingpolicies";

/// A human's, with the intent of [`fixtures::attempt`] in its record.
pub(super) fn fence() -> Value {
    json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence",
        "metadata": {"name": "fence", "uid": "uid-fence", "resourceVersion": "9"},
        "spec": {
            "nodeName": "worker-1", "trigger": {"type": "Manual", "requestedBy": "alice", "reason": "dark"},
            "fence": {"mode": "PowerOff"}, "recovery": {}, "release": {}, "powerOn": {},
        },
        "status": {"attempts": [{
            "id": "n1-1", "device": "bmc", "level": "level", "action": "PowerOff", "startTime": "2026-01-01T00:00:00Z",
        }]},
    })
}

/// The policy's own, which asks for the mode that is in it.
fn policy_s() -> Value {
    let mut fence = fence();
    fence["spec"]["trigger"] = json!({"type": "NodeCondition"});
    fence["spec"]["policyName"] = json!("policy");
    fence["spec"]["policyGeneration"] = json!(1);
    fence
}

fn changed(pointer: &str, value: Value) -> (u16, Value) {
    let mut fence = fence();
    let (parent, field) = pointer.rsplit_once('/').expect("a field");
    fence.pointer_mut(parent).expect("its object")[field] = value;
    (200, fence)
}

/// Each no, as it stands in the NodeFence, and a word of what is said of it.
fn noes() -> Vec<(&'static str, (u16, Value))> {
    let denial = json!({
        "decision": "Denied", "user": "alice", "reason": "I work there", "time": "2026-01-01T00:00:00Z",
    });
    let ended = json!([{
        "type": "Succeeded", "status": "False", "reason": "Aborted", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]);
    let done = json!("2026-01-01T00:00:01Z");
    vec![
        (
            "`spec.desiredState: Released`",
            changed("/spec/desiredState", json!("Released")),
        ),
        (
            "denied by alice: I work there",
            changed("/spec/approval", denial),
        ),
        ("has ended", changed("/status/conditions", ended)),
        ("is gone", failure(404, "not found")),
        ("etcd is slow", failure(500, "etcd is slow")),
        (
            "off command n1-1 is no longer in",
            changed("/status/attempts", json!([])),
        ),
        (
            "off command n1-1 is no longer in",
            changed("/status/attempts/0/action", json!("PowerOn")),
        ),
        (
            "off command n1-1 is no longer in",
            changed("/status/attempts/0/completionTime", done),
        ),
    ]
}

#[tokio::test]
async fn against_a_no_that_came_meanwhile_nothing_is_sent() {
    for (word, (status, fence)) in noes() {
        let lab = Lab::new().await;
        lab.cluster.put(FENCE, status, fence);
        let result = lab.off(Some("fence-n1")).await;
        // It may not land late (S23): nothing has left.
        let is_said = matches!(&result, OffResult::NotSent(why) if why.contains(word));
        assert!(is_said && result.is_settled(), "{word}: {result:?}");
        assert_eq!(lab.requests(), [SYSTEM, NODE], "{word}");
    }
}

/// S15: so it is if the policy has gone, or asks for less, or no longer selects the node.
#[tokio::test]
async fn without_the_policy_that_asked_for_it_nothing_is_sent() {
    let policy = |spec: Value| {
        json!({
            "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFencingPolicy",
            "metadata": {"name": "policy", "uid": "uid-policy", "resourceVersion": "7", "generation": 2},
            "spec": spec,
        })
    };
    let spec = |mode: &str, labels: Value| {
        json!({
            "nodeSelector": {"matchLabels": labels},
            "unhealthyConditions": [{"type": "Ready", "status": "Unknown", "durationSeconds": 60}],
            "fence": {"mode": mode, "levels": [{"name": "level"}]},
        })
    };
    let wanted = policy(spec("PowerOff", json!({})));
    for (word, policies) in [
        ("", vec![wanted]),
        ("was deleted", vec![]),
        ("was narrowed", vec![policy(spec("ConfirmOnly", json!({})))]),
        (
            "no longer selects",
            vec![policy(spec("PowerOff", json!({"rack": "7"})))],
        ),
    ] {
        let lab = Lab::serving(|cluster| {
            let policies = fake::list("NodeFencingPolicy", "7", &policies);
            cluster.put(POLICIES, 200, policies);
        })
        .await;
        let known = lab.context.caches.policies.clone();
        known.wait_until_ready().await.expect("the policies");
        lab.cluster.put(FENCE, 200, policy_s());
        match (lab.off(Some("fence-n1")).await, word) {
            (OffResult::Accepted, "") => {}
            (OffResult::NotSent(why), word) if !word.is_empty() && why.contains(word) => {}
            (other, _) => panic!("{word}: {other:?}"),
        }
    }
}

/// S12, S15: under the taint, or the mark of a Node that is to go, what comes back is turned off again, whatever anybody says by then.
#[tokio::test]
async fn under_the_taint_no_no_leaves_the_machine_on() {
    let mut marked = fake::node();
    let mut mark = fake::out_of_service();
    mark["key"] = json!(DETACHING);
    mark["value"] = json!("boot-1");
    let taints = marked["spec"]["taints"].as_array_mut().expect("taints");
    taints.push(mark);
    for node in [fake::tainted(), marked] {
        for (word, (status, fence)) in noes() {
            let lab = Lab::new().await;
            lab.cluster.put(NODE, 200, node.clone());
            lab.cluster.put(FENCE, status, fence);
            assert_eq!(
                lab.off(Some("fence-n1")).await,
                OffResult::Accepted,
                "{word}"
            );
        }
    }
    let lab = Lab::new().await;
    lab.cluster.put(NODE, 200, fake::tainted());
    lab.cluster
        .delay(FENCE, CLAIM_LIFE + Duration::from_millis(500));
    assert_eq!(lab.off(Some("fence-n1")).await, OffResult::Accepted);
}

/// F12: the no is asked for no longer before the command than the claim is.
#[tokio::test]
async fn a_nodefence_that_was_asked_for_too_long_ago_sends_nothing() {
    let lab = Lab::new().await;
    lab.cluster
        .delay(FENCE, CLAIM_LIFE + Duration::from_millis(100));
    lab.sends_nothing().await;
}

/// S11: what was written down is what is told; a device that was changed since is written down anew.
#[tokio::test]
async fn a_device_that_was_changed_since_the_intent_is_not_turned_off() {
    for (version, is_sent) in [("uid-bmc/1", true), ("uid-bmc/0", false)] {
        let lab = Lab::new().await;
        let attempt = Attempt {
            versions: [("bmc".to_owned(), version.to_owned())].into(),
            ..fixtures::attempt()
        };
        let order = DeviceOrder::Off(attempt);
        let DeviceReply::Commanded { mut results, .. } = lab.run(order, Some("fence-n1")).await
        else {
            panic!("another answer");
        };
        let result = results.remove("bmc").expect("a result");
        let expected = match is_sent {
            true => matches!(result, OffResult::Accepted),
            false => matches!(result, OffResult::NotSent(_)),
        };
        assert!(expected, "{version}: {result:?}");
        assert_eq!(lab.requests().contains(&RESET.to_owned()), is_sent);
    }
}

const LEASE: &str = "GET /apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/worker-1";

/// The off command of a silent node, claimed when its Lease was of `before`; now it is of `now`.
async fn off_with_lease(lab: &Lab, before: &str, now: &Value) -> OffResult {
    lab.cluster.put(LEASE, 200, now.clone());
    let job = Job {
        heard: Heard::default(),
        early: None,
        order: DeviceOrder::Off(fixtures::attempt()),
        level: fixtures::level(),
        limit: Duration::from_secs(10),
        settings: fixtures::settings(),
        claim: Some(fixtures::own_claim("fence-n1")),
        lease: Some(LeaseView {
            renew_time: before.to_owned(),
        }),
    };
    match run(&lab.context, &job).await {
        DeviceReply::Commanded { mut results, .. } => results.remove("bmc").expect("a result"),
        other => panic!("{other:?}"),
    }
}

/// A kubelet that is reached again renews its Lease up to 10 s before it reports (HOLES B2).
#[tokio::test]
async fn a_lease_that_has_moved_since_the_claim_sends_nothing() {
    let (then, since) = ("2026-01-02T00:00:00.000000Z", "2026-01-02T00:00:10.000000Z");
    let lease = |time: &str| json!({"metadata": {"name": "worker-1", "uid": "uid-lease"}, "spec": {"renewTime": time}});
    let lab = Lab::new().await;
    let result = off_with_lease(&lab, then, &lease(since)).await;
    let words = result.message();
    assert!(matches!(result, OffResult::NotSent(_)), "{words}");
    assert!(words.contains("renewed its Lease"), "{words}");
    assert_eq!(lab.requests(), [SYSTEM, NODE]);
    let result = off_with_lease(&lab, then, &lease(then)).await;
    assert_eq!(result, OffResult::Accepted);
}

/// Without it nothing shows that the node is still silent.
#[tokio::test]
async fn without_the_lease_nothing_is_sent() {
    let lab = Lab::new().await;
    let another = json!({"metadata": {"name": "worker-2", "uid": "uid-lease"}, "spec": {}});
    let result = off_with_lease(&lab, "2026-01-02T00:00:00.000000Z", &another).await;
    let words = result.message();
    assert!(matches!(result, OffResult::NotSent(_)), "{words}");
}
