//! How far an incident has come, which says what may still end it.

use fencing_api::fence::NodeFence;
use fencing_api::fence_status::NodeFenceStatus;
use fencing_core::observed::NodeView;
use fencing_core::taint;
use fencing_core::window::Begun;

/// How far the incident has come, as far as its windows are concerned.
pub(super) fn begun(fence: &NodeFence, status: &NodeFenceStatus, node: &NodeView) -> Begun {
    let owner = node.claim().and_then(taint::claim_fence);
    if owner.is_none() || owner != fence.metadata.name.as_deref() {
        return Begun::Nothing;
    }
    match status.is_commanded() {
        true => Begun::Commanded,
        false => Begun::Claimed,
    }
}
