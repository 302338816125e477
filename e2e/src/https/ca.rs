//! A certificate authority for the servers of a lab, and the certificates that it signs.
//!
//! It lives in memory and ends with the lab. Nobody trusts it but those who were handed [`Ca::pem`].

use std::{net::IpAddr, sync::Arc};

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
};
use sha2::{Digest, Sha256};

/// A certificate authority.
pub struct Ca {
    certificate: rcgen::Certificate,
    issuer: Issuer<'static, KeyPair>,
}

/// When a certificate is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validity {
    /// From long ago until long from now.
    Current,
    /// It ended years ago.
    Expired,
}

/// A server's certificate with its key.
#[derive(Debug)]
pub struct Leaf {
    /// The certificate, PEM.
    pub certificate_pem: String,
    /// The private key, PKCS 8 PEM.
    pub key_pem: String,
    fingerprint: String,
    config: Arc<ServerConfig>,
}

impl Ca {
    /// Makes an authority of this name.
    pub fn new(name: &str) -> Result<Self> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        params.key_usages = vec![
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::CrlSign,
        ];
        let key = KeyPair::generate().context("failed to make the key of a lab's authority")?;
        let certificate = params.self_signed(&key)?;
        Ok(Self {
            certificate,
            issuer: Issuer::new(params, key),
        })
    }

    /// The authority's certificate, PEM: what a client must trust.
    pub fn pem(&self) -> String {
        self.certificate.pem()
    }

    /// Signs a new certificate for a server at this address.
    pub fn leaf(&self, address: IpAddr, validity: Validity) -> Result<Leaf> {
        let (params, key) = leaf_params(address, validity)?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Leaf::new(&certificate, &key)
    }
}

impl Leaf {
    /// A certificate that no authority has signed.
    pub fn self_signed(address: IpAddr) -> Result<Self> {
        let (params, key) = leaf_params(address, Validity::Current)?;
        let certificate = params.self_signed(&key)?;
        Self::new(&certificate, &key)
    }

    fn new(certificate: &rcgen::Certificate, key: &KeyPair) -> Result<Self> {
        let chain = vec![CertificateDer::from(certificate.der().to_vec())];
        let private = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, private)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            certificate_pem: certificate.pem(),
            key_pem: key.serialize_pem(),
            fingerprint: hex(&Sha256::digest(certificate.der())),
            config: Arc::new(config),
        })
    }

    /// SHA-256 of the certificate (DER), 64 lower-case hex digits.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// What a TLS server with this certificate is configured with.
    pub fn config(&self) -> Arc<ServerConfig> {
        self.config.clone()
    }
}

fn leaf_params(address: IpAddr, validity: Validity) -> Result<(CertificateParams, KeyPair)> {
    let mut params = CertificateParams::new(vec![address.to_string()])?;
    params
        .distinguished_name
        .push(DnType::CommonName, address.to_string());
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    (params.not_before, params.not_after) = match validity {
        Validity::Current => (date_time_ymd(2020, 1, 1), date_time_ymd(2080, 1, 1)),
        Validity::Expired => (date_time_ymd(2020, 1, 1), date_time_ymd(2021, 1, 1)),
    };
    Ok((params, KeyPair::generate()?))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
