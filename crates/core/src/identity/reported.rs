//! What the Nodes report of themselves: a UUID that two of them report tells neither machine.

use super::wire::{OTHERS_NAMED_MAX, Wire, pinned};
use crate::observed::NodeView;
use crate::reading::{orderless, same_system, usable_uuid};
use fencing_api::device::{FenceDevice, IdentityCheck, Reads};
use std::collections::{BTreeMap, BTreeSet};

/// Names of the Nodes that report a system UUID.
pub type Reports<'a> = BTreeMap<[u8; 16], BTreeSet<&'a str>>;

/// Which Nodes report which system UUID, whether a device serves them or not.
pub fn reports<'a>(nodes: impl IntoIterator<Item = &'a NodeView>) -> Reports<'a> {
    let mut reports = Reports::new();
    for node in nodes {
        if let Some(uuid) = usable_uuid(&node.system_uuid) {
            let names = reports.entry(orderless(uuid)).or_default();
            names.insert(&node.name);
        }
    }
    reports
}

/// The system UUID that a Node reports, where it is compared with what the device names, and is not the one that was pinned.
pub fn unpinned(device: &FenceDevice, node: &NodeView) -> Option<String> {
    if device.spec.identity_check == IdentityCheck::Skip || device.spec.reads() == Reads::Unnamed {
        return None;
    }
    let own = &node.system_uuid;
    let is_pinned = pinned(device, node).is_some_and(|pin| same_system(&pin.uuid, own));
    (!is_pinned).then(|| own.clone())
}

/// Why the UUID of this Node, which is not pinned yet, tells nobody its machine.
pub(super) fn twice(wire: &Wire, reports: &Reports<'_>) -> Option<String> {
    let uuid = wire.unpinned.as_deref()?;
    let all = reports.get(&orderless(usable_uuid(uuid)?))?;
    let others = all.iter().copied().filter(|name| *name != wire.node);
    let others: Vec<&str> = others.take(OTHERS_NAMED_MAX).collect();
    (!others.is_empty()).then(|| {
        format!(
            "system UUID {uuid} is reported by Node {} too; give each machine a UUID of its own in its firmware",
            others.join(", ")
        )
    })
}
