//! What each policy would do now: which nodes it governs, which of them could be fenced, and what keeps it from acting.
//!
//! Pure, and for people: nothing that is done follows from it. Which nodes are protected is [`super::protection::levels`]'s; a policy is `Ready` when it
//! would act as it says, and its message also has warnings.

mod incidents;
pub mod others;
mod words;

use super::delay::Delayed;
use super::observed::NodeView;
use super::protection::levels::{Devices, Found, Judge, Targets};
use super::select::{Conflict, governing};
use super::window::{self, effective};
use fencing_api::conditions::{READY, set_condition, set_progress};
use fencing_api::device::FenceDevice;
use fencing_api::fence::NodeFence;
use fencing_api::policy::{FenceMode, NodeFencingPolicy, NodeFencingPolicyStatus, PolicyNodes};
pub use incidents::counted;
use incidents::{began, is_held, remaining};
use jiff::Timestamp;
use others::{Attached, Other, Served};
use std::collections::{BTreeMap, BTreeSet};

/// Unprotected nodes that are named (`maxItems` of the schema).
const UNPROTECTED_NODES_MAX: usize = 50;

/// What the caches show.
pub struct World<'a> {
    /// All policies.
    pub policies: &'a [NodeFencingPolicy],
    /// All Nodes.
    pub nodes: &'a [&'a NodeView],
    /// All devices.
    pub devices: &'a [&'a FenceDevice],
    /// All NodeFences, ended ones included.
    pub fences: &'a [&'a NodeFence],
    /// Where CSI drivers have volumes attached.
    pub attached: &'a Attached,
    /// Which API groups of others are served.
    pub served: &'a Served,
    /// Unhealthy nodes that have to wait or are left alone.
    pub delays: &'a [Delayed],
    /// Why every destructive step is frozen, if it is (S18).
    pub frozen: Option<&'a str>,
    /// What the operator may not do that deleting a Node takes.
    pub lacks: Option<&'a str>,
    /// What the operator may not do that reporting Nodes early takes.
    pub lacks_early: Option<&'a str>,
    /// What this process has found of a device (its name) and a node; the status of the device counts otherwise.
    pub found: &'a Found<'a>,
    /// What a device controls for the node of this name, as far as its settings say.
    pub targets: &'a Targets<'a>,
    /// Wall clock, for the times in the status.
    pub now: Timestamp,
}

/// What follows from it.
#[derive(Debug, Default)]
pub struct Assessment {
    /// The status of each policy, by name.
    pub statuses: BTreeMap<String, NodeFencingPolicyStatus>,
    /// Of each node that a policy governs: is it protected?
    pub protected: BTreeMap<String, bool>,
    /// Who else is seen for each policy, one word each.
    pub others: BTreeMap<String, Vec<&'static str>>,
}

/// One policy's nodes, and what was noticed about them.
#[derive(Default)]
struct Tally<'a> {
    /// The mode that holds now.
    mode: Option<FenceMode>,
    nodes: Vec<&'a NodeView>,
    unhealthy: u32,
    protected: u32,
    unprotected: Vec<String>,
    /// Levels that have a device for at least one node.
    levels_served: BTreeSet<&'a str>,
    conflicts: Vec<Conflict>,
    /// Levels that need two devices which are one, in words.
    same_device: Vec<String>,
}

/// Assesses all policies.
pub fn assess(world: &World<'_>) -> Assessment {
    let devices = Devices::of(world.devices.iter().copied());
    let judge = Judge {
        found: world.found,
        targets: world.targets,
    };
    let mut tallies: BTreeMap<&str, Tally<'_>> = BTreeMap::new();
    let mut assessment = Assessment::default();
    for &node in world.nodes {
        match governing(world.policies, node) {
            Ok(None) => {}
            Ok(Some(policy)) => {
                let tally = tallies.entry(name(policy)).or_default();
                let mode = || window::mode(policy, world.now);
                tally.mode.get_or_insert_with(mode);
                let is_protected = tally.count(policy, node, &devices, judge);
                assessment.protected.insert(node.name.clone(), is_protected);
            }
            Err(conflict) => {
                assessment.protected.insert(node.name.clone(), false);
                let rivals = |policy: &&NodeFencingPolicy| {
                    conflict.policies.iter().any(|rival| rival == name(policy))
                };
                for policy in world.policies.iter().filter(rivals) {
                    let tally = tallies.entry(name(policy)).or_default();
                    tally.count_contested(policy, node, conflict.clone());
                }
            }
        }
    }
    for policy in world.policies {
        let tally = tallies.remove(name(policy)).unwrap_or_default();
        let others = others::others(policy, &tally.nodes, world.served, world.attached);
        let status = status(policy, &tally, &others, world);
        let seen = others.iter().map(|other| other.system).collect();
        assessment.others.insert(name(policy).to_owned(), seen);
        assessment.statuses.insert(name(policy).to_owned(), status);
    }
    assessment
}

