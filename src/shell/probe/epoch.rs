//! Which device and which machine a finding is about.

use crate::shell::marks::mark;
use fencing_api::device::FenceDevice;
use fencing_core::observed::NodeView;

/// Changes with everything that makes a finding worthless: the device's settings, the Node, its machine.
pub(super) fn epoch(device: &FenceDevice, node_uid: &str, system_uuid: &str) -> u64 {
    mark((
        &device.metadata.uid,
        device.metadata.generation,
        node_uid,
        system_uuid,
    ))
}

/// The same of a Node.
pub(super) fn epoch_of(device: &FenceDevice, node: &NodeView) -> u64 {
    epoch(device, &node.uid, &node.system_uuid)
}
