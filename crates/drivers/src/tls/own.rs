//! Who we are to a server that asks for a certificate.

use super::{PROVIDER, validity};
use jiff::Timestamp;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

/// Why a certificate of ours cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OwnCertificateError {
    /// Not one certificate in PEM, or one that cannot be read.
    #[error("it must hold the certificate in PEM, and the ones of its authorities behind it")]
    Certificate,
    /// It has expired.
    #[error("its certificate expired on {0}")]
    Expired(Timestamp),
    /// No key in PEM, or one of a kind that is not known.
    #[error("it must hold the private key in PEM, RSA, ECDSA or Ed25519, without a passphrase")]
    Key,
    /// The key of another certificate.
    #[error("it is not the key of the certificate beside it")]
    OtherKey,
}

impl OwnCertificateError {
    /// Is it the key that cannot be used?
    #[must_use]
    pub fn is_of_key(&self) -> bool {
        matches!(self, Self::Key | Self::OtherKey)
    }
}

/// A certificate of ours with its key, both in PEM, for a server that asks who we are.
///
/// # Errors
/// [`OwnCertificateError`], which holds nothing of the key.
pub fn certified(
    chain: &str,
    key: &str,
    now: Timestamp,
) -> Result<CertifiedKey, OwnCertificateError> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain.as_bytes()).collect();
    let chain = chain.map_err(|_| OwnCertificateError::Certificate)?;
    let end = chain.first().and_then(|own| validity::not_after(own));
    match end {
        Some(end) if end < now => return Err(OwnCertificateError::Expired(end)),
        Some(_) => {}
        None => return Err(OwnCertificateError::Certificate),
    }
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes());
    let key = key.map_err(|_| OwnCertificateError::Key)?;
    CertifiedKey::from_der(chain, key, &PROVIDER).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => OwnCertificateError::OtherKey,
        _ => OwnCertificateError::Key,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A certificate that ends in this year, and its key, in PEM.
    fn pair(year: i32) -> [String; 2] {
        let mut parameters = rcgen::CertificateParams::new(Vec::new()).unwrap();
        parameters.not_after = rcgen::date_time_ymd(year, 1, 1);
        let key = rcgen::KeyPair::generate().unwrap();
        [
            parameters.self_signed(&key).unwrap().pem(),
            key.serialize_pem(),
        ]
    }

    #[test]
    fn a_certificate_of_ours_is_valid_and_has_its_own_key() {
        let now: Timestamp = "2026-11-21T00:00:00Z".parse().unwrap();
        let ([certificate, key], [old, old_key]) = (pair(2050), pair(2020));
        let of = |chain: &str, key: &str| certified(chain, key, now).map(|it| it.cert.len());
        assert_eq!(of(&certificate, &key), Ok(1));
        assert_eq!(of(&format!("{certificate}{old}"), &key), Ok(2));
        assert_eq!(
            of(&certificate, &old_key),
            Err(OwnCertificateError::OtherKey)
        );
        assert!(matches!(
            of(&old, &old_key),
            Err(OwnCertificateError::Expired(_))
        ));
        for (chain, key, error) in [
            ("", key.as_str(), OwnCertificateError::Certificate),
            (&key, &key, OwnCertificateError::Certificate),
            (&certificate, "", OwnCertificateError::Key),
            (&certificate, &certificate, OwnCertificateError::Key),
        ] {
            assert_eq!(of(chain, key), Err(error));
        }
    }
}
