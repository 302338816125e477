//! Who is at the other end of a TLS connection to a BMC.
//!
//! Three ways to know, chosen per device: `Full` checks the certificate's chain, name and dates; `Pinned` knows the one
//! certificate by its SHA-256 fingerprint, which suits the self-signed certificates of BMCs; `None` knows nothing and must
//! be asked for by name. In all three the peer proves in the handshake that it holds the certificate's key, and no session is
//! ever resumed, because a resumed one proves nothing anew.

mod own;
mod validity;
mod words;

pub use own::{OwnCertificateError, certified};
pub use validity::Expiry;
pub use words::describe;

use jiff::Timestamp;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, OtherError, RootCertStore,
    SignatureScheme,
};
use sha2::{Digest, Sha256};
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, LazyLock};

/// How the device's certificate is checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CertificateCheck {
    /// Chain, name and dates, against the certificates in `ca_bundle_pem`, or the system's where there is none.
    Full {
        /// Certificates in PEM, the only ones that are trusted then.
        ca_bundle_pem: Option<Vec<u8>>,
    },
    /// The certificate is exactly this one; chain, name and dates do not matter.
    Pinned(Fingerprint),
    /// Nothing is checked: whoever answers gets the password.
    None,
}

/// SHA-256 of a certificate in DER.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

