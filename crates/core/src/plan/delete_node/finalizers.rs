//! `recovery.strategy: DeleteNode`, and a Node whose object does not go when it is deleted, or is on its way out already.
//!
//! A finalizer keeps a deleted Node until whoever has set it takes it away, and a deletion cannot be taken back. Accepted by the API server and
//! not seen through, ours would hang over the machine: it comes back, runs pods, and loses its Node weeks later. So a Node with a finalizer is
//! not deleted at all, and one that somebody has deleted is no lock: nothing is begun on it, no volume is taken under it, and it is waited for.

use super::super::pace::WATCH_PERIOD;
use crate::decision::{Decision, held, wait};
use crate::hold::HeldBy;
use crate::observed::NodeView;
use crate::plan::round::{Moment, Round};
use crate::quiesce::shorten;
use crate::release::booted_anew;
use crate::settings::Settings;
use crate::stage::Stage;

/// A claim would be gone with the Node, at any moment.
pub(crate) fn node_is_deleted(r: &mut Round<'_>, node: &NodeView) -> Option<Decision> {
    if !r.settings.deletes_node() || !node.deleting {
        return None;
    }
    let message = format!(
        "Node {} is being deleted{}, and a claim would be lost with it (`recovery.strategy: DeleteNode`); {}, or cancel this NodeFence (`spec.desiredState: Released`)",
        node.name,
        by_whom(node),
        way_out(node)
    );
    r.memory.writes.forget_denial();
    Some(held(HeldBy::NodeDeleted, message).until(r.moment.now + WATCH_PERIOD))
}

/// Why no volume is taken from the machine, as the rest of a sentence that says what is waited for.
pub(crate) fn is_no_lock(node: &NodeView) -> Option<String> {
    node.deleting.then(|| {
        format!(
            "Node {} is being deleted{}, so the operator detaches nothing; wait for Kubernetes' own detach (6 minutes, unless `--disable-force-detach-on-timeout` is set)",
            node.name,
            by_whom(node)
        )
    })
}

/// Everything is off the machine, and its Node is neither deleted nor let go. `None`: nothing of that kind is in the way.
pub(crate) fn waited_for(s: &Settings, node: &NodeView, t: &Moment) -> Option<Decision> {
    let going = || {
        (s.deletes_node() && node.deleting).then(|| {
            format!(
                "all volumes detached; Node {} is being deleted{}, waiting until it is gone",
                node.name,
                by_whom(node)
            )
        })
    };
    let message = stuck(s, node).or_else(going)?;
    Some(wait(Stage::AwaitingRelease, message).until(t.now + WATCH_PERIOD))
}

/// What only people can end once everything is off the machine. Nobody takes a finalizer away before the Node is deleted, and by then a deletion of ours
/// could not be taken back. And a machine that is back on a Node that is going must not be given pods: pod GC would delete them by force.
pub(crate) fn stuck(s: &Settings, node: &NodeView) -> Option<String> {
    if !s.deletes_node() {
        return None;
    }
    let name = &node.name;
    match (node.deleting, booted_anew(node, s.boot_id.as_deref())) {
        (true, true) => Some(format!(
            "all volumes detached and Node {name} rebooted, but it is being deleted{}; {}, then restart its kubelet to register a new Node",
            by_whom(node),
            way_out(node)
        )),
        // Whoever wants to keep it keeps it.
        (false, false) if s.released || node.out_of_service() => None,
        (false, false) if !node.finalizers.is_empty() => Some(format!(
            "all volumes detached, but Node {name} has finalizers ({}) and is not deleted; have them removed, delete the Node, or keep it (`spec.desiredState: Released`)",
            shorten(&node.finalizers)
        )),
        _ => None,
    }
}

/// What keeps it from being gone.
fn by_whom(node: &NodeView) -> String {
    match node.finalizers.is_empty() {
        true => String::new(),
        false => format!(
            " and held by its finalizers ({})",
            shorten(&node.finalizers)
        ),
    }
}

/// What ends it, for people.
pub(crate) fn way_out(node: &NodeView) -> &'static str {
    match node.finalizers.is_empty() {
        true => "see why it still exists",
        false => "see why the owner of its finalizers does not remove them, or remove them",
    }
}
