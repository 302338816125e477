//! What happened in an incident and when, from its record alone: one line a moment, oldest first.

use super::fleet;
use super::trail::RELEASE;
use crate::api::fence::{ApprovalDecision, NodeFence, TriggerType};
use crate::api::fence_status::{Attempt, AttemptAction, AttemptResult, Evidence};
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
        let of_status = [
            (status.detected_time, "the operator took the incident up"),
            (status.approved_time, "nothing held it back any more"),
            (
                status.taint_applied_time,
                "the taint stood: pods and volumes could go",
            ),
            (status.detached_time, "everything had detached"),
            (status.taint_removed_time, "the taint was gone again"),
        ];
        let dated = of_status.into_iter();
        moments.extend(dated.filter_map(|(time, words)| at(time, words.to_owned())));
        moments.extend(status.attempts.iter().flat_map(attempted));
        moments.extend(status.evidence.iter().flat_map(proven));
        let volumes = status.volumes.iter().filter_map(|volume| {
            let name = &volume.volume_attachment;
            at(
                volume.detached_time,
                format!("VolumeAttachment {name} had detached"),
            )
        });
        moments.extend(volumes);
        let (stage, message) = (fleet::stage(fence), fleet::message(fence));
        moments.extend(at(status.completion_time, format!("{stage}: {message}")));
    }
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
    let made = at(fleet::created(fence), made);
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
    let confirmation = fence.spec.manual_confirmation.iter().map(|it| {
        let words = format!(
            "{} confirmed that the machine has no power: {}",
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

/// As `kubectl fence release` writes it.
fn released(fence: &NodeFence) -> Option<Moment> {
    let note = |key: &str| fence.annotations().get(key).map(String::as_str);
    let words = format!(
        "{} let go of it: {}",
        note(RELEASE.user)?,
        note(RELEASE.reason).unwrap_or_default()
    );
    at(note(RELEASE.time)?.parse().ok(), words)
}

/// What was asked of a device, and what came of it.
fn attempted(attempt: &Attempt) -> Vec<Moment> {
    let device = &attempt.device;
    let what = match attempt.action {
        AttemptAction::Status => format!("FenceDevice {device} was asked for the power"),
        AttemptAction::PowerOff => format!("off was sent to FenceDevice {device}"),
        AttemptAction::PowerOn => format!("on was sent to FenceDevice {device}"),
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
    let begun = Moment {
        time: attempt.start_time,
        words: what.clone(),
    };
    let ended = at(
        attempt.completion_time,
        format!("of that to FenceDevice {device}: {result}{said}"),
    );
    std::iter::once(begun).chain(ended).collect()
}

/// The proof, reading by reading.
fn proven(evidence: &Evidence) -> Vec<Moment> {
    let readings = evidence.readings.iter().map(|it| Moment {
        time: it.time,
        words: format!(
            "FenceDevice {} read {:?} (`{}`, {} ms)",
            it.device, it.power_state, it.raw, it.round_trip_millis
        ),
    });
    let mut moments: Vec<Moment> = readings.collect();
    moments.push(Moment {
        time: evidence.quiesced_time,
        words: "no pod could start on the node any more".to_owned(),
    });
    moments.push(Moment {
        time: evidence.proven_time,
        words: format!(
            "the machine was proven down in boot {}, under claim {}",
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
                "nodeName": "worker-1", "policyName": "workers",
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
}
