//! A kind of device: what the operator knows of a driver by its settings alone, and how it makes one.

use super::address::{Address, AddressError, AddressRules};
use super::credentials::{Credentials, LOGIN};
use super::pdu::keyring::Keyring;
use super::tls::CertificateCheck;
use super::{DeviceError, FenceDriver};
use crate::clock::Clock;
use crate::past::Past;
use fencing_api::device::TlsSettings;
use std::sync::Arc;
use std::time::Duration;

/// The settings of a driver, as a user writes them in a FenceDevice. `node` is the name of the node that the driver is for.
pub trait DriverKind: Sync {
    /// The keys of the Secret that opens the device.
    fn credential_keys(&self) -> &'static [&'static str] {
        &LOGIN
    }

    /// Where the device listens, as the user wrote it.
    fn written(&self) -> &str;

    /// The same for this node.
    ///
    /// # Errors
    /// [`AddressError`] names the rule.
    fn expand(&self, node: &str) -> Result<Address, AddressError>;

    /// What the device controls, so that two nodes that share it are noticed; nothing where the settings name nothing.
    fn targets(&self, node: &str) -> Vec<String> {
        let address = self.expand(node).ok();
        address.iter().map(Address::to_string).collect()
    }

    /// How its certificate is checked; none: it has none.
    fn tls(&self) -> Option<&TlsSettings> {
        None
    }

    /// The driver. Opens no connection.
    ///
    /// # Errors
    /// [`DeviceError`] names the field, or what is wrong with a value of the Secret.
    fn make(&self, parts: Parts) -> Result<Arc<dyn FenceDriver>, DeviceError>;
}

/// What a driver is made of, beside its settings.
#[derive(Debug, Clone)]
pub struct Parts {
    /// Where the device listens ([`DriverKind::expand`]).
    pub address: Address,
    /// Name and `resourceVersion` of the Secret.
    pub secret: (String, String),
    /// What it holds under [`DriverKind::credential_keys`].
    pub credentials: Arc<Credentials>,
    /// How the certificate is checked ([`DriverKind::tls`]).
    pub verification: CertificateCheck,
    /// Where credentials may go.
    pub rules: Arc<AddressRules>,
    /// Time for one whole call.
    pub call_timeout: Duration,
    /// The same for a power command alone.
    pub command_timeout: Duration,
    /// What the sessions before have learned.
    pub past: Past,
    /// What SNMPv3 makes of Secrets.
    pub keyring: Arc<Keyring>,
    /// Where the time comes from.
    pub clock: Clock,
}
