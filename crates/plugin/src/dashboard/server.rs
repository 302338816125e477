//! The pages over plain HTTP on loopback, and what keeps others out.
//!
//! Any program, and any web page, of this machine can reach the port. A request has to name this run's token, which is in the path and in no page of
//! others; its Host has to be the address itself, so that a name that somebody points at 127.0.0.1 (DNS rebinding) gets nothing; it reads (GET or
//! HEAD), and has no body. What goes out is kept nowhere, put into no frame, and names its address to nobody.

use super::fleet::{Cell, cells};
use super::{Live, view};
use crate::page::Origin;
use bytes::Bytes;
use futures::stream;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HOST};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Body, Frame};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};

/// Connections served at once; more wait.
const CONNECTIONS_MAX: usize = 64;
/// How long a connection may last, from before its request until after its answer, but for one whose events are awaited. It has one request: nobody
/// keeps a place by being idle.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);
/// How large the head of a request may be, in bytes.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// A browser hears something after this time at the latest.
const BEAT: Duration = Duration::from_secs(4);
/// Pause after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Type of what has no end.
const EVENTS: &str = "text/event-stream";

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// Takes the port.
pub(super) async fn bind(address: SocketAddr) -> Result<TcpListener, String> {
    let bound = TcpListener::bind(address).await;
    bound.map_err(|error| {
        format!("--port: failed to listen on {address}: {error}; choose another port, or leave it out for a free one")
    })
}

/// What is served, to whom.
#[derive(Clone)]
pub(super) struct Site {
    /// What a Host may be.
    hosts: Arc<[String]>,
    /// What every path begins with.
    root: Arc<str>,
    live: Arc<Live>,
}

impl Site {
    pub fn new(address: SocketAddr, token: &str, live: Arc<Live>) -> Self {
        Self {
            hosts: hosts(address).into(),
            root: format!("/{token}/").into(),
            live,
        }
    }
}

fn hosts(address: SocketAddr) -> [String; 2] {
    let port = address.port();
    [address.to_string(), format!("localhost:{port}")]
}

/// Serves until it is dropped.
pub(super) async fn serve(listener: TcpListener, site: Site) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let place = Arc::clone(&places).acquire_owned().await;
        let Ok((stream, _)) = listener.accept().await else {
            sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let site = site.clone();
        tokio::spawn(async move {
            let _place = place;
            connection(stream, site).await;
        });
    }
}

async fn connection(stream: TcpStream, site: Site) {
    let has_events = AtomicBool::new(false);
    let service = service_fn(|request: Request<hyper::body::Incoming>| {
        let answer = answer(&site, &request);
        let kind = answer.headers().get(CONTENT_TYPE);
        has_events.store(kind.is_some_and(|it| it == EVENTS), Ordering::Relaxed);
        async move { Ok::<_, Infallible>(answer) }
    });
    let connection = http1::Builder::new()
        .max_buf_size(HEAD_BYTES_MAX)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ended = timeout(ANSWER_TIME_MAX, &mut connection).await;
    if ended.is_err() && has_events.load(Ordering::Relaxed) {
        // However it ends, the browser knows, and asks again.
        let _ = connection.await;
    }
}

/// Why a request gets nothing, if it does not.
fn refusal<B: Body>(hosts: &[String], root: &str, request: &Request<B>) -> Option<Answer> {
    let host = host(request.headers());
    if !hosts.iter().any(|it| Some(it.as_str()) == host) {
        let (asked, own) = (host.unwrap_or("none"), hosts.join(" or "));
        let words = format!(
            "the Host of the request is {asked}, and has to be {own}: open the address that the command has printed\n"
        );
        return Some(text(StatusCode::FORBIDDEN, words));
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let words = "only GET and HEAD: nothing can be changed here\n".to_owned();
        let mut response = text(StatusCode::METHOD_NOT_ALLOWED, words);
        let allowed = HeaderValue::from_static("GET, HEAD");
        response.headers_mut().insert(ALLOW, allowed);
        return Some(response);
    }
    if !request.body().is_end_stream() {
        let words = "a request has no body here\n".to_owned();
        return Some(text(StatusCode::PAYLOAD_TOO_LARGE, words));
    }
    let path = request.uri().path();
    (!has_root(path, root)).then(absent)
}

/// Looks at every byte, however many are right: the time that it takes tells nothing of the token.
fn has_root(path: &str, root: &str) -> bool {
    let (path, root) = (path.as_bytes(), root.as_bytes());
    let pairs = path.iter().zip(root);
    let differ = pairs.fold(0, |differ, (one, other)| differ | (one ^ other));
    path.len() >= root.len() && differ == 0
}

fn host(headers: &HeaderMap) -> Option<&str> {
    let mut hosts = headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().ok(),
        _ => None,
    }
}

