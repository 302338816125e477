//! Which device serves which node, and the system that was pinned for it.

use crate::observed::NodeView;
use fencing_api::device::{FenceDevice, PinnedSystem};

/// Most other nodes that are named in one message.
pub(super) const OTHERS_NAMED_MAX: usize = 5;

/// The system that was pinned for exactly this Node, name and uid.
pub fn pinned<'a>(device: &'a FenceDevice, node: &NodeView) -> Option<&'a PinnedSystem> {
    let systems = device.status.as_ref().map(|status| &status.systems)?;
    systems
        .iter()
        .find(|system| system.node_name == node.name && system.node_uid == node.uid)
}

/// A device that serves a node, as far as it can be told from the objects alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wire {
    /// FenceDevice name.
    pub device: String,
    /// Node name.
    pub node: String,
    /// Does such a Node exist? The machine of one that was deleted may still run.
    pub node_exists: bool,
    /// Host, port and system that the settings name, or each outlet; none when they cannot be read.
    pub targets: Vec<String>,
    /// System UUID pinned for exactly this Node.
    pub uuid: Option<String>,
    /// System UUID that the Node reports, where something is compared and this one is not pinned yet.
    pub unpinned: Option<String>,
}
