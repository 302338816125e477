//! The Redfish driver (DMTF DSP0266): reads `ComputerSystem.PowerState`, and sends `Reset` with `ForceOff` or `On`.
//!
//! Basic authentication and no Redfish session, because sessions leak when a client dies and BMCs have few. No `If-Match` on
//! the action, which some BMCs answer with 412. Only the state read afterwards says what a command has done: its answer,
//! its task and even "already off" are hearsay.

pub mod parse;
pub mod said;
mod session;
mod status;
pub mod survey;
mod task;

use super::address::{Address, AddressError, AddressRules};
use super::credentials::Credentials;
use super::error::printable;
use super::http::Target;
use super::past::Past;
use super::tls::{self, CertificateCheck};
use super::{Command, DeviceError, DriverKind, FenceDriver, FenceSession, NodeFacts, Parts};
use crate::clock::Clock;
use fencing_api::device::{RedfishDriver, TlsSettings};
use session::Session;
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::TlsConnector;

/// The collection of systems.
const SYSTEMS: &str = "/redfish/v1/Systems";
/// Systems named in an error, at most.
const SYSTEMS_LISTED_MAX: usize = 16;

/// All that is needed to talk to one system's Redfish service.
#[derive(Debug, Clone)]
pub struct RedfishSettings {
    /// Where it listens; `http://` only with [`CertificateCheck::None`].
    pub address: Address,
    /// Id of the system below `/redfish/v1/Systems/`, or its path from `/redfish/v1/` on; none where there is exactly one.
    pub system_id: Option<String>,
    /// How the certificate is checked.
    pub verification: CertificateCheck,
    /// User and password.
    pub credentials: Arc<Credentials>,
    /// Where credentials may go.
    pub rules: Arc<AddressRules>,
    /// Time for one whole call: name resolution, connection, TLS, all requests and answers. The connection for a command has as long
    /// once more.
    pub call_timeout: Duration,
    /// The same for the power-off command alone, 5 s (F12): what is not sent by then is not sent.
    pub command_timeout: Duration,
    /// What the sessions before have learned of the system.
    pub past: Past,
    /// Where the time comes from.
    pub clock: Clock,
}

/// A system behind a Redfish service.
#[derive(Debug, Clone)]
pub struct Redfish {
    target: Arc<Target>,
    /// Path of the system, where the settings name it.
    system: Option<String>,
    /// An expired certificate ends the connection.
    dates_count: bool,
    past: Past,
    call_timeout: Duration,
    command_timeout: Duration,
    clock: Clock,
}

impl Redfish {
    /// Checks the settings. Opens no connection.
    ///
    /// # Errors
    /// [`DeviceError::Settings`] names the field; [`DeviceError::Credentials`] when Basic authentication cannot carry the user.
    pub fn new(settings: RedfishSettings) -> Result<Self, DeviceError> {
        let invalid = |field, problem| DeviceError::Settings { field, problem };
        let RedfishSettings {
            address,
            verification,
            credentials,
            rules,
            clock,
            ..
        } = settings;
        credentials.basic()?;
        let tls = match (address.plaintext, &verification) {
            (false, _) => {
                let config = tls::client_config(&verification, clock.wall());
                let config = config.map_err(|error| invalid("tls.caRef", error.to_string()))?;
                Some(TlsConnector::from(Arc::new(config)))
            }
            (true, CertificateCheck::None) => None,
            (true, _) => {
                let problem = format!(
                    "{address} is plain http, which would show the password to the network; use https://"
                );
                return Err(invalid("redfish.address", problem));
            }
        };
        let system = settings.system_id.as_deref().map(system_path).transpose();
        Ok(Self {
            target: Arc::new(Target {
                address,
                tls,
                credentials,
                rules,
            }),
            dates_count: matches!(verification, CertificateCheck::Full { .. }),
            system: system.map_err(|problem| invalid("redfish.systemID", problem))?,
            past: settings.past,
            call_timeout: settings.call_timeout,
            command_timeout: settings.command_timeout,
            clock,
        })
    }
}

impl DriverKind for RedfishDriver {
    fn written(&self) -> &str {
        &self.address
    }

    fn expand(&self, node: &str) -> Result<Address, AddressError> {
        Address::expand(&self.address, node)
    }

    fn targets(&self, node: &NodeFacts) -> Vec<String> {
        let address = self.expand(&node.name).ok();
        // A path that is no system's is refused by the driver.
        let target = address.and_then(|it| target(&it, self.system_id.as_deref()).ok());
        target.into_iter().collect()
    }

    fn tls(&self) -> Option<&TlsSettings> {
        Some(&self.tls)
    }

    fn make(&self, parts: Parts) -> Result<Arc<dyn FenceDriver>, DeviceError> {
        Ok(Arc::new(Redfish::new(RedfishSettings {
            address: parts.address,
            system_id: self.system_id.clone(),
            verification: parts.verification,
            credentials: parts.credentials,
            rules: parts.rules,
            call_timeout: parts.call_timeout,
            command_timeout: parts.command_timeout,
            past: parts.past,
            clock: parts.clock,
        })?))
    }
}

/// [`FenceDriver::target`] of the device with these settings, without its credentials.
///
/// # Errors
/// What is wrong with the system's id.
pub fn target(address: &Address, system_id: Option<&str>) -> Result<String, String> {
    let system = system_id.map(system_path).transpose()?;
    Ok(target_of(address, system.as_deref()))
}

/// One text for one system: its id, and its path with escapes, with a slash at the end or with `systems`, which some services take too, are
/// the same. The service is asked by the path as it was given.
fn target_of(address: &Address, system: Option<&str>) -> String {
    let path = unescaped(system.unwrap_or_default());
    let path = path.trim_end_matches('/');
    match path.split_at_checked(SYSTEMS.len()) {
        Some((start, id)) if start.eq_ignore_ascii_case(SYSTEMS) => {
            format!("{address}{SYSTEMS}{id}")
        }
        _ => format!("{address}{path}"),
    }
}

/// The text with the characters that its escapes (`%31`) stand for, as far as they can be seen; the others in upper case (RFC 3986).
fn unescaped(path: &str) -> String {
    let mut text = String::new();
    let mut rest = path;
    while let Some((before, after)) = rest.split_once('%') {
        text.push_str(before);
        let code = after
            .get(..2)
            .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        text += &match code {
            Some(code) if code.is_ascii_graphic() => char::from(code).to_string(),
            Some(code) => format!("%{code:02X}"),
            None => "%".to_owned(),
        };
        rest = after.get(code.map_or(0, |_| 2)..).unwrap_or_default();
    }
    text + rest
}

impl FenceDriver for Redfish {
    fn name(&self) -> &'static str {
        "redfish"
    }

    fn target(&self) -> String {
        target_of(&self.target.address, self.system.as_deref())
    }

    fn open(&self) -> Box<dyn FenceSession> {
        Box::new(Session::new(self.clone()))
    }
}

/// What a command is called here.
fn reset_type(command: Command) -> &'static str {
    match command {
        Command::Off => parse::FORCE_OFF,
        Command::On => parse::ON,
    }
}

/// The path of a system that is given by its id or its path.
fn system_path(id: &str) -> Result<String, String> {
    if id.starts_with('/') {
        return parse::local_path(id);
    }
    if id.is_empty() || id.contains('/') {
        return Err(format!(
            "\"{}\" must be the `Id` of a system, or its path from /redfish/v1/ on",
            printable(id, 120)
        ));
    }
    parse::local_path(&format!("{SYSTEMS}/{id}"))
}
