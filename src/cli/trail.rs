//! Who has acted, why and when, where no field has it: annotations of the very object that was changed.
//!
//! The API server takes no other user in them than the one who asks (policy `node-fencing-operator-notes` of deploy/admission.yaml). They are the
//! last word on their object; all earlier ones are in the API server's audit log.

use super::cluster::Asker;
use crate::api::device::PROBE_REQUESTED_AT;
use serde_json::{Value, json};

/// Longest reason, as the fields have it that keep one.
const REASON_CHARACTERS_MAX: usize = 1024;

/// A reason that says something.
///
/// # Errors
/// The rule, in words.
pub fn reason(text: &str) -> Result<String, String> {
    match text.chars().count() {
        _ if text.trim().is_empty() => {
            Err("must say why: whoever reads the record has nothing else".to_owned())
        }
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

/// Somebody has asked for a probe, which the operator answers because of the time: of the FenceDevice.
pub const PROBE: Trail = Trail {
    user: "nodefencing.io/probe-requested-by",
    reason: "nodefencing.io/probe-reason",
    time: PROBE_REQUESTED_AT,
};

impl Trail {
    /// What to write.
    pub fn of(&self, asker: &Asker, reason: &str) -> Value {
        json!({self.user: asker.name, self.reason: reason, self.time: asker.at})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// But for the time of a probe, which people and runbooks write alone.
    #[test]
    fn the_admission_policy_guards_every_one() {
        let manifest = include_str!("../../deploy/admission.yaml");
        for trail in [RELEASE, RESUME, PROBE] {
            for key in [trail.user, trail.reason, trail.time] {
                let is_guarded = manifest.contains(&format!("'{key}'"));
                assert_eq!(is_guarded, key != PROBE_REQUESTED_AT, "{key}");
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
