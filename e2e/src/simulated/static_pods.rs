//! Static pods: they run on a node whatever the API server says, which sees them as mirror pods only.
//!
//! They matter to fencing because no taint and no deletion stops them. The simulated ones have no volumes.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt};

use super::kubelet::{Kubelet, PATCH, POST};
use super::objects::{self, Phase};

/// Is this the mirror of a static pod?
pub(super) fn is_mirror(pod: &Pod) -> bool {
    pod.annotations()
        .contains_key("kubernetes.io/config.mirror")
}

/// The static pods that have a mirror, each with the Node that it belongs to.
fn mirrored<'a>(
    names: &'a [String],
    node_uid: Option<&'a str>,
) -> impl Iterator<Item = (&'a String, &'a str)> {
    names.iter().filter_map(move |name| Some((name, node_uid?)))
}

/// Keeps one running mirror pod for each static pod of the machine, and creates it again when it is deleted.
pub(super) async fn mirror(kubelet: &Arc<Kubelet>) {
    if kubelet.spec.static_pods.is_empty() {
        return;
    }
    kubelet
        .uplink
        .sleep_until(kubelet.after_start(kubelet.options.power_on_to_containers))
        .await;
    let pods: Api<Pod> = Api::namespaced(kubelet.client.clone(), "default");
    let mut cache = kubelet.cache.subscribe();
    loop {
        kubelet.uplink.reachable().await;
        let sight = cache.borrow_and_update().clone();
        let node_uid = sight.node.as_ref().and_then(|node| node.uid());
        // None of them, while there is no Node to be theirs.
        for (name, node_uid) in mirrored(&kubelet.spec.static_pods, node_uid.as_deref()) {
            let pod = objects::mirror_pod(&kubelet.spec, name, node_uid);
            let shown = sight
                .pods
                .values()
                .find(|shown| shown.name_any() == pod.name_any());
            let stored = match shown {
                Some(shown) if runs_in(shown, &kubelet.boot_id) => continue,
                Some(shown) => Some(Pod::clone(shown)),
                None => {
                    let create = || pods.create(&POST, &pod);
                    kubelet.note(
                        "create a mirror pod",
                        kubelet.uplink.insist("create a mirror pod", create).await,
                    )
                }
            };
            if let Some(stored) = stored {
                post_running(kubelet, &pods, &stored).await;
            }
        }
        if cache.changed().await.is_err() {
            return;
        }
    }
}

async fn post_running(kubelet: &Kubelet, pods: &Api<Pod>, pod: &Pod) {
    let status = objects::pod_status(pod, &kubelet.spec, &kubelet.boot_id, Phase::Running);
    let (name, patch) = (pod.name_any(), kube::api::Patch::Strategic(status));
    let posted = kubelet.uplink.insist("post a mirror pod's status", || {
        pods.patch_status(&name, &PATCH, &patch)
    });
    kubelet.note("post a mirror pod's status", posted.await);
}

/// Does the pod's status say that it runs in this boot?
fn runs_in(pod: &Pod, boot_id: &str) -> bool {
    let statuses = pod
        .status
        .as_ref()
        .and_then(|status| status.container_statuses.as_ref());
    let mut ids = statuses
        .into_iter()
        .flatten()
        .filter_map(|status| status.container_id.as_ref());
    ids.any(|id| id.contains(boot_id))
}

#[cfg(test)]
mod tests {
    use super::mirrored;

    /// Before the Node is known there is nothing to mirror, and that is said at once.
    #[test]
    fn without_a_node_no_static_pod_has_a_mirror() {
        let names = ["etcd", "proxy"].map(str::to_owned);
        assert_eq!(mirrored(&names, None).count(), 0);
        let all: Vec<_> = mirrored(&names, Some("uid")).collect();
        assert_eq!(all, [(&names[0], "uid"), (&names[1], "uid")]);
    }
}
