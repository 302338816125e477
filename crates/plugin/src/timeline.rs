//! What happened in an incident and when, from its record alone, oldest first. Whatever tells of an incident goes by this one history.

use super::fences;
use super::trail::{Released, dated, released};
use fencing_api::fence::{ApprovalDecision, NodeFence, TriggerType};
use fencing_api::fence_status::{Attempt, AttemptAction, AttemptResult, Evidence};
use fencing_drivers::manual;
use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

/// `--node-monitor-grace-period` by default, since 1.32.
const GRACE_PERIOD: SignedDuration = SignedDuration::from_secs(50);

/// A moment of an incident.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Moment {
    /// When.
    #[schemars(with = "String")]
    pub time: Timestamp,
    /// What, in a sentence without a full stop.
    pub words: String,
    /// What, for this program.
    #[serde(skip)]
    pub kind: Kind,
}

/// What happened at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The node showed its policy's condition.
    Unhealthy,
    /// The NodeFence was made.
    Opened,
    /// The policy's wait was over.
    Due,
    /// A person approved, denied, confirmed or released it.
    People,
    /// The operator began with it.
    TakenUp,
    /// Nothing held it back any more.
    Admitted,
    /// A device was asked for something.
    Asked,
    /// The machine was proven down.
    ConfirmedDown,
    /// The taint stood.
    Tainted,
    /// All volumes had detached.
    Detached,
    /// The taint was gone.
    Untainted,
    /// It ended.
    Ended,
    /// Something else.
    Other,
}

impl Moment {
    fn new(time: Timestamp, kind: Kind, words: impl Into<String>) -> Self {
        let words = words.into();
        Self { time, words, kind }
    }
}

/// All that the record dates. What it does not date (a stage that went by at once) is not in it.
pub fn timeline(fence: &NodeFence) -> Vec<Moment> {
    let trigger = &fence.spec.trigger;
    let status = fence.status.clone().unwrap_or_default();
    let (evidence, mut all) = (status.evidence.as_ref(), Vec::new());
    let mut add = |time: Option<Timestamp>, kind, words: &str| {
        all.extend(time.map(|it| Moment::new(it, kind, words)));
    };
    let became = became_silent(fence);
    add(trigger.unhealthy_since_time, Kind::Unhealthy, &became);
    add(fences::created(fence), Kind::Opened, &opened(fence));
    add(waited(fence), Kind::Due, "the policy's wait was over");
    for it in words_of_people(fence) {
        add(Some(it.time), it.kind, &it.words);
    }
    let taken_up = "the operator started the incident";
    add(status.detected_time, Kind::TakenUp, taken_up);
    let admitted = "it was no longer held";
    add(status.approved_time, Kind::Admitted, admitted);
    let quiesced = "no pod could start on the node";
    add(evidence.map(|it| it.quiesced_time), Kind::Other, quiesced);
    for attempt in &status.attempts {
        add(Some(attempt.start_time), Kind::Asked, &asked(attempt));
        add(attempt.completion_time, Kind::Other, &settled(attempt));
    }
    for it in evidence.into_iter().flat_map(|it| proven(fence, it)) {
        add(Some(it.time), it.kind, &it.words);
    }
    let tainted = "taint set: pods and volumes could leave";
    add(status.taint_applied_time, Kind::Tainted, tainted);
    for volume in &status.volumes {
        let words = format!("VolumeAttachment {} had detached", volume.volume_attachment);
        add(volume.detached_time, Kind::Other, &words);
    }
    let detached = "everything had detached";
    add(status.detached_time, Kind::Detached, detached);
    let untainted = "the taint was removed";
    add(status.taint_removed_time, Kind::Untainted, untainted);
    let ended = format!("{}: {}", fences::stage(fence), fences::message(fence));
    add(status.completion_time, Kind::Ended, &ended);
    // The API keeps whole seconds: within one, moments stand in the order in which they come about, the same one each time.
    all.sort_by_key(|it| it.time);
    all
}

