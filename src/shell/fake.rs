//! An API server for unit tests: a function from request to answer behind a real socket, so that the real client with its
//! retries and time limits is in the test.

use super::brakes::Brakes;
use super::cache::Caches;
use super::client::Clients;
use super::context::{Board, Context, Delays, StrandedNodes};
use super::deletion::Deletion;
use super::devices::Devices;
use super::events::Events;
use super::health::Health;
use super::lease::TermEnd;
use super::metrics::Metrics;
use super::outside::Outside;
use super::revision::Revision;
use crate::clock::Clock;
use crate::core::fixtures::{DATE, MACHINE};
use crate::core::observed::{CLAIM, OUT_OF_SERVICE};
use crate::fence::address::{AddressRules, Lookup};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// One request as it arrived.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// `POST /api/v1/...`, with the query.
    pub line: String,
    /// `User-Agent`.
    pub agent: String,
    /// The body; null if there is none.
    pub body: Value,
}

/// The server. It ends with the test's runtime.
pub struct Fake {
    /// Clients of it.
    pub clients: Clients,
    /// Where it listens.
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Fake {
    /// Starts one; `answer` gives status and body.
    pub async fn start(
        answer: impl Fn(&Seen) -> (u16, Value) + Clone + Send + Sync + 'static,
    ) -> Self {
        // The client's TLS configuration is built even for plain HTTP. Another test may have been first.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("port");
        let address = listener.local_addr().expect("address");
        let seen = Arc::new(Mutex::new(vec![]));
        let log = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (answer, log) = (answer.clone(), Arc::clone(&log));
                let service =
                    service_fn(move |request| reply(request, answer.clone(), log.clone()));
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        let uri = format!("http://{address}").parse().expect("URI");
        Self {
            clients: Clients::from_config(kube::Config::new(uri)).expect("clients"),
            address,
            seen,
        }
    }

    /// All requests so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("lock").clone()
    }

