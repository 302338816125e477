//! The exact operations of each write to a Node: a change here is a change of what the API server is asked to guarantee.

use super::*;
use crate::fixtures::{self, DATE, dated, proof, taint};

fn node(taints: Vec<TaintView>) -> NodeView {
    NodeView {
        taints,
        ..fixtures::node()
    }
}

fn own_claim() -> TaintView {
    dated(taint(CLAIM, "fence-n1", "NoExecute"))
}

fn other() -> TaintView {
    taint("other", "x", "NoSchedule")
}

fn test_uid_json() -> Value {
    json!({"op": "test", "path": "/metadata/uid", "value": "uid-1"})
}

fn claim_json(nonce: &str) -> Value {
    json!({"key": CLAIM, "value": format!("fence-{nonce}"), "effect": "NoExecute", "timeAdded": DATE})
}

#[test]
fn a_claim_on_a_node_without_taints_tests_that_there_are_none() {
    let patch = claim(&node(Vec::new()), "fence-n1", DATE, Duration::ZERO);
    let expected = json!([
        test_uid_json(),
        {"op": "test", "path": "/spec/taints", "value": null},
        {"op": "add", "path": "/spec/taints", "value": [claim_json("n1")]},
    ]);
    assert_eq!(patch.operations, expected);
}

#[test]
fn a_claim_beside_other_taints_never_replaces_the_list() {
    let patch = claim(&node(vec![other()]), "fence-n1", DATE, Duration::ZERO);
    let expected = json!([
        test_uid_json(),
        {"op": "add", "path": "/spec/taints/-", "value": claim_json("n1")},
    ]);
    assert_eq!(patch.operations, expected);
}

#[test]
fn a_take_over_tests_all_that_stands_beside_the_claim_it_replaces() {
    let node = node(vec![other(), own_claim()]);
    let patch = claim(&node, "fence-n2", DATE, Duration::ZERO);
    let expected = json!([
        test_uid_json(),
        {"op": "test", "path": "/spec/taints", "value": [element(&other()), claim_json("n1")]},
        {"op": "replace", "path": "/spec/taints/1", "value": claim_json("n2")},
    ]);
    assert_eq!(patch.operations, expected);
}

#[test]
fn out_of_service_tests_the_claim_of_its_proof_and_dies_with_it() {
    let node = node(vec![other(), own_claim()]);
    let patch = out_of_service(&node, proof("fence-n1")).expect("a patch");
    let oos = json!({"key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute", "timeAdded": DATE});
    let expected = json!([
        test_uid_json(),
        {"op": "test", "path": "/status/nodeInfo/bootID", "value": "boot-1"},
        {"op": "test", "path": "/spec/taints/1", "value": claim_json("n1")},
        {"op": "add", "path": "/spec/taints/-", "value": oos},
    ]);
    assert_eq!(patch.operations, expected);
    assert_eq!(patch.valid_until, Some(Duration::from_secs(28)));
    assert_eq!(out_of_service(&node, proof("fence-n2")), None);
}

/// S8: value and effect are what everybody sets; the date is the claim's only where the holder of the claim has set it.
#[test]
fn an_out_of_service_that_does_not_bear_the_date_of_the_claim_is_somebody_else_s() {
    let place = |out_of_service: TaintView, claim: TaintView| {
        let node = node(vec![out_of_service, other(), claim]);
        out_of_service_of_claim(&node).map(|(index, _)| index)
    };
    let is_ours = |taint| place(taint, own_claim()).is_some();
    let dated = |date: &str| TaintView {
        time_added: Some(date.to_owned()),
        ..fixtures::out_of_service()
    };
    let undated = || taint(OUT_OF_SERVICE, "nodeshutdown", "NoExecute");
    assert!(is_ours(fixtures::out_of_service()));
    assert!(!is_ours(dated("2026-01-02T00:00:01Z")));
    assert!(!is_ours(undated()));
    // Who edits it takes it over, too.
    let edited = |value: &str, effect: &str| TaintView {
        value: Some(value.to_owned()),
        effect: effect.to_owned(),
        ..fixtures::out_of_service()
    };
    assert!(!is_ours(edited("human", "NoExecute")));
    assert!(!is_ours(edited("nodeshutdown", "NoSchedule")));
    // Without a date no claim says anything.
    let claim = taint(CLAIM, "fence-n1", "NoExecute");
    assert_eq!(place(undated(), claim), None);
    let alone = |taint| out_of_service_of_claim(&node(vec![taint])).is_some();
    assert!(!alone(own_claim()) && !alone(fixtures::out_of_service()));
}