fn answer<B: Body>(site: &Site, request: &Request<B>) -> Answer {
    if let Some(refused) = refusal(&site.hosts, &site.root, request) {
        return refused;
    }
    let path = request.uri().path();
    let path = path.get(site.root.len()..).unwrap_or_default();
    match path.split_once('/') {
        None if path.is_empty() => whole(&site.live),
        None if path == "events" => events(&site.live, request),
        Some(("node", name)) => node(&site.live, &decoded(name)),
        Some(("incident", name)) => incident(&site.live, &decoded(name)),
        _ => absent(),
    }
}

fn whole(live: &Live) -> Answer {
    page(view::fleet(&live.board(), &origin(live)))
}

fn node(live: &Live, name: &str) -> Answer {
    let version = live.board().version();
    let (world, origin) = (live.world(), origin(live));
    let cell = cells(&world, origin.now);
    let cell: Option<&Cell> = cell.iter().find(|it| it.name == name);
    match cell {
        Some(cell) => page(view::node(&world, cell, version, &origin)),
        None => absent(),
    }
}

fn incident(live: &Live, name: &str) -> Answer {
    let version = live.board().version();
    let world = live.world();
    let mut fences = world.fences.iter().flatten();
    match fences.find(|it| it.metadata.name.as_deref() == Some(name)) {
        Some(fence) => page(view::incident(fence, version, &origin(live))),
        None => absent(),
    }
}

fn origin(live: &Live) -> Origin<'_> {
    Origin {
        server: &live.server,
        now: live.now(),
    }
}

/// What has changed since what the browser has, and from then on whatever changes: Server-Sent Events of the HTML standard. Each comes with the time,
/// for a page that is open long counts ages itself.
fn events<B>(live: &Arc<Live>, request: &Request<B>) -> Answer {
    let query = request.uri().query().unwrap_or_default();
    let first = query.strip_prefix("since=").and_then(|it| it.parse().ok());
    // Of a browser that has been here before.
    let last = request.headers().get("last-event-id");
    let last = last.and_then(|it| it.to_str().ok()?.parse().ok());
    let since: u64 = last.or(first).unwrap_or_default();
    let state = (Arc::clone(live), live.version.subscribe(), since);
    let chunks = stream::unfold(state, async |(live, mut versions, since)| {
        let (text, since) = next(&live, &mut versions, since).await?;
        let chunk = Ok::<_, Infallible>(Frame::data(Bytes::from(text)));
        Some((chunk, (live, versions, since)))
    });
    with_type(StreamBody::new(chunks).boxed_unsync(), EVENTS)
}

async fn next(
    live: &Live,
    versions: &mut watch::Receiver<u64>,
    since: u64,
) -> Option<(String, u64)> {
    let newer = versions.wait_for(|it| *it != since);
    let beat = || format!("event: beat\ndata: {}\n\n", live.now().as_millisecond());
    match timeout(BEAT, newer).await {
        Ok(changed) => {
            changed.ok()?;
            let board = live.board();
            let delta = board.since(since);
            let data = serde_json::to_string(&delta).ok()?;
            let text = format!("id: {0}\nevent: delta\ndata: {data}\n\n", delta.version);
            Some((beat() + &text, delta.version))
        }
        Err(_) => Some((beat(), since)),
    }
}

/// A path's segment without its percent-encoding.
fn decoded(segment: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = segment.bytes();
    while let Some(byte) = rest.next() {
        let digits = (byte == b'%').then(|| [rest.next(), rest.next()]);
        let Some([Some(high), Some(low)]) = digits else {
            bytes.push(byte);
            continue;
        };
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let value = digit(high).zip(digit(low));
        let value = value.and_then(|(high, low)| u8::try_from(high * 16 + low).ok());
        bytes.extend(value);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn absent() -> Answer {
    let words = "there is nothing here: open the address that the command has printed\n";
    text(StatusCode::NOT_FOUND, words.to_owned())
}

fn page(body: String) -> Answer {
    with_type(full(body), "text/html; charset=utf-8")
}

fn text(status: StatusCode, words: String) -> Answer {
    let mut response = with_type(full(words), "text/plain; charset=utf-8");
    *response.status_mut() = status;
    response
}

fn full(body: String) -> UnsyncBoxBody<Bytes, Infallible> {
    Full::from(body).boxed_unsync()
}

fn with_type(body: UnsyncBoxBody<Bytes, Infallible>, kind: &'static str) -> Answer {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    let fixed = [
        (CONTENT_TYPE, kind),
        (CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("x-content-type-options"), "nosniff"),
        (HeaderName::from_static("referrer-policy"), "no-referrer"),
        (HeaderName::from_static("x-frame-options"), "DENY"),
        (
            HeaderName::from_static("content-security-policy"),
            "frame-ancestors 'none'",
        ),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests;
