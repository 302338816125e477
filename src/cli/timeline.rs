//! What happened in an incident and when, from its record alone: one line a moment, oldest first.

use super::fences;
use super::trail::RELEASE;
use crate::api::fence::{ApprovalDecision, DesiredState, NodeFence, TriggerType};
use crate::api::fence_status::{Attempt, AttemptAction, AttemptResult, Evidence};
use crate::fence::manual;
use jiff::Timestamp;
use kube::ResourceExt;
use schemars::JsonSchema;
use serde::Serialize;

/// A moment of an incident.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Moment {
    /// When.
    #[schemars(with = "String")]
    pub time: Timestamp,
    /// What, in a sentence without a full stop.
    pub words: String,
}

/// All that the record dates. What it does not date (a stage that went by at once) is not in it.
pub fn timeline(fence: &NodeFence) -> Vec<Moment> {
    let mut moments: Vec<Moment> = [asked(fence), words_of_people(fence)].concat();
    if let Some(status) = &fence.status {
        let dated = |time, words: &str| at(time, words.to_owned());
        moments.extend(dated(
            status.detected_time,
            "the operator took the incident up",
        ));
        moments.extend(dated(status.approved_time, "nothing held it back any more"));
        let quiesced = status.evidence.iter().map(|it| Moment {
            time: it.quiesced_time,
            words: "no pod could start on the node any more".to_owned(),
        });
        moments.extend(quiesced);
        moments.extend(status.attempts.iter().flat_map(attempted));
        let doubt = fences::doubt(fence);
        let evidence = status.evidence.iter();
        moments.extend(evidence.flat_map(|it| proven(it, doubt.as_deref())));
        moments.extend(dated(
            status.taint_applied_time,
            "the taint stood: pods and volumes could go",
        ));
        let volumes = status.volumes.iter().filter_map(|volume| {
            let name = &volume.volume_attachment;
            at(
                volume.detached_time,
                format!("VolumeAttachment {name} had detached"),
            )
        });
        moments.extend(volumes);
        moments.extend(dated(status.detached_time, "everything had detached"));
        moments.extend(dated(status.taint_removed_time, "the taint was gone again"));
        let (stage, message) = (fences::stage(fence), fences::message(fence));
        moments.extend(at(status.completion_time, format!("{stage}: {message}")));
    }
    // The API keeps whole seconds: within one, moments stand in the order in which they come about, the same one each time.
    moments.sort_by_key(|it| it.time);
    moments
}

fn at(time: Option<Timestamp>, words: String) -> Option<Moment> {
    time.map(|time| Moment { time, words })
}

/// How it came about.
fn asked(fence: &NodeFence) -> Vec<Moment> {
    let trigger = &fence.spec.trigger;
    let node = &fence.spec.node_name;
    let condition = || {
        let type_ = trigger.condition_type.as_deref().unwrap_or_default();
        let status = trigger.condition_status.map_or("", |it| it.as_str());
        format!("{type_}={status}")
    };
    let policy = fence.spec.policy_name.as_deref().unwrap_or_default();
    let reason = trigger.reason.as_deref().unwrap_or_default();
    let made = match trigger.type_ {
        TriggerType::NodeCondition => format!("policy {policy} opened the incident"),
        TriggerType::Manual => format!(
            "{} had Node {node} fenced: {reason}",
            trigger.requested_by.as_deref().unwrap_or_default()
        ),
        TriggerType::External => {
            format!("a taint of the operator was found on Node {node}, without its record")
        }
    };
    let began = at(
        trigger.unhealthy_since_time,
        format!("Node {node} became {}", condition()),
    );
    let due = at(trigger.due_time, "the policy's wait was over".to_owned());
    let made = at(fences::created(fence), made);
    [began, made, due].into_iter().flatten().collect()
}

fn words_of_people(fence: &NodeFence) -> Vec<Moment> {
    let approval = fence.spec.approval.iter().map(|it| {
        let verbed = match it.decision {
            ApprovalDecision::Approved => "approved",
            ApprovalDecision::Denied => "denied",
        };
        let words = format!("{} {verbed} it: {}", it.user, it.reason);
        Moment {
            time: it.time,
            words,
        }
    });
    let status = fence.status.as_ref();
    let refused = status.and_then(|it| it.confirmation_refused.as_deref());
    let refused = refused.map_or_else(String::new, |it| format!("; it counts for nothing: {it}"));
    let confirmation = fence.spec.manual_confirmation.iter().map(|it| {
        let words = format!(
            "{} confirmed that the machine has no power: {}{refused}",
            it.user, it.reason
        );
        Moment {
            time: it.time,
            words,
        }
    });
    approval
        .chain(confirmation)
        .chain(released(fence))
        .collect()
}

/// As `kubectl fence release` writes it. The note alone lets go of nothing.
fn released(fence: &NodeFence) -> Option<Moment> {
    if fence.spec.desired_state != DesiredState::Released {
        return None;
    }
    let note = |key: &str| fence.annotations().get(key).map(String::as_str);
    let words = format!(
        "{} let go of it: {}",
        note(RELEASE.user)?,
        note(RELEASE.reason).unwrap_or_default()
    );
    at(note(RELEASE.time)?.parse().ok(), words)
}

