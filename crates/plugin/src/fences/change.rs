//! How an open NodeFence is changed: not as it was when it was read, but as it is.

use super::open;
use crate::Error;
use crate::cluster::{Cluster, Write};
use crate::name::{Kind, Name};
use fencing_api::fence::NodeFence;
use kube::ResourceExt;
use serde_json::Value;

/// Changes it as `decide` has it, a merge patch. The operator writes its status all the time: where it has changed meanwhile it is read and decided
/// on anew. Gives it as it is then.
///
/// # Errors
/// What `decide` says; it has ended, or is another one by now; [`Error`].
pub async fn change(
    cluster: &Cluster,
    fence: &NodeFence,
    write: &Write,
    decide: impl Fn(&NodeFence) -> Result<Value, Error>,
) -> Result<NodeFence, Error> {
    let again = async || again(cluster, fence).await;
    cluster.change(fence, write, again, decide).await
}

/// The same NodeFence, as it is by now.
///
/// # Errors
/// As [`change`].
pub async fn again(cluster: &Cluster, fence: &NodeFence) -> Result<NodeFence, Error> {
    let name = fence.name_any();
    let of = Some(Kind::NodeFence);
    let now = open(cluster, &Name { name, of }).await?;
    if now.metadata.uid != fence.metadata.uid {
        return Err(Error::No(format!(
            "NodeFence {} was deleted and created again meanwhile, nothing was changed; see the new one (kubectl fence status {})",
            now.name_any(),
            now.spec.node_name
        )));
    }
    Ok(now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Limits;
    use fencing_cluster::fake::{Fake, failure};
    use serde_json::json;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Arc, Mutex};

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

    /// Changes one that the operator changes `moves` times beside that; which versions of it were decided on.
    async fn changed(moves: u64, uid: &'static str) -> (Result<String, String>, Vec<String>) {
        let (version, decided) = (Arc::new(AtomicU64::new(1)), Mutex::new(Vec::new()));
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
        let done = change(&cluster, &first, &WRITE, |fence| {
            let version = fence.metadata.resource_version.clone();
            decided
                .lock()
                .expect("lock")
                .push(version.expect("a version"));
            Ok(json!({"metadata": {"annotations": {}}, "spec": {"desiredState": "Released"}}))
        });
        let done = done.await.map_err(|it| it.to_string());
        let version = |it: NodeFence| it.metadata.resource_version.expect("a version");
        (done.map(version), decided.into_inner().expect("lock"))
    }

    #[tokio::test]
    async fn what_has_changed_meanwhile_is_decided_on_as_it_is_and_not_for_ever() {
        let last = || Ok("99".to_owned());
        assert_eq!(
            changed(0, "uid-1").await,
            (last(), ["1"].map(str::to_owned).into())
        );
        let three = ["1", "2", "3"].map(str::to_owned).into();
        assert_eq!(changed(2, "uid-1").await, (last(), three));
        let (done, decided) = changed(99, "uid-1").await;
        let words = done.expect_err("it changes all the time");
        assert!(
            words.contains("has changed meanwhile, nothing was changed"),
            "{words}"
        );
        assert_eq!(decided, ["1", "2", "3", "4", "5"]);
    }

    #[tokio::test]
    async fn another_one_of_its_name_is_not_changed() {
        let (done, decided) = changed(1, "uid-2").await;
        let words = done.expect_err("it is another one");
        assert!(
            words.contains("was deleted and created again meanwhile"),
            "{words}"
        );
        assert_eq!(decided, ["1"]);
    }
}
