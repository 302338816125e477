//! An HTTP/1.1 client that does only what a fence device needs, with a limit on everything.
//!
//! It follows no redirect, uses no proxy, unpacks nothing, and sends credentials only to an IP address that was judged: a
//! host is resolved once in the life of a client, and every connection goes to the address found then. A connection is
//! reused for the next request. BMCs reset reused connections, so a GET that meets a reset there is sent once more; a POST
//! is never sent twice, so [`Client::open`] comes before it.
//!
//! The caller bounds each call by dropping it, which closes its connection. A command does not wait for a new connection for long
//! (F12).

mod call;
mod connect;

pub use call::Call;
pub use connect::{Dialled, Stream, Target, dial};

use super::DeviceClock;
use super::address::Address;
use super::error::{CHECK_ADDRESS, DeviceError, UPDATE_FIRMWARE, printable};
use super::resolve::unreachable;
use crate::clock::Clock;
use crate::tls::Expiry;
use bytes::Bytes;
use connect::{Connection, describe};
use http::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, DATE, HOST, LOCATION,
    RETRY_AFTER, USER_AGENT, WWW_AUTHENTICATE,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::ext::ReasonPhrase;
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Largest body in bytes. The buffer that grows with it and what is read out of it come on top, within a mebibyte in all (S19).
pub const BODY_BYTES_MAX: usize = 256 << 10;
/// Longest time that a command may wait for a new connection: whether it may be sent was asked before that (F12).
const COMMAND_WAIT_MAX: Duration = Duration::from_secs(1);
/// Longest pause that a device may ask for.
pub const RETRY_AFTER_MAX: Duration = Duration::from_mins(10);

/// An answer.
#[derive(Debug)]
pub struct Reply {
    /// Its status.
    pub status: StatusCode,
    /// What stands beside it in the first line, where that is not the usual: some services have their message there.
    pub phrase: Option<String>,
    /// The pause that the device asks for.
    pub retry_after: Option<Duration>,
    /// It asks for a login, and names others than HTTP Basic, or none.
    pub offers_other_login: bool,
    /// Where the device says to look next, word for word. It is never followed without a look.
    pub location: Option<String>,
    /// Its headers; `Debug` shows no value of them.
    pub headers: HeaderMap,
    /// Its body. The status stands even where the body is unusable: a command that was accepted stays accepted.
    pub body: Result<Bytes, DeviceError>,
}

/// Requests to one device, one at a time.
#[derive(Debug)]
pub struct Client {
    target: Arc<Target>,
    resolved: Option<SocketAddr>,
    idle: Option<Connection>,
    sent: bool,
    expiry: Option<Expiry>,
    date: Option<DeviceClock>,
    clock: Clock,
}

/// How a request failed.
enum Failure {
    /// No answer on this connection: it was closed or reset.
    Broken(DeviceError),
    /// Anything that another connection would not mend.
    Final(DeviceError),
}

impl Client {
    /// A client without a connection.
    #[must_use]
    pub fn new(target: Arc<Target>, clock: Clock) -> Self {
        Self {
            target,
            resolved: None,
            idle: None,
            sent: false,
            expiry: None,
            date: None,
            clock,
        }
    }

    /// May any byte of the last request have left this host? True from the moment it is handed to the connection, also
    /// when the call was dropped later, until another connection is asked for.
    #[must_use]
    pub fn sent(&self) -> bool {
        self.sent
    }

    /// When the certificates expire that the device presented last.
    #[must_use]
    pub fn expiry(&self) -> Option<Expiry> {
        self.expiry
    }

    /// What the device's clock showed in its last answer that has a date.
    #[must_use]
    pub fn date(&self) -> Option<DeviceClock> {
        self.date
    }

    /// Opens a new connection for the next request, in the place of one that may be open: whether a device takes a second request
    /// there is known only afterwards.
    ///
    /// # Errors
    /// [`DeviceError`] when there is none to be had.
    pub async fn open(&mut self) -> Result<(), DeviceError> {
        self.sent = false;
        // First: some BMCs have room for one.
        if let Some(old) = self.idle.take() {
            old.close().await;
        }
        self.idle = Some(self.connect().await?);
        Ok(())
    }

    /// Asks for a resource.
    ///
    /// # Errors
    /// [`DeviceError`] when no answer was understood. An answer with an error status is not an error here.
    pub async fn get(&mut self, path: &str) -> Result<Reply, DeviceError> {
        self.sent = false;
        let call = self.redfish(Call::new(Method::GET, path))?;
        self.ask(&call).await
    }

