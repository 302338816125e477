//! The regions of AWS: where their services are, and which one a zone belongs to.

use std::net::IpAddr;

/// Where the APIs of the regions with these beginnings are; all others: `amazonaws.com`.
const PARTITIONS: [(&str, &str); 6] = [
    ("cn-", "amazonaws.com.cn"),
    ("eusc-", "amazonaws.eu"),
    ("us-iso-", "c2s.ic.gov"),
    ("us-isob-", "sc2s.sgov.gov"),
    ("us-isof-", "csp.hci.ic.gov"),
    ("eu-isoe-", "cloud.adc-e.uk"),
];

/// The region of an availability zone, a local zone or a wavelength zone: all up to its first number.
pub(super) fn of_zone(zone: &str) -> &str {
    let mut end = 0;
    for part in zone.split('-') {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        if digits > 0 {
            return zone.get(..end + digits).unwrap_or(zone);
        }
        end += part.len() + 1;
    }
    zone
}

/// URL of a service of this region.
pub(super) fn url(service: &str, region: &str) -> String {
    let own = PARTITIONS
        .iter()
        .find(|(begin, _)| region.starts_with(begin));
    let domain = own.map_or("amazonaws.com", |(_, domain)| domain);
    format!("https://{service}.{region}.{domain}")
}

/// Is this a host of AWS, or one on loopback, which no device has unless whoever runs the operator allows it?
pub(super) fn is_aws(host: &str) -> bool {
    let domains = PARTITIONS.iter().map(|(_, domain)| *domain);
    let ends = |domain: &str| {
        host.strip_suffix(domain)
            .is_some_and(|it| it.ends_with('.'))
    };
    let is_loopback = host.parse().is_ok_and(|it: IpAddr| it.is_loopback());
    is_loopback || domains.chain(["amazonaws.com"]).any(ends)
}
