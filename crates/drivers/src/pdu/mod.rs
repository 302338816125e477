//! The PDU driver: switches every outlet that feeds a machine off or on, and reads each of them again, over SNMP.
//!
//! A PDU does not know which machine hangs on an outlet, so nothing here can notice a plug in the wrong socket: `identityCheck`
//! is `Skip`, and whoever enters the outlets has tried them. In return it works when the machine and its BMC are both dark.
//!
//! A machine with two supplies on two PDUs has two FenceDevices, which stand in one level with `require: All`: then both are
//! switched, and both have to read off within the same window.

pub mod keyring;
mod link;
mod outlets;
mod session;
pub mod snmp;

use super::address::{Address, AddressError, AddressRules};
use super::credentials::Credentials;
use super::{DeviceError, DriverKind, FenceDriver, FenceSession, NodeFacts, Parts};
use crate::clock::Clock;
use fencing_api::pdu::{PduDriver, SnmpPrivacy, SnmpSettings, SnmpVersion};
use outlets::Outlets;
use session::Session;
use snmp::{Security, User, usm};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use zeroize::Zeroizing;

/// All that is needed to switch and read the outlets of one machine.
#[derive(Debug, Clone)]
pub struct PduSettings {
    /// Address, outlets and how to talk, as the user wrote them.
    pub driver: PduDriver,
    /// The values of [`secret_keys`].
    pub credentials: Arc<Credentials>,
    /// Where credentials may go.
    pub rules: Arc<AddressRules>,
    /// Time for one whole call: name resolution, all questions and answers.
    pub call_timeout: Duration,
    /// The same for the power-off command of all outlets, 5 s (F12): what is not sent by then is not sent.
    pub command_timeout: Duration,
    /// Where the time comes from.
    pub clock: Clock,
}

/// The outlets of one machine.
#[derive(Clone)]
pub struct Pdu {
    address: Address,
    outlets: Outlets,
    security: Arc<Security>,
    credentials: Arc<Credentials>,
    rules: Arc<AddressRules>,
    call_timeout: Duration,
    command_timeout: Duration,
    clock: Clock,
}

impl Pdu {
    /// Checks the settings. Opens no socket.
    ///
    /// # Errors
    /// [`DeviceError::Settings`] names the field; [`DeviceError::Credentials`] when SNMP cannot carry a value.
    pub fn new(settings: PduSettings) -> Result<Self, DeviceError> {
        let login = Login::new(&settings.driver.snmp, &settings.credentials)?;
        Self::with_login(settings, login)
    }

    /// The same, with a login that these credentials have made before.
    ///
    /// # Errors
    /// [`DeviceError::Settings`] names the field.
    pub fn with_login(settings: PduSettings, login: Login) -> Result<Self, DeviceError> {
        let PduSettings {
            driver,
            credentials,
            rules,
            call_timeout,
            command_timeout,
            clock,
        } = settings;
        let outlets = Outlets::new(&driver)
            .map_err(|(field, problem)| DeviceError::Settings { field, problem })?;
        Ok(Self {
            address: address(&driver)?,
            outlets,
            security: login.0,
            credentials,
            rules,
            call_timeout,
            command_timeout,
            clock,
        })
    }
}

/// What opens a PDU, out of a Secret and `pdu.snmp`. The keys of SNMPv3 are hashed out of a mebibyte for each password, which is worth
/// doing once and not at each look. Wiped from memory with its last clone.
#[derive(Clone)]
pub struct Login(Arc<Security>);

impl Login {
    /// Makes the keys, which takes some milliseconds.
    ///
    /// # Errors
    /// [`DeviceError::Credentials`] when SNMP cannot carry a value.
    pub fn new(snmp: &SnmpSettings, credentials: &Credentials) -> Result<Self, DeviceError> {
        Ok(Self(Arc::new(security(snmp, credentials)?)))
    }

    /// Tells a test whether the keys are still in memory.
    #[cfg(any(test, feature = "testing"))]
    pub fn watch(&self) -> std::sync::Weak<impl Sized + use<>> {
        Arc::downgrade(&self.0)
    }
}

/// Shows nothing.
impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").finish_non_exhaustive()
    }
}

impl fmt::Debug for Pdu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pdu")
            .field("address", &self.address)
            .field("outlets", &self.outlets)
            .finish_non_exhaustive()
    }
}

