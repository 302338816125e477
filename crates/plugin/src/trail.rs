//! Who has acted, why and when, where no field has it: annotations of the very object that was changed.
//!
//! The API server takes no other user in them than the one who asks, and those of a release or of a pause that is taken back only with that act
//! (policy `node-fencing-operator-notes` of deploy/admission.yaml). They are the last word on their object; all earlier ones are in the API
//! server's audit log.

use super::cluster::Asker;
use fencing_api::fence::{DesiredState, NodeFence};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::ResourceExt;
use serde_json::{Value, json};

/// Longest reason, as the fields have it that keep one.
const REASON_CHARACTERS_MAX: usize = 1024;

/// A reason that says something.
///
/// # Errors
/// The rule, in words.
pub fn reason(text: &str) -> Result<String, String> {
    match text.chars().count() {
        _ if text.trim().is_empty() => Err("must not be blank".to_owned()),
        ..=REASON_CHARACTERS_MAX => Ok(text.to_owned()),
        count => Err(format!(
            "has {count} characters, {REASON_CHARACTERS_MAX} are allowed"
        )),
    }
}

/// The annotations of one kind of act.
pub struct Trail {
    /// Who.
    pub user: &'static str,
    /// Why.
    pub reason: &'static str,
    /// When, by the API server's clock.
    pub time: &'static str,
}

/// Somebody has let go of an incident: of its NodeFence.
pub const RELEASE: Trail = Trail {
    user: "nodefencing.io/released-by",
    reason: "nodefencing.io/release-reason",
    time: "nodefencing.io/released-at",
};

/// Somebody has taken back a pause: of the NodeFencingPolicy.
pub const RESUME: Trail = Trail {
    user: "nodefencing.io/resumed-by",
    reason: "nodefencing.io/resume-reason",
    time: "nodefencing.io/resumed-at",
};

/// Somebody has asked for a probe: of the FenceDevice. The operator answers because of another annotation, which anybody may write alone: at another
/// time than this one it was somebody else's.
pub const PROBE: Trail = Trail {
    user: "nodefencing.io/probe-requested-by",
    reason: "nodefencing.io/probe-reason",
    time: "nodefencing.io/probe-noted-at",
};

impl Trail {
    /// What to write.
    pub fn of(&self, asker: &Asker, reason: &str) -> Value {
        json!({self.user: asker.name, self.reason: reason, self.time: asker.at})
    }

    /// What takes away what stands there.
    pub fn none(&self) -> Value {
        json!({self.user: null, self.reason: null, self.time: null})
    }
}

/// Clocks that are this far apart say the same.
const CLOCKS_APART_MAX: SignedDuration = SignedDuration::from_mins(1);

/// Who has written a field of the spec, as the API server has noted it in metadata.managedFields: by its own clock, and not as a user says. Whoever
/// writes later what stands there already has done nothing, so of several it is the earliest.
pub struct Taken<'a> {
    entry: &'a ManagedFieldsEntry,
    /// When: of all that this manager has written the last.
    pub at: Timestamp,
}

impl<'a> Taken<'a> {
    /// Of this field. None: the API server has noted nothing.
    pub fn of(fence: &'a NodeFence, field: &str) -> Option<Self> {
        let entries = fence.metadata.managed_fields.iter().flatten();
        let own = entries.filter(|it| has(it, &["f:spec", &format!("f:{field}")]));
        let dated = own.filter_map(|entry| {
            let at = entry.time.as_ref()?.0;
            Some(Self { entry, at })
        });
        dated.min_by_key(|it| it.at)
    }

    /// Who has written it, as programs call themselves.
    pub fn manager(&self) -> &'a str {
        self.entry.manager.as_deref().unwrap_or("a program")
    }

    /// Has the same manager written this annotation?
    pub fn has_noted(&self, annotation: &str) -> bool {
        let annotation = format!("f:{annotation}");
        has(self.entry, &["f:metadata", "f:annotations", &annotation])
    }

    /// It has written no other field of the spec, so that this is when it has written that one.
    fn is_all(&self) -> bool {
        let fields = self.entry.fields_v1.as_ref();
        let spec = fields.and_then(|it| it.0.get("f:spec")?.as_object());
        spec.is_some_and(|it| it.len() == 1)
    }
}

