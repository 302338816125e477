//! An API server for unit tests: a function from request to answer behind a real socket, so that the real client with its
//! retries and time limits is in the test.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "for tests, which fail that way"
)]

use crate::client::Clients;
use bytes::Bytes;
use fencing_core::fixtures::{DATE, MACHINE};
use fencing_core::observed::{CLAIM, OUT_OF_SERVICE};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpListener;

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