/// The keys of the Secret that these settings need.
#[must_use]
pub fn secret_keys(snmp: &SnmpSettings) -> &'static [&'static str] {
    match (snmp.version, snmp.privacy) {
        (SnmpVersion::V2c, _) => &["community"],
        (SnmpVersion::V3, SnmpPrivacy::None) => &["username", "authPassword"],
        (SnmpVersion::V3, SnmpPrivacy::AES128) => &["username", "authPassword", "privPassword"],
    }
}

/// Where the PDU listens.
///
/// # Errors
/// [`AddressError`] names the rule.
pub fn address(driver: &PduDriver) -> Result<Address, AddressError> {
    // The outlets of a PDU belong to one node, so there is nothing to expand.
    Address::expand_host(&driver.address, driver.port, "")
}

/// Each outlet, so that two nodes that share one are noticed.
///
/// # Errors
/// [`AddressError`] names the rule.
pub fn targets(driver: &PduDriver) -> Result<Vec<String>, AddressError> {
    let address = address(driver)?;
    let numbers = || {
        driver
            .outlets
            .iter()
            .map(|outlet| format!("outlet {outlet}"))
    };
    let outlets =
        Outlets::new(driver).map_or_else(|_| numbers().collect(), |outlets| outlets.names());
    let target = |outlet: String| format!("{address} {outlet}");
    Ok(outlets.into_iter().map(target).collect())
}

fn security(snmp: &SnmpSettings, credentials: &Credentials) -> Result<Security, DeviceError> {
    if snmp.version == SnmpVersion::V2c {
        let community = credentials.value("community").to_owned();
        return Ok(Security::Community(Zeroizing::new(community)));
    }
    let user = credentials.value("username");
    if user.len() > usm::USER_BYTES_MAX {
        let problem = format!(
            "it has {} bytes, and SNMP allows {}",
            user.len(),
            usm::USER_BYTES_MAX
        );
        return Err(credentials.refuse("username", &problem).into());
    }
    for key in secret_keys(snmp).iter().copied().skip(1) {
        let length = credentials.value(key).len();
        if length < usm::PASSWORD_BYTES_MIN {
            let problem = format!(
                "it has {length} bytes, and SNMPv3 wants at least {}",
                usm::PASSWORD_BYTES_MIN
            );
            return Err(credentials.refuse(key, &problem).into());
        }
    }
    Ok(Security::User(User::new(
        user,
        snmp.authentication,
        credentials.value("authPassword"),
        snmp.privacy,
        credentials.value("privPassword"),
    )))
}

impl DriverKind for PduDriver {
    fn credential_keys(&self) -> &'static [&'static str] {
        secret_keys(&self.snmp)
    }

    fn written(&self) -> &str {
        &self.address
    }

    fn expand(&self, _: &str) -> Result<Address, AddressError> {
        address(self)
    }

    fn targets(&self, _: &NodeFacts) -> Vec<String> {
        targets(self).unwrap_or_default()
    }

    fn make(&self, parts: Parts) -> Result<Arc<dyn FenceDriver>, DeviceError> {
        let login = parts
            .keyring
            .login(&parts.secret, &self.snmp, &parts.credentials)?;
        let settings = PduSettings {
            driver: self.clone(),
            credentials: parts.credentials,
            rules: parts.rules,
            call_timeout: parts.call_timeout,
            command_timeout: parts.command_timeout,
            clock: parts.clock,
        };
        Ok(Arc::new(Pdu::with_login(settings, login)?))
    }
}

impl FenceDriver for Pdu {
    fn name(&self) -> &'static str {
        "pdu"
    }

    fn target(&self) -> String {
        format!("{}/{}", self.address, self.outlets.names().join(", "))
    }

    fn endpoint(&self) -> String {
        self.address.to_string()
    }

    fn open(&self) -> Box<dyn FenceSession> {
        Box::new(Session::new(self.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two devices that name one outlet in two lists are noticed by it.
    #[test]
    fn each_outlet_is_a_target_of_its_own() {
        let of = |outlets: &[u32]| {
            let driver =
                serde_json::json!({"address": "PDU-1", "model": "APCRackPDU", "outlets": outlets});
            targets(&serde_json::from_value(driver).unwrap()).unwrap()
        };
        assert_eq!(of(&[3, 7]), ["pdu-1:161 outlet 3", "pdu-1:161 outlet 7"]);
        assert_eq!(of(&[7, 8]).first(), of(&[3, 7]).last());
    }
}
