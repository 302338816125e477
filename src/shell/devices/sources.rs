//! What a driver needs of the cluster: what opens the device, from its Secret, and who may answer there, from its CA. By name, in the
//! operator's own namespace, and nothing else.

use super::access::Maker;
use super::recent::Freshness;
use fencing_api::device::{FenceDevice, TlsSettings, TlsVerification};
use fencing_api::tls::{CaKind, CaReference};
use fencing_cluster::client::ask;
use fencing_drivers::DeviceError;
use fencing_drivers::address::AddressError;
use fencing_drivers::credentials::{Credentials, CredentialsError, Digest, OPTIONAL_KEYS};
use fencing_drivers::tls::CertificateCheck;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use zeroize::Zeroize;

/// Where Secrets and ConfigMaps are kept, which tells what to do about one that is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    /// In the operator's namespace.
    InCluster,
    /// In the files of `probe FILE`.
    InFiles,
}

/// What a Secret holds.
#[derive(Clone)]
pub(super) struct Opened {
    /// Name and `resourceVersion` of the Secret.
    pub(super) secret: (String, String),
    /// What it says, without saying it.
    pub(super) content: Digest,
    /// What it says.
    pub(super) credentials: Arc<Credentials>,
}

impl Maker {
    /// What the device's Secret holds under these keys. What was read to find it is wiped from memory afterwards.
    pub(super) async fn opened(
        &self,
        device: &FenceDevice,
        keys: &'static [&'static str],
        freshness: Freshness,
    ) -> Result<Opened, DeviceError> {
        let needed: Vec<&str> = keys
            .iter()
            .filter(|key| !OPTIONAL_KEYS.contains(*key))
            .copied()
            .collect();
        let wanted = format!("`{}`", needed.join("`, `"));
        let Some(reference) = &device.spec.credentials_ref else {
            return Err(DeviceError::Settings {
                field: "credentialsRef",
                problem: format!("it is not set; name a Secret there with the keys {wanted}"),
            });
        };
        let name = &reference.name;
        let (from, now) = ((name.clone(), keys), self.clock.since_boot());
        if let Some(opened) = self.opened.get(&from, freshness, now) {
            return Ok(opened);
        }
        let secret: Option<Secret> = self.read("Secret", name).await?;
        let secret = secret.ok_or_else(|| self.without(name.clone(), wanted))?;
        let version = secret.metadata.resource_version.unwrap_or_default();
        let annotations = secret.metadata.annotations.unwrap_or_default();
        let entries = secret.data.unwrap_or_default().into_iter();
        let mut data: BTreeMap<String, Vec<u8>> =
            entries.map(|(key, value)| (key, value.0)).collect();
        let credentials = Credentials::with_keys(name, keys, &data, &annotations);
        data.values_mut().for_each(Zeroize::zeroize);
        let credentials = credentials?;
        if self.rules.requires_hosts() && !credentials.names_hosts() {
            let (secret, because) = (name.clone(), "--require-allowed-hosts asks for it");
            return Err(AddressError::Unbounded { secret, because }.into());
        }
        let opened = Opened {
            secret: (name.clone(), version),
            content: credentials.digest(&self.key),
            credentials: Arc::new(credentials),
        };
        self.opened.put(from, now, &opened);
        Ok(opened)
    }

    /// Of a device that names no Secret, because the operator's own pod opens it.
    pub(super) fn of_pod(&self) -> Opened {
        let credentials = Credentials::nobody();
        Opened {
            secret: Default::default(),
            content: credentials.digest(&self.key),
            credentials: Arc::new(credentials),
        }
    }

    /// There is no such Secret.
    fn without(&self, secret: String, keys: String) -> CredentialsError {
        match self.kept {
            Kept::InCluster => CredentialsError::NotFound {
                secret,
                namespace: self.namespace.clone(),
                keys,
            },
            Kept::InFiles => CredentialsError::NotInFiles { secret, keys },
        }
    }

    /// How the device's certificate is checked, where it has one.
    pub(super) async fn verification(
        &self,
        tls: Option<&TlsSettings>,
        freshness: Freshness,
    ) -> Result<CertificateCheck, DeviceError> {
        let Some(tls) = tls else {
            return Ok(CertificateCheck::None);
        };
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
                let ca_bundle_pem = match &tls.ca_ref {
                    Some(reference) => Some(self.ca_bundle(reference, freshness).await?),
                    None => None,
                };
                Ok(CertificateCheck::Full { ca_bundle_pem })
            }
        }
    }

    async fn ca_bundle(
        &self,
        reference: &CaReference,
        freshness: Freshness,
    ) -> Result<Vec<u8>, DeviceError> {
        let now = self.clock.since_boot();
        if let Some(bundle) = self.bundles.get(reference, freshness, now) {
            return Ok(bundle);
        }
        let invalid = |problem| DeviceError::Settings {
            field: "tls.caRef",
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
            Some(Some(bundle)) => {
                self.bundles.put(reference.clone(), now, &bundle);
                Ok(bundle)
            }
            Some(None) => Err(invalid(format!(
                "{kind} `{name}` has no key `{key}`; put the CA's certificates there"
            ))),
            None => Err(invalid(match self.kept {
                Kept::InCluster => format!(
                    "{kind} `{name}` does not exist in namespace `{}`; create it with the CA's certificates in key `{key}`",
                    self.namespace
                ),
                Kept::InFiles => format!(
                    "{kind} `{name}` is not in the files; add it with the CA's certificates in key `{key}`, after a line `---` or in the file of --secret"
                ),
            })),
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
