//! From a FenceDevice to the driver for one node: its address, its Secret, its turn.
//!
//! The Secret and the CA are read by name at each use (or up to a second earlier, beside a claim, see [`super::early`]) and not
//! kept, so that a rotated password counts at once. An address that credentials may not go to is refused before the Secret is even
//! read (S16). BMCs do one thing at a time, so whoever talks to one takes a [`Devices::turn`] first and keeps it to the end of
//! the session.

use super::client::ask;
use super::lockout::{Guarded, Refusals};
use super::serialized::Serialized;
use crate::api::device::{FenceDevice, TlsSettings, TlsVerification};
use crate::api::drivers::{CaKind, CaReference, IpmiDriver, RedfishDriver};
use crate::clock::Clock;
use crate::core::identity::{self, Wire};
use crate::core::observed::NodeView;
use crate::core::proof::IdentityRule;
use crate::core::select;
use crate::fence::address::{Address, AddressRules};
use crate::fence::credentials::{Credentials, CredentialsError};
use crate::fence::ipmi::{self, Ipmi, IpmiSettings};
use crate::fence::manual::Manual;
use crate::fence::redfish::{self, Redfish, RedfishSettings};
use crate::fence::tls::CertificateCheck;
use crate::fence::{DeviceError, FenceDriver};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::{Mutex as Turn, OwnedMutexGuard};
use zeroize::Zeroize;

pub use crate::core::identity::rule as identity_rule;

/// A power-off command that is not sent by then is not sent (F12).
const COMMAND_TIMEOUT: Duration = Duration::from_secs(5);

/// Makes drivers, and knows whose turn it is.
pub struct Devices {
    client: Client,
    namespace: String,
    rules: Arc<AddressRules>,
    clock: Clock,
    turns: Mutex<HashMap<String, Arc<Turn<()>>>>,
    refusals: Arc<Refusals>,
    duplicates: RwLock<Option<Duplicates>>,
}

/// Why a (device, node) must not be used: another node resolves to the same system.
pub type Duplicates = BTreeMap<(String, String), String>;

/// A driver, and what was noticed on the way to it.
pub struct Access {
    /// The driver.
    pub driver: Arc<dyn FenceDriver>,
    /// Keys of the Secret whose value ended in a newline, which was dropped.
    pub trimmed_keys: Vec<&'static str>,
}

impl Devices {
    /// `client` reads Secrets and ConfigMaps in `namespace`, the operator's own.
    pub fn new(client: Client, namespace: String, rules: AddressRules, clock: Clock) -> Self {
        Self {
            client,
            namespace,
            rules: Arc::new(rules),
            clock,
            turns: Mutex::default(),
            refusals: Arc::default(),
            duplicates: RwLock::default(),
        }
    }

    /// The device's driver for this node. Reads its Secret and its CA; contacts no device.
    ///
    /// # Errors
    /// [`DeviceError`], with nothing sent to any device.
    pub async fn driver(
        &self,
        device: &FenceDevice,
        node: &str,
    ) -> Result<Arc<dyn FenceDriver>, DeviceError> {
        Ok(self.access(device, node).await?.driver)
    }

    /// As [`Devices::driver`], with what was noticed on the way.
    ///
    /// # Errors
    /// [`DeviceError`], with nothing sent to any device.
    pub async fn access(&self, device: &FenceDevice, node: &str) -> Result<Access, DeviceError> {
        let spec = &device.spec;
        let access = match (&spec.redfish, &spec.ipmi, &spec.manual) {
            (Some(redfish), ..) => self.redfish(device, redfish, node).await,
            (None, Some(ipmi), _) => self.ipmi(device, ipmi, node).await,
            (None, None, Some(_)) => Ok(self.human()),
            (None, None, None) => Err(DeviceError::Unsupported {
                driver: device.spec.driver_name(),
            }),
        }?;
        let Some(group) = &device.spec.serialization_group else {
            return Ok(access);
        };
        let group = self.turn_named(format!("group {group}"));
        Ok(Access {
            driver: Arc::new(Serialized::new(access.driver, group)),
            ..access
        })
    }

