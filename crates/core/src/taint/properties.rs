//! Whatever stands on a Node, and whatever came or went since it was read, a patch lands as it was meant or not at all, and nobody else's
//! taint is touched (S7).

use super::*;
use crate::fixtures::{self, DATE, cases, proof, taint};
use proptest::prelude::*;

const OWN: &str = "fence-n1";

fn any_taint() -> impl Strategy<Value = TaintView> {
    let key = prop::sample::select(vec![
        CLAIM,
        OUT_OF_SERVICE,
        QUARANTINE,
        "node.kubernetes.io/unreachable",
        "example.com/a",
        "example.com/b",
    ]);
    let value = prop::sample::select(vec![
        OWN,
        "fence-n2",
        "boot-1",
        "boot-0",
        "nodeshutdown",
        "",
    ]);
    let effect = prop::sample::select(vec!["NoExecute", "NoSchedule"]);
    let time = prop::option::of(Just("2026-01-01T00:00:00Z".to_owned()));
    (key, value, effect, time).prop_map(|(key, value, effect, time_added)| TaintView {
        time_added,
        ..taint(key, value, effect)
    })
}

/// No two of one key, but for `out-of-service`: kubectl sets a second one of another effect beside ours.
fn any_taints() -> impl Strategy<Value = Vec<TaintView>> {
    prop::collection::vec(any_taint(), 0..6).prop_map(|mut taints| {
        let mut known = std::collections::BTreeSet::new();
        taints.retain(|taint| {
            let effect = Some(&taint.effect).filter(|_| taint.key == OUT_OF_SERVICE);
            known.insert((taint.key.clone(), effect.cloned()))
        });
        taints
    })
}

/// Each write that the Node as it was read gives reason for.
fn patches(node: &NodeView) -> Vec<NodePatch> {
    let all = [
        Some(claim(node, OWN, DATE, Duration::ZERO)),
        out_of_service(node, proof(OWN)),
        drop_claim(node, OWN),
        release(node, OWN, None),
        release(node, OWN, Some(&node.boot_id)),
        lift_quarantine(node),
    ];
    all.into_iter().flatten().collect()
}

/// What the API server makes of a patch. An absent list equals null for it.
fn applied(
    uid: &str,
    boot_id: &str,
    taints: &[TaintView],
    patch: &NodePatch,
) -> Option<Vec<Value>> {
    let list = match taints {
        [] => Value::Null,
        _ => taints.iter().map(element).collect(),
    };
    let mut object = json!({
        "metadata": {"uid": uid}, "spec": {"taints": list}, "status": {"nodeInfo": {"bootID": boot_id}},
    });
    let operations: json_patch::Patch =
        serde_json::from_value(patch.operations.clone()).expect("a JSON Patch");
    json_patch::patch(&mut object, &operations).ok()?;
    let list = object["spec"]["taints"].as_array().cloned();
    Some(list.unwrap_or_default())
}

fn is_ours(taint: &Value) -> bool {
    [CLAIM, OUT_OF_SERVICE, QUARANTINE]
        .iter()
        .any(|key| taint["key"] == *key)
}

/// The taints of others, in their order.
fn of_others(taints: &[Value]) -> Vec<Value> {
    taints
        .iter()
        .filter(|taint| !is_ours(taint))
        .cloned()
        .collect()
}

fn has(taints: &[Value], key: &str) -> bool {
    taints.iter().any(|taint| taint["key"] == key)
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn a_patch_of_a_node_that_is_as_it_was_read_lands_and_does_one_thing(taints in any_taints()) {
        let node = NodeView { taints, ..fixtures::node() };
        let before: Vec<Value> = node.taints.iter().map(element).collect();
        let own = node.claim() == Some(OWN);
        let count = 1
            + usize::from(own)
            + usize::from(own && claim_date(&node).is_some())
            + usize::from(own && out_of_service_of_claim(&node).is_some()) * 2
            + usize::from(node.taint(QUARANTINE).is_some() && !is_quarantined(&node));
        prop_assert_eq!(patches(&node).len(), count);
        for patch in patches(&node) {
            let after = applied(&node.uid, &node.boot_id, &node.taints, &patch);
            let Some(after) = after else {
                return Err(TestCaseError::fail(format!("{patch:?} does not land")));
            };
            prop_assert_eq!(of_others(&after), of_others(&before));
        }
        let landed = |patch: Option<NodePatch>| patch.and_then(|patch| applied(&node.uid, &node.boot_id, &node.taints, &patch));
        let claimed = landed(Some(claim(&node, OWN, DATE, Duration::ZERO))).expect("it lands");
        let own_claim = json!({"key": CLAIM, "value": OWN, "effect": "NoExecute", "timeAdded": DATE});
        prop_assert!(claimed.contains(&own_claim));
        prop_assert_eq!(claimed.iter().filter(|taint| taint["key"] == CLAIM).count(), 1);
        if let Some(left) = landed(release(&node, OWN, Some("boot-1"))) {
            let ours = out_of_service_of_claim(&node).map(|(_, taint)| element(taint));
            prop_assert!(!has(&left, CLAIM) && !left.contains(&ours.expect("it is released")));
            let quarantine = json!({"key": QUARANTINE, "value": "boot-1", "effect": "NoSchedule"});
            prop_assert!(left.contains(&quarantine));
        }
        if let Some(left) = landed(drop_claim(&node, OWN)) {
            prop_assert!(!has(&left, CLAIM));
            prop_assert_eq!(has(&left, OUT_OF_SERVICE), node.out_of_service());
        }
    }

    #[test]
    fn a_patch_of_a_node_that_has_changed_leaves_what_is_others_and_never_taints_without_its_claim(
        read in any_taints(),
        stored in any_taints(),
        is_anew in prop::bool::weighted(0.2),
        has_booted in prop::bool::weighted(0.2),
    ) {
        let node = NodeView { taints: read, ..fixtures::node() };
        let uid = if is_anew { "uid-2" } else { "uid-1" };
        let boot_id = if has_booted { "boot-2" } else { "boot-1" };
        let before: Vec<Value> = stored.iter().map(element).collect();
        let now = NodeView { taints: stored.clone(), ..fixtures::node() };
        let is_claimed = stored.iter().any(|taint| taint.key == CLAIM && taint.value.as_deref() == Some(OWN));
        for patch in patches(&node) {
            let Some(after) = applied(uid, boot_id, &stored, &patch) else {
                continue;
            };
            prop_assert!(!is_anew, "S10: {:?} lands on another Node", patch);
            prop_assert_eq!(of_others(&after), of_others(&before));
            if patch.valid_until.is_some() {
                prop_assert!(is_claimed && !has_booted, "S9: {:?} lands on {:?}", patch, before);
            }
            let is_freed = has(&before, OUT_OF_SERVICE) && !has(&after, OUT_OF_SERVICE);
            let is_ours = is_claimed && out_of_service_of_claim(&now).is_some();
            prop_assert!(!is_freed || is_ours, "S8: {:?} takes a taint that is not ours", patch);
            let loses_claim = has(&before, CLAIM) && !has(&after, CLAIM);
            prop_assert!(!loses_claim || is_claimed, "S9: {:?} takes another's claim", patch);
        }
    }
}
