//! When a storage lets a node in again, one fact at a time.

use super::*;
use crate::fixtures::{claimed, node, out_of_service};
use serde_json::{Value, json};

fn purpose() -> Purpose {
    Purpose {
        node: "worker-1".to_owned(),
        node_uid: "uid-1".to_owned(),
        boot_id: "boot-1".to_owned(),
        fence: "fence".to_owned(),
    }
}

fn record(status: Value) -> NodeFence {
    let fence = json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence", "metadata": {"name": "fence"},
        "spec": {"nodeName": "worker-1", "trigger": {"type": "Manual"}, "fence": {}, "recovery": {}, "release": {}, "powerOn": {}},
        "status": status,
    });
    serde_json::from_value(fence).expect("a NodeFence")
}

/// One that was cancelled before anything was moved.
fn cancelled() -> NodeFence {
    record(json!({"conditions": [ended()]}))
}

fn ended() -> Value {
    json!({
        "type": "Succeeded", "status": "False", "reason": "Aborted", "message": "",
        "lastTransitionTime": "2026-01-02T00:00:00Z",
    })
}

fn ready(mut node: NodeView) -> NodeView {
    for condition in &mut node.conditions {
        condition.status = "True".to_owned();
    }
    node
}

fn over(node: NodeView, fence: NodeFence) -> Result<(), Stays> {
    is_over(&purpose(), &Read::Present(node), &Read::Present(fence))
}

fn calls_people(outcome: &Result<(), Stays>) -> bool {
    matches!(outcome, Err(Stays::ForPeople(_)))
}

#[test]
fn another_boot_of_the_same_node_ends_it_whatever_the_record_says() {
    let rebooted = || NodeView {
        boot_id: "boot-2".to_owned(),
        ..claimed("fence-n1")
    };
    for fence in [
        Read::Present(record(json!({"taintAppliedTime": "2026-01-02T00:00:00Z"}))),
        Read::Absent,
        Read::Failed("HTTP 503".to_owned()),
    ] {
        assert_eq!(
            is_over(&purpose(), &Read::Present(rebooted()), &fence),
            Ok(())
        );
    }
    let unreported = NodeView {
        boot_id: String::new(),
        ..rebooted()
    };
    assert_eq!(over(unreported, cancelled()), Err(Stays::ForNow));
}

/// S10: a machine of the same name tells nothing of the one that was fenced.
#[test]
fn another_node_of_its_name_ends_nothing() {
    let other = NodeView {
        uid: "uid-2".to_owned(),
        boot_id: "boot-2".to_owned(),
        ..ready(node())
    };
    assert!(calls_people(&over(other, cancelled())));
    let gone = is_over(&purpose(), &Read::Absent, &Read::Present(cancelled()));
    assert!(calls_people(&gone), "{gone:?}");
    let unread = Read::Failed("HTTP 503".to_owned());
    let unread = is_over(&purpose(), &unread, &Read::Present(cancelled()));
    assert_eq!(unread, Err(Stays::ForNow));
}

#[test]
fn an_incident_that_ended_without_moving_anything_ends_it_in_the_same_boot() {
    assert_eq!(over(ready(node()), cancelled()), Ok(()));
    assert_eq!(over(node(), cancelled()), Ok(()));
    // Another incident of the node does not need it.
    assert_eq!(over(claimed("other-n1"), cancelled()), Ok(()));
    assert_eq!(over(claimed("fence-n1"), cancelled()), Err(Stays::ForNow));
    assert_eq!(over(node(), record(json!({}))), Err(Stays::ForNow));
}

/// S1: what may have been moved may be in use elsewhere.
#[test]
fn in_the_same_boot_nothing_ends_it_once_something_may_have_been_moved() {
    let tainted = json!({"conditions": [ended()], "taintAppliedTime": "2026-01-02T00:00:00Z"});
    let proven = json!({"conditions": [ended()], "evidence": {
        "claim": "fence-n1", "nodeUID": "uid-1", "nodeBootID": "boot-1",
        "quiescedTime": "2026-01-02T00:00:00Z", "provenTime": "2026-01-02T00:00:00Z", "readings": [],
    }});
    for status in [tainted, proven] {
        assert_eq!(over(node(), record(status.clone())), Err(Stays::ForNow));
        assert!(calls_people(&over(ready(node()), record(status))));
    }
    let mut marked = node();
    marked.taints.push(out_of_service());
    assert_eq!(over(marked, cancelled()), Err(Stays::ForNow));
    let no_record = is_over(&purpose(), &Read::Present(ready(node())), &Read::Absent);
    assert!(calls_people(&no_record), "{no_record:?}");
    let unread = Read::Failed("HTTP 503".to_owned());
    let unread = is_over(&purpose(), &Read::Present(ready(node())), &unread);
    assert_eq!(unread, Err(Stays::ForNow));
}

#[test]
fn a_purpose_is_that_of_the_claim() {
    assert_eq!(Purpose::of(&claimed("fence-n1")), Some(purpose()));
    assert_eq!(Purpose::of(&node()), None);
    let unreported = NodeView {
        boot_id: String::new(),
        ..claimed("fence-n1")
    };
    assert_eq!(Purpose::of(&unreported), None);
}
