//! What happened in an incident and when, from its record alone: one line a moment, oldest first.

use super::fences;
use super::trail::{Released, dated, released};
use fencing_api::fence::{ApprovalDecision, NodeFence, TriggerType};
use fencing_api::fence_status::{Attempt, AttemptAction, AttemptResult, Evidence};
use fencing_drivers::manual;
use jiff::Timestamp;
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

/// What people have said of it, oldest first: their answer, their word that the machine has no power, and that they let go of it.
pub fn words_of_people(fence: &NodeFence) -> Vec<Moment> {
    let approval = fence.spec.approval.iter().map(|it| {
        let verbed = match it.decision {
            ApprovalDecision::Approved => "approved",
            ApprovalDecision::Denied => "denied",
        };
        let (time, said) = dated(fence, "approval", it.time);
        let words = format!("{} {verbed} it{said}: {}", it.user, it.reason);
        Moment { time, words }
    });
    let status = fence.status.as_ref();
    let is_refused = status.is_some_and(|it| it.confirmation_refused.is_some());
    let refused = match is_refused {
        true => "; it was refused, and counts for nothing",
        false => "",
    };
    let confirmation = fence.spec.manual_confirmation.iter().map(|it| {
        let (time, said) = dated(fence, "manualConfirmation", it.time);
        let words = format!(
            "{} confirmed that the machine has no power{said}: {}{refused}",
            it.user, it.reason
        );
        Moment { time, words }
    });
    let said = approval.chain(confirmation).chain(let_go(fence));
    let mut said: Vec<Moment> = said.collect();
    said.sort_by_key(|it| it.time);
    said
}

fn let_go(fence: &NodeFence) -> Option<Moment> {
    let Released {
        noted,
        dated,
        manager,
    } = released(fence)?;
    let (time, said) = dated?;
    let words = match noted {
        Some((user, reason)) => format!("{user} let go of it{said}: {reason}"),
        None => format!(
            "somebody let go of it (with {}) and left no name; the API server's audit log has it",
            manager.unwrap_or("a program")
        ),
    };
    Some(Moment { time, words })
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
    let subject = match attempt.action {
        AttemptAction::Status => format!("the look at FenceDevice {device}"),
        AttemptAction::PowerOff => format!("off to FenceDevice {device}"),
        AttemptAction::PowerOn => format!("on to FenceDevice {device}"),
        AttemptAction::ManualConfirm => "the question to a human".to_owned(),
    };
    let became = match attempt.result {
        None => "came to an end that is not known",
        Some(AttemptResult::Succeeded) => "took effect",
        Some(AttemptResult::Failed) => "failed",
        Some(AttemptResult::TimedOut) => {
            "had no effect that was seen in time, it may have come late"
        }
        Some(AttemptResult::Refused) => "was not carried out",
    };
    let said = attempt.message.iter().map(|it| format!(": {it}"));
    let said: String = said.collect();
    let begun = Moment {
        time: attempt.start_time,
        words: match (attempt.completion_time, attempt.result) {
            (Some(_), _) => what,
            (None, None) => format!("{what}: what became of it is not known{said}"),
            (None, Some(_)) => format!("{what}: it {became}{said}"),
        },
    };
    let ended = at(attempt.completion_time, format!("{subject} {became}{said}"));
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
mod tests;