    /// Sends a request that changes nothing, or nothing more when it arrives twice: once more where a reused connection broke.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub async fn ask(&mut self, call: &Call) -> Result<Reply, DeviceError> {
        self.sent = false;
        if let Some(reused) = self.idle.take() {
            match self.exchange(reused, call).await {
                Err(Failure::Broken(_)) => {}
                done => return done.map_err(Failure::into_error),
            }
        }
        let connection = self.connect().await?;
        self.exchange(connection, call)
            .await
            .map_err(Failure::into_error)
    }

    /// Sends a command, at most once, and on a new connection only if that is there soon.
    ///
    /// # Errors
    /// [`DeviceError`] when no answer was understood; [`Client::sent`] says whether the command may have arrived.
    pub async fn post(&mut self, path: &str, body: Bytes) -> Result<Reply, DeviceError> {
        self.sent = false;
        let call = self.redfish(Call::new(Method::POST, path).with_json(body))?;
        self.command(&call).await
    }

    /// The same of any request.
    ///
    /// # Errors
    /// As [`Client::post`].
    pub async fn command(&mut self, call: &Call) -> Result<Reply, DeviceError> {
        self.sent = false;
        let begun = self.clock.since_boot();
        // A connection that the device has closed meanwhile gives the request back before anything of it is sent.
        if let Some(opened) = self.idle.take() {
            match self.exchange(opened, call).await {
                Err(Failure::Broken(_)) if !self.sent => {}
                done => return done.map_err(Failure::into_error),
            }
        }
        let connection = self.connect().await?;
        let waited = self.clock.since_boot().saturating_sub(begun);
        if waited > COMMAND_WAIT_MAX {
            let problem = format!(
                "its connection was closed, and a new one took {:.1} s ({} s allowed since the claim was read); the command was not sent",
                waited.as_secs_f32(),
                COMMAND_WAIT_MAX.as_secs()
            );
            return Err(unreachable(&self.target.address, problem));
        }
        self.exchange(connection, call)
            .await
            .map_err(Failure::into_error)
    }

    /// One request and its answer. The connection is kept for the next one only when the answer was complete.
    async fn exchange(
        &mut self,
        mut connection: Connection,
        call: &Call,
    ) -> Result<Reply, Failure> {
        let request = self.request(call).map_err(Failure::Final)?;
        let target = Arc::clone(&self.target);
        let endpoint = &target.address;
        if let Err(error) = connection.sender.ready().await {
            return Err(Failure::Broken(unreachable(endpoint, describe(&error))));
        }
        self.sent = true;
        let answer = match connection.sender.try_send_request(request).await {
            Ok(answer) => answer,
            Err(mut failed) => {
                // The request came back: the connection had not begun to send it.
                self.sent = failed.take_message().is_none();
                return Err(failure(endpoint, failed.error()));
            }
        };
        let (mut head, incoming) = answer.into_parts();
        let retry_after = retry_after(&head.headers);
        self.date = date(&head.headers, self.clock.wall()).or(self.date);
        let offers_other_login =
            head.status == StatusCode::UNAUTHORIZED && !offers_basic(&head.headers);
        let phrase = head.extensions.get::<ReasonPhrase>();
        let phrase = phrase.map(|it| String::from_utf8_lossy(it.as_bytes()).into_owned());
        let location = head.headers.get(LOCATION);
        let location = location.and_then(|location| location.to_str().ok().map(str::to_owned));
        let body = read_body(&target, &head.headers, incoming, call.body_bytes_max).await;
        if body.is_ok() {
            self.idle = Some(connection);
        }
        for value in head.headers.values_mut() {
            value.set_sensitive(true);
        }
        Ok(Reply {
            status: head.status,
            phrase,
            retry_after,
            offers_other_login,
            location,
            headers: head.headers,
            body,
        })
    }

    /// With what a Redfish service asks for beside it.
    fn redfish(&self, call: Call) -> Result<Call, DeviceError> {
        let odata = HeaderName::from_static("odata-version");
        // Without it some BMCs answer 406.
        let call = call.with_header(odata, HeaderValue::from_static("4.0"));
        if self.target.credentials.is_nobody() {
            return Ok(call);
        }
        Ok(call.with_header(AUTHORIZATION, self.target.credentials.basic()?))
    }

    fn request(&self, call: &Call) -> Result<Request<Full<Bytes>>, DeviceError> {
        let mut builder = Request::builder()
            .uri(&call.path)
            .header(HOST, self.target.address.authority())
            .header(
                USER_AGENT,
                concat!("node-fencing-operator/", env!("CARGO_PKG_VERSION")),
            )
            .header(ACCEPT, call.accept.unwrap_or("application/json"))
            .header(ACCEPT_ENCODING, "identity");
        for (name, value) in &call.headers {
            builder = builder.header(name, value);
        }
        if let Some(content_type) = call.content_type {
            builder = builder.header(CONTENT_TYPE, content_type);
        }
        builder
            .method(&call.method)
            .body(Full::new(call.body.clone()))
            .map_err(|error| DeviceError::Protocol {
                endpoint: self.target.address.to_string(),
                problem: format!(
                    "its path {} cannot be asked for ({error})",
                    self.target
                        .credentials
                        .without_secrets(&printable(&call.path, 200))
                ),
                way_out: UPDATE_FIRMWARE,
            })
    }

    /// A new connection, to the address that was judged.
    async fn connect(&mut self) -> Result<Connection, DeviceError> {
        let (connection, address) = Connection::open(&self.target, self.resolved).await?;
        self.resolved = Some(address);
        self.expiry = connection.expiry;
        Ok(connection)
    }
}

