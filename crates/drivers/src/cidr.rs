//! A range of IP addresses, written as `10.0.0.0/8` or `2001:db8::/32`. One of mapped IPv4 addresses (`::ffff:10.0.0.0/104`) is the range of
//! these.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A range of IP addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cidr {
    network: IpAddr,
    prefix_bits: u8,
}

/// Why a text is not a range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CidrError {
    /// Not an address, a slash and a number.
    #[error("`{0}` must be an IP address range such as 10.20.0.0/16 or 2001:db8::/32")]
    Malformed(String),
    /// Bits beyond the prefix are set, so it is unclear which range is meant.
    #[error(
        "`{given}` has bits set beyond its prefix; write {meant} for the range, or a prefix of /{all_bits} for the one address"
    )]
    HostBits {
        /// As given.
        given: String,
        /// The range it lies in.
        meant: Cidr,
        /// Bits of an address of this family.
        all_bits: u8,
    },
}

impl Cidr {
    /// Does the range hold this address? Never one of the other family.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let same_family = self.network.is_ipv4() == address.is_ipv4();
        same_family && masked(address, self.prefix_bits) == self.network
    }

    /// As every address is compared: without IPv6 clothes.
    fn canonical(self) -> Self {
        match (
            self.network.to_canonical(),
            self.prefix_bits.checked_sub(96),
        ) {
            (network @ IpAddr::V4(_), Some(prefix_bits)) if self.network.is_ipv6() => Self {
                network,
                prefix_bits,
            },
            _ => self,
        }
    }
}

impl FromStr for Cidr {
    type Err = CidrError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let malformed = || CidrError::Malformed(text.to_owned());
        let (address, prefix) = text.split_once('/').ok_or_else(malformed)?;
        let address: IpAddr = address.parse().map_err(|_| malformed())?;
        // The number alone: no sign, no leading zero.
        let digits_only =
            prefix == "0" || prefix.bytes().all(|b| b.is_ascii_digit()) && !prefix.starts_with('0');
        let prefix_bits: u8 = prefix.parse().map_err(|_| malformed())?;
        let all_bits = if address.is_ipv4() { 32 } else { 128 };
        if !digits_only || prefix_bits > all_bits {
            return Err(malformed());
        }
        let cidr = Self {
            network: masked(address, prefix_bits),
            prefix_bits,
        };
        if cidr.network != address {
            return Err(CidrError::HostBits {
                given: text.to_owned(),
                meant: cidr,
                all_bits,
            });
        }
        Ok(cidr.canonical())
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.prefix_bits)
    }
}

/// The address with all bits beyond the prefix cleared.
fn masked(address: IpAddr, prefix_bits: u8) -> IpAddr {
    let bits = u32::from(prefix_bits);
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - bits.min(32)).unwrap_or(0);
            IpAddr::from((v4.to_bits() & mask).to_be_bytes())
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - bits.min(128)).unwrap_or(0);
            IpAddr::from((v6.to_bits() & mask).to_be_bytes())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cidr(text: &str) -> Cidr {
        text.parse().expect("a range")
    }

    #[test]
    fn a_range_holds_its_addresses_and_no_others() {
        for (range, inside, outside) in [
            ("10.20.0.0/16", "10.20.255.255", "10.21.0.0"),
            ("10.20.0.13/32", "10.20.0.13", "10.20.0.12"),
            ("0.0.0.0/0", "255.255.255.255", "::"),
            ("2001:db8::/33", "2001:db8:7fff::1", "2001:db8:8000::"),
            ("::/0", "ffff::", "1.2.3.4"),
        ] {
            assert!(
                cidr(range).contains(inside.parse().unwrap()),
                "{range} holds {inside}"
            );
            assert!(
                !cidr(range).contains(outside.parse().unwrap()),
                "{range} does not hold {outside}"
            );
            assert_eq!(cidr(range).to_string(), range);
        }
    }

    #[test]
    fn a_range_of_mapped_addresses_is_the_range_that_they_are_mapped_from() {
        for (range, meant) in [
            ("::ffff:10.0.0.9/128", "10.0.0.9/32"),
            ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
            ("::ffff:0.0.0.0/96", "0.0.0.0/0"),
        ] {
            assert_eq!(cidr(range), cidr(meant), "{range}");
        }
        // Of these some are no mapped ones.
        assert_eq!(cidr("::fffe:0:0/95").to_string(), "::fffe:0:0/95");
        assert_eq!(cidr("::/0").to_string(), "::/0");
    }

    #[test]
    fn a_text_that_is_not_a_range_is_refused() {
        for text in [
            "",
            "/",
            "10.0.0.0",
            "10.0.0.0/",
            "10.0.0.0/33",
            "10.0.0/8",
            "::/129",
            "10.0.0.0/+8",
            "10.0.0.0/08",
            "x/8",
        ] {
            assert!(
                matches!(text.parse::<Cidr>(), Err(CidrError::Malformed(_))),
                "{text}"
            );
        }
    }

    #[test]
    fn bits_beyond_the_prefix_are_refused_with_the_range_that_was_meant() {
        let error = "10.20.0.13/16".parse::<Cidr>().expect_err("unclear");
        assert!(error.to_string().contains("write 10.20.0.0/16"), "{error}");
    }
}
