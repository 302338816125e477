//! The guarded writes: one request each, never repeated, its outcome reported as it was.
//!
//! A write that may not be safe for ever says until when, one that was decided on early is held back until
//! then; the former is looked at right before the request leaves. An outcome that is not known stays unknown: whoever decides next reads again (S20, F19 to F21).

use super::context::Context;
use fencing_api::fence::NodeFence;
use fencing_cluster::client::{AskError, MANAGER, ask, patch_params};
use fencing_cluster::slim::SlimNode;
use fencing_core::answer::Reply;
use fencing_core::decision::Eviction;
use fencing_core::observed::PodView;
use fencing_core::taint::{Detachment, NodeDeletion, NodePatch};
use fencing_drivers::clock;
use futures::future::join_all;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::Api;
use kube::api::{DeleteParams, Patch, PostParams, Preconditions};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt::Debug;
use std::time::Duration;

/// The subresource of the reports on an object.
const STATUS: Option<&str> = Some("status");

/// Sends a JSON Patch of a Node.
pub async fn patch_node(context: &Context, patch: NodePatch) -> Reply {
    let early = patch.valid_from.saturating_sub(clock::since_boot());
    // A sleep of nothing takes a millisecond.
    if !early.is_zero() {
        tokio::time::sleep(early).await;
    }
    if let Some(reply) = barred(context, patch.valid_until) {
        return reply;
    }
    let nodes = Api::<SlimNode>::all(context.writes.clone());
    send(&nodes, &patch.node, None, patch.operations).await
}

/// Sends a JSON Patch of a Node's status.
pub async fn patch_node_status(context: &Context, patch: NodePatch) -> Reply {
    if let Some(reply) = barred(context, patch.valid_until) {
        return reply;
    }
    let nodes = Api::<SlimNode>::all(context.writes.clone());
    send(&nodes, &patch.node, STATUS, patch.operations).await
}

/// Sends a JSON Patch of a pod's status, unless it is later than that (time since boot).
pub async fn patch_pod_status(
    context: &Context,
    namespace: &str,
    name: &str,
    (operations, valid_until): (Value, Duration),
) -> Reply {
    if let Some(reply) = barred(context, Some(valid_until)) {
        return reply;
    }
    let pods = Api::<Pod>::namespaced(context.writes.clone(), namespace);
    send(&pods, name, STATUS, operations).await
}

/// A JSON Patch of an object, or of this subresource of it.
async fn send<K: Clone + DeserializeOwned + Debug>(
    api: &Api<K>,
    name: &str,
    subresource: Option<&str>,
    operations: Value,
) -> Reply {
    let body = match serde_json::from_value(operations) {
        Ok(operations) => Patch::Json::<()>(operations),
        Err(error) => return Reply::NotSent(format!("the patch could not be built: {error}")),
    };
    let params = patch_params();
    reply(match subresource {
        Some(part) => ask(api.patch_subresource(part, name, &params, &body)).await,
        None => ask(api.patch(name, &params, &body)).await,
    })
}

/// Writes the status of a NodeFence, by a merge patch that names the version it is for: what a superseded process has on its way
/// must not overwrite the record of its successor (S9). Returns the NodeFence as it is now.
pub async fn patch_status(
    context: &Context,
    fence: &str,
    changes: &Value,
) -> Result<NodeFence, Reply> {
    let api = Api::<NodeFence>::all(context.writes.clone());
    let patch = Patch::Merge(changes);
    let written = ask(api.patch_status(fence, &patch_params(), &patch)).await;
    written.map_err(refusal)
}

/// Creates the record of an incident. Refused with 409: it is there already.
pub async fn create_fence(context: &Context, fence: &NodeFence) -> Reply {
    let api = Api::<NodeFence>::all(context.writes.clone());
    let params = PostParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PostParams::default()
    };
    reply(ask(api.create(&params, fence)).await)
}

/// Deletes stuck pods, grace 0, each only if it still is the pod that was seen, as it was seen: a request that is under way while etcd is put back meets
/// a pod of the same uid that has not been deleted yet, and may run.
pub async fn evict(context: &Context, eviction: Eviction) -> Reply {
    let deletions = eviction
        .pods
        .iter()
        .map(|pod| delete_pod(context, pod, eviction.valid_until));
    let replies = join_all(deletions).await;
    // One that failed is tried again in the next round, with all that are left.
    replies
        .into_iter()
        .find(|reply| *reply != Reply::Done)
        .unwrap_or(Reply::Done)
}

