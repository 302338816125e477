//! The last looks before an on command leaves: the machine, then the Node and the NodeFence, then the command, and without any of them nothing.

use super::*;
use fencing_core::attempt::{OnAttempt, OnResult};
use fencing_core::observed::{CLAIM, OUT_OF_SERVICE, QUARANTINE};

const FENCE: &str = "GET /apis/nodefencing.io/v1alpha1/nodefences/fence";
const FENCES: &str = "GET /apis/nodefencing.io/v1alpha1/nodefences";

/// A Node that was released, with this taint beside its quarantine.
fn released(more: &[Value]) -> Value {
    let mut node = fake::node();
    let quarantine = json!({"key": QUARANTINE, "value": "boot-1", "effect": "NoSchedule"});
    node["spec"]["taints"] = [&[quarantine], more].concat().into();
    node
}

/// The record with the intent in it.
fn fence() -> Value {
    json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence",
        "metadata": {"name": "fence", "uid": "uid-fence", "resourceVersion": "9"},
        "spec": {
            "nodeName": "worker-1", "trigger": {"type": "Manual", "requestedBy": "alice", "reason": "dark"},
            "fence": {"mode": "PowerOff"}, "recovery": {}, "release": {},
            "powerOn": {"policy": "AfterRecovery"},
        },
        "status": {"taintAppliedTime": "2025-12-31T23:58:00Z", "taintRemovedTime": "2025-12-31T23:59:00Z", "attempts": [{
            "id": "n4-2", "device": "bmc", "level": "level", "action": "PowerOn", "startTime": "2026-01-01T00:00:00Z",
        }]},
    })
}

async fn lab() -> Lab {
    let lab = Lab::new().await;
    lab.cluster.put(SYSTEM, 200, system("Off", MACHINE));
    lab.cluster.put(NODE, 200, released(&[]));
    lab.cluster.put(FENCE, 200, fence());
    let fences = fake::list("NodeFence", "7", &[fence()]);
    lab.cluster.put(FENCES, 200, fences);
    lab
}

