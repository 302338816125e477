//! Conditions: how every object of this API says what it is and why.
//!
//! The type is Kubernetes' own `metav1.Condition`; only its schema is tighter (a list-map keyed by type, bounded). A
//! condition's transition time is the time its *status* last changed: it stays when only the words change, so that "not
//! reachable since 03:12" remains true however often the reason is refined.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::{Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// NodeFence: `Unknown` while the incident runs (the reason is its stage), `True` when the node was fenced and let go, or
/// confirmed off for others to free it (`recovery.strategy: None`), `False` when it ended in any other way.
pub const SUCCEEDED: &str = "Succeeded";
/// NodeFence: `True` when the incident has ended, in whichever way; its reason is the last stage. Absent before.
pub const COMPLETED: &str = "Completed";
/// NodeFence: the machine is proven to be off.
pub const NODE_CONFIRMED_DOWN: &str = "NodeConfirmedDown";
/// NodeFence: a human is needed; a deadline is past.
pub const ESCALATED: &str = "Escalated";
/// NodeFence: the incident is held: by the budget or a rule of its policy, a foreign taint or claim. Its reason names it.
pub const HELD: &str = "Held";
/// FenceDevice and NodeFencingPolicy: would work if it were needed now.
pub const READY: &str = "Ready";
/// FenceDevice and NodeFencingPolicy: `Ready` is False for a reason that does not go away with time: change the object, or what the reason
/// names. Absent otherwise; kstatus calls the object Failed.
pub const STALLED: &str = "Stalled";
/// FenceDevice and NodeFencingPolicy: the operator has not assessed the object yet. Absent otherwise; kstatus calls the object InProgress.
pub const RECONCILING: &str = "Reconciling";
/// NodeFencingPolicy: the API server lets the operator do what `deploy/admission.yaml` forbids.
pub const ADMISSION_GUARD_MISSING: &str = "AdmissionGuardMissing";
/// NodeFencingPolicy: others fence its nodes, taint them, restart or delete them, or need to be configured for it.
pub const OTHER_FENCERS: &str = "OtherFencers";
/// FenceDevice: the last probe got an answer.
pub const REACHABLE: &str = "Reachable";
/// FenceDevice: the device accepted the credentials and their privilege is enough.
pub const CREDENTIALS_VALID: &str = "CredentialsValid";
/// FenceDevice: the device answers for this node's machine.
pub const IDENTITY_VERIFIED: &str = "IdentityVerified";

/// Reasons of a `Ready` that is False for which an object is `Stalled`. No reason is among them that goes away when a machine, a BMC or a Secret
/// appears or recovers.
pub const STALLED_REASONS: [&str; 11] = [
    "AddressInvalid",
    "AddressNotAllowed",
    "ClusterWentBack",
    "Conflict",
    "DuplicateTarget",
    "IdentityMismatch",
    "InvalidWindow",
    "SameDeviceTwice",
    "SettingsInvalid",
    "TooManyNodes",
    "Unsupported",
];
/// Reason of a condition of which nothing is known yet.
const PENDING: &str = "Pending";

/// Longest message that is stored, in bytes: the schema admits four times as many, but nobody reads them.
pub const MESSAGE_BYTES_MAX: usize = 8192;

/// Status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// It is not known, or not decided yet.
    Unknown,
}

impl ConditionStatus {
    /// The word the API uses.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// The condition of this type, if it has been set.
#[must_use]
pub fn find<'a>(conditions: &'a [Condition], condition_type: &str) -> Option<&'a Condition> {
    conditions
        .iter()
        .find(|condition| condition.type_ == condition_type)
}

/// Sets a condition and says whether anything but the generation it was observed at has changed (then it is worth a write
/// and, mostly, an event). A message over [`MESSAGE_BYTES_MAX`] is cut.
///
/// The transition time becomes `now` only when the status changes.
pub fn set_condition(
    conditions: &mut Vec<Condition>,
    condition_type: &str,
    status: ConditionStatus,
    reason: &str,
    message: &str,
    generation: Option<i64>,
    now: Timestamp,
) -> bool {
    let message = cut(message);
    let Some(condition) = conditions
        .iter_mut()
        .find(|condition| condition.type_ == condition_type)
    else {
        conditions.push(Condition {
            type_: condition_type.to_owned(),
            status: status.as_str().to_owned(),
            reason: reason.to_owned(),
            message: message.to_owned(),
            observed_generation: generation,
            last_transition_time: Time(now),
        });
        return true;
    };
    let status_changed = condition.status != status.as_str();
    let changed = status_changed || condition.reason != reason || condition.message != message;
    // The schema's own condition has stood since no time at all.
    let is_preset = condition.last_transition_time.0 == Timestamp::UNIX_EPOCH;
    if status_changed || is_preset {
        status.as_str().clone_into(&mut condition.status);
        condition.last_transition_time = Time(now);
    }
    reason.clone_into(&mut condition.reason);
    message.clone_into(&mut condition.message);
    condition.observed_generation = generation;
    changed
}

/// Says what `Ready` says in the conditions of kstatus, too (sigs.k8s.io/cli-utils, pkg/kstatus), which Flux waits by: `Stalled` and `Reconciling`
/// are there only while they are True.
pub fn set_progress(conditions: &mut Vec<Condition>, generation: Option<i64>, now: Timestamp) {
    let ready = find(conditions, READY).cloned();
    let ready = |status: ConditionStatus| {
        let ready = ready.as_ref();
        ready.filter(|it| it.status == status.as_str())
    };
    let stalls = |it: &&Condition| STALLED_REASONS.contains(&it.reason.as_str());
    let both = [
        (STALLED, ready(ConditionStatus::False).filter(stalls)),
        (
            RECONCILING,
            ready(ConditionStatus::Unknown).filter(|it| it.reason == PENDING),
        ),
    ];
    for (kind, ready) in both {
        let Some(Condition {
            reason, message, ..
        }) = ready
        else {
            conditions.retain(|it| it.type_ != kind);
            continue;
        };
        let is = ConditionStatus::True;
        set_condition(conditions, kind, is, reason, message, generation, now);
    }
}

