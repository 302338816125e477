//! The loops of a term, side by side until one of them ends.

use crate::shell::cache::Change;
use crate::shell::context::Context;
use crate::shell::{control, history};
use futures::future::BoxFuture;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Who learns of what.
pub(super) struct Ways<'a> {
    pub(super) changed: &'a mut mpsc::UnboundedReceiver<Change>,
    pub(super) woken: mpsc::UnboundedReceiver<String>,
    pub(super) others: [mpsc::UnboundedSender<Change>; 2],
}

/// The loops of the incidents and the detector, and beside them `peace`: what is no hurry.
pub(super) async fn loops(
    context: Arc<Context>,
    ways: Ways<'_>,
    peace: [BoxFuture<'static, ()>; 10],
) {
    let names = futures::stream::unfold(ways.woken, |mut woken| async {
        Some((woken.recv().await?, woken))
    });
    let incidents = control::run_incidents(Arc::clone(&context), Arc::default(), names);
    let detector = control::run_detector(Arc::clone(&context), ways.changed, ways.others);
    // On tasks of their own: a look at thousands of devices never delays an incident.
    let mut peace: JoinSet<()> = peace.into_iter().collect();
    peace.spawn(history::run(context));
    tokio::select! {
        biased;
        _ = futures::future::join(incidents, detector) => {}
        Some(ended) = peace.join_next() => {
            tracing::error!(?ended, "the probes, policy statuses, admission checks, rights checks or headroom have ended");
        }
    }
}
