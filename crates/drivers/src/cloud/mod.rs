//! Machines that a cloud or a hypervisor runs: one session for all providers, and a page for each of them.
//!
//! A provider says how its machines are named, read and switched ([`Provider`]); everything else is here once. An Off is believed only
//! as far as its page says: memory that is kept, a report that is old and a machine that is elsewhere all read off at some provider.
//! What a provider never says is never Off, and a machine that is not found is not off.

pub mod account;
pub mod aws;
pub mod azure;
pub mod errors;
#[cfg(test)]
pub(crate) mod fixtures;
mod fleet;
mod form;
pub mod gcp;
pub mod hetzner;
pub mod http_outlet;
pub mod io;
mod jsonrpc;
pub mod kind;
mod kube;
pub mod kubevirt;
pub mod libvirt;
pub mod metal3;
pub mod nutanix;
pub mod openstack;
pub mod operation;
pub mod packets;
pub mod proxmox;
mod session;
mod spelling;
pub mod surroundings;
pub mod vsphere;
pub mod webhook;
pub mod words;
pub mod xapi;

use crate::address::Address;
use crate::clock::Clock;
use crate::error::printable;
use crate::http::Target;
use crate::tls::{self, CertificateCheck};
use crate::{DeviceError, FenceDriver, FenceSession, NodeFacts, Parts};
use account::{Account, Pace};
use fencing_core::reading::Identity;
use fleet::Pages;
use io::Io;
use kind::Fields;
use operation::{Follow, Operation};
use session::Session;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use surroundings::Surroundings;
use tokio_rustls::TlsConnector;
use words::Said;

/// How a provider names the machine of a Node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MachineId {
    /// Its id: a number, or a UUID in lower case.
    pub id: String,
    /// The region that the Node names, or what else stands in its provider ID and is compared; none: that of the settings.
    pub region: Option<String>,
    /// The Node, by whose name a machine may have to be looked for.
    pub node: String,
    /// No provider ID names it: its id is what the Node's kubelet reports, which could report that of another machine.
    pub is_reported: bool,
    /// The Node's addresses, for providers that tell no UUID of a machine.
    pub addresses: Vec<IpAddr>,
}

impl MachineId {
    /// The machine of this Node with this id.
    #[must_use]
    pub fn of(node: &NodeFacts, id: String) -> Self {
        let addresses = node.addresses.iter().filter_map(|it| it.parse().ok());
        Self {
            id,
            region: None,
            node: node.name.clone(),
            is_reported: node.provider_id.is_empty(),
            addresses: addresses.collect(),
        }
    }

    /// May its machine have this name? One that only its kubelet tells of has to be called like the Node.
    #[must_use]
    pub fn may_be_called(&self, name: &str) -> bool {
        !self.is_reported || spelling::is_called(&self.node, name)
    }
}

/// A machine as its provider describes it now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// Its power, and what speaks against an Off.
    pub said: Said,
    /// Which machine it is.
    pub identity: Identity,
    /// Where its commands go.
    pub at: Address,
    /// Its path there.
    pub path: String,
    /// Where it is, if its provider tells: one that moves while it is read may run elsewhere.
    pub place: Option<String>,
    /// What turns it on again by itself.
    pub restarter: Option<String>,
    /// What runs it, for people: a host, a kind of instance.
    pub model: Option<String>,
}

/// What became of one command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sent {
    /// The provider took it, and has begun.
    Done,
    /// The provider took it, and will say in this operation how it ended.
    Operation(Operation),
    /// The machine is in that state already, in these words.
    Already(String),
    /// It may have been carried out, or not.
    Unclear(DeviceError),
}