/// A human's NodeFence of this node that has ended, with an off at this time whose outcome nobody knows.
fn ended(node: &str, uid: &str, off: &str) -> Value {
    let mut other = fence();
    other["metadata"]["name"] = json!("other");
    other["spec"]["nodeName"] = json!(node);
    other["spec"]["powerOn"]["policy"] = json!("Never");
    let succeeded = json!({
        "type": "Succeeded", "status": "False", "reason": "Aborted", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    other["status"] = json!({
        "nodeUID": uid, "conditions": [succeeded],
        "attempts": [{"id": "n2-1", "device": "bmc", "action": "PowerOff", "startTime": off}],
    });
    other
}

async fn on(lab: &Lab) -> OnResult {
    let attempt = OnAttempt {
        id: "n4-2".to_owned(),
        level: "level".to_owned(),
        devices: vec!["bmc".to_owned()],
        limit: Duration::from_secs(10),
        recorded: true,
        results: Default::default(),
    };
    match lab.run(DeviceOrder::On(attempt), None).await {
        DeviceReply::TurnedOn(mut results) => results.remove("bmc").expect("a result"),
        other => panic!("{other:?}"),
    }
}

async fn sends_nothing(lab: &Lab, what: &str) {
    let result = on(lab).await;
    assert!(matches!(result, OnResult::NotSent(_)), "{what}: {result:?}");
    let requests = lab.requests();
    assert!(
        !requests.contains(&RESET.to_owned()),
        "{what}: {requests:?}"
    );
}

#[tokio::test]
async fn the_machine_then_the_node_then_the_command() {
    let lab = lab().await;
    assert_eq!(on(&lab).await, OnResult::Accepted);
    assert_eq!(lab.requests(), [SYSTEM, NODE, RESET]);
    let seen = lab.cluster.server.seen();
    let command = seen.iter().find(|it| it.line == RESET);
    assert_eq!(command.expect("a command").body, json!({"ResetType": "On"}));
}

/// S4, S5: only what reads Off, and is this machine.
#[tokio::test]
async fn what_runs_or_is_another_machine_is_not_turned_on() {
    let other = "99999999-2222-4333-8444-555555555555";
    for (state, uuid) in [("On", MACHINE), ("PoweringOn", MACHINE), ("Off", other)] {
        let lab = lab().await;
        lab.cluster.put(SYSTEM, 200, system(state, uuid));
        sends_nothing(&lab, state).await;
        assert_eq!(lab.requests(), [SYSTEM], "{state} {uuid}");
    }
}

/// S10, S11: the Node is read again right before the command leaves.
#[tokio::test]
async fn a_node_that_is_not_as_it_was_released_is_not_turned_on() {
    let changed = |pointer: &str, value: Value| {
        let mut node = released(&[]);
        *node.pointer_mut(pointer).expect("a field") = value;
        (200, node)
    };
    let taint = |key: &str| json!({"key": key, "value": "other-n1", "effect": "NoExecute"});
    for (what, (status, node)) in [
        ("a claim", (200, released(&[taint(CLAIM)]))),
        ("out-of-service", (200, released(&[taint(OUT_OF_SERVICE)]))),
        ("no quarantine", changed("/spec/taints", json!([]))),
        ("another Node", changed("/metadata/uid", json!("uid-2"))),
        (
            "another boot",
            changed("/status/nodeInfo/bootID", json!("boot-2")),
        ),
        (
            "a Ready Node",
            changed("/status/conditions/0/status", json!("True")),
        ),
        ("a cordoned Node", {
            let mut node = released(&[]);
            node["spec"]["unschedulable"] = json!(true);
            (200, node)
        }),
        ("no Node", failure(404, "not found")),
        ("no answer", failure(500, "etcd is slow")),
    ] {
        let lab = lab().await;
        lab.cluster.put(NODE, status, node);
        sends_nothing(&lab, what).await;
    }
}

/// S11, S15: so is the NodeFence, for its intent and for somebody's no.
#[tokio::test]
async fn without_an_open_intent_or_against_a_no_nothing_is_turned_on() {
    let changed = |change: fn(&mut Value)| {
        let mut fence = fence();
        change(&mut fence);
        (200, fence)
    };
    for (what, (status, fence)) in [
        (
            "no intent",
            changed(|it| it["status"]["attempts"] = json!([])),
        ),
        (
            "an off",
            changed(|it| it["status"]["attempts"][0]["action"] = json!("PowerOff")),
        ),
        (
            "an intent that has ended",
            changed(|it| {
                it["status"]["attempts"][0]["completionTime"] = json!("2026-01-01T00:00:00Z");
            }),
        ),
        (
            "released",
            changed(|it| it["spec"]["desiredState"] = json!("Released")),
        ),
        (
            "Never",
            changed(|it| it["spec"]["powerOn"]["policy"] = json!("Never")),
        ),
        ("no NodeFence", failure(404, "not found")),
        ("no answer", failure(500, "etcd is slow")),
    ] {
        let lab = lab().await;
        lab.cluster.put(FENCE, status, fence);
        sends_nothing(&lab, what).await;
    }
}

/// S11, S23: another NodeFence has had the node since the release, and has gone again: what it has sent may land yet. It is read by quorum: no
/// cache has to know of it.
#[tokio::test]
async fn a_node_that_another_nodefence_has_had_since_is_not_turned_on() {
    let (before, after) = ("2025-12-31T23:50:00Z", "2025-12-31T23:59:30Z");
    for (what, others, is_sent) in [
        ("nobody", vec![], true),
        ("before", vec![ended("worker-1", "uid-1", before)], true),
        (
            "another Node",
            vec![ended("worker-1", "uid-2", after)],
            true,
        ),
        (
            "another node",
            vec![ended("worker-2", "uid-1", after)],
            true,
        ),
        ("since", vec![ended("worker-1", "uid-1", after)], false),
    ] {
        let lab = lab().await;
        let fences = [vec![fence()], others].concat();
        let fences = fake::list("NodeFence", "7", &fences);
        lab.cluster.put(FENCES, 200, fences);
        match is_sent {
            true => assert_eq!(on(&lab).await, OnResult::Accepted, "{what}"),
            false => sends_nothing(&lab, what).await,
        }
    }
    let lab = lab().await;
    let (status, slow) = failure(500, "etcd is slow");
    lab.cluster.put(FENCES, status, slow);
    sends_nothing(&lab, "no answer").await;
}

#[tokio::test]
async fn after_the_end_of_its_term_or_in_a_cluster_that_went_back_nothing_is_turned_on() {
    let lab = lab().await;
    lab.context.term_end.set(Some(clock::since_boot()));
    sends_nothing(&lab, "its term is over").await;
    let lab = self::lab().await;
    lab.context.revision.note(120, Some("90"));
    sends_nothing(&lab, "the cluster went back").await;
}

/// F12: what was read may not grow old before the command leaves.
#[tokio::test]
async fn a_node_that_was_asked_for_too_long_ago_is_not_turned_on() {
    let lab = lab().await;
    lab.cluster
        .delay(NODE, CLAIM_LIFE + Duration::from_millis(100));
    sends_nothing(&lab, "it is old").await;
}
