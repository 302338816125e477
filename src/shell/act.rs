//! The guarded writes: one request each, never repeated, its outcome reported as it was.
//!
//! A write that may not be safe for ever says until when; that is looked at right before the request leaves. An outcome that
//! is not known stays unknown: whoever decides next reads again (S20, F19 to F21).

use super::context::{Context, REQUEST_TIMEOUT};
use super::slim::SlimNode;
use crate::api::fence::NodeFence;
use crate::clock;
use crate::core::incident::{Eviction, Reply};
use crate::core::observed::PodView;
use crate::core::taint::NodePatch;
use futures::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use serde_json::Value;
use std::time::Duration;
use tokio::time::timeout;

/// Field manager of our writes, as the audit log and managedFields show it.
pub const MANAGER: &str = "node-fencing-operator";

/// Sends a JSON Patch of a Node.
pub async fn patch_node(context: &Context, patch: NodePatch) -> Reply {
    if let Some(reply) = expired(patch.valid_until) {
        return reply;
    }
    let operations: json_patch::Patch = match serde_json::from_value(patch.operations) {
        Ok(operations) => operations,
        Err(error) => return Reply::Refused(0, format!("the patch could not be built: {error}")),
    };
    let api = Api::<SlimNode>::all(context.writes.clone());
    let params = PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let patch_body = Patch::Json::<()>(operations);
    reply(
        timeout(
            REQUEST_TIMEOUT,
            api.patch(&patch.node, &params, &patch_body),
        )
        .await,
    )
}

/// Writes the status of a NodeFence, by a merge patch that names the version it is for: what a superseded process has on its way
/// must not overwrite the record of its successor (S9). Returns the NodeFence as it is now.
pub async fn patch_status(
    context: &Context,
    fence: &str,
    changes: &Value,
) -> Result<NodeFence, Reply> {
    let api = Api::<NodeFence>::all(context.writes.clone());
    let params = PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let patch = Patch::Merge(changes);
    match timeout(REQUEST_TIMEOUT, api.patch_status(fence, &params, &patch)).await {
        Ok(Ok(fence)) => Ok(fence),
        outcome => Err(reply(outcome)),
    }
}

/// Deletes stuck pods, grace 0, each only if it still is the pod that was seen.
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
    if let Some(reply) = expired(Some(valid_until)) {
        return reply;
    }
    let api = Api::<Pod>::namespaced(context.writes.clone(), &pod.namespace);
    let params = DeleteParams {
        grace_period_seconds: Some(0),
        preconditions: Some(Preconditions {
            uid: Some(pod.uid.clone()),
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    match timeout(REQUEST_TIMEOUT, api.delete(&pod.name, &params)).await {
        // Gone. A conflict is not that: whether another pod has its name by now, the next list tells.
        Ok(Err(kube::Error::Api(status))) if status.code == 404 => Reply::Done,
        outcome => reply(outcome),
    }
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
    reply(timeout(REQUEST_TIMEOUT, api.delete(name, &params)).await)
}

/// A destructive write whose proof has died is not sent.
fn expired(valid_until: Option<Duration>) -> Option<Reply> {
    let late = valid_until.is_some_and(|until| clock::since_boot() > until);
    late.then(|| {
        Reply::Refused(
            0,
            "the proof had died before the request could leave".to_owned(),
        )
    })
}

/// What became of a request. A 4xx is a refusal: nothing was written. Everything else may have been.
fn reply<T>(outcome: Result<Result<T, kube::Error>, tokio::time::error::Elapsed>) -> Reply {
    match outcome {
        Ok(Ok(_)) => Reply::Done,
        Ok(Err(kube::Error::Api(status))) if (400..500).contains(&status.code) => {
            Reply::Refused(status.code, status.message.clone())
        }
        Ok(Err(error)) => Reply::Unknown(error.to_string()),
        Err(_) => Reply::Unknown(format!(
            "the API server did not answer within {} s",
            REQUEST_TIMEOUT.as_secs()
        )),
    }
}

#[cfg(test)]
mod tests;
