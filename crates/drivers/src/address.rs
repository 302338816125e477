//! Where credentials may go.
//!
//! Whoever writes a FenceDevice chooses an address, and the operator sends a password there: that must not become a way to
//! reach the operator's own host, the cluster's services or a cloud's metadata service. So an address is judged twice: as
//! text, before anything is resolved, and as the IP address that the connection really goes to ([`AddressRules`]).
//!
//! In an address for a fleet only `${node.name}` is expanded, and only in the host: labels and annotations can be written by a
//! kubelet and never choose an address.

mod lookup;
mod rules;

pub use lookup::Lookup;
pub use rules::AddressRules;

use super::credentials::ALLOWED_HOSTS_ANNOTATION;
use super::error::printable;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Why an address is not used. Nothing was sent to it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// The text is not an address that a device can have.
    #[error("address `{address}` cannot be used: {rule}")]
    Invalid {
        /// The address, without user information.
        address: String,
        /// The rule that it breaks, and the way out.
        rule: String,
    },
    /// The address is one that credentials are never sent to.
    #[error(
        "{}{rule} may not be a fence device; correct the address, or allow it with --allow-device-cidr",
        named(host, *address)
    )]
    NotAllowed {
        /// Host as written.
        host: String,
        /// The IP address it stands for.
        address: IpAddr,
        /// Name of the rule.
        rule: String,
    },
    /// An IPv4 address in a spelling that only old resolvers know, and that hides where it goes.
    #[error(
        "{host} is another spelling of {address}{}; write an IPv4 address as four decimal numbers without leading zeros (other forms hide where they go)",
        what(*address)
    )]
    Disguised {
        /// Host as written.
        host: String,
        /// The IP address that `inet_aton` would make of it.
        address: Ipv4Addr,
    },
    /// The Secret does not say where it may be sent, and has to.
    #[error(
        "Secret `{secret}` has no annotation {ALLOWED_HOSTS_ANNOTATION}, and {because}; list the hosts of its devices there"
    )]
    Unbounded {
        /// Name of the Secret.
        secret: String,
        /// What asks for it.
        because: &'static str,
    },
}

/// The host, and the address that it stands for if it is not one itself.
fn named(host: &str, address: IpAddr) -> String {
    match host.parse() == Ok(address) {
        true => format!("{host}: "),
        false => format!("{host} is {address}, and "),
    }
}

/// ` (loopback)`, if the address is one that no device has.
fn what(address: Ipv4Addr) -> String {
    rules::builtin_denial(address.into()).map_or_else(String::new, |rule| format!(" ({rule})"))
}

impl AddressError {
    /// Stable name for conditions, events and metric labels.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Invalid { .. } => "AddressInvalid",
            Self::NotAllowed { .. } | Self::Disguised { .. } | Self::Unbounded { .. } => {
                "AddressNotAllowed"
            }
        }
    }
}

/// Where a device listens: written `https://host[:port]`, an IPv6 host in brackets, or as host and port apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Address {
    /// It was written as `http://`, without TLS.
    pub plaintext: bool,
    /// DNS name in lower case, or IP address without brackets, in its one canonical spelling.
    pub host: String,
    /// Port of TCP, or of UDP where the driver uses that.
    pub port: u16,
}

/// Does the host of this template end with the name of the Node? Whoever registers a Node chooses where it leads then.
#[must_use]
pub fn is_led_by_node_name(template: &str) -> bool {
    let authority = template.split_once("://").map_or(template, |it| it.1);
    let host = authority.split([':', '/']).next();
    host.is_some_and(|host| host.trim_end_matches('.').ends_with(NODE_NAME))
}

/// Longest DNS name in characters (RFC 1035).
const HOST_CHARACTERS_MAX: usize = 253;
/// Longest label of a DNS name in characters (RFC 1035).
const LABEL_CHARACTERS_MAX: usize = 63;
/// The only placeholder.
const NODE_NAME: &str = "${node.name}";

