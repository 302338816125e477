//! The Node that the incident is about is not there, or another one has its name.

use super::super::incident::{Decision, Settings};
use super::super::memory::Memory;
use super::super::observed::{NodeView, Observed};
use super::{Moment, detaching, power_on, tainted};

/// There is no Node of that name. Where it was out of service its pods and volumes are seen off; after the release nothing is left of it.
pub(super) fn absent(s: &Settings, m: &mut Memory, o: &Observed, t: &Moment) -> Decision {
    let may_hold_volumes = m.tainted || s.record.evidence;
    if may_hold_volumes && !power_on::is_begun(s, m) {
        return tainted::node_gone(s, m, o, t);
    }
    power_on::gone(s, m, format!("Node {} was deleted", s.node))
}

/// A Node of another UID has the name: nothing of this incident is about it (S10).
pub(super) fn created_anew(s: &Settings, m: &mut Memory, node: &NodeView) -> Decision {
    let anew = format!(
        "Node {} was deleted and created anew: its UID is {}",
        s.node, node.uid
    );
    match power_on::is_begun(s, m) {
        true => power_on::gone(s, m, anew),
        false => detaching::created_anew(s, m, node, anew),
    }
}
