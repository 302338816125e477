//! The devices of a node, resolved for an incident: who they are, what they answered, what was read of them.

use super::attempt::OffResult;
use super::control::Control;
use super::identity_rule::IdentityRule;
use super::reading::{PowerState, Reading};
use super::verification::Require;
use fencing_api::device::NetworkFenceDriver;
use std::collections::BTreeMap;
use std::time::Duration;

/// A device of a level, resolved for this node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Device {
    /// FenceDevice name.
    pub name: String,
    /// `<uid>/<generation>` of the FenceDevice: what was read from another version of it proves nothing.
    pub version: String,
    /// Who must answer there.
    pub identity: IdentityRule,
    /// A human answers for it, see [`super::word`].
    pub manual: bool,
    /// It reads outlets, and not the machine: one that has power says nothing of a machine that was switched off otherwise.
    pub outlets: bool,
    /// It keeps the node from the volumes of this storage, and leaves the power alone: what it reads is whether it does.
    pub covers: Option<Storage>,
    /// Has it shown that it can read On of this node's machine?
    pub control: Control,
}

/// The volumes of a storage: those that its CSI driver attaches and, of a driver that serves several storages, those that name this one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Storage {
    /// CSI driver.
    pub driver: String,
    /// Which of its storages, as `clusterID` of a volume's attributes; empty where they have none.
    pub cluster: String,
}

impl Storage {
    /// The storage that this driver shuts nodes out of.
    pub fn of(fence: &NetworkFenceDriver) -> Self {
        Self {
            driver: fence.provisioner.clone(),
            cluster: fence.cluster_id.clone().unwrap_or_default(),
        }
    }
}

/// One way to fence the node: AND or OR over its devices. Levels are tried one after the other (Pacemaker's topology).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Level {
    /// Name of the level in the policy.
    pub name: String,
    /// How many of its devices must be off.
    pub require: Require,
    /// Tries before the next level's turn.
    pub attempts_max: u32,
    /// Pause between two tries.
    pub retry_period: Duration,
    /// How long the level may take as a whole, its tries and the pauses between them.
    pub timeout: Duration,
    /// The devices that serve this node; a level without any is passed over.
    pub devices: Vec<Device>,
}

impl Level {
    /// Does it rest on a human's word alone?
    pub fn is_manual(&self) -> bool {
        self.devices.iter().all(|device| device.manual) && !self.devices.is_empty()
    }

    /// Can it only keep the node from its volumes, because no device of it knows the power? The storages whose volumes these are.
    pub fn storage(&self) -> Option<Vec<&Storage>> {
        let covered: Option<Vec<&Storage>> =
            self.devices.iter().map(|it| it.covers.as_ref()).collect();
        covered.filter(|covered| !covered.is_empty())
    }

    /// Were as many off commands sent as it needs? Then the power is read next, otherwise another off may be.
    pub fn is_commanded(&self, results: &BTreeMap<String, OffResult>) -> bool {
        let is_sent = |device: &Device| results.get(&device.name).is_some_and(OffResult::is_sent);
        match self.require {
            Require::All => self.devices.iter().all(is_sent),
            Require::Any => self.devices.iter().any(is_sent),
        }
    }
}

/// Answer of a device to one question.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DeviceAnswer {
    /// The device, as it was asked.
    pub device: Device,
    /// The reading, or why there is none.
    pub reading: Result<Reading, String>,
}

impl DeviceAnswer {
    /// Is it of this device, as it is now? What was read from another version of its FenceDevice says nothing of it.
    pub fn is_of(&self, device: &Device) -> bool {
        (&self.device.name, &self.device.version) == (&device.name, &device.version)
    }

    /// Does the machine read Off?
    pub fn is_off(&self) -> bool {
        let reading = self.reading.as_ref();
        reading.is_ok_and(|reading| reading.state == PowerState::Off)
    }
}

/// What one device said since the node was quiesced.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DeviceReadings {
    /// FenceDevice name.
    pub device: String,
    /// Version of the FenceDevice that was asked, as [`Device::version`].
    pub version: String,
    /// Who must answer there.
    pub identity: IdentityRule,
    /// It reads outlets, as [`Device::outlets`].
    pub outlets: bool,
    /// As [`Device::covers`].
    pub covers: Option<Storage>,
    /// As [`Device::control`].
    pub control: Control,
    /// All readings of the session, oldest first.
    pub readings: Vec<Reading>,
}

impl DeviceReadings {
    /// What this one said, as it was asked.
    pub fn of(device: &Device, readings: Vec<Reading>) -> Self {
        Self {
            device: device.name.clone(),
            version: device.version.clone(),
            identity: device.identity.clone(),
            outlets: device.outlets,
            covers: device.covers.clone(),
            control: device.control,
            readings,
        }
    }

    /// Could an Off that it has read so be a part of a proof?
    pub fn is_believed(&self, reading: &Reading) -> bool {
        let identity = self.identity.check(&self.device, &reading.identity);
        identity.is_ok() && reading.faults.is_empty()
    }

    /// Its last reading, if that says that the machine is not off: no other way to it can say that it is (S4). A storage says nothing of the machine.
    pub fn against(&self) -> Option<&Reading> {
        let last = self.readings.last().filter(|_| self.covers.is_none())?;
        speaks_against(&self.identity, last).then_some(last)
    }
}

/// Does a device say that the machine has power? It need not be known for certain to be this machine's: where nothing was pinned, or
/// two nodes share a system, it counts as well. Only one that names another machine does not.
pub fn speaks_against(identity: &IdentityRule, reading: &Reading) -> bool {
    reading.state.has_power() && !identity.is_another(&reading.identity)
}
