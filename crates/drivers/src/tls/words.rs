//! Why a handshake failed, in words of our own: those of a library help nobody who looks after a BMC.

use super::PinMismatch;
use crate::error::printable;
use crate::foreign_text::{Flaw, flaw};
use jiff::Timestamp;
use rustls::pki_types::UnixTime;
use rustls::{CertificateError, OtherError};
use std::sync::Arc;

/// How the identifiers of signature algorithms begin that no certificate may have, in DER: MD5 and SHA-1 with RSA, SHA-1 with DSA and ECDSA.
const WEAK: [(&[u8], &str); 4] = [
    (&[6, 9, 42, 134, 72, 134, 247, 13, 1, 1, 4], "MD5"),
    (&[6, 9, 42, 134, 72, 134, 247, 13, 1, 1, 5], "SHA-1"),
    (&[6, 7, 42, 134, 72, 206, 56, 4, 3], "SHA-1"),
    (&[6, 7, 42, 134, 72, 206, 61, 4, 1], "SHA-1"),
];
/// The way out where the certificate itself can be used.
const PIN: &str =
    "or pin the certificate with `tls.verification: Pinned` and `tls.sha256Fingerprint`";

/// A certificate that cannot be used however it is checked.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Unusable(String);

/// Of a device whose certificate is pinned, or not checked: no advice to do that. That a signature does not fit stays what it is.
pub(super) fn of_holder(error: rustls::Error) -> rustls::Error {
    match error {
        rustls::Error::InvalidCertificate(problem) if problem != CertificateError::BadSignature => {
            let unusable = OtherError(Arc::new(Unusable(unusable(&problem).0)));
            rustls::Error::InvalidCertificate(CertificateError::Other(unusable))
        }
        other => other,
    }
}

/// What is wrong with a certificate, what can be done on the device, and whether a pin helps: it does not where the certificate cannot
/// even be read.
fn unusable(problem: &CertificateError) -> (String, bool) {
    let flaw = flaw(problem);
    if flaw == Some(Flaw::Version) {
        let words = "its certificate is of X.509 version 1 or 2, and only version 3 is read; make one of version 3 on the device";
        return (words.to_owned(), false);
    }
    if let CertificateError::UnsupportedSignatureAlgorithmContext {
        signature_algorithm_id: id,
        ..
    } = problem
    {
        let weak = WEAK.iter().find(|(start, _)| id.starts_with(start));
        let algorithm = weak.map_or("an algorithm that is not known here", |(_, name)| name);
        let words = format!(
            "its certificate is signed with {algorithm}, which is not accepted; sign it again with SHA-256"
        );
        return (words, true);
    }
    if flaw == Some(Flaw::CaAsDevice) {
        let words =
            "its certificate is that of a CA, to which no chain leads; renew it on the device";
        return (words.to_owned(), true);
    }
    let words = "its certificate cannot be used; renew it on the device";
    (words.to_owned(), flaw == Some(Flaw::Purpose))
}

/// Why a handshake failed, and the way out.
#[must_use]
pub fn describe(error: &rustls::Error) -> String {
    use rustls::Error as E;
    match error {
        E::InvalidCertificate(problem) => certificate(problem),
        E::InvalidMessage(_)
        | E::InappropriateMessage { .. }
        | E::InappropriateHandshakeMessage { .. } => {
            "it does not speak TLS on this port; correct the port, or enable HTTPS on the device"
                .to_owned()
        }
        E::AlertReceived(alert) => {
            let number = u8::from(*alert);
            format!("it ended the TLS handshake with alert {number}; {VERSIONS}")
        }
        _ => format!("the TLS handshake failed; {VERSIONS}"),
    }
}

const VERSIONS: &str = "the device must offer TLS 1.2 with ECDHE, or TLS 1.3";

fn certificate(problem: &CertificateError) -> String {
    match problem {
        CertificateError::Other(OtherError(own))
            if own.is::<PinMismatch>() || own.is::<Unusable>() =>
        {
            own.to_string()
        }
        CertificateError::BadSignature => format!(
            "a signature is invalid (another CA of the same name, or a device without the key of its certificate); check the trusted CA, {PIN}"
        ),
        CertificateError::UnknownIssuer => {
            format!(
                "its certificate is signed by no trusted CA; put its CA where `tls.caRef` points, {PIN}"
            )
        }
        CertificateError::ExpiredContext { not_after, .. } => format!(
            "its certificate expired on {}; renew it on the device, {PIN}",
            date(*not_after)
        ),
        CertificateError::Expired => {
            format!("its certificate has expired; renew it on the device, {PIN}")
        }
        CertificateError::NotValidYetContext { not_before, .. } => format!(
            "its certificate is valid from {} on only; set the clock of the device and renew it there, {PIN}",
            date(*not_before)
        ),
        CertificateError::NotValidForNameContext {
            expected,
            presented,
        } => {
            let names: Vec<String> = presented.iter().map(|name| bare(name)).collect();
            let made_for = match names.is_empty() {
                true => "no name".to_owned(),
                false => printable(&names.join(", "), NAMES_CHARACTERS_MAX),
            };
            format!(
                "its certificate is for {made_for}, not for {}; use the name it was made for, {PIN}",
                expected.to_str()
            )
        }
        CertificateError::NotValidForName => {
            format!("its certificate is for another host; use the name it was made for, {PIN}")
        }
        _ => match unusable(problem) {
            (words, true) => format!("{words}, {PIN}"),
            (words, false) => words,
        },
    }
}

