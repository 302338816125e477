//! Makes a driver: the settings judged, Secret and CA read ([`super::sources`]), and wrapped.

use super::pasts::Pasts;
use super::recent::{Freshness, Recent};
use super::renewal::Renewing;
use super::sources::{Kept, Opened};
use super::{Devices, group_name};
use crate::shell::lockout::{Guarded, Login, Refusals};
use crate::shell::outside::Outside;
use crate::shell::resolve;
use crate::shell::serialized::Serialized;
use fencing_api::device::{FenceDevice, FenceDeviceSpec};
use fencing_api::drivers::{IpmiDriver, RedfishDriver};
use fencing_api::pdu::PduDriver;
use fencing_api::tls::{CaReference, TlsVerification};
use fencing_drivers::address::{Address, AddressError, AddressRules, is_led_by_node_name};
use fencing_drivers::clock::Clock;
use fencing_drivers::credentials::{Digest, LOGIN};
use fencing_drivers::ipmi::{self, Ipmi, IpmiSettings};
use fencing_drivers::manual::Manual;
use fencing_drivers::pdu::keyring::Keyring;
use fencing_drivers::pdu::{self, Pdu, PduSettings};
use fencing_drivers::redfish::{self, RedfishSettings};
use fencing_drivers::{DeviceError, FenceDriver};
use kube::Client;
use std::collections::HashMap;
use std::hash::RandomState;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// A power-off command that is not sent by then is not sent (F12).
const COMMAND_TIMEOUT: Duration = Duration::from_secs(5);

/// A driver, and what was noticed on the way to it.
#[derive(Debug, Clone)]
pub struct Access {
    /// The driver.
    pub driver: Arc<dyn FenceDriver>,
    /// Keys of the Secret whose value ended in a newline, which was dropped.
    pub trimmed_keys: Vec<&'static str>,
    /// What the Secret says; none: it needs none.
    pub(super) content: Option<Digest>,
}

impl Devices {
    /// The device's driver for this node. Reads its Secret and its CA; contacts no device.
    ///
    /// # Errors
    /// [`DeviceError`], with nothing sent to any device.
    pub async fn driver(
        &self,
        device: &FenceDevice,
        node: &str,
    ) -> Result<Arc<dyn FenceDriver>, DeviceError> {
        Ok(self.access(device, node, Freshness::Now).await?.driver)
    }

    /// As [`Devices::driver`], with what was noticed on the way.
    ///
    /// # Errors
    /// [`DeviceError`], with nothing sent to any device.
    pub async fn access(
        &self,
        device: &FenceDevice,
        node: &str,
        freshness: Freshness,
    ) -> Result<Access, DeviceError> {
        let mut access = self.maker.make(device, node, freshness).await?;
        // Innermost the count of refusals, since each password has its own; around it the renewal; outermost the group, which is kept
        // while a question is asked once more.
        if access.content.is_some() {
            access.driver = Arc::new(Renewing::new(&access, &self.maker, device, node));
        }
        let group = match (&device.spec.serialization_group, access.driver.endpoint()) {
            (Some(group), _) => group_name(group),
            // A PDU does one thing at a time, for whichever of its machines.
            (None, endpoint) if endpoint != access.driver.target() => {
                format!("endpoint {endpoint}")
            }
            (None, _) => return Ok(access),
        };
        Ok(Access {
            driver: Arc::new(Serialized::new(access.driver, self.turn_named(group))),
            ..access
        })
    }
}

