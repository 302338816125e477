//! The stages that an incident has gone through, as far as its record dates them.
//!
//! The record dates where one thing ended and the next began, not each stage by its name; so a span is called by what was being done in it.

use super::super::fences;
use super::super::timeline::{Kind, timeline};
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
    let moments = timeline(fence);
    let mut ends = moments
        .iter()
        .filter_map(|it| Some((it.time, ended(it.kind)?)));
    let mut spans = Vec::new();
    let Some((mut from, _)) = ends.next() else {
        return spans;
    };
    for (until, name) in ends {
        let name = name.to_owned();
        spans.push(Span {
            name,
            from,
            until: Some(until),
        });
        from = until;
    }
    if !moments.iter().any(|it| it.kind == Kind::Ended) {
        spans.push(Span {
            name: format!("{} (now)", fences::stage(fence)),
            from,
            until: None,
        });
    }
    spans
}

/// What was being done until then.
fn ended(by: Kind) -> Option<&'static str> {
    Some(match by {
        // Only what came first has no name, and another clock may have dated it later.
        Kind::Unhealthy => "Until the node became unhealthy",
        Kind::Opened => "Unhealthy, until it was detected",
        Kind::Due => "Unhealthy, within the policy's wait",
        Kind::TakenUp => "Until the operator started it",
        Kind::Admitted => "Held, or waiting for an approval",
        Kind::ConfirmedDown => "Claimed, turned off, confirmed off",
        Kind::Tainted => "Evidence stored, taint set",
        Kind::Detached => "Pods and volumes detaching",
        Kind::Untainted => "Waiting for the release",
        Kind::Ended => "Until the incident ended",
        Kind::People | Kind::Asked | Kind::Other => return None,
    })
}
