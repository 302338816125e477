//! Which step of the protocol a request is.

use crate::objects::{CLAIM, EFFECTS};
use http::Method;
use serde_json::Value;
use simapi::Request;

/// A write of the protocol, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// The NodeFence is created.
    Record,
    /// The claim is put on the Node.
    Claim,
    /// An off is written down before it is sent.
    Intent,
    /// The off itself, which goes to a device.
    Off,
    /// What the proof rests on is written down.
    Evidence,
    /// The Node is put out of service, or marked as one whose volumes the operator takes.
    Taint,
    /// Anything else of the NodeFence's status.
    Status,
    /// Taints are taken away, or the Node with them.
    Release,
    /// The end is written down.
    End,
    /// A VolumeAttachment is deleted, where the operator does that.
    Detach,
}

impl Step {
    /// All of them that every fence has.
    pub const ALL: [Self; 9] = [
        Self::Record,
        Self::Claim,
        Self::Intent,
        Self::Off,
        Self::Evidence,
        Self::Taint,
        Self::Status,
        Self::Release,
        Self::End,
    ];

    /// As the summary names the death of an operator at it.
    pub fn death(self) -> &'static str {
        match self {
            Self::Record => "F01 dies with the record",
            Self::Claim => "F02 dies with the claim",
            Self::Intent => "F03 dies with the intent",
            Self::Off => "F04 dies with the off",
            Self::Evidence => "F05 dies with the evidence",
            Self::Taint => "F06 dies with the taint",
            Self::Status => "F07 dies with a status",
            Self::Release => "F08 dies with the release",
            Self::End => "F09 dies with the end",
            Self::Detach => "F08 dies with a detachment",
        }
    }

    /// The step that this request is, if it is one.
    pub fn of(request: &Request) -> Option<Self> {
        let path = request.path.as_str();
        if request.method == Method::POST && path.ends_with("/nodefences") {
            return Some(Self::Record);
        }
        if request.method == Method::DELETE {
            return of_deletion(path);
        }
        if request.method != Method::PATCH || request.is_dry() {
            return None;
        }
        let body = serde_json::from_slice(&request.body).ok()?;
        if path.starts_with("/api/v1/nodes/") {
            // A report of a Node is no step of a fence.
            return (!path.ends_with("/status")).then(|| of_node(&body));
        }
        let is_status = path.contains("/nodefences/") && path.ends_with("/status");
        is_status.then(|| of_status(&body["status"]))
    }
}

fn of_deletion(path: &str) -> Option<Step> {
    if path.starts_with("/api/v1/nodes/") {
        return Some(Step::Release);
    }
    path.contains("/volumeattachments/").then_some(Step::Detach)
}

fn of_node(patch: &Value) -> Step {
    let operations = patch.as_array().into_iter().flatten();
    let added = operations.filter(|it| it["op"] == "add" || it["op"] == "replace");
    let values = added.flat_map(|it| match &it["value"] {
        Value::Array(taints) => taints.iter().collect(),
        taint => vec![taint],
    });
    let keys: Vec<&str> = values.filter_map(|taint| taint["key"].as_str()).collect();
    if EFFECTS.iter().any(|key| keys.contains(key)) {
        Step::Taint
    } else if keys.contains(&CLAIM) {
        Step::Claim
    } else {
        Step::Release
    }
}

fn of_status(status: &Value) -> Step {
    let conditions = status["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    let has_ended = conditions.any(|one| one["type"] == "Succeeded" && one["status"] != "Unknown");
    let attempts = status["attempts"].as_array();
    let last = attempts.and_then(|attempts| attempts.last());
    if has_ended {
        Step::End
    } else if status["evidence"].is_object() {
        Step::Evidence
    } else if last.is_some_and(|last| last["completionTime"].is_null()) {
        Step::Intent
    } else {
        Step::Status
    }
}
