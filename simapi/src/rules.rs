//! Rules that no schema can say: the CEL of NodeFences, written out here, and what the API server itself knows of Nodes.
//!
//! A test compares the messages with those in `crds/`, so that a new rule there is not forgotten here.

use crate::kinds::{FENCE, Kind, NODE};
use serde_json::Value;

/// Fields of a NodeFence's spec that never change.
const FROZEN: [&str; 10] = [
    "nodeName",
    "nodeUID",
    "bootID",
    "policyName",
    "policyGeneration",
    "trigger",
    "fence",
    "recovery",
    "release",
    "powerOn",
];
/// Fields of a NodeFence's spec that are set once.
const ONCE: [&str; 2] = ["approval", "manualConfirmation"];

/// What is wrong with the object, or with its change.
#[must_use]
pub fn problems(kind: &Kind, old: Option<&Value>, new: &Value) -> Vec<String> {
    if *kind == FENCE {
        let mut problems = fence(&new["spec"]);
        problems.extend(
            old.iter()
                .flat_map(|old| changes(&old["spec"], &new["spec"])),
        );
        return problems;
    }
    if *kind == NODE {
        return taints(&new["spec"]["taints"]);
    }
    Vec::new()
}

fn fence(spec: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    let word = &spec["manualConfirmation"]["nodeUID"];
    if !word.is_null() && !spec["nodeUID"].is_null() && *word != spec["nodeUID"] {
        problems.push(format!(
            "spec.manualConfirmation: Invalid value: `manualConfirmation.nodeUID` must be {}",
            spec["nodeUID"]
        ));
    }
    let trigger = &spec["trigger"];
    let is_told = !trigger["reason"].is_null() && !trigger["requestedBy"].is_null();
    if trigger["type"] == "Manual" && !is_told {
        problems.push("spec.trigger: Invalid value: `trigger.reason` and `trigger.requestedBy` must be set when `trigger.type` is 'Manual'".to_owned());
    }
    let levels = spec["fence"]["levels"].as_array().map_or(0, Vec::len);
    if spec["fence"]["mode"] != "Observe" && levels == 0 {
        problems.push("spec.fence.levels: Invalid value: `levels` must have at least one entry unless `mode` is 'Observe'".to_owned());
    }
    problems
}

fn changes(old: &Value, new: &Value) -> Vec<String> {
    let frozen = FROZEN.iter().filter(|name| old[**name] != new[**name]);
    let mut problems: Vec<String> = frozen
        .map(|name| {
            format!("spec: Invalid value: `{name}` is immutable: create another object instead")
        })
        .collect();
    let once = ONCE
        .iter()
        .filter(|name| !old[**name].is_null() && old[**name] != new[**name]);
    problems.extend(
        once.map(|name| {
            format!("spec.{name}: Invalid value: `{name}` may not be changed once set")
        }),
    );
    if old["desiredState"] == "Released" && new["desiredState"] != "Released" {
        problems.push("spec.desiredState: Invalid value: `desiredState` may not be changed back from 'Released'".to_owned());
    }
    problems
}

/// Unique by key and effect, and effects that exist.
fn taints(taints: &Value) -> Vec<String> {
    let taints = taints.as_array().map(Vec::as_slice).unwrap_or_default();
    let mut problems = Vec::new();
    for (at, taint) in taints.iter().enumerate() {
        let same =
            |other: &Value| other["key"] == taint["key"] && other["effect"] == taint["effect"];
        let path = format!("metadata.taints[{at}]");
        if taints[..at].iter().any(same) {
            problems.push(format!(
                "{path}: Duplicate value: taints must be unique by key and effect pair"
            ));
        }
        let effect = taint["effect"].as_str().unwrap_or_default();
        if !["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect) {
            problems.push(format!("{path}.effect: Unsupported value: \"{effect}\""));
        }
    }
    problems
}