impl Address {
    /// Expands `${node.name}` in the host of `template`, a URL, and reads the result.
    ///
    /// # Errors
    /// [`AddressError::Invalid`] names the rule.
    pub fn expand(template: &str, node_name: &str) -> Result<Self, AddressError> {
        Self::parse(&expanded(template, node_name)?)
    }

    /// Expands `${node.name}` in `template`, a host without scheme and port, and reads the result.
    ///
    /// # Errors
    /// [`AddressError::Invalid`] names the rule.
    pub fn expand_host(template: &str, port: u16, node_name: &str) -> Result<Self, AddressError> {
        let text = expanded(template, node_name)?;
        let bare = text
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
            .filter(|host| host.parse::<Ipv6Addr>().is_ok());
        let host = bare.unwrap_or(&text).to_ascii_lowercase();
        if host.contains(['/', '@', '?', '#'])
            || host.contains(':') && host.parse::<Ipv6Addr>().is_err()
        {
            return Err(invalid(
                &text,
                "it must be a host name or an IP address alone, without scheme, user information, port or path",
            ));
        }
        Self::of_host(&text, false, host, port)
    }

    /// Reads `http[s]://host[:port][/]`.
    ///
    /// # Errors
    /// [`AddressError::Invalid`] names the rule, [`AddressError::Disguised`] the address that is meant.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let refuse = |rule: &str| Err(invalid(text, rule));
        let (plaintext, rest) = match text.split_once("://") {
            Some(("https", rest)) => (false, rest),
            Some(("http", rest)) => (true, rest),
            _ => {
                return refuse(
                    "it must begin with https:// (or http:// with `tls.verification: None`)",
                );
            }
        };
        if rest.contains(['?', '#']) {
            return refuse("it must have no query and no fragment");
        }
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if !matches!(path, "" | "redfish/v1" | "redfish/v1/") {
            return refuse("it must have no path: the service is always /redfish/v1");
        }
        if authority.contains('@') {
            return refuse(
                "it must have no user information; user and password belong in the Secret named by `credentialsRef`",
            );
        }
        let (host, port) = match split_port(authority) {
            Some((host, None)) => (host, if plaintext { 80 } else { 443 }),
            Some((host, Some(port))) => match port.parse() {
                Ok(port @ 1..) => (host, port),
                _ => return refuse("the port must be a number from 1 to 65535"),
            },
            None => {
                return refuse("an IPv6 host must stand in brackets, as in https://[2001:db8::1]");
            }
        };
        Self::of_host(text, plaintext, host.to_ascii_lowercase(), port)
    }

    /// `text` is what the user has written, for the message.
    fn of_host(text: &str, plaintext: bool, host: String, port: u16) -> Result<Self, AddressError> {
        // In one spelling: two devices at one address are told by it (S5).
        let host = match host.parse::<IpAddr>() {
            Ok(address) => address.to_canonical().to_string(),
            Err(_) => host,
        };
        if host.parse::<IpAddr>().is_ok() || is_dns_name(&host) && !is_numeric_form(&host) {
            return Ok(Self {
                plaintext,
                host,
                port,
            });
        }
        if let Some(address) = inet_aton(&host) {
            return Err(AddressError::Disguised { host, address });
        }
        let rule = if is_numeric_form(&host) {
            "an IPv4 address must be four decimal numbers without leading zeros; other forms hide where they go"
        } else {
            "its host must be an IP address or a DNS name of at most 253 characters, each label of at most 63"
        };
        Err(invalid(text, rule))
    }

    /// The IP address, where the host is one.
    #[must_use]
    pub fn literal(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }

    /// Value of the `Host` header.
    #[must_use]
    pub fn authority(&self) -> String {
        let default_port = if self.plaintext { 80 } else { 443 };
        let host = if self.host.contains(':') {
            format!("[{}]", self.host)
        } else {
            self.host.clone()
        };
        if self.port == default_port {
            host
        } else {
            format!("{host}:{}", self.port)
        }
    }
}

