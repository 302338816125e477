use super::*;
use crate::fixtures;
use serde_json::{Value, json};

fn remediation(metadata: Value) -> NodeFenceRemediation {
    let mut whole = json!({"name": "worker-1", "namespace": "fencing", "uid": "uid-r"});
    json_patch::merge(&mut whole, &metadata);
    let object = json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFenceRemediation", "metadata": whole, "spec": {},
    });
    serde_json::from_value(object).expect("a remediation")
}

fn owner(api_version: &str, kind: &str, name: &str) -> Value {
    json!({"ownerReferences": [{"apiVersion": api_version, "kind": kind, "name": name, "uid": "uid-o"}]})
}

fn policy(mode: &str, selector: Value) -> NodeFencingPolicy {
    let spec = json!({"nodeSelector": selector, "fence": {"mode": mode}});
    NodeFencingPolicy::new("prod", serde_json::from_value(spec).expect("a spec"))
}

fn fence(name: &str, status: &str, stage: &str, of: Option<&str>) -> NodeFence {
    let mut trigger = json!({"type": "NodeCondition"});
    if let Some(uid) = of {
        trigger["remediation"] = json!({"namespace": "fencing", "name": "worker-1", "uid": uid});
    }
    let object = json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence", "metadata": {"name": name},
        "spec": {"nodeName": "worker-1", "policyName": "prod", "trigger": trigger, "fence": {"mode": "PowerOff"}},
        "status": {"conditions": [{
            "type": "Succeeded", "status": status, "reason": stage, "message": "words",
            "lastTransitionTime": "2027-01-02T18:00:00Z",
        }]},
    });
    serde_json::from_value(object).expect("a NodeFence")
}

/// `Processing`, `Succeeded` and the reason of both.
fn told(status: &NodeFenceRemediationStatus) -> (String, String, String) {
    let of = |kind| find(&status.conditions, kind).expect("a condition");
    let (processing, succeeded) = (of(PROCESSING), of(SUCCEEDED));
    assert_eq!(processing.reason, succeeded.reason);
    let text = |it: &str| it.to_owned();
    (
        text(&processing.status),
        text(&succeeded.status),
        text(&succeeded.reason),
    )
}

fn told_of(
    remediation: &NodeFenceRemediation,
    policies: &[NodeFencingPolicy],
    fences: &[NodeFence],
) -> (String, String, String) {
    let node = fixtures::node();
    let facts = Facts {
        node_name: Some("worker-1"),
        node: Some(&node),
        policies,
        fences,
        now: Timestamp::UNIX_EPOCH,
    };
    told(&status(remediation, &facts))
}

fn row(processing: &str, succeeded: &str, reason: &str) -> (String, String, String) {
    (
        processing.to_owned(),
        succeeded.to_owned(),
        reason.to_owned(),
    )
}

#[test]
fn the_node_is_named_by_annotation_machine_or_name() {
    let node = |name: &str| Target::Node(name.to_owned());
    let machine = |version: &str| Target::Machine {
        version: version.to_owned(),
        name: "m-1".to_owned(),
    };
    let mut annotated = owner("cluster.x-k8s.io/v1beta2", "Machine", "m-1");
    annotated["annotations"] = json!({"remediation.medik8s.io/node-name": "worker-2"});
    for (metadata, target_is) in [
        (json!({}), node("worker-1")),
        (annotated, node("worker-2")),
        (
            owner("cluster.x-k8s.io/v1beta2", "Machine", "m-1"),
            machine("v1beta2"),
        ),
        (
            owner("cluster.x-k8s.io/v1beta1", "Machine", "m-1"),
            machine("v1beta1"),
        ),
        (
            owner("machine.openshift.io/v1beta1", "Machine", "m-1"),
            node("worker-1"),
        ),
        (
            owner("remediation.medik8s.io/v1alpha1", "NodeHealthCheck", "m-1"),
            node("worker-1"),
        ),
        // Neither becomes a path.
        (
            owner("cluster.x-k8s.io/v1/x", "Machine", "m-1"),
            node("worker-1"),
        ),
        (
            owner("cluster.x-k8s.io/v1beta2", "Machine", "../nodes"),
            node("worker-1"),
        ),
    ] {
        let remediation = remediation(metadata.clone());
        assert_eq!(target(&remediation), target_is, "{metadata}");
    }
}

#[test]
fn one_that_is_deleted_or_timed_out_asks_no_longer() {
    assert!(asks(&remediation(json!({}))));
    let deleted = json!({"deletionTimestamp": "2027-01-02T18:00:00Z"});
    assert!(!asks(&remediation(deleted)));
    let timed_out =
        json!({"annotations": {"remediation.medik8s.io/nhc-timed-out": "2027-01-02T18:00:00Z"}});
    assert!(!asks(&remediation(timed_out)));
}

