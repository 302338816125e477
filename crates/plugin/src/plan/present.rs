//! How does the node stand at this moment? Of one that is down already, or has an incident, a prediction is of another power loss, and whoever
//! asks wants to know first what becomes of this one.

use crate::fences;
use crate::unfenced::{Reason, World, of_view};
use fencing_api::fence::{DesiredState, NodeFence};
use fencing_api::policy::FenceMode;
use fencing_core::hold::HeldBy;
use fencing_core::observed::NodeView;
use jiff::Timestamp;
use kube::ResourceExt;
use schemars::JsonSchema;
use serde::Serialize;

/// Its incident is open, and goes on, now or by itself in its turn.
const OPEN: &str = "Open";
/// Its incident is open, and waits for somebody.
const STUCK: &str = "Stuck";
/// Its incident is open, and only observes.
const OBSERVED: &str = "Observed";

/// How the node stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Present {
    /// `Open`: its incident goes on, now or by itself in its turn. `Stuck`: that waits for somebody. `Observed`: that only observes. Another one is a
    /// reason of `kubectl fence status`, such as `Waiting`, `Cleared` or `Denied`.
    pub reason: String,
    /// What becomes of it, or why nothing does, and the way out.
    pub message: String,
}

impl Present {
    /// Is something done about it, or still to come by itself?
    pub fn goes_on(&self) -> bool {
        [OPEN, Reason::Waiting.as_str()].contains(&self.reason.as_str())
    }
}

/// The open incident of this node, what acts before what only observes.
pub fn own<'a>(fences: &'a [NodeFence], node: &str) -> Option<&'a NodeFence> {
    fences::open_of_node(fences, node)
}

/// Is all that holds it over by itself?
fn waits_its_turn(fence: &NodeFence) -> bool {
    let hold = fences::held(fence).and_then(HeldBy::named);
    hold.is_some_and(HeldBy::lifts_by_itself) && !fences::is_asked_first(fence)
}

/// None: it is Ready, or never was, and has no incident.
pub fn present(node: &NodeView, created: Option<Timestamp>, world: &World<'_>) -> Option<Present> {
    let name = &node.name;
    let unfenced = of_view(node, created, world);
    // Of one that only observes beside a policy that does not, the policy tells.
    let own = own(world.fences, name).filter(|it| it.may_act() || unfenced.is_none());
    if let Some(fence) = own {
        let (reason, goes_on) = match fence.spec.procedure.fence.mode {
            FenceMode::Observe => (OBSERVED, "it only observes"),
            _ if fence.spec.desired_state == DesiredState::Released => {
                (STUCK, "it was released by a user")
            }
            _ if fences::escalated(fence).is_some() => (STUCK, "it requires action"),
            _ if waits_its_turn(fence) => (OPEN, "it is held, and resumes by itself"),
            _ if fences::is_awaited(fence) => (STUCK, "it waits for an approval"),
            _ if fences::held(fence).is_some() => (STUCK, "it is held"),
            FenceMode::ConfirmOnly | FenceMode::PowerOff => (OPEN, "it goes on"),
        };
        return Some(Present {
            reason: reason.to_owned(),
            message: format!(
                "NodeFence {} of this node is open ({}): {goes_on}; kubectl fence status {name} --watch",
                fence.name_any(),
                fences::stage(fence)
            ),
        });
    }
    unfenced.map(|it| Present {
        message: format!("Node {name}: {}", it.words(world.now)),
        reason: it.reason,
    })
}