    /// Without a NodeFence nobody has been asked for a word.
    fn human(&self) -> Access {
        let words = "no NodeFence asks for anybody's word".to_owned();
        Access {
            driver: Arc::new(Manual::new(Err(words), self.clock)),
            trimmed_keys: Vec::new(),
        }
    }

    async fn redfish(
        &self,
        device: &FenceDevice,
        redfish: &RedfishDriver,
        node: &str,
    ) -> Result<Access, DeviceError> {
        let address = Address::expand(&redfish.address, node)?;
        self.judge(&address)?;
        let (credentials, verification) =
            tokio::join!(self.credentials(device), self.verification(&redfish.tls));
        let (secret, credentials) = credentials?;
        let trimmed_keys = credentials.trimmed_keys().to_vec();
        let driver = Redfish::new(RedfishSettings {
            address,
            system_id: redfish.system_id.clone(),
            verification: verification?,
            credentials: Arc::new(credentials),
            rules: Arc::clone(&self.rules),
            call_timeout: Duration::from_secs(device.spec.probe.timeout_seconds.into()),
            command_timeout: COMMAND_TIMEOUT,
            clock: self.clock,
        })?;
        Ok(self.guarded(Arc::new(driver), secret, trimmed_keys))
    }

    async fn ipmi(
        &self,
        device: &FenceDevice,
        ipmi: &IpmiDriver,
        node: &str,
    ) -> Result<Access, DeviceError> {
        let address = Address::expand_host(&ipmi.address, ipmi.port, node)?;
        self.judge(&address)?;
        let (secret, credentials) = self.credentials(device).await?;
        let trimmed_keys = credentials.trimmed_keys().to_vec();
        let driver = Ipmi::new(IpmiSettings {
            address,
            cipher_suite: ipmi.cipher_suite,
            privilege: ipmi.privilege,
            credentials: Arc::new(credentials),
            rules: Arc::clone(&self.rules),
            call_timeout: Duration::from_secs(device.spec.probe.timeout_seconds.into()),
            command_timeout: COMMAND_TIMEOUT,
            clock: self.clock,
        })?;
        Ok(self.guarded(Arc::new(driver), secret, trimmed_keys))
    }

    /// An address that is no name is judged before the Secret is even read.
    fn judge(&self, address: &Address) -> Result<(), DeviceError> {
        match address.literal() {
            Some(literal) => Ok(self.rules.judge(&address.host, literal)?),
            None => Ok(()),
        }
    }

    fn guarded(
        &self,
        driver: Arc<dyn FenceDriver>,
        secret: (String, String),
        trimmed_keys: Vec<&'static str>,
    ) -> Access {
        let refusals = Arc::clone(&self.refusals);
        let driver = Guarded::new(driver, secret, refusals, self.clock);
        Access {
            driver: Arc::new(driver),
            trimmed_keys,
        }
    }

    /// The Secret's name and version, and its content. What the Secret held is wiped from memory afterwards.
    async fn credentials(
        &self,
        device: &FenceDevice,
    ) -> Result<((String, String), Credentials), DeviceError> {
        let Some(reference) = &device.spec.credentials_ref else {
            return Err(DeviceError::Settings {
                field: "credentialsRef",
                problem:
                    "it is not set; name a Secret with the keys `username` and `password` there"
                        .to_owned(),
            });
        };
        let name = &reference.name;
        let secret: Option<Secret> = self.read("Secret", name).await?;
        let secret = secret.ok_or_else(|| CredentialsError::NotFound {
            secret: name.clone(),
            namespace: self.namespace.clone(),
        })?;
        let version = secret.metadata.resource_version.unwrap_or_default();
        let annotations = secret.metadata.annotations.unwrap_or_default();
        let entries = secret.data.unwrap_or_default().into_iter();
        let mut data: BTreeMap<String, Vec<u8>> =
            entries.map(|(key, value)| (key, value.0)).collect();
        let credentials = Credentials::from_secret(name, &data, &annotations);
        data.values_mut().for_each(Zeroize::zeroize);
        Ok(((name.clone(), version), credentials?))
    }

