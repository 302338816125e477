//! A human has said no to a fence of this outage.

use super::*;

/// What a human has said of an outage, before the policy had the generation that it has now.
fn answered(answer: Value, tainted: bool) -> Value {
    let mut fence = fence(true);
    let spec = json!({
        "nodeUID": "uid-1", "bootID": "boot-1", "policyName": "prod", "policyGeneration": 0,
        "trigger": {
            "type": "NodeCondition", "conditionType": "Ready", "conditionStatus": "Unknown",
            "unhealthySinceTime": "2026-01-01T00:00:00Z",
        },
    });
    for part in [spec, answer] {
        for (field, value) in part.as_object().into_iter().flatten() {
            fence["spec"][field] = value.clone();
        }
    }
    if tainted {
        fence["status"]["taintAppliedTime"] = json!("2026-01-01T00:09:11Z");
    }
    fence
}

/// Whoever repairs a machine has said so once. What is edited in the policy meanwhile does not take the word back.
#[tokio::test]
async fn an_outage_that_a_human_has_said_no_to_is_not_fenced_though_the_policy_changes() {
    let (then, later) = ("2026-01-01T00:00:00Z", "2026-01-01T00:20:00Z");
    let approval = |decision: &str| {
        let approval =
            json!({"decision": decision, "user": "alice", "reason": "in repair", "time": then});
        json!({"approval": approval})
    };
    let released = || json!({"desiredState": "Released"});
    let outage = |boot: &str, changed: &str| {
        let mut node = down(boot, changed, Some(then));
        node["spec"]["taints"] = json!([]);
        node["status"]["nodeInfo"]["bootID"] = json!(boot);
        node
    };
    for (why, node, fence, opened) in [
        (
            "denied",
            outage("boot-1", then),
            answered(approval("Denied"), false),
            0,
        ),
        (
            "released",
            outage("boot-1", then),
            answered(released(), false),
            0,
        ),
        (
            "aborted by itself",
            outage("boot-1", then),
            answered(json!({}), false),
            1,
        ),
        (
            "approved",
            outage("boot-1", then),
            answered(approval("Approved"), false),
            1,
        ),
        (
            "the next outage",
            outage("boot-1", later),
            answered(released(), false),
            1,
        ),
        (
            "another boot",
            outage("boot-0", then),
            answered(released(), false),
            1,
        ),
        (
            "let go when all was done",
            outage("boot-1", then),
            answered(released(), true),
            1,
        ),
    ] {
        let mut lab = Lab::new(node.clone(), Some(policy()), vec![fence]).await;
        lab.cluster.put(NODE, 200, node);
        assert_eq!(lab.writes().await.0, opened, "{why}");
    }
}

/// S11: who proves a machine down for others to free (`recovery.strategy: None`) leaves it to them, whatever is edited in the policy.
#[tokio::test]
async fn a_node_that_is_proven_down_for_others_is_not_turned_off_again() {
    let (then, later) = ("2026-01-01T00:00:00Z", "2026-01-01T00:20:00Z");
    for (reason, reported, opened) in [
        ("ConfirmedDown", then, 0),
        // Its kubelet has spoken since, and is silent again.
        ("ConfirmedDown", later, 1),
        ("Aborted", then, 1),
    ] {
        let mut node = down("boot-1", later, Some(reported));
        node["spec"]["taints"] = json!([]);
        let mut fence = proven("uid-1", Some(then));
        fence["status"]["taintAppliedTime"] = Value::Null;
        fence["status"]["conditions"][0]["reason"] = json!(reason);
        let mut lab = Lab::new(node.clone(), Some(policy()), vec![fence]).await;
        lab.cluster.put(NODE, 200, node);
        assert_eq!(
            lab.writes().await.0,
            opened,
            "{reason}, reported {reported}"
        );
    }
}
