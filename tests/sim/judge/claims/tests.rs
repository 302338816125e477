//! A human's NodeFence and what it is bound to, and one that is deleted while it is at work.

use super::super::slips::ids;
use super::super::tests::{OPERATOR, OWN, Scene, simulated};
use serde_json::{Value, json};
use simapi::kinds::{FENCE, NODE};

/// The claim of a human's NodeFence.
const HUMAN_S: &str = "h-1-x";

/// A human makes a NodeFence, which the operator binds to this, and which claims the Node then.
fn claimed_by_hand(bound: &Value) -> Vec<String> {
    let scene = Scene::new();
    let api = &scene.world.api;
    let record = json!({
        "metadata": {"name": "h-1"},
        "spec": {"nodeName": "a", "trigger": {"type": "Manual", "requestedBy": "human", "reason": "smoke"}, "fence": {"mode": "Observe"}},
    });
    api.add("human", &FENCE, record).expect("a record");
    if !bound.is_null() {
        let written = api.change(OPERATOR, &FENCE, ("", "h-1"), |fence| {
            fence["status"] = bound.clone();
        });
        assert_eq!(written, Ok(true), "it is bound");
    }
    scene.taints(OPERATOR, &[HUMAN_S]);
    scene.world.broken()
}

#[test]
fn a_human_s_nodefence_claims_the_node_that_it_is_bound_to_and_no_other() {
    simulated(async {
        let node = Scene::new().world.api.get(&NODE, "", "a").expect("a Node");
        let uid = &node["metadata"]["uid"];
        for (bound, expected) in [
            (json!({"nodeUID": uid, "bootID": "a-boot-1"}), &[][..]),
            (
                json!({"nodeUID": "another", "bootID": "a-boot-1"}),
                &["S10"],
            ),
            (json!({"nodeUID": uid}), &["S10"]),
            (Value::Null, &["S10"]),
        ] {
            let found = claimed_by_hand(&bound);
            assert_eq!(ids(&found), expected, "{bound}: {found:?}");
        }
    });
}

/// A human deletes the NodeFence between the evidence and the taint, and makes it anew perhaps: what was proven under its claim was proven.
#[test]
fn evidence_counts_though_its_nodefence_is_deleted_and_only_for_its_own_claim() {
    simulated(async {
        for (is_made_anew, claim, expected) in [
            (false, OWN, &[][..]),
            (true, OWN, &[]),
            (false, "a-1-y", &["S17"]),
            (true, "a-1-y", &["S10", "S17", "S2"]),
        ] {
            let scene = Scene::new();
            let api = &scene.world.api;
            let record = api.get(&FENCE, "", "a-1").expect("a record");
            scene.taints(OPERATOR, &[claim]);
            let gone = api.delete("human", &FENCE, ("", "a-1"), &Value::Null);
            assert_eq!(gone, Ok(true), "it goes");
            if is_made_anew {
                let anew = json!({"metadata": {"name": "a-1"}, "spec": record["spec"]});
                api.add("human", &FENCE, anew).expect("it is made anew");
            }
            scene.proves().await;
            scene.taints(OPERATOR, &[claim, "oos"]);
            let found = scene.world.broken();
            assert_eq!(ids(&found), expected, "{is_made_anew}, {claim}: {found:?}");
        }
    });
}

/// The operator's own clearing away of records excuses nothing.
#[test]
fn evidence_of_a_record_that_the_operator_has_deleted_counts_for_nothing() {
    simulated(async {
        let scene = Scene::new();
        scene.record(|status| {
            status["conditions"] = json!([{
                "type": "Succeeded", "status": "True", "reason": "Recovered", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }]);
        });
        scene.taints(OPERATOR, &[OWN]);
        let gone = scene
            .world
            .api
            .delete(OPERATOR, &FENCE, ("", "a-1"), &Value::Null);
        assert_eq!(gone, Ok(true), "it goes");
        scene.proves().await;
        scene.taints(OPERATOR, &[OWN, "oos"]);
        let found = scene.world.broken();
        assert_eq!(ids(&found), ["S17"], "{found:?}");
    });
}
