//! When a certificate expires, read from its DER.
//!
//! The verifier checks the dates of what a device presents, but not those of the certificates that we were told to trust. This
//! is the little that is needed to check them too: five fields into the certificate (RFC 5280 §4.1) stands one date.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// The last moment of the certificate's validity; none when this is no certificate.
pub fn not_after(certificate_der: &[u8]) -> Option<Timestamp> {
    let (certificate, _) = expect(certificate_der, SEQUENCE)?;
    let (signed_part, _) = expect(certificate, SEQUENCE)?;
    let serial_and_on = match element(signed_part)? {
        (VERSION, _, rest) => rest,
        _ => signed_part,
    };
    let (_, algorithm_and_on) = expect(serial_and_on, INTEGER)?;
    let (_, issuer_and_on) = expect(algorithm_and_on, SEQUENCE)?;
    let (_, validity_and_on) = expect(issuer_and_on, SEQUENCE)?;
    let (validity, _) = expect(validity_and_on, SEQUENCE)?;
    let (_, _, second) = element(validity)?;
    let (tag, text, _) = element(second)?;
    read_time(tag, std::str::from_utf8(text).ok()?)
}

/// Two-digit years are of 1950 to 2049 (RFC 5280 §4.1.2.5.1).
fn read_time(tag: u8, text: &str) -> Option<Timestamp> {
    let text = match tag {
        UTC_TIME => {
            let year: u8 = text.get(..2)?.parse().ok()?;
            format!("{}{text}", if year < 50 { "20" } else { "19" })
        }
        GENERALIZED_TIME => text.to_owned(),
        _ => return None,
    };
    let time = DateTime::strptime("%Y%m%d%H%M%SZ", &text).ok()?;
    TimeZone::UTC.to_timestamp(time).ok()
}

/// Content of the first element, which must have this tag, and what follows it.
fn expect(der: &[u8], wanted: u8) -> Option<(&[u8], &[u8])> {
    let (tag, content, rest) = element(der)?;
    (tag == wanted).then_some((content, rest))
}

/// Tag and content of the first element, and what follows it.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, der) = der.split_first()?;
    let (&first, der) = der.split_first()?;
    let (length, der) = match first {
        0..=0x7f => (usize::from(first), der),
        // A certificate is shorter than 64 KiB.
        0x81 | 0x82 => {
            let (digits, der) = der.split_at_checked(usize::from(first - 0x80))?;
            (
                digits
                    .iter()
                    .fold(0, |length, &digit| length << 8 | usize::from(digit)),
                der,
            )
        }
        _ => return None,
    };
    let (content, rest) = der.split_at_checked(length)?;
    Some((tag, content, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn expiring(year: i32) -> Vec<u8> {
        let mut parameters = rcgen::CertificateParams::new(vec!["bmc.example".to_owned()]).unwrap();
        parameters.not_after = rcgen::date_time_ymd(year, 3, 4);
        parameters
            .self_signed(&rcgen::KeyPair::generate().unwrap())
            .unwrap()
            .der()
            .to_vec()
    }

    #[test]
    fn both_forms_of_a_date_are_read() {
        assert_eq!(
            not_after(&expiring(2049)),
            Some("2049-03-04T00:00:00Z".parse().unwrap())
        );
        assert_eq!(
            not_after(&expiring(2051)),
            Some("2051-03-04T00:00:00Z".parse().unwrap())
        );
        assert_eq!(
            read_time(UTC_TIME, "991231235959Z"),
            Some("1999-12-31T23:59:59Z".parse().unwrap())
        );
    }

    #[test]
    fn a_truncated_certificate_has_no_date() {
        let certificate = expiring(2049);
        for length in 0..certificate.len() {
            assert_eq!(not_after(&certificate[..length]), None, "{length} bytes");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes: Vec<u8>) {
            let _ = not_after(&bytes);
        }
    }
}
