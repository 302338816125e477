//! How each node stands, and why: what a cell of the fleet grid says.
//!
//! Whether a node could be fenced is told by the operator's own [`Devices::protection`], over what the user may read. What they may not read makes a node
//! `Unknown`, in words, and never protected.

use crate::control::{fact, lacking, unready};
use crate::fences;
use crate::watched::Seen;
use fencing_api::device::FenceDevice;
use fencing_api::fence::NodeFence;
use fencing_api::policy::{FenceMode, NodeFencingPolicy};
use fencing_core::observed::{NodeView, Ready};
use fencing_core::protection::Obstacle;
use fencing_core::protection::levels::{Devices, Judge};
use fencing_core::select::governing;
use fencing_core::stranded::{Stranded, stranded};
use fencing_core::window;
use fencing_drivers::targets;
use jiff::Timestamp;
use kube::ResourceExt;
use std::collections::{BTreeMap, BTreeSet};

/// Everything that the dashboard looks at.
pub(super) struct World {
    /// All Nodes.
    pub nodes: Seen<NodeView>,
    /// All policies.
    pub policies: Seen<NodeFencingPolicy>,
    /// All devices.
    pub devices: Seen<FenceDevice>,
    /// All NodeFences.
    pub fences: Seen<NodeFence>,
}

/// How a node stands, in the order in which they are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum State {
    /// Nothing goes on by itself, and people have to act.
    Stranded,
    /// An incident that may act on it is open.
    Fenced,
    /// It would not be fenced, or not for certain.
    AtRisk,
    /// It cannot be told with these rights.
    Unknown,
    /// A policy selects it that acts, and a level of it has what it needs.
    Protected,
    /// No policy selects it.
    NotSelected,
}

impl State {
    pub const ALL: [Self; 6] = [
        Self::Stranded,
        Self::Fenced,
        Self::AtRisk,
        Self::Unknown,
        Self::Protected,
        Self::NotSelected,
    ];

    /// What people read.
    pub fn words(self) -> &'static str {
        match self {
            Self::Stranded => "Action required",
            Self::Fenced => "Being fenced",
            Self::AtRisk => "At risk",
            Self::Unknown => "Not known",
            Self::Protected => "Protected",
            Self::NotSelected => "Not selected",
        }
    }

    /// Its list in the page, and its class.
    pub fn id(self) -> &'static str {
        match self {
            Self::Stranded => "stranded",
            Self::Fenced => "fenced",
            Self::AtRisk => "risk",
            Self::Unknown => "unknown",
            Self::Protected => "protected",
            Self::NotSelected => "unselected",
        }
    }
}

/// A node of the grid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cell {
    /// The node.
    pub name: String,
    /// How it stands.
    pub state: State,
    /// Why.
    pub why: String,
}

/// Every node that is known of, by name.
pub(super) fn cells(world: &World, now: Timestamp) -> Vec<Cell> {
    let open = open(world);
    let mut cells = match &world.nodes {
        Ok(nodes) => of_nodes(world, nodes, &open, now),
        Err(_) => of_names(world),
    };
    for cell in &mut cells {
        if let Some(fence) = open.get(cell.name.as_str()) {
            cell.state = State::Fenced;
            cell.why = format!("{}: {}", fences::stage(fence), fences::message(fence));
        }
    }
    if let (Ok(nodes), Ok(fences)) = (&world.nodes, &world.fences) {
        let found = nodes
            .iter()
            .filter_map(|it| Some((&it.name, stranded(it, fences)?)));
        let found: BTreeMap<&String, Stranded> = found.collect();
        for cell in &mut cells {
            if let Some(reason) = found.get(&cell.name) {
                cell.state = State::Stranded;
                cell.why = format!("{}: {}", reason.as_str(), reason.message());
            }
        }
    }
    cells.sort_by(|a, b| a.name.cmp(&b.name));
    cells
}

