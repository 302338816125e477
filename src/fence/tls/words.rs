//! Why a handshake failed, in words of our own: those of a library help nobody who looks after a BMC.

use super::PinMismatch;
use rustls::{CertificateError, OtherError};
use std::sync::Arc;

/// How SHA-1 with RSA ends in an algorithm's identifier, as libraries print it (1.2.840.113549.1.1.5).
const SHA1_WITH_RSA: &str = "42, 134, 72, 134, 247, 13, 1, 1, 5]";

/// A certificate that cannot be used however it is checked.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Unusable(String);

/// Of a device whose certificate is pinned, or not checked: no advice to do that. That a signature does not fit stays what it is.
pub(super) fn of_holder(error: rustls::Error) -> rustls::Error {
    match error {
        rustls::Error::InvalidCertificate(problem) if problem != CertificateError::BadSignature => {
            let unusable = OtherError(Arc::new(Unusable(unusable(&problem))));
            rustls::Error::InvalidCertificate(CertificateError::Other(unusable))
        }
        other => other,
    }
}

/// What is wrong with a certificate, and what can be done on the device.
fn unusable(problem: &CertificateError) -> String {
    let text = format!("{problem:?}");
    let is = |name: &str| text.contains(name);
    if is("UnsupportedCertVersion") {
        return "its certificate is of X.509 version 1 or 2, and only version 3 is read; make one of version 3 on the device".to_owned();
    }
    if is("UnsupportedSignatureAlgorithm") {
        let algorithm = match is(SHA1_WITH_RSA) {
            true => "SHA-1",
            false => "an algorithm of another kind than SHA-256 with RSA or ECDSA",
        };
        return format!(
            "its certificate is signed with {algorithm}, which is not accepted; sign it again with SHA-256"
        );
    }
    if is("CaUsedAsEndEntity") {
        return "its certificate is that of a CA, to which no chain leads; renew it on the device"
            .to_owned();
    }
    "its certificate cannot be used; renew it on the device".to_owned()
}

/// Why a handshake failed, and the way out.
#[must_use]
pub fn describe(error: &rustls::Error) -> String {
    use rustls::Error as E;
    const PIN: &str =
        "or pin the certificate with `tls.verification: Pinned` and `tls.sha256Fingerprint`";
    match error {
        E::InvalidCertificate(problem) => match problem {
            CertificateError::Other(OtherError(other))
                if other.is::<PinMismatch>() || other.is::<Unusable>() =>
            {
                other.to_string()
            }
            CertificateError::BadSignature => format!(
                "a signature does not fit: either its certificate is signed by another CA of the same name as the one that \
                 is trusted here, {PIN}; or it does not hold the key of its certificate, and is not the device"
            ),
            CertificateError::UnknownIssuer => {
                format!(
                    "its certificate is signed by no CA that is trusted here; name the CA in `tls.caRef`, {PIN}"
                )
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                format!("its certificate has expired ({problem}); renew it on the device, {PIN}")
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                format!(
                    "its certificate is for another host ({problem}); use the name it was made for, {PIN}"
                )
            }
            _ => format!("{}, {PIN}", unusable(problem)),
        },
        E::InvalidMessage(_)
        | E::InappropriateMessage { .. }
        | E::InappropriateHandshakeMessage { .. } => {
            "it does not speak TLS on this port; correct the port, or enable HTTPS on the device"
                .to_owned()
        }
        _ => format!(
            "the TLS handshake failed ({error}); the device must offer TLS 1.2 with ECDHE, or TLS 1.3"
        ),
    }
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
        let words = describe(&invalid(
            "UnsupportedSignatureAlgorithmContext { signature_algorithm_id: [6, 9, 42, 134, 72, 134, 247, 13, 1, 1, 5] }",
        ));
        assert!(
            words.contains("signed with SHA-1, which is not accepted"),
            "{words}"
        );
        assert!(words.contains(PIN) && !words.contains("Context"), "{words}");
    }

    /// Whoever has pinned it, or checks nothing, is not told to pin it.
    #[test]
    fn a_certificate_of_version_1_is_said_to_be_without_advice_that_is_followed() {
        let checked = describe(&invalid("UnsupportedCertVersion"));
        let pinned = describe(&of_holder(invalid("UnsupportedCertVersion")));
        for words in [&checked, &pinned] {
            assert!(words.contains("X.509 version 1"), "{words}");
            assert!(!words.contains("UnsupportedCertVersion"), "{words}");
        }
        assert!(checked.contains(PIN) && !pinned.contains(PIN), "{pinned}");
    }

    #[test]
    fn whoever_does_not_hold_the_key_is_said_to_be_that() {
        let error = rustls::Error::InvalidCertificate(CertificateError::BadSignature);
        assert_eq!(of_holder(error.clone()), error);
    }

    #[test]
    fn no_library_s_words_are_shown() {
        let words = describe(&invalid("BadDer { at: 7 }"));
        assert!(!words.contains("BadDer"), "{words}");
    }
}