/// What drivers are made with.
pub(super) struct Maker {
    /// The way to the devices.
    pub(super) outside: Outside,
    /// Reads Secrets and ConfigMaps.
    pub(super) client: Client,
    /// Where these are.
    pub(super) namespace: String,
    /// What is said to do about one that is missing.
    pub(super) kept: Kept,
    /// Where credentials may go.
    pub(super) rules: Arc<AddressRules>,
    /// Where the time comes from.
    pub(super) clock: Clock,
    /// Tells what Secrets say from each other; of this process alone.
    pub(super) key: RandomState,
    /// Logins that were refused, of all accounts.
    pub(super) refusals: Arc<Refusals>,
    /// What SNMPv3 makes of Secrets.
    pub(super) keyring: Keyring,
    /// What was learned in sessions before.
    pub(super) pasts: Pasts,
    /// [`resolve::version`] of the FenceDevices as they are by now, by name.
    pub(super) versions: RwLock<HashMap<String, String>>,
    /// What Secrets held, by name and by the keys that were asked for.
    pub(super) opened: Recent<(String, &'static [&'static str]), Opened>,
    /// Certificates in PEM.
    pub(super) bundles: Recent<CaReference, Vec<u8>>,
}

impl Maker {
    /// This is what the devices are now.
    pub(super) fn note_versions(&self, devices: &[&FenceDevice]) {
        let versions = devices.iter().map(|device| {
            let name = device.metadata.name.clone().unwrap_or_default();
            (name, resolve::version(device))
        });
        let mut known = self
            .versions
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        *known = versions.collect();
    }

    /// Is the device still what it was?
    pub(super) fn is_current(&self, device: &FenceDevice) -> bool {
        let versions = self.versions.read().unwrap_or_else(PoisonError::into_inner);
        let name = device.metadata.name.as_deref().unwrap_or_default();
        versions.get(name) == Some(&resolve::version(device))
    }

    /// A driver with the Secret as it is now, or a moment ago.
    pub(super) async fn make(
        &self,
        device: &FenceDevice,
        node: &str,
        freshness: Freshness,
    ) -> Result<Access, DeviceError> {
        match &device.spec {
            FenceDeviceSpec {
                redfish: Some(redfish),
                ..
            } => self.redfish(device, redfish, node, freshness).await,
            FenceDeviceSpec {
                ipmi: Some(ipmi), ..
            } => self.ipmi(device, ipmi, node, freshness).await,
            FenceDeviceSpec { pdu: Some(pdu), .. } => self.pdu(device, pdu, freshness).await,
            FenceDeviceSpec {
                manual: Some(_), ..
            } => Ok(self.human()),
            spec => Err(DeviceError::Unsupported {
                driver: spec.driver_name(),
            }),
        }
    }

    /// Without a NodeFence nobody has been asked for a word.
    fn human(&self) -> Access {
        let words = "no NodeFence asks for anybody's word".to_owned();
        Access {
            driver: Arc::new(Manual::new(Err(words), self.clock)),
            trimmed_keys: Vec::new(),
            content: None,
        }
    }

    async fn pdu(
        &self,
        device: &FenceDevice,
        pdu: &PduDriver,
        freshness: Freshness,
    ) -> Result<Access, DeviceError> {
        let address = pdu::address(pdu)?;
        self.judge(&address)?;
        let keys = pdu::secret_keys(&pdu.snmp);
        let found = self.opened(device, keys, freshness).await;
        let opened = found.inspect_err(|error| {
            // A Secret that is gone or spoilt opens nothing any more, and what it opened before is no longer needed.
            if let (DeviceError::Credentials(_), Some(of)) = (error, &device.spec.credentials_ref) {
                self.keyring.forget(&of.name);
            }
        })?;
        let login = self
            .keyring
            .login(&opened.secret, &pdu.snmp, &opened.credentials)?;
        let settings = PduSettings {
            driver: pdu.clone(),
            credentials: Arc::clone(&opened.credentials),
            rules: Arc::clone(&self.rules),
            call_timeout: call_timeout(device),
            command_timeout: COMMAND_TIMEOUT,
            clock: self.clock,
        };
        let driver = Pdu::with_login(settings, login)?;
        Ok(self.guarded(Arc::new(driver), &address, opened))
    }

