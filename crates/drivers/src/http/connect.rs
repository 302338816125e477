//! Opens a connection to a device: the address judged before anything is sent to it, the device identified before it is
//! sent a password.

use crate::DeviceError;
use crate::address::{Address, AddressRules};
use crate::credentials::Credentials;
use crate::error::printable;
use crate::resolve::{self, unreachable};
use crate::tls::{self, Expiry};
use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

/// Largest head of an answer in bytes.
const HEAD_BYTES_MAX: usize = 32 << 10;
/// Most header fields of an answer.
const HEADERS_MAX: usize = 100;
/// Time for one address of several to answer a connection request.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(3);

/// Where a client connects, and what it may send there.
#[derive(Clone)]
pub struct Target {
    /// The device.
    pub address: Address,
    /// TLS, unless the address is plain `http://`.
    pub tls: Option<TlsConnector>,
    /// User and password.
    pub credentials: Arc<Credentials>,
    /// Where they may go.
    pub rules: Arc<AddressRules>,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// An open connection; dropping it closes it soon.
#[derive(Debug)]
pub struct Connection {
    /// Takes requests.
    pub sender: http1::SendRequest<Full<Bytes>>,
    /// When the certificates that the device presented expire.
    pub expiry: Option<Expiry>,
    task: JoinHandle<()>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Connection {
    /// Closes it, and ends when it is closed: dropping it only tells its task to.
    pub async fn close(mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }

    /// Connects to `resolved`, or to the first allowed address of the host, and tells which address it was.
    pub async fn open(
        target: &Target,
        resolved: Option<SocketAddr>,
    ) -> Result<(Self, SocketAddr), DeviceError> {
        // Before anything is opened: a user that cannot be sent needs no connection.
        target.credentials.basic()?;
        let dialled = dial(target, resolved).await?;
        let address = dialled.address;
        Ok((Self::begin(&target.address, dialled).await?, address))
    }

    async fn begin(endpoint: &Address, dialled: Dialled) -> Result<Self, DeviceError> {
        let Dialled { stream, expiry, .. } = dialled;
        let mut builder = http1::Builder::new();
        builder
            .max_headers(HEADERS_MAX)
            .max_header_size(HEAD_BYTES_MAX)
            .max_buf_size(2 * HEAD_BYTES_MAX);
        let handshake = builder.handshake(TokioIo::new(stream)).await;
        let (sender, connection) =
            handshake.map_err(|error| unreachable(endpoint, describe(&error)))?;
        // What goes wrong on the connection is reported by the request it happens to.
        let task = tokio::spawn(async move { drop(connection.await) });
        Ok(Self {
            sender,
            expiry,
            task,
        })
    }
}

/// What two programs talk over.
pub trait Stream: AsyncRead + AsyncWrite + Send + Sync + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Sync + Unpin> Stream for S {}

/// A stream to a device that has shown who it is, where it is asked to.
pub struct Dialled {
    /// The stream.
    pub stream: Box<dyn Stream>,
    /// The address that was connected to.
    pub address: SocketAddr,
    /// When the certificates that the device presented expire.
    pub expiry: Option<Expiry>,
}

/// Connects to `resolved`, or to the first allowed address of the host. Whatever is spoken over it comes later.
///
/// # Errors
/// [`DeviceError`] when there is no connection, or the device has not shown who it is.
pub async fn dial(target: &Target, resolved: Option<SocketAddr>) -> Result<Dialled, DeviceError> {
    let candidates = match resolved {
        Some(address) => vec![address],
        None => resolve::addresses(&target.address, &target.credentials, &target.rules).await?,
    };
    let (stream, address) = connect_any(&target.address, &candidates).await?;
    let Some(connector) = &target.tls else {
        return Ok(Dialled {
            stream: Box::new(stream),
            address,
            expiry: None,
        });
    };
    let host = &target.address.host;
    let name = ServerName::try_from(host.clone()).map_err(|error| DeviceError::Settings {
        field: "redfish.address",
        problem: format!("{host} cannot be the name in a certificate ({error})"),
    })?;
    let stream = connector.connect(name, stream).await;
    let stream = stream.map_err(|error| handshake_error(&target.address, &error))?;
    let chain = stream.get_ref().1.peer_certificates();
    let expiry = chain.and_then(tls::expiry);
    Ok(Dialled {
        stream: Box::new(stream),
        address,
        expiry,
    })
}

/// A connection to the first address that takes one.
async fn connect_any(
    endpoint: &Address,
    candidates: &[SocketAddr],
) -> Result<(TcpStream, SocketAddr), DeviceError> {
    let mut problem = String::new();
    for &candidate in candidates {
        let attempt = TcpStream::connect(candidate);
        // A single address has all the time of the call; of several, one that is silent must not use it up.
        let connected = if candidates.len() == 1 {
            attempt.await
        } else {
            tokio::time::timeout(CONNECT_TIME_MAX, attempt)
                .await
                .unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()))
        };
        match connected {
            Ok(stream) => {
                // Small requests, each waited for: without it the kernel may hold one back. Failing costs time only.
                let _ = stream.set_nodelay(true);
                return Ok((stream, candidate));
            }
            Err(error) => problem = format!("{candidate}: {error}"),
        }
    }
    Err(unreachable(endpoint, problem))
}

/// Either the network failed during the handshake, or the peer did.
fn handshake_error(endpoint: &Address, error: &std::io::Error) -> DeviceError {
    match error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>())
    {
        Some(error) => {
            tracing::debug!(%endpoint, %error, "the TLS handshake failed");
            DeviceError::TlsIdentity {
                endpoint: endpoint.to_string(),
                problem: tls::describe(error),
            }
        }
        None => unreachable(
            endpoint,
            format!("the connection broke during the TLS handshake ({error})"),
        ),
    }
}

/// The error and its causes.
pub fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    printable(&text, 300)
}
