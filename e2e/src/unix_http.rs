//! HTTP over a unix socket: how the lab talks to etcd and to its storage array.
//!
//! A socket in the lab's own directory needs no free port, is out of reach of other labs, and works across network
//! namespaces.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::UnixStream;

/// Sends a request with a JSON body and returns the JSON of the answer (null if it is empty). Fails unless it is 2xx.
pub async fn call(socket: &Path, method: Method, path: &str, body: &Value) -> Result<Value> {
    let stream = UnixStream::connect(socket)
        .await
        .with_context(|| format!("failed to connect to {}", socket.display()))?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let driver = tokio::spawn(connection);
    let text = if body.is_null() {
        Bytes::new()
    } else {
        body.to_string().into()
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "lab")
        .body(Full::new(text))?;
    let response = sender
        .send_request(request)
        .await
        .with_context(|| format!("failed to call {path}"))?;
    let status = response.status();
    let bytes = response.into_body().collect().await?.to_bytes();
    driver.abort();
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
