//! Makes a driver: the settings judged, Secret and CA read ([`super::sources`]), and wrapped.

use super::pasts::Pasts;
use super::recent::{Freshness, Recent};
use super::renewal::Renewing;
use super::sources::{Kept, Opened};
use super::upkeep::expiries;
use super::{Devices, group_name};
use crate::shell::lockout::{Guarded, Login, Refusals};
use crate::shell::outside::Outside;
use crate::shell::resolve;
use crate::shell::serialized::Serialized;
use fencing_api::device::{FenceDevice, Reads};
use fencing_api::tls::{CaReference, TlsSettings, TlsVerification};
use fencing_core::observed::NodeView;
use fencing_drivers::address::{Address, AddressError, AddressRules, is_led_by_node_name};
use fencing_drivers::clock::Clock;
use fencing_drivers::cloud::account::Accounts;
use fencing_drivers::credentials::Digest;
use fencing_drivers::manual::Manual;
use fencing_drivers::pdu::keyring::Keyring;
use fencing_drivers::tls::Expiry;
use fencing_drivers::{DeviceError, DriverKind, FenceDriver, NodeFacts, Parts, kind};
use kube::Client;
use std::collections::HashMap;
use std::hash::RandomState;
use std::net::IpAddr;
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
    /// Where it is; none: it is a human.
    pub host: Option<Address>,
    /// When its CA, and the certificate and the token in its Secret, expire.
    pub expiries: Vec<(&'static str, Expiry)>,
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

    /// What the device's driver for this node would be made of.
    ///
    /// # Errors
    /// As [`Devices::driver`].
    pub async fn parts(&self, device: &FenceDevice, node: &str) -> Result<Parts, DeviceError> {
        let made = self.maker.parts(device, node, Freshness::Now).await;
        made.map(|(_, parts, _)| parts)
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
    pub(super) keyring: Arc<Keyring>,
    /// What the logins at clouds and hypervisors share.
    pub(super) accounts: Arc<Accounts>,
    /// The Nodes as the last comparison of the devices saw them, by name.
    pub(super) nodes: RwLock<HashMap<String, NodeFacts>>,
    /// Which of them has an address.
    pub(super) hosts: RwLock<HashMap<IpAddr, String>>,
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

    /// This is what the Nodes are now.
    pub(super) fn note_nodes(&self, nodes: &[&NodeView]) {
        let hosts = nodes.iter().flat_map(|node| {
            let addresses = node.addresses.iter().filter_map(|it| it.parse().ok());
            addresses.map(|it| (it, node.name.clone()))
        });
        *self.hosts.write().unwrap_or_else(PoisonError::into_inner) = hosts.collect();
        let facts = nodes.iter().map(|node| NodeFacts::from(*node));
        let mut known = self.nodes.write().unwrap_or_else(PoisonError::into_inner);
        *known = facts.map(|it| (it.name.clone(), it)).collect();
    }

    /// What is known of a Node where there is no cluster to compare devices in.
    pub(super) fn note_node(&self, facts: NodeFacts) {
        let mut known = self.nodes.write().unwrap_or_else(PoisonError::into_inner);
        known.insert(facts.name.clone(), facts);
    }

    /// The Node that has this address.
    pub(super) fn node_at(&self, address: IpAddr) -> Option<String> {
        let hosts = self.hosts.read().unwrap_or_else(PoisonError::into_inner);
        hosts.get(&address).cloned()
    }

    /// What is known of this Node.
    fn facts(&self, node: &str) -> NodeFacts {
        let known = self.nodes.read().unwrap_or_else(PoisonError::into_inner);
        let known = known.get(node).cloned();
        known.unwrap_or_else(|| NodeFacts::named(node))
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
        if device.spec.reads() == Reads::Human {
            return Ok(self.human());
        }
        let (kind, parts, opened) = self.parts(device, node, freshness).await?;
        let (address, expiries) = (parts.address.clone(), expiries(&parts));
        let driver = (self.outside.device)(kind, parts)?;
        Ok(Access {
            expiries,
            ..self.guarded(driver, address, opened)
        })
    }

    /// What a driver is made of, and what its Secret held.
    async fn parts<'a>(
        &self,
        device: &'a FenceDevice,
        node: &str,
        freshness: Freshness,
    ) -> Result<(&'a dyn DriverKind, Parts, Opened), DeviceError> {
        let spec = &device.spec;
        let kind = kind(spec).ok_or(DeviceError::Unsupported {
            driver: spec.driver_name(),
        })?;
        let address = kind.expand(node)?;
        self.judge(&address)?;
        let (opened, verification) = tokio::join!(
            async {
                match spec.credentials_ref.is_some() || kind.needs_secret() {
                    true => self.opened(device, kind.credential_keys(), freshness).await,
                    false => Ok(self.of_pod()),
                }
            },
            self.verification(kind.tls(), freshness)
        );
        let opened = opened.inspect_err(|error| {
            // A Secret that is gone or spoilt opens nothing any more, and what it opened before is no longer needed.
            if let (DeviceError::Credentials(_), Some(of)) = (error, &spec.credentials_ref) {
                self.keyring.forget(&of.name);
            }
        })?;
        judge_fleet(device, kind, &opened)?;
        let facts = self.facts(node);
        let past = kind.targets(&facts).pop();
        let past = past.map(|target| self.pasts.of(target, opened.content));
        let parts = Parts {
            node: facts,
            address,
            secret: opened.secret.clone(),
            credentials: Arc::clone(&opened.credentials),
            verification: verification?,
            rules: Arc::clone(&self.rules),
            call_timeout: Duration::from_secs(spec.probe.timeout_seconds.into()),
            command_timeout: COMMAND_TIMEOUT,
            past: past.unwrap_or_default(),
            keyring: Arc::clone(&self.keyring),
            accounts: Arc::clone(&self.accounts),
            clock: self.clock,
        };
        Ok((kind, parts, opened))
    }

    /// Without a NodeFence nobody has been asked for a word.
    fn human(&self) -> Access {
        let words = "no NodeFence requests a manual confirmation".to_owned();
        Access {
            driver: Arc::new(Manual::new(Err(words), self.clock)),
            trimmed_keys: Vec::new(),
            host: None,
            expiries: Vec::new(),
            content: None,
        }
    }

    /// An address that is no name is judged before the Secret is even read.
    fn judge(&self, address: &Address) -> Result<(), DeviceError> {
        match address.literal() {
            Some(literal) => Ok(self.rules.judge(&address.host, literal)?),
            None => Ok(()),
        }
    }

    /// The driver, which logs in at this address, with its refusals counted.
    fn guarded(&self, driver: Arc<dyn FenceDriver>, address: Address, opened: Opened) -> Access {
        let (secret, _) = opened.secret;
        let login = Login::new(&address, secret, opened.content);
        let refusals = Arc::clone(&self.refusals);
        Access {
            driver: Arc::new(Guarded::new(driver, login, refusals, self.clock)),
            trimmed_keys: opened.credentials.trimmed_keys().to_vec(),
            host: Some(address),
            expiries: Vec::new(),
            content: Some(opened.content),
        }
    }
}

/// Whoever registers a Node chooses its name: where that ends the host of a fleet's address, and no certificate of ours is asked for, the Secret
/// has to say where it may be sent (S16).
fn judge_fleet(
    device: &FenceDevice,
    kind: &dyn DriverKind,
    opened: &Opened,
) -> Result<(), AddressError> {
    // A CA that no certificate is checked by says nothing.
    let is_known = |tls: &TlsSettings| match tls.verification {
        TlsVerification::Pinned => true,
        TlsVerification::Full => tls.ca_ref.is_some(),
        TlsVerification::None => false,
    };
    if kind.tls().is_some_and(is_known) {
        return Ok(());
    }
    let is_fleet = device.spec.node_selector.is_some();
    if is_fleet && is_led_by_node_name(kind.written()) && !opened.credentials.names_hosts() {
        return Err(AddressError::Unbounded {
            secret: opened.secret.0.clone(),
            because: "an address that ends with ${node.name} needs it, or `tls.caRef`",
        });
    }
    Ok(())
}