/// When the policy's wait was over. One that was opened early has waited only if nothing was done before.
fn waited(fence: &NodeFence) -> Option<Timestamp> {
    let (trigger, status) = (&fence.spec.trigger, fence.status.as_ref());
    let proven = status.and_then(|it| it.evidence.as_ref());
    let asked = status.into_iter().flat_map(|it| &it.attempts);
    let acted = proven
        .map(|it| it.quiesced_time)
        .into_iter()
        .chain(asked.map(|it| it.start_time))
        .min();
    let has_waited = |due: &Timestamp| acted.is_some_and(|acted| acted >= *due);
    let is_early = trigger.early_seconds.is_some();
    trigger.due_time.filter(|due| !is_early || has_waited(due))
}

/// What people have said of it, oldest first: their answer, their word that the machine has no power, and that they let go of it.
pub fn words_of_people(fence: &NodeFence) -> Vec<Moment> {
    let (spec, status) = (&fence.spec, fence.status.as_ref());
    let approval = spec.approval.iter().map(|it| {
        let verbed = match it.decision {
            ApprovalDecision::Approved => "approved",
            ApprovalDecision::Denied => "denied",
        };
        let (time, said) = dated(fence, "approval", it.time);
        let words = format!("{} {verbed} it{said}: {}", it.user, it.reason);
        Moment::new(time, Kind::People, words)
    });
    let refused = match status.is_some_and(|it| it.confirmation_refused.is_some()) {
        true => "; rejected as invalid",
        false => "",
    };
    let confirmation = spec.manual_confirmation.iter().map(|it| {
        let (time, said) = dated(fence, "manualConfirmation", it.time);
        let words = format!(
            "{} confirmed that the machine has no power{said}: {}{refused}",
            it.user, it.reason
        );
        Moment::new(time, Kind::People, words)
    });
    let all = approval.chain(confirmation).chain(let_go(fence));
    let mut all: Vec<Moment> = all.collect();
    all.sort_by_key(|it| it.time);
    all
}

fn let_go(fence: &NodeFence) -> Option<Moment> {
    let Released {
        noted,
        dated,
        manager,
    } = released(fence)?;
    let (time, said) = dated?;
    let words = match noted {
        Some((user, reason)) => format!("{user} released it{said}: {reason}"),
        None => format!(
            "it was released (with {}) without a name; see the API server's audit log",
            manager.unwrap_or("a program")
        ),
    };
    Some(Moment::new(time, Kind::People, words))
}

/// The condition that it was opened for, such as `Ready=Unknown`.
pub fn condition(fence: &NodeFence) -> String {
    let trigger = &fence.spec.trigger;
    let kind = trigger.condition_type.as_deref().unwrap_or_default();
    let status = trigger.condition_status.map_or("", |it| it.as_str());
    format!("{kind}={status}")
}

/// The NodeFenceRemediation that it was opened for.
pub fn remediation(fence: &NodeFence) -> Option<String> {
    let of = fence.spec.trigger.remediation.as_ref()?;
    Some(format!("NodeFenceRemediation {}/{}", of.namespace, of.name))
}

/// How the node came to have it.
fn became_silent(fence: &NodeFence) -> String {
    let (node, condition) = (&fence.spec.node_name, condition(fence));
    if fence.spec.trigger.reported_by.is_none() {
        return format!("Node {node} became {condition}");
    }
    let saved = seconds_saved(fence).map(|saved| {
        let grace = GRACE_PERIOD.as_secs();
        format!(", {saved} s before Kubernetes would by its default grace period of {grace} s")
    });
    let saved = saved.unwrap_or_default();
    format!("the operator reported Node {node} as PoweredOff ({condition}){saved}")
}

/// How much earlier than Kubernetes by its default settings the operator has reported the node. None: it has not, or the record does not say.
pub fn seconds_saved(fence: &NodeFence) -> Option<i64> {
    let trigger = &fence.spec.trigger;
    let evidence = fence.status.as_ref()?.evidence.as_ref()?;
    let renewed = evidence
        .lease_renew_time
        .filter(|_| trigger.reported_by.is_some())?;
    let silent = trigger.unhealthy_since_time?.duration_since(renewed);
    let saved = GRACE_PERIOD.checked_sub(silent)?.as_secs();
    (saved > 0).then_some(saved)
}

