//! The IPMI driver (IPMI v2.0 revision 1.1, over LAN): reads the chassis' power, and sends Chassis Control, power down.
//!
//! Written without I/O but for [`link`]: `codec` knows the bytes, `crypto` the keys, `session` when to say what, `conversation` what a
//! fence wants to know. A session authenticates and encrypts with exactly the cipher suite that the settings name, and the BMC has
//! to prove that it knows the password before anything that it says is believed. A BMC has few sessions, so each is closed, even
//! where a call is dropped half way.

pub mod codec;
mod conversation;
pub mod crypto;
mod link;
pub mod session;
mod words;

use super::address::{Address, AddressError, AddressRules};
use super::credentials::Credentials;
use super::past::Past;
use super::{DeviceError, DriverKind, FenceDriver, FenceSession, Parts};
use crate::clock::Clock;
use codec::rakp::Privilege;
use conversation::Conversation;
use crypto::Suite;
use fencing_api::bmcs::{IpmiDriver, IpmiPrivilege};
use std::sync::Arc;
use std::time::Duration;

/// All that is needed to talk to one BMC over IPMI.
#[derive(Debug, Clone)]
pub struct IpmiSettings {
    /// Where it listens, UDP.
    pub address: Address,
    /// Number of the cipher suite.
    pub cipher_suite: u32,
    /// What is asked for when the power is switched.
    pub privilege: IpmiPrivilege,
    /// User and password.
    pub credentials: Arc<Credentials>,
    /// Where credentials may go.
    pub rules: Arc<AddressRules>,
    /// Time for one whole call: name resolution, login, every datagram however often it is sent.
    pub call_timeout: Duration,
    /// The same for the power-off command alone, 5 s (F12): what is not sent by then is not sent.
    pub command_timeout: Duration,
    /// What the sessions before have learned of the machine.
    pub past: Past,
    /// Where the time comes from.
    pub clock: Clock,
}

/// A BMC that speaks IPMI.
#[derive(Debug, Clone)]
pub struct Ipmi {
    address: Address,
    suite: Suite,
    privilege: Privilege,
    credentials: Arc<Credentials>,
    rules: Arc<AddressRules>,
    call_timeout: Duration,
    command_timeout: Duration,
    past: Past,
    clock: Clock,
}

impl Ipmi {
    /// Checks the settings. Opens no socket.
    ///
    /// # Errors
    /// [`DeviceError::Settings`] names the field; [`DeviceError::Credentials`] when IPMI has no room for user or password.
    pub fn new(settings: IpmiSettings) -> Result<Self, DeviceError> {
        settings.credentials.ipmi()?;
        let suite = Suite::from_number(settings.cipher_suite);
        let suite = suite.ok_or_else(|| DeviceError::Settings {
            field: "ipmi.cipherSuite",
            problem: words::unusable_suite(settings.cipher_suite),
        })?;
        Ok(Self {
            address: settings.address,
            suite,
            privilege: match settings.privilege {
                IpmiPrivilege::Operator => Privilege::Operator,
                IpmiPrivilege::Administrator => Privilege::Administrator,
            },
            credentials: settings.credentials,
            rules: settings.rules,
            call_timeout: settings.call_timeout,
            command_timeout: settings.command_timeout,
            past: settings.past,
            clock: settings.clock,
        })
    }
}

impl DriverKind for IpmiDriver {
    fn written(&self) -> &str {
        &self.address
    }

    fn expand(&self, node: &str) -> Result<Address, AddressError> {
        Address::expand_host(&self.address, self.port, node)
    }

    fn make(&self, parts: Parts) -> Result<Arc<dyn FenceDriver>, DeviceError> {
        Ok(Arc::new(Ipmi::new(IpmiSettings {
            address: parts.address,
            cipher_suite: self.cipher_suite,
            privilege: self.privilege,
            credentials: parts.credentials,
            rules: parts.rules,
            call_timeout: parts.call_timeout,
            command_timeout: parts.command_timeout,
            past: parts.past,
            clock: parts.clock,
        })?))
    }
}

impl FenceDriver for Ipmi {
    fn name(&self) -> &'static str {
        "ipmi"
    }

    fn target(&self) -> String {
        self.address.to_string()
    }

    fn open(&self) -> Box<dyn FenceSession> {
        Box::new(Conversation::new(self.clone()))
    }
}
