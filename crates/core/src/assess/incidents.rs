//! A policy's incidents: how many are open, held, running, and how many more its budget would admit.

use super::super::budget::healthy_min;
use super::super::observed::Ready;
use super::super::stage::Stage;
use super::super::window;
use super::{Tally, number};
use fencing_api::conditions::{self, HELD, SUCCEEDED};
use fencing_api::fence::NodeFence;
use fencing_api::policy::{FenceMode, NodeFencingPolicy};
use jiff::{SignedDuration, Timestamp};

pub(super) fn began(fence: &NodeFence) -> Option<Timestamp> {
    let detected = fence
        .status
        .as_ref()
        .and_then(|status| status.detected_time);
    let created = fence
        .metadata
        .creation_timestamp
        .as_ref()
        .map(|created| created.0);
    detected.or(created)
}

/// The reason of condition `Succeeded`; none before the operator has looked at the incident.
fn stage(fence: &NodeFence) -> Option<&str> {
    let conditions = &fence.status.as_ref()?.conditions;
    Some(conditions::find(conditions, SUCCEEDED)?.reason.as_str())
}

pub(super) fn is_held(fence: &NodeFence) -> bool {
    let conditions = fence.status.iter().flat_map(|status| &status.conditions);
    let held = conditions
        .filter(|condition| condition.type_ == HELD)
        .any(|held| held.status == "True");
    let waits = |stage: Stage| self::stage(fence) == Some(stage.to_string().as_str());
    held || waits(Stage::Held) || waits(Stage::AwaitingApproval)
}

/// All that an assessment counts of an incident: has it ended, is it held, was it admitted, and when did it begin and act?
pub fn counted(fence: &NodeFence) -> (bool, bool, bool, [Option<Timestamp>; 2]) {
    let status = fence.status.as_ref();
    let acted = status.and_then(|status| status.approved_time);
    let times = [began(fence), acted];
    (
        fence.is_ended(),
        is_held(fence),
        fence.was_admitted(),
        times,
    )
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
    let running = open.iter().filter(|fence| fence.was_admitted()).count();
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
