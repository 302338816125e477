//! Label selectors match what they match upstream, and of policies that are the same none acts.

use super::*;
use crate::fixtures::cases;
use proptest::prelude::*;
use serde_json::json;

fn word() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "c", ""]).prop_map(str::to_owned)
}

fn any_labels() -> impl Strategy<Value = BTreeMap<String, String>> {
    prop::collection::btree_map(word(), word(), 0..4)
}

fn any_selector() -> impl Strategy<Value = LabelSelector> {
    let operator = prop::sample::select(vec!["In", "NotIn", "Exists", "DoesNotExist"]);
    let expression = (word(), operator, prop::collection::vec(word(), 0..3)).prop_map(
        |(key, operator, values)| json!({"key": key, "operator": operator, "values": values}),
    );
    (any_labels(), prop::collection::vec(expression, 0..3)).prop_map(|(exact, expressions)| {
        let selector = json!({"matchLabels": exact, "matchExpressions": expressions});
        serde_json::from_value(selector).expect("a selector")
    })
}

/// `Requirement.Matches` of `k8s.io/apimachinery/pkg/labels`, into which `LabelSelectorAsSelector` turns each label too (as `In`).
fn requirement(
    operator: &SelectorOperator,
    key: &str,
    values: &[String],
    labels: &BTreeMap<String, String>,
) -> bool {
    let has_value = || {
        labels
            .get(key)
            .is_some_and(|value| values.iter().any(|one| one == value))
    };
    match operator {
        SelectorOperator::In => labels.contains_key(key) && has_value(),
        SelectorOperator::NotIn => !labels.contains_key(key) || !has_value(),
        SelectorOperator::Exists => labels.contains_key(key),
        SelectorOperator::DoesNotExist => !labels.contains_key(key),
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn any_selector_matches_what_it_matches_upstream(selector in any_selector(), labels in any_labels()) {
        let mut upstream = true;
        for (key, value) in &selector.match_labels {
            upstream &= requirement(&SelectorOperator::In, key, std::slice::from_ref(value), &labels);
        }
        for one in &selector.match_expressions {
            upstream &= requirement(&one.operator, &one.key, &one.values, &labels);
        }
        prop_assert_eq!(matches(&selector, &labels), upstream);
    }

    #[test]
    fn of_any_policies_one_governs_or_several_quarrel_and_their_order_is_no_matter(
        mut policies in prop::collection::vec((any_selector(), 0_i32..3), 0..5),
        labels in any_labels(),
    ) {
        let node = NodeView { labels, ..crate::fixtures::node() };
        let build = |policies: &[(LabelSelector, i32)]| -> Vec<NodeFencingPolicy> {
            let one = |(selector, priority): &(LabelSelector, i32)| {
                let spec = json!({"nodeSelector": selector, "priority": priority});
                let name = spec.to_string();
                NodeFencingPolicy::new(&name, serde_json::from_value(spec).expect("a spec"))
            };
            policies.iter().map(one).collect()
        };
        let names = |policies: &[NodeFencingPolicy]| match governing(policies, &node) {
            Ok(policy) => Ok(policy.and_then(|policy| policy.metadata.name.clone())),
            Err(conflict) => Err((conflict.priority, conflict.policies)),
        };
        let found = names(&build(&policies));
        let selecting = policies.iter().filter(|(selector, _)| matches(selector, &node.labels));
        let highest = selecting.clone().map(|(_, priority)| *priority).max();
        let rivals = selecting.filter(|(_, priority)| Some(*priority) == highest).count();
        match &found {
            Ok(None) => prop_assert_eq!(rivals, 0),
            Ok(Some(_)) => prop_assert_eq!(rivals, 1),
            Err((priority, names)) => prop_assert_eq!((Some(*priority), names.len()), (highest, rivals)),
        }
        policies.reverse();
        prop_assert_eq!(names(&build(&policies)), found);
    }
}
