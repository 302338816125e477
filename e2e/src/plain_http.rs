//! HTTP without TLS, to processes of the lab: over a unix socket to etcd and to the storage array, over loopback to
//! the operator's /readyz and /metrics, and to Prometheus.
//!
//! A socket in the lab's own directory needs no free port, is out of reach of other labs, and works across network
//! namespaces.

use std::{path::Path, time::Duration};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream},
    time::timeout,
};

/// For a whole call. What is called answers from memory; a machine under load is what this allows for.
const LIMIT: Duration = Duration::from_secs(60);

/// Sends a request with a JSON body and returns the JSON of the answer (null if it is empty). Fails unless it is 2xx.
pub async fn call(socket: &Path, method: Method, path: &str, body: &Value) -> Result<Value> {
    let text = if body.is_null() {
        Bytes::new()
    } else {
        body.to_string().into()
    };
    let answer = timeout(LIMIT, async {
        let stream = UnixStream::connect(socket).await?;
        send(stream, method, path, text).await
    });
    let answer = answer
        .await
        .with_context(|| format!("{} does not answer", socket.display()))?;
    let (status, bytes) =
        answer.with_context(|| format!("failed to call {path} at {}", socket.display()))?;
    ensure!(
        status.is_success(),
        "{path} answered {status}: {}",
        String::from_utf8_lossy(&bytes)
    );
    if bytes.is_empty() {
        Ok(Value::Null)
    } else {
        Ok(serde_json::from_slice(&bytes)?)
    }
}

/// Gets a path from a port of 127.0.0.1.
pub async fn get(port: u16, path: &str) -> Result<(StatusCode, String)> {
    send_to(port, Method::GET, path).await
}

/// Sends a request without a body to a port of 127.0.0.1.
pub async fn send_to(port: u16, method: Method, path: &str) -> Result<(StatusCode, String)> {
    let what = format!("{method} {path}");
    let answer = timeout(LIMIT, async {
        let stream = TcpStream::connect((std::net::Ipv4Addr::LOCALHOST, port)).await?;
        send(stream, method, path, Bytes::new()).await
    });
    let answer = answer
        .await
        .with_context(|| format!("port {port} does not answer"))?;
    let (status, bytes) = answer.with_context(|| format!("port {port}: {what}"))?;
    Ok((status, String::from_utf8_lossy(&bytes).into_owned()))
}

async fn send<S>(stream: S, method: Method, path: &str, body: Bytes) -> Result<(StatusCode, Bytes)>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    // Ends by itself: the sender is dropped at the end of this call.
    tokio::spawn(connection);
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "lab")
        .body(Full::new(body))?;
    let response = sender.send_request(request).await?;
    let status = response.status();
    Ok((status, response.into_body().collect().await?.to_bytes()))
}
