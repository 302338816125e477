//! Fence devices: how the power of a machine is read and cut out of band.
//!
//! A [`FenceDriver`] is a configured device and costs nothing: no connection is open. [`FenceDriver::open`] begins a
//! [`FenceSession`], in which connections are reused; dropping it ends them. A session takes one call at a time, each
//! call ends by the driver's own deadline, and every future may be dropped at any moment.
//!
//! No driver returns proof. A driver reports readings and carries out one command; [`confirm`] drives the reads, and
//! whether the machine is down is judged in [`fencing_core`] alone.
//!
//! What comes from a device is hostile until parsed, so this crate may neither unwrap nor index.

#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests measure how long they wait"
    )
)]

pub mod address;
pub mod cidr;
pub mod clock;
pub mod cloud;
pub mod confirm;
pub mod credentials;
pub mod error;
pub mod fence_agent;
pub mod foreign_text;
pub mod http;
pub mod ipmi;
mod json;
pub mod kind;
pub mod limit;
pub mod manual;
pub mod network_fence;
pub mod past;
pub mod pdu;
pub mod redfish;
pub mod resolve;
pub mod tls;
pub mod xml;

pub use error::{Advice, DeviceError};
pub use kind::{DriverKind, NodeFacts, Parts};

use fencing_api::device::{FenceDevice, FenceDeviceSpec};
use fencing_core::observed::NodeView;
use fencing_core::reading::{Identity, Reading};
use futures::future::BoxFuture;
use jiff::Timestamp;
use std::fmt;
use std::time::Duration;
use tokio::time::timeout;

/// A configured fence device for one node.
pub trait FenceDriver: fmt::Debug + Send + Sync {
    /// Name of the driver as in the API, such as `redfish`.
    fn name(&self) -> &'static str;

    /// What this controls, as far as the settings say, for people: host, port and system or outlets. Holds no secret.
    fn target(&self) -> String;

    /// What does one thing at a time: calls to drivers with the same endpoint are made one after the other. It is the target,
    /// unless one device controls several machines.
    fn endpoint(&self) -> String {
        self.target()
    }

    /// Begins a session. Nothing is sent before its first call.
    fn open(&self) -> Box<dyn FenceSession>;
}

/// A conversation with a fence device. Nothing learned in another session is used in it.
pub trait FenceSession: fmt::Debug + Send {
    /// Opens the connection that the next call would open: its address, TLS. Asks nothing and sends no credentials.
    ///
    /// # Errors
    /// [`DeviceError`]; the next call tries again.
    fn connect(&mut self) -> BoxFuture<'_, Result<(), DeviceError>>;

    /// Reads the power state, live.
    ///
    /// # Errors
    /// [`DeviceError`]; no error says anything about the machine's power.
    fn observe(&mut self) -> BoxFuture<'_, Result<Reading, DeviceError>>;

    /// Does all that a power-off needs but the command itself: login, the system, whether a hard off is allowed, a connection. The
    /// caller judges who answered, checks its claim once more, and calls [`FenceSession::force_off`].
    ///
    /// # Errors
    /// [`DeviceError::Refused`] when the device offers no hard power-off.
    fn prepare_off(&mut self) -> BoxFuture<'_, Result<Identity, DeviceError>>;

    /// What the preparation has read of the power, where it reads it.
    fn seen(&self) -> Option<Reading>;

    /// Sends one hard power-off to the machine that this session prepared; never a soft one, never twice.
    ///
    /// # Errors
    /// An error says that the command was certainly not carried out. Where that is not certain, the outcome is
    /// [`OffOutcome::Unknown`].
    fn force_off(&mut self) -> BoxFuture<'_, Result<OffOutcome, DeviceError>>;

    /// Does all that a power-on needs but the command itself: login, the power as it is, whether it can be turned on, a connection. The
    /// caller judges who answered and what was read, looks at the Node once more, and calls [`FenceSession::power_on`].
    ///
    /// # Errors
    /// [`DeviceError::Refused`] when the device offers no power-on.
    fn prepare_on(&mut self) -> BoxFuture<'_, Result<Reading, DeviceError>>;

    /// Sends one power-on to the machine that this session prepared; never a reboot or a cycle, never twice.
    ///
    /// # Errors
    /// An error says that the command was certainly not carried out. Where that is not certain, the outcome is
    /// [`OnOutcome::Unknown`].
    fn power_on(&mut self) -> BoxFuture<'_, Result<OnOutcome, DeviceError>>;

    /// Where a call may have to wait for those of others, at the same device, chassis or account: takes the turn for the next call if it
    /// is free now, so that a look in peace time stands in nobody's way, and waits for nobody within its own time.
    fn take_turn_now(&mut self) -> bool {
        true
    }

    /// Looks at everything a fence would need, and changes nothing: reach, login, identity, abilities.
    ///
    /// # Errors
    /// [`DeviceError`], the first that stands in the way.
    fn probe(&mut self, extent: Extent) -> BoxFuture<'_, Result<Probe, DeviceError>>;
}

