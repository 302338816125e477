//! What the API server itself knows of Nodes, and no schema says.

use crate::answer::Cause;
use serde_json::{Value, json};

/// What is wrong with a Node: its taints are to be unique by key and effect, and of effects that exist.
#[must_use]
pub fn of_node(node: &Value) -> Vec<Cause> {
    let taints = node["spec"]["taints"].as_array();
    let taints = taints.map(Vec::as_slice).unwrap_or_default();
    let mut causes = Vec::new();
    for (at, taint) in taints.iter().enumerate() {
        let same =
            |other: &Value| other["key"] == taint["key"] && other["effect"] == taint["effect"];
        let path = format!("metadata.taints[{at}]");
        if taints[..at].iter().any(same) {
            causes.push(Cause::duplicate(&path, taint));
        }
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"].map(|effect| json!(effect));
        if !effects.contains(&taint["effect"]) {
            let path = format!("{path}.effect");
            causes.push(Cause::unsupported(&path, &taint["effect"], &effects));
        }
    }
    causes
}