    async fn redfish(
        &self,
        device: &FenceDevice,
        redfish: &RedfishDriver,
        node: &str,
        freshness: Freshness,
    ) -> Result<Access, DeviceError> {
        let address = Address::expand(&redfish.address, node)?;
        self.judge(&address)?;
        let (opened, verification) = tokio::join!(
            self.opened(device, &LOGIN, freshness),
            self.verification(&redfish.tls, freshness)
        );
        let opened = opened?;
        let tls = &redfish.tls;
        if tls.ca_ref.is_none() && tls.verification != TlsVerification::Pinned {
            judge_fleet(device, &redfish.address, &opened)?;
        }
        // A path that is no system's is refused by the driver.
        let target = redfish::target(&address, redfish.system_id.as_deref());
        let past = target.map(|target| self.pasts.of(target, opened.content));
        let driver = (self.outside.redfish)(RedfishSettings {
            address: address.clone(),
            system_id: redfish.system_id.clone(),
            verification: verification?,
            credentials: Arc::clone(&opened.credentials),
            rules: Arc::clone(&self.rules),
            call_timeout: call_timeout(device),
            command_timeout: COMMAND_TIMEOUT,
            past: past.unwrap_or_default(),
            clock: self.clock,
        })?;
        Ok(self.guarded(driver, &address, opened))
    }

    async fn ipmi(
        &self,
        device: &FenceDevice,
        ipmi: &IpmiDriver,
        node: &str,
        freshness: Freshness,
    ) -> Result<Access, DeviceError> {
        let address = Address::expand_host(&ipmi.address, ipmi.port, node)?;
        self.judge(&address)?;
        let opened = self.opened(device, &LOGIN, freshness).await?;
        judge_fleet(device, &ipmi.address, &opened)?;
        let target = ipmi::target(&address);
        let driver = Ipmi::new(IpmiSettings {
            address: address.clone(),
            cipher_suite: ipmi.cipher_suite,
            privilege: ipmi.privilege,
            credentials: Arc::clone(&opened.credentials),
            rules: Arc::clone(&self.rules),
            call_timeout: call_timeout(device),
            command_timeout: COMMAND_TIMEOUT,
            past: self.pasts.of(target, opened.content),
            clock: self.clock,
        })?;
        Ok(self.guarded(Arc::new(driver), &address, opened))
    }

    /// An address that is no name is judged before the Secret is even read.
    fn judge(&self, address: &Address) -> Result<(), DeviceError> {
        match address.literal() {
            Some(literal) => Ok(self.rules.judge(&address.host, literal)?),
            None => Ok(()),
        }
    }

    /// The driver, which logs in at this address, with its refusals counted.
    fn guarded(&self, driver: Arc<dyn FenceDriver>, address: &Address, opened: Opened) -> Access {
        let (secret, _) = opened.secret;
        let login = Login::new(address, secret, opened.content);
        let refusals = Arc::clone(&self.refusals);
        Access {
            driver: Arc::new(Guarded::new(driver, login, refusals, self.clock)),
            trimmed_keys: opened.credentials.trimmed_keys().to_vec(),
            content: Some(opened.content),
        }
    }
}

/// Whoever registers a Node chooses its name: where that ends the host of a fleet's address, the Secret has to say where it may be sent (S16).
fn judge_fleet(device: &FenceDevice, address: &str, opened: &Opened) -> Result<(), AddressError> {
    let is_fleet = device.spec.node_selector.is_some();
    if is_fleet && is_led_by_node_name(address) && !opened.credentials.names_hosts() {
        return Err(AddressError::Unbounded {
            secret: opened.secret.0.clone(),
            because: "an address that ends with ${node.name} needs it, or `tls.caRef`",
        });
    }
    Ok(())
}

/// How long one call to the device may take.
fn call_timeout(device: &FenceDevice) -> Duration {
    Duration::from_secs(device.spec.probe.timeout_seconds.into())
}
