//! Does the policy keep its hands off a node that it would have fenced: because it is paused, because nobody can tell what it says now, or
//! because of what the Node says?
//!
//! Asked where an incident would be opened, and again of one that is open, until its claim stands on the Node; from then on the
//! fence goes on (S15). A NodeFence made by a human does not ask: it is the way out of all of this. None of it is a matter of
//! safety, the proof is: an entry that expires is judged by the operator's own wall clock, and a kubelet that calls its own node
//! under maintenance keeps that one from being fenced.

use super::hold::{HeldBy, Hold};
use super::observed::NodeView;
use super::window;
use fencing_api::policy::{CordonedNodes, MaintenanceNodes, NodeFencingPolicy, PauseRequest};
use jiff::Timestamp;

/// Set by whoever works on the node (KEP-5683; alpha in 1.37, and a plain condition before).
const MAINTENANCE_CONDITION: &str = "MaintenanceInProgress";
/// kured's, if it runs with `--annotate-nodes`, from before the reboot until the node is uncordoned. The second one is that of its main branch
/// (kubereboot/kured, read in November 2026).
pub const KURED_ANNOTATIONS: [&str; 2] = [
    "weave.works/kured-reboot-in-progress",
    "kured.dev/kured-reboot-in-progress",
];
/// Of the Node Maintenance Operator, with value `true`.
const MEDIK8S_LABEL: &str = "remediation.medik8s.io/exclude-from-remediation";

/// Why a node is left alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exclusion {
    /// [`HeldBy::Paused`], [`HeldBy::InvalidWindow`], [`HeldBy::Maintenance`] or [`HeldBy::Excluded`].
    pub reason: HeldBy,
    /// What says so, by which rule, and the way out.
    pub message: String,
    /// When it ends by itself.
    pub until: Option<Timestamp>,
}

impl Exclusion {
    /// As what holds an open incident.
    #[must_use]
    pub fn into_hold(self) -> Hold {
        Hold {
            reason: self.reason,
            message: self.message,
        }
    }
}

/// Does the policy keep its hands off this node at `now`, by the wall clock?
#[must_use]
pub fn exclusion(policy: &NodeFencingPolicy, node: &NodeView, now: Timestamp) -> Option<Exclusion> {
    paused(policy, now)
        .or_else(|| unusable(policy))
        .or_else(|| maintained(policy, node))
        .or_else(|| excluded(policy, node))
}

/// Is the machine of a node that was released left off at `now`? Whoever works on it must not have it turned on under their hands: a sign of
/// that counts whatever the policy says of nodes that are to be fenced, and of a human's NodeFence, which asks no policy, too.
#[must_use]
pub fn power_on_exclusion(
    policy: Option<&NodeFencingPolicy>,
    node: &NodeView,
    now: Timestamp,
) -> Option<Exclusion> {
    if let Some(kept_off) = policy.and_then(|policy| exclusion(policy, node, now)) {
        return Some(kept_off);
    }
    let left = |reason, sign: &str, way_out: &str| Exclusion {
        reason,
        message: format!("Node {} {sign}; {way_out}", node.name),
        until: None,
    };
    if let Some(sign) = maintenance_sign(node) {
        let sign = format!("has {sign}");
        return Some(left(HeldBy::Maintenance, &sign, "end the maintenance"));
    }
    let way_out = format!("uncordon it (kubectl uncordon {})", node.name);
    node.unschedulable
        .then(|| left(HeldBy::Excluded, "is cordoned", &way_out))
}

/// The policy's entries of `pauseRequests` that have not expired.
pub fn active_requests(policy: &NodeFencingPolicy, now: Timestamp) -> Vec<&PauseRequest> {
    let requests = policy.spec.pause_requests.iter();
    let stands = |it: &&PauseRequest| it.expire_time.is_none_or(|expires| now < expires);
    requests.filter(stands).collect()
}

/// When the last of these entries expires; none: one of them never does.
fn expiry(active: &[&PauseRequest]) -> Option<Timestamp> {
    let times: Option<Vec<Timestamp>> = active.iter().map(|it| it.expire_time).collect();
    times?.into_iter().max()
}

/// The next moment at which an entry of these policies expires.
pub fn next_expiry(policies: &[NodeFencingPolicy], now: Timestamp) -> Option<Timestamp> {
    let entries = policies
        .iter()
        .flat_map(|policy| active_requests(policy, now));
    entries.filter_map(|entry| entry.expire_time).min()
}

