//! A kind of device: what the operator knows of a driver by its settings alone, and how it makes one.

use super::address::{Address, AddressError, AddressRules};
use super::cloud::account::Accounts;
use super::credentials::{Credentials, LOGIN};
use super::pdu::keyring::Keyring;
use super::tls::CertificateCheck;
use super::{DeviceError, FenceDriver};
use crate::clock::Clock;
use crate::past::Past;
use fencing_api::device::TlsSettings;
use fencing_core::observed::NodeView;
use std::sync::Arc;
use std::time::Duration;

/// The settings of a driver, as a user writes them in a FenceDevice. `node` is the name of the node that the driver is for.
pub trait DriverKind: Sync {
    /// The keys of the Secret that opens the device.
    fn credential_keys(&self) -> &'static [&'static str] {
        &LOGIN
    }

    /// Does it need a Secret at all?
    fn needs_secret(&self) -> bool {
        true
    }

    /// Where the device listens, as the user wrote it.
    fn written(&self) -> &str;

    /// The same for this node.
    ///
    /// # Errors
    /// [`AddressError`] names the rule.
    fn expand(&self, node: &str) -> Result<Address, AddressError>;

    /// What the device controls, so that two nodes that share it are noticed; nothing where settings and Node name nothing.
    fn targets(&self, node: &NodeFacts) -> Vec<String> {
        let address = self.expand(&node.name).ok();
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

/// What a driver knows of the Node whose machine it controls. All of it was written by others: a kubelet may set a provider ID on a Node
/// that it creates, so that a machine found by it is still compared with the one that was pinned.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct NodeFacts {
    /// Its name.
    pub name: String,
    /// `spec.providerID`; empty if it has none.
    pub provider_id: String,
    /// `status.nodeInfo.systemUUID`; empty if it reports none.
    pub system_uuid: String,
    /// The IP addresses in `status.addresses`.
    pub addresses: Vec<String>,
}

impl NodeFacts {
    /// Of a Node of which no more than its name is known.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..Self::default()
        }
    }
}

impl From<&NodeView> for NodeFacts {
    fn from(node: &NodeView) -> Self {
        Self {
            name: node.name.clone(),
            provider_id: node.provider_id.clone(),
            system_uuid: node.system_uuid.clone(),
            addresses: node.addresses.clone(),
        }
    }
}

/// What a driver is made of, beside its settings.
#[derive(Debug, Clone)]
pub struct Parts {
    /// The Node whose machine it is.
    pub node: NodeFacts,
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
    /// What the logins at clouds and hypervisors share.
    pub accounts: Arc<Accounts>,
    /// Where the time comes from.
    pub clock: Clock,
}