/// How it came about.
fn opened(fence: &NodeFence) -> String {
    let (node, trigger) = (&fence.spec.node_name, &fence.spec.trigger);
    let policy = fence.spec.policy_name.as_deref().unwrap_or_default();
    let caller = remediation(fence).map(|it| format!(" for {it}"));
    let caller = caller.unwrap_or_default();
    let user = trigger.requested_by.as_deref().unwrap_or_default();
    let reason = trigger.reason.as_deref().unwrap_or_default();
    match trigger.type_ {
        TriggerType::NodeCondition => match trigger.early_seconds {
            Some(early) => format!(
                "policy {policy} opened the incident{caller} {early} s early, because a device read Off"
            ),
            None => format!("policy {policy} opened the incident{caller}"),
        },
        TriggerType::Manual => format!("{user} requested to fence Node {node}: {reason}"),
        TriggerType::External => {
            format!("a taint of the operator was found on Node {node} without its record")
        }
    }
}

/// What was asked of a device, and what came of it where the record does not say when. An attempt is recorded before its command goes out (S8),
/// so one without a result may or may not have been sent.
fn asked(attempt: &Attempt) -> String {
    let device = &attempt.device;
    let sent = match attempt.result {
        None => "was recorded for",
        Some(AttemptResult::Refused) => "was requested from",
        Some(_) => "was sent to",
    };
    let what = match attempt.action {
        AttemptAction::Status => format!("FenceDevice {device} was read"),
        AttemptAction::PowerOff => format!("off {sent} FenceDevice {device}"),
        AttemptAction::PowerOn => format!("on {sent} FenceDevice {device}"),
        AttemptAction::ManualConfirm => "manual confirmation requested".to_owned(),
    };
    match (attempt.completion_time, attempt.result) {
        (Some(_), _) => what,
        (None, None) => format!("{what}: its outcome is unknown{}", said(attempt)),
        (None, Some(_)) => format!("{what}: it {}", became(attempt)),
    }
}

/// What came of it.
fn settled(attempt: &Attempt) -> String {
    let subject = match attempt.action {
        AttemptAction::Status => format!("the reading of FenceDevice {}", attempt.device),
        AttemptAction::PowerOff => format!("off to FenceDevice {}", attempt.device),
        AttemptAction::PowerOn => format!("on to FenceDevice {}", attempt.device),
        AttemptAction::ManualConfirm => "the manual confirmation".to_owned(),
    };
    format!("{subject} {}", became(attempt))
}

fn became(attempt: &Attempt) -> String {
    let became = match attempt.result {
        None => "ended unknown",
        Some(AttemptResult::Succeeded) => "took effect",
        Some(AttemptResult::Failed) => "failed",
        Some(AttemptResult::TimedOut) => "had no effect in time, and may have taken effect later",
        Some(AttemptResult::Refused) => "was not carried out",
    };
    format!("{became}{}", said(attempt))
}

fn said(attempt: &Attempt) -> String {
    let said = attempt.message.as_ref().map(|it| format!(": {it}"));
    said.unwrap_or_default()
}

/// The proof, reading by reading, and what speaks against it by now.
fn proven(fence: &NodeFence, evidence: &Evidence) -> Vec<Moment> {
    let readings = evidence.readings.iter();
    let (words, read): (Vec<_>, Vec<_>) = readings.partition(|it| manual::is_word(&it.raw));
    let how = match (words.is_empty(), read.is_empty()) {
        (true, _) => "the machine was confirmed off",
        (false, true) => "the machine was confirmed off by hand, read by no device,",
        (false, false) => "the machine was confirmed off, also by hand,",
    };
    let word = words.first().map(|it| {
        let words = format!(
            "the manual confirmation ({}) replaced readings, without a sign of life since",
            it.raw
        );
        Moment::new(it.time, Kind::Other, words)
    });
    let readings = read.into_iter().map(|it| {
        let words = format!(
            "FenceDevice {} read {:?} (`{}`, {} ms)",
            it.device, it.power_state, it.raw, it.round_trip_millis
        );
        Moment::new(it.time, Kind::Other, words)
    });
    let doubt = fences::doubt(fence).map(|it| format!("; contradicted since: {it}"));
    let proven = format!(
        "{how} in boot {}, under claim {}{}",
        evidence.node_boot_id,
        evidence.claim,
        doubt.unwrap_or_default()
    );
    let proven = Moment::new(evidence.proven_time, Kind::ConfirmedDown, proven);
    word.into_iter().chain(readings).chain([proven]).collect()
}

#[cfg(test)]
mod tests;