    async fn verification(&self, tls: &TlsSettings) -> Result<CertificateCheck, DeviceError> {
        match tls.verification {
            TlsVerification::None => Ok(CertificateCheck::None),
            TlsVerification::Pinned => {
                let fingerprint = tls.sha256_fingerprint.as_deref().unwrap_or_default();
                let fingerprint = fingerprint.parse().map_err(|error| DeviceError::Settings {
                    field: "redfish.tls.sha256Fingerprint",
                    problem: format!("{error}"),
                })?;
                Ok(CertificateCheck::Pinned(fingerprint))
            }
            TlsVerification::Full => {
                let ca_bundle_pem = self.ca_bundle(tls).await?;
                Ok(CertificateCheck::Full { ca_bundle_pem })
            }
        }
    }

    async fn ca_bundle(&self, tls: &TlsSettings) -> Result<Option<Vec<u8>>, DeviceError> {
        let Some(reference) = &tls.ca_ref else {
            return Ok(None);
        };
        let invalid = |problem| DeviceError::Settings {
            field: "redfish.tls.caRef",
            problem,
        };
        let CaReference { kind, name, key } = reference;
        let (kind, value) = match kind {
            CaKind::ConfigMap => {
                let map: Option<ConfigMap> = self.read("ConfigMap", name).await?;
                let value = map.map(|map| {
                    let text = map.data.unwrap_or_default().remove(key);
                    let bytes = || Some(map.binary_data.unwrap_or_default().remove(key)?.0);
                    text.map(String::into_bytes).or_else(bytes)
                });
                ("ConfigMap", value)
            }
            CaKind::Secret => {
                let secret: Option<Secret> = self.read("Secret", name).await?;
                let value =
                    secret.map(|secret| Some(secret.data.unwrap_or_default().remove(key)?.0));
                ("Secret", value)
            }
        };
        match value {
            Some(Some(bundle)) => Ok(Some(bundle)),
            Some(None) => Err(invalid(format!(
                "{kind} `{name}` has no key `{key}`; put the CA's certificates there"
            ))),
            None => Err(invalid(format!(
                "{kind} `{name}` does not exist in namespace `{}`; create it with the CA's certificates in key `{key}`",
                self.namespace
            ))),
        }
    }

    /// Quorum GET by name.
    async fn read<K>(&self, kind: &str, name: &str) -> Result<Option<K>, DeviceError>
    where
        K: kube::Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>
            + Clone
            + Debug
            + serde::de::DeserializeOwned,
    {
        let api = Api::<K>::namespaced(self.client.clone(), &self.namespace);
        ask(api.get_opt(name))
            .await
            .map_err(|error| DeviceError::Cluster {
                object: format!("{kind} `{name}` in namespace `{}`", self.namespace),
                problem: error.to_string(),
            })
    }

    /// Waits until nobody else talks to the device, and keeps everybody else away until the guard is dropped.
    pub async fn turn(&self, driver: &dyn FenceDriver) -> OwnedMutexGuard<()> {
        self.turn_of(driver).lock_owned().await
    }

    /// The turn, if it is free now.
    pub fn turn_now(&self, driver: &dyn FenceDriver) -> Option<OwnedMutexGuard<()>> {
        self.turn_of(driver).try_lock_owned().ok()
    }

    fn turn_of(&self, driver: &dyn FenceDriver) -> Arc<Turn<()>> {
        self.turn_named(format!("target {}", driver.target()))
    }

