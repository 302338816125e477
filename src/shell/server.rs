//! `/livez`, `/readyz` and `/metrics` over HTTP, or HTTPS with a certificate of one's own.
//!
//! Whoever can reach the port can at worst make it slow: a connection carries one request without a body, its head has a
//! time and a size limit, it ends after [`CONNECTION_TIME_MAX`], and only so many are served at once.

pub mod tls;

use super::health::Health;
use super::metrics::Metrics;
use bytes::Bytes;
use fencing_cluster::stop::Stop;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::io::Errno;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tls::Certificate;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

/// Connections served at once; more wait.
const CONNECTIONS_MAX: usize = 64;
/// How long the head of a request may take.
const HEAD_TIME_MAX: Duration = Duration::from_secs(5);
/// How large the head of a request may be, in bytes.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// How long a connection may last.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(15);
/// Pause after a connection could not be accepted, for instance because no file descriptor is left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Somebody else has the port.
    #[error(
        "--http-bind: {address} is in use by another process; choose another port, or 0 for a free one"
    )]
    InUse {
        /// As given.
        address: SocketAddr,
    },
    /// The operating system does not give it to us.
    #[error("--http-bind: failed to listen on {address}")]
    Bind {
        /// As given.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
}

/// What the server answers from.
#[derive(Clone)]
pub struct Site {
    /// For `/livez` and `/readyz`.
    pub health: Health,
    /// For `/metrics`.
    pub metrics: Arc<Metrics>,
}

/// A bound port.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
}

impl Server {
    /// Takes the port: with `[::]` that of IPv4 too, as Linux has it (`net.ipv6.bindv6only` is 0), or alone where the kernel has no IPv6.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn bind(address: SocketAddr) -> Result<Self, Error> {
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::AddrInUse => Error::InUse { address },
            _ => Error::Bind { address, source },
        };
        let bound = match TcpListener::bind(address).await {
            Err(error) => match without_ipv6(address, &error) {
                Some(other) => TcpListener::bind(other).await,
                None => Err(error),
            },
            bound => bound,
        };
        let listener = bound.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until the end, by HTTPS if there is a certificate.
    pub async fn serve(self, site: Site, mut tls: Option<Certificate>, stop: Stop) {
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let accept = async || {
            let place = Arc::clone(&places).acquire_owned().await;
            (place, self.listener.accept().await)
        };
        while let Some((place, accepted)) = stop.or(accept()).await {
            match accepted {
                Ok((stream, _)) => {
                    let site = site.clone();
                    let tls = tls.as_mut().map(Certificate::acceptor);
                    tokio::spawn(async move {
                        let _place = place;
                        // However it ends, there is nobody to tell: the peer knows, and it is no fault of ours.
                        let _ = timeout(CONNECTION_TIME_MAX, connection(stream, tls, site)).await;
                    });
                }
                Err(error) => {
                    tracing::debug!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// What stands in for `[::]` where that failed for lack of IPv6: EAFNOSUPPORT without its module, EADDRNOTAVAIL where it is disabled.
fn without_ipv6(address: SocketAddr, error: &io::Error) -> Option<SocketAddr> {
    let is_everywhere = address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    let lacks_it = matches!(
        Errno::from_io_error(error),
        Some(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL)
    );
    (is_everywhere && lacks_it).then(|| (Ipv4Addr::UNSPECIFIED, address.port()).into())
}

async fn connection(stream: TcpStream, tls: Option<TlsAcceptor>, site: Site) {
    let Some(tls) = tls else {
        return exchange(stream, site).await;
    };
    if let Ok(Ok(stream)) = timeout(HEAD_TIME_MAX, tls.accept(stream)).await {
        exchange(stream, site).await;
    }
}

/// One request and its answer.
async fn exchange(stream: impl AsyncRead + AsyncWrite + Unpin, site: Site) {
    let service = service_fn(move |request: Request<Incoming>| {
        let response = answer(&site, &request);
        async move { Ok::<_, Infallible>(response) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    let _ = connection.await;
}

fn answer<B: Body>(site: &Site, request: &Request<B>) -> Response<Full<Bytes>> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut response = text(
            StatusCode::METHOD_NOT_ALLOWED,
            "only GET and HEAD\n".to_owned(),
        );
        let allowed = HeaderValue::from_static("GET, HEAD");
        response.headers_mut().insert(ALLOW, allowed);
        return response;
    }
    if !request.body().is_end_stream() {
        let words = "a request has no body here\n";
        return text(StatusCode::PAYLOAD_TOO_LARGE, words.to_owned());
    }
    match request.uri().path() {
        "/livez" => match site.health.not_alive() {
            None => text(StatusCode::OK, "ok\n".to_owned()),
            Some(reason) => text(StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")),
        },
        "/readyz" => {
            let reasons = site.health.not_ready();
            if reasons.is_empty() {
                return text(StatusCode::OK, "ok\n".to_owned());
            }
            let lines = reasons.join("\n");
            text(
                StatusCode::SERVICE_UNAVAILABLE,
                format!("not ready:\n{lines}\n"),
            )
        }
        "/metrics" => match site.metrics.render() {
            Ok(body) => with_type(StatusCode::OK, body, prometheus::TEXT_FORMAT),
            Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
        },
        _ => text(
            StatusCode::NOT_FOUND,
            "there are /livez, /readyz and /metrics\n".to_owned(),
        ),
    }
}

fn text(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    with_type(status, body, "text/plain; charset=utf-8")
}

fn with_type(status: StatusCode, body: String, kind: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests;
