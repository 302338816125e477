//! A BMC that answers whatever the test wants, byte for byte: a raw TCP server, with or without TLS, in the test itself.

#[path = "bmc/certificate.rs"]
mod certificate;

pub use certificate::Certificate;

use rustix::net::{Shutdown, shutdown};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// A request as it arrived.
#[derive(Debug, Clone)]
pub struct Request {
    pub method: String,
    pub path: String,
    /// The header fields, in lower case.
    pub head: String,
    pub body: String,
    /// Which connection it came on, from 0.
    pub connection: usize,
    /// How many requests came before it, on all connections.
    pub earlier: usize,
}

/// What the BMC does with a request.
pub enum Act {
    /// Sends these bytes and waits for the next request.
    Send(Vec<u8>),
    /// Sends these bytes and closes the connection.
    SendThenClose(Vec<u8>),
    /// Sends the first bytes, then the second ones again and again.
    Endless(Vec<u8>, Vec<u8>),
    /// Waits, then does the other thing.
    After(Duration, Box<Act>),
    /// Never answers.
    Hang,
    /// Resets the connection.
    Reset,
}

type Script = Arc<dyn Fn(&Request) -> Act + Send + Sync>;

/// The running BMC; it ends with the test.
pub struct Bmc {
    pub address: SocketAddr,
    pub tls: bool,
    requests: Arc<Mutex<Vec<Request>>>,
    listener: Arc<TcpListener>,
    /// How many of the first connections have been closed.
    hung_up: watch::Sender<usize>,
    tasks: JoinSet<()>,
}

impl Bmc {
    /// Without TLS.
    pub async fn plain(script: impl Fn(&Request) -> Act + Send + Sync + 'static) -> Self {
        Self::start(None, Arc::new(script)).await
    }

    /// With TLS and this certificate.
    pub async fn tls(
        certificate: &Certificate,
        script: impl Fn(&Request) -> Act + Send + Sync + 'static,
    ) -> Self {
        Self::start(Some(certificate.acceptor()), Arc::new(script)).await
    }

    async fn start(tls: Option<TlsAcceptor>, script: Script) -> Self {
        let listener = Arc::new(TcpListener::bind("127.0.0.1:0").await.unwrap());
        let address = listener.local_addr().unwrap();
        let open = Arc::clone(&listener);
        let requests = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = JoinSet::new();
        let (seen, has_tls) = (Arc::clone(&requests), tls.is_some());
        let hung_up = watch::Sender::new(0);
        let hanging_up = hung_up.clone();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            for number in 0.. {
                let (stream, _) = open.accept().await.unwrap();
                let (tls, script, seen) = (tls.clone(), Arc::clone(&script), Arc::clone(&seen));
                let mut hung_up = hanging_up.subscribe();
                connections.spawn(async move {
                    tokio::select! {
                        // A client may break off at any point.
                        _ = serve(stream, tls, number, script, seen) => {}
                        _ = until_closed(number, &mut hung_up) => {}
                    }
                });
            }
        });
        Self {
            address,
            tls: has_tls,
            requests,
            listener,
            hung_up,
            tasks,
        }
    }

    /// Everything that was asked, in order.
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    /// The power commands that arrived.
    pub fn commands(&self) -> Vec<String> {
        self.requests()
            .into_iter()
            .filter(|request| request.method == "POST")
            .map(|request| request.body)
            .collect()
    }

    /// Closes the connections that there are, and takes new ones.
    pub async fn hang_up(&self) {
        self.hang_up_first(usize::MAX).await;
    }

    /// Closes so many of the first connections, of those that there are.
    pub async fn hang_up_first(&self, count: usize) {
        // What has connected is accepted.
        settled().await;
        self.hung_up.send_replace(count);
        settled().await;
    }

    /// Goes away: the port closes, connections break. Dropping the socket would not do: a process that another test forks just
    /// now holds it open until its exec, and the port with it.
    pub async fn stop(mut self) {
        self.tasks.shutdown().await;
        shutdown(&self.listener, Shutdown::Both).unwrap();
        settled().await;
    }
}

/// Ends when this connection is closed, and was there before.
async fn until_closed(number: usize, hung_up: &mut watch::Receiver<usize>) {
    while hung_up.changed().await.is_ok() {
        if number < *hung_up.borrow() {
            return;
        }
    }
}

/// Both sides know of what was closed: each pause is a turn of the runtime, in which everything is done that is due.
async fn settled() {
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {
    /// The connection below TLS.
    fn tcp(&self) -> &TcpStream;
}

impl Stream for TcpStream {
    fn tcp(&self) -> &TcpStream {
        self
    }
}

impl Stream for TlsStream<TcpStream> {
    fn tcp(&self) -> &TcpStream {
        self.get_ref().0
    }
}

async fn serve(
    tcp: TcpStream,
    tls: Option<TlsAcceptor>,
    connection: usize,
    script: Script,
    seen: Arc<Mutex<Vec<Request>>>,
) -> std::io::Result<()> {
    let mut stream: Box<dyn Stream> = match tls {
        Some(acceptor) => Box::new(acceptor.accept(tcp).await?),
        None => Box::new(tcp),
    };
    while let Some(mut request) = read_request(&mut stream, connection).await? {
        {
            let mut seen = seen.lock().unwrap();
            request.earlier = seen.len();
            seen.push(request.clone());
        }
        let mut act = script(&request);
        while let Act::After(pause, next) = act {
            tokio::time::sleep(pause).await;
            act = *next;
        }
        match act {
            Act::Send(bytes) => stream.write_all(&bytes).await?,
            Act::SendThenClose(bytes) => {
                stream.write_all(&bytes).await?;
                stream.shutdown().await?;
                return Ok(());
            }
            Act::Endless(head, chunk) => {
                stream.write_all(&head).await?;
                loop {
                    stream.write_all(&chunk).await?;
                }
            }
            Act::Reset => {
                return stream.tcp().set_zero_linger();
            }
            Act::Hang | Act::After(..) => std::future::pending().await,
        }
        stream.flush().await?;
    }
    Ok(())
}

async fn read_request(
    stream: &mut Box<dyn Stream>,
    connection: usize,
) -> std::io::Result<Option<Request>> {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => bytes.push(byte),
            Err(_) => return Ok(None),
        }
    }
    let head = String::from_utf8_lossy(&bytes).into_owned();
    let mut words = head.split(' ').map(str::to_owned);
    let (method, path) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    );
    let head = head.to_ascii_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).await?;
    let body = String::from_utf8_lossy(&body).into_owned();
    Ok(Some(Request {
        method,
        path,
        head,
        body,
        connection,
        earlier: 0,
    }))
}

/// A complete answer.
pub fn reply(status: &str, body: &str) -> Vec<u8> {
    reply_with(status, "Content-Type: application/json\r\n", body)
}

/// A complete answer with further header fields, each with its line end.
pub fn reply_with(status: &str, headers: &str, body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}
