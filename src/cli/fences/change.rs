//! How an open NodeFence is changed: not as it was when it was read, but as it is.

use super::open;
use crate::api::fence::NodeFence;
use crate::cli::Error;
use crate::cli::cluster::{Cluster, Error as ClusterError, Write};
use crate::cli::name::{Incident, Named};
use kube::ResourceExt;
use serde_json::{Value, json};

/// Tries, of which each finds it changed by somebody else.
const TRIES: u32 = 5;

/// Changes it as `decide` has it, a merge patch. The operator writes its status all the time: where it has changed meanwhile it is read and decided
/// on anew.
///
/// # Errors
/// What `decide` says; it has ended, or is another one by now; [`ClusterError`].
pub async fn change(
    cluster: &Cluster,
    fence: &NodeFence,
    write: &Write,
    decide: impl Fn(&NodeFence) -> Result<Value, Error>,
) -> Result<(), Error> {
    let name = fence.name_any();
    let mut now = fence.clone();
    let mut tries = 1;
    loop {
        let patch = of_version(decide(&now)?, &now);
        let patched: Result<NodeFence, ClusterError> = cluster.patch(&name, &patch, write).await;
        match patched {
            Err(ClusterError::Changed { .. }) if tries < TRIES => {
                tries += 1;
                now = again(cluster, fence).await?;
            }
            Err(error) => return Err(error.into()),
            Ok(_) => return Ok(()),
        }
    }
}

/// The patch, of this very NodeFence and of no later one.
fn of_version(mut patch: Value, fence: &NodeFence) -> Value {
    let version = json!({"resourceVersion": fence.metadata.resource_version});
    let Some(fields) = patch.as_object_mut() else {
        return patch;
    };
    match fields.get_mut("metadata").and_then(Value::as_object_mut) {
        Some(metadata) => metadata.extend(version.as_object().cloned().unwrap_or_default()),
        None => drop(fields.insert("metadata".to_owned(), version)),
    }
    patch
}

/// The same NodeFence, as it is by now.
///
/// # Errors
/// As [`change`].
pub async fn again(cluster: &Cluster, fence: &NodeFence) -> Result<NodeFence, Error> {
    let name = fence.name_any();
    let of = Named::NodeFence;
    let now = open(cluster, &Incident { name, of }).await?;
    if now.metadata.uid != fence.metadata.uid {
        return Err(Error::No(format!(
            "NodeFence {} was deleted and made anew meanwhile: nothing was done; look at the new one (kubectl fence status {})",
            now.name_any(),
            now.spec.node_name
        )));
    }
    Ok(now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::cluster::Limits;
    use crate::shell::fake::{Fake, failure};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    const WRITE: Write = Write {
        dry_run: false,
        role: "some-role",
    };

    fn fence(version: u64, uid: &str) -> Value {
        json!({
            "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence",
            "metadata": {"name": "w-1-5c0ffee5", "uid": uid, "resourceVersion": version.to_string()},
            "spec": {"nodeName": "w-1", "trigger": {"type": "Manual"}},
        })
    }

    /// Changes one that the operator changes `moves` times beside that; how often it was decided on.
    async fn changed(moves: u64, uid: &'static str) -> (Result<(), String>, u64) {
        let (version, decided) = (Arc::new(AtomicU64::new(1)), AtomicU64::new(0));
        let server = Fake::start(move |request| {
            let now = version.load(Ordering::Relaxed);
            if !request.line.starts_with("PATCH") {
                let list = json!({"kind": "NodeFenceList", "metadata": {"resourceVersion": "9"}, "items": [fence(now, uid)]});
                return (200, list);
            }
            if now <= moves {
                version.store(now + 1, Ordering::Relaxed);
            }
            match request.body["metadata"]["resourceVersion"] == json!(version.load(Ordering::Relaxed).to_string()) {
                true => (200, fence(99, uid)),
                false => failure(409, "the object has been modified"),
            }
        })
        .await;
        let cluster = Cluster {
            clients: server.clients.clone(),
            namespace: "node-fencing-system".to_owned(),
            limits: Limits::of(None),
        };
        let first = serde_json::from_value(fence(1, "uid-1")).expect("a NodeFence");
        let done = change(&cluster, &first, &WRITE, |_| {
            decided.fetch_add(1, Ordering::Relaxed);
            Ok(json!({"spec": {"desiredState": "Released"}}))
        });
        let done = done.await.map_err(|it| it.to_string());
        (done, decided.load(Ordering::Relaxed))
    }

    #[tokio::test]
    async fn what_has_changed_meanwhile_is_decided_on_anew_and_not_for_ever() {
        assert_eq!(changed(0, "uid-1").await, (Ok(()), 1));
        assert_eq!(changed(2, "uid-1").await, (Ok(()), 3));
        let (done, decided) = changed(99, "uid-1").await;
        let words = done.expect_err("it changes all the time");
        assert!(
            words.contains("has changed meanwhile, and nothing was done"),
            "{words}"
        );
        assert_eq!(decided, u64::from(TRIES));
    }

    #[tokio::test]
    async fn another_one_of_its_name_is_not_changed() {
        let (done, decided) = changed(1, "uid-2").await;
        let words = done.expect_err("it is another one");
        assert!(
            words.contains("was deleted and made anew meanwhile"),
            "{words}"
        );
        assert_eq!(decided, 1);
    }
}
