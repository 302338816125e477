//! What the store holds, key by key, and how it comes to hold that again.
//!
//! Objects are deleted in the store and not through the API server, because there nothing holds them up: no finalizer that
//! nobody removes, no pod that waits for its dead kubelet, no namespace that waits for its content. The API server
//! follows the store by watching it, so it knows at once. Only what came on top is deleted; where something that was there
//! has changed or is gone, the store is given up, as what the API server has made of it cannot be known.

use std::{collections::BTreeMap, path::Path};

use anyhow::{Context, Result, bail, ensure};
use base64::{Engine, prelude::BASE64_STANDARD};
use http::Method;
use serde_json::{Value, json};

use crate::plain_http;

/// Where the API server keeps its objects, and the end of that range.
const OBJECTS: (&str, &str) = ("/registry/", "/registry0");
/// Of these, what an API server keeps about itself, and renews every few seconds.
const OWN: [&str; 2] = [
    "/registry/leases/kube-system/apiserver-",
    "/registry/peerserverleases/",
];
/// etcd refuses transactions of more than 128 operations.
const DELETED_AT_ONCE: usize = 100;
/// So often something may appear between looking and deleting.
const ATTEMPTS: usize = 10;

/// All objects of the API server: the value of each key, as etcd writes it.
pub(super) struct Snapshot(BTreeMap<String, String>);

impl Snapshot {
    /// The store as it is, at one revision.
    pub(super) async fn read(socket: &Path) -> Result<Self> {
        let (begin, end) = OBJECTS;
        let all = json!({"key": encode(begin), "range_end": encode(end)});
        let answer = plain_http::call(socket, Method::POST, "/v3/kv/range", &all).await?;
        let pairs = answer["kvs"].as_array().context("the store is empty")?;
        let pairs = pairs.iter().map(|pair| {
            let key = BASE64_STANDARD.decode(text(&pair["key"])?)?;
            Ok((String::from_utf8(key)?, text(&pair["value"])?.to_owned()))
        });
        let pairs = pairs.collect::<Result<BTreeMap<_, _>>>()?;
        let is_own = |key: &str| OWN.iter().any(|own| key.starts_with(own));
        Ok(Self(
            pairs.into_iter().filter(|(key, _)| !is_own(key)).collect(),
        ))
    }

    /// Deletes what the store holds beyond this, until there is nothing. `before_look` is called before each look.
    pub(super) async fn restore(&self, socket: &Path, mut before_look: impl FnMut()) -> Result<()> {
        for _ in 0..ATTEMPTS {
            before_look();
            let now = Self::read(socket).await?;
            let lost = self
                .0
                .iter()
                .filter(|(key, was)| now.0.get(*key) != Some(*was));
            let lost: Vec<_> = lost.map(|(key, _)| key).collect();
            ensure!(lost.is_empty(), "changed or gone: {lost:?}");
            let added = now.0.keys().filter(|key| !self.0.contains_key(*key));
            let added: Vec<_> = added.collect();
            if added.is_empty() {
                return Ok(());
            }
            for keys in added.chunks(DELETED_AT_ONCE) {
                delete(socket, keys).await?;
            }
        }
        bail!("objects appear as fast as they are deleted");
    }
}

async fn delete(socket: &Path, keys: &[&String]) -> Result<()> {
    let one = |key: &&String| json!({"request_delete_range": {"key": encode(key)}});
    let all: Vec<_> = keys.iter().map(one).collect();
    plain_http::call(socket, Method::POST, "/v3/kv/txn", &json!({"success": all}))
        .await
        .map(drop)
}

fn encode(key: &str) -> String {
    BASE64_STANDARD.encode(key)
}

fn text(value: &Value) -> Result<&str> {
    value.as_str().context("etcd's answer is not text")
}
