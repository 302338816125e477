//! Is the off command still wanted when it is about to leave? It may have waited for its device's turn or a login for the whole time of its
//! level, and somebody has said no meanwhile.

use crate::shell::context::Context;
use crate::shell::resolve;
use fencing_api::fence::NodeFence;
use fencing_api::fence_status::AttemptAction;
use fencing_core::attempt::Attempt;
use fencing_core::observed::{NodeView, Read};
use fencing_drivers::clock;

/// S11, S15, S21: the intent stands in the record, and is open, and neither a human nor the policy has taken the fence back.
pub(super) fn still_wanted(
    context: &Context,
    fence: Read<NodeFence>,
    node: &NodeView,
    attempt: &Attempt,
) -> Result<(), String> {
    let fence = there(fence, "the NodeFence")?;
    if fence.is_ended() {
        return Err("the NodeFence has ended".to_owned());
    }
    if !is_written(&fence, &attempt.id, AttemptAction::PowerOff) {
        return Err(format!(
            "off command {} is no longer in the NodeFence",
            attempt.id
        ));
    }
    let policies = context.caches.policies();
    let policy = resolve::policy_of(&fence, &policies);
    resolve::no_off(&fence, node, policy, clock::wall()).map_or(Ok(()), Err)
}

/// What a command rests on has to be there, and read.
pub(super) fn there<T>(seen: Read<T>, what: &str) -> Result<T, String> {
    match seen {
        Read::Present(it) => Ok(it),
        Read::Failed(reason) => Err(format!(
            "{what} cannot be read before the command: {reason}"
        )),
        Read::Absent | Read::NotRead => Err(format!("{what} is gone")),
    }
}

/// Is the intent in the record, and still open?
pub(super) fn is_written(fence: &NodeFence, id: &str, action: AttemptAction) -> bool {
    let attempts = fence.status.iter().flat_map(|status| &status.attempts);
    let mut mine = attempts.filter(|it| it.id.as_deref() == Some(id));
    mine.any(|it| it.action == action && it.completion_time.is_none())
}
