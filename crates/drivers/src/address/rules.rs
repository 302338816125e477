//! Which IP addresses credentials may be sent to: the second judgement, on the address that a connection really goes to.

use super::{AddressError, Lookup};
use crate::cidr::Cidr;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The rule that keeps credentials from the API server.
const API_SERVER: &str = "the API server";
/// Addresses of the API server that are kept: a name that stands for another one each time does not fill the memory.
const API_SERVERS_MAX: usize = 256;

/// Which IP addresses may be fence devices, and who says which of them a name stands for. Clones know the same API server.
#[derive(Debug, Clone, Default)]
pub struct AddressRules {
    allowed: Vec<Cidr>,
    denied: Vec<(Cidr, String)>,
    api_servers: Arc<Mutex<BTreeSet<IpAddr>>>,
    lookup: Lookup,
    requires_hosts: bool,
}

impl AddressRules {
    /// The built-in denials, `denied` ranges by name (such as "the cluster's service range"), and `allowed` ranges, which
    /// override every denial (`--allow-device-cidr`).
    #[must_use]
    pub fn new(allowed: Vec<Cidr>, denied: Vec<(Cidr, String)>) -> Self {
        Self {
            allowed,
            denied,
            ..Self::default()
        }
    }

    /// The same, for Secrets that say where they may be sent alone, where `requires` (`--require-allowed-hosts`).
    #[must_use]
    pub fn requiring_hosts(self, requires: bool) -> Self {
        Self {
            requires_hosts: requires,
            ..self
        }
    }

    /// Does each Secret have to say where it may be sent?
    #[must_use]
    pub fn requires_hosts(&self) -> bool {
        self.requires_hosts
    }

    /// From now on this address, which is the API server's, is denied too, unless it is allowed.
    pub fn deny_api_server(&self, address: IpAddr) {
        let mut known = self.api_servers();
        if known.len() < API_SERVERS_MAX {
            known.insert(embedded_ipv4(address));
        }
    }

    fn api_servers(&self) -> MutexGuard<'_, BTreeSet<IpAddr>> {
        self.api_servers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The same, with names looked up by this.
    #[must_use]
    pub fn with_lookup(self, lookup: Lookup) -> Self {
        Self { lookup, ..self }
    }

    /// Who says where a name leads.
    #[must_use]
    pub fn lookup(&self) -> &Lookup {
        &self.lookup
    }

    /// May a kubelet be looked for at this address, which its Node chose? The cluster's own networks are where kubelets are.
    #[must_use]
    pub fn allow_kubelet(&self, address: IpAddr) -> bool {
        let meant = embedded_ipv4(address);
        let is_allowed = self.allowed.iter().any(|cidr| cidr.contains(meant));
        is_allowed || builtin_denial(meant).is_none()
    }

    /// May credentials go to this address?
    ///
    /// # Errors
    /// [`AddressError::NotAllowed`] names the rule that forbids it.
    pub fn judge(&self, host: &str, address: IpAddr) -> Result<(), AddressError> {
        // An IPv4 address in IPv6 clothes goes where the IPv4 address goes.
        let meant = embedded_ipv4(address);
        if self.allowed.iter().any(|cidr| cidr.contains(meant)) {
            return Ok(());
        }
        let own = self
            .denied
            .iter()
            .find(|(cidr, _)| cidr.contains(meant))
            .map(|(_, name)| name.as_str());
        let api_server = || self.api_servers().contains(&meant).then_some(API_SERVER);
        match builtin_denial(meant).or(own).or_else(api_server) {
            Some(rule) => Err(AddressError::NotAllowed {
                host: host.to_owned(),
                address,
                rule: rule.to_owned(),
            }),
            None => Ok(()),
        }
    }
}

/// What is never a BMC, whatever the cluster.
pub(super) fn builtin_denial(address: IpAddr) -> Option<&'static str> {
    const METADATA: &str = "a cloud's metadata service";
    let rule = match address {
        IpAddr::V4(v4) => match v4.octets() {
            // The last one of Oracle's older cloud.
            [169, 254, 169, 254] | [100, 100, 100, 200] | [168, 63, 129, 16] | [192, 0, 0, 192] => {
                METADATA
            }
            [0, ..] => "the unspecified address",
            [127, ..] => "loopback",
            [169, 254, ..] => "link-local",
            [224..=239, ..] => "multicast",
            [240..=255, ..] => "a reserved or broadcast address",
            _ => return None,
        },
        IpAddr::V6(v6) => match v6.segments() {
            // Of EC2, of EKS (Pod Identity Agent, fd00:ec2::23), of Compute Engine, Oracle, Scaleway, Akamai (Linode) and Alibaba, as published
            // lists and boot scripts have them.
            [0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x0254 | 0x0023]
            | [0xfd20, 0x00ce, 0, 0, 0, 0, 0, 0x0254]
            | [0xfd00, 0x00c1, 0, 0, 0, 0, 0xa9fe, 0xa9fe]
            | [0xfd00, 0x0042, 0, 0, 0, 0, 0, 0x0042]
            | [0xfd00, 0xa9fe, 0xa9fe, 0, 0, 0, 0, 1]
            | [0xfd00, 0x0100, 0, 0, 0, 0, 0x0100, 0x0200] => METADATA,
            [0, 0, 0, 0, 0, 0, 0, 0] => "the unspecified address",
            [0, 0, 0, 0, 0, 0, 0, 1] => "loopback",
            [0xfe80..=0xfebf, ..] => "link-local",
            [0xff00..=0xffff, ..] => "multicast",
            _ => return None,
        },
    };
    Some(rule)
}

/// The IPv4 address inside a mapped (`::ffff:0:0/96`), compatible (`::/96`), NAT64 (`64:ff9b::/96`) or 6to4 (`2002::/16`)
/// address; any other address as it is.
fn embedded_ipv4(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else {
        return address;
    };
    let (high, low) = match v6.segments() {
        // The unspecified and the loopback address are themselves.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => return address,
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
        | [0x0064, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => (high, low),
        _ => return address,
    };
    let [_, _, _, _, _, _, _, _, _, _, _, _, a, b, c, d] =
        Ipv6Addr::new(0, 0, 0, 0, 0, 0, high, low).octets();
    IpAddr::from([a, b, c, d])
}
