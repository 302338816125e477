//! What of a device ends or fails one day although it answers now: a certificate, a token, the name of its host.

use super::Devices;
use super::access::Maker;
use fencing_drivers::tls::{self, CertificateCheck, Expiry};
use fencing_drivers::{Parts, address::Address};
use std::net::IpAddr;

/// What of a device needs renewal in time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Upkeep {
    /// The last lookup of its host's name was answered; none: it is an address, or was not looked up yet.
    pub name_resolved: Option<bool>,
    /// When what opens it, and what it is known by, ends: by what that is.
    pub expiries: Vec<(&'static str, Expiry)>,
    /// The Node that has its addresses; none: it has one elsewhere, or its name has not been found.
    pub on_node: Option<String>,
}

impl Devices {
    /// The upkeep of a device that has just been asked.
    pub fn upkeep(&self, host: Option<&Address>, expiries: Vec<(&'static str, Expiry)>) -> Upkeep {
        let lookup = self.maker.rules.lookup();
        let addresses = |it: &Address| match it.literal() {
            Some(address) => vec![address],
            None => lookup.last(&it.host, it.port),
        };
        let on_node = host.and_then(|it| self.maker.node_of(&addresses(it)));
        let host = host.filter(|it| it.literal().is_none());
        let fails = host.and_then(|it| lookup.fails(&it.host, it.port));
        Upkeep {
            name_resolved: fails.map(|it| !it),
            expiries,
            on_node,
        }
    }
}

impl Maker {
    /// The Node that has all of these addresses: a device with one elsewhere outlives it.
    fn node_of(&self, addresses: &[IpAddr]) -> Option<String> {
        let mut nodes = addresses.iter().map(|it| self.node_at(*it));
        let node = nodes.next()??;
        let is_alone = nodes.all(|it| it.as_ref() == Some(&node));
        is_alone.then_some(node)
    }
}

/// When what a driver is made of ends. Of a bundle of CAs the last one counts: until then some certificate of the device may be trusted.
pub(super) fn expiries(parts: &Parts) -> Vec<(&'static str, Expiry)> {
    let check = parts.credentials.authority(parts.verification.clone());
    let last = match check {
        CertificateCheck::Full {
            ca_bundle_pem: Some(pem),
        } => tls::expiries(&pem).max(),
        CertificateCheck::Full {
            ca_bundle_pem: None,
        }
        | CertificateCheck::Pinned(_)
        | CertificateCheck::None => None,
    };
    let last = last.map(|at| ("CertificateAuthority", at));
    let mut expiries = parts.credentials.expiries();
    expiries.extend(last);
    expiries
}