/// A cloud or a hypervisor.
pub trait Provider: fmt::Debug + Send + Sync + Sized + 'static {
    /// Name of the driver, as in the API.
    const NAME: &'static str;
    /// How often an account may be asked.
    const PACE: Pace = Pace::USUAL;
    /// Does it tell of a machine? An outlet does not: what it reads says nothing of the machine before a command of ours.
    const READS_MACHINES: bool = true;
    /// Is a machine in one place at a time? One that may be in several tells of each whether it speaks against an Off.
    const HAS_ONE_PLACE: bool = true;
    /// Does it speak in packets ([`packets`]), and not HTTP?
    const HAS_PACKETS: bool = false;

    /// The same with what the operator's own process was given to log in with.
    #[must_use]
    fn given(self, _: &Surroundings) -> Self {
        self
    }

    /// The machine of this Node; asks nothing.
    ///
    /// # Errors
    /// [`DeviceError::Settings`] names what the Node lacks.
    fn machine(&self, node: &NodeFacts) -> Result<MachineId, DeviceError>;

    /// The machine as it is now.
    ///
    /// # Errors
    /// [`DeviceError`]; none says anything of its power.
    fn read(
        &self,
        io: &mut Io,
        id: &MachineId,
    ) -> impl Future<Output = Result<Machine, DeviceError>> + Send;

    /// Sends one hard power-off, in one request.
    ///
    /// # Errors
    /// It was certainly not carried out, unless [`Io::sent`] says that the request may have left and no answer came.
    fn off(
        &self,
        io: &mut Io,
        machine: &Machine,
    ) -> impl Future<Output = Result<Sent, DeviceError>> + Send;

    /// What stands in the way of a power-off, where the provider tells without one.
    fn off_denied(
        &self,
        _io: &mut Io,
        _machine: &Machine,
    ) -> impl Future<Output = Option<DeviceError>> + Send {
        async { None }
    }

    /// Sends one power-on, in one request.
    ///
    /// # Errors
    /// As [`Provider::off`].
    fn on(
        &self,
        io: &mut Io,
        machine: &Machine,
    ) -> impl Future<Output = Result<Sent, DeviceError>> + Send;

    /// Of these the machines that a list of the provider has, page by page, in as few calls as that takes. Such a list may be some seconds old, so
    /// it serves probes alone; what it leaves out is read by itself.
    ///
    /// # Errors
    /// [`DeviceError`]; the pages before it count.
    fn fleet(
        &self,
        _io: &mut Io,
        _ids: &[MachineId],
        _pages: &mut Pages<'_>,
    ) -> impl Future<Output = Result<(), DeviceError>> + Send {
        async { Ok(()) }
    }

    /// Where an operation stands.
    ///
    /// # Errors
    /// [`DeviceError`]; it is not known then.
    fn follow(
        &self,
        io: &mut Io,
        operation: &Operation,
    ) -> impl Future<Output = Result<Follow, DeviceError>> + Send;
}

/// A machine of a provider.
#[derive(Debug)]
pub struct Cloud<P> {
    provider: P,
    id: MachineId,
    target: Arc<Target>,
    account: Arc<Account>,
    /// An expired certificate ends the connection.
    dates_count: bool,
    call_timeout: Duration,
    command_timeout: Duration,
    clock: Clock,
}

impl<P: Provider> Cloud<P> {
    /// Finds the Node's machine, and checks the settings. Opens no connection.
    ///
    /// # Errors
    /// [`DeviceError::Settings`] names the field.
    pub fn new(provider: P, fields: Fields, parts: Parts) -> Result<Arc<Self>, DeviceError> {
        let provider = provider.given(parts.accounts.surroundings());
        let id = provider.machine(&parts.node)?;
        let Parts {
            address,
            verification,
            clock,
            ..
        } = parts;
        let invalid = |field, problem| DeviceError::Settings { field, problem };
        let verification = parts.credentials.authority(verification);
        if let Some(server) = parts.credentials.server() {
            let problem = kube::check_server(server, &address);
            problem.map_err(|problem| invalid(fields.address, problem))?;
        }
        let tls = match (address.plaintext, &verification) {
            (false, _) => {
                let config = tls::client_config(&verification, clock.wall());
                let mut config = config.map_err(|error| invalid(fields.ca, error.to_string()))?;
                parts.credentials.present(&mut config, clock.wall())?;
                Some(TlsConnector::from(Arc::new(config)))
            }
            (true, CertificateCheck::None) => None,
            (true, _) => {
                let problem = format!(
                    "{address} is plain http, which would show the credentials to the network; use https://"
                );
                return Err(invalid(fields.address, problem));
            }
        };
        let account = (P::NAME, P::PACE);
        let account = parts.accounts.of(account, &address, &parts.secret, clock);
        Ok(Arc::new(Self {
            provider,
            id,
            dates_count: matches!(verification, CertificateCheck::Full { .. }),
            target: Arc::new(Target {
                address,
                tls,
                credentials: parts.credentials,
                rules: parts.rules,
            }),
            account,
            call_timeout: parts.call_timeout,
            command_timeout: parts.command_timeout,
            clock,
        }))
    }

