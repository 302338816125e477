//! What has become of the node while its incident was held, or its claim was on its way.

use super::places::{FENCES, Lab, POLICY_LANDING, of_the_policy};
use super::*;
use fencing_core::observed::QUARANTINE;

/// The Node without a claim, under the quarantine of its boot, whose kubelet has last reported then.
fn quarantined(reported: &str) -> Value {
    let mut node = unclaimed();
    let taint = json!({"key": QUARANTINE, "value": "boot-1", "effect": "NoSchedule"});
    node["spec"]["taints"] = json!([taint]);
    node["status"]["conditions"][0]["lastHeartbeatTime"] = json!(reported);
    node
}

/// A human's NodeFence of the same Node that has ended, and had proven it down when its kubelet had last reported then.
fn of_a_human(reported: &str) -> Value {
    let mut fence = of_the_policy("other", "worker-1", json!({}));
    fence["spec"]["policyName"] = Value::Null;
    fence["spec"]["trigger"] = json!({"type": "Manual"});
    let succeeded = json!({
        "type": "Succeeded", "status": "True", "reason": "Recovered", "message": "",
        "lastTransitionTime": "2026-01-01T00:10:00Z",
    });
    fence["status"] = json!({
        "nodeUID": "uid-1", "bootID": "boot-1", "conditions": [succeeded],
        "completionTime": "2026-01-01T00:10:00Z", "taintAppliedTime": "2026-01-01T00:09:11Z",
        "evidence": {
            "claim": "other-n1", "nodeUID": "uid-1", "nodeBootID": "boot-1", "readyHeartbeatTime": reported,
            "quiescedTime": "2026-01-01T00:09:00Z", "provenTime": "2026-01-01T00:09:10Z",
        },
    });
    fence
}

/// Makes it one that is open yet, and turns the machine on in a moment.
fn turns_on(fence: &mut Value) {
    fence["spec"]["powerOn"] = json!({"policy": "AfterRecovery"});
    let succeeded = &mut fence["status"]["conditions"][0];
    succeeded["status"] = json!("Unknown");
    succeeded["reason"] = json!("PoweringOn");
}

/// S11: the policy's incident was held, somebody has fenced the node by a NodeFence of their own, and turns the machine on again: no kubelet
/// has reported yet, and nothing holds the incident any more.
#[tokio::test]
async fn an_open_incident_ends_when_another_nodefence_has_proven_the_machine_down() {
    let (then, later) = ("2026-01-01T00:00:00Z", "2026-01-01T00:20:00Z");
    for (why, by_human, outrun, reported, ends) in [
        ("everything is off it", false, false, then, true),
        ("its kubelet has reported", false, false, later, false),
        ("a human asks for one more", true, false, then, false),
        ("a human had asked before", true, true, then, true),
    ] {
        let mut mine = of_the_policy("fence", "worker-1", json!({}));
        if by_human {
            mine["spec"]["trigger"] = json!({"type": "Manual"});
        }
        let nodes = fake::list("Node", "7", &[]);
        let lab = Lab::with_fences(quarantined(reported), mine, of_a_human(then), nodes).await;
        let incidents = Incidents::default();
        let incident = incidents.begin(lab.mine.clone());
        incident.lock().await.memory.superseded = outrun;
        run(&lab.context, &incidents, &lab.mine).await;
        let written = sent(&lab.cluster, PATCH_FENCE);
        let is_end = |it: &Value| it["status"]["conditions"][0]["reason"] == "Aborted";
        assert_eq!(written.iter().any(is_end), ends, "{why}: {written:?}");
        assert_eq!(sent(&lab.cluster, PATCH_NODE), Vec::<Value>::new(), "{why}");
    }
}

