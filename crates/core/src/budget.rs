//! How much may be fenced at once. The out-of-service taint passes by Kubernetes' own rate limits and disruption budgets, so
//! this is the only brake.
//!
//! A brake holds, it never refuses: a held incident goes on when the share drops, when another one ends, or when a human
//! approves it. An approval lifts every brake but the two that protect the operator itself and the control plane.

use super::hold::{HeldBy, Hold};
use super::observed::{NodeView, Ready};
use super::quiesce::{counted, shorten};
use super::select::matches;
use super::support::deletes_nodes;
use fencing_api::fence::NodeFence;
use fencing_api::fence_status::NodeFenceStatus;
use fencing_api::policy::{Budget, ControlPlaneBudget, FenceMode, MinHealthy, NodeFencingPolicy};
use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

/// Label of control-plane nodes (kubeadm, KEP-2067).
pub const CONTROL_PLANE_LABEL: &str = "node-role.kubernetes.io/control-plane";

/// What `budget.maxPerHour` counts over.
pub const HOUR: Duration = Duration::from_secs(3600);

/// An open incident, as the budget sees it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Open {
    /// NodeFence name.
    pub fence: String,
    /// Node name.
    pub node: String,
    /// Policy name.
    pub policy: String,
    /// It has been admitted and may act.
    pub admitted: bool,
    /// The brake whose turn alone keeps it from acting ([`HeldBy::is_a_queue`]), if it is one.
    pub waits: Option<HeldBy>,
    /// Creation, as a sortable text: who came first.
    pub created: String,
    /// Its Node is deleted in the end (`recovery.strategy: DeleteNode`).
    pub deletes: bool,
}

impl Open {
    /// By its record alone.
    pub fn of_record(fence: &NodeFence) -> Self {
        let created = fence.metadata.creation_timestamp.as_ref();
        Self {
            fence: fence.metadata.name.clone().unwrap_or_default(),
            node: fence.spec.node_name.clone(),
            policy: fence.spec.policy_name.clone().unwrap_or_default(),
            admitted: fence.was_admitted(),
            waits: None,
            created: created.map(|time| time.0.to_string()).unwrap_or_default(),
            deletes: deletes_nodes(&fence.spec.procedure.recovery),
        }
    }
}

/// What the budget asks of a Node. It asks it of all there are, for each incident: no copy of them is made for that.
pub trait Member {
    /// Its name.
    fn name(&self) -> &str;
    /// Its labels.
    fn labels(&self) -> &BTreeMap<String, String>;
    /// Status of the condition `Ready`.
    fn ready(&self) -> Ready;
}

impl Member for NodeView {
    fn name(&self) -> &str {
        &self.name
    }

    fn labels(&self) -> &BTreeMap<String, String> {
        &self.labels
    }

    fn ready(&self) -> Ready {
        self.ready()
    }
}

impl<N: Member> Member for Arc<N> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn labels(&self) -> &BTreeMap<String, String> {
        (**self).labels()
    }

    fn ready(&self) -> Ready {
        (**self).ready()
    }
}

/// The cluster, as the budget sees it.
#[derive(Debug)]
pub struct Cluster<'a, N = NodeView> {
    /// All Nodes.
    pub nodes: &'a [N],
    /// Names of the nodes that the incident's policy selects, and of those that it had deleted and that have not come back: they count as
    /// not Ready. Asked for in mode PowerOff only, and not where the incident is approved.
    pub selected: &'a [String],
    /// All open incidents, this one included.
    pub open: &'a [Open],
    /// When the policy's earlier incidents were admitted (time since boot).
    pub admissions: &'a [Duration],
    /// The node that this operator runs on, if it knows.
    pub own_node: Option<&'a str>,
    /// How many fences may be under way in the whole cluster (`--max-concurrent-fences`).
    pub cap: Option<u32>,
}

fn hold(reason: HeldBy, message: String) -> Result<(), Hold> {
    Err(Hold { reason, message })
}

/// May this incident act now?
pub fn admit<N: Member>(
    mine: &Open,
    mode: FenceMode,
    approved: bool,
    budget: &Budget,
    cluster: &Cluster<'_, N>,
    now: Duration,
) -> Result<(), Hold> {
    own_node(&mine.node, cluster.own_node).map_or(Ok(()), Err)?;
    if budget.control_plane == ControlPlaneBudget::PreserveQuorum {
        quorum(mine, cluster)?;
    }
    if approved {
        return Ok(());
    }
    concurrent(mine, budget, cluster)?;
    failure_domain(mine, budget, cluster)?;
    if mode == FenceMode::PowerOff {
        healthy(budget, cluster)?;
    }
    hourly(budget, cluster, now)?;
    cluster_wide(mine, cluster)
}

/// The operator itself runs there: what it would do last is to cut its own power, half-way through.
pub fn own_node(node: &str, own_node: Option<&str>) -> Option<Hold> {
    let message = "the operator runs on this node; another replica has to fence it";
    (own_node == Some(node)).then(|| Hold {
        reason: HeldBy::OwnNode,
        message: message.to_owned(),
    })
}

