//! An address as a user has written it: a template, and behind a line break the name of a node.

use fencing_drivers::address::{Address, AddressRules};
use std::net::IpAddr;

/// Stands where a password could.
const PASSWORD: &str = "s3cr3t-canary";

pub fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (template, node) = text.split_once('\n').unwrap_or((&text, "worker-1"));
    for read in [
        Address::parse(template),
        Address::expand(template, node),
        Address::expand_host(template, 623, node),
    ] {
        match read {
            Ok(address) => judge(&address),
            Err(error) => assert!(!error.to_string().contains(['\n', '\r', '\0']), "{error}"),
        }
    }
    for with_user in [
        format!("https://root:{PASSWORD}@{template}"),
        format!("https://{PASSWORD}{template}@10.0.0.1"),
    ] {
        let error = Address::expand(&with_user, node).expect_err("user information");
        assert!(!error.to_string().contains(PASSWORD), "{error}");
    }
}

/// A host that no resolver reads as another one, and an address that is judged under every spelling.
fn judge(address: &Address) {
    let host = &address.host;
    let is_plain =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.:".contains(&byte);
    assert!(
        !host.is_empty() && host.len() <= 253 && host.bytes().all(is_plain),
        "{host}"
    );
    assert_ne!(address.port, 0);
    let again = Address::parse(&format!("https://{}", address.authority())).map(|it| it.host);
    assert_eq!(again.as_deref(), Ok(host.as_str()), "its own spelling");
    let rules = AddressRules::default();
    let verdict = |ip: IpAddr| rules.judge(host, ip).is_ok();
    match address.literal() {
        Some(IpAddr::V4(v4)) => {
            assert_eq!(
                verdict(v4.into()),
                verdict(v4.to_ipv6_mapped().into()),
                "{v4}"
            );
            assert!(
                !(v4.is_loopback() || v4.is_link_local() || v4.is_unspecified())
                    || !verdict(v4.into()),
                "{v4}"
            );
        }
        Some(IpAddr::V6(v6)) => assert!(
            !(v6.is_loopback() || v6.is_multicast()) || !verdict(v6.into()),
            "{v6}"
        ),
        None => assert!(!host.contains(':'), "{host}"),
    }
}
