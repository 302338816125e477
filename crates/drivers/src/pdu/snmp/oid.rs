//! Object identifiers: the names of what an agent can be asked for.

use super::ber::{self, Malformed, Reader};
use std::fmt;

/// Most numbers of an object identifier (RFC 2578, section 3.5).
const NUMBERS_MAX: usize = 128;

/// An object identifier.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Oid(Vec<u32>);

impl Oid {
    /// Reads `1.3.6.1...`, with or without a leading dot.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let refuse = |rule: &str| Err(format!("`{text}` is not an object identifier: {rule}"));
        let mut numbers = Vec::new();
        for part in text.strip_prefix('.').unwrap_or(text).split('.') {
            let is_decimal = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            match part.parse() {
                Ok(number) if is_decimal => numbers.push(number),
                _ => {
                    return refuse(
                        "it must be numbers from 0 to 4294967295 with dots between them",
                    );
                }
            }
        }
        match numbers.as_slice() {
            _ if numbers.len() > NUMBERS_MAX => refuse("it must have at most 128 numbers"),
            [0 | 1, 0..=39, ..] | [2, 0..=4_294_967_215, ..] => Ok(Self(numbers)),
            _ => refuse("it must begin with 0, 1 or 2 and a second number that X.690 allows"),
        }
    }

    /// The numbers that follow those of another one, if it begins with them.
    pub fn below(&self, other: &Self) -> Option<&[u32]> {
        self.0.strip_prefix(other.0.as_slice())
    }

    /// Reads the contents of an OBJECT IDENTIFIER.
    pub fn decode(contents: &Reader<'_>) -> Result<Self, Malformed> {
        let mut numbers = Vec::new();
        let mut number: Option<u32> = None;
        for octet in contents.bytes() {
            let so_far = match number {
                // A number never begins with an octet that adds nothing (X.690, 8.19.2).
                None if *octet == 0x80 => return Err(Malformed::Oid),
                None => 0,
                Some(so_far) => so_far,
            };
            let next = so_far
                .checked_mul(128)
                .and_then(|shifted| shifted.checked_add(u32::from(octet & 0x7f)))
                .ok_or(Malformed::Oid)?;
            if octet & 0x80 != 0 {
                number = Some(next);
                continue;
            }
            number = None;
            match (numbers.is_empty(), next) {
                (true, 0..=39) => numbers.extend([0, next]),
                (true, 40..=79) => numbers.extend([1, next - 40]),
                (true, _) => numbers.extend([2, next - 80]),
                (false, _) => numbers.push(next),
            }
            if numbers.len() > NUMBERS_MAX {
                return Err(Malformed::Oid);
            }
        }
        if number.is_some() || numbers.is_empty() {
            return Err(Malformed::Oid);
        }
        Ok(Self(numbers))
    }

    /// The OBJECT IDENTIFIER.
    pub fn encode(&self) -> Vec<u8> {
        let mut contents = Vec::new();
        if let [first, second, rest @ ..] = self.0.as_slice() {
            // Cannot overflow: the second number was judged when it was read.
            let head = first.saturating_mul(40).saturating_add(*second);
            for number in std::iter::once(&head).chain(rest) {
                base_128(*number, &mut contents);
            }
        }
        ber::element(ber::OBJECT_IDENTIFIER, &contents)
    }
}

/// A number in groups of seven bits, all but the last marked.
fn base_128(number: u32, bytes: &mut Vec<u8>) {
    for group in (1..5).rev() {
        if number >> (7 * group) != 0 {
            bytes.push(0x80 | low_seven(number >> (7 * group)));
        }
    }
    bytes.push(low_seven(number));
}

fn low_seven(number: u32) -> u8 {
    let [.., low] = (number & 0x7f).to_be_bytes();
    low
}

impl fmt::Display for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, number) in self.0.iter().enumerate() {
            let dot = if at == 0 { "" } else { "." };
            write!(f, "{dot}{number}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode(bytes: &[u8]) -> Result<Oid, Malformed> {
        let mut reader = Reader::new(bytes);
        let contents = reader.expect(ber::OBJECT_IDENTIFIER)?;
        Oid::decode(&contents)
    }

    #[test]
    fn the_enterprise_of_apc_has_its_octets() {
        let oid = Oid::parse(".1.3.6.1.4.1.318").unwrap();
        assert_eq!(oid.encode(), [6, 7, 0x2b, 6, 1, 4, 1, 0x82, 0x3e]);
        assert_eq!(oid.to_string(), "1.3.6.1.4.1.318");
    }

    #[test]
    fn what_follows_is_told_number_by_number() {
        let oid = |text| Oid::parse(text).unwrap();
        let apc = oid("1.3.6.1.4.1.318");
        assert_eq!(oid(".1.3.6.1.4.1.318.1.7").below(&apc), Some(&[1, 7][..]));
        assert_eq!(oid("1.3.6.1.4.1.3181.7").below(&apc), None);
        assert_eq!(oid("1.3.6.1").below(&apc), None);
    }

    #[test]
    fn what_is_no_object_identifier_is_refused() {
        for text in [
            "",
            "1",
            "1.",
            "1..3",
            "3.1",
            "1.40",
            "1.3.-6",
            "1.3.+6",
            "1.3.4294967296",
            "iso",
        ] {
            assert!(Oid::parse(text).is_err(), "{text}");
        }
        assert!(Oid::parse(&vec!["1"; 128].join(".")).is_ok());
        assert!(Oid::parse(&vec!["1"; 129].join(".")).is_err());
        // Empty, cut in a number, a number with a useless octet, one over 32 bits.
        for contents in [
            &[][..],
            &[0x2b, 0x82],
            &[0x2b, 0x80, 1],
            &[0x2b, 0x90, 0x80, 0x80, 0x80, 0],
        ] {
            let bytes = ber::element(ber::OBJECT_IDENTIFIER, contents);
            assert_eq!(decode(&bytes), Err(Malformed::Oid), "{contents:?}");
        }
        // The first octet holds two numbers.
        let of = |octets: usize| decode(&ber::element(ber::OBJECT_IDENTIFIER, &vec![1; octets]));
        assert!(of(127).is_ok());
        for octets in [128, 129, 200] {
            assert_eq!(of(octets), Err(Malformed::Oid), "{octets}");
        }
    }

    proptest! {
        #[test]
        fn text_and_octets_name_the_same(second in 0_u32..40, rest in prop::collection::vec(any::<u32>(), 0..20)) {
            let text = rest.iter().fold(format!("1.{second}"), |text, number| format!("{text}.{number}"));
            let oid = Oid::parse(&text).unwrap();
            prop_assert_eq!(oid.to_string(), text);
            prop_assert_eq!(decode(&oid.encode()), Ok(oid));
        }

        #[test]
        fn no_octets_panic_and_what_is_read_is_written_the_same(contents in prop::collection::vec(any::<u8>(), 0..40)) {
            let bytes = ber::element(ber::OBJECT_IDENTIFIER, &contents);
            if let Ok(oid) = decode(&bytes) {
                prop_assert_eq!(oid.encode(), bytes);
            }
        }
    }
}