async fn delete_pod(context: &Context, pod: &PodView, valid_until: Duration) -> Reply {
    if let Some(reply) = barred(context, Some(valid_until)) {
        return reply;
    }
    let api = Api::<Pod>::namespaced(context.writes.clone(), &pod.namespace);
    let params = DeleteParams {
        grace_period_seconds: Some(0),
        preconditions: Some(Preconditions {
            uid: Some(pod.uid.clone()),
            resource_version: Some(pod.resource_version.clone()),
        }),
        ..DeleteParams::default()
    };
    match reply(ask(api.delete(&pod.name, &params)).await) {
        // Gone. A conflict is not that: whether another pod has its name by now, the next list tells.
        Reply::Refused(404, _) => Reply::Done,
        reply => reply,
    }
}

/// Deletes VolumeAttachments, each only if it still is the one that was seen.
pub async fn detach(context: &Context, detachment: Detachment) -> Reply {
    let deletions = detachment
        .attachments
        .iter()
        .map(|it| delete_attachment(context, &it.name, &it.uid, detachment.valid_until));
    let replies = join_all(deletions).await;
    // One that failed is looked at again in the next round, with all that are left.
    replies
        .into_iter()
        .find(|reply| *reply != Reply::Done)
        .unwrap_or(Reply::Done)
}

async fn delete_attachment(context: &Context, name: &str, uid: &str, until: Duration) -> Reply {
    if let Some(reply) = barred(context, Some(until)) {
        return reply;
    }
    let api = Api::<VolumeAttachment>::all(context.writes.clone());
    let params = DeleteParams {
        preconditions: Some(Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    match reply(ask(api.delete(name, &params)).await) {
        // Gone. One of another uid is another attachment, and stays.
        Reply::Refused(404, _) => Reply::Done,
        reply => reply,
    }
}

/// Deletes a Node, only if it still is exactly the one that was read.
pub async fn delete_node(context: &Context, deletion: NodeDeletion) -> Reply {
    if let Some(reply) = barred(context, Some(deletion.valid_until)) {
        return reply;
    }
    let api = Api::<Node>::all(context.writes.clone());
    let params = DeleteParams {
        preconditions: Some(Preconditions {
            uid: Some(deletion.uid),
            resource_version: Some(deletion.resource_version),
        }),
        ..DeleteParams::default()
    };
    reply(ask(api.delete(&deletion.node, &params)).await)
}

/// Deletes the record of an ended incident, only if it still is exactly the one that was seen.
pub async fn delete_record(context: &Context, fence: &NodeFence) -> Reply {
    let api = Api::<NodeFence>::all(context.writes.clone());
    let params = DeleteParams {
        preconditions: Some(Preconditions {
            uid: fence.metadata.uid.clone(),
            resource_version: fence.metadata.resource_version.clone(),
        }),
        ..DeleteParams::default()
    };
    let name = fence.metadata.name.as_deref().unwrap_or_default();
    reply(ask(api.delete(name, &params)).await)
}

/// A destructive write, which says until when it is safe, is not sent when its proof has died, nor in a cluster that went back (S18).
fn barred(context: &Context, valid_until: Option<Duration>) -> Option<Reply> {
    if let Some(why) = context.revision.frozen().filter(|_| valid_until.is_some()) {
        return Some(Reply::NotSent(why));
    }
    let late = valid_until.is_some_and(|until| clock::since_boot() > until);
    late.then(|| {
        Reply::NotSent("the power-off proof expired before the request was sent".to_owned())
    })
}

fn reply<T>(outcome: Result<T, AskError>) -> Reply {
    outcome.map_or_else(refusal, |_| Reply::Done)
}

/// Only a refusal is certain to have written nothing.
fn refusal(error: AskError) -> Reply {
    match error {
        AskError::Refused { code, message, .. } => Reply::Refused(code, message),
        unknown => Reply::Unknown(unknown.to_string()),
    }
}

#[cfg(test)]
mod tests;