fn name(policy: &NodeFencingPolicy) -> &str {
    policy.metadata.name.as_deref().unwrap_or_default()
}

impl<'a> Tally<'a> {
    fn count(
        &mut self,
        policy: &'a NodeFencingPolicy,
        node: &'a NodeView,
        devices: &Devices<'a>,
        judge: Judge<'_>,
    ) -> bool {
        let mode = self.mode.unwrap_or(policy.spec.procedure.fence.mode);
        let protection = devices.protection(policy, node, mode, judge);
        for it in protection.levels {
            if !it.devices.is_empty() {
                self.levels_served.insert(&it.level.name);
            }
            self.same_device.extend(it.same_device);
        }
        self.note(policy, node, protection.is_protected);
        protection.is_protected
    }

    /// A node that several policies quarrel over: none of them acts there.
    fn count_contested(
        &mut self,
        policy: &NodeFencingPolicy,
        node: &'a NodeView,
        conflict: Conflict,
    ) {
        self.note(policy, node, false);
        self.conflicts.push(conflict);
    }

    fn note(&mut self, policy: &NodeFencingPolicy, node: &'a NodeView, is_protected: bool) {
        self.nodes.push(node);
        let mut watched = policy.spec.unhealthy_conditions.iter();
        let is_unhealthy = watched.any(|condition| {
            let now = node.condition(&condition.type_);
            now.is_some_and(|now| now.status == condition.status.as_str())
        });
        self.unhealthy += u32::from(is_unhealthy);
        self.protected += u32::from(is_protected);
        if !is_protected {
            self.unprotected.push(node.name.clone());
        }
    }
}

fn status(
    policy: &NodeFencingPolicy,
    tally: &Tally<'_>,
    others: &[Other],
    world: &World<'_>,
) -> NodeFencingPolicyStatus {
    let own = |fence: &&NodeFence| fence.spec.policy_name.as_deref() == Some(name(policy));
    let fences: Vec<&NodeFence> = world.fences.iter().copied().filter(own).collect();
    let open: Vec<&NodeFence> = fences
        .iter()
        .copied()
        .filter(|fence| !fence.is_ended())
        .collect();
    let held = open.iter().filter(|fence| is_held(fence)).count();
    let mut status = policy.status.clone().unwrap_or_default();
    status.observed_generation = policy.metadata.generation;
    status.nodes = Some(PolicyNodes {
        selected: number(tally.nodes.len()),
        healthy: number(tally.nodes.len()).saturating_sub(tally.unhealthy),
        unhealthy: tally.unhealthy,
        protected: tally.protected,
        unprotected: number(tally.unprotected.len()),
    });
    let unprotected = tally.unprotected.iter().take(UNPROTECTED_NODES_MAX);
    status.unprotected_nodes = unprotected.cloned().collect();
    status.open_incidents = Some(number(open.len()));
    status.held_incidents = Some(number(held));
    status.budget_remaining = Some(remaining(policy, tally, &fences, &open, world.now));
    let begun = fences.iter().filter_map(|fence| began(fence));
    status.last_incident_time = begun.max().or(status.last_incident_time);
    let effective = effective(policy, world.now).ok();
    let has_windows = !policy.spec.windows.is_empty();
    status.effective = effective.filter(|_| has_windows).map(|it| it.shown());
    let (ready, reason, words) = words::ready(policy, tally, world);
    let generation = policy.metadata.generation;
    let conditions = &mut status.conditions;
    set_condition(
        conditions, READY, ready, reason, &words, generation, world.now,
    );
    set_progress(conditions, generation, world.now);
    others::tell(others, world.served, conditions, (generation, world.now));
    status
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