/// Fencing a control-plane node must leave a majority of them Ready.
fn quorum<N: Member>(mine: &Open, cluster: &Cluster<'_, N>) -> Result<(), Hold> {
    let is_member = |node: &N| node.labels().contains_key(CONTROL_PLANE_LABEL);
    // Before the labels of all the others are looked at: most nodes are no member.
    let mut own = cluster.nodes.iter().filter(|it| it.name() == mine.node);
    if !own.any(is_member) {
        return Ok(());
    }
    let members: Vec<&N> = cluster.nodes.iter().filter(|it| is_member(it)).collect();
    // Of a member whose Node is gone nobody knows any more that it is one: the next would be counted without it.
    if mine.deletes {
        let message = "`recovery.strategy: DeleteNode` would remove a control-plane node from the quorum; set `recovery.strategy: OutOfServiceTaint` for these nodes, or `budget.controlPlane: Ignore`";
        return hold(HeldBy::Quorum, message.to_owned());
    }
    let left = members
        .iter()
        .filter(|node| node.name() != mine.node && node.ready() == Ready::True)
        .count();
    let needed = members.len() / 2 + 1;
    if left >= needed {
        return Ok(());
    }
    let message = format!(
        "{left} of {} control-plane nodes would stay Ready, quorum requires {needed}; bring one back, or set `budget.controlPlane: Ignore`",
        members.len()
    );
    hold(HeldBy::Quorum, message)
}

fn concurrent<N>(mine: &Open, budget: &Budget, cluster: &Cluster<'_, N>) -> Result<(), Hold> {
    let same_policy = || {
        cluster
            .open
            .iter()
            .filter(|other| other.policy == mine.policy && other.fence != mine.fence)
    };
    let running = same_policy().filter(|other| other.admitted).count();
    let limit = usize::try_from(budget.max_concurrent).unwrap_or(1);
    if running >= limit {
        let first = same_policy()
            .find(|other| other.admitted)
            .map_or("", |other| other.fence.as_str());
        let message = format!(
            "{running} of at most {limit} fences of policy {} in progress (`budget.maxConcurrent`), NodeFence {first} goes first; wait for its turn, or approve this NodeFence (`spec.approval`)",
            mine.policy
        );
        return hold(HeldBy::MaxConcurrent, message);
    }
    let ahead: Vec<_> = same_policy()
        .filter(|other| !other.admitted && other.waits.is_some())
        .map(|other| (&other.created, &other.fence))
        .filter(|other| *other < (&mine.created, &mine.fence))
        .collect();
    let oldest = ahead.iter().min();
    if let Some((_, first)) = oldest.filter(|_| running + ahead.len() >= limit) {
        let message = format!(
            "{} of policy {} waiting ahead (`budget.maxConcurrent` {limit}), NodeFence {first} goes first; wait for its turn, or approve this NodeFence (`spec.approval`)",
            counted(ahead.len(), "older incident"),
            mine.policy
        );
        return hold(HeldBy::MaxConcurrent, message);
    }
    Ok(())
}

fn failure_domain<N: Member>(
    mine: &Open,
    budget: &Budget,
    cluster: &Cluster<'_, N>,
) -> Result<(), Hold> {
    let Some(domain) = &budget.failure_domain else {
        return Ok(());
    };
    let domain_of: BTreeMap<&str, &String> = cluster
        .nodes
        .iter()
        .filter_map(|node| Some((node.name(), node.labels().get(&domain.topology_key)?)))
        .collect();
    // Nodes without the label are a domain of their own.
    let mine_domain = domain_of.get(mine.node.as_str());
    let running = cluster
        .open
        .iter()
        .filter(|other| {
            other.admitted
                && other.fence != mine.fence
                && domain_of.get(other.node.as_str()) == mine_domain
        })
        .count();
    if running < usize::try_from(domain.max_concurrent).unwrap_or(1) {
        return Ok(());
    }
    let mine_domain = mine_domain.map_or("(no label)", |domain| domain.as_str());
    let message = format!(
        "{} in progress in {} {mine_domain}, at most {} allowed (`budget.failureDomain`)",
        counted(running, "fence"),
        domain.topology_key,
        domain.max_concurrent
    );
    hold(HeldBy::FailureDomain, message)
}

/// Too many nodes down at once is more likely a switch, a power feed or the API server than that many machines.
fn healthy<N: Member>(budget: &Budget, cluster: &Cluster<'_, N>) -> Result<(), Hold> {
    let total = cluster.selected.len();
    let selected: HashSet<&str> = cluster.selected.iter().map(String::as_str).collect();
    let healthy = cluster
        .nodes
        .iter()
        .filter(|node| node.ready() == Ready::True && selected.contains(node.name()))
        .count();
    let needed = healthy_min(budget, total);
    if healthy >= needed {
        return Ok(());
    }
    // Of the policy, and not there.
    let there: HashSet<&str> = cluster.nodes.iter().map(Member::name).collect();
    let is_there = |name: &String| there.contains(name.as_str());
    let gone = cluster.selected.iter().filter(|name| !is_there(name));
    let gone: Vec<String> = gone.cloned().collect();
    let gone = match gone.is_empty() {
        true => String::new(),
        false => format!(
            " (deleted by `recovery.strategy: DeleteNode` and counted as down: {}; delete the ended NodeFence of one that never returns)",
            shorten(&gone)
        ),
    };
    let message = format!(
        "{healthy} of {total} nodes of the policy are Ready{gone}, `budget.minHealthy` requires {needed}; approve this NodeFence (`spec.approval`) if these machines are really down"
    );
    hold(HeldBy::MinHealthy, message)
}

