//! The stages that an incident has gone through, as far as its record dates them.
//!
//! The record dates where one thing ended and the next began, not each stage by its name; so a span is called by what was being done in it.

use super::super::fences;
use fencing_api::fence::NodeFence;
use jiff::Timestamp;

/// A span of time in which one thing was being done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    /// What was being done.
    pub name: String,
    /// Since when.
    pub from: Timestamp,
    /// Until when; none: it still is.
    pub until: Option<Timestamp>,
}

/// The spans, in their order.
pub(super) fn spans(fence: &NodeFence) -> Vec<Span> {
    let trigger = &fence.spec.trigger;
    let status = fence.status.clone().unwrap_or_default();
    let proven = status.evidence.as_ref().map(|it| it.proven_time);
    let ends = [
        (trigger.unhealthy_since_time, ""),
        (fences::created(fence), "Unhealthy, until it was noticed"),
        (trigger.due_time, "Unhealthy, within the policy's wait"),
        (status.detected_time, "Until the operator took it up"),
        (status.approved_time, "Held, or waiting for a human"),
        (
            status.confirmed_down_time.or(proven),
            "Claimed, turned off, proven down",
        ),
        (status.taint_applied_time, "Evidence stored, taint set"),
        (status.detached_time, "Pods and volumes leaving"),
        (status.taint_removed_time, "Waiting for the release"),
        (status.completion_time, "Until the incident ended"),
    ];
    let dated = ends.into_iter();
    let mut dated: Vec<_> = dated.filter_map(|(at, name)| Some((at?, name))).collect();
    dated.sort_by_key(|(at, _)| *at);
    let pairs = dated.iter().zip(dated.iter().skip(1));
    let past = pairs.map(|((from, _), (until, name))| Span {
        // Only what came first has no name, and another clock may have dated it later.
        name: match name.is_empty() {
            true => "Until the node became unhealthy".to_owned(),
            false => (*name).to_owned(),
        },
        from: *from,
        until: Some(*until),
    });
    let mut spans: Vec<Span> = past.collect();
    if let (None, Some((last, _))) = (status.completion_time, dated.last()) {
        spans.push(Span {
            name: format!("{} (now)", fences::stage(fence)),
            from: *last,
            until: None,
        });
    }
    spans
}
