//! `spec.bmc.address` of a BareMetalHost, in all of Metal3's spellings.
//!
//! Which there are, and what each means, is in the baremetal-operator's pkg/hardwareutils/bmc (`access.go`, `redfish.go`,
//! `redfish_virtualmedia.go`, `redfish_https.go`, `idrac_virtualmedia.go`, `ilo4.go`, `ilo5.go`, `irmc.go`, `ibmc.go`, `ipmi.go`; read on 2026-11-26)
//! and in docs/api.md there: `redfish` and its relatives take `+http` and `+https`, and the path of the system; an address without a scheme
//! is IPMI, and so is libvirt's virtual BMC; `ipmi:host` is `ipmi://host`.

use fencing_api::device::IpmiPrivilege;
use fencing_drivers::address::Address;
use fencing_drivers::redfish;

/// Ways to boot a machine through one and the same Redfish service.
const REDFISH: [&str; 7] = [
    "redfish",
    "redfish-virtualmedia",
    "redfish-uefihttp",
    "idrac-redfish",
    "idrac-virtualmedia",
    "ilo5-redfish",
    "ilo5-virtualmedia",
];
/// Those that talk IPMI.
const IPMI: [&str; 2] = ["ipmi", "libvirt"];
/// Those with a protocol of the maker's own, whose BMCs may have a Redfish service too.
const OWN: [&str; 5] = ["idrac", "ilo4", "ilo5", "irmc", "ibmc"];
/// Of IPMI (`ipmiDefaultPort` there).
const IPMI_PORT: u16 = 623;
/// No address of Metal3's has a placeholder for a Node's name.
const NO_NODE: &str = "";

/// What the address says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BmcAddress {
    /// A Redfish service.
    Redfish {
        /// `https://host[:port]`.
        address: String,
        /// The system, where the address names it.
        system_id: Option<String>,
        /// Metal3 talks to it without TLS.
        is_plaintext: bool,
    },
    /// A BMC with IPMI.
    Ipmi {
        /// Host name or IP address.
        host: String,
        /// UDP port.
        port: u16,
        /// What the address asks for.
        privilege: IpmiPrivilege,
    },
    /// A protocol that no driver has; whether there is a Redfish service at the same host has to be tried.
    Other {
        /// Its name.
        scheme: String,
        /// `https://host[:port]`.
        address: String,
    },
}

impl BmcAddress {
    /// Where the operator would connect to.
    pub fn reached(&self) -> Option<Address> {
        match self {
            Self::Redfish { address, .. } | Self::Other { address, .. } => {
                Address::parse(address).ok()
            }
            Self::Ipmi { host, port, .. } => Address::expand_host(host, *port, NO_NODE).ok(),
        }
    }

    /// Reads the address.
    ///
    /// # Errors
    /// What is wrong with it, without anything before an `@`.
    pub fn read(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.is_empty() {
            return Err("`spec.bmc.address` is not set, so its BMC is unknown".to_owned());
        }
        if text.contains('@') {
            return Err(
                "`spec.bmc.address` has an @ in it: user and password belong in its Secret"
                    .to_owned(),
            );
        }
        let (scheme, rest) = split_scheme(text);
        let scheme = scheme.to_ascii_lowercase();
        let rest = rest.split('#').next().unwrap_or_default();
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let (base, transport) = scheme.split_once('+').unwrap_or((&scheme, "https"));
        let (host, port) = host_and_port(authority)?;
        match (base, transport) {
            (base, "http" | "https") if REDFISH.contains(&base) => {
                let is_plaintext = transport == "http";
                let address = https(&host, port);
                let system_id = system_id(&address, path)?;
                Ok(Self::Redfish {
                    address: url(&address),
                    system_id,
                    is_plaintext,
                })
            }
            (base, _) if IPMI.contains(&base) && base == scheme => Ok(Self::Ipmi {
                host,
                port: port.unwrap_or(IPMI_PORT),
                privilege: privilege(query),
            }),
            (base, _) if OWN.contains(&base) => Ok(Self::Other {
                scheme: scheme.clone(),
                address: url(&https(&host, port)),
            }),
            _ => Err(format!(
                "`spec.bmc.address` has the unknown scheme `{scheme}`"
            )),
        }
    }
}

/// Scheme and the rest; without one it is IPMI.
fn split_scheme(text: &str) -> (&str, &str) {
    if let Some((scheme, rest)) = text.split_once("://") {
        return (scheme, rest);
    }
    let known = |scheme: &str| {
        let base = scheme
            .split('+')
            .next()
            .unwrap_or_default()
            .to_ascii_lowercase();
        let mut all = REDFISH.iter().chain(&IPMI).chain(&OWN);
        all.any(|it| *it == base)
    };
    match text.split_once(':') {
        Some((scheme, rest)) if known(scheme) => (scheme, rest),
        _ => ("ipmi", text),
    }
}

/// The host in its one spelling, without brackets, and the port if there is one.
fn host_and_port(authority: &str) -> Result<(String, Option<u16>), String> {
    let read = |scheme: &str| Address::parse(&format!("{scheme}://{authority}"));
    let (https, http) = (read("https"), read("http"));
    let https = https.map_err(|error| format!("`spec.bmc.address`: {error}"))?;
    // Without a port each has its own.
    let port = http.ok().filter(|it| it.port == https.port);
    Ok((https.host, port.map(|it| it.port)))
}

fn https(host: &str, port: Option<u16>) -> Address {
    Address {
        plaintext: false,
        host: host.to_owned(),
        port: port.unwrap_or(443),
    }
}

fn url(address: &Address) -> String {
    format!("https://{}", address.authority())
}

/// The system that a path names: its `Id` where it is below the usual collection.
///
/// # Errors
/// The path is outside of the service.
pub fn system_id(address: &Address, path: &str) -> Result<Option<String>, String> {
    let trimmed = path.trim_matches('/');
    // The service's root names no system; Metal3 leaves it away too.
    if matches!(trimmed, "" | "redfish/v1") {
        return Ok(None);
    }
    let id = match trimmed.strip_prefix("redfish/v1/Systems/") {
        Some(id) if !id.contains('/') => id.to_owned(),
        _ => format!("/{trimmed}"),
    };
    redfish::target(address, Some(&id))
        .map_err(|problem| format!("the path in `spec.bmc.address`: {problem}"))?;
    Ok(Some(id))
}

/// Metal3 asks for Administrator unless the query says otherwise; here Operator, which is enough, unless it says Administrator itself.
fn privilege(query: &str) -> IpmiPrivilege {
    let asks = query
        .split('&')
        .filter_map(|it| it.split_once('='))
        .any(|(key, value)| {
            key.eq_ignore_ascii_case("privilegelevel")
                && value.eq_ignore_ascii_case("administrator")
        });
    match asks {
        true => IpmiPrivilege::Administrator,
        false => IpmiPrivilege::Operator,
    }
}

#[cfg(test)]
mod tests;