/// S8: taints of one key and two effects may stand side by side; kubectl puts its own before all others.
#[test]
fn a_release_leaves_an_out_of_service_of_another_effect_where_it_is() {
    let theirs = taint(OUT_OF_SERVICE, "nodeshutdown", "NoSchedule");
    let node = node(vec![theirs, own_claim(), fixtures::out_of_service()]);
    let patch = release(&node, "fence-n1", None).expect("a patch");
    let expected = json!([
        test_uid_json(),
        {"op": "test", "path": "/spec/taints/1", "value": claim_json("n1")},
        {"op": "test", "path": "/spec/taints/2", "value": element(&fixtures::out_of_service())},
        {"op": "remove", "path": "/spec/taints/2"},
        {"op": "remove", "path": "/spec/taints/1"},
    ]);
    assert_eq!(patch.operations, expected);
}

#[test]
fn only_out_of_service_is_a_matter_of_time() {
    let node = node(vec![own_claim(), fixtures::out_of_service()]);
    let patches = [
        Some(claim(&node, "fence-n2", DATE, Duration::ZERO)),
        drop_claim(&node, "fence-n1"),
        release(&node, "fence-n1", None),
    ];
    for patch in patches {
        assert_eq!(patch.expect("a patch").valid_until, None);
    }
}

#[test]
fn dropping_takes_our_own_claim_only() {
    let node = node(vec![other(), own_claim()]);
    let patch = drop_claim(&node, "fence-n1").expect("a patch");
    let list = [element(&other()), claim_json("n1")];
    let expected = json!([
        test_uid_json(),
        {"op": "test", "path": "/spec/taints", "value": list},
        {"op": "remove", "path": "/spec/taints/1"},
    ]);
    assert_eq!(patch.operations, expected);
    assert_eq!(drop_claim(&node, "fence-n2"), None);
}

#[test]
fn a_release_takes_both_taints_and_leaves_quarantine() {
    let node = node(vec![own_claim(), other(), fixtures::out_of_service()]);
    let patch = release(&node, "fence-n1", Some("boot-1")).expect("a patch");
    let oos = element(&fixtures::out_of_service());
    let quarantine = json!({"key": QUARANTINE, "value": "boot-1", "effect": "NoSchedule"});
    let expected = json!([
        test_uid_json(),
        {"op": "test", "path": "/spec/taints/0", "value": claim_json("n1")},
        {"op": "test", "path": "/spec/taints/2", "value": oos},
        {"op": "test", "path": "/status/nodeInfo/bootID", "value": "boot-1"},
        {"op": "remove", "path": "/spec/taints/2"},
        {"op": "remove", "path": "/spec/taints/0"},
        {"op": "add", "path": "/spec/taints/-", "value": quarantine},
    ]);
    assert_eq!(patch.operations, expected);
    assert_eq!(release(&node, "fence-n2", None), None);
}

#[test]
fn quarantine_is_lifted_only_by_another_boot() {
    let quarantined = |boot: &str| node(vec![taint(QUARANTINE, boot, "NoSchedule")]);
    assert!(is_quarantined(&quarantined("boot-1")) && !is_quarantined(&quarantined("boot-0")));
    assert!(!is_quarantined(&node(Vec::new())));
    assert_eq!(lift_quarantine(&quarantined("boot-1")), None);
    let mut silent = quarantined("boot-0");
    silent.boot_id = String::new();
    assert_eq!(lift_quarantine(&silent), None);
    let patch = lift_quarantine(&quarantined("boot-0")).expect("a patch");
    let stood = json!({"key": QUARANTINE, "value": "boot-0", "effect": "NoSchedule"});
    let expected = json!([
        test_uid_json(),
        {"op": "test", "path": "/status/nodeInfo/bootID", "value": "boot-1"},
        {"op": "test", "path": "/spec/taints/0", "value": stood},
        {"op": "remove", "path": "/spec/taints/0"},
    ]);
    assert_eq!(patch.operations, expected);
    assert_eq!(lift_quarantine(&node(Vec::new())), None);
}

