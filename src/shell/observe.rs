//! The quorum reads of a round: the Node, and what else the core asks for.
//!
//! `resourceVersion` is left unset everywhere, which makes the API server answer from etcd's quorum (DESIGN S12). A read
//! that fails, is cut short or cannot be decoded is `Failed`, never "empty".

use super::context::{Context, REQUEST_TIMEOUT};
use super::slim::{SlimAttachment, SlimLease, SlimNode, pod_view};
use crate::api::fence::NodeFence;
use crate::core::observed::{AttachmentView, LeaseView, NodeView, Observed, PodView, Seen};
use crate::core::plan::Needs;
use crate::core::quiesce::tolerating;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::api::{ListParams, ObjectList};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long the kubelet's port is given to answer.
const KUBELET_TIMEOUT: Duration = Duration::from_millis(300);

/// Quorum GET of a Node.
pub async fn node(context: &Context, name: &str) -> Seen<SlimNode> {
    get(Api::<SlimNode>::all(context.reads.clone()), name).await
}

/// Everything else that a round needs.
pub async fn rest(context: &Context, node: &SlimNode, view: NodeView, needs: Needs) -> Observed {
    let name = view.name.as_str();
    let (lease, pods, attachments, kubelet_answers) = tokio::join!(
        async {
            if needs.lease {
                lease(context, name).await
            } else {
                Seen::NotRead
            }
        },
        async {
            if needs.pods {
                pods(context, name).await
            } else {
                Seen::NotRead
            }
        },
        async {
            if needs.attachments {
                attachments(context, name).await
            } else {
                Seen::NotRead
            }
        },
        async { needs.kubelet && kubelet_answers(node).await },
    );
    let tolerated_volumes = match pods.present() {
        Some(pods) => tolerated_volumes(context, pods).await,
        None => Vec::new(),
    };
    let attachments_cached = context
        .caches
        .attachments_of(name)
        .iter()
        .map(|attachment| attachment.view())
        .collect();
    Observed {
        node: Seen::Present(view),
        lease,
        pods,
        attachments,
        attachments_cached,
        tolerated_volumes,
        kubelet_answers,
        hold: None,
        rival: false,
        frozen: context.revision.frozen(),
    }
}

/// What a round has seen when the Node itself could not be read.
pub fn nothing_but(node: Seen<NodeView>) -> Observed {
    Observed {
        node,
        lease: Seen::NotRead,
        pods: Seen::NotRead,
        attachments: Seen::NotRead,
        attachments_cached: Vec::new(),
        tolerated_volumes: Vec::new(),
        kubelet_answers: false,
        hold: None,
        rival: false,
        frozen: None,
    }
}

/// A missing Lease is one that never moves.
async fn lease(context: &Context, node: &str) -> Seen<LeaseView> {
    match get(
        Api::<SlimLease>::namespaced(context.reads.clone(), "kube-node-lease"),
        node,
    )
    .await
    {
        Seen::Present(lease) => Seen::Present(lease.view()),
        Seen::Absent => Seen::Present(LeaseView {
            renew_time: String::new(),
        }),
        Seen::Failed(reason) => Seen::Failed(reason),
        Seen::NotRead => Seen::NotRead,
    }
}

async fn pods(context: &Context, node: &str) -> Seen<Vec<PodView>> {
    let params = ListParams::default().fields(&format!("spec.nodeName={node}"));
    let pods = list(context, &Api::<Pod>::all(context.reads.clone()), &params).await;
    seen_map(pods, |pods: Vec<Pod>| pods.iter().map(pod_view).collect())
}

async fn attachments(context: &Context, node: &str) -> Seen<Vec<AttachmentView>> {
    let api = Api::<SlimAttachment>::all(context.reads.clone());
    let all = list(context, &api, &ListParams::default()).await;
    let of_node = |all: Vec<SlimAttachment>| {
        all.iter()
            .filter(|attachment| attachment.spec.node_name == node)
            .map(SlimAttachment::view)
            .collect()
    };
    seen_map(all, of_node)
}

/// PersistentVolumes of the pods that tolerate out-of-service. One that cannot be resolved is left out: its VolumeAttachment then
/// hinders the release, which is the safe side.
async fn tolerated_volumes(context: &Context, pods: &[PodView]) -> Vec<String> {
    let mut volumes = Vec::new();
    for pod in tolerating(pods) {
        for claim in &pod.claims {
            let api =
                Api::<PersistentVolumeClaim>::namespaced(context.reads.clone(), &pod.namespace);
            if let Seen::Present(claim) = get(api, claim).await {
                volumes.extend(claim.spec.and_then(|spec| spec.volume_name));
            }
        }
    }
    volumes
}

async fn kubelet_answers(node: &SlimNode) -> bool {
    let Some((address, port)) = node.kubelet() else {
        return false;
    };
    matches!(
        timeout(
            KUBELET_TIMEOUT,
            TcpStream::connect((address.as_str(), port))
        )
        .await,
        Ok(Ok(_))
    )
}

async fn get<K: Resource + Clone + DeserializeOwned + Debug>(api: Api<K>, name: &str) -> Seen<K> {
    match timeout(REQUEST_TIMEOUT, api.get_opt(name)).await {
        Ok(Ok(Some(object))) => Seen::Present(object),
        Ok(Ok(None)) => Seen::Absent,
        Ok(Err(error)) => Seen::Failed(error.to_string()),
        Err(_) => Seen::Failed(format!(
            "the API server did not answer within {} s",
            REQUEST_TIMEOUT.as_secs()
        )),
    }
}

async fn list<K: Resource + Clone + DeserializeOwned + Debug>(
    context: &Context,
    api: &Api<K>,
    params: &ListParams,
) -> Seen<Vec<K>> {
    let newest = context.revision.newest();
    let list: ObjectList<K> = match timeout(REQUEST_TIMEOUT, api.list(params)).await {
        Ok(Ok(list)) => list,
        Ok(Err(error)) => return Seen::Failed(error.to_string()),
        Err(_) => {
            let reason = format!(
                "the API server did not answer within {} s",
                REQUEST_TIMEOUT.as_secs()
            );
            return Seen::Failed(reason);
        }
    };
    // We ask for no pages, so a list that goes on elsewhere was cut by somebody (FAULTS F22).
    if list
        .metadata
        .continue_
        .as_deref()
        .is_some_and(|token| !token.is_empty())
    {
        return Seen::Failed("the list is not complete".to_owned());
    }
    context
        .revision
        .note(newest, list.metadata.resource_version.as_deref());
    Seen::Present(list.items)
}

fn seen_map<T, U>(seen: Seen<T>, map: impl FnOnce(T) -> U) -> Seen<U> {
    match seen {
        Seen::Present(value) => Seen::Present(map(value)),
        Seen::Absent => Seen::Absent,
        Seen::Failed(reason) => Seen::Failed(reason),
        Seen::NotRead => Seen::NotRead,
    }
}

/// Quorum GET of a NodeFence.
pub async fn fence(context: &Context, name: &str) -> Seen<NodeFence> {
    get(Api::<NodeFence>::all(context.reads.clone()), name).await
}
