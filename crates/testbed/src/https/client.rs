//! An HTTPS client that trusts one authority and sends each request once at most.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http_body_util::Full;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::TokioExecutor,
};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, pem::PemObject},
};

/// Sends requests with whole bodies.
pub type Client = legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// A client that trusts this authority (PEM) and no other. It takes a new connection when an idle one turns out to be
/// closed before a byte of the request was written, and never repeats a request otherwise.
pub fn client(ca_pem: &str) -> Result<Client> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca_pem.as_bytes()) {
        roots.add(certificate.context("failed to read an authority's certificate")?)?;
    }
    ensure!(
        !roots.is_empty(),
        "there is no certificate in the authority's PEM"
    );
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(config)
        .https_or_http()
        .enable_http1()
        .wrap_connector(http);
    Ok(legacy::Client::builder(TokioExecutor::new())
        .retry_canceled_requests(true)
        .build(connector))
}
