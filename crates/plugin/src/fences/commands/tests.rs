use super::*;
use fencing_core::manual_confirmation;
use fencing_core::plan::confirmation_is_over;
use fencing_core::settings::Settings;
use serde_json::{Value, json};
use std::time::Duration;

const SINCE: &str = "2027-01-02T18:00:00Z";

/// The commands are found by what the operator's own words say of fields: those words have to say it.
#[test]
fn what_the_operator_says_of_a_word_leads_to_its_commands() {
    let of = |words: &str, refused: Option<&str>| {
        let condition = |kind: &str, status: &str, reason: &str| {
            json!({
                "type": kind, "status": status, "reason": reason, "message": words, "lastTransitionTime": SINCE,
            })
        };
        let fence = json!({
            "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence", "metadata": {"name": "node-1-5c0ffee5"},
            "spec": {"nodeName": "node-1", "trigger": {"type": "NodeCondition"}, "fence": {"mode": "ConfirmOnly"}},
            "status": {"conditions": [
                condition("Succeeded", "Unknown", "Checking"), condition("Escalated", "True", "DeviceFailed"),
            ], "confirmationRefused": refused},
        });
        commands(&serde_json::from_value(fence).expect("a NodeFence"), false)
    };
    let mut settings = fencing_core::fixtures::settings();
    let unsaid =
        manual_confirmation::valid_confirmation(&settings, Duration::ZERO).expect_err("nobody has");
    let confirm = "kubectl fence confirm node-1 --reason WHY";
    assert_eq!(of(&unsaid, None), [confirm]);
    let refused = |settings: &Settings| {
        let words = manual_confirmation::refused(settings, "it reads On");
        of(&words, Some(&words))
    };
    let cancel = "kubectl fence cancel node-1-5c0ffee5 --reason WHY";
    assert_eq!(refused(&settings), [cancel]);
    settings.adopted = true;
    // First somebody sees that the machine has no power.
    assert!(refused(&settings).is_empty());
    let delete = "kubectl delete nodefence node-1-5c0ffee5";
    assert_eq!(of(&confirmation_is_over(&settings), None), [delete]);
}

/// It would be refused.
#[test]
fn no_word_is_asked_for_while_a_device_reads_on() {
    let of = |readings: Value| {
        let words = "look at it, cut its power, and set `spec.manualConfirmation`";
        let fence = json!({
            "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence", "metadata": {"name": "node-1-5c0ffee5"},
            "spec": {"nodeName": "node-1", "trigger": {"type": "NodeCondition"}, "fence": {"mode": "PowerOff"}},
            "status": {"powerReadings": readings, "conditions": [{
                "type": "Succeeded", "status": "Unknown", "reason": "Checking", "message": words, "lastTransitionTime": SINCE,
            }]},
        });
        commands(&serde_json::from_value(fence).expect("a NodeFence"), false)
    };
    let reads = |state: &str| json!([{"device": "bmc", "powerState": state, "sinceTime": SINCE}]);
    let outlets =
        json!([{"device": "pdu", "powerState": "On", "reads": "Outlets", "sinceTime": SINCE}]);
    let confirm = ["kubectl fence confirm node-1 --reason WHY"];
    assert!(of(reads("On")).is_empty());
    assert!(of(reads("Transitional")).is_empty());
    for readings in [json!([]), reads("Unknown"), reads("Off"), outlets] {
        assert_eq!(of(readings), confirm);
    }
}

/// The policy begins no other for this outage, so whoever lets go of one is told how the next one begins, and how far that goes.
#[test]
fn the_next_fence_goes_as_far_as_the_last_and_none_follows_a_device_that_has_deceived() {
    let with = |reason: &str, refused: Option<&str>| -> Vec<String> {
        let words = "release this NodeFence (`spec.desiredState: Released`), create another";
        let condition = json!({
            "type": "Escalated", "status": "True", "reason": reason, "message": words, "lastTransitionTime": SINCE,
        });
        let fence = json!({
            "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence", "metadata": {"name": "node-1-5c0ffee5"},
            "spec": {"nodeName": "node-1", "trigger": {"type": "NodeCondition"}, "fence": {"mode": "ConfirmOnly"}},
            "status": {"conditions": [condition], "confirmationRefused": refused},
        });
        commands(&serde_json::from_value(fence).expect("a NodeFence"), false)
    };
    let of = |reason: &str| with(reason, None);
    let refuted = |reason: &str| with(reason, Some("the BMC reads On"));
    let cancel = "kubectl fence cancel node-1-5c0ffee5 --reason WHY";
    for (reason, mode) in [
        ("StillOn", "PowerOff"),
        ("ConfirmationRefused", "ConfirmOnly"),
    ] {
        let now = format!("kubectl fence now node-1 --mode {mode} --reason WHY");
        assert_eq!(of(reason), [cancel, now.as_str()]);
    }
    assert_eq!(of("FenceContradiction"), [cancel]);
    // Another command by the device that has refuted a word might go to another machine.
    assert_eq!(refuted("StillOn"), [cancel]);
}
