//! From a FenceDevice to the driver for one node: its settings judged, its Secret and its CA read by name.

use super::keyring::Keyring;
use super::renewal::Renewing;
use super::{Devices, group_name};
use crate::api::device::{FenceDevice, FenceDeviceSpec, TlsSettings, TlsVerification};
use crate::api::drivers::{CaKind, CaReference, IpmiDriver, RedfishDriver};
use crate::api::pdu::PduDriver;
use crate::clock::Clock;
use crate::fence::address::{Address, AddressRules};
use crate::fence::credentials::{Credentials, CredentialsError, Digest, LOGIN};
use crate::fence::ipmi::{self, Ipmi, IpmiSettings};
use crate::fence::manual::Manual;
use crate::fence::pdu::{self, Pdu, PduSettings};
use crate::fence::redfish::{self, Redfish, RedfishSettings};
use crate::fence::tls::CertificateCheck;
use crate::fence::{DeviceError, FenceDriver};
use crate::shell::client::ask;
use crate::shell::lockout::{Guarded, Login, Refusals};
use crate::shell::resolve;
use crate::shell::serialized::Serialized;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use zeroize::Zeroize;

/// A power-off command that is not sent by then is not sent (F12).
const COMMAND_TIMEOUT: Duration = Duration::from_secs(5);

/// A driver, and what was noticed on the way to it.
pub struct Access {
    /// The driver.
    pub driver: Arc<dyn FenceDriver>,
    /// Keys of the Secret whose value ended in a newline, which was dropped.
    pub trimmed_keys: Vec<&'static str>,
    /// What the Secret says; none: it needs none.
    pub(super) content: Option<Digest>,
}