/// S11: another NodeFence has released the node and may turn its machine on in a moment. A human who has asked for a fence meanwhile gets it, and
/// the policy's incident is held until that one has ended.
#[tokio::test]
async fn an_open_incident_does_not_end_for_one_that_may_turn_the_machine_on() {
    let then = "2026-01-01T00:00:00Z";
    for (why, by_human, is_open, power_on, ends, is_held) in [
        ("the policy's", false, true, "AfterRecovery", false, true),
        ("a human's", true, true, "AfterRecovery", false, false),
        ("it has ended", false, false, "AfterRecovery", true, false),
        (
            "the human's, ended",
            true,
            false,
            "AfterRecovery",
            true,
            false,
        ),
        ("it turns nothing on", true, true, "Never", true, false),
    ] {
        let mut mine = of_the_policy("fence", "worker-1", json!({}));
        if by_human {
            mine["spec"]["trigger"] = json!({"type": "Manual"});
        }
        let mut other = of_a_human(then);
        if is_open {
            turns_on(&mut other);
        }
        other["spec"]["powerOn"] = json!({"policy": power_on});
        let nodes = fake::list("Node", "7", &[]);
        let lab = Lab::with_fences(quarantined(then), mine, other, nodes).await;
        let incidents = Incidents::default();
        let incident = incidents.begin(lab.mine.clone());
        incident.lock().await.memory.superseded = true;
        run(&lab.context, &incidents, &lab.mine).await;
        let written = sent(&lab.cluster, PATCH_FENCE);
        let is_end = |it: &Value| it["status"]["conditions"][0]["reason"] == "Aborted";
        assert_eq!(written.iter().any(is_end), ends, "{why}: {written:?}");
        let incident = incident.lock().await;
        let conditions = &incident.status.conditions;
        let held = conditions.iter().any(|it| it.reason == "OtherNodeFence");
        assert_eq!(held, is_held, "{why}: {conditions:?}");
    }
}

/// S13: the claim's answer was lost, somebody cordons the node, and the claim lands: it is given back, and nothing is done under it. The same
/// of a process that has died before it wrote the claim down, once it cannot be at work any more. What the record names goes on.
#[tokio::test]
async fn a_claim_that_lands_while_somebody_works_on_the_node_is_given_back() {
    for (is_recorded, is_own, expected) in [
        (false, true, "remove"),
        (false, false, "remove"),
        (true, false, "replace"),
    ] {
        let mut node = fake::node();
        node["spec"]["unschedulable"] = json!(true);
        let status = match is_recorded {
            true => json!({"claim": "fence-n1"}),
            false => json!({}),
        };
        let mine = of_the_policy("fence", "worker-1", status);
        let other = of_the_policy("other", "worker-2", json!({}));
        let nodes = fake::list("Node", "7", &[]);
        let mut bare = unclaimed();
        bare["spec"]["unschedulable"] = json!(true);
        let first = if is_own { bare } else { node.clone() };
        let lab = Lab::with_fences(first, mine, other, nodes).await;
        let incidents = Incidents::default();
        let incident = incidents.begin(lab.mine.clone());
        if is_own {
            incident.lock().await.sent_claims = vec!["fence-n1".to_owned()];
        }
        run(&lab.context, &incidents, &lab.mine).await;
        lab.cluster.put(NODE, 200, node);
        if !is_own && !is_recorded {
            assert_eq!(sent(&lab.cluster, PATCH_NODE), Vec::<Value>::new());
            let mut incident = incident.lock().await;
            let unnamed = incident.unnamed_claim.as_mut();
            unnamed.expect("a claim that nobody knows").1 = Duration::ZERO;
        }
        run(&lab.context, &incidents, &lab.mine).await;
        let writes = sent(&lab.cluster, PATCH_NODE);
        let operations = writes.first().and_then(Value::as_array);
        let last = operations.and_then(|it| it.last()).expect("a write");
        assert_eq!(last["op"], expected, "{writes:?}");
    }
}

