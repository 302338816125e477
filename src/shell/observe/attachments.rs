//! The VolumeAttachments of a node, by quorum LIST. The API server selects none by node, so that incidents which ask at the same time share one list.
//!
//! A list is as good for whoever asks as one of its own if it was begun after the question: an incident that comes while one is under way waits for
//! the next, which it shares with all that came meanwhile. So at most two lists are waited for, however many incidents there are.

use super::is_complete;
use crate::shell::revision::Revision;
use fencing_cluster::client::ask;
use fencing_cluster::slim::{SlimAttachment, attachments_of};
use fencing_core::observed::{AttachmentView, Read};
use fencing_drivers::clock;
use futures::AsyncReadExt;
use kube::api::ListParams;
use kube::core::Request;
use kube::{Client, Resource};
use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::sleep;

type Answer = Read<Vec<AttachmentView>>;

/// A list that took longer than [`QUICK`] is followed by a rest as long as it took, and no longer than this: in a storm of a large cluster each keeps
/// the API server busy for half a second, and those who ask meanwhile share the next.
const REST_MAX: Duration = Duration::from_millis(500);
/// A list of a small cluster takes less.
const QUICK: Duration = Duration::from_millis(200);

/// Who waits for the next list, and whether one is under way.
#[derive(Clone, Default)]
pub struct AttachmentLists(Arc<Mutex<Waiting>>);

#[derive(Default)]
struct Waiting {
    under_way: bool,
    askers: Vec<(String, oneshot::Sender<Answer>)>,
}

impl AttachmentLists {
    /// Those of this node, by a list that begins after now.
    pub(super) async fn of(&self, reads: &Client, revision: &Revision, node: &str) -> Answer {
        let (sender, answer) = oneshot::channel();
        let is_first = {
            let mut waiting = self.waiting();
            waiting.askers.push((node.to_owned(), sender));
            !std::mem::replace(&mut waiting.under_way, true)
        };
        if is_first {
            // On a task of its own: whoever asked first may go away, and the others still wait.
            let (lists, reads, revision) = (self.clone(), reads.clone(), revision.clone());
            tokio::spawn(async move { lists.answer_all(&reads, &revision).await });
        }
        let lost = |_| Read::Failed("the list was given up".to_owned());
        answer.await.unwrap_or_else(lost)
    }

    /// One list after the other, until no one waits for any.
    async fn answer_all(&self, reads: &Client, revision: &Revision) {
        let broken = Broken(self);
        while let Some(askers) = self.next() {
            let nodes = askers.iter().map(|(node, _)| node.clone()).collect();
            let begun = clock::since_boot();
            let list = list(reads, revision, &nodes).await;
            let took = clock::since_boot().saturating_sub(begun);
            for (node, sender) in askers {
                // An asker that has gone away needs no answer.
                let _ = sender.send(part(&list, &node));
            }
            if took > QUICK {
                sleep(took.min(REST_MAX)).await;
            }
        }
        std::mem::forget(broken);
    }

    /// Whose answer the list that begins now is.
    fn next(&self) -> Option<Vec<(String, oneshot::Sender<Answer>)>> {
        let mut waiting = self.waiting();
        let askers = std::mem::take(&mut waiting.askers);
        waiting.under_way = !askers.is_empty();
        waiting.under_way.then_some(askers)
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Dropped while a list is under way, by a panic: whoever waits hears of it, and the next round lists again.
struct Broken<'a>(&'a AttachmentLists);

impl Drop for Broken<'_> {
    fn drop(&mut self) {
        *self.0.waiting() = Waiting::default();
    }
}

/// What the list says of this node.
fn part(list: &Result<Vec<SlimAttachment>, String>, node: &str) -> Answer {
    match list {
        Ok(all) => {
            let of_node = all.iter().filter(|it| it.spec.node_name == node);
            Read::Present(of_node.map(SlimAttachment::view).collect())
        }
        Err(reason) => Read::Failed(reason.clone()),
    }
}

async fn list(
    reads: &Client,
    revision: &Revision,
    nodes: &BTreeSet<String>,
) -> Result<Vec<SlimAttachment>, String> {
    let newest = revision.newest();
    let path = SlimAttachment::url_path(&(), None);
    let request = Request::new(path).list(&ListParams::default());
    let request = request.map_err(|error| error.to_string())?;
    let text = ask(read(reads, request)).await;
    let text = text.map_err(|error| error.to_string())?;
    let list = attachments_of(&text, nodes);
    let list = list.map_err(|_| "its answer cannot be decoded".to_owned())?;
    let (version, token) = (
        list.head.resource_version.as_deref(),
        list.head.continue_.as_deref(),
    );
    is_complete(version, token)?;
    revision.note(newest, version);
    Ok(list.items)
}

/// The answer as it comes, in one piece of memory: it is the longest of all, and [`Client::request_text`] copies it twice.
async fn read(reads: &Client, request: http::Request<Vec<u8>>) -> Result<String, kube::Error> {
    let mut body = pin!(reads.request_stream(request).await?);
    let mut text = Vec::new();
    let end = body.read_to_end(&mut text).await;
    end.map_err(|error| error.downcast().unwrap_or_else(kube::Error::ReadEvents))?;
    String::from_utf8(text).map_err(kube::Error::FromUtf8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_waits_for_a_list_that_breaks_off_hears_of_it() {
        let lists = AttachmentLists::default();
        let (sender, answer) = oneshot::channel();
        lists.waiting().under_way = true;
        lists.waiting().askers.push(("worker-1".to_owned(), sender));
        drop(Broken(&lists));
        assert!(answer.await.is_err());
        assert!(!lists.waiting().under_way, "the next round lists again");
    }
}
