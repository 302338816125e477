//! Which records of ended incidents may go: those beyond a policy's `history.limit`, and those older than its
//! `history.ttlSeconds`.
//!
//! Only what the operator recorded for a policy that still exists is ever cleared away. A NodeFence that a human made, and one whose policy is gone,
//! stay until a human deletes them. And a record stays while something hangs on it: as long as the outage lasts that it is about (without it the
//! same outage would be fenced again), while its node is in the boot that met a command of unknown effect and no later record tells of one (the next
//! one waits for that), and until its node's `budget.cooldownSeconds` are over. Of an outage that went through many windows of its policy the last
//! record stands for those that did nothing: a node that is down for a month leaves no hundred of them.

use super::delay::touched;
use super::observed::{NodeView, Ready};
use super::taint;
use fencing_api::fence::{DesiredState, NodeFence, TriggerType};
use fencing_api::fence_status::AttemptAction;
use fencing_api::policy::NodeFencingPolicy;
use jiff::{SignedDuration, Timestamp};
use std::cmp::Reverse;

/// The ended NodeFences that may be deleted now, oldest first. `node` finds a Node by its name.
pub fn surplus<'a>(
    policies: &[NodeFencingPolicy],
    fences: &'a [NodeFence],
    node: &dyn Fn(&str) -> Option<NodeView>,
    now: Timestamp,
) -> Vec<&'a NodeFence> {
    let mut surplus: Vec<(Timestamp, &NodeFence)> = policies
        .iter()
        .flat_map(|policy| of_policy(policy, fences, now))
        .filter(|(_, fence)| {
            let node = node(&fence.spec.node_name);
            let node = node.as_ref();
            let is_over =
                !outage_lasts(fence, node) || (was_replaced(fence, fences) && !claims(fence, node));
            is_over && !alone_tells_of_commands(fence, fences, node)
        })
        .collect();
    surplus.sort_by_key(|(ended, _)| *ended);
    surplus.into_iter().map(|(_, fence)| fence).collect()
}

/// Ended ones of this policy that are too many or too old, and whose cooldown is over.
fn of_policy<'a>(
    policy: &NodeFencingPolicy,
    fences: &'a [NodeFence],
    now: Timestamp,
) -> Vec<(Timestamp, &'a NodeFence)> {
    let history = &policy.spec.history;
    let ttl = SignedDuration::from_secs(history.ttl_seconds.into());
    let cooldown = SignedDuration::from_secs(policy.spec.budget.cooldown_seconds.into());
    let kept = usize::try_from(history.limit).unwrap_or(usize::MAX);
    let mut ended: Vec<(Timestamp, &NodeFence)> = fences
        .iter()
        .filter(|fence| {
            fence.spec.trigger.type_ == TriggerType::NodeCondition
                && fence.spec.policy_name == policy.metadata.name
                && fence.metadata.deletion_timestamp.is_none()
                && fence.is_ended()
        })
        .filter_map(|fence| Some((fence.status.as_ref()?.completion_time?, fence)))
        .collect();
    ended.sort_by_key(|(at, fence)| Reverse((*at, &fence.metadata.name)));
    ended
        .into_iter()
        .enumerate()
        .filter(|(newer, (at, _))| *newer >= kept || now.duration_since(*at) > ttl)
        .map(|(_, one)| one)
        .filter(|(_, fence)| touched(fence).is_none_or(|end| now.duration_since(end) > cooldown))
        .collect()
}

/// Is the node still in the boot that the incident was about, and not Ready, or does our claim for it still stand there?
fn outage_lasts(fence: &NodeFence, node: Option<&NodeView>) -> bool {
    let Some(node) = node else { return false };
    claims(fence, Some(node)) || (is_in_its_boot(fence, node) && node.ready() != Ready::True)
}

/// Does it tell of a command that may still land in the boot that its node is in, and no later record of the same one with as long to land?
/// Whoever fences the node next has to know of one, and not of how many (S23). What people may delete at any time tells of none.
fn alone_tells_of_commands(
    fence: &NodeFence,
    fences: &[NodeFence],
    node: Option<&NodeView>,
) -> bool {
    let Some(node) = node else { return false };
    let order = |it: &NodeFence| {
        let ended = it.status.as_ref().and_then(|it| it.completion_time);
        (ended, it.metadata.name.clone())
    };
    let stays = |it: &&NodeFence| {
        it.spec.trigger.type_ == TriggerType::NodeCondition
            && it.is_ended()
            && it.metadata.deletion_timestamp.is_none()
    };
    let newer = fences
        .iter()
        .filter(stays)
        .filter(|it| order(it) > order(fence));
    let told: Vec<(AttemptAction, u64)> = newer.flat_map(|it| may_land(it, node)).collect();
    let is_told = |action: AttemptAction, seconds: u64| {
        told.iter()
            .any(|(other, theirs)| *other == action && *theirs >= seconds)
    };
    may_land(fence, node).any(|(action, seconds)| !is_told(action, seconds))
}

/// The commands of this record that may still land on the node, and how long they have for it, in seconds.
fn may_land<'a>(
    fence: &'a NodeFence,
    node: &NodeView,
) -> impl Iterator<Item = (AttemptAction, u64)> + use<'a> {
    let is_met = fence.may_be_about(&node.name, Some(&node.uid), Some(&node.boot_id));
    let seconds = fence.spec.procedure.fence.landing_seconds();
    let commands = fence.commands_that_may_land().filter(move |_| is_met);
    commands.map(move |action| (action, seconds))
}

/// Is it the very Node, in the very boot, that the incident was about?
fn is_in_its_boot(fence: &NodeFence, node: &NodeView) -> bool {
    let same = |recorded: &Option<String>, now: &str| {
        recorded.as_ref().is_none_or(|recorded| recorded == now)
    };
    same(&fence.spec.node_uid, &node.uid) && same(&fence.spec.boot_id, &node.boot_id)
}

/// Does our claim for it still stand on the node?
fn claims(fence: &NodeFence, node: Option<&NodeView>) -> bool {
    let claim = node.and_then(NodeView::claim);
    let owner = claim.and_then(taint::claim_fence);
    owner.is_some() && owner == fence.metadata.name.as_deref()
}

/// Has it done nothing, has no human spoken, and is there a later one of the same outage by the same policy? Its name does not come again:
/// the policy has changed since, or one of its windows.
fn was_replaced(fence: &NodeFence, fences: &[NodeFence]) -> bool {
    let spec = &fence.spec;
    let is_spoken_of = spec.approval.is_some() || spec.desired_state == DesiredState::Released;
    if is_spoken_of || touched(fence).is_some() {
        return false;
    }
    let outage = |it: &NodeFence| {
        let trigger = &it.spec.trigger;
        (
            it.spec.node_uid.clone(),
            it.spec.boot_id.clone(),
            it.spec.policy_name.clone(),
            trigger.condition_type.clone(),
            trigger.condition_status,
            trigger.unhealthy_since_time,
        )
    };
    let is_later = |other: &NodeFence| {
        let created = |it: &NodeFence| it.metadata.creation_timestamp.as_ref().map(|it| it.0);
        created(fence)
            .zip(created(other))
            .is_some_and(|(mine, theirs)| mine < theirs)
    };
    let is_known = spec.trigger.unhealthy_since_time.is_some();
    is_known
        && fences
            .iter()
            .any(|it| is_later(it) && outage(it) == outage(fence))
}

#[cfg(test)]
mod tests;
