//! Could this replica reach the fence devices if it had to lead? One that stands by opens a connection to a sample of those that the leader reaches:
//! TCP and TLS, no login and no request.
//!
//! Two replicas may be on different networks, or behind different firewalls, and without a look that is seen only after the leader is gone. Devices
//! that speak UDP (IPMI, SNMP) have no connection that could be opened without a request, and are left out.

use super::cache::Caches;
use super::devices::{Devices, Freshness};
use fencing_api::conditions::{self, REACHABLE};
use fencing_api::device::FenceDevice;
use fencing_core::observed::Ready;
use fencing_core::select::serves;
use fencing_drivers::{DeviceError, kind};
use kube::ResourceExt;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Devices of a sample.
const SAMPLE_MAX: usize = 20;
/// Each of them is looked at once in this time.
const ROUND: Duration = Duration::from_mins(3);
/// Longest time for a connection.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);

/// A device, and a node that it serves.
type Pair = (String, String);

/// What a replica has found while it stands by.
pub struct Standby {
    caches: Caches,
    devices: Arc<Devices>,
    found: Mutex<BTreeMap<Pair, (&'static str, bool)>>,
}

/// A device that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StandbyRow {
    /// FenceDevice name.
    pub device: String,
    /// Node name.
    pub node: String,
    /// Driver: `redfish`.
    pub driver: String,
    /// A connection could be opened.
    pub reachable: bool,
}

impl Standby {
    /// Nothing is known yet.
    pub fn new(caches: Caches, devices: Arc<Devices>) -> Self {
        Self {
            caches,
            devices,
            found: Mutex::default(),
        }
    }

    /// What was found in this time of standing by, for the gauges. Quick.
    pub fn rows(&self) -> Vec<StandbyRow> {
        let row = |(pair, found): (&Pair, &(&'static str, bool))| StandbyRow {
            device: pair.0.clone(),
            node: pair.1.clone(),
            driver: found.0.to_owned(),
            reachable: found.1,
        };
        self.found().iter().map(row).collect()
    }

    /// Looks at one device after the other, for as long as the replica stands by. The caches must be filled.
    pub async fn run(&self) -> Infallible {
        self.found().clear();
        loop {
            let sample = self.sample();
            self.found().retain(|pair, _| sample.contains(pair));
            let looks = u32::try_from(sample.len()).unwrap_or(u32::MAX).max(1);
            for pair in &sample {
                match self.look(pair).await {
                    Some(found) => {
                        self.found().insert(pair.clone(), found);
                    }
                    None => {
                        self.found().remove(pair);
                    }
                }
                sleep(ROUND / looks).await;
            }
            if sample.is_empty() {
                sleep(ROUND).await;
            }
        }
    }

    /// Devices at equal distances in the order of their names, of those that the leader reaches by TCP.
    fn sample(&self) -> Vec<Pair> {
        let devices = self.caches.devices.state();
        let devices = devices.iter().filter_map(|guard| guard.0.as_ref().ok());
        let mut pairs: Vec<Pair> = devices.filter_map(|it| self.pair(it)).collect();
        pairs.sort_unstable();
        let step = pairs.len().div_ceil(SAMPLE_MAX).max(1);
        pairs.into_iter().step_by(step).collect()
    }

    /// The device with one of its nodes, if the leader reaches it.
    fn pair(&self, device: &FenceDevice) -> Option<Pair> {
        kind(&device.spec)?.tls()?;
        let status = device.status.as_ref()?;
        let reachable = conditions::find(&status.conditions, REACHABLE)?;
        if reachable.status != "True" {
            return None;
        }
        let node = match &device.spec.node_name {
            Some(name) => self.caches.node(name),
            None => self.caches.nodes.find(|it| serves(device, &it.view)),
        };
        Some((device.name_any(), node?.view.name.clone()))
    }

    /// The driver, and whether a connection can be opened; none: this is not the time to find out, or not what is in the way.
    async fn look(&self, (device, node): &Pair) -> Option<(&'static str, bool)> {
        // No BMC with room for one connection is kept from a fence that may be near.
        let is_ready = self.caches.node(node)?.view.ready() == Ready::True;
        let is_fenced = self.caches.fences_of(node).iter().any(|it| !it.is_ended());
        if !is_ready || is_fenced {
            return None;
        }
        let device = self.caches.device(device)?;
        let driver = device.spec.driver_name();
        let access = self.devices.access(&device, node, Freshness::Recent).await;
        let opened = match access {
            Ok(access) => {
                let _turn = self.devices.turn_now(access.driver.as_ref())?;
                let mut session = access.driver.open();
                let opened = timeout(CONNECT_TIME_MAX, session.connect()).await;
                opened.unwrap_or_else(|_| {
                    Err(DeviceError::Timeout {
                        endpoint: access.driver.target(),
                        waited: CONNECT_TIME_MAX,
                    })
                })
            }
            Err(error) => Err(error),
        };
        match opened {
            Ok(()) => Some((driver, true)),
            Err(error) if is_of_the_way(&error) => {
                let device = device.name_any();
                tracing::debug!(device, %error, "this replica cannot reach a fence device that the leader reaches");
                Some((driver, false))
            }
            Err(_) => None,
        }
    }

    fn found(&self) -> MutexGuard<'_, BTreeMap<Pair, (&'static str, bool)>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Is it the way to the device, and neither its settings nor the API server?
fn is_of_the_way(error: &DeviceError) -> bool {
    matches!(
        error,
        DeviceError::Unreachable { .. }
            | DeviceError::Timeout { .. }
            | DeviceError::NoAnswer { .. }
            | DeviceError::TlsIdentity { .. }
            | DeviceError::AddressNotAllowed(_)
    )
}

#[cfg(test)]
mod tests;
