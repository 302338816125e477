//! Another NodeFence sees to the Node, or has: a human may have asked for a fence while the policy's was held, and the other way round.

use crate::decision::{Decision, held};
use crate::hold::{HeldBy, Hold};
use crate::memory::Memory;
use crate::observed::NodeView;
use crate::settings::Settings;
use crate::taint::claim_fence;

/// Does the incident end when another NodeFence has cleared the node? A human who asks for a fence after that wants another one, and who has asked
/// before that one was done does not. What sees to a taint has something to do.
pub fn may_be_superseded(s: &Settings, m: &Memory) -> bool {
    !s.adopted && (!s.human || m.superseded)
}

/// A machine that was proven down and is free is in somebody's hands, who may have turned it on by now: a second off would hit them (S11).
pub fn cleared(node: &NodeView, other: &str) -> Hold {
    Hold {
        reason: HeldBy::OtherNodeFence,
        message: format!(
            "NodeFence {other} confirmed the machine of Node {} off in this boot, and nothing is left to do; create a NodeFence by hand to fence it anyway",
            node.name
        ),
    }
}

/// Its machine may be on in a moment, and its node back.
pub fn turning_on(node: &NodeView, other: &str) -> Hold {
    Hold {
        reason: HeldBy::OtherNodeFence,
        message: format!(
            "NodeFence {other} confirmed the machine of Node {} off and may turn it on (`powerOn.policy`); wait until it ends, or release it (`spec.desiredState: Released`)",
            node.name
        ),
    }
}

/// It goes first.
pub(super) fn held_by_other_fence(m: &mut Memory, node: &NodeView) -> Decision {
    m.superseded = true;
    let name = &node.name;
    let holder = match node.claim() {
        Some(claim) => {
            let other = claim_fence(claim).unwrap_or(claim);
            format!("NodeFence {other} holds Node {name} by claim {claim}")
        }
        None => format!("a claim of another NodeFence is on Node {name}"),
    };
    let message = format!(
        "{holder}; wait until that NodeFence ends, or cancel it (`spec.desiredState: Released`)"
    );
    held(HeldBy::OtherNodeFence, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{claimed, settings};

    /// S11: by then its own claim was never there.
    #[test]
    fn what_waited_for_the_claim_of_another_remembers_it() {
        let mut m = Memory::default();
        held_by_other_fence(&mut m, &claimed("other-n1"));
        assert!(m.superseded);
    }

    #[test]
    fn what_was_asked_for_afterwards_is_done_and_so_is_what_sees_to_a_taint() {
        for (adopted, human, was_held_by_it, is_superseded) in [
            (false, false, false, true),
            (false, false, true, true),
            (false, true, false, false),
            (false, true, true, true),
            (true, false, false, false),
            (true, false, true, false),
            (true, true, false, false),
            (true, true, true, false),
        ] {
            let s = Settings {
                adopted,
                human,
                ..settings()
            };
            let m = Memory {
                superseded: was_held_by_it,
                ..Memory::default()
            };
            let row = (adopted, human, was_held_by_it);
            assert_eq!(may_be_superseded(&s, &m), is_superseded, "{row:?}");
        }
    }
}