fn has(entry: &ManagedFieldsEntry, path: &[&str]) -> bool {
    let fields = entry.fields_v1.as_ref().map(|it| &it.0);
    let found = path
        .iter()
        .try_fold(fields, |at, key| at.map(|it| it.get(key)));
    found.flatten().is_some()
}

/// When a human wrote a field of the spec, of which they say that it was at `said`, and what to tell of that where it cannot be.
pub fn dated(fence: &NodeFence, field: &str, said: Timestamp) -> (Timestamp, String) {
    let wrong = Taken::of(fence, field).filter(|it| {
        let ahead = said.duration_since(it.at);
        ahead > CLOCKS_APART_MAX || it.is_all() && ahead < -CLOCKS_APART_MAX
    });
    match wrong {
        Some(taken) => (taken.at, format!(", dated {said}")),
        None => (said, String::new()),
    }
}

/// Who has let go of an incident.
#[derive(Debug, PartialEq, Eq)]
pub struct Released<'a> {
    /// As `kubectl fence release` notes it: who, and why. None: they have left no name.
    pub noted: Option<(&'a str, &'a str)>,
    /// When, and what to tell of that where a note says otherwise.
    pub dated: Option<(Timestamp, String)>,
    /// With which program, as the API server has noted it.
    pub manager: Option<&'a str>,
}

/// None: nobody has. The note alone lets go of nothing, and one that stood there before is not about who did.
pub fn released(fence: &NodeFence) -> Option<Released<'_>> {
    if fence.spec.desired_state != DesiredState::Released {
        return None;
    }
    let taken = Taken::of(fence, "desiredState");
    let is_own = taken.as_ref().is_none_or(|it| it.has_noted(RELEASE.user));
    let note = |key: &str| {
        let note = fence.annotations().get(key).filter(|_| is_own);
        note.map(String::as_str)
    };
    let reason = note(RELEASE.reason).unwrap_or_default();
    let said = note(RELEASE.time).and_then(|it| it.parse().ok());
    let said = said.map(|it| dated(fence, "desiredState", it));
    Some(Released {
        noted: note(RELEASE.user).map(|user| (user, reason)),
        dated: said.or_else(|| Some((taken.as_ref()?.at, String::new()))),
        manager: taken.map(|it| it.manager()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a human dates is told by the clock of the API server where it speaks against that. What the same manager has written later says nothing
    /// against an earlier date.
    #[test]
    fn a_date_that_cannot_be_is_told_as_said() {
        let at = |minute: u32| format!("2027-01-02T18:{minute:02}:00Z");
        let said = |minute: u32, fields: Value| {
            let fence = json!({
                "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence",
                "metadata": {"name": "f", "managedFields": [
                    {"manager": "operator", "time": at(0), "fieldsV1": {"f:spec": {"f:nodeName": {}}}},
                    {"manager": "kubectl-fence", "time": at(30), "fieldsV1": {"f:spec": fields}},
                ]},
                "spec": {"nodeName": "w", "trigger": {"type": "External"}},
            });
            let fence: NodeFence = serde_json::from_value(fence).expect("a NodeFence");
            let (time, words) = dated(&fence, "approval", at(minute).parse().expect("a time"));
            (time.to_string(), words)
        };
        let alone = || json!({"f:approval": {"f:user": {}}});
        let later = || json!({"f:approval": {}, "f:desiredState": {}});
        let lies = |minute| (at(30), format!(", dated {}", at(minute)));
        for minute in [29, 30, 31] {
            assert_eq!(said(minute, alone()), (at(minute), String::new()));
        }
        for minute in [0, 28, 32] {
            assert_eq!(said(minute, alone()), lies(minute));
        }
        assert_eq!(said(0, later()), (at(0), String::new()));
        assert_eq!(said(32, later()), lies(32));
        let nobody = json!({"f:desiredState": {}});
        assert_eq!(said(0, nobody), (at(0), String::new()));
    }

    #[test]
    fn the_admission_policy_guards_every_one() {
        let manifest = include_str!("../../../deploy/admission.yaml");
        for trail in [RELEASE, RESUME, PROBE] {
            for key in [trail.user, trail.reason, trail.time] {
                assert!(manifest.contains(&format!("'{key}'")), "{key}");
            }
        }
    }

    #[test]
    fn a_reason_says_something() {
        assert_eq!(reason("back"), Ok("back".to_owned()));
        for text in ["", " \t", &"x".repeat(1025)] {
            assert!(reason(text).is_err(), "{text}");
        }
    }
}
