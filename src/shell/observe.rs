//! The quorum reads of a round: the Node, and what else the core asks for.
//!
//! `resourceVersion` is left unset everywhere, which makes the API server answer from etcd's quorum (S12). A read
//! that fails, is cut short or cannot be decoded is `Failed`, never "empty".

mod attachments;
mod volumes;

pub use attachments::AttachmentLists;

use super::context::Context;
use super::knock::Knocked;
use fencing_api::fence::NodeFence;
use fencing_cluster::client::{AskError, ask};
use fencing_cluster::slim::{SlimLease, SlimNode, pod_view};
use fencing_core::observed::{
    AttachmentView, LeaseView, NodeView, Observed, PodView, Read, Volumes,
};
use fencing_core::plan::Needs;
use fencing_drivers::clock;
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, ObjectList};
use kube::core::DeserializeGuard;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::time::Duration;
use volumes::{tolerated_volumes, volumes};

/// Quorum GET of a Node.
pub async fn node(context: &Context, name: &str) -> Read<SlimNode> {
    let seen = context.revision.node(name);
    let node = get(Api::<SlimNode>::all(context.reads.clone()), name).await;
    if let Read::Present(node) = &node {
        let meta = &node.metadata;
        let version = meta.resource_version.as_deref().unwrap_or_default();
        context
            .revision
            .note_node(seen, meta.uid.as_deref().unwrap_or_default(), version);
    }
    node
}

/// The reads of a round. What can be foreseen is read at once with the Node, the rest when the Node says that it is needed.
pub struct Reads {
    /// When they were asked for (time since boot).
    pub asked: Duration,
    name: String,
    node: Read<SlimNode>,
    view: Read<NodeView>,
    others: Others,
}

/// What a round may read besides the Node, each by a request of its own.
struct Others {
    lease: Read<LeaseView>,
    pods: Read<Vec<PodView>>,
    starting: Read<Vec<PodView>>,
    attachments: Read<Vec<AttachmentView>>,
    volumes: Read<Volumes>,
}

impl Reads {
    /// Reads the Node and, side by side with it, what is foreseen.
    pub async fn begin(context: &Context, name: &str, foreseen: Needs) -> Self {
        let asked = clock::since_boot();
        let (node, others) = tokio::join!(node(context, name), others(context, name, &foreseen));
        Self {
            asked,
            name: name.to_owned(),
            view: seen_map(node.clone(), |node| node.view()),
            node,
            others,
        }
    }

    /// The Node, if it exists and could be read.
    pub fn node(&self) -> Option<&NodeView> {
        self.view.present()
    }

    /// Has the Node not been read? One that does not exist has.
    pub fn is_unread(&self) -> bool {
        matches!(self.view, Read::Failed(_) | Read::NotRead)
    }

    /// Reads what else is needed; the NodeFence is given back as well, as far as it is.
    pub async fn complete(
        self,
        context: &Context,
        fence: &str,
        needs: Needs,
    ) -> (Observed, Read<NodeFence>) {
        let name = self.name.as_str();
        let read = &self.others;
        let missing = Needs {
            lease: needs.lease && read.lease == Read::NotRead,
            pods: needs.pods && read.pods == Read::NotRead,
            starting: match read.starting {
                Read::NotRead => needs.starting,
                _ => Vec::new(),
            },
            attachments: needs.attachments && read.attachments == Read::NotRead,
            volumes_of: match read.volumes {
                Read::NotRead => needs.volumes_of,
                _ => None,
            },
            ..needs
        };
        let (others, kubelet_answers) = tokio::join!(others(context, name, &missing), async {
            match self.node.present() {
                Some(node) if needs.kubelet => kubelet_answers(context, node).await,
                _ => false,
            }
        });
        // A LIST may take long: what another process has written down meanwhile is heard before the release (S23).
        let record = if_wanted(needs.record, self::fence(context, fence)).await;
        let pods = self.others.pods.or(others.pods);
        let tolerated_volumes = match pods.present() {
            Some(pods) => tolerated_volumes(context, pods).await,
            None => Vec::new(),
        };
        let cached = context.caches.attachments_of(name);
        let claim = self.view.present().and_then(NodeView::claim);
        let evidence = seen_map(record.clone(), |fence| {
            let evidence = fence.status.and_then(|status| status.evidence);
            evidence.is_some_and(|it| claim == Some(it.claim.as_str()))
        });
        let observed = Observed {
            node: self.view,
            lease: self.others.lease.or(others.lease),
            pods,
            starting: self.others.starting.or(others.starting),
            attachments: self.others.attachments.or(others.attachments),
            volumes: self.others.volumes.or(others.volumes),
            attachments_cached: cached
                .iter()
                .map(|attachment| attachment.view.clone())
                .collect(),
            tolerated_volumes,
            kubelet_answers,
            evidence,
            hold: None,
            claim_of_other_fence: false,
            cleared_by: None,
            claim_of_other_process: false,
            frozen: context.revision.frozen(),
        };
        (observed, record)
    }
}