/// What was asked of a device, and what came of it. An attempt is recorded before its command goes out (S8), so one without a result may or may
/// not have been sent.
fn attempted(attempt: &Attempt) -> Vec<Moment> {
    let device = &attempt.device;
    let sent = match attempt.result {
        None => "was to be sent to",
        Some(AttemptResult::Refused) => "was asked for of",
        Some(_) => "was sent to",
    };
    let what = match attempt.action {
        AttemptAction::Status => format!("FenceDevice {device} was asked for the power"),
        AttemptAction::PowerOff => format!("off {sent} FenceDevice {device}"),
        AttemptAction::PowerOn => format!("on {sent} FenceDevice {device}"),
        AttemptAction::ManualConfirm => "a human was asked".to_owned(),
    };
    let result = match attempt.result {
        None => "what became of it is not known",
        Some(AttemptResult::Succeeded) => "it took effect",
        Some(AttemptResult::Failed) => "it failed",
        Some(AttemptResult::TimedOut) => "no effect was seen in time, it may have come late",
        Some(AttemptResult::Refused) => "it was not carried out",
    };
    let said = attempt.message.iter().map(|it| format!(": {it}"));
    let said: String = said.collect();
    let is_open = attempt.completion_time.is_none();
    let begun = Moment {
        time: attempt.start_time,
        words: match is_open {
            true => format!("{what}: {result}{said}"),
            false => what,
        },
    };
    let ended = at(
        attempt.completion_time,
        format!("of that to FenceDevice {device}: {result}{said}"),
    );
    std::iter::once(begun).chain(ended).collect()
}

/// The proof, reading by reading, and what speaks against it by now.
fn proven(evidence: &Evidence, doubt: Option<&str>) -> Vec<Moment> {
    let (words, read): (Vec<_>, Vec<_>) = evidence
        .readings
        .iter()
        .partition(|it| manual::is_word(&it.raw));
    let word = words.first().map(|it| Moment {
        time: it.time,
        words: format!(
            "a human's word ({}) stood in the place of readings, and from here on no sign of life was seen",
            it.raw
        ),
    });
    let how = match (words.is_empty(), read.is_empty()) {
        (true, _) => "the machine was proven down",
        (false, true) => "the machine counted as down on that word, read by no device,",
        (false, false) => "the machine was proven down, on that word too,",
    };
    let readings = read.into_iter().map(|it| Moment {
        time: it.time,
        words: format!(
            "FenceDevice {} read {:?} (`{}`, {} ms)",
            it.device, it.power_state, it.raw, it.round_trip_millis
        ),
    });
    let mut moments: Vec<Moment> = word.into_iter().chain(readings).collect();
    let doubt = doubt.map_or_else(String::new, |it| format!("; by now it is not: {it}"));
    moments.push(Moment {
        time: evidence.proven_time,
        words: format!(
            "{how} in boot {}, under claim {}{doubt}",
            evidence.node_boot_id, evidence.claim
        ),
    });
    moments
}

#[cfg(test)]
mod tests {
    use super::*;
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
                "11 the operator took",
                "12 eve approved it:",
                "13 nothing held it",
                "14 off was sent",
                "15 no pod could",
                "16 of that to",
                "18 off was sent",
                "20 of that to",
                "21 FenceDevice bmc read",
                "24 FenceDevice bmc read",
                "25 the machine was",
                "30 the taint stood:",
                "39 VolumeAttachment csi-1 had",
                "40 everything had detached",
                "50 eve let go",
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
                format!("by now it is not: NodeConfirmedDown is {status}: Refuted: it is Ready");
            assert!(told.contains(&doubt), "{told}");
        }
        let word = json!({"manualConfirmation": {
            "statement": "IVerifiedTheNodeIsPoweredOff", "nodeUID": "u", "user": "eve", "reason": "I saw it", "time": at,
        }});
        let told = moments(&word, &json!({"confirmationRefused": "the BMC reads On"}));
        assert!(
            told.contains("I saw it; it counts for nothing: the BMC reads On"),
            "{told}"
        );
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
        assert!(
            alone.contains("on that word, read by no device,"),
            "{alone}"
        );
        let both = told(json!([word, reading("bmc", "0x00")]));
        assert!(both.contains("FenceDevice bmc read Off"), "{both}");
        assert!(both.contains("on that word too"), "{both}");
    }

    #[test]
    fn a_note_of_a_release_is_told_when_it_is_one() {
        assert!(!moments(&json!({}), &json!({})).contains("let go"));
        let released = moments(&json!({"desiredState": "Released"}), &json!({}));
        assert!(released.contains("eve let go of it: a joke"), "{released}");
    }

    /// What is recorded before it is sent may never have been.
    #[test]
    fn a_command_is_told_as_sent_when_it_was() {
        let at = "2027-01-02T18:00:00Z";
        for (result, told) in [
            (
                json!(null),
                "off was to be sent to FenceDevice bmc: what became of it is not known",
            ),
            (json!("Succeeded"), "off was sent to FenceDevice bmc"),
            (json!("Refused"), "off was asked for of FenceDevice bmc"),
        ] {
            let attempt =
                json!({"device": "bmc", "action": "PowerOff", "startTime": at, "result": result});
            let moments = moments(&json!({}), &json!({"attempts": [attempt]}));
            assert!(moments.contains(told), "{moments}");
        }
    }
}
