//! When does a storage let a node in again that was fenced from its volumes?
//!
//! Never while mounts of the fenced boot may write: the volumes may be in use elsewhere. So only another boot of the same Node ends it, or the end of
//! an incident that has moved nothing. Both stay true once they are, so acting on them late does no harm.

use super::observed::{NodeView, Read, Ready};
use super::taint::claim_fence;
use fencing_api::fence::NodeFence;

/// What a storage was fenced for: this fence of this Node, in this boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Purpose {
    /// Name of the Node.
    pub node: String,
    /// Its UID.
    pub node_uid: String,
    /// The boot that is kept from its volumes.
    pub boot_id: String,
    /// Name of the NodeFence.
    pub fence: String,
}

impl Purpose {
    /// That of the claim on the Node; none: it is not being fenced.
    #[must_use]
    pub fn of(node: &NodeView) -> Option<Self> {
        let fence = claim_fence(node.claim()?)?.to_owned();
        (!node.boot_id.is_empty()).then(|| Self {
            node: node.name.clone(),
            node_uid: node.uid.clone(),
            boot_id: node.boot_id.clone(),
            fence,
        })
    }
}

/// Why the storage does not let the node in yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stays {
    /// The fence goes on, or nothing could be read.
    ForNow,
    /// Only a human can tell, in words.
    ForPeople(String),
}

/// Is the fence over? The Node and the NodeFence are read by quorum.
///
/// # Errors
/// Why it stays.
pub fn is_over(
    purpose: &Purpose,
    node: &Read<NodeView>,
    fence: &Read<NodeFence>,
) -> Result<(), Stays> {
    let for_people = |fact: &str| Err(Stays::ForPeople(format!("Node {} {fact}", purpose.node)));
    let node = match node {
        Read::Present(node) => node,
        Read::Absent => {
            return for_people(
                "is gone; set `fenceState: Unfenced` by hand once its machine is off or has rebooted",
            );
        }
        Read::Failed(_) | Read::NotRead => return Err(Stays::ForNow),
    };
    if node.uid != purpose.node_uid {
        return for_people(
            "has another UID; set `fenceState: Unfenced` by hand once the fenced machine is off or has rebooted",
        );
    }
    if node.boot_id.is_empty() {
        return Err(Stays::ForNow);
    }
    if node.boot_id != purpose.boot_id {
        return Ok(());
    }
    let fence = match fence {
        Read::Present(fence) => fence,
        Read::Absent => {
            return for_people("was fenced by a NodeFence that is gone; reboot the node");
        }
        Read::Failed(_) | Read::NotRead => return Err(Stays::ForNow),
    };
    let is_claimed = node.claim().and_then(claim_fence) == Some(purpose.fence.as_str());
    if !fence.is_ended() || is_claimed {
        return Err(Stays::ForNow);
    }
    match has_moved(fence) || node.marked_by().is_some() {
        false => Ok(()),
        true if node.ready() == Ready::True => for_people(
            "is Ready in the boot that was fenced, and its volumes may be in use elsewhere; reboot the node",
        ),
        true => Err(Stays::ForNow),
    }
}

/// May anything have been taken from the node? The evidence is stored before the first deletion and the taint (S17).
fn has_moved(fence: &NodeFence) -> bool {
    let status = fence.status.as_ref();
    status.is_none_or(|it| it.evidence.is_some() || it.taint_applied_time.is_some())
}

#[cfg(test)]
mod tests;
