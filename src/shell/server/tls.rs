//! HTTPS for the operator's own pages, by a certificate in files that may be replaced while it runs.
//!
//! The files are read again for each connection, of which there are few: cert-manager renews the Secret, and the kubelet replaces the files of its
//! volume. Files that cannot be used are logged, and the certificate before them stays: a scrape is no reason to end an operator.

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;
use zeroize::Zeroizing;

/// Names of the files, as in a Secret of type `kubernetes.io/tls`.
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";

/// Why the files cannot be used. It holds nothing of the key.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// One is not there, or may not be read.
    #[error("--http-tls-dir: failed to read {} ({problem}); mount a Secret with the keys tls.crt and tls.key there", .file.display())]
    Read {
        /// Which.
        file: PathBuf,
        /// Why.
        problem: io::Error,
    },
    /// No certificate.
    #[error("--http-tls-dir: {} must hold the certificate in PEM, and those of its issuers behind it", .0.display())]
    Certificate(PathBuf),
    /// No key, or another certificate's.
    #[error("--http-tls-dir: {} must hold the private key of the certificate beside it, in PEM without a passphrase", .0.display())]
    Key(PathBuf),
}

/// A certificate, as its files were read last.
pub struct Certificate {
    directory: PathBuf,
    files: Files,
    config: Arc<ServerConfig>,
}

/// What the files hold.
#[derive(PartialEq)]
struct Files {
    certificate: Vec<u8>,
    key: Zeroizing<Vec<u8>>,
}

impl Certificate {
    /// That of the files in this directory.
    ///
    /// # Errors
    /// [`Error`].
    pub fn read(directory: &Path) -> Result<Self, Error> {
        let files = Files::read(directory)?;
        Ok(Self {
            config: files.config(directory)?,
            directory: directory.to_owned(),
            files,
        })
    }

    /// Accepts a connection with the certificate that the files hold now.
    pub fn acceptor(&mut self) -> TlsAcceptor {
        if let Err(error) = self.refresh() {
            let error = fencing_cluster::text::chain(&error);
            tracing::warn!(error, "cannot renew the certificate, the former one stays");
        }
        TlsAcceptor::from(Arc::clone(&self.config))
    }

    fn refresh(&mut self) -> Result<(), Error> {
        let files = Files::read(&self.directory)?;
        if files != self.files {
            // Whatever they are worth, they are logged once.
            self.files = files;
            self.config = self.files.config(&self.directory)?;
        }
        Ok(())
    }
}

impl Files {
    fn read(directory: &Path) -> Result<Self, Error> {
        let read = |name: &str| {
            let file = directory.join(name);
            fs::read(&file).map_err(|problem| Error::Read { file, problem })
        };
        Ok(Self {
            certificate: read(CERTIFICATE)?,
            key: Zeroizing::new(read(KEY)?),
        })
    }

    fn config(&self, directory: &Path) -> Result<Arc<ServerConfig>, Error> {
        let no_certificate = || Error::Certificate(directory.join(CERTIFICATE));
        let no_key = || Error::Key(directory.join(KEY));
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.certificate).collect();
        let chain = chain.ok().filter(|chain| !chain.is_empty());
        let chain = chain.ok_or_else(no_certificate)?;
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(|_| no_key())?;
        let provider = Arc::new(ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|it| it.with_no_client_auth().with_single_cert(chain, key))
            .map_err(|_| no_key())?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Server, Site};
    use super::*;
    use crate::shell::health::Health;
    use crate::shell::metrics::Metrics;
    use fencing_cluster::stop::Stopper;
    use rcgen::{CertificateParams, KeyPair};
    use rustls::pki_types::ServerName;
    use rustls::{ClientConfig, RootCertStore};
    use std::net::SocketAddr;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;
    use tokio_rustls::TlsConnector;

    const REQUEST: &[u8] = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n";

    /// Puts another certificate into the directory.
    fn renew(directory: &Path) -> CertificateDer<'static> {
        let parameters = CertificateParams::new(vec!["operator".to_owned()]).expect("parameters");
        let key = KeyPair::generate().expect("a key");
        let certificate = parameters.self_signed(&key).expect("a certificate");
        fs::write(directory.join(CERTIFICATE), certificate.pem()).expect("written");
        fs::write(directory.join(KEY), key.serialize_pem()).expect("written");
        certificate.der().clone()
    }

    /// What `/livez` answers to a client that trusts this certificate alone; none: it trusts another one.
    async fn livez(address: SocketAddr, trusted: &CertificateDer<'static>) -> Option<String> {
        let mut roots = RootCertStore::empty();
        roots.add(trusted.clone()).expect("a certificate");
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("operator").expect("a name");
        let stream = TcpStream::connect(address).await.expect("a connection");
        let connected = TlsConnector::from(Arc::new(config)).connect(name, stream);
        let mut stream = connected.await.ok()?;
        stream.write_all(REQUEST).await.expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("an answer");
        Some(answer)
    }

    #[tokio::test]
    async fn a_renewed_certificate_is_shown_and_a_broken_one_is_not() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path();
        let first = renew(path);
        let certificate = Certificate::read(path).expect("a certificate");
        let server = Server::bind("127.0.0.1:0".parse().expect("an address"));
        let server = server.await.expect("a port");
        let address = server.address();
        let site = Site {
            health: Health::default(),
            metrics: Arc::new(Metrics::new().expect("metrics")),
        };
        let (_stopper, stop) = Stopper::new();
        tokio::spawn(server.serve(site, Some(certificate), stop));

        let answer = livez(address, &first).await.expect("the first");
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        let second = renew(path);
        assert!(livez(address, &second).await.is_some());
        assert!(livez(address, &first).await.is_none());
        fs::write(path.join(KEY), "nothing").expect("written");
        assert!(livez(address, &second).await.is_some());
        fs::remove_file(path.join(CERTIFICATE)).expect("removed");
        assert!(livez(address, &second).await.is_some());

        let mut plain = TcpStream::connect(address).await.expect("a connection");
        plain.write_all(REQUEST).await.expect("sent");
        let mut answer = Vec::new();
        // The server may close before it has read everything.
        let _ = plain.read_to_end(&mut answer).await;
        assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    }

    #[test]
    fn files_that_cannot_be_used_are_named_without_their_contents() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path();
        let complaint = || {
            let error = Certificate::read(path).err().expect("an error");
            fencing_cluster::text::chain(&error)
        };
        let missing = complaint();
        assert!(
            missing.contains("tls.crt") && missing.contains("No such file"),
            "{missing}"
        );
        renew(path);
        let key = fs::read(path.join(KEY)).expect("the key");
        renew(path);
        fs::write(path.join(KEY), key).expect("written");
        let other = complaint();
        assert!(
            other.contains("tls.key must hold the private key"),
            "{other}"
        );
        fs::write(path.join(CERTIFICATE), "nothing").expect("written");
        let none = complaint();
        assert!(none.contains("tls.crt must hold the certificate"), "{none}");
    }
}
