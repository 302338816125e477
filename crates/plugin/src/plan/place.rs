//! Where else could a pod of the node run? The scheduler's own questions, as far as objects alone answer them.
//!
//! Another node takes it if it is Ready, not cordoned, bears no taint that the pod does not tolerate, has the labels that pod and volumes
//! want, and has room: its allocatable less what its pods ask for. Pods are placed one after the other, so that two of them do not count the
//! same room. What is not looked at is said of each pod that it could matter for: affinity between pods, spread, host ports, device claims,
//! how many volumes a node takes, and preemption. Sources: upstream's `scheduler/framework/plugins` and
//! `component-helpers/scheduling/corev1/nodeaffinity` (v1.36).

use super::quantity::{Amounts, told};
use fencing_core::observed::{NodeView, Ready, TaintView};
use k8s_openapi::api::core::v1::{
    NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodSpec, Toleration,
};
use std::collections::{BTreeMap, BTreeSet};

/// A node, and what is left of it.
#[derive(Debug, Clone)]
pub struct Machine {
    /// The Node.
    pub view: NodeView,
    /// What its pods do not ask for yet.
    pub free: Amounts,
}

/// What a pod wants of the node that it runs on.
#[derive(Debug, Clone, Default)]
pub struct Wants<'a> {
    /// Its spec.
    pub spec: Option<&'a PodSpec>,
    /// Where its volumes can be reached.
    pub volumes: Vec<&'a NodeSelector>,
    /// What it asks for.
    pub asked: Amounts,
}

/// Why no other node takes the pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Nowhere {
    /// There is no other node that is Ready and not cordoned.
    NoOtherNode,
    /// Those that there are bear taints that it does not tolerate, one of them by name.
    Tainted(String),
    /// None of these has the labels that its nodeSelector or its required node affinity wants.
    NoMatch,
    /// Those that match cannot reach its volumes.
    VolumesElsewhere,
    /// Those that are left have too little of this.
    NoRoom(String),
}

/// Takes the room of a pod on the node that has most of it left, and names that node.
///
/// # Errors
/// [`Nowhere`], with the question that the last of the nodes failed.
pub fn place(machines: &mut [Machine], dead: &str, wants: &Wants<'_>) -> Result<String, Nowhere> {
    let mut left: Vec<usize> = (0..machines.len()).collect();
    let is =
        |index: &usize, asks: &dyn Fn(&Machine) -> bool| machines.get(*index).is_some_and(asks);
    left.retain(|it| is(it, &|machine| is_usable(&machine.view, dead)));
    if left.is_empty() {
        return Err(Nowhere::NoOtherNode);
    }
    let tolerations = wants.spec.and_then(|it| it.tolerations.as_deref());
    let repels = |machine: &Machine| repelled(tolerations.unwrap_or_default(), &machine.view);
    let taint = left.iter().find_map(|it| repels(machines.get(*it)?));
    left.retain(|it| is(it, &|machine| repels(machine).is_none()));
    if left.is_empty() {
        return Err(Nowhere::Tainted(taint.unwrap_or_default()));
    }
    left.retain(|it| {
        is(it, &|machine| {
            wants.spec.is_none_or(|spec| wanted(spec, &machine.view))
        })
    });
    if left.is_empty() {
        return Err(Nowhere::NoMatch);
    }
    let reaches = |machine: &Machine| wants.volumes.iter().all(|it| selects(it, &machine.view));
    left.retain(|it| is(it, &reaches));
    if left.is_empty() {
        return Err(Nowhere::VolumesElsewhere);
    }
    let short = left
        .iter()
        .find_map(|it| lacking(machines.get(*it)?, &wants.asked));
    left.retain(|it| is(it, &|machine| lacking(machine, &wants.asked).is_none()));
    let roomiest = left
        .into_iter()
        .max_by_key(|it| machines.get(*it).map(room));
    let Some(machine) = roomiest.and_then(|it| machines.get_mut(it)) else {
        return Err(Nowhere::NoRoom(short.unwrap_or_default()));
    };
    for (name, amount) in &wants.asked {
        *machine.free.entry(name.clone()).or_default() -= amount;
    }
    Ok(machine.view.name.clone())
}

/// Does the machine take the pod? The questions of [`place`], without words.
pub fn takes(machine: &Machine, dead: &str, wants: &Wants<'_>) -> bool {
    let tolerations = wants.spec.and_then(|it| it.tolerations.as_deref());
    is_usable(&machine.view, dead)
        && short(machine, &wants.asked).is_none()
        && repelled(tolerations.unwrap_or_default(), &machine.view).is_none()
        && wants.spec.is_none_or(|it| wanted(it, &machine.view))
        && wants.volumes.iter().all(|it| selects(it, &machine.view))
}

/// What is left of it, by what runs out first.
pub fn room(machine: &Machine) -> (i128, i128) {
    let left = |name: &str| machine.free.get(name).copied().unwrap_or_default();
    (left("memory"), left("cpu"))
}

/// Would the scheduler give it pods at all once that other node is dead?
fn is_usable(node: &NodeView, dead: &str) -> bool {
    node.name != dead && node.ready() == Ready::True && !node.unschedulable && !node.deleting
}

/// What the node has too little of, and how much of it is asked for; what it does not name it has nothing of.
fn short<'a>(machine: &Machine, asked: &'a Amounts) -> Option<(&'a String, &'a i128)> {
    asked.iter().find(|(name, amount)| {
        let free = machine.free.get(*name).copied().unwrap_or_default();
        **amount > 0 && **amount > free
    })
}

