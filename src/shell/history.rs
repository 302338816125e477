//! Clears away the records of ended incidents that a policy no longer wants to keep (`history`).
//!
//! What may go is decided in [`fencing_core::history`] over the caches: no request is sent before there is something to
//! delete, and each deletion holds only for the very record that was judged.

use super::act;
use super::context::Context;
use fencing_core::answer::Reply;
use fencing_core::history::surplus;
use fencing_drivers::clock;
use kube::ResourceExt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// Pause between two looks. Nobody waits for a record to vanish.
const LOOK_PERIOD: Duration = Duration::from_secs(30);
/// Records deleted in one look, one after the other; the rest waits for the next.
const DELETIONS_MAX: usize = 50;

/// Looks again and again. The caches must be filled. Only the replica that acts may run this.
pub async fn run(context: Arc<Context>) {
    loop {
        clear(&context).await;
        sleep(LOOK_PERIOD).await;
    }
}

async fn clear(context: &Context) {
    // Of a cluster that went back in time nothing is deleted before somebody has looked (S18).
    if context.revision.frozen().is_some() {
        return;
    }
    let (policies, fences) = (context.caches.policies(), context.caches.fences());
    let node = |name: &str| context.caches.node(name).map(|node| node.view.clone());
    for fence in surplus(&policies, &fences, &node, clock::wall())
        .into_iter()
        .take(DELETIONS_MAX)
    {
        let name = fence.name_any();
        match act::delete_record(context, fence).await {
            Reply::Done => tracing::info!(
                fence = name,
                node = fence.spec.node_name,
                "record deleted (the policy's `history` limit)"
            ),
            // Gone, or changed since it was judged: the cache will tell.
            Reply::Refused(404 | 409, _) => {}
            Reply::Refused(_, reason) | Reply::NotSent(reason) | Reply::Unknown(reason) => {
                tracing::warn!(
                    fence = name,
                    reason,
                    "cannot delete the record, trying again"
                );
                return;
            }
            Reply::Device(..) => {}
        }
    }
}

#[cfg(test)]
mod tests;
