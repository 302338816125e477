//! Driver `libvirt`: domains of a hypervisor, by the daemon of libvirt on its host, over TLS with a certificate of ours.
//!
//! The daemon knows its own host alone. A domain is found by its UUID, which is the Node's system UUID, and has the Node's name; one that is not
//! found, was migrated or was saved is not off. A saved one is not turned on either: it would go on with its old memory.

mod client;
mod facts;
pub mod remote;
pub mod xdr;

use super::account::Pace;
use super::fleet::Pages;
use super::io::Io;
use super::kind::{CloudKind, Fields};
use super::operation::{Follow, Operation};
use super::spelling::is_called;
use super::words::Said;
use super::{Machine, MachineId, Provider, Sent, foreign};
use crate::address::{Address, AddressError};
use crate::credentials::CERTIFICATE;
use crate::error::printable;
use crate::{DeviceError, NodeFacts};
use client::{Libvirt, check, meant, switch};
use facts::{ASKED, SHUTOFF, said, text_of};
use fencing_api::device::{LibvirtDriver, TlsSettings};
use fencing_core::reading::{Identity, usable_uuid};
use remote::Domain;
use std::collections::HashMap;
use std::time::Duration;
use xdr::Writer;

/// Where the daemon listens for TLS.
const PORT: u16 = 16_514;
/// Longest name of a host in characters.
const NAME_CHARACTERS_MAX: usize = 253;
/// There is no such domain (`virErrorNumber`).
const NO_DOMAIN: i32 = 42;
/// Of a list, the domains that run, and those of them that begin with their host (`virConnectListAllDomainsFlags`).
const RUNNING: u32 = 16;
const STARTED: u32 = 16 | 1024;

/// Hypervisor, host with port, and path of a URI.
fn parts(uri: &str) -> Option<(&str, &str, &str)> {
    let (hypervisor, rest) = uri.split_once("+tls://")?;
    let (authority, path) = rest.split_once('/')?;
    Some((hypervisor, authority, path))
}

impl CloudKind for LibvirtDriver {
    type Provider = Libvirt;
    const KEYS: &'static [&'static str] = &CERTIFICATE;
    const FIELDS: Fields = Fields {
        address: "libvirt.uri",
        ca: "libvirt.tls.caRef",
    };

    fn url(&self) -> &str {
        &self.uri
    }

    fn address(&self) -> Result<Address, AddressError> {
        let Some((_, authority, _)) = parts(&self.uri) else {
            let rule = "it must be HYPERVISOR+tls://host[:port]/PATH, like qemu+tls://hv-1.example.com/system";
            return Err(AddressError::Invalid {
                // What stands before an @ may be a password.
                address: printable(self.uri.rsplit('@').next().unwrap_or_default(), 300),
                rule: rule.to_owned(),
            });
        };
        let address = Address::parse(&format!("https://{authority}"))?;
        let is_written = address.port != 443 || authority.ends_with(":443");
        let port = if is_written { address.port } else { PORT };
        Ok(Address { port, ..address })
    }

    fn certificate(&self) -> &TlsSettings {
        &self.tls
    }

    fn provider(&self) -> Libvirt {
        let (hypervisor, _, path) = parts(&self.uri).unwrap_or_default();
        Libvirt {
            name: format!("{hypervisor}:///{path}"),
        }
    }
}

impl Provider for Libvirt {
    const NAME: &'static str = "libvirt";
    const HAS_PACKETS: bool = true;
    /// A reading takes six packets, and the host is the team's own.
    const PACE: Pace = Pace {
        period: Duration::from_millis(5),
        burst: 400,
        ..Pace::USUAL
    };

    /// The domain whose UUID the Node reports: libvirt gives it to the firmware of its guest.
    fn machine(&self, node: &NodeFacts) -> Result<MachineId, DeviceError> {
        let uuid = usable_uuid(&node.system_uuid);
        let uuid = uuid.ok_or_else(|| DeviceError::Settings {
            field: "status.nodeInfo.systemUUID",
            problem: format!(
                "Node {} reports no system UUID that names one domain; use another level for this Node",
                node.name
            ),
        })?;
        Ok(MachineId::of(node, text_of(uuid)))
    }

    async fn read(&self, io: &mut Io, id: &MachineId) -> Result<Machine, DeviceError> {
        let host = self.host(io).await?;
        let domain = self.domain(io, id).await?;
        let (argument, flags) = (domain.argument(), domain.argument().unsigned(0));
        let state = self.ask(io, remote::STATE, flags.clone(), remote::state);
        let (state, reason) = state.await?;
        let is_saved = state == SHUTOFF && self.ask(io, remote::SAVED, flags, remote::flag).await?;
        // Only people read it: a refusal stops no reading, and a connection that is gone does.
        let starts = self.call(io, remote::AUTOSTART, argument, remote::flag);
        let starts = starts.await?.unwrap_or_default();
        let said = said(state, reason, is_saved);
        Ok(machine(io, &domain, said, &host, starts))
    }

    /// Ends its process at once; the guest is not asked.
    async fn off(&self, io: &mut Io, machine: &Machine) -> Result<Sent, DeviceError> {
        let domain = domain_of(machine);
        if let Some(problem) = self.against_off(io, &domain).await? {
            return Err(refused(io, problem));
        }
        switch(io, remote::DESTROY, &domain).await
    }