/// What became of a power-off command. None of them is proof.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OffOutcome {
    /// The device took the command.
    Accepted,
    /// The device says that it cannot switch off, which devices do when the machine is off already. It means nothing
    /// without a fresh reading of off.
    AlreadyOff {
        /// What the device said, for the record.
        said: String,
    },
    /// The command may have been delivered and no definite answer arrived: it may take effect late (S23).
    Unknown(DeviceError),
}

/// What became of a power-on command. What the machine does only a reading tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OnOutcome {
    /// The device took the command.
    Accepted,
    /// The device says that it cannot switch on, which devices do when the machine is on already.
    AlreadyOn {
        /// What the device said, for the record.
        said: String,
    },
    /// The command may have been delivered and no definite answer arrived: it may take effect late.
    Unknown(DeviceError),
}

/// A driver sends both commands in the same way, and devices answer both in the same words.
impl From<OffOutcome> for OnOutcome {
    fn from(outcome: OffOutcome) -> Self {
        match outcome {
            OffOutcome::Accepted => Self::Accepted,
            OffOutcome::AlreadyOff { said } => Self::AlreadyOn { said },
            OffOutcome::Unknown(error) => Self::Unknown(error),
        }
    }
}

/// A command to a device. There is no other: nothing is rebooted, cycled or shut down softly (S11).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Command {
    /// Off, hard.
    Off,
    /// On.
    On,
}

impl Command {
    /// In words.
    fn word(self) -> &'static str {
        match self {
            Self::Off => "power-off",
            Self::On => "power-on",
        }
    }
}

/// How much a probe looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// A list of many machines will do, where there is one: the device has shown this machine running in this boot.
    Listed,
    /// What a fence would need.
    Needed,
    /// Also what only people want to know: the device's clock.
    Whole,
}

/// What a device can do, seen in peace time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// Power and identity.
    pub reading: Reading,
    /// Maker of the machine.
    pub vendor: Option<String>,
    /// Model of the machine.
    pub model: Option<String>,
    /// Firmware version of the machine.
    pub firmware: Option<String>,
    /// What the machine does when power returns: `AlwaysOn`, `AlwaysOff`, `LastState`.
    pub power_restore_policy: Option<String>,
    /// What turns the machine on again by itself, as its provider says; none: nothing that it knows of.
    pub restarter: Option<String>,
    /// When the device's certificate expires, where that would end the connection.
    pub certificate_expiry: Option<tls::Expiry>,
    /// What stands in the way of a hard power-off; none when the device offers it.
    pub off_denied: Option<DeviceError>,
    /// The IPMI cipher suites that the device lists, by number; none where it lists none.
    pub cipher_suites: Vec<u8>,
    /// Its clock; none where it has none, has not set it or does not tell. Nothing is decided by it.
    pub clock: Option<DeviceClock>,
}

/// What a device's clock shows, and what ours showed when it said so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceClock {
    /// The device's.
    pub time: Timestamp,
    /// Ours.
    pub ours: Timestamp,
}

impl DeviceClock {
    /// By how many seconds the device is ahead of us; negative: behind.
    #[must_use]
    pub fn ahead_seconds(&self) -> i64 {
        self.time.duration_since(self.ours).as_secs()
    }
}

/// How long a probe waits for the device's clock at most, once it knows everything that matters.
const CLOCK_TIME_MAX: Duration = Duration::from_secs(3);

/// The device's clock, within what is left of the call's time and without any error: a probe does not fail for it.
async fn clock_within(
    limit: Duration,
    gone: Duration,
    question: impl Future<Output = Option<DeviceClock>>,
) -> Option<DeviceClock> {
    let left = limit.saturating_sub(gone).min(CLOCK_TIME_MAX);
    timeout(left, question).await.ok().flatten()
}

/// The driver that the settings name; none: this version does not have it, or it is a human.
pub fn kind(spec: &FenceDeviceSpec) -> Option<&dyn DriverKind> {
    fn of<K: DriverKind>(settings: &Option<K>) -> Option<&dyn DriverKind> {
        settings.as_ref().map(|kind| kind as _)
    }
    let drivers = &spec.drivers;
    let kinds = [
        of(&drivers.redfish),
        of(&drivers.ipmi),
        of(&drivers.pdu),
        of(&drivers.http_outlet),
        of(&drivers.fence_agent),
        of(&drivers.openstack),
        of(&drivers.vsphere),
        of(&drivers.proxmox),
        of(&drivers.aws),
        of(&drivers.azure),
        of(&drivers.gcp),
        of(&drivers.libvirt),
        of(&drivers.hetzner_cloud),
        of(&drivers.kubevirt),
        of(&drivers.bare_metal_host),
        of(&drivers.nutanix),
        of(&drivers.xapi),
        of(&drivers.webhook),
        of(&drivers.network_fence),
    ];
    kinds.into_iter().flatten().next()
}

/// What the device controls, as its settings and the Node name it, without reading a Secret; nothing when they name nothing.
pub fn targets(device: &FenceDevice, node: &NodeView) -> Vec<String> {
    targets_of(device, &node.into())
}

/// The same, of a Node that may be deleted.
pub fn targets_of(device: &FenceDevice, node: &NodeFacts) -> Vec<String> {
    kind(&device.spec).map_or_else(Vec::new, |kind| kind.targets(node))
}
