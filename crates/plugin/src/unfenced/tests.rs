use super::*;
use crate::trail::RELEASE;
use fencing_cluster::slim::SlimNode;
use fencing_core::outage::fence_name;
use fencing_core::window::Effective;
use serde_json::{Value, json};

const SINCE: &str = "2027-01-02T18:00:00Z";

fn at(seconds: i64) -> Timestamp {
    let since: Timestamp = SINCE.parse().expect("a time");
    since + SignedDuration::from_secs(seconds)
}

fn node(ready: &str, more: Value) -> SlimNode {
    let mut node = json!({
        "metadata": {
            "name": "node-1", "uid": "uid-1", "labels": {"pool": "workers"},
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "status": {
            "conditions": [
                {"type": "Ready", "status": ready, "lastTransitionTime": SINCE, "lastHeartbeatTime": "2027-01-02T17:59:00Z"},
            ],
            "nodeInfo": {"bootID": "boot-1"},
        },
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        node[key] = value.clone();
    }
    serde_json::from_value(node).expect("a Node")
}

fn policy(name: &str, spec: Value) -> NodeFencingPolicy {
    let mut all = json!({
        "nodeSelector": {"matchLabels": {"pool": "workers"}},
        "unhealthyConditions": [{"type": "Ready", "status": "Unknown", "durationSeconds": 10}],
        "fence": {"mode": "PowerOff"},
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        all[key] = value.clone();
    }
    let policy = json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFencingPolicy",
        "metadata": {"name": name, "generation": 1}, "spec": all,
    });
    serde_json::from_value(policy).expect("a policy")
}

fn fence(spec: Value, status: &str, reason: &str, more: Value) -> NodeFence {
    let mut all = json!({
        "nodeName": "node-1", "nodeUID": "uid-1", "bootID": "boot-1", "policyName": "workers",
        "trigger": {
            "type": "NodeCondition", "conditionType": "Ready", "conditionStatus": "Unknown", "unhealthySinceTime": SINCE,
        },
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        all[key] = value.clone();
    }
    let mut known = json!({"conditions": [{
        "type": "Succeeded", "status": status, "reason": reason, "message": "words of the operator", "lastTransitionTime": SINCE,
    }]});
    for (key, value) in more.as_object().into_iter().flatten() {
        known[key] = value.clone();
    }
    let fence = json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence",
        "metadata": {"name": "node-1-5c0ffee5"}, "spec": all, "status": known,
    });
    serde_json::from_value(fence).expect("a NodeFence")
}

fn found(
    node: &SlimNode,
    policies: &[NodeFencingPolicy],
    fences: &[NodeFence],
    now: Timestamp,
) -> Unfenced {
    let world = World {
        policies,
        fences,
        now,
    };
    of(node, &world).expect("it is down, and has no open incident")
}

#[test]
fn a_dead_node_is_told_with_when_its_policy_fences_it() {
    let (node, policies) = (node("Unknown", json!({})), [policy("workers", json!({}))]);
    let waits = found(&node, &policies, &[], at(9));
    assert!(waits.waits());
    assert_eq!(
        (waits.reason.as_str(), waits.due_time),
        ("Waiting", Some(at(10)))
    );
    assert_eq!(
        waits.message,
        "policy workers fences it at 2027-01-02T18:00:10Z: Ready=Unknown has to last 10 s (`unhealthyConditions`), unless a device reads Off (`durationPolicy`)"
    );
    assert_eq!(
        waits.words(at(9)),
        "Ready=Unknown for 9s; policy workers fences it in 1s: Ready=Unknown has to last 10 s (`unhealthyConditions`), unless a device reads Off (`durationPolicy`)"
    );
    assert_eq!(
        waits.words(at(11)),
        "Ready=Unknown for 11s; policy workers fences it now: Ready=Unknown has to last 10 s (`unhealthyConditions`), unless a device reads Off (`durationPolicy`)"
    );
    let late = found(&node, &policies, &[], at(70));
    assert!(late.waits(), "an operator that comes back begins with it");
    assert!(
        late.words(at(70)).starts_with(
            "Ready=Unknown for 70s; policy workers should have begun 60s ago; see who leads"
        ),
        "{late:?}"
    );
}

#[test]
fn what_the_policy_does_then_is_what_its_mode_and_approval_say() {
    let node = node("Unknown", json!({}));
    for (spec, does) in [
        (
            json!({"fence": {"mode": "Observe"}}),
            "only observes now; set `fence.mode`, or that of the open window, to ConfirmOnly or PowerOff; it reports the outage",
        ),
        (
            json!({"fence": {"mode": "ConfirmOnly"}}),
            "reads whether it is off (mode ConfirmOnly)",
        ),
        (
            json!({"fence": {"mode": "PowerOff", "approval": {"mode": "Manual"}}}),
            "requests an approval to fence it",
        ),
    ] {
        let words = found(&node, &[policy("workers", spec)], &[], at(4)).words(at(4));
        let told = format!(
            "Ready=Unknown for 4s; policy workers {does} in 6s: Ready=Unknown has to last 10 s (`unhealthyConditions`)"
        );
        let sooner = words.strip_prefix(&told).expect(&words);
        assert_eq!(sooner.is_empty(), does.starts_with("only observes"));
    }
}

