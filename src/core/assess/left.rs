//! What the budget of a policy would admit, for people.

use super::super::budget::healthy_min;
use super::super::observed::Ready;
use super::super::stage::Stage;
use super::super::window;
use super::{Tally, is_held, number, stage};
use crate::api::fence::NodeFence;
use crate::api::policy::{FenceMode, NodeFencingPolicy};
use jiff::{SignedDuration, Timestamp};

/// Takes a place in the budget.
fn is_running(fence: &NodeFence) -> bool {
    let observing = stage(fence) == Some(Stage::Observing.to_string().as_str());
    stage(fence).is_some() && !is_held(fence) && !observing
}

/// How many more fences the budget would admit now. By the wall clock, for people: what is admitted is decided elsewhere.
pub(super) fn remaining(
    policy: &NodeFencingPolicy,
    tally: &Tally<'_>,
    fences: &[&NodeFence],
    open: &[&NodeFence],
    now: Timestamp,
) -> u32 {
    let budget = &policy.spec.budget;
    let healthy = tally
        .nodes
        .iter()
        .filter(|node| node.ready() == Ready::True)
        .count();
    let is_storm = healthy < healthy_min(budget, tally.nodes.len());
    if window::mode(policy, now) == FenceMode::PowerOff && is_storm {
        return 0;
    }
    let running = open.iter().filter(|fence| is_running(fence)).count();
    let hour = SignedDuration::from_hours(1);
    let is_recent = |fence: &&&NodeFence| {
        let acted = fence
            .status
            .as_ref()
            .and_then(|status| status.approved_time);
        acted.is_some_and(|acted| now.duration_since(acted) < hour)
    };
    let recent = fences.iter().filter(is_recent).count();
    let places = budget.max_concurrent.saturating_sub(number(running));
    places.min(budget.max_per_hour.saturating_sub(number(recent)))
}
