//! Is this etcd ours?
//!
//! An API server that is pointed at another cluster's store ruins that cluster. So before the API server starts, the lab
//! checks that the process it started is the one that listens, and that the store is either empty, in which case it puts
//! its token there, or already bears the token that this lab put there before a restart.

use std::{path::Path, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use base64::{Engine, prelude::BASE64_STANDARD};
use http::Method;
use rustix::net::sockopt::socket_peercred;
use serde_json::{Value, json};
use tokio::{net::UnixStream, time::Instant};

use crate::plain_http;
use fencing_testbed::process::Process;

/// Outside Kubernetes' prefix `/registry`.
const TOKEN_KEY: &str = "/nodefencing-lab/token";

/// Waits until etcd answers and makes sure that it is ours and holds nobody else's data.
pub async fn claim(etcd: &Process, socket: &Path, token: &str) -> Result<()> {
    wait_until_healthy(etcd, socket).await?;
    let stream = UnixStream::connect(socket).await?;
    let listener = socket_peercred(&stream)?.pid;
    ensure!(
        listener == etcd.pid(),
        "{} is served by process {listener:?}, which is not our etcd",
        socket.display()
    );

    if let Some(found) = get(socket, TOKEN_KEY).await? {
        ensure!(
            found == token,
            "the store bears the token of another lab: {found}"
        );
        return Ok(());
    }
    // From the smallest key to the end: an end of \0 means "no end".
    let all = json!({"key": BASE64_STANDARD.encode("\0"), "range_end": BASE64_STANDARD.encode("\0"), "count_only": true});
    let answer = plain_http::call(socket, Method::POST, "/v3/kv/range", &all).await?;
    // Zero is left out of the answer, and 64 bit integers are text.
    let count = answer["count"].as_str().unwrap_or("0");
    ensure!(
        count == "0",
        "the store holds {count} keys that this lab did not write; it is somebody else's"
    );
    let put =
        json!({"key": BASE64_STANDARD.encode(TOKEN_KEY), "value": BASE64_STANDARD.encode(token)});
    plain_http::call(socket, Method::POST, "/v3/kv/put", &put).await?;
    Ok(())
}

async fn wait_until_healthy(etcd: &Process, socket: &Path) -> Result<()> {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        etcd.check()?;
        match plain_http::call(socket, Method::GET, "/health", &Value::Null).await {
            Ok(answer) if answer["health"] == "true" => return Ok(()),
            Ok(answer) if Instant::now() > end => bail!("etcd is not healthy: {answer}"),
            Err(error) if Instant::now() > end => return Err(error.context("etcd does not answer")),
            _ => tokio::time::sleep(Duration::from_millis(25)).await,
        }
    }
}

/// Makes the store forget everything but what it holds now. The API server may still remember some of it.
pub async fn compact(socket: &Path) -> Result<()> {
    let range = json!({"key": BASE64_STANDARD.encode(TOKEN_KEY), "count_only": true});
    let answer = plain_http::call(socket, Method::POST, "/v3/kv/range", &range).await?;
    let revision = answer["header"]["revision"].as_str();
    let compaction =
        json!({"revision": revision.context("etcd names no revision")?, "physical": true});
    plain_http::call(socket, Method::POST, "/v3/kv/compaction", &compaction).await?;
    Ok(())
}

async fn get(socket: &Path, key: &str) -> Result<Option<String>> {
    let range = json!({"key": BASE64_STANDARD.encode(key)});
    let answer = plain_http::call(socket, Method::POST, "/v3/kv/range", &range).await?;
    let Some(value) = answer["kvs"][0]["value"].as_str() else {
        return Ok(None);
    };
    let bytes = BASE64_STANDARD
        .decode(value)
        .context("etcd's answer is not base64")?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}