    fn turn_named(&self, name: String) -> Arc<Turn<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        if turns.len() >= TURNS_KEPT {
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        }
        Arc::clone(turns.entry(name).or_default())
    }

    /// Compares all devices with each other, and returns the devices for which the outcome has changed. Until this has been
    /// done once, no device is believed.
    pub fn survey(&self, devices: &[&FenceDevice], nodes: &[NodeView]) -> BTreeSet<String> {
        let found = identity::duplicates(&wires(devices, nodes));
        let mut duplicates = self
            .duplicates
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let before = duplicates.replace(found.clone()).unwrap_or_default();
        let differs =
            |(pair, _): &(&(String, String), &String)| before.get(*pair) != found.get(*pair);
        let changed = found.iter().chain(&before).filter(differs);
        changed.map(|((device, _), _)| device.clone()).collect()
    }

    /// Why the device must not be used for this node: another node resolves to the same system (`DuplicateTarget`).
    pub fn duplicate(&self, device: &str, node: &str) -> Option<String> {
        let duplicates = self
            .duplicates
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        match &*duplicates {
            Some(duplicates) => duplicates
                .get(&(device.to_owned(), node.to_owned()))
                .cloned(),
            None => Some("the devices have not been compared with each other yet".to_owned()),
        }
    }

    /// Who must answer at this device when the node is fenced: [`identity_rule`], and nobody if two nodes share a system.
    pub fn identity_rule(&self, device: &FenceDevice, node: &NodeView) -> IdentityRule {
        let name = device.metadata.name.as_deref().unwrap_or_default();
        self.duplicate(name, &node.name)
            .map_or_else(|| identity_rule(device, node), IdentityRule::Refused)
    }
}

/// Turns that nobody waits for are thrown away once there are so many.
const TURNS_KEPT: usize = 1024;

/// FenceDevices that serve this node: `nodeName` names it, or `nodeSelector` matches its labels.
pub fn serving<'a>(devices: &'a [FenceDevice], node: &NodeView) -> Vec<&'a FenceDevice> {
    devices
        .iter()
        .filter(|device| serves(device, node))
        .collect()
}

/// Does the device serve this node?
pub fn serves(device: &FenceDevice, node: &NodeView) -> bool {
    match (&device.spec.node_name, &device.spec.node_selector) {
        (Some(name), None) => *name == node.name,
        (None, Some(selector)) => select::matches(selector, &node.labels),
        // Refused by the schema; an object that passed by it serves nobody.
        _ => false,
    }
}

/// Every (device, node) pair of the cluster, as far as it can be told from the objects alone.
fn wires(devices: &[&FenceDevice], nodes: &[NodeView]) -> Vec<Wire> {
    let by_name: HashMap<&str, &NodeView> = nodes
        .iter()
        .map(|node| (node.name.as_str(), node))
        .collect();
    let mut wires = Vec::new();
    for device in devices {
        let wire = |node: &NodeView| Wire {
            device: device.metadata.name.clone().unwrap_or_default(),
            node: node.name.clone(),
            target: target(device, &node.name),
            uuid: identity::pinned(device, node).map(|pin| pin.uuid.clone()),
        };
        match &device.spec.node_name {
            Some(name) => wires.extend(by_name.get(name.as_str()).map(|node| wire(node))),
            None => wires.extend(nodes.iter().filter(|node| serves(device, node)).map(wire)),
        }
    }
    wires
}

/// [`FenceDriver::target`], without reading a Secret; none when the settings name none.
fn target(device: &FenceDevice, node: &str) -> Option<String> {
    if let Some(ipmi) = &device.spec.ipmi {
        let address = Address::expand_host(&ipmi.address, ipmi.port, node).ok()?;
        return Some(ipmi::target(&address));
    }
    let redfish = device.spec.redfish.as_ref()?;
    let address = Address::expand(&redfish.address, node).ok()?;
    redfish::target(&address, redfish.system_id.as_deref()).ok()
}

#[cfg(test)]
mod tests;