/// The text is not a fingerprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a fingerprint must be 64 hexadecimal digits, with or without colons between the bytes, as `openssl x509 -noout \
     -fingerprint -sha256` prints it"
)]
pub struct FingerprintError;

impl FromStr for Fingerprint {
    type Err = FingerprintError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let step = if text.contains(':') { 3 } else { 2 };
        if text.len() != 32 * step - (step - 2) {
            return Err(FingerprintError);
        }
        let mut bytes = [0; 32];
        for (index, byte) in bytes.iter_mut().enumerate() {
            let at = index * step;
            let pair = text
                .get(at..at + 2)
                .filter(|pair| pair.bytes().all(|b| b.is_ascii_hexdigit()));
            *byte = u8::from_str_radix(pair.ok_or(FingerprintError)?, 16)
                .map_err(|_| FingerprintError)?;
            if step == 3 && !matches!(text.get(at + 2..at + 3), Some(":") | None) {
                return Err(FingerprintError);
            }
        }
        Ok(Self(bytes))
    }
}

/// As browsers and openssl print it: `AA:BB:…`, 32 pairs.
impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            let colon = if index == 0 { "" } else { ":" };
            write!(f, "{colon}{byte:02X}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Fingerprint {
    /// The fingerprint of a certificate.
    #[must_use]
    pub fn of(certificate_der: &[u8]) -> Self {
        Self(Sha256::digest(certificate_der).into())
    }
}

/// Why a CA bundle cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BundleError {
    /// Not one certificate in it.
    #[error(
        "it holds no certificate in PEM (-----BEGIN CERTIFICATE-----); put the CA's certificate there"
    )]
    Empty,
    /// One of the certificates cannot be read.
    #[error("certificate {index} cannot be read: {problem}; write the file again")]
    Unreadable {
        /// Position in the file, from 1.
        index: usize,
        /// What the parser said.
        problem: String,
    },
    /// All certificates have expired; this one last.
    #[error(
        "certificate {index} expired on {date}, and no other is valid; put the CA's current certificate there"
    )]
    Expired {
        /// Position in the file, from 1.
        index: usize,
        /// The last moment of its validity.
        date: Timestamp,
    },
    /// No CA is known on this system, and none was given.
    #[error(
        "the operator's system knows no CA; name one in `tls.caRef`, or pin the certificate with `tls.verification: Pinned`"
    )]
    NoSystemRoots,
}

/// The moment from which a chain of certificates, as the device presents it, is refused: the first end of validity in it.
#[must_use]
pub fn expiry(chain: &[CertificateDer<'_>]) -> Option<Expiry> {
    let ends = chain
        .iter()
        .filter_map(|certificate| validity::expiry(certificate));
    ends.min()
}

/// When the certificates of a text in PEM expire, up to the first that cannot be read.
pub fn expiries(pem: &[u8]) -> impl Iterator<Item = Expiry> {
    let certificates = CertificateDer::pem_slice_iter(pem).map_while(Result::ok);
    certificates.filter_map(|certificate| validity::expiry(&certificate))
}

/// The system's certificates, read once: they are large, and every device shares them.
static SYSTEM_ROOTS: LazyLock<Arc<RootCertStore>> = LazyLock::new(|| {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    Arc::new(roots)
});

/// The cryptography, shared by all connections to devices.
static PROVIDER: LazyLock<Arc<CryptoProvider>> =
    LazyLock::new(|| Arc::new(rustls::crypto::ring::default_provider()));

/// Settings of a TLS client that accepts nobody but the device. `now` decides which certificates of a bundle have expired.
///
/// # Errors
/// [`BundleError`] when there is no certificate to verify against.
pub fn client_config(
    verification: &CertificateCheck,
    now: Timestamp,
) -> Result<ClientConfig, BundleError> {
    let provider = Arc::clone(&PROVIDER);
    let verifier: Arc<dyn ServerCertVerifier> = match verification {
        CertificateCheck::Full { ca_bundle_pem } => {
            let roots = match ca_bundle_pem {
                Some(pem) => Arc::new(read_bundle(pem, now)?),
                None => Arc::clone(&SYSTEM_ROOTS),
            };
            // Fails for nothing but an empty store: no revocation lists are given.
            WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider))
                .build()
                .map_err(|_| BundleError::NoSystemRoots)?
        }
        CertificateCheck::Pinned(pin) => Arc::new(KeyHolder {
            pin: Some(*pin),
            provider: Arc::clone(&provider),
        }),
        CertificateCheck::None => Arc::new(KeyHolder {
            pin: None,
            provider: Arc::clone(&provider),
        }),
    };
    let builder = ClientConfig::builder_with_provider(provider);
    // Fails for nothing but a provider without a cipher suite for the versions.
    let builder = builder
        .with_safe_default_protocol_versions()
        .map_err(|_| BundleError::NoSystemRoots)?;
    let mut config = builder
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    Ok(config)
}

/// The certificates of a bundle that are still valid; at least one.
fn read_bundle(pem: &[u8], now: Timestamp) -> Result<RootCertStore, BundleError> {
    let mut roots = RootCertStore::empty();
    let mut expired = None;
    for (index, certificate) in (1..).zip(CertificateDer::pem_slice_iter(pem)) {
        let unreadable = |problem: String| BundleError::Unreadable { index, problem };
        let certificate = certificate.map_err(|error| unreadable(error.to_string()))?;
        let not_after = validity::not_after(&certificate);
        let not_after =
            not_after.ok_or_else(|| unreadable("it has no date of expiry".to_owned()))?;
        if not_after < now {
            expired = Some(BundleError::Expired {
                index,
                date: not_after,
            });
            continue;
        }
        roots
            .add(certificate)
            .map_err(|error| unreadable(error.to_string()))?;
    }
    if roots.is_empty() {
        Err(expired.unwrap_or(BundleError::Empty))
    } else {
        Ok(roots)
    }
}

/// Accepts a peer that holds the key of the certificate it presents, and, with a pin, only that one certificate.
#[derive(Debug)]
struct KeyHolder {
    pin: Option<Fingerprint>,
    provider: Arc<CryptoProvider>,
}

/// Another certificate than the pinned one.
#[derive(Debug, thiserror::Error)]
#[error(
    "its certificate has fingerprint {presented}, `tls.sha256Fingerprint` is {pinned}; write the new fingerprint only if you renewed the certificate, or this is an attack"
)]
struct PinMismatch {
    presented: Fingerprint,
    pinned: Fingerprint,
}

impl ServerCertVerifier for KeyHolder {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let presented = Fingerprint::of(end_entity);
        match self.pin {
            Some(pinned) if pinned != presented => {
                let mismatch = OtherError(Arc::new(PinMismatch { presented, pinned }));
                Err(rustls::Error::InvalidCertificate(CertificateError::Other(
                    mismatch,
                )))
            }
            _ => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms).map_err(words::of_holder)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms).map_err(words::of_holder)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "AA:BB:CC:DD:EE:FF:00:11:22:33:44:55:66:77:88:99:AA:BB:CC:DD:EE:FF:00:11:22:33:44:55:66:77:88:99";

    #[test]
    fn a_fingerprint_is_read_with_and_without_colons_in_any_case() {
        let bare = PRINTED.replace(':', "").to_lowercase();
        for text in [PRINTED, &PRINTED.to_lowercase(), &bare] {
            assert_eq!(
                text.parse::<Fingerprint>().map(|read| read.to_string()),
                Ok(PRINTED.to_owned())
            );
        }
        let moved = PRINTED.replacen("AA:BB", "AAB:B", 1);
        let foreign = PRINTED.replacen("AA", "A\u{e9}", 1);
        for text in [
            "",
            &PRINTED[1..],
            &PRINTED[3..],
            &format!("{PRINTED}:00"),
            &moved,
            &foreign,
            &bare.replacen("aa", "+a", 1),
        ] {
            assert_eq!(text.parse::<Fingerprint>(), Err(FingerprintError), "{text}");
        }
    }

    #[test]
    fn an_expired_ca_counts_only_when_another_is_valid() {
        let authority = |year| {
            let mut parameters = rcgen::CertificateParams::new(Vec::new()).unwrap();
            parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
            parameters.not_after = rcgen::date_time_ymd(year, 1, 1);
            parameters
                .self_signed(&rcgen::KeyPair::generate().unwrap())
                .unwrap()
                .pem()
        };
        let now: Timestamp = "2026-11-21T00:00:00Z".parse().unwrap();
        let (old, new) = (authority(2020), authority(2050));
        assert_eq!(
            read_bundle(format!("{old}{new}").as_bytes(), now).map(|roots| roots.len()),
            Ok(1)
        );
        let error = read_bundle(format!("{old}{old}").as_bytes(), now)
            .map(|_| ())
            .unwrap_err();
        assert!(
            error
                .to_string()
                .contains("certificate 2 expired on 2020-01-01T00:00:00Z"),
            "{error}"
        );
    }
}
