//! Which device and which machine a finding is about.

use crate::shell::marks::mark;
use fencing_api::device::FenceDevice;
use fencing_cluster::slim::SlimNode;

/// Changes with everything that makes a finding worthless: the device's settings, the Node, its machine.
pub(super) fn epoch(device: &FenceDevice, node_uid: &str, system_uuid: &str) -> u64 {
    mark((
        &device.metadata.uid,
        device.metadata.generation,
        node_uid,
        system_uuid,
    ))
}

/// The same of a Node in the cache.
pub(super) fn epoch_of(device: &FenceDevice, node: &SlimNode) -> u64 {
    let uid = node.metadata.uid.as_deref().unwrap_or_default();
    epoch(device, uid, &node.status.node_info.system_uuid)
}
