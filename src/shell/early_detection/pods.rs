//! Turns Ready of the pods that stay on a node that was reported early, so that Services drop them.
//!
//! Kubernetes marks the pods of a node only when it gives the node up itself ([`mark::pod_not_ready`]). Those that the claim evicts leave their
//! Services by themselves; what is turned here are the others, and only once the machine is proven to be off.

use crate::shell::{act, context::Context, observe};
use fencing_core::answer::Reply;
use fencing_core::early::mark;
use fencing_core::observed::Read;
use fencing_drivers::clock;
use futures::future::join_all;
use k8s_openapi::api::core::v1::{Pod, PodCondition};
use kube::ResourceExt;
use serde_json::Value;
use std::time::Duration;

/// Requests at the same time.
const AT_ONCE: usize = 8;

/// What was listed is good for so long.
const LIFE: Duration = Duration::from_secs(10);

/// Turns them. False: some are left, and it is to be tried again.
pub async fn turn_not_ready(context: &Context, node: &str) -> bool {
    let valid_until = clock::since_boot() + LIFE;
    let pods = match observe::pods_in_full(context, node).await {
        Read::Present(pods) => pods,
        unread => {
            tracing::warn!(
                node,
                why = unread.why(),
                "the pods that stay on a reported node could not be listed"
            );
            return false;
        }
    };
    let date = clock::date();
    let patches = pods.iter().filter_map(|pod| {
        let patch = patch(pod, node, &date)?;
        Some((pod.namespace()?, pod.name_any(), patch))
    });
    let patches: Vec<_> = patches.collect();
    let mut are_done = true;
    for some in patches.chunks(AT_ONCE) {
        let sent = some.iter().map(|(namespace, name, patch)| {
            act::patch_pod_status(context, namespace, name, (patch.clone(), valid_until))
        });
        for ((namespace, pod, _), reply) in some.iter().zip(join_all(sent).await) {
            // 404 and 422: another pod has its name, or somebody else has turned it.
            let is_final = matches!(reply, Reply::Done | Reply::Refused(403 | 404 | 422, _));
            if !matches!(reply, Reply::Done | Reply::Refused(404 | 422, _)) {
                tracing::warn!(
                    node,
                    namespace,
                    pod,
                    ?reply,
                    "Ready was not turned to False"
                );
            }
            are_done &= is_final;
        }
    }
    are_done
}

/// None: it leaves, or is not Ready.
fn patch(pod: &Pod, node: &str, date: &str) -> Option<Value> {
    if pod.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let is_ready = |it: &PodCondition| it.type_ == "Ready" && it.status == "True";
    let place = conditions.iter().position(is_ready)?;
    Some(mark::pod_not_ready(&pod.uid()?, place, node, date))
}
