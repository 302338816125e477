//! Accepts connections, speaks TLS and HTTP/1.1 on them, and lets a [`Site`] answer.

use std::{
    convert::Infallible,
    future::poll_fn,
    net::{IpAddr, SocketAddr, TcpListener},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::Result;
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response, request::Parts};
use http_body_util::{BodyExt, Full, Limited, combinators::UnsyncBoxBody};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::watch,
    task::{JoinHandle, JoinSet},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use super::line::{Line, Switch};
use crate::ports::Port;

/// Requests above this are cut off: nothing that the operator sends comes near.
const REQUEST_BYTES_MAX: usize = 8 << 20;

/// The body of an answer.
pub type Body = UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;

/// A body that is all there.
pub fn body_of(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into())
        .map_err(|never: Infallible| match never {})
        .boxed_unsync()
}

/// A whole request, and on which connection it came.
#[derive(Debug, Clone)]
pub struct Call {
    /// Method, path, headers.
    pub head: Parts,
    /// The whole body.
    pub body: Bytes,
    /// Number of the connection, counted from 1.
    pub connection: u64,
    /// Number of the request on its connection, counted from 1.
    pub nth_on_connection: u32,
}

/// Why a connection ends instead of an answer, or in the middle of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Cut {
    /// Closed without an answer.
    #[error("the lab closes this connection")]
    Close,
    /// Reset: the client sees ECONNRESET.
    #[error("the lab resets this connection")]
    Reset,
}

/// A connection, with TLS or without.
pub type Wire = Box<dyn Duplex>;

/// Reads and writes.
pub trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Duplex for S {}

/// What a server says.
pub trait Site: Send + Sync + 'static {
    /// The certificate for a new connection; `None` to speak plain HTTP.
    fn tls(&self) -> Option<Arc<ServerConfig>>;
    /// Does it speak HTTP/1.1?
    fn is_http(&self) -> bool {
        true
    }
    /// Speaks what it speaks instead, until the connection ends.
    fn speak(self: Arc<Self>, _: Wire) -> BoxFuture<'static, ()> {
        Box::pin(async {})
    }
    /// Answers a request. Goes on to its end even when the client goes away in the meantime.
    fn answer(self: Arc<Self>, call: Call) -> BoxFuture<'static, Result<Response<Body>, Cut>>;
}

/// A running server. Ends when dropped.
pub struct Server {
    switch: Arc<Switch>,
    task: JoinHandle<()>,
    _port: Option<Port>,
}

impl Server {
    /// Listens at the address and answers for the site: on the preferred port or, if that is taken or not allowed, on a
    /// free one.
    pub fn start(address: IpAddr, preferred: Option<u16>, site: Arc<dyn Site>) -> Result<Self> {
        let (listener, port) = match preferred.map(|port| TcpListener::bind((address, port))) {
            Some(Ok(listener)) => (listener, None),
            // A port of the kernel's choice would not do: the kernel takes it back while the line is refused.
            Some(Err(_)) | None => {
                let (port, listener) = Port::listen(address)?;
                (listener, Some(port))
            }
        };
        Self::on(listener, port, site)
    }

    /// Answers for the site on this socket, and holds the port.
    pub fn on(listener: TcpListener, port: Option<Port>, site: Arc<dyn Site>) -> Result<Self> {
        let switch = Arc::new(Switch::new(listener)?);
        let task = tokio::spawn(accept(site, switch.clone()));
        Ok(Self {
            switch,
            task,
            _port: port,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.switch.address()
    }

    /// Changes the state of the line. It holds for every connection, open or new, when this returns.
    pub fn set_line(&self, line: Line) -> Result<()> {
        self.switch.set(line)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(site: Arc<dyn Site>, switch: Arc<Switch>) {
    let mut line = switch.watch();
    let mut connections = JoinSet::new();
    let count = AtomicU64::new(0);
    loop {
        let state = *line.borrow_and_update();
        if matches!(state, Line::Refused | Line::Dark) {
            if line.changed().await.is_err() {
                return;
            }
            continue;
        }
        let Ok(listener) = switch.listener() else {
            return;
        };
        loop {
            tokio::select! {
                biased;
                _ = line.changed() => break,
                Some(_) = connections.join_next() => {}
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        let number = count.fetch_add(1, Ordering::Relaxed) + 1;
                        connections.spawn(serve(site.clone(), stream, number, line.clone(), state));
                    }
                    // The port was closed a moment ago: the line's change is about to tell.
                    Err(_) => tokio::time::sleep(Duration::from_millis(1)).await,
                }
            }
        }
    }
}

/// One connection. When the line goes away, it falls silent or is cut; when the line is back, it is cut.
async fn serve(
    site: Arc<dyn Site>,
    stream: TcpStream,
    number: u64,
    mut line: watch::Receiver<Line>,
    state: Line,
) {
    let _ = stream.set_nodelay(true);
    let talk = async {
        match state {
            Line::Up => talk(site, stream, number).await,
            // The stream stays here, open and unread, until this future is dropped.
            Line::Refused | Line::BlackHole | Line::Dark => std::future::pending().await,
        }
    };
    tokio::pin!(talk);
    tokio::select! {
        biased;
        _ = line.changed() => {}
        () = &mut talk => return,
    }
    while matches!(*line.borrow_and_update(), Line::BlackHole | Line::Dark) {
        if line.changed().await.is_err() {
            return;
        }
    }
}

async fn talk(site: Arc<dyn Site>, stream: TcpStream, number: u64) {
    match site.tls() {
        None if !site.is_http() => site.speak(Box::new(stream)).await,
        None => {
            if let Some(stream) = speak_http(site, stream, number).await {
                let _ = stream.set_zero_linger();
            }
        }
        Some(config) => {
            let Ok(stream) = TlsAcceptor::from(config).accept(stream).await else {
                return;
            };
            if !site.is_http() {
                return site.speak(Box::new(stream)).await;
            }
            let stream: Option<TlsStream<_>> = speak_http(site, stream, number).await;
            if let Some(stream) = stream {
                let _ = stream.get_ref().0.set_zero_linger();
            }
        }
    }
}

/// Serves requests until the connection ends; gives the stream back if it is to be reset.
async fn speak_http<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    site: Arc<dyn Site>,
    stream: S,
    number: u64,
) -> Option<S> {
    let nth = Arc::new(AtomicU32::new(0));
    let service = service_fn(move |request: Request<Incoming>| {
        let (site, nth) = (site.clone(), nth.clone());
        let answer: BoxFuture<'static, Result<Response<Body>, Cut>> = Box::pin(async move {
            let (head, body) = request.into_parts();
            let body = Limited::new(body, REQUEST_BYTES_MAX)
                .collect()
                .await
                .map_err(|_| Cut::Close)?
                .to_bytes();
            let nth_on_connection = nth.fetch_add(1, Ordering::Relaxed) + 1;
            let call = Call {
                head,
                body,
                connection: number,
                nth_on_connection,
            };
            // In a task of its own, so that a client that goes away cannot stop what it has asked for.
            tokio::spawn(site.answer(call))
                .await
                .unwrap_or(Err(Cut::Close))
        });
        answer
    });
    let mut connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    let ended = poll_fn(|context| Pin::new(&mut connection).poll(context)).await;
    let reset = ended.is_err_and(|error| cut_in(&error) == Some(Cut::Reset));
    reset.then(|| connection.into_parts().io.into_inner())
}

fn cut_in(error: &(dyn std::error::Error + 'static)) -> Option<Cut> {
    std::iter::successors(Some(error), |error| error.source())
        .find_map(|error| error.downcast_ref::<Cut>().copied())
}
