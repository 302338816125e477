//! Who else fences the nodes of a policy, taints them, restarts or deletes them, or wants something of whoever fences: the condition
//! `OtherFencers`.
//!
//! Pure, and for people: nothing that is done follows from it. What the operator does about another one is decided elsewhere, and is
//! little: it leaves a foreign `out-of-service` alone (S8), and a node that says it is under maintenance ([`super::super::exclusion`]).
//! What the operator does is as safe beside another one as without, for its proof asks nobody else; but the two undo each other's work,
//! so the words say who does what, by what it was seen, and how each node gets one of the two.
//!
//! It needs no right of its own. Which APIs are served is discovery, which everybody may read; the rest is on the Nodes and the
//! VolumeAttachments that are in the caches anyhow. So a lock of kured, which is an annotation of its DaemonSet, is not seen, nor which
//! nodes a NodeHealthCheck selects: an API that is served says that something is installed, and no more.

mod systems;

use super::super::observed::NodeView;
use fencing_api::conditions::{ConditionStatus, OTHER_FENCERS, find, set_condition};
use fencing_api::policy::NodeFencingPolicy;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use std::collections::{BTreeMap, BTreeSet};
use systems::{SYSTEMS, System};

/// Reason: something of another one is on a node of the policy.
const SEEN_ON_NODES: &str = "SeenOnNodes";
/// Reason: the API of another one is served, and nothing of it is on a node of the policy.
const INSTALLED: &str = "Installed";
/// Reason: nobody is seen any more.
const NONE_SEEN: &str = "NoneSeen";
/// Nodes that are named for each sign.
const NODES_NAMED_MAX: usize = 3;

/// API groups that the cluster serves, of those that [`groups`] names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Served {
    /// The API server has not answered yet.
    #[default]
    NotAsked,
    /// It refuses to say.
    Unknown,
    /// These.
    Known(BTreeSet<&'static str>),
}

/// CSI drivers with a volume attached, and the nodes where it is.
pub type Attached = BTreeMap<String, BTreeSet<String>>;

/// Somebody else, as the condition and the gauge tell of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Other {
    /// One word for the gauge.
    pub system: &'static str,
    /// Something of it is on a node, and its API is not only served.
    is_on_nodes: bool,
    /// Who, by what it was seen, what it does, what is done about it.
    words: String,
}

/// The API groups that tell of others.
pub fn groups() -> impl Iterator<Item = &'static str> {
    SYSTEMS.iter().filter_map(|system| system.group)
}

/// Everything on the Node that could tell of somebody else: while this stays, so does what is told.
pub fn signs(node: &NodeView) -> Vec<String> {
    let signs = SYSTEMS.iter().flat_map(|system| (system.signs)(node));
    signs.collect()
}

/// Who is seen besides the operator, for this policy and its nodes.
pub(super) fn others(
    policy: &NodeFencingPolicy,
    nodes: &[&NodeView],
    served: &Served,
    attached: &Attached,
) -> Vec<Other> {
    let of = |system: &System| {
        let mut seen = Read::default();
        for node in nodes {
            for sign in (system.signs)(node) {
                seen.note(sign, &node.name);
            }
        }
        for (driver, holders) in attached {
            let own = nodes.iter().filter(|node| holders.contains(&node.name));
            if (system.drivers)(driver) {
                own.for_each(|node| seen.note(format!("volumes of {driver}"), &node.name));
            }
        }
        let group = system.group.filter(|group| is_served(served, group));
        other(policy, system, &seen, group)
    };
    SYSTEMS.iter().filter_map(of).collect()
}

/// The driver of a storage that wants `release.mode: AfterRecovery`, and has volumes attached to one of these nodes.
pub(super) fn wants_recovery<'a>(attached: &'a Attached, nodes: &[&NodeView]) -> Option<&'a str> {
    let is_here =
        |holders: &BTreeSet<String>| nodes.iter().any(|node| holders.contains(&node.name));
    let mut attached = attached.iter();
    let found = attached.find(|(driver, holders)| systems::is_ceph(driver) && is_here(holders));
    found.map(|(driver, _)| driver.as_str())
}

fn is_served(served: &Served, group: &str) -> bool {
    matches!(served, Served::Known(groups) if groups.contains(group))
}

/// Signs on nodes: the nodes of each.
#[derive(Default)]
struct Read<'a>(BTreeMap<String, BTreeSet<&'a str>>);

impl<'a> Read<'a> {
    fn note(&mut self, sign: String, node: &'a str) {
        self.0.entry(sign).or_default().insert(node);
    }

    fn words(&self) -> Vec<String> {
        let one = |(sign, nodes): (&String, &BTreeSet<&str>)| {
            let named: Vec<_> = nodes.iter().take(NODES_NAMED_MAX).copied().collect();
            let more = match nodes.len().saturating_sub(NODES_NAMED_MAX) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            format!("{sign} on {}{more}", named.join(", "))
        };
        self.0.iter().map(one).collect()
    }
}

fn other(
    policy: &NodeFencingPolicy,
    system: &System,
    seen: &Read<'_>,
    group: Option<&str>,
) -> Option<Other> {
    let mut by = seen.words();
    let is_on_nodes = !by.is_empty();
    if !is_on_nodes && group.is_none() {
        return None;
    }
    by.extend(group.map(|group| match is_on_nodes {
        true => format!("API group {group}"),
        false => format!("API group {group}, which is installed but not seen on these nodes"),
    }));
    let (name, does, here) = (system.name, system.does, (system.here)(policy));
    Some(Other {
        system: system.label,
        is_on_nodes,
        words: format!("{name} (seen by {}) {does}; {here}", by.join("; ")),
    })
}

/// Says it in the policy's conditions: while somebody is seen, and from then on. What is not known leaves what was said.
pub(super) fn tell(
    others: &[Other],
    served: &Served,
    conditions: &mut Vec<Condition>,
    (generation, now): (Option<i64>, Timestamp),
) {
    let is_told = find(conditions, OTHER_FENCERS).is_some();
    let is_known = matches!(served, Served::Known(_));
    let (status, reason, words) = match others.len() {
        _ if *served == Served::NotAsked => return,
        0 if !is_told || !is_known => return,
        0 => {
            let words = "no other component was found that fences, taints, restarts or deletes the policy's nodes";
            (ConditionStatus::False, NONE_SEEN, words.to_owned())
        }
        count => {
            let is_on_nodes = others.iter().any(|other| other.is_on_nodes);
            let reason = if is_on_nodes {
                SEEN_ON_NODES
            } else {
                INSTALLED
            };
            (
                ConditionStatus::True,
                reason,
                listed(others, count, is_known),
            )
        }
    };
    let kind = OTHER_FENCERS;
    set_condition(conditions, kind, status, reason, &words, generation, now);
}

fn listed(others: &[Other], count: usize, is_known: bool) -> String {
    let numbered = others.iter().zip(1..);
    let numbered = numbered.map(|(other, number)| format!("({number}) {}", other.words));
    let besides = match count {
        1 => "1 other component acts on the policy's nodes".to_owned(),
        _ => format!("{count} other components act on the policy's nodes"),
    };
    let blind = match is_known {
        true => "",
        false => " (there may be more: the API server does not list its APIs)",
    };
    let numbered: Vec<_> = numbered.collect();
    format!("{besides}{blind}: {}", numbered.join(" "))
}