    /// Waits until there have been so many requests.
    pub async fn wait_for(&self, count: usize) -> Vec<Seen> {
        let enough = async {
            while self.seen().len() < count {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let limit = Duration::from_secs(20);
        let waited = tokio::time::timeout(limit, enough).await;
        assert!(waited.is_ok(), "only {:?}", self.seen());
        self.seen()
    }
}

/// A [`Fake`] that knows a few objects by the request that asks for them, and everything that the control loops share, over it.
/// It serves a BMC's requests as well as an API server's, so that the order of both can be seen.
pub struct Cluster {
    /// The server.
    pub server: Fake,
    answers: Arc<Mutex<BTreeMap<String, (u16, Value)>>>,
    delays: Arc<Mutex<BTreeMap<String, Duration>>>,
    /// Who says where the names of devices lead; unless it is set, the system.
    pub lookup: OnceLock<Lookup>,
}

impl Cluster {
    /// One that knows nothing: every answer is 404.
    pub async fn new() -> Self {
        let answers = Arc::new(Mutex::new(BTreeMap::new()));
        let delays = Arc::new(Mutex::new(BTreeMap::new()));
        let (known, slow) = (Arc::clone(&answers), Arc::clone(&delays));
        let server = Fake::start(move |request| {
            let line = request.line.split('?').next().unwrap_or_default();
            let delay = slow.lock().expect("lock").get(line).copied();
            std::thread::sleep(delay.unwrap_or_default());
            let known = known.lock().expect("lock");
            let missing = || failure(404, "not found");
            known.get(line).cloned().unwrap_or_else(missing)
        })
        .await;
        Self {
            server,
            answers,
            delays,
            lookup: OnceLock::new(),
        }
    }

    /// The answer to a request, `GET /api/v1/...` without its query.
    pub fn put(&self, request: &str, status: u16, body: Value) {
        let mut answers = self.answers.lock().expect("lock");
        answers.insert(request.to_owned(), (status, body));
    }

    /// The answer to a request takes this long.
    pub fn delay(&self, request: &str, time: Duration) {
        let mut delays = self.delays.lock().expect("lock");
        delays.insert(request.to_owned(), time);
    }

    /// The requests so far, but for those of the watches.
    pub fn requests(&self) -> Vec<String> {
        let lines = self.server.seen().into_iter().map(|request| request.line);
        lines.filter(|line| !line.contains("limit=")).collect()
    }

    /// What the loops share; its caches stay empty.
    pub fn context(&self) -> Arc<Context> {
        self.watching().0
    }

    /// The same, with caches that fill as long as the tasks live.
    pub fn watching(&self) -> (Arc<Context>, JoinSet<()>) {
        let Clients { reads, writes, .. } = self.server.clients.clone();
        let metrics = Arc::new(Metrics::new().expect("metrics"));
        let (changes, _) = mpsc::unbounded_channel();
        let mut watches = JoinSet::new();
        let local = vec!["127.0.0.0/8".parse().expect("a range")];
        let lookup = self.lookup.get().cloned().unwrap_or_default();
        let rules = AddressRules::new(local, Vec::new()).with_lookup(lookup);
        let revision = Revision::default();
        let context = Context {
            caches: Caches::start(&writes, &revision, &changes, &mut watches),
            devices: Arc::new(Devices::new(
                reads.clone(),
                "ns".to_owned(),
                rules.clone(),
                Clock::SYSTEM,
            )),
            outside: Outside::network(&rules),
            events: Events::new(reads.clone(), None, Arc::clone(&metrics)).0,
            metrics,
            board: Board::default(),
            own_node: None,
            max_concurrent: None,
            wake: mpsc::unbounded_channel().0,
            brakes: Brakes::default(),
            delays: Delays::default(),
            stranded: StrandedNodes::default(),
            term_end: TermEnd::never(),
            deletion: Deletion::default(),
            revision,
            health: Health::default(),
            reads,
            writes,
        };
        (Arc::new(context), watches)
    }
}

/// A list of the API server, of these items.
pub fn list(kind: &str, version: &str, items: &[Value]) -> Value {
    json!({"kind": format!("{kind}List"), "apiVersion": "v1", "metadata": {"resourceVersion": version}, "items": items})
}

/// The Node `worker-1`, not Ready, under claim `fence-n1`.
pub fn node() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "worker-1", "uid": "uid-1", "resourceVersion": "7"},
        "spec": {"taints": [{"key": CLAIM, "value": "fence-n1", "effect": "NoExecute", "timeAdded": DATE}]},
        "status": {
            "conditions": [{"type": "Ready", "status": "Unknown"}],
            "nodeInfo": {"bootID": "boot-1", "systemUUID": MACHINE},
        },
    })
}

/// The `out-of-service` that goes with its claim.
pub fn out_of_service() -> Value {
    json!({"key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute", "timeAdded": DATE})
}

/// The Node of [`node`], out of service under its claim.
pub fn tainted() -> Value {
    let mut node = node();
    let taints = node["spec"]["taints"].as_array_mut().expect("taints");
    taints.push(out_of_service());
    node
}

/// A Kubernetes error.
pub fn failure(code: u16, message: &str) -> (u16, Value) {
    let reason = if code == 404 { "NotFound" } else { "Test" };
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message, "reason": reason,
    });
    (code, status)
}

async fn reply(
    request: Request<Incoming>,
    answer: impl Fn(&Seen) -> (u16, Value) + Send + 'static,
    log: Arc<Mutex<Vec<Seen>>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let line = format!("{} {}", request.method(), request.uri());
    let agent = request.headers().get(http::header::USER_AGENT);
    let agent = agent
        .and_then(|it| it.to_str().ok())
        .unwrap_or_default()
        .to_owned();
    let body = request
        .into_body()
        .collect()
        .await
        .expect("body")
        .to_bytes();
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let seen = Seen { line, agent, body };
    log.lock().expect("lock").push(seen.clone());
    // An answer may sleep: on a worker thread it would take other tasks of that thread with it.
    let (status, body) = tokio::task::spawn_blocking(move || answer(&seen))
        .await
        .expect("an answer");
    let mut response = Response::new(Full::from(body.to_string()));
    *response.status_mut() = StatusCode::from_u16(status).expect("status");
    Ok(response)
}