    /// The requests of one session, or of one list.
    fn io(&self) -> Io {
        let (target, account) = (Arc::clone(&self.target), Arc::clone(&self.account));
        let io = Io::new(target, account, self.clock);
        match P::HAS_PACKETS {
            true => io.with_packets(),
            false => io,
        }
    }
}

impl<P: Provider> FenceDriver for Arc<Cloud<P>> {
    fn name(&self) -> &'static str {
        P::NAME
    }

    fn target(&self) -> String {
        kind::target(&self.target.address, &self.id)
    }

    fn open(&self) -> Box<dyn FenceSession> {
        Box::new(Session::new(Self::clone(self)))
    }
}

/// What the provider ID leads to is another machine than the Node's: no reading of it counts, and nothing is sent to it.
fn foreign(io: &Io, id: &MachineId, problem: &str) -> DeviceError {
    DeviceError::Declined {
        endpoint: io.main().to_string(),
        problem: io.shown(&format!(
            "{problem}, so it is not the machine of Node {}",
            id.node
        )),
        way_out: "compare name, `spec.providerID` and addresses of the Node with the machine"
            .to_owned(),
    }
}

/// Has the machine a name that it may have?
fn check_name(io: &Io, id: &MachineId, name: &str) -> Result<(), DeviceError> {
    match id.may_be_called(name) {
        true => Ok(()),
        false => {
            let name = printable(name, 63);
            let problem = format!("`{name}` has the UUID that the Node reports and another name");
            Err(foreign(io, id, &problem))
        }
    }
}

/// The provider ID leads to no machine, or to several: neither is an Off.
fn not_one(at: &Address, id: &MachineId, number: usize) -> DeviceError {
    DeviceError::Declined {
        endpoint: at.to_string(),
        problem: format!(
            "{number} VMs have the UUID {} of Node {}, which is no Off",
            id.id, id.node
        ),
        way_out:
            "check the Node's `spec.providerID`, copies of its VM, and that the account may read it"
                .to_owned(),
    }
}

/// The machine whose UUID stands in the provider ID behind this prefix and `part` of it; without a provider ID that of the system UUID.
fn by_uuid(
    node: &NodeFacts,
    prefix: &str,
    part: fn(&str) -> &str,
    needs: &str,
) -> Result<MachineId, DeviceError> {
    let uuid = match node.provider_id.strip_prefix(prefix) {
        Some(rest) => part(rest),
        None if node.provider_id.is_empty() => &node.system_uuid,
        None => return Err(unusable(node, needs)),
    };
    let id = spelling::spellings(uuid).into_iter().next();
    let id = id.ok_or_else(|| unusable(node, "no UUID of one machine stands in it"))?;
    Ok(MachineId::of(node, id))
}

/// The provider ID of a Node cannot be used, for this reason.
fn unusable(node: &NodeFacts, why: &str) -> DeviceError {
    DeviceError::Settings {
        field: "spec.providerID",
        problem: format!(
            "Node {} has \"{}\", and {why}; use another level for this Node",
            node.name,
            printable(&node.provider_id, 120)
        ),
    }
}