/// L6: kubelet and others have written the Node since it was read, and have added taints. What tests its own element lands all
/// the same; only a claim that is given back or takes another one's place tests the whole list, and is decided again.
#[test]
fn what_others_write_meanwhile_refuses_us_nothing() {
    let claimed = node(vec![other(), own_claim()]);
    let tainted = node(vec![other(), own_claim(), fixtures::out_of_service()]);
    let quarantined = node(vec![other(), taint(QUARANTINE, "boot-0", "NoSchedule")]);
    let table = [
        (
            node(vec![other()]),
            Some(claim(
                &node(vec![other()]),
                "fence-n1",
                DATE,
                Duration::ZERO,
            )),
        ),
        (claimed.clone(), out_of_service(&claimed, proof("fence-n1"))),
        (tainted.clone(), release(&tainted, "fence-n1", None)),
        (
            tainted.clone(),
            release(&tainted, "fence-n1", Some("boot-1")),
        ),
        (quarantined.clone(), lift_quarantine(&quarantined)),
    ];
    for (read, patch) in table {
        let mut taints: Vec<Value> = read.taints.iter().map(element).collect();
        taints.push(element(&taint("came-meanwhile", "x", "NoSchedule")));
        let mut stored = json!({
            "metadata": {"uid": "uid-1", "resourceVersion": "999", "labels": {"new": ""}, "annotations": {"new": ""}},
            "spec": {"unschedulable": true, "taints": taints},
            "status": {"conditions": [{"type": "Ready", "status": "Unknown"}], "nodeInfo": {"bootID": "boot-1"}},
        });
        let operations = patch.expect("a patch").operations;
        let patch: json_patch::Patch = serde_json::from_value(operations).expect("a JSON Patch");
        json_patch::patch(&mut stored, &patch).expect("every test holds");
        let left = stored["spec"]["taints"].to_string();
        assert!(left.contains("came-meanwhile"), "{left}");
    }
}

/// What bears another date than the claim is not of its process, and without a version there is nothing to hold a deletion to.
#[test]
fn a_node_is_deleted_under_the_claim_and_its_mark_alone() {
    let marked = |date: &str, status: &str, version: &str| {
        let mut node = NodeView {
            taints: vec![
                fixtures::dated(fixtures::taint(CLAIM, "fence-n1", "NoExecute")),
                TaintView {
                    time_added: Some(date.to_owned()),
                    ..fixtures::taint(DETACHING, "boot-1", "NoExecute")
                },
            ],
            resource_version: version.to_owned(),
            ..fixtures::node()
        };
        status.clone_into(&mut node.conditions[0].status);
        node
    };
    let until = Duration::from_secs(20);
    let good = marked(fixtures::DATE, "Unknown", "7");
    let deletion = delete_node(&good, "fence-n1", until).expect("a deletion");
    assert_eq!(
        (deletion.uid.as_str(), deletion.valid_until),
        ("uid-1", until)
    );
    assert_eq!(delete_node(&good, "fence-n2", until), None);
    for (date, status, version) in [
        ("2026-01-03T00:00:00Z", "Unknown", "7"),
        (fixtures::DATE, "True", "7"),
        (fixtures::DATE, "Unknown", ""),
    ] {
        let node = marked(date, status, version);
        assert_eq!(delete_node(&node, "fence-n1", until), None, "{node:?}");
    }
    // The mark alone, when somebody has taken its claim away: it stays, whatever boots, for a deletion may be on its way to a VolumeAttachment.
    let mut left = good;
    left.taints.remove(0);
    "boot-2".clone_into(&mut left.boot_id);
    assert_eq!(lift_quarantine(&left), None);
}

/// The mark consumes the proof like `out-of-service`: it dies with it, and tests the boot, the UID and the claim.
#[test]
fn the_mark_is_set_like_out_of_service() {
    let node = fixtures::claimed("fence-n1");
    let mark = detaching(&node, fixtures::proof("fence-n1")).expect("a patch");
    let taint = out_of_service(&node, fixtures::proof("fence-n1")).expect("a patch");
    let tests = |patch: &NodePatch| -> Vec<Value> {
        let all = patch.operations.as_array().into_iter().flatten();
        all.filter(|it| it["op"] == "test").cloned().collect()
    };
    assert_eq!(tests(&mark), tests(&taint));
    assert_eq!(mark.valid_until, taint.valid_until);
    let added = mark.operations.as_array().and_then(|all| all.last());
    let value = added.map(|it| it["value"].clone()).expect("an operation");
    assert_eq!(value["key"], DETACHING);
    assert_eq!(
        (&value["value"], &value["timeAdded"]),
        (&json!("boot-1"), &json!(fixtures::DATE))
    );
}