/// Side by side, as far as they are wanted. Boxed: a round holds room for all of them for as long as it lasts, and most rounds want none.
async fn others(context: &Context, name: &str, wanted: &Needs) -> Others {
    let (lease, pods, starting, (attachments, volumes)) = tokio::join!(
        if_wanted(wanted.lease, Box::pin(lease(&context.reads, name))),
        if_wanted(wanted.pods, Box::pin(pods(context, name))),
        if_wanted(
            !wanted.starting.is_empty(),
            Box::pin(same_pods(context, &wanted.starting))
        ),
        Box::pin(async {
            let listed = context
                .attachments
                .of(&context.reads, &context.revision, name);
            let attachments = if_wanted(wanted.attachments, listed).await;
            let volumes = match (attachments.present(), &wanted.volumes_of) {
                (Some(attachments), Some(pods)) => volumes(context, attachments, pods).await,
                _ => Read::NotRead,
            };
            (attachments, volumes)
        }),
    );
    Others {
        lease,
        pods,
        starting,
        attachments,
        volumes,
    }
}

async fn if_wanted<T>(wanted: bool, read: impl Future<Output = Read<T>>) -> Read<T> {
    match wanted {
        true => read.await,
        false => Read::NotRead,
    }
}

/// Quorum GET of the kubelet's Lease. A missing one never moves.
pub async fn lease(reads: &Client, node: &str) -> Read<LeaseView> {
    match get(
        Api::<SlimLease>::namespaced(reads.clone(), "kube-node-lease"),
        node,
    )
    .await
    {
        Read::Present(lease) => Read::Present(lease.view()),
        Read::Absent => Read::Present(LeaseView {
            renew_time: String::new(),
        }),
        Read::Failed(reason) => Read::Failed(reason),
        Read::NotRead => Read::NotRead,
    }
}

/// Quorum LIST of the node's pods.
pub async fn pods(context: &Context, node: &str) -> Read<Vec<PodView>> {
    let pods = pods_in_full(context, node).await;
    seen_map(pods, |pods| pods.iter().map(pod_view).collect())
}

/// The same, with all that they say.
pub async fn pods_in_full(context: &Context, node: &str) -> Read<Vec<Pod>> {
    let params = ListParams::default().fields(&format!("spec.nodeName={node}"));
    list(context, &Api::all(context.reads.clone()), &params).await
}

/// Quorum GETs of these pods, by name and UID: those that still exist. One of another UID is another pod.
async fn same_pods(context: &Context, pods: &[PodView]) -> Read<Vec<PodView>> {
    let one = |pod: &PodView| {
        let api = Api::<Pod>::namespaced(context.reads.clone(), &pod.namespace);
        let (name, uid) = (pod.name.clone(), pod.uid.clone());
        async move {
            let pod = found(get(api, &name).await)?;
            Ok(pod.map(|it| pod_view(&it)).filter(|it| it.uid == uid))
        }
    };
    match try_join_all(pods.iter().map(one)).await {
        Ok(pods) => Read::Present(pods.into_iter().flatten().collect()),
        Err(reason) => Read::Failed(reason),
    }
}

