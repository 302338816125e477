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
    fence["status"]["completionTime"] = json!("2026-01-01T00:10:00Z");
    if tainted {
        fence["status"]["taintAppliedTime"] = json!("2026-01-01T00:09:11Z");
    }
    fence
}

/// A node that is down in this boot, and whose Ready has changed at that time.
fn outage(boot: &str, changed: &str) -> Value {
    let mut node = down(boot, changed, Some("2026-01-01T00:00:00Z"));
    node["spec"]["taints"] = json!([]);
    node["status"]["nodeInfo"]["bootID"] = json!(boot);
    node
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

/// A no is of one Node, and of what was there when it was said.
#[tokio::test]
async fn a_no_does_not_reach_another_node_or_what_nobody_knows_the_time_of() {
    let then = "2026-01-01T00:00:00Z";
    let released = |uid: &str| answered(json!({"desiredState": "Released", "nodeUID": uid}), false);
    for (why, changed, fence, opened) in [
        ("this one", then, released("uid-1"), 0),
        ("a Node of the same name", then, released("uid-0"), 1),
        ("nobody knows since when", "", released("uid-1"), 1),
    ] {
        let node = outage("boot-1", changed);
        let mut lab = Lab::new(node.clone(), Some(policy()), vec![fence]).await;
        lab.cluster.put(NODE, 200, node);
        assert_eq!(lab.writes().await.0, opened, "{why}");
    }
}

/// S11: who proves a machine down for others to free (`recovery.strategy: None`) leaves it to them, whatever is edited in the policy.
#[tokio::test]
async fn a_node_that_is_proven_down_for_others_is_not_turned_off_again() {
    let (then, later) = ("2026-01-01T00:00:00Z", "2026-01-01T00:20:00Z");
    for (reason, reported, by_hand, opened) in [
        ("ConfirmedDown", then, false, 0),
        // Its kubelet has spoken since, and is silent again.
        ("ConfirmedDown", later, false, 1),
        // A human has only asked: the policy's own fence is still to come.
        ("ConfirmedDown", then, true, 1),
        ("Aborted", then, false, 1),
    ] {
        let mut node = down("boot-1", later, Some(reported));
        node["spec"]["taints"] = json!([]);
        let mut fence = proven("uid-1", Some(then));
        if !by_hand {
            fence["spec"]["policyName"] = json!("prod");
        }
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

/// What a human has spoken of lasts, and something else befalls the node: that is another outage.
#[tokio::test]
async fn a_condition_that_was_refused_hides_no_other() {
    let (then, later) = ("2026-01-01T00:00:00Z", "2026-01-01T00:20:00Z");
    for (ready_changed, opened) in [(then, 0), (later, 1)] {
        let mut policy = policy();
        policy["spec"]["unhealthyConditions"] = json!([
            {"type": "KernelDeadlock", "status": "True", "durationSeconds": 0},
            {"type": "Ready", "status": "Unknown", "durationSeconds": 0},
        ]);
        let mut node = down("boot-1", ready_changed, Some(then));
        node["spec"]["taints"] = json!([]);
        node["status"]["nodeInfo"]["bootID"] = json!("boot-1");
        let conditions = node["status"]["conditions"].as_array_mut();
        let deadlock =
            json!({"type": "KernelDeadlock", "status": "True", "lastTransitionTime": then});
        conditions.expect("conditions").push(deadlock);
        let mut refused = answered(json!({"desiredState": "Released"}), false);
        refused["spec"]["trigger"]["conditionType"] = json!("KernelDeadlock");
        let mut lab = Lab::new(node.clone(), Some(policy), vec![refused]).await;
        lab.cluster.put(NODE, 200, node);
        assert_eq!(lab.writes().await.0, opened, "Ready since {ready_changed}");
    }
}

/// S21: the date of a condition is the Node's, that of the end is the operator's. Whichever clock is ahead, a no is of the outage in which it was
/// said; and whoever finds a node down that nobody fences is told why, once.
#[tokio::test]
async fn a_no_is_of_its_outage_whatever_the_clock_of_the_operator_says() {
    let (then, later) = ("2026-01-01T00:00:00Z", "2026-01-01T00:20:00Z");
    for (why, changed, ended, opened, events) in [
        ("it was behind", then, "2025-12-31T23:00:00Z", 0, 1),
        ("it was ahead", later, "2026-01-01T01:00:00Z", 1, 0),
        ("it was right", then, "2026-01-01T00:10:00Z", 0, 1),
    ] {
        let mut fence = answered(json!({"desiredState": "Released"}), false);
        fence["status"]["completionTime"] = json!(ended);
        let node = outage("boot-1", changed);
        let mut lab = Lab::new(node.clone(), Some(policy()), vec![fence]).await;
        lab.cluster.put(NODE, 200, node);
        assert_eq!(lab.writes().await.0, opened, "{why}");
        lab.writes().await;
        assert_eq!(lab.told(), events, "{why}");
    }
}

/// Who has said no and asks for a fence after all, or has the policy only observe, is told nothing.
#[tokio::test]
async fn of_a_no_nobody_is_told_whose_node_is_not_passed_over() {
    let then = "2026-01-01T00:00:00Z";
    for (mode, asked_again, ready, events) in [
        ("PowerOff", false, "Unknown", 1),
        ("PowerOff", true, "Unknown", 0),
        ("PowerOff", false, "True", 0),
        ("Observe", false, "Unknown", 0),
    ] {
        let mut policy = policy();
        policy["spec"]["fence"]["mode"] = json!(mode);
        let mut fences = vec![answered(json!({"desiredState": "Released"}), false)];
        if asked_again {
            let mut open = fence(false);
            open["metadata"]["name"] = json!("by-hand");
            fences.push(open);
        }
        let mut node = outage("boot-1", then);
        node["status"]["conditions"][0]["status"] = json!(ready);
        let mut lab = Lab::new(node, Some(policy), fences).await;
        lab.writes().await;
        assert_eq!(lab.told(), events, "{mode} {asked_again} {ready}");
    }
}
