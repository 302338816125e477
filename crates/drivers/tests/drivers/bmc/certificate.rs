//! The certificates of a BMC of ours, right and wrong ones.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, PublicKeyData,
    SignatureAlgorithm, SigningKey,
};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio_rustls::TlsAcceptor;

/// Each CA has a name of its own.
static NAMED: AtomicUsize = AtomicUsize::new(0);

/// A certificate and its key.
pub struct Certificate {
    pub der: CertificateDer<'static>,
    /// PEM of who signed it.
    pub issuer_pem: String,
    key: KeyPair,
}

impl Certificate {
    /// For 127.0.0.1 and localhost, by a CA of its own.
    pub fn new() -> Self {
        Self::valid_until(2090)
    }

    /// The same, valid until the beginning of a year.
    pub fn valid_until(year: i32) -> Self {
        Self::issue(&["127.0.0.1", "localhost"], year)
    }

    /// For other names.
    pub fn of_host(name: &str) -> Self {
        Self::issue(&[name], 2090)
    }

    /// A BMC's own, a CA to itself.
    pub fn self_signed() -> Self {
        let mut parameters = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = parameters.self_signed(&key).unwrap();
        Self {
            der: certificate.der().clone(),
            issuer_pem: certificate.pem(),
            key,
        }
    }

    /// By an RSA key, as far as can be seen, and with SHA-1.
    pub fn signed_with_sha_1() -> Self {
        const WITH_RSA: [u8; 10] = [6, 9, 42, 134, 72, 134, 247, 13, 1, 1];
        Self::issue_by(&["127.0.0.1"], 2090, SaysRsa).rewritten(|der| {
            let places = 0..der.len() - WITH_RSA.len();
            for at in places
                .filter(|at| der[*at..].starts_with(&WITH_RSA))
                .collect::<Vec<_>>()
            {
                der[at + WITH_RSA.len()] = 5;
            }
        })
    }

    /// Of X.509 version 1.
    pub fn of_version_1() -> Self {
        const THREE: [u8; 5] = [0xa0, 3, 2, 1, 2];
        Self::new().rewritten(|der| {
            let at = der.windows(THREE.len()).position(|bytes| bytes == THREE);
            der[at.unwrap() + 4] = 0;
        })
    }

    fn rewritten(mut self, change: impl FnOnce(&mut [u8])) -> Self {
        let mut der = self.der.to_vec();
        change(&mut der);
        self.der = der.into();
        self
    }

    fn issue(names: &[&str], year: i32) -> Self {
        Self::issue_by(names, year, |key| key)
    }

    fn issue_by<K: SigningKey>(names: &[&str], year: i32, by: fn(KeyPair) -> K) -> Self {
        let mut authority = CertificateParams::new(Vec::new()).unwrap();
        let number = NAMED.fetch_add(1, Ordering::Relaxed);
        authority
            .distinguished_name
            .push(DnType::CommonName, format!("CA {number}"));
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority_key = KeyPair::generate().unwrap();
        let issuer_pem = authority.self_signed(&authority_key).unwrap().pem();
        let issuer = Issuer::new(authority, by(authority_key));
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut parameters = CertificateParams::new(names).unwrap();
        parameters.not_before = rcgen::date_time_ymd(2000, 1, 1);
        parameters.not_after = rcgen::date_time_ymd(year, 1, 1);
        let key = KeyPair::generate().unwrap();
        let der = parameters.signed_by(&key, &issuer).unwrap().der().clone();
        Self {
            der,
            issuer_pem,
            key,
        }
    }

    /// The same certificate, presented by somebody who does not hold its key.
    pub fn stolen(&self) -> Self {
        Self {
            der: self.der.clone(),
            issuer_pem: self.issuer_pem.clone(),
            key: KeyPair::generate().unwrap(),
        }
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let key = PrivateKeyDer::try_from(self.key.serialize_der()).unwrap();
        let key = provider.key_provider.load_private_key(key).unwrap();
        // Not `with_single_cert`, which would notice that the key is another.
        let certified = rustls::sign::CertifiedKey::new(vec![self.der.clone()], key);
        let resolver = rustls::sign::SingleCertAndKey::from(certified);
        let builder = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap();
        TlsAcceptor::from(Arc::new(
            builder
                .with_no_client_auth()
                .with_cert_resolver(Arc::new(resolver)),
        ))
    }
}

/// A key that signs as an RSA key would say that it does.
struct SaysRsa(KeyPair);

impl PublicKeyData for SaysRsa {
    fn der_bytes(&self) -> &[u8] {
        self.0.der_bytes()
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &rcgen::PKCS_RSA_SHA256
    }
}

impl SigningKey for SaysRsa {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        self.0.sign(message)
    }
}
