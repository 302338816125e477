use super::*;
use fencing_api::remediation::RemediationReference;
use serde_json::json;

/// The record lists attempts, readings and volumes each by themselves; what is told goes through all of them by time.
#[test]
fn moments_are_told_by_their_time_wherever_the_record_has_them() {
    let at = |second: u32| format!("2027-01-02T18:00:{second:02}Z");
    let reading = |second: u32| {
        json!({
            "device": "bmc", "level": "bmc", "powerState": "Off", "raw": "off", "time": at(second), "roundTripMillis": 21,
        })
    };
    let fence = json!({
        "apiVersion": "nodefencing.io/v1alpha1",
        "kind": "NodeFence",
        "metadata": {"name": "worker-1-1a2b3c4d", "creationTimestamp": at(10), "annotations": {
            "nodefencing.io/released-by": "eve", "nodefencing.io/release-reason": "it is back", "nodefencing.io/released-at": at(50),
        }},
        "spec": {
            "nodeName": "worker-1", "policyName": "workers", "desiredState": "Released",
            "trigger": {
                "type": "NodeCondition", "conditionType": "Ready", "conditionStatus": "Unknown",
                "unhealthySinceTime": at(0), "dueTime": at(10),
            },
            "approval": {"decision": "Approved", "user": "eve", "reason": "go", "time": at(12)},
        },
        "status": {
            "detectedTime": at(11), "approvedTime": at(13), "taintAppliedTime": at(30), "detachedTime": at(40),
            "taintRemovedTime": at(51),
            "attempts": [
                {"device": "pdu", "action": "PowerOff", "startTime": at(18), "completionTime": at(20), "result": "Succeeded"},
                {"device": "bmc", "action": "PowerOff", "startTime": at(14), "completionTime": at(16), "result": "TimedOut"},
            ],
            "volumes": [{
                "volumeAttachment": "csi-1", "persistentVolume": "pv", "attacher": "csi", "state": "Detached", "detachedTime": at(39),
            }],
            "evidence": {
                "claim": "c", "nodeUID": "u", "nodeBootID": "b", "quiescedTime": at(15), "provenTime": at(25),
                "readings": [reading(21), reading(24)],
            },
        },
    });
    let fence: NodeFence = serde_json::from_value(fence).expect("a NodeFence");
    let told = timeline(&fence).into_iter().map(|it| {
        let words: Vec<&str> = it.words.split_whitespace().take(3).collect();
        format!("{} {}", it.time.strftime("%S"), words.join(" "))
    });
    assert_eq!(
        told.collect::<Vec<_>>(),
        [
            "00 Node worker-1 became",
            "10 policy workers opened",
            "10 the policy's wait",
            "11 the operator started",
            "12 eve approved it:",
            "13 it was no",
            "14 off was sent",
            "15 no pod could",
            "16 off to FenceDevice",
            "18 off was sent",
            "20 off to FenceDevice",
            "21 FenceDevice bmc read",
            "24 FenceDevice bmc read",
            "25 the machine was",
            "30 taint set: pods",
            "39 VolumeAttachment csi-1 had",
            "40 everything had detached",
            "50 eve released it:",
            "51 the taint was",
        ]
    );
}
fn moments(spec: &serde_json::Value, status: &serde_json::Value) -> String {
    let at = "2027-01-02T18:00:00Z";
    let mut fence = json!({
        "apiVersion": "nodefencing.io/v1alpha1",
        "kind": "NodeFence",
        "metadata": {"name": "worker-1-1a2b3c4d", "annotations": {
            "nodefencing.io/released-by": "eve", "nodefencing.io/release-reason": "a joke", "nodefencing.io/released-at": at,
        }},
        "spec": {"nodeName": "worker-1", "trigger": {"type": "NodeCondition"}},
        "status": {"evidence": {
            "claim": "c", "nodeUID": "u", "nodeBootID": "b", "quiescedTime": at, "provenTime": at, "readings": [],
        }},
    });
    json_patch::merge(&mut fence["spec"], spec);
    json_patch::merge(&mut fence["status"], status);
    let fence: NodeFence = serde_json::from_value(fence).expect("a NodeFence");
    let words = timeline(&fence).into_iter().map(|it| it.words);
    words.collect::<Vec<_>>().join("\n")
}