impl Failure {
    fn into_error(self) -> DeviceError {
        match self {
            Self::Broken(error) | Self::Final(error) => error,
        }
    }
}

/// The whole body, within its limits.
async fn read_body(
    target: &Target,
    headers: &HeaderMap,
    mut body: Incoming,
    bytes_max: usize,
) -> Result<Bytes, DeviceError> {
    let unusable = |problem: String| DeviceError::Protocol {
        endpoint: target.address.to_string(),
        problem: target.credentials.without_secrets(&problem),
        way_out: UPDATE_FIRMWARE,
    };
    if let Some(encoding) = headers
        .get(CONTENT_ENCODING)
        .filter(|encoding| *encoding != "identity")
    {
        let encoding = printable(&String::from_utf8_lossy(encoding.as_bytes()), 40);
        return Err(unusable(format!(
            "its body is packed ({encoding}), which was not asked for"
        )));
    }
    // One buffer: of pieces that are kept, each takes much more than the byte that may be in it.
    let mut whole = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| unusable(format!("its body is incomplete ({error})")))?;
        let data = frame.into_data().unwrap_or_default();
        if data.len() > bytes_max - whole.len() {
            return Err(unusable(format!(
                "its body is longer than {bytes_max} bytes"
            )));
        }
        whole.extend_from_slice(&data);
    }
    Ok(whole.into())
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    pause(headers.get(RETRY_AFTER)?.to_str().ok()?)
}

/// The date of an answer (RFC 9110, 6.6.1) beside our own time.
fn date(headers: &HeaderMap, ours: Timestamp) -> Option<DeviceClock> {
    let text = headers.get(DATE)?.to_str().ok()?;
    let time = DateTimeParser::new().parse_timestamp(text).ok()?;
    Some(DeviceClock { time, ours })
}

/// Is HTTP Basic among the logins that a service offers? Several may stand in one field.
fn offers_basic(headers: &HeaderMap) -> bool {
    let offered = headers.get_all(WWW_AUTHENTICATE).iter();
    let mut schemes = offered.filter_map(|field| field.to_str().ok());
    schemes.any(|field| {
        let mut words = field.split([',', ' ']);
        words.any(|word| word.eq_ignore_ascii_case("basic"))
    })
}

/// The pause that a `Retry-After` asks for, as far as it is waited for. Seconds only: its other form would compare the device's clock with
/// ours.
#[must_use]
pub fn pause(text: &str) -> Option<Duration> {
    let seconds: u64 = text.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(RETRY_AFTER_MAX))
}

/// What went wrong with a request on an open connection.
fn failure(endpoint: &Address, error: &hyper::Error) -> Failure {
    if error.is_parse() || error.is_parse_too_large() {
        let problem = format!("it is not HTTP/1.1 ({})", describe(error));
        return Failure::Final(DeviceError::Protocol {
            endpoint: endpoint.to_string(),
            problem,
            way_out: CHECK_ADDRESS,
        });
    }
    Failure::Broken(unreachable(
        endpoint,
        format!(
            "the connection broke before an answer ({})",
            describe(error)
        ),
    ))
}