/// Host and port, for messages.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// The text with the node's name in place of `${node.name}`, which may stand in the host only.
fn expanded(template: &str, node_name: &str) -> Result<String, AddressError> {
    let refuse = |rule: &str| Err(invalid(template, rule));
    let rest = template.replace(NODE_NAME, "");
    if rest.contains("${") || rest.contains('$') {
        return refuse(
            "only ${node.name} is expanded; labels and annotations never choose an address",
        );
    }
    if template.contains(NODE_NAME) {
        if !is_dns_name(node_name) {
            return refuse("the node's name is not a DNS name, so it is not put into an address");
        }
        let authority = template
            .split_once("://")
            .map_or(template, |(_, rest)| rest);
        let after_host = authority
            .find([':', '/', '?', '#'])
            .and_then(|at| authority.get(at..));
        if after_host.is_some_and(|rest| rest.contains(NODE_NAME)) {
            return refuse("${node.name} may stand in the host only");
        }
    }
    Ok(template.replace(NODE_NAME, node_name))
}

/// Host and port text; none when a bare IPv6 address makes the colon ambiguous.
fn split_port(authority: &str) -> Option<(&str, Option<&str>)> {
    if let Some(rest) = authority.strip_prefix('[') {
        let (host, after) = rest.split_once(']')?;
        host.parse::<Ipv6Addr>().ok()?;
        return match after {
            "" => Some((host, None)),
            _ => Some((host, Some(after.strip_prefix(':')?))),
        };
    }
    match authority.split_once(':') {
        None => Some((authority, None)),
        Some((_, port)) if port.contains(':') => None,
        Some((host, port)) => Some((host, Some(port))),
    }
}

/// A DNS name as Kubernetes writes node names: labels of letters, digits and inner hyphens.
fn is_dns_name(name: &str) -> bool {
    let is_label = |label: &str| {
        (1..=LABEL_CHARACTERS_MAX).contains(&label.len())
            && label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    (1..=HOST_CHARACTERS_MAX).contains(&name.len()) && name.split('.').all(is_label)
}

/// Would a resolver read this name as a number (`0x7f000001`, `2130706433`, `127.1`, `0177.0.0.1`)?
fn is_numeric_form(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or_default();
    let hexadecimal = last
        .strip_prefix("0x")
        .is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
    hexadecimal || !last.is_empty() && last.bytes().all(|b| b.is_ascii_digit())
}

/// What old resolvers make of a number: one to four parts, each decimal, octal (`0`) or hexadecimal (`0x`), of which the last
/// fills all bytes that are left (`inet_aton(3)`).
fn inet_aton(host: &str) -> Option<Ipv4Addr> {
    let number = |part: &str| match part.strip_prefix("0x") {
        // The C library takes a bare 0x for zero.
        Some("") => Some(0),
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None if part.starts_with('0') => u32::from_str_radix(part, 8).ok(),
        None => part.parse().ok(),
    };
    let is_number = |part: &str| part.bytes().all(|b| b.is_ascii_hexdigit() || b == b'x');
    if !host.split('.').all(is_number) {
        return None;
    }
    let parts: Vec<u32> = host.split('.').map(number).collect::<Option<_>>()?;
    let (last, leading) = parts.split_last()?;
    let bytes_left = 4_usize
        .checked_sub(leading.len())
        .filter(|left| *left > 0)?;
    let last_max = u32::MAX >> (8 * (4 - bytes_left));
    if *last > last_max {
        return None;
    }
    let high = leading.iter().try_fold(0_u32, |high, part| {
        (*part <= 255).then_some(high << 8 | *part)
    })?;
    let high = high
        .checked_shl(u32::try_from(8 * bytes_left).ok()?)
        .unwrap_or(0);
    Some(Ipv4Addr::from(high | *last))
}

/// The error, with everything before an `@` left out of the message: it may be a password.
fn invalid(address: &str, rule: &str) -> AddressError {
    let shown = match address.rsplit_once('@') {
        Some((before, after)) => {
            let scheme = before.split_once("://").map_or("", |(scheme, _)| scheme);
            format!("{scheme}://<redacted>@{after}")
        }
        None => address.to_owned(),
    };
    AddressError::Invalid {
        address: printable(&shown, 300),
        rule: rule.to_owned(),
    }
}

#[cfg(test)]
mod tests;
