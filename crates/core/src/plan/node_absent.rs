//! The Node that the incident is about is not there, or another one has its name.

use super::round::Round;
use super::{power_on, tainted};
use crate::decision::{Decision, close};
use crate::escalation::Escalation;
use crate::observed::NodeView;
use crate::proof_source::reported_off;
use crate::stage::Stage;

/// There is no Node of that name. Where it was out of service its pods and volumes are seen off; after the release nothing is left of it.
pub(super) fn absent(r: &mut Round<'_>) -> Decision {
    let may_hold_volumes = r.memory.taint.seen || r.settings.record.evidence;
    if may_hold_volumes && !power_on::is_begun(r) {
        return tainted::node_gone(r);
    }
    power_on::gone(r, format!("Node {} was deleted", r.settings.node))
}

/// A Node of another UID has the name: nothing of this incident is about it (S10).
pub(super) fn created_anew(r: &mut Round<'_>, node: &NodeView) -> Decision {
    let anew = format!(
        "Node {} was deleted and created again (UID {})",
        r.settings.node, node.uid
    );
    match power_on::is_begun(r) {
        true => power_on::gone(r, anew),
        false => is_back(r, node, anew),
    }
}

/// If the operator has deleted the one that it has fenced, the machine has come back; by then nothing of it was attached.
fn is_back(r: &mut Round<'_>, node: &NodeView, anew: String) -> Decision {
    let was_tainted = r.memory.taint.seen || r.settings.record.tainted;
    let was_proven = was_tainted || r.memory.proven.by.is_some();
    if was_proven && r.settings.boot_id.as_deref() == Some(node.boot_id.as_str()) {
        r.memory.proven.refuted = true;
        let (said, way_out) = reported_off(r.memory.proven.by.as_ref());
        let data = match was_tainted || r.settings.only_proves() {
            true => ", check the volumes' data, then reboot the node",
            false => "",
        };
        let message = format!(
            "{anew}; it is in boot {}, although {said}: its machine never went down; {way_out}{data}",
            node.boot_id
        );
        return close(Stage::Aborted, message.clone())
            .escalated(Escalation::FenceContradiction, message);
    }
    let is_marked = r.settings.deletes_node() && was_tainted;
    // Whoever deletes the Node writes down before that everything has detached. Where somebody else has deleted it, more may have come since.
    let was_free =
        (r.memory.taint.releasing || r.settings.record.detached) && !r.memory.taint.attached_again;
    if is_marked && was_free {
        let message = format!(
            "Node {} was deleted after power-off was confirmed and its volumes detached; the machine is back with UID {}",
            r.settings.node, node.uid
        );
        return close(Stage::Recovered, message);
    }
    let message = match is_marked {
        true => format!("{anew}; remaining volumes are detached by Kubernetes"),
        false => anew,
    };
    close(Stage::Aborted, message)
}