/// The longer of the two waits counts, as the operator has it.
#[test]
fn another_wait_of_the_policy_is_counted_and_named() {
    let young = || {
        json!({"metadata": {
            "name": "node-1", "uid": "uid-1", "labels": {"pool": "workers"}, "creationTimestamp": SINCE,
        }})
    };
    let policies = [policy(
        "workers",
        json!({"exclusions": {"minUptimeSeconds": 300}}),
    )];
    let waits = found(&node("Unknown", young()), &policies, &[], at(60));
    assert_eq!(waits.due_time, Some(at(300)));
    let words = waits.words(at(60));
    assert!(
        words.contains("fences it in 4m: it joined less than 300 s ago"),
        "{words}"
    );
    let late = found(&node("Unknown", young()), &policies, &[], at(400));
    assert_eq!(
        (late.reason.as_str(), late.due_time),
        ("Late", Some(at(300)))
    );
}

#[test]
fn a_node_that_nobody_fences_is_told_with_why() {
    let down = || node("Unknown", json!({}));
    let until = |seconds: i64| json!({"pauseRequests": [{"name": "ann", "reason": "switches", "expireTime": at(seconds).to_string()}]});
    let cordoned = json!({"spec": {"unschedulable": true}});
    let foreign = json!({"spec": {"taints": [{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]}});
    let of = |spec| vec![policy("workers", spec)];
    for (node, policies, reason, words) in [
        (
            down(),
            Vec::new(),
            "NoPolicy",
            "no NodeFencingPolicy selects Node node-1 (1 label)",
        ),
        (
            down(),
            vec![policy("one", json!({})), policy("two", json!({}))],
            "Conflict",
            "policies one, two all select Node node-1",
        ),
        (
            down(),
            of(until(3600)),
            "Paused",
            "ann (switches, until 2027-01-02T19:00:00Z)",
        ),
        (
            node("Unknown", cordoned),
            of(json!({})),
            "Excluded",
            "is cordoned",
        ),
        (
            node("Unknown", foreign),
            of(json!({})),
            "ForeignOutOfService",
            "taint node.kubernetes.io/out-of-service",
        ),
        (
            node("False", json!({})),
            of(json!({})),
            "NoCondition",
            "watches for Ready=Unknown, not for Ready=False",
        ),
        (
            node(
                "Unknown",
                json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown", "lastTransitionTime": SINCE}]}}),
            ),
            of(json!({})),
            "NeverReported",
            "no boot ID",
        ),
    ] {
        let found = found(&node, &policies, &[], at(9));
        assert_eq!(found.reason, reason);
        assert!(!found.waits(), "{found:?}");
        let told = found.words(at(9));
        assert!(
            told.contains("; not fenced: ") && told.contains(words),
            "{told}"
        );
    }
    // A pause that is over before the wait is keeps nobody waiting.
    assert_eq!(
        found(&down(), &of(until(8)), &[], at(2)).due_time,
        Some(at(10))
    );
}

#[test]
fn who_has_said_no_is_named_and_only_of_this_outage() {
    let (node, policies) = (node("Unknown", json!({})), [policy("workers", json!({}))]);
    let approval = json!({"approval": {"decision": "Denied", "user": "ann", "reason": "in repair", "time": SINCE}});
    let denied = fence(approval, "False", "Aborted", json!({}));
    let told = found(&node, &policies, std::slice::from_ref(&denied), at(60));
    assert_eq!(told.reason, "Denied");
    assert!(
        told.message
            .starts_with("NodeFence node-1-5c0ffee5 was denied by ann: in repair; its policy"),
        "{told:?}"
    );
    let mut released = fence(
        json!({"desiredState": "Released"}),
        "False",
        "Aborted",
        json!({}),
    );
    let notes = [(RELEASE.user, "bob"), (RELEASE.reason, "the wrong rack")];
    let notes = notes.map(|(key, value)| (key.to_owned(), value.to_owned()));
    released.metadata.annotations = Some(notes.into_iter().collect());
    let told = found(&node, &policies, std::slice::from_ref(&released), at(60));
    assert_eq!(told.reason, "Released");
    assert!(
        told.message.contains("was released by bob: the wrong rack"),
        "{told:?}"
    );
    // That note stood there when somebody else let go of it.
    let fields = json!([{"manager": "kubectl-edit", "time": SINCE, "fieldsV1": {"f:spec": {"f:desiredState": {}}}}]);
    released.metadata.managed_fields = serde_json::from_value(fields).expect("managed fields");
    let told = found(&node, &policies, &[released], at(60));
    assert!(told.message.contains("was released by a user"), "{told:?}");
    // What became of a later one takes back no denial: whoever gave it may be at the machine.
    let mut later = fence(
        json!({"desiredState": "Released"}),
        "False",
        "Aborted",
        json!({}),
    );
    later.metadata.name = Some("node-1-later".to_owned());
    let both = [later, denied.clone()];
    let told = found(&node, &policies, &both, at(60));
    assert_eq!(told.reason, "Released");
    let at_it = "NodeFence node-1-5c0ffee5 of Node node-1, in this boot, was denied by ann at 2027-01-02T18:00:00Z: in repair: they may be at the machine";
    assert!(told.message.contains(at_it), "{told:?}");
    // The machine has booted since: that no was about another outage.
    let other = NodeFence {
        spec: fencing_api::fence::NodeFenceSpec {
            boot_id: Some("boot-0".to_owned()),
            ..denied.spec.clone()
        },
        ..denied
    };
    assert!(found(&node, &policies, &[other], at(9)).waits());
}

#[test]
fn an_incident_of_this_outage_that_has_ended_is_named_with_its_end() {
    let (node, policies) = (node("Unknown", json!({})), [policy("workers", json!({}))]);
    let mut ended = fence(json!({}), "False", "Aborted", json!({}));
    let [policy] = &policies;
    let condition = policy.spec.unhealthy_conditions.first().expect("one");
    let name = fence_name(
        &node.view(),
        policy,
        &Effective::without_windows(policy),
        condition,
    );
    ended.metadata.name = Some(name);
    let told = found(&node, &policies, &[ended], at(60));
    assert_eq!((told.reason.as_str(), told.waits()), ("Ended", false));
    assert!(
        told.message
            .contains("has ended Aborted: words of the operator"),
        "{told:?}"
    );
    // One that was proven down in this boot is nobody's concern but of who mends it.
    let evidence = json!({
        "nodeUID": "uid-1", "nodeBootID": "boot-1", "claim": "c", "readyHeartbeatTime": "2027-01-02T17:59:00Z",
        "quiescedTime": SINCE, "provenTime": SINCE,
    });
    let cleared = fence(
        json!({}),
        "True",
        "ConfirmedDown",
        json!({"evidence": evidence}),
    );
    let told = found(&node, &policies, std::slice::from_ref(&cleared), at(60));
    assert_eq!((told.reason.as_str(), told.waits()), ("Cleared", false));
    assert!(told.message.contains("`recovery.strategy: None`"));
    // What speaks against the proof is said wherever it is named.
    let mut doubtful = cleared.clone();
    let conditions = &mut doubtful.status.as_mut().expect("a status").conditions;
    let mut doubt = conditions[0].clone();
    doubt.type_ = "NodeConfirmedDown".to_owned();
    doubt.status = "Unknown".to_owned();
    conditions.push(doubt);
    let told = found(&node, &policies, &[doubtful], at(60));
    assert!(told.proof_in_doubt, "{told:?}");
    let words = told.words(at(60));
    assert!(
        words.starts_with("Ready=Unknown for 60s; do not rely on the proof"),
        "{words}"
    );
}

/// The operator begins all the same, and whoever waits for the fence is told that it will not come to one.
#[test]
fn a_node_that_no_device_can_fence_is_told_as_such_beside_the_wait() {
    let mut policy = policy("workers", json!({}));
    let mut status = json!({
        "unprotectedNodes": ["node-1"],
        "conditions": [{
            "type": "Ready", "status": "False", "reason": "NoReadyDevice", "message": "none", "lastTransitionTime": SINCE,
        }],
    });
    let told = |policy: &NodeFencingPolicy| {
        let told = found(
            &node("Unknown", json!({})),
            std::slice::from_ref(policy),
            &[],
            at(9),
        );
        assert_eq!(told.due_time, Some(at(10)));
        told.message
    };
    policy.status = serde_json::from_value(status.clone()).expect("a status");
    let bare = told(&policy);
    assert!(
        bare.contains("but no fence level of policy workers has its devices ready for Node"),
        "{bare}"
    );
    status["unprotectedNodes"] = json!([]);
    policy.status = serde_json::from_value(status.clone()).expect("a status");
    let unready = told(&policy);
    assert!(
        unready.ends_with("not ready: NoReadyDevice: none"),
        "{unready}"
    );
    // With these nothing is begun at all.
    status["conditions"][0]["reason"] = json!("Unsupported");
    policy.status = serde_json::from_value(status).expect("a status");
    let idle = found(&node("Unknown", json!({})), &[policy], &[], at(9));
    assert_eq!((idle.reason.as_str(), idle.waits()), ("Unsupported", false));
}

#[test]
fn a_ready_node_and_one_with_an_open_incident_are_none_of_them() {
    let policies = [policy("workers", json!({}))];
    let acts = json!({"fence": {"mode": "PowerOff"}});
    let open = fence(acts, "Unknown", "Fencing", json!({}));
    let world = |fences| World {
        policies: &policies,
        fences,
        now: at(60),
    };
    assert_eq!(of(&node("True", json!({})), &world(&[])), None);
    assert_eq!(of(&node("Unknown", json!({})), &world(&[open])), None);
}
