//! How often a device is probed.

use fencing_api::device::FenceDevice;
use fencing_api::policy::{EarlyDetection, NodeFencingPolicy};
use fencing_core::early;
use fencing_core::observed::NodeView;
use fencing_core::select::governing;
use std::time::Duration;

/// How often the device is probed for this node.
pub(super) fn period(
    device: &FenceDevice,
    node: &NodeView,
    policies: &[NodeFencingPolicy],
) -> Duration {
    let period = Duration::from_secs(device.spec.probe.period_seconds.into());
    let is_early = |it: &NodeFencingPolicy| it.spec.early_detection == EarlyDetection::Enabled;
    let wants = policies.iter().any(is_early)
        && governing(policies, node).is_ok_and(|policy| policy.is_some_and(is_early));
    match wants {
        true => period.min(early::PROBE_PERIOD),
        false => period,
    }
}
