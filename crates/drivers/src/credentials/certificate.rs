//! A Secret with a certificate by which the operator shows a server who it is.

use super::{Credentials, CredentialsError};
use crate::tls;
use jiff::Timestamp;
use rustls::ClientConfig;
use rustls::sign::SingleCertAndKey;
use std::sync::Arc;

/// The keys of a Secret with a client's certificate and its key in PEM, as cert-manager writes them.
pub const CERTIFICATE: [&str; 2] = ["tls.crt", "tls.key"];

impl Credentials {
    /// From now on a client proves in the handshake who it is, where the Secret has a certificate for it.
    ///
    /// # Errors
    /// [`CredentialsError::Value`] when certificate or key cannot be used.
    pub fn present(
        &self,
        config: &mut ClientConfig,
        now: Timestamp,
    ) -> Result<(), CredentialsError> {
        let [chain, key] = CERTIFICATE;
        if self.value(key).is_empty() {
            return Ok(());
        }
        let certified = tls::certified(self.value(chain), self.value(key), now);
        let certified = certified.map_err(|error| {
            let key = if error.is_of_key() { key } else { chain };
            self.refuse(key, &error.to_string())
        })?;
        config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(certified));
        Ok(())
    }
}