/// The open incident of each node, of those that may act on it.
fn open(world: &World) -> BTreeMap<&str, &NodeFence> {
    let fences = world.fences.iter().flatten();
    let acting =
        fences.filter(|it| !it.is_ended() && it.spec.procedure.fence.mode != FenceMode::Observe);
    acting.map(|it| (&*it.spec.node_name, it)).collect()
}

/// Nodes that may not be read are known by what is about them.
fn of_names(world: &World) -> Vec<Cell> {
    let devices = world.devices.iter().flatten();
    let named = devices.filter_map(|it| it.spec.node_name.clone());
    let fences = world.fences.iter().flatten().filter(|it| !it.is_ended());
    let names: BTreeSet<String> = named
        .chain(fences.map(|it| it.spec.node_name.clone()))
        .collect();
    let cell = |name| Cell {
        name,
        state: State::Unknown,
        why: "Nodes cannot be read, so which policy selects it is not known".to_owned(),
    };
    names.into_iter().map(cell).collect()
}

fn of_nodes(
    world: &World,
    nodes: &[NodeView],
    open: &BTreeMap<&str, &NodeFence>,
    now: Timestamp,
) -> Vec<Cell> {
    let unknown = |kind: &str| {
        let cell = |node: &NodeView| Cell {
            name: node.name.clone(),
            state: State::Unknown,
            why: format!("{kind} cannot be read"),
        };
        nodes.iter().map(cell).collect()
    };
    let Ok(policies) = &world.policies else {
        return unknown("NodeFencingPolicies");
    };
    let Ok(devices) = &world.devices else {
        return unknown("FenceDevices");
    };
    let index = Devices::of(devices);
    let cell = |node: &NodeView| {
        if open.contains_key(node.name.as_str()) {
            // Whatever else there is to say of it, it is being fenced.
            return Cell {
                name: node.name.clone(),
                state: State::Fenced,
                why: String::new(),
            };
        }
        let (state, why) = standing(policies, node, &index, now);
        let why = match state {
            State::Protected | State::AtRisk => why + &unproving(node, &index.serving(node)),
            _ => why,
        };
        let why = match node.ready() {
            Ready::True => why,
            _ => format!("NotReady; {why}"),
        };
        let name = node.name.clone();
        Cell { name, state, why }
    };
    nodes.iter().map(cell).collect()
}

fn standing(
    policies: &[NodeFencingPolicy],
    node: &NodeView,
    index: &Devices<'_>,
    now: Timestamp,
) -> (State, String) {
    let policy = match governing(policies, node) {
        Ok(Some(policy)) => policy,
        Ok(None) => return (State::NotSelected, "no policy selects it".to_owned()),
        Err(conflict) => return (State::AtRisk, conflict.to_string()),
    };
    let name = policy.name_any();
    let mode = window::mode(policy, now);
    if mode == FenceMode::Observe {
        return (
            State::AtRisk,
            Obstacle::Observes.message(node, Some(policy)),
        );
    }
    let protection = index.protection(policy, node, mode, Judge::by_status(&targets));
    let serving = protection.devices;
    if protection.is_protected {
        let devices: Vec<String> = serving.iter().map(|it| it.name_any()).collect();
        let why = format!("policy {name}, by {}", devices.join(", "));
        return (State::Protected, why);
    }
    if serving.is_empty() {
        let why = format!("policy {name} selects it, but no FenceDevice is for it");
        return (State::AtRisk, why);
    }
    let unready = serving.iter().find_map(|it| unready(it));
    let why = unready.unwrap_or_else(|| Obstacle::NoReadyDevice.message(node, Some(policy)));
    (State::AtRisk, why)
}

/// Those whose Off would prove nothing of this node (S25).
fn unproving(node: &NodeView, serving: &[&FenceDevice]) -> String {
    let lacks = serving.iter().filter_map(|it| {
        let control = lacking(it, node)?;
        Some(format!(
            "; FenceDevice {} {}, so its Off proves nothing",
            it.name_any(),
            fact(control)
        ))
    });
    lacks.collect()
}

#[cfg(test)]
mod tests;