/// Who reads it frees volumes by it.
#[test]
fn a_proof_or_a_word_that_does_not_stand_is_told_with_what_speaks_against_it() {
    let at = "2027-01-02T18:00:00Z";
    let told = |status: &str| {
        let confirmed = json!({
            "type": "NodeConfirmedDown", "status": status, "reason": "Refuted", "message": "it is Ready", "lastTransitionTime": at,
        });
        moments(&json!({}), &json!({"conditions": [confirmed]}))
    };
    assert!(told("True").ends_with("under claim c"), "{}", told("True"));
    for status in ["False", "Unknown"] {
        let told = told(status);
        let doubt =
            format!("contradicted since: NodeConfirmedDown is {status}: Refuted: it is Ready");
        assert!(told.contains(&doubt), "{told}");
    }
    let word = json!({"manualConfirmation": {
        "statement": "IVerifiedTheNodeIsPoweredOff", "nodeUID": "u", "user": "eve", "reason": "I saw it", "time": at,
    }});
    let told = moments(&word, &json!({"confirmationRefused": "the BMC reads On"}));
    assert!(told.contains("I saw it; rejected as invalid"), "{told}");
}

/// An auditor does not take it for what a device has read.
#[test]
fn a_human_s_word_is_told_as_one_and_as_no_reading() {
    let at = "2027-01-02T18:00:00Z";
    let reading = |device: &str, raw: &str| json!({"device": device, "powerState": "Off", "raw": raw, "time": at});
    let word = reading("manualConfirmation", "confirmed by eve");
    let told = |readings: serde_json::Value| {
        moments(&json!({}), &json!({"evidence": {"readings": readings}}))
    };
    let alone = told(json!([word, word]));
    assert!(!alone.contains("read Off"), "{alone}");
    assert_eq!(alone.matches("(confirmed by eve)").count(), 1, "{alone}");
    assert!(alone.contains("by hand, read by no device,"), "{alone}");
    let both = told(json!([word, reading("bmc", "0x00")]));
    assert!(both.contains("FenceDevice bmc read Off"), "{both}");
    assert!(both.contains("also by hand,"), "{both}");
}

#[test]
fn a_note_of_a_release_is_told_when_it_is_one() {
    assert!(!moments(&json!({}), &json!({})).contains("released"));
    let released = moments(&json!({"desiredState": "Released"}), &json!({}));
    assert!(released.contains("eve released it: a joke"), "{released}");
}

/// Whoever lets go by hand is not the one whose note stood there.
#[test]
fn a_note_that_another_program_has_written_is_of_no_release() {
    let released = |notes: serde_json::Value| {
        let at = |second: u32| format!("2027-01-02T18:00:{second:02}Z");
        let fence = json!({
            "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence",
            "metadata": {
                "name": "f", "creationTimestamp": at(0),
                "annotations": {
                    "nodefencing.io/released-by": "eve", "nodefencing.io/release-reason": "a joke",
                    "nodefencing.io/released-at": at(10),
                },
                "managedFields": [{"manager": "kubectl-edit", "time": at(20), "fieldsV1": {
                    "f:metadata": {"f:annotations": notes}, "f:spec": {"f:desiredState": {}},
                }}],
            },
            "spec": {"nodeName": "w", "desiredState": "Released", "trigger": {"type": "Manual", "requestedBy": "ann", "reason": "smoke"}},
        });
        let fence = serde_json::from_value(fence).expect("a NodeFence");
        timeline(&fence).pop().expect("a moment")
    };
    let own = released(json!({"f:nodefencing.io/released-by": {}}));
    assert_eq!(own.words, "eve released it: a joke");
    let other = released(json!({}));
    assert_eq!(
        other.words,
        "it was released (with kubectl-edit) without a name; see the API server's audit log"
    );
    assert_eq!(other.time.to_string(), "2027-01-02T18:00:20Z");
}

