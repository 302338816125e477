//! When a certificate expires, read from its DER, and how long before that is warned of.
//!
//! The verifier checks the dates of what a device presents, but not those of the certificates that we were told to trust. This
//! is the little that is needed to check them too: five fields into the certificate (RFC 5280 §4.1) stand two dates.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// Who renews by hand is warned this long before.
const NOTICE_MAX: SignedDuration = SignedDuration::from_hours(14 * 24);
/// A program renews before the last tenth of a lifetime: cert-manager when a third is left (its `pkg/util/pki/renewaltime.go`, v1.12), a kubelet with
/// 10 to 30 % left (`jitteryDuration` of client-go's `util/certificate/certificate_manager.go`).
const NOTICE_SHARE: i32 = 10;

/// When something expires. Ordered by that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Expiry {
    /// The last moment of its validity.
    pub at: Timestamp,
    /// How long before that is warned of: a tenth of its lifetime, and two weeks at most.
    pub notice: SignedDuration,
}

impl Expiry {
    /// Of what is valid from then on; none: that is unknown.
    #[must_use]
    pub fn of(from: Option<Timestamp>, at: Timestamp) -> Self {
        let share = from.map(|from| at.duration_since(from) / NOTICE_SHARE);
        Self {
            at,
            notice: share.map_or(NOTICE_MAX, |share| share.min(NOTICE_MAX)),
        }
    }

    /// Is it warned of at this time?
    #[must_use]
    pub fn is_near(&self, now: Timestamp) -> bool {
        self.at.duration_since(now) < self.notice
    }
}

/// The last moment of the certificate's validity; none when this is no certificate.
pub fn not_after(certificate_der: &[u8]) -> Option<Timestamp> {
    expiry(certificate_der).map(|it| it.at)
}

/// When the certificate expires; none when this is no certificate.
pub fn expiry(certificate_der: &[u8]) -> Option<Expiry> {
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
    let time = |tag, text| read_time(tag, std::str::from_utf8(text).ok()?);
    let (tag, text, second) = element(validity)?;
    let from = time(tag, text);
    let (tag, text, _) = element(second)?;
    Some(Expiry::of(from, time(tag, text)?))
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
    fn what_lives_shortly_is_warned_of_in_its_last_tenth() {
        let day = SignedDuration::from_hours(24);
        let from: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let notice = |days: i32| Expiry::of(Some(from), from + day * days).notice;
        assert_eq!(notice(365), day * 14);
        assert_eq!(notice(90), day * 9);
        assert_eq!(notice(10), day);
        let short = Expiry::of(Some(from), from + day * 10);
        assert!(!short.is_near(from + day * 8));
        assert!(short.is_near(from + day * 9 + SignedDuration::from_secs(1)));
        assert_eq!(Expiry::of(None, from).notice, day * 14);
    }

    #[test]
    fn a_certificate_tells_how_long_it_lives() {
        let mut parameters = rcgen::CertificateParams::new(vec!["bmc.example".to_owned()]).unwrap();
        parameters.not_before = rcgen::date_time_ymd(2049, 12, 30);
        parameters.not_after = rcgen::date_time_ymd(2050, 1, 9);
        let key = rcgen::KeyPair::generate().unwrap();
        let found = expiry(parameters.self_signed(&key).unwrap().der());
        let day = SignedDuration::from_hours(24);
        assert_eq!(found.map(|it| it.notice), Some(day));
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