/// How many of a policy's nodes must be Ready (`budget.minHealthy`).
pub fn healthy_min(budget: &Budget, selected: usize) -> usize {
    match budget.min_healthy {
        MinHealthy::Count(number) => usize::try_from(number).unwrap_or(usize::MAX),
        // Rounded up: 51 % of 3 nodes is 2 nodes.
        MinHealthy::Percent(percent) => (selected * usize::from(percent)).div_ceil(100),
    }
}

fn hourly<N>(budget: &Budget, cluster: &Cluster<'_, N>, now: Duration) -> Result<(), Hold> {
    let recent = cluster
        .admissions
        .iter()
        .filter(|at| now.saturating_sub(**at) < HOUR)
        .count();
    if recent < usize::try_from(budget.max_per_hour).unwrap_or(1) {
        return Ok(());
    }
    let message = format!(
        "{recent} fences of the policy began in the last hour, `budget.maxPerHour` is {}; wait, or approve this NodeFence (`spec.approval`)",
        budget.max_per_hour
    );
    hold(HeldBy::MaxPerHour, message)
}

/// The last to be asked: of all policies only those queue here that their own would let through, or one policy's queue would keep the
/// others from a place that it cannot take itself (L5).
fn cluster_wide<N>(mine: &Open, cluster: &Cluster<'_, N>) -> Result<(), Hold> {
    let Some(cap) = cluster.cap else {
        return Ok(());
    };
    let limit = usize::try_from(cap).unwrap_or(usize::MAX);
    let others = || cluster.open.iter().filter(|it| it.fence != mine.fence);
    let running: Vec<_> = others().filter(|other| other.admitted).collect();
    let is_ahead = |other: &&Open| {
        let is_older = (&other.created, &other.fence) < (&mine.created, &mine.fence);
        !other.admitted && other.waits == Some(HeldBy::ClusterCap) && is_older
    };
    let ahead = others().filter(is_ahead);
    let ahead: Vec<_> = ahead.map(|other| (&other.created, other)).collect();
    if running.len() + ahead.len() < limit {
        return Ok(());
    }
    let oldest = ahead
        .iter()
        .min_by_key(|(created, other)| (*created, &other.fence));
    let first = running.first().copied().or(oldest.map(|(_, other)| *other));
    let message = format!(
        "{} in progress in the cluster and {} waiting, at most {limit} allowed (`--max-concurrent-fences`), NodeFence {} goes first; \
         wait for its turn, or approve this NodeFence (`spec.approval`)",
        counted(running.len(), "fence"),
        counted(ahead.len(), "older incident"),
        first.map_or("", |other| other.fence.as_str())
    );
    hold(HeldBy::ClusterCap, message)
}

/// Names for [`Cluster::selected`].
pub fn selected(
    policy: &NodeFencingPolicy,
    nodes: &[impl Member],
    fences: &[impl Borrow<NodeFence>],
) -> Vec<String> {
    let selector = &policy.spec.node_selector;
    let of_policy = nodes.iter().filter(|it| matches(selector, it.labels()));
    let mut selected: Vec<String> = of_policy.map(|it| it.name().to_owned()).collect();
    let name = policy.metadata.name.as_deref().unwrap_or_default();
    selected.extend(deleted_nodes(fences, name, nodes));
    selected
}

/// The Nodes that this policy had deleted and that are not there again, as long as the records of that are kept: machines that are down, which
/// a storm is told by like any other (S13).
pub fn deleted_nodes(
    fences: &[impl Borrow<NodeFence>],
    policy: &str,
    nodes: &[impl Member],
) -> BTreeSet<String> {
    let is_gone = |name: &str| !nodes.iter().any(|node| node.name() == name);
    let of_policy = fences
        .iter()
        .map(Borrow::borrow)
        .filter(|fence: &&NodeFence| fence.spec.policy_name.as_deref() == Some(policy));
    let deleted = of_policy.filter(|fence| {
        let was_marked = |status: &NodeFenceStatus| status.taint_applied_time.is_some();
        let is_marked = fence.status.as_ref().is_some_and(was_marked);
        deletes_nodes(&fence.spec.procedure.recovery) && is_marked && is_gone(&fence.spec.node_name)
    });
    deleted.map(|fence| fence.spec.node_name.clone()).collect()
}

#[cfg(test)]
mod tests;
