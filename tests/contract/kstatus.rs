//! What kstatus makes of our objects, by which Flux and others wait: nothing is called current before the operator has assessed it, and what time
//! does not cure is called failed.
//!
//! Its rules are written down here; `e2e/tests/e2e/flux.rs` asks the library itself.

use crate::api::through;
use fencing_api::conditions::ConditionStatus::{self, False, True, Unknown};
use fencing_api::conditions::{READY, STALLED_REASONS, set_condition, set_progress};
use fencing_api::crd;
use fencing_api::device::FenceDeviceStatus;
use fencing_api::policy::NodeFencingPolicyStatus;
use jiff::Timestamp;
use serde_json::{Value, json};

/// `Compute` of sigs.k8s.io/cli-utils (pkg/kstatus/status: `checkGenericProperties`, `checkReadyCondition`) for a kind for which it has no rules of
/// its own.
fn kstatus(object: &Value) -> &'static str {
    let (metadata, status) = (&object["metadata"], &object["status"]);
    let observed = &status["observedGeneration"];
    if !observed.is_null() && *observed != metadata["generation"] {
        return "InProgress";
    }
    let conditions = || status["conditions"].as_array().into_iter().flatten();
    for condition in conditions().filter(|it| it["status"] == "True") {
        match condition["type"].as_str() {
            Some("Reconciling") => return "InProgress",
            Some("Stalled") => return "Failed",
            _ => {}
        }
    }
    let ready = conditions().find(|it| it["type"] == "Ready");
    match ready.and_then(|it| it["status"].as_str()) {
        Some("False" | "Unknown") => "InProgress",
        _ => "Current",
    }
}

/// The status that the schema gives a new object of this kind.
fn preset(kind: &str) -> Value {
    let all = crd::all();
    let of_kind = |(_, definition): &&(_, Value)| definition["spec"]["names"]["kind"] == kind;
    let (_, definition) = all.iter().find(of_kind).expect("the kind");
    let schema = crd::schema(definition).expect("a schema");
    schema["properties"]["status"]["default"].clone()
}

#[test]
fn a_new_object_is_in_progress_and_its_status_is_one_of_the_operators() {
    for kind in ["NodeFencingPolicy", "FenceDevice"] {
        let status = preset(kind);
        let object = json!({"metadata": {"generation": 1}, "status": status});
        assert_eq!(kstatus(&object), "InProgress", "{kind}");
        let read = match kind {
            "FenceDevice" => through::<FenceDeviceStatus>(&status),
            _ => through::<NodeFencingPolicyStatus>(&status),
        };
        assert_eq!(read, status, "{kind}");
    }
}

/// Whether a NodeFence has a condition `Succeeded` tells the operator whether its wait is over (`core::record::read`).
#[test]
fn a_new_node_fence_has_no_status() {
    assert_eq!(preset("NodeFence"), Value::Null);
}

#[test]
fn what_is_ready_is_current_and_what_time_does_not_cure_has_failed() {
    let rows: [(ConditionStatus, &str, i64, &str); 8] = [
        (Unknown, "Pending", 1, "InProgress"),
        (Unknown, "NodeNotFound", 1, "InProgress"),
        (True, "Probed", 1, "Current"),
        (True, "SameDeviceTwice", 1, "Current"),
        (False, "Unreachable", 1, "InProgress"),
        (False, "SettingsInvalid", 1, "Failed"),
        // The edit that cures it has not been assessed yet.
        (False, "SettingsInvalid", 2, "InProgress"),
        (False, "Paused", 1, "InProgress"),
    ];
    for (status, reason, generation, expected) in rows {
        let preset: NodeFencingPolicyStatus =
            serde_json::from_value(preset("NodeFencingPolicy")).expect("a status");
        let (mut conditions, now) = (preset.conditions, Timestamp::UNIX_EPOCH);
        set_condition(&mut conditions, READY, status, reason, "", Some(1), now);
        set_progress(&mut conditions, Some(1), now);
        let object = json!({
            "metadata": {"generation": generation},
            "status": {"observedGeneration": 1, "conditions": conditions},
        });
        assert_eq!(kstatus(&object), expected, "{status:?} {reason}");
    }
}

#[test]
fn the_reasons_that_stall_are_reasons_of_a_device_or_a_policy() {
    let text = include_str!("../data/reasons.txt");
    let is_ours = |it: &&str| it.starts_with("device]") || it.starts_with("policy]");
    let sections = text.split("\n[").filter(is_ours);
    let known: Vec<&str> = sections
        .flat_map(str::lines)
        .filter_map(|line| line.split_once(" | "))
        .map(|(reason, _)| reason)
        .collect();
    for reason in STALLED_REASONS {
        assert!(known.contains(&reason), "{reason}");
    }
}
