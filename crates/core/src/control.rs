//! Has a device shown that it can read On of this node's machine? Only then does its Off count towards a proof (S25).
//!
//! An Off says nothing where the device would read Off of a running machine as well: an unused outlet, the stopped twin of a VM that was migrated, a
//! BMC that has lost its power sensor. So it takes a positive control: the same device read On while the Node was Ready in the boot that is
//! fenced, and has not read Off of the running machine since. It is learned by the probes and kept in the status of the FenceDevice, like
//! the identity ([`super::identity`]). What the device reads once the node is silent changes nothing: a machine that is down reads Off.

pub use super::escalation::{NO_POSITIVE_CONTROL, OFF_WHILE_RUNNING};

use super::escalation::Escalation;
use super::identity;
use super::not_proven::NotProven;
use super::observed::{NodeView, Ready};
use super::reading::{PowerState, Reading};
use fencing_api::device::{FenceDevice, PositiveControl, Reads};
use jiff::{SignedDuration, Timestamp};

/// From a node's silence to the decision: Kubernetes reports it after 50 s, and by default a policy waits for 60 s more.
const DETECTION: SignedDuration = SignedDuration::from_secs(120);

/// What a device read last of the running machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Control {
    /// On: its Off counts. Or a human answers for it.
    Shown,
    /// The same, and a probe has read that the machine has power at most a probe period and [`DETECTION`] ago.
    ShownLately,
    /// Nothing, in this boot and by these settings of the FenceDevice.
    Missing,
    /// Off, while the kubelet renewed its Lease.
    OffWhileRunning,
}

impl Control {
    /// The reason where it does not.
    pub fn reason(self) -> &'static str {
        match self {
            Self::OffWhileRunning => OFF_WHILE_RUNNING,
            Self::Shown | Self::ShownLately | Self::Missing => NO_POSITIVE_CONTROL,
        }
    }

    /// Does an Off of the device count?
    pub fn is_shown(self) -> bool {
        matches!(self, Self::Shown | Self::ShownLately)
    }

    /// As a call for a human.
    pub fn escalation(self) -> Escalation {
        match self {
            Self::OffWhileRunning => Escalation::OffWhileRunning,
            Self::Shown | Self::ShownLately | Self::Missing => Escalation::NoPositiveControl,
        }
    }

    /// Why an Off of this device proves nothing.
    pub fn missing(self, device: &str) -> NotProven {
        let device = device.to_owned();
        match self {
            Self::OffWhileRunning => NotProven::OffWhileRunning { device },
            Self::Shown | Self::ShownLately | Self::Missing => {
                NotProven::NoPositiveControl { device }
            }
        }
    }
}

/// What the status of the device says of this Node, name and uid.
pub fn kept<'a>(device: &'a FenceDevice, node: &NodeView) -> Option<&'a PositiveControl> {
    let status = device.status.as_ref()?;
    // Other settings may lead to another device.
    let is_current = status.observed_generation == device.metadata.generation;
    row(device, node).filter(|_| is_current)
}

fn row<'a>(device: &'a FenceDevice, node: &NodeView) -> Option<&'a PositiveControl> {
    let mut rows = device.status.as_ref()?.positive_controls.iter();
    rows.find(|row| row.node_name == node.name && row.node_uid == node.uid)
}

/// May the password of the device be used for this Node? That of a fleet only while the Node is Ready, or once the device has answered while it
/// was: whoever registers a Node chooses its name, and with it where the password goes (S16).
pub fn may_log_in(device: &FenceDevice, node: Option<&NodeView>) -> bool {
    let is_fleet = device.spec.node_selector.is_some() && device.spec.credentials_ref.is_some();
    let was_ready = |node: &NodeView| {
        node.ready() == Ready::True
            || row(device, node).is_some()
            || identity::pinned(device, node).is_some()
    };
    !is_fleet || node.is_some_and(was_ready)
}

/// The positive control of a device for the boot that is to be fenced.
pub fn of(device: &FenceDevice, node: &NodeView, boot_id: &str, now: Timestamp) -> Control {
    match in_boot(device, node, boot_id) {
        Control::Shown if was_on_lately(device, now) => Control::ShownLately,
        control => control,
    }
}

/// The same, however long ago it was shown.
pub fn in_boot(device: &FenceDevice, node: &NodeView, boot_id: &str) -> Control {
    match device.spec.reads() {
        Reads::Human => Control::Shown,
        Reads::Bmc
        | Reads::Instance
        | Reads::Unnamed
        | Reads::Outlets
        | Reads::Storage
        | Reads::Nothing => by(kept(device, node), boot_id),
    }
}

/// Has a probe read that the machine has power in what was about the last probe period before the silence? Only the device of one node tells when.
fn was_on_lately(device: &FenceDevice, now: Timestamp) -> bool {
    let status = device.status.as_ref();
    let Some(on) = status.and_then(|status| status.last_on_time) else {
        return false;
    };
    let period = SignedDuration::from_secs(device.spec.probe.period_seconds.into());
    (SignedDuration::ZERO..=period + DETECTION).contains(&now.duration_since(on))
}

/// The same by the row itself.
pub fn by(row: Option<&PositiveControl>, boot_id: &str) -> Control {
    match row.filter(|row| row.boot_id == boot_id) {
        Some(row) if row.power_state == PowerState::On => Control::Shown,
        Some(_) => Control::OffWhileRunning,
        None => Control::Missing,
    }
}

/// Does this reading say that a machine, or a part of what feeds it, has no power, so that a running machine would refute it? With a fault beside
/// it, too: no proof accepts it today, and the same device may leave out the fault tomorrow.
pub fn reads_off(reading: &Reading) -> bool {
    reading.state == PowerState::Off || !reading.off_parts.is_empty()
}

/// What a probe teaches; none: nothing new. `renewed`: the kubelet has renewed its Lease since the device first read so, and before it did
/// again.
pub fn learn(node: &NodeView, reading: &Reading, renewed: bool) -> Option<PowerState> {
    if node.ready() != Ready::True || node.boot_id.is_empty() {
        return None;
    }
    match reading.state {
        _ if reads_off(reading) => renewed.then_some(PowerState::Off),
        PowerState::On => Some(PowerState::On),
        PowerState::Off | PowerState::Transitional | PowerState::Unknown => None,
    }
}

#[cfg(test)]
mod tests;