/// What is recorded before it is sent may never have been.
#[test]
fn a_command_is_told_as_sent_when_it_was() {
    let at = "2027-01-02T18:00:00Z";
    for (result, told) in [
        (
            json!(null),
            "off was recorded for FenceDevice bmc: its outcome is unknown",
        ),
        (json!("Succeeded"), "off was sent to FenceDevice bmc"),
        (json!("Refused"), "off was requested from FenceDevice bmc"),
    ] {
        let attempt =
            json!({"device": "bmc", "action": "PowerOff", "startTime": at, "result": result});
        let moments = moments(&json!({}), &json!({"attempts": [attempt]}));
        assert!(moments.contains(told), "{moments}");
    }
}

/// In a table of moments each one stands by itself.
#[test]
fn what_became_of_a_command_names_the_command() {
    let at = "2027-01-02T18:00:00Z";
    let told = |action: &str, result: &str| {
        let attempt = json!({"device": "bmc", "action": action, "startTime": at, "completionTime": at, "result": result, "message": "m"});
        moments(&json!({}), &json!({"attempts": [attempt]}))
    };
    for (action, result, words) in [
        (
            "PowerOff",
            "Succeeded",
            "off to FenceDevice bmc took effect: m",
        ),
        (
            "PowerOff",
            "Refused",
            "off to FenceDevice bmc was not carried out: m",
        ),
        ("PowerOn", "Failed", "on to FenceDevice bmc failed: m"),
        (
            "PowerOn",
            "TimedOut",
            "on to FenceDevice bmc had no effect in time, and may have taken effect later: m",
        ),
    ] {
        let all = told(action, result);
        assert!(all.lines().any(|it| it == words), "{words} in\n{all}");
    }
    let open = json!({"device": "bmc", "action": "PowerOff", "startTime": at});
    let all = moments(&json!({}), &json!({"attempts": [open]}));
    let words = "off was recorded for FenceDevice bmc: its outcome is unknown";
    assert!(all.lines().any(|it| it == words), "{all}");
}

/// One that was opened early may have claimed the node before the wait was over, and then nothing was waited for.
#[test]
fn a_wait_is_told_as_over_where_it_was_waited_for() {
    let is_told = |early: Option<u32>, due: &str| {
        let trigger = json!({"dueTime": due, "earlySeconds": early});
        let told = moments(&json!({"trigger": trigger}), &json!({}));
        told.contains("the policy's wait was over")
    };
    let (before, after) = ("2027-01-02T17:59:00Z", "2027-01-02T18:01:00Z");
    assert!(is_told(None, before) && is_told(None, after));
    assert!(is_told(Some(43), before) && !is_told(Some(43), after));
    let trigger = json!({"type": "NodeCondition", "earlySeconds": 43});
    let whole = json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence", "metadata": {"creationTimestamp": before},
        "spec": {"nodeName": "worker-1", "policyName": "workers", "trigger": trigger},
    });
    let whole: NodeFence = serde_json::from_value(whole).expect("a NodeFence");
    let words = "policy workers opened the incident 43 s early, because a device read Off";
    assert_eq!(timeline(&whole)[0].words, words);
    let mut asked = whole;
    asked.spec.trigger.early_seconds = None;
    asked.spec.trigger.remediation = Some(RemediationReference {
        namespace: "fencing".to_owned(),
        name: "worker-1".to_owned(),
        uid: "uid-1".to_owned(),
    });
    let words = "policy workers opened the incident for NodeFenceRemediation fencing/worker-1";
    assert_eq!(timeline(&asked)[0].words, words);
}
