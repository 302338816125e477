//! From the host in a device's settings to the addresses that its credentials may be sent to.
//!
//! Every driver comes by here before it opens anything, and stays with the address it was given: a name that resolves to
//! something else a moment later changes nothing (S16).

use super::DeviceError;
use super::address::{Address, AddressRules};
use super::credentials::Credentials;
use std::net::SocketAddr;

/// Addresses of one host that are looked at.
const ADDRESSES_MAX: usize = 4;

/// The addresses of the device that these credentials may be sent to; at least one.
///
/// # Errors
/// The name cannot be resolved, or none of its addresses is allowed.
pub async fn addresses(
    address: &Address,
    credentials: &Credentials,
    rules: &AddressRules,
) -> Result<Vec<SocketAddr>, DeviceError> {
    let mut found = found(address, rules).await?;
    found.truncate(ADDRESSES_MAX);
    allowed(address, credentials, rules, found)
}

/// The addresses of the device, whatever may be sent there.
///
/// # Errors
/// The name cannot be resolved.
pub async fn found(
    address: &Address,
    rules: &AddressRules,
) -> Result<Vec<SocketAddr>, DeviceError> {
    if let Some(ip) = address.literal() {
        return Ok(vec![SocketAddr::new(ip, address.port)]);
    }
    let found = rules.lookup().of(&address.host, address.port).await;
    found.map_err(|error| unreachable(address, format!("its name cannot be resolved ({error})")))
}

/// Those of them that these credentials may be sent to; at least one.
///
/// # Errors
/// None of them is allowed, or there is none.
pub fn allowed(
    address: &Address,
    credentials: &Credentials,
    rules: &AddressRules,
    found: Vec<SocketAddr>,
) -> Result<Vec<SocketAddr>, DeviceError> {
    let mut denial = None;
    let mut allowed = Vec::new();
    for candidate in found {
        let ip = candidate.ip();
        let judged = rules.judge(&address.host, ip).map_err(DeviceError::from);
        match judged.and_then(|()| Ok(credentials.judge_host(&address.host, ip)?)) {
            Ok(()) => allowed.push(candidate),
            Err(error) => denial = Some(error),
        }
    }
    match (allowed.is_empty(), denial) {
        (false, _) => Ok(allowed),
        (true, Some(error)) => Err(error),
        (true, None) => Err(unreachable(address, "its name has no address".to_owned())),
    }
}

/// The network's failure, as an error.
#[must_use]
pub fn unreachable(endpoint: &Address, problem: String) -> DeviceError {
    let endpoint = endpoint.to_string();
    // Where the host is an address, the network's words begin with the same.
    let own = problem.strip_prefix(&format!("{endpoint}: "));
    DeviceError::Unreachable {
        problem: own.unwrap_or(&problem).to_owned(),
        endpoint,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_cannot_be_reached_is_named_once() {
        for (host, problem, said) in [
            (
                "127.0.0.1",
                "127.0.0.1:443: refused",
                "cannot reach 127.0.0.1:443: refused;",
            ),
            (
                "[::1]",
                "[::1]:443: refused",
                "cannot reach [::1]:443: refused;",
            ),
            (
                "bmc.example",
                "127.0.0.1:443: refused",
                "cannot reach bmc.example:443: 127.0.0.1:443: refused;",
            ),
        ] {
            let endpoint = Address::parse(&format!("https://{host}")).expect("an address");
            let words = unreachable(&endpoint, problem.to_owned()).to_string();
            assert!(words.starts_with(said), "{words}");
        }
    }
}
