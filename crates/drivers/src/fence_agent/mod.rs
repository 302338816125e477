//! The driver for ClusterLabs' fence agents: programs that turn the machine behind some kind of device off, on, or read it.
//!
//! What an agent does is its own: it sends nothing where its first reading is off, and calls that a success; some call anything off that is
//! not on. So an agent is only believed in what its `status` reads, and that is judged as any other reading. Its `off` is a command that may or may
//! not have been sent. Which agents are run at all is a list ([`reviewed`]).
//!
//! No agent knows its machine, so nothing here can notice a wrong address or outlet: `identityCheck` is `Skip`, as for a PDU.

mod answers;
mod given;
#[cfg(target_os = "linux")]
mod process;
#[cfg(not(target_os = "linux"))]
#[path = "no_process.rs"]
mod process;
mod reviewed;
mod run;
mod session;
mod turns;

use super::address::{Address, AddressError, AddressRules};
use super::credentials::Credentials;
use super::{DeviceError, DriverKind, FenceDriver, FenceSession, NodeFacts, Parts};
use crate::clock::Clock;
use fencing_api::fence_agent::FenceAgentDriver;
use given::Given;
use reviewed::Agent;
use session::Session;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Where Debian's package has the agents.
pub const DIRECTORY: &str = "/usr/sbin";
/// The port in messages and targets of an agent that is not run.
const NO_PORT: u16 = 0;

/// All that is needed to run an agent for one machine.
#[derive(Debug, Clone)]
pub struct FenceAgentSettings {
    /// Agent and parameters, as the user wrote them.
    pub driver: FenceAgentDriver,
    /// The values of [`DriverKind::credential_keys`].
    pub credentials: Arc<Credentials>,
    /// Where credentials may go.
    pub rules: Arc<AddressRules>,
    /// Time for one whole call: name resolution, the agent's turn, the agent.
    pub call_timeout: Duration,
    /// The same for a power command, 5 s (F12).
    pub command_timeout: Duration,
    /// Where the time comes from.
    pub clock: Clock,
    /// Where the agents are: [`DIRECTORY`], except in tests.
    pub directory: PathBuf,
}

/// An agent for one machine.
#[derive(Clone)]
pub struct FenceAgent {
    agent: &'static Agent,
    program: PathBuf,
    address: Address,
    plug: Option<String>,
    given: Arc<Given>,
    credentials: Arc<Credentials>,
    rules: Arc<AddressRules>,
    call_timeout: Duration,
    command_timeout: Duration,
    clock: Clock,
}

impl FenceAgent {
    /// Checks the settings. Runs nothing.
    ///
    /// # Errors
    /// [`DeviceError::Settings`] names the field, [`DeviceError::Credentials`] the key.
    pub fn new(settings: FenceAgentSettings) -> Result<Self, DeviceError> {
        let FenceAgentSettings {
            driver,
            credentials,
            rules,
            call_timeout,
            command_timeout,
            clock,
            directory,
        } = settings;
        let agent = reviewed::find(&driver.agent).map_err(|why| DeviceError::Settings {
            field: "fenceAgent.agent",
            problem: format!("{} is not run: {why}", driver.agent.escape_debug()),
        })?;
        Ok(Self {
            agent,
            program: directory.join(agent.name),
            address: address(&driver)?,
            plug: given::plug(&driver).map(str::to_owned),
            given: Arc::new(Given::new(&driver, agent, &credentials)?),
            credentials,
            rules,
            call_timeout,
            command_timeout,
            clock,
        })
    }
}

impl fmt::Debug for FenceAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FenceAgent")
            .field("agent", &self.agent.name)
            .field("target", &self.target())
            .finish_non_exhaustive()
    }
}

/// Where the device listens.
///
/// # Errors
/// [`AddressError`] names the rule.
pub fn address(driver: &FenceAgentDriver) -> Result<Address, AddressError> {
    let usual = reviewed::find(&driver.agent).map_or(NO_PORT, |agent| agent.port);
    let host = given::written(driver, reviewed::IP).unwrap_or_default();
    // A device behind an agent belongs to one node, so there is nothing to expand.
    Address::expand_host(host, given::port(driver, usual), "")
}

/// The device, and the outlet of it: what the driver `pdu` or `ipmi` for the same one would be known by, too.
fn target(address: &Address, plug: Option<&str>) -> String {
    match plug {
        Some(plug) => format!("{address} outlet {plug}"),
        None => address.to_string(),
    }
}

impl DriverKind for FenceAgentDriver {
    fn credential_keys(&self) -> &'static [&'static str] {
        given::keys(self)
    }

    fn written(&self) -> &str {
        given::written(self, reviewed::IP).unwrap_or_default()
    }

    fn expand(&self, _: &str) -> Result<Address, AddressError> {
        address(self)
    }

    fn targets(&self, _: &NodeFacts) -> Vec<String> {
        let address = address(self).ok();
        address
            .iter()
            .map(|it| target(it, given::plug(self)))
            .collect()
    }

    fn make(&self, parts: Parts) -> Result<Arc<dyn FenceDriver>, DeviceError> {
        let settings = FenceAgentSettings {
            driver: self.clone(),
            credentials: parts.credentials,
            rules: parts.rules,
            call_timeout: parts.call_timeout,
            command_timeout: parts.command_timeout,
            clock: parts.clock,
            directory: PathBuf::from(DIRECTORY),
        };
        Ok(Arc::new(FenceAgent::new(settings)?))
    }
}

impl FenceDriver for FenceAgent {
    fn name(&self) -> &'static str {
        "fenceAgent"
    }

    fn target(&self) -> String {
        target(&self.address, self.plug.as_deref())
    }

    fn endpoint(&self) -> String {
        self.address.to_string()
    }

    fn open(&self) -> Box<dyn FenceSession> {
        Box::new(Session::new(self.clone()))
    }
}

#[cfg(test)]
mod tests;