/// Longest list of names that is shown, in characters.
const NAMES_CHARACTERS_MAX: usize = 200;

/// A name of a certificate as people write it; the library says of which kind it is, too: `DnsName("bmc")`.
fn bare(name: &str) -> String {
    let inner = name
        .split_once('(')
        .and_then(|(_, rest)| rest.strip_suffix(')'));
    inner.unwrap_or(name).trim_matches('"').to_owned()
}

fn date(time: UnixTime) -> String {
    let seconds = i64::try_from(time.as_secs()).ok();
    let date = seconds.and_then(|seconds| Timestamp::from_second(seconds).ok());
    date.map_or_else(|| "an unknown date".to_owned(), |date| date.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIN: &str = "tls.verification: Pinned";

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Library(&'static str);

    fn invalid(debug: &'static str) -> rustls::Error {
        let other = OtherError(Arc::new(Library(debug)));
        rustls::Error::InvalidCertificate(CertificateError::Other(other))
    }

    #[test]
    fn a_certificate_signed_with_sha_1_is_said_to_be() {
        for (id, name) in [
            (
                &[6, 9, 42, 134, 72, 134, 247, 13, 1, 1, 5, 5, 0][..],
                "SHA-1",
            ),
            (&[6, 7, 42, 134, 72, 206, 61, 4, 1], "SHA-1"),
            (&[6, 9, 42, 134, 72, 134, 247, 13, 1, 1, 4, 5, 0], "MD5"),
            (&[6, 1, 1], "an algorithm that is not known here"),
        ] {
            let problem = CertificateError::UnsupportedSignatureAlgorithmContext {
                signature_algorithm_id: id.to_vec(),
                supported_algorithms: Vec::new(),
            };
            let words = describe(&rustls::Error::InvalidCertificate(problem));
            let expected = format!("signed with {name}, which is not accepted");
            assert!(words.contains(&expected), "{words}");
            assert!(words.contains(PIN) && !words.contains("Context"), "{words}");
        }
    }

    /// Whoever has pinned it, or checks nothing, is not told to pin it; nor is anybody, because a pin would not help.
    #[test]
    fn a_certificate_of_version_1_is_said_to_be_without_advice_that_is_followed() {
        let checked = describe(&invalid("UnsupportedCertVersion"));
        let pinned = describe(&of_holder(invalid("UnsupportedCertVersion")));
        for words in [&checked, &pinned] {
            assert!(words.contains("X.509 version 1"), "{words}");
            assert!(!words.contains("UnsupportedCertVersion"), "{words}");
        }
        assert!(!checked.contains(PIN) && !pinned.contains(PIN), "{pinned}");
    }

    #[test]
    fn whoever_does_not_hold_the_key_is_said_to_be_that() {
        let error = rustls::Error::InvalidCertificate(CertificateError::BadSignature);
        assert_eq!(of_holder(error.clone()), error);
    }

    #[test]
    fn no_library_s_words_are_shown() {
        use rustls::{AlertDescription, PeerIncompatible, PeerMisbehaved};
        let incompatible = PeerIncompatible::ServerDoesNotSupportTls12Or13;
        let misbehaved = PeerMisbehaved::UnsolicitedCertExtension;
        for (error, debug) in [
            (invalid("BadDer { at: 7 }"), "BadDer"),
            (incompatible.into(), "ServerDoes"),
            (misbehaved.into(), "Unsolicited"),
            (
                rustls::Error::AlertReceived(AlertDescription::HandshakeFailure),
                "HandshakeFailure",
            ),
        ] {
            let words = describe(&error);
            assert!(!words.contains(debug), "{words}");
        }
    }

    #[test]
    fn dates_and_names_are_written_as_people_write_them() {
        let time = |seconds| UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
        for (problem, expected) in [
            (
                CertificateError::ExpiredContext {
                    time: time(1_800_000_000),
                    not_after: time(1_000_000_000),
                },
                "its certificate expired on 2001-09-09T01:46:40Z; renew it on the device, or pin",
            ),
            (
                CertificateError::NotValidYetContext {
                    time: time(1_000_000_000),
                    not_before: time(1_800_000_000),
                },
                "its certificate is valid from 2027-01-15T08:00:00Z on only; set the clock",
            ),
            (
                CertificateError::NotValidForNameContext {
                    expected: "bmc-1".try_into().unwrap(),
                    presented: vec![
                        "DnsName(\"bmc-2\")".to_owned(),
                        "IpAddress(10.0.0.2)".to_owned(),
                    ],
                },
                "its certificate is for bmc-2, 10.0.0.2, not for bmc-1; use the name",
            ),
        ] {
            let words = describe(&rustls::Error::InvalidCertificate(problem));
            assert!(words.starts_with(expected), "{words}");
        }
    }
}