/// The object, unless there is none.
fn found<T>(read: Read<T>) -> Result<Option<T>, String> {
    match read {
        Read::Present(object) => Ok(Some(object)),
        Read::Absent => Ok(None),
        Read::Failed(reason) => Err(reason),
        Read::NotRead => Err("it was not read".to_owned()),
    }
}

/// Does something answer at the kubelet's port? A Node that the operator itself has reported is held to a stricter rule, as when it was reported.
pub async fn kubelet_answers(context: &Context, node: &SlimNode) -> bool {
    match knock(context, node).await {
        Knocked::Answers => true,
        Knocked::Refused => node.view().reported_early,
        Knocked::Silent | Knocked::Unclear => false,
    }
}

/// Knocks at the kubelet's port.
pub async fn knock(context: &Context, node: &SlimNode) -> Knocked {
    match node.kubelet() {
        Some(kubelet) => (context.outside.kubelet)(kubelet).await,
        None => Knocked::Unclear,
    }
}

/// It is the object that was asked for, and not an empty or a cut one (F22).
pub(super) fn is_whole<K: Resource>(object: &K, name: &str) -> bool {
    let meta = object.meta();
    meta.name.as_deref() == Some(name) && meta.uid.as_ref().is_some_and(|uid| !uid.is_empty())
}

async fn get<K: Resource + Clone + DeserializeOwned + Debug>(api: Api<K>, name: &str) -> Read<K> {
    match ask(api.get(name)).await {
        Ok(object) if is_whole(&object, name) => Read::Present(object),
        Ok(_) => Read::Failed(format!("the answer is not {name}")),
        // A proxy's 404 is no word of the API server.
        Err(AskError::Refused { code, reason, .. }) if code == 404 && reason == "NotFound" => {
            Read::Absent
        }
        Err(error) => Read::Failed(error.to_string()),
    }
}

async fn list<K: Resource + Clone + DeserializeOwned + Debug>(
    context: &Context,
    api: &Api<K>,
    params: &ListParams,
) -> Read<Vec<K>> {
    let newest = context.revision.newest();
    let list: ObjectList<K> = match ask(api.list(params)).await {
        Ok(list) => list,
        Err(error) => return Read::Failed(error.to_string()),
    };
    let (version, token) = (
        list.metadata.resource_version.as_deref(),
        list.metadata.continue_.as_deref(),
    );
    if let Err(reason) = is_complete(version, token) {
        return Read::Failed(reason);
    }
    context
        .revision
        .note(newest, list.metadata.resource_version.as_deref());
    Read::Present(list.items)
}

/// We ask for no pages, so a list that goes on elsewhere was cut by somebody (F22).
fn is_complete(version: Option<&str>, token: Option<&str>) -> Result<(), String> {
    if token.is_some_and(|token| !token.is_empty()) {
        return Err("the list is not complete".to_owned());
    }
    if version.is_none_or(str::is_empty) {
        return Err("the list has no resourceVersion".to_owned());
    }
    Ok(())
}

fn seen_map<T, U>(seen: Read<T>, map: impl FnOnce(T) -> U) -> Read<U> {
    match seen {
        Read::Present(value) => Read::Present(map(value)),
        Read::Absent => Read::Absent,
        Read::Failed(reason) => Read::Failed(reason),
        Read::NotRead => Read::NotRead,
    }
}

/// Quorum GET of a NodeFence.
pub async fn fence(context: &Context, name: &str) -> Read<NodeFence> {
    get(Api::<NodeFence>::all(context.reads.clone()), name).await
}

/// Quorum LIST of all NodeFences that can be decoded.
pub async fn fences(context: &Context) -> Read<Vec<NodeFence>> {
    let api = Api::<DeserializeGuard<NodeFence>>::all(context.reads.clone());
    let list = list(context, &api, &ListParams::default()).await;
    seen_map(list, |guards| {
        guards
            .into_iter()
            .filter_map(|guard| guard.0.ok())
            .collect()
    })
}

#[cfg(test)]
mod tests;