/// The same in words.
fn lacking(machine: &Machine, asked: &Amounts) -> Option<String> {
    short(machine, asked).map(|(name, amount)| {
        let free = machine.free.get(name).copied().unwrap_or_default().max(0);
        format!(
            "{} of {name}, where Node {} has {} left",
            told(name, *amount),
            machine.view.name,
            told(name, free)
        )
    })
}

/// The first taint that keeps the pod away; one of `PreferNoSchedule` does not.
fn repelled(tolerations: &[Toleration], node: &NodeView) -> Option<String> {
    let keeps_away = |taint: &&TaintView| {
        taint.effect != "PreferNoSchedule" && !tolerations.iter().any(|it| tolerates(it, taint))
    };
    let taint = node.taints.iter().find(keeps_away)?;
    Some(format!("{}:{}", taint.key, taint.effect))
}

/// `Toleration.ToleratesTaint` of `k8s.io/api/core/v1/toleration.go`, for whatever effect. Whether a pod stays on a fenced node is another
/// question, of [`fencing_core::quiesce`].
fn tolerates(toleration: &Toleration, taint: &TaintView) -> bool {
    let is_empty_or = |stored: &Option<String>, wanted: &str| {
        stored
            .as_deref()
            .is_none_or(|it| it.is_empty() || it == wanted)
    };
    let value = toleration.value.as_deref().unwrap_or_default();
    let matches = match toleration.operator.as_deref().unwrap_or_default() {
        "Exists" => true,
        "" | "Equal" => value == taint.value.as_deref().unwrap_or_default(),
        _ => false,
    };
    is_empty_or(&toleration.effect, &taint.effect)
        && is_empty_or(&toleration.key, &taint.key)
        && matches
}

/// Do its nodeSelector and its required node affinity want this node?
pub fn wanted(spec: &PodSpec, node: &NodeView) -> bool {
    let mut selector = spec.node_selector.iter().flatten();
    let has_labels = selector.all(|(key, value)| node.labels.get(key) == Some(value));
    let affinity = spec
        .affinity
        .as_ref()
        .and_then(|it| it.node_affinity.as_ref());
    let required = affinity.and_then(|it| {
        it.required_during_scheduling_ignored_during_execution
            .as_ref()
    });
    has_labels && required.is_none_or(|it| selects(it, node))
}

/// Does one of its terms match the node? An empty term matches none.
pub fn selects(selector: &NodeSelector, node: &NodeView) -> bool {
    selector
        .node_selector_terms
        .iter()
        .any(|term| term_matches(term, node))
}

fn term_matches(term: &NodeSelectorTerm, node: &NodeView) -> bool {
    let name = BTreeMap::from([("metadata.name".to_owned(), node.name.clone())]);
    let (labels, fields) = (
        requirements(&term.match_expressions),
        requirements(&term.match_fields),
    );
    let is_empty = labels.is_empty() && fields.is_empty();
    !is_empty
        && labels.iter().all(|it| holds(it, &node.labels))
        && fields.iter().all(|it| holds(it, &name))
}

fn requirements(stored: &Option<Vec<NodeSelectorRequirement>>) -> &[NodeSelectorRequirement] {
    stored.as_deref().unwrap_or_default()
}

fn holds(requirement: &NodeSelectorRequirement, labels: &BTreeMap<String, String>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let value = labels.get(&requirement.key);
    let is_listed = value.is_some_and(|it| values.contains(it));
    let numbers = || {
        let bound = values.first()?.parse::<i64>().ok()?;
        Some((value?.parse::<i64>().ok()?, bound))
    };
    match requirement.operator.as_str() {
        "In" => is_listed,
        "NotIn" => !is_listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => numbers().is_some_and(|(value, bound)| value > bound),
        "Lt" => numbers().is_some_and(|(value, bound)| value < bound),
        _ => false,
    }
}

/// Keys that the selector asks for, to tell what it binds a volume to.
pub fn keys(selector: &NodeSelector) -> BTreeSet<&str> {
    let terms = selector.node_selector_terms.iter();
    let all = terms.flat_map(|it| {
        requirements(&it.match_expressions)
            .iter()
            .chain(requirements(&it.match_fields))
    });
    all.map(|it| it.key.as_str()).collect()
}

/// What may keep the pod from a node that this module says would take it, in words.
pub fn overlooked(spec: &PodSpec) -> Option<String> {
    let affinity = spec.affinity.as_ref();
    let apart = affinity.and_then(|it| it.pod_anti_affinity.as_ref());
    let apart = apart.and_then(|it| {
        it.required_during_scheduling_ignored_during_execution
            .as_ref()
    });
    let together = affinity.and_then(|it| it.pod_affinity.as_ref());
    let together = together.and_then(|it| {
        it.required_during_scheduling_ignored_during_execution
            .as_ref()
    });
    let mut spread = spec.topology_spread_constraints.iter().flatten();
    let mut ports = spec
        .containers
        .iter()
        .flat_map(|it| it.ports.iter().flatten());
    let found = [
        (apart.is_some_and(|it| !it.is_empty()), "podAntiAffinity"),
        (together.is_some_and(|it| !it.is_empty()), "podAffinity"),
        (
            spread.any(|it| it.when_unsatisfiable == "DoNotSchedule"),
            "topologySpreadConstraints",
        ),
        (
            spec.host_network == Some(true) || ports.any(|it| it.host_port.is_some()),
            "host ports",
        ),
        (
            spec.resource_claims
                .as_ref()
                .is_some_and(|it| !it.is_empty()),
            "resourceClaims",
        ),
    ];
    let found: Vec<&str> = found
        .into_iter()
        .filter_map(|(is, what)| is.then_some(what))
        .collect();
    (!found.is_empty()).then(|| {
        format!(
            "its {} may exclude nodes, and were not checked",
            found.join(", ")
        )
    })
}

#[cfg(test)]
mod tests;