/// Where credentials come from.
struct Origin {
    /// Name and `resourceVersion` of the Secret.
    secret: (String, String),
    content: Digest,
    trimmed_keys: Vec<&'static str>,
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
        Ok(self.access(device, node).await?.driver)
    }

    /// As [`Devices::driver`], with what was noticed on the way.
    ///
    /// # Errors
    /// [`DeviceError`], with nothing sent to any device.
    pub async fn access(&self, device: &FenceDevice, node: &str) -> Result<Access, DeviceError> {
        let mut access = self.maker.make(device, node).await?;
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
    /// Reads Secrets and ConfigMaps.
    pub(super) client: Client,
    /// Where these are.
    pub(super) namespace: String,
    /// Where credentials may go.
    pub(super) rules: Arc<AddressRules>,
    /// Where the time comes from.
    pub(super) clock: Clock,
    /// Logins that were refused, of all accounts.
    pub(super) refusals: Arc<Refusals>,
    /// What SNMPv3 makes of Secrets.
    pub(super) keyring: Keyring,
    /// [`resolve::version`] of the FenceDevices as they are by now, by name.
    pub(super) versions: RwLock<HashMap<String, String>>,
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

    /// A driver with the Secret as it is now.
    pub(super) async fn make(
        &self,
        device: &FenceDevice,
        node: &str,
    ) -> Result<Access, DeviceError> {
        match &device.spec {
            FenceDeviceSpec {
                redfish: Some(redfish),
                ..
            } => self.redfish(device, redfish, node).await,
            FenceDeviceSpec {
                ipmi: Some(ipmi), ..
            } => self.ipmi(device, ipmi, node).await,
            FenceDeviceSpec { pdu: Some(pdu), .. } => self.pdu(device, pdu).await,
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

    async fn pdu(&self, device: &FenceDevice, pdu: &PduDriver) -> Result<Access, DeviceError> {
        let address = pdu::address(pdu)?;
        self.judge(&address)?;
        let keys = pdu::secret_keys(&pdu.snmp);
        let found = self.credentials(device, keys).await;
        let (origin, credentials) = found.inspect_err(|error| {
            // A Secret that is gone or spoilt opens nothing any more, and what it opened before is no longer needed.
            if let (DeviceError::Credentials(_), Some(of)) = (error, &device.spec.credentials_ref) {
                self.keyring.forget(&of.name);
            }
        })?;
        let login = self
            .keyring
            .login(&origin.secret, &pdu.snmp, &credentials)?;
        let settings = PduSettings {
            driver: pdu.clone(),
            credentials: Arc::new(credentials),
            rules: Arc::clone(&self.rules),
            call_timeout: call_timeout(device),
            command_timeout: COMMAND_TIMEOUT,
            clock: self.clock,
        };
        let driver = Pdu::with_login(settings, login)?;
        Ok(self.guarded(driver, &address, origin))
    }

    async fn redfish(
        &self,
        device: &FenceDevice,
        redfish: &RedfishDriver,
        node: &str,
    ) -> Result<Access, DeviceError> {
        let address = Address::expand(&redfish.address, node)?;
        self.judge(&address)?;
        let (credentials, verification) = tokio::join!(
            self.credentials(device, &LOGIN),
            self.verification(&redfish.tls)
        );
        let (origin, credentials) = credentials?;
        let driver = Redfish::new(RedfishSettings {
            address: address.clone(),
            system_id: redfish.system_id.clone(),
            verification: verification?,
            credentials: Arc::new(credentials),
            rules: Arc::clone(&self.rules),
            call_timeout: call_timeout(device),
            command_timeout: COMMAND_TIMEOUT,
            clock: self.clock,
        })?;
        Ok(self.guarded(driver, &address, origin))
    }

    async fn ipmi(
        &self,
        device: &FenceDevice,
        ipmi: &IpmiDriver,
        node: &str,
    ) -> Result<Access, DeviceError> {
        let address = Address::expand_host(&ipmi.address, ipmi.port, node)?;
        self.judge(&address)?;
        let (origin, credentials) = self.credentials(device, &LOGIN).await?;
        let driver = Ipmi::new(IpmiSettings {
            address: address.clone(),
            cipher_suite: ipmi.cipher_suite,
            privilege: ipmi.privilege,
            credentials: Arc::new(credentials),
            rules: Arc::clone(&self.rules),
            call_timeout: call_timeout(device),
            command_timeout: COMMAND_TIMEOUT,
            clock: self.clock,
        })?;
        Ok(self.guarded(driver, &address, origin))
    }

    /// An address that is no name is judged before the Secret is even read.
    fn judge(&self, address: &Address) -> Result<(), DeviceError> {
        match address.literal() {
            Some(literal) => Ok(self.rules.judge(&address.host, literal)?),
            None => Ok(()),
        }
    }

    /// The driver, which logs in at this address, with its refusals counted.
    fn guarded(
        &self,
        driver: impl FenceDriver + 'static,
        address: &Address,
        origin: Origin,
    ) -> Access {
        let (secret, _) = origin.secret;
        let login = Login::new(address, secret, origin.content);
        let refusals = Arc::clone(&self.refusals);
        Access {
            driver: Arc::new(Guarded::new(Arc::new(driver), login, refusals, self.clock)),
            trimmed_keys: origin.trimmed_keys,
            content: Some(origin.content),
        }
    }

    /// What the Secret holds, and what tells it from others. What the Secret held is wiped from memory afterwards.
    async fn credentials(
        &self,
        device: &FenceDevice,
        keys: &[&'static str],
    ) -> Result<(Origin, Credentials), DeviceError> {
        let wanted = format!("`{}`", keys.join("`, `"));
        let Some(reference) = &device.spec.credentials_ref else {
            return Err(DeviceError::Settings {
                field: "credentialsRef",
                problem: format!("it is not set; name a Secret there with the keys {wanted}"),
            });
        };
        let name = &reference.name;
        let secret: Option<Secret> = self.read("Secret", name).await?;
        let secret = secret.ok_or_else(|| CredentialsError::NotFound {
            secret: name.clone(),
            namespace: self.namespace.clone(),
            keys: wanted,
        })?;
        let version = secret.metadata.resource_version.unwrap_or_default();
        let annotations = secret.metadata.annotations.unwrap_or_default();
        let entries = secret.data.unwrap_or_default().into_iter();
        let mut data: BTreeMap<String, Vec<u8>> =
            entries.map(|(key, value)| (key, value.0)).collect();
        let credentials = Credentials::with_keys(name, keys, &data, &annotations);
        data.values_mut().for_each(Zeroize::zeroize);
        let credentials = credentials?;
        let origin = Origin {
            secret: (name.clone(), version),
            content: self.refusals.digest(&credentials),
            trimmed_keys: credentials.trimmed_keys().to_vec(),
        };
        Ok((origin, credentials))
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
}

/// What the device controls, as its settings name it, without reading a Secret; nothing when they name nothing.
pub fn targets(device: &FenceDevice, node: &str) -> Vec<String> {
    let target = match &device.spec {
        FenceDeviceSpec { pdu: Some(pdu), .. } => return pdu::targets(pdu).unwrap_or_default(),
        FenceDeviceSpec {
            ipmi: Some(ipmi), ..
        } => Address::expand_host(&ipmi.address, ipmi.port, node)
            .ok()
            .map(|address| ipmi::target(&address)),
        FenceDeviceSpec {
            redfish: Some(redfish),
            ..
        } => Address::expand(&redfish.address, node)
            .ok()
            .and_then(|address| redfish::target(&address, redfish.system_id.as_deref()).ok()),
        _ => None,
    };
    target.into_iter().collect()
}

/// How long one call to the device may take.
fn call_timeout(device: &FenceDevice) -> Duration {
    Duration::from_secs(device.spec.probe.timeout_seconds.into())
}