/// L1: it skips no wait of another outage.
#[test]
fn one_that_had_its_fence_asks_for_no_second_one() {
    let its = Some("uid-r");
    for (found, is_over) in [
        (fence("this", "False", "Aborted", its), true),
        // The node has booted since, or its policy has changed.
        (fence("before", "False", "Aborted", its), false),
        (fence("before", "False", "SelfRecovered", its), true),
        (fence("before", "True", "Recovered", its), true),
        (fence("before", "Unknown", "Fencing", its), false),
        (
            fence("before", "True", "Recovered", Some("uid-other")),
            false,
        ),
        (fence("this", "True", "Recovered", None), false),
    ] {
        let fences = [found];
        assert_eq!(is_served(&fences, "uid-r", "this"), is_over, "{fences:?}");
    }
}

#[test]
fn without_a_fence_it_says_what_is_missing() {
    let plain = remediation(json!({}));
    let of = |mode: &str| policy(mode, json!({}));
    let elsewhere = policy("PowerOff", json!({"matchLabels": {"rack": "7"}}));
    for (policies, expected) in [
        (vec![of("PowerOff")], row("True", "Unknown", "Waiting")),
        (vec![of("Observe")], row("False", "False", "Observe")),
        (vec![elsewhere], row("False", "False", "NoPolicy")),
        (vec![], row("False", "False", "NoPolicy")),
        (
            vec![of("PowerOff"), of("PowerOff")],
            row("False", "False", "Conflict"),
        ),
    ] {
        assert_eq!(told_of(&plain, &policies, &[]), expected);
    }
    let policies = [of("PowerOff")];
    for node_name in [None, Some("worker-1")] {
        let facts = Facts {
            node_name,
            node: None,
            policies: &policies,
            fences: &[],
            now: Timestamp::UNIX_EPOCH,
        };
        let told = told(&status(&plain, &facts));
        assert_eq!(told, row("False", "False", "NodeNotFound"));
    }
}

#[test]
fn it_follows_its_fence() {
    let plain = remediation(json!({}));
    let policies = [policy("PowerOff", json!({}))];
    for (status, stage, expected) in [
        ("Unknown", "Fencing", row("True", "Unknown", "Fencing")),
        ("Unknown", "Detaching", row("True", "Unknown", "Detaching")),
        // Pods and volumes are free; the machine may be in repair for days.
        (
            "Unknown",
            "AwaitingRelease",
            row("False", "True", "AwaitingRelease"),
        ),
        ("True", "Recovered", row("False", "True", "Recovered")),
        (
            "False",
            "SelfRecovered",
            row("False", "False", "SelfRecovered"),
        ),
    ] {
        let fences = [fence("f", status, stage, Some("uid-r"))];
        assert_eq!(told_of(&plain, &policies, &fences), expected);
    }
    // The open one of several counts.
    let mut ended = fence("a", "False", "Aborted", Some("uid-r"));
    ended.status.get_or_insert_default().completion_time = Some(Timestamp::UNIX_EPOCH);
    let open = fence("b", "Unknown", "Fencing", Some("uid-r"));
    for fences in [[ended.clone(), open.clone()], [open, ended]] {
        assert_eq!(told_of(&plain, &policies, &fences).2, "Fencing");
    }
    // An ended one that was opened for another is none of its.
    let others = [fence("f", "True", "Recovered", Some("uid-other"))];
    let told = told_of(&plain, &policies, &others);
    assert_eq!(told, row("True", "Unknown", "Waiting"));
    // One of the policy itself is, and stays it when it has ended.
    let open = fence("f", "Unknown", "Fencing", None);
    assert_eq!(told_of(&plain, &policies, &[open]).2, "Fencing");
    let mut served = plain.clone();
    served.status = Some(NodeFenceRemediationStatus {
        fence_name: Some("f".to_owned()),
        ..NodeFenceRemediationStatus::default()
    });
    let ended = fence("f", "True", "Recovered", None);
    assert_eq!(told_of(&served, &policies, &[ended]).2, "Recovered");
}

#[test]
fn one_that_is_timed_out_has_failed_but_after_an_off_and_under_the_taint() {
    let stopped =
        remediation(json!({"annotations": {"remediation.medik8s.io/nhc-timed-out": "x"}}));
    let policies = [policy("PowerOff", json!({}))];
    let timed_out = row("False", "False", "TimedOut");
    assert_eq!(told_of(&stopped, &policies, &[]), timed_out);
    let mut open = fence("f", "Unknown", "Detaching", Some("uid-r"));
    let fences = [open.clone()];
    assert_eq!(told_of(&stopped, &policies, &fences), timed_out);
    let goes_on = row("True", "Unknown", "Detaching");
    let attempt = json!({
        "device": "bmc", "action": "PowerOff", "result": "Succeeded", "startTime": "2027-01-02T18:00:00Z",
    });
    let mut commanded = open.clone();
    let status = commanded.status.as_mut().expect("a status");
    status.attempts = vec![serde_json::from_value(attempt).expect("an attempt")];
    assert_eq!(told_of(&stopped, &policies, &[commanded]), goes_on);
    let status = open.status.as_mut().expect("a status");
    status.taint_applied_time = Some(Timestamp::UNIX_EPOCH);
    assert_eq!(told_of(&stopped, &policies, &[open]), goes_on);
}