/// S11: the same where another NodeFence has proven the machine down before the claim landed, also if it may turn it on again.
#[tokio::test]
async fn a_claim_that_lands_on_a_machine_that_is_proven_down_is_given_back() {
    let then = "2026-01-01T00:00:00Z";
    for is_open in [false, true] {
        let mine = of_the_policy("fence", "worker-1", json!({}));
        let mut other = of_a_human(then);
        if is_open {
            turns_on(&mut other);
        }
        let nodes = fake::list("Node", "7", &[]);
        let mut node = quarantined(then);
        let claim = fake::node()["spec"]["taints"][0].clone();
        node["spec"]["taints"]
            .as_array_mut()
            .expect("taints")
            .push(claim);
        let lab = Lab::with_fences(node, mine, other, nodes).await;
        let incidents = Incidents::default();
        let incident = incidents.begin(lab.mine.clone());
        incident.lock().await.sent_claims = vec!["fence-n1".to_owned()];
        run(&lab.context, &incidents, &lab.mine).await;
        let writes = sent(&lab.cluster, PATCH_NODE);
        let operations = writes.first().and_then(Value::as_array);
        let last = operations.and_then(|it| it.last()).expect("a write");
        assert_eq!(last["op"], "remove", "{is_open}: {writes:?}");
    }
}

/// S23: of a record that is lost, or a claim that no record names, nobody knows the policy: the slowest one is waited for.
#[tokio::test]
async fn what_a_lost_record_has_sent_may_land_as_late_as_any_policy_says() {
    let mine = of_the_policy("fence", "worker-1", json!({}));
    let nodes = fake::list("Node", "7", &[]);
    let lab = Lab::with_fences(unclaimed(), mine, of_a_human("2026-01-01T00:00:00Z"), nodes).await;
    let incident = Incidents::default().begin(lab.mine.clone());
    let mut incident = incident.lock().await;
    let round = Round {
        context: &lab.context,
        fence: &lab.mine,
        incident: &mut incident,
    };
    let adopted = Settings {
        adopted: true,
        ..fixtures::settings()
    };
    let window = |settings: &Settings, claim: &str| {
        let node = fixtures::claimed(claim);
        round.elsewhere(settings, Some(&node)).window
    };
    let known = fixtures::settings();
    assert_eq!(window(&known, "other-n1"), Duration::ZERO);
    assert_eq!(window(&known, "deleted-n1"), POLICY_LANDING);
    assert_eq!(window(&adopted, "other-n1"), POLICY_LANDING);
}

/// S23: under the claim of a fence that tells others, the NodeFences are listed, for the watch may be late.
#[tokio::test]
async fn what_others_have_sent_is_listed_beside_the_claim() {
    let then = "2026-01-01T00:00:00Z";
    let mut sends = of_a_human(then);
    sends["status"]["attempts"] = json!([{
        "id": "n1-1", "device": "bmc", "action": "PowerOn", "startTime": "2026-01-01T00:10:00Z",
    }]);
    for strategy in ["None", "OutOfServiceTaint"] {
        for is_there in [true, false] {
            let mut mine = of_the_policy("fence", "worker-1", json!({"claim": "fence-n1"}));
            mine["spec"]["recovery"] = json!({"strategy": strategy});
            let nodes = fake::list("Node", "7", &[]);
            let lab = Lab::with_fences(fake::node(), mine.clone(), of_a_human(then), nodes).await;
            let (status, listed) = match is_there {
                true => (200, fake::list("NodeFence", "8", &[mine, sends.clone()])),
                false => failure(500, "etcd is busy"),
            };
            lab.cluster.put(FENCES, status, listed);
            let incidents = Incidents::default();
            let incident = incidents.begin(lab.mine.clone());
            {
                let memory = &mut incident.lock().await.memory;
                memory.claim = Some(fixtures::own_claim("fence-n1"));
                memory.is_due = true;
            }
            run(&lab.context, &incidents, &lab.mine).await;
            let memory = &incident.lock().await.memory;
            let is_heeded = is_there && strategy == "None";
            assert_eq!(memory.under_claim.others_listed, is_heeded, "{strategy}");
            assert_eq!(memory.late.known.on, is_heeded, "{strategy}");
        }
    }
}
