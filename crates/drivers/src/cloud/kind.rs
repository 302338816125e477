//! What the settings of all providers have in common.

use super::{Cloud, MachineId, Provider};
use crate::address::{Address, AddressError};
use crate::credentials::Credentials;
use crate::{DeviceError, DriverKind, FenceDriver, NodeFacts, Parts};
use fencing_api::device::{TlsSettings, TlsVerification};
use std::sync::Arc;

/// The names of a driver's fields with its address and its CA, for messages.
#[derive(Debug, Clone, Copy)]
pub struct Fields {
    /// The address.
    pub address: &'static str,
    /// The CA.
    pub ca: &'static str,
}

/// The settings of a provider.
pub trait CloudKind: Sync {
    /// Its page.
    type Provider: Provider;
    /// The keys of its Secret.
    const KEYS: &'static [&'static str];
    /// Does it need one? Without it the operator's own pod is what opens the provider.
    const NEEDS_SECRET: bool = true;
    /// Names of its fields.
    const FIELDS: Fields;

    /// Its address as it was written.
    fn url(&self) -> &str;

    /// The same, read.
    ///
    /// # Errors
    /// [`AddressError`] names the rule.
    fn address(&self) -> Result<Address, AddressError> {
        Address::parse(split(self.url()).0)
    }

    /// How its certificate is checked.
    fn certificate(&self) -> &TlsSettings;

    /// Its page with these settings.
    fn provider(&self) -> Self::Provider;

    /// Can the values of the Secret be sent at all?
    ///
    /// # Errors
    /// What is wrong with one, without the value.
    fn check(_: &Credentials) -> Result<(), DeviceError> {
        Ok(())
    }
}

/// May whoever answers there be sent what the operator's own pod was given? Only one whose certificate is checked in full, or this host itself.
pub(super) fn is_checked(settings: &impl CloudKind) -> bool {
    settings.address().is_ok_and(|at| match at.plaintext {
        true => at.literal().is_some_and(|ip| ip.is_loopback()),
        false => is_known_to_the_system(settings.certificate()),
    })
}

/// Is the certificate checked in full, by the authorities of the operator's own system? One of the settings may sign for any name, and whoever holds
/// its key may then answer for the provider.
pub(super) fn is_known_to_the_system(certificate: &TlsSettings) -> bool {
    certificate.verification == TlsVerification::Full && certificate.ca_ref.is_none()
}

/// Settings that have an `address` and `tls`: their page, the keys of their Secret, and their name.
macro_rules! addressed {
    ($settings:ty, $page:expr => $provider:ty, $keys:expr, $name:literal $(, $($more:tt)*)?) => {
        impl $crate::cloud::kind::CloudKind for $settings {
            type Provider = $provider;
            const KEYS: &'static [&'static str] = &$keys;
            const FIELDS: $crate::cloud::kind::Fields = $crate::cloud::kind::Fields {
                address: concat!($name, ".address"),
                ca: concat!($name, ".tls.caRef"),
            };

            fn url(&self) -> &str {
                &self.address
            }

            fn certificate(&self) -> &fencing_api::device::TlsSettings {
                &self.tls
            }

            fn provider(&self) -> $provider {
                $page
            }

            $($($more)*)?
        }
    };
}
pub(super) use addressed;

impl<K: CloudKind> DriverKind for K {
    fn credential_keys(&self) -> &'static [&'static str] {
        K::KEYS
    }

    fn needs_secret(&self) -> bool {
        K::NEEDS_SECRET
    }

    fn written(&self) -> &str {
        self.url()
    }

    fn expand(&self, _: &str) -> Result<Address, AddressError> {
        self.address()
    }

    fn targets(&self, node: &NodeFacts) -> Vec<String> {
        let address = self.expand(&node.name).ok();
        let id = self.provider().machine(node).ok();
        let named = address.zip(id).map(|(address, id)| target(&address, &id));
        named.into_iter().collect()
    }

    fn tls(&self) -> Option<&TlsSettings> {
        Some(self.certificate())
    }

    fn make(&self, parts: Parts) -> Result<Arc<dyn FenceDriver>, DeviceError> {
        K::check(&parts.credentials)?;
        Ok(Arc::new(Cloud::new(self.provider(), K::FIELDS, parts)?))
    }
}

/// [`FenceDriver::target`] of this machine.
pub(super) fn target(address: &Address, id: &MachineId) -> String {
    format!("{address}/{}", id.id)
}

/// A URL as its origin and its path.
pub(super) fn split(url: &str) -> (&str, &str) {
    let authority = url.find("://").map_or(0, |at| at + 3);
    let path = url.get(authority..).and_then(|rest| rest.find('/'));
    url.split_at_checked(path.map_or(url.len(), |path| authority + path))
        .unwrap_or((url, ""))
}