    async fn off_denied(&self, io: &mut Io, machine: &Machine) -> Option<DeviceError> {
        match self.against_off(io, &domain_of(machine)).await {
            Ok(problem) => problem.map(|it| refused(io, it)),
            Err(error) => Some(error),
        }
    }

    async fn on(&self, io: &mut Io, machine: &Machine) -> Result<Sent, DeviceError> {
        let domain = domain_of(machine);
        let flags = domain.argument().unsigned(0);
        if check(io, remote::SAVED, flags, remote::flag).await? {
            let problem = "it has a managed save image, from which it would resume its old memory";
            return Err(refused(io, problem));
        }
        switch(io, remote::CREATE, &domain).await
    }

    async fn fleet(
        &self,
        io: &mut Io,
        ids: &[MachineId],
        pages: &mut Pages<'_>,
    ) -> Result<(), DeviceError> {
        let by_id: HashMap<&str, &MachineId> = ids.iter().map(|id| (id.id.as_str(), id)).collect();
        let host = self.host(io).await?;
        let of = |flags| Writer::default().int(1).unsigned(flags);
        let [running, started] = [RUNNING, STARTED].map(of);
        let started = self.ask(io, remote::LIST, started, remote::domains).await?;
        let running = self.ask(io, remote::LIST, running, remote::domains).await?;
        let found = running.iter().filter_map(|domain| {
            let id = by_id.get(text_of(domain.uuid).as_str())?;
            let id = Some(id).filter(|id| is_called(&id.node, &domain.name))?;
            let starts = started.contains(domain);
            let machine = machine(io, domain, said(1, 0, false), &host, starts);
            Some(((*id).clone(), machine))
        });
        pages.add(io, found);
        Ok(())
    }

    /// Its commands end before their answer comes.
    async fn follow(&self, _: &mut Io, _: &Operation) -> Result<Follow, DeviceError> {
        Ok(Follow::Done)
    }
}

impl Libvirt {
    /// The name of the host. Where several share an address, a domain is another one's.
    async fn host(&self, io: &mut Io) -> Result<String, DeviceError> {
        let none = Writer::default();
        let name = self.ask(io, remote::HOSTNAME, none, remote::text).await?;
        Ok(printable(&name, NAME_CHARACTERS_MAX))
    }

    /// The domain with this UUID.
    async fn domain(&self, io: &mut Io, id: &MachineId) -> Result<Domain, DeviceError> {
        let uuid = usable_uuid(&id.id).unwrap_or_default();
        let wanted = Writer::default().bytes(&uuid);
        let found = self
            .call(io, remote::LOOKUP, wanted, remote::domain)
            .await?;
        let problem = match found {
            // The UUID is the kubelet's word alone, which could name any domain of the host.
            Ok(domain) if domain.uuid == uuid && !is_called(&id.node, &domain.name) => {
                let problem = format!("the domain with UUID {} is {}", id.id, domain.name);
                return Err(foreign(io, id, &problem));
            }
            Ok(domain) if domain.uuid == uuid => return Ok(domain),
            Ok(domain) => format!("it shows {}, another domain,", text_of(domain.uuid)),
            Err(refusal) if refusal.code == NO_DOMAIN => "it has no domain".to_owned(),
            Err(refusal) => return Err(meant(io, remote::LOOKUP, refusal, &ASKED)),
        };
        Err(DeviceError::Declined {
            endpoint: io.main().to_string(),
            problem: format!("{problem} for {}, the UUID of Node {}, which is no Off", id.id, id.node),
            way_out: "it may run on another host; compare `status.nodeInfo.systemUUID` of the Node with `virsh domuuid`"
                .to_owned(),
        })
    }

    /// What stands in the way of a power-off: its end here would not be its end, or could not be read.
    async fn against_off(
        &self,
        io: &mut Io,
        domain: &Domain,
    ) -> Result<Option<&'static str>, DeviceError> {
        let (argument, flags) = (domain.argument(), domain.argument().unsigned(0));
        if !check(io, remote::PERSISTENT, argument, remote::flag).await? {
            return Ok(Some(
                "the domain is transient: once it has ended it is not found, which is no Off",
            ));
        }
        // What is at work on it is not asked for: that waits for the monitor of its process, which hangs where the domain does.
        let state = check(io, remote::STATE, flags, remote::state).await?;
        let is_migrating = facts::is_paused_by_migration(state);
        Ok(is_migrating.then_some("the domain is being migrated, and may run at the destination"))
    }
}

/// A domain on this host; its name and UUID lead to it again.
fn machine(io: &Io, domain: &Domain, said: Said, host: &str, starts: bool) -> Machine {
    Machine {
        said,
        identity: Identity {
            system_uuid: Some(text_of(domain.uuid)),
            serial_number: None,
        },
        at: io.main(),
        path: domain.name.clone(),
        place: Some(host.to_owned()),
        restarter: starts.then(|| "autostart, when its host boots".to_owned()),
        model: Some(host.to_owned()),
    }
}

fn domain_of(machine: &Machine) -> Domain {
    let uuid = machine.identity.system_uuid.as_deref();
    Domain {
        name: machine.path.clone(),
        uuid: uuid.and_then(usable_uuid).unwrap_or_default(),
    }
}

fn refused(io: &Io, problem: &str) -> DeviceError {
    DeviceError::Refused {
        endpoint: io.main().to_string(),
        problem: problem.to_owned(),
    }
}

#[cfg(test)]
mod tests;
