//! How often a device is probed.

use fencing_api::device::FenceDevice;
use fencing_api::policy::NodeFencingPolicy;
use fencing_core::early::{self, wants_reports};
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
    let wants = policies.iter().any(wants_reports)
        && governing(policies, node).is_ok_and(|policy| policy.is_some_and(wants_reports));
    match wants {
        true => period.min(early::PROBE_PERIOD),
        false => period,
    }
}