/// The conditions of an object that no operator has assessed yet: the default of the schema. Without it kstatus calls a new object current, and
/// `kubectl get` shows no READY.
pub(super) fn unassessed() -> Value {
    let condition = |kind: &str, status: ConditionStatus| {
        json!({
            "type": kind, "status": status.as_str(), "reason": PENDING, "message": "waiting for the operator to assess it",
            "lastTransitionTime": Timestamp::UNIX_EPOCH.to_string(),
        })
    };
    json!([
        condition(READY, ConditionStatus::Unknown),
        condition(RECONCILING, ConditionStatus::True),
    ])
}

/// The message, cut at a character boundary to what is stored.
fn cut(message: &str) -> &str {
    message
        .get(..message.floor_char_boundary(MESSAGE_BYTES_MAX))
        .unwrap_or(message)
}

/// Schema of a list of conditions: `metav1.Condition` with its documented bounds, as a list-map keyed by `type`.
pub(super) fn schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 16,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["type", "status", "lastTransitionTime", "reason", "message"],
            "properties": {
                "type": {
                    "description": "Which condition this is.",
                    "type": "string",
                    "maxLength": 316,
                    "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
                },
                "status": {
                    "description": "Whether it holds.",
                    "type": "string",
                    "enum": ["True", "False", "Unknown"],
                },
                "observedGeneration": {
                    "description": "`metadata.generation` that the condition was derived from.",
                    "type": "integer",
                    "format": "int64",
                    "minimum": 0,
                },
                "lastTransitionTime": {
                    "description": "When `status` last changed.",
                    "type": "string",
                    "format": "date-time",
                },
                "reason": {
                    "description": "Why, as one PascalCase word for machines.",
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                },
                "message": {
                    "description": "Why, in words for people.",
                    "type": "string",
                    "maxLength": 32768,
                },
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a valid second")
    }

    #[test]
    fn first_set_appends_and_reports_a_change() {
        let mut conditions = vec![];
        assert!(set_condition(
            &mut conditions,
            READY,
            ConditionStatus::Unknown,
            "Pending",
            "not probed",
            Some(1),
            at(5)
        ));
        assert_eq!(
            find(&conditions, READY).map(|c| c.last_transition_time.0),
            Some(at(5))
        );
        assert!(find(&conditions, HELD).is_none());
    }

    #[test]
    fn transition_time_moves_only_with_the_status() {
        let mut conditions = vec![];
        set_condition(
            &mut conditions,
            READY,
            ConditionStatus::False,
            "Timeout",
            "a",
            Some(1),
            at(5),
        );
        assert!(set_condition(
            &mut conditions,
            READY,
            ConditionStatus::False,
            "Refused",
            "b",
            Some(2),
            at(9)
        ));
        assert_eq!(
            find(&conditions, READY).map(|c| c.last_transition_time.0),
            Some(at(5))
        );
        assert!(set_condition(
            &mut conditions,
            READY,
            ConditionStatus::True,
            "Probed",
            "c",
            Some(2),
            at(11)
        ));
        assert_eq!(
            find(&conditions, READY).map(|c| c.last_transition_time.0),
            Some(at(11))
        );
        assert_eq!(conditions.len(), 1);
    }

    #[test]
    fn a_new_generation_alone_is_recorded_but_is_no_change() {
        let mut conditions = vec![];
        set_condition(
            &mut conditions,
            READY,
            ConditionStatus::True,
            "Probed",
            "a",
            Some(1),
            at(5),
        );
        assert!(!set_condition(
            &mut conditions,
            READY,
            ConditionStatus::True,
            "Probed",
            "a",
            Some(2),
            at(6)
        ));
        assert_eq!(
            find(&conditions, READY).and_then(|c| c.observed_generation),
            Some(2)
        );
    }

    /// Beside each `Ready`: what there is of `Stalled` and `Reconciling`, before and after.
    #[test]
    fn an_object_is_stalled_or_reconciling_while_ready_says_so() {
        let mut conditions = vec![];
        for (status, reason, expected) in [
            (ConditionStatus::Unknown, "Pending", Some(RECONCILING)),
            (ConditionStatus::Unknown, "NodeNotFound", None),
            (ConditionStatus::False, "SettingsInvalid", Some(STALLED)),
            (ConditionStatus::False, "Unreachable", None),
            (ConditionStatus::False, "Conflict", Some(STALLED)),
            // A warning of a policy that acts.
            (ConditionStatus::True, "SameDeviceTwice", None),
        ] {
            set_condition(&mut conditions, READY, status, reason, "m", Some(1), at(5));
            set_progress(&mut conditions, Some(1), at(6));
            let mut progress = conditions.iter().filter(|it| it.type_ != READY);
            let found = progress
                .next()
                .map(|it| (it.type_.as_str(), it.reason.as_str()));
            assert_eq!(found, expected.map(|kind| (kind, reason)));
            assert_eq!(progress.next(), None);
        }
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let mut conditions = vec![];
        let long = "é".repeat(MESSAGE_BYTES_MAX);
        set_condition(
            &mut conditions,
            READY,
            ConditionStatus::True,
            "Long",
            &format!("a{long}"),
            None,
            at(5),
        );
        let stored = find(&conditions, READY).map(|c| c.message.len());
        assert_eq!(stored, Some(MESSAGE_BYTES_MAX - 1));
    }
}