/// The entries by name, each with who has written it where that is another name, its reason and its end.
#[must_use]
pub fn named(active: &[&PauseRequest]) -> String {
    let named = active.iter().map(|request| {
        let until = request.expire_time.map(|time| format!("until {time}"));
        let user = request.user.as_ref().filter(|it| **it != request.name);
        let user = user.map(|it| format!("by {it}"));
        let reason = request.reason.iter().cloned();
        let notes: Vec<String> = user.into_iter().chain(reason).chain(until).collect();
        match notes.is_empty() {
            true => request.name.clone(),
            false => format!("{} ({})", request.name, notes.join(", ")),
        }
    });
    named.collect::<Vec<_>>().join(", ")
}

fn name(policy: &NodeFencingPolicy) -> &str {
    policy.metadata.name.as_deref().unwrap_or_default()
}

fn paused(policy: &NodeFencingPolicy, now: Timestamp) -> Option<Exclusion> {
    let active = active_requests(policy, now);
    if active.is_empty() {
        return None;
    }
    Some(Exclusion {
        reason: HeldBy::Paused,
        message: format!(
            "policy {} is paused by its `pauseRequests`: {}; remove the entry, or create a NodeFence by hand",
            name(policy),
            named(&active)
        ),
        until: expiry(&active),
    })
}

/// Nobody can tell whether the policy wants a fence now.
fn unusable(policy: &NodeFencingPolicy) -> Option<Exclusion> {
    let message = window::unusable(policy)?.to_string();
    Some(Exclusion {
        reason: HeldBy::InvalidWindow,
        message,
        until: None,
    })
}

fn maintained(policy: &NodeFencingPolicy, node: &NodeView) -> Option<Exclusion> {
    if policy.spec.exclusions.maintenance == MaintenanceNodes::Fence {
        return None;
    }
    let sign = maintenance_sign(node)?;
    let message = format!(
        "Node {} has {sign}, and policy {} excludes nodes under maintenance (`exclusions.maintenance` is Skip); end the maintenance, or create a NodeFence by hand",
        node.name,
        name(policy)
    );
    Some(Exclusion {
        reason: HeldBy::Maintenance,
        message,
        until: None,
    })
}

/// What says that somebody works on the node.
fn maintenance_sign(node: &NodeView) -> Option<String> {
    let condition = node.condition(MAINTENANCE_CONDITION);
    let rebooted = KURED_ANNOTATIONS
        .iter()
        .find(|kured| node.annotation_keys.iter().any(|key| key == *kured));
    let is_excluded = || {
        let value = node.labels.get(MEDIK8S_LABEL);
        value.is_some_and(|value| value == "true")
    };
    if condition.is_some_and(|it| it.status == "True") {
        Some(format!("condition {MAINTENANCE_CONDITION}=True"))
    } else if let Some(annotation) = rebooted {
        Some(format!("annotation {annotation}"))
    } else if is_excluded() {
        Some(format!("label {MEDIK8S_LABEL}=true"))
    } else {
        None
    }
}

fn excluded(policy: &NodeFencingPolicy, node: &NodeView) -> Option<Exclusion> {
    let exclusions = &policy.spec.exclusions;
    let annotation = || {
        let mut keys = exclusions.annotations.iter();
        keys.find(|key| node.annotation_keys.contains(key))
    };
    let taint = || {
        let mut keys = exclusions.taints.iter();
        keys.find(|key| node.taint(key).is_some())
    };
    let (what, rule, way_out) = if exclusions.cordoned == CordonedNodes::Skip && node.unschedulable
    {
        let way_out = format!("uncordon it (kubectl uncordon {})", node.name);
        let rule = "cordoned nodes (`exclusions.cordoned` is Skip)";
        ("is cordoned".to_owned(), rule, way_out)
    } else if let Some(key) = annotation() {
        let rule = "nodes with that key (`exclusions.annotations`)";
        let way_out = "remove the annotation".to_owned();
        (format!("has annotation {key}"), rule, way_out)
    } else {
        let key = taint()?;
        let rule = "nodes with that key (`exclusions.taints`)";
        (
            format!("has taint {key}"),
            rule,
            "remove the taint".to_owned(),
        )
    };
    let message = format!(
        "Node {} {what}, and policy {} excludes {rule}; {way_out}, or create a NodeFence by hand",
        node.name,
        name(policy)
    );
    Some(Exclusion {
        reason: HeldBy::Excluded,
        message,
        until: None,
    })
}

#[cfg(test)]
mod tests;
