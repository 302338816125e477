//! The API server: a JSON Patch of a Node is applied to the object as it is stored when the request arrives.
//!
//! All operations are carried out or none, and a `test` that fails refuses all of them. What is read from the result is the list of
//! taints, because the operator's patches may touch nothing else (S7).

use crate::state::{Node, TAINTS, Taint};
use crate::views::{node_view, taint_of};
use fencing_core::taint::element;
use serde_json::{Value, json};

/// The Node after the operations, or none if they are refused.
pub fn patched(operations: &Value, node: &Node) -> Option<Node> {
    if node.uid == 0 {
        return None;
    }
    let mut object = object(node);
    for operation in operations.as_array().expect("a JSON Patch") {
        // For the API server an absent field equals null; the json-patch crate disagrees.
        let absent = operation["value"].is_null() && object["spec"].get("taints").is_none();
        if operation["op"] == "test" && operation["path"] == "/spec/taints" && absent {
            continue;
        }
        let one: json_patch::Patch =
            serde_json::from_value(json!([operation])).expect("an operation");
        json_patch::patch(&mut object, &one).ok()?;
    }
    let list = object["spec"]["taints"].as_array();
    let list: Vec<&Value> = list.into_iter().flatten().collect();
    // Validation: no two taints with one key and effect.
    let same = |one: &Value, other: &Value| ["key", "effect"].iter().all(|it| one[it] == other[it]);
    let is_double = |at: usize| list[..at].iter().any(|other| same(other, list[at]));
    if (0..list.len()).any(is_double) {
        return None;
    }
    let mut taints = [Taint::default(); TAINTS];
    assert!(
        list.len() <= TAINTS,
        "more taints than the model has room for"
    );
    for (place, taint) in taints.iter_mut().zip(list) {
        let text = |field: &str| taint[field].as_str().unwrap_or_default();
        *place = taint_of(text("key"), text("value"));
    }
    Some(Node { taints, ..*node })
}

/// The Node as it is stored.
fn object(node: &Node) -> Value {
    let view = node_view(node, false);
    let mut object = json!({
        "metadata": {"uid": view.uid},
        "spec": {},
        "status": {"nodeInfo": {"bootID": view.boot_id}},
    });
    if !view.taints.is_empty() {
        object["spec"]["taints"] = view.taints.iter().map(element).collect();
    }
    object
}
