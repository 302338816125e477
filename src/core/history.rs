//! Which records of ended incidents may go: those beyond a policy's `history.limit`, and those older than its
//! `history.ttlSeconds`.
//!
//! Only what the operator recorded for a policy that still exists is ever cleared away. A NodeFence that a human made, and one
//! whose policy is gone, stay until a human deletes them. And a record stays while something hangs on it: as long as the
//! outage lasts that it is about (without it the same outage would be fenced again), and until its node's
//! `budget.cooldownSeconds` are over.

use super::delay::touched;
use super::observed::{NodeView, Ready};
use super::taint;
use crate::api::fence::{NodeFence, TriggerType};
use crate::api::policy::NodeFencingPolicy;
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
        .filter(|(_, fence)| !outage_lasts(fence, node(&fence.spec.node_name).as_ref()))
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
    let same = |recorded: &Option<String>, now: &str| {
        recorded.as_ref().is_none_or(|recorded| recorded == now)
    };
    let same_boot =
        same(&fence.spec.node_uid, &node.uid) && same(&fence.spec.boot_id, &node.boot_id);
    let claims = node.claim().and_then(taint::claim_fence) == fence.metadata.name.as_deref();
    claims || (same_boot && node.ready() != Ready::True)
}

#[cfg(test)]
mod tests;
