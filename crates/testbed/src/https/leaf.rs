//! A server's certificate as TLS and a client that pins it see it.

use std::sync::Arc;

use anyhow::{Context, Result};
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use sha2::{Digest, Sha256};

use crate::pki::Identity;

/// A certificate with its key, ready for a TLS server.
#[derive(Debug)]
pub struct Leaf {
    fingerprint: String,
    config: Arc<ServerConfig>,
}

impl Leaf {
    /// Reads the certificate and the key.
    pub fn new(identity: &Identity) -> Result<Self> {
        let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes())
            .context("failed to read a server's certificate")?;
        let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes())
            .context("failed to read a server's key")?;
        let digest = Sha256::digest(&certificate);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            fingerprint: digest.iter().map(|byte| format!("{byte:02x}")).collect(),
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
