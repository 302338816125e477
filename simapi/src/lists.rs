//! Reads: one object, lists in pages, and watches.

use crate::answer::{Answer, Refusal};
use crate::api::{Api, Inner, key};
use crate::kinds::{Kind, Place};
use crate::request::Request;
use crate::select::Selector;
use crate::store::{Stored, line};
use bytes::Bytes;
use futures::channel::mpsc;
use futures::{StreamExt, stream};
use serde_json::json;
use std::time::Duration;
use tokio::time::sleep;

/// Before a watch ends, it says how far it came.
const BOOKMARK_AHEAD: Duration = Duration::from_secs(2);
/// A watch that asks for no end.
const WATCH_SECONDS: u64 = 1800;

impl Inner {
    pub(crate) fn read(&self, place: &Place, name: &str) -> Result<Answer, Refusal> {
        let namespace = place.namespace.as_deref().unwrap_or_default();
        let found = self.store.get(place.kind, &key(namespace, name));
        let found = found.ok_or_else(|| Refusal::not_found(place.kind, name))?;
        Ok(Answer::Whole(200, found.json.clone()))
    }

    pub(crate) fn list(&mut self, request: &Request, place: &Place) -> Result<Answer, Refusal> {
        let version = self.store.version();
        let (version, mut items) = match request.parameter("continue") {
            None => (version, self.matching(request, place)?),
            Some(token) => {
                let (version, _) = token.split_once('-').unwrap_or_default();
                let rest = self.lists.remove(token).ok_or_else(expired)?;
                (version.parse().unwrap_or_default(), rest)
            }
        };
        let limit = request
            .parameter("limit")
            .and_then(|limit| limit.parse().ok());
        // Whoever names no limit gets everything, and so does whoever takes what the cache has, however old.
        let page = match limit {
            Some(limit) if !request.takes_any_version() => self.page_max.min(limit),
            _ => usize::MAX,
        };
        let mut token = String::new();
        let mut left = 0;
        if items.len() > page {
            let rest = items.split_off(page);
            left = rest.len();
            token = format!("{version}-{}", self.store.uid());
            self.lists.insert(token.clone(), rest);
        }
        Ok(Answer::Whole(
            200,
            list(place.kind, version, &items, (&token, left)),
        ))
    }

    fn matching(&self, request: &Request, place: &Place) -> Result<Vec<Stored>, Refusal> {
        let selector = selector(request, place.kind)?;
        let all = self.store.all(place.kind);
        let wanted = all.filter(|((namespace, _), stored)| {
            place.namespace.as_ref().is_none_or(|it| it == namespace)
                && selector.matches(&stored.value)
        });
        Ok(wanted.map(|(_, stored)| stored.clone()).collect())
    }
}

impl Api {
    pub(crate) fn watch(&self, request: &Request, place: &Place) -> Result<Answer, Refusal> {
        let selector = selector(request, place.kind)?;
        let (sender, lines) = mpsc::unbounded();
        let from = request
            .parameter("resourceVersion")
            .filter(|_| !request.takes_any_version())
            .and_then(|it| it.parse().ok());
        // Without a version a watch begins with what is there.
        if from.is_none() {
            for stored in self.inner().matching(request, place)? {
                let _ = sender.unbounded_send(line("ADDED", &stored.json));
            }
        }
        let from = from.unwrap_or_else(|| self.version());
        let begun = {
            let what = (place.kind, place.namespace.clone());
            self.inner().store.watch(what, selector, from, sender)
        };
        if let Err(oldest) = begun {
            let gone = Refusal::new(
                410,
                "Expired",
                format!("too old resource version: {from} ({oldest})"),
            );
            let line = line("ERROR", gone.status().to_string().as_bytes());
            return Ok(Answer::Watch(stream::iter([line]).boxed()));
        }
        let seconds = request
            .parameter("timeoutSeconds")
            .and_then(|it| it.parse().ok());
        let life = Duration::from_secs(seconds.unwrap_or(WATCH_SECONDS));
        let (api, kind) = (self.clone(), place.kind);
        let bookmark = stream::once(async move {
            sleep(life.saturating_sub(BOOKMARK_AHEAD)).await;
            bookmark(kind, api.version())
        });
        let wants_bookmarks = request.parameter("allowWatchBookmarks") == Some("true");
        let bookmarks = bookmark.filter(move |_| std::future::ready(wants_bookmarks));
        // Ends with its time, or when the server ends it.
        let (lines, ended) = with_end(lines);
        let lines = stream::select(lines, bookmarks.take_until(ended)).take_until(sleep(life));
        Ok(Answer::Watch(lines.boxed()))
    }
}

/// The lines, and a future that is done when there will be no more.
fn with_end(
    lines: mpsc::UnboundedReceiver<Bytes>,
) -> (
    impl futures::Stream<Item = Bytes> + Send,
    impl Future<Output = ()> + Send,
) {
    let (end, ended) = futures::channel::oneshot::channel::<()>();
    let mut end = Some(end);
    let finish = stream::once(async move {
        end.take();
    })
    .filter_map(|()| std::future::ready(None));
    let ended = async move {
        let _ = ended.await;
    };
    (lines.chain(finish), ended)
}

fn selector(request: &Request, kind: &Kind) -> Result<Selector, Refusal> {
    let text = |name| request.parameter(name).unwrap_or_default();
    let selector = Selector::parse(kind, text("fieldSelector"), text("labelSelector"));
    selector.map_err(|words| Refusal::new(400, "BadRequest", words))
}

fn expired() -> Refusal {
    Refusal::new(
        410,
        "Expired",
        "The provided continue parameter is too old to display a consistent list result.",
    )
}

fn list(kind: &Kind, version: u64, items: &[Stored], (token, left): (&str, usize)) -> Bytes {
    let mut meta = json!({"resourceVersion": version.to_string()});
    if !token.is_empty() {
        meta["continue"] = json!(token);
        meta["remainingItemCount"] = json!(left);
    }
    let (kind, version) = (kind.kind, kind.api_version());
    let mut text =
        format!(r#"{{"kind":"{kind}List","apiVersion":"{version}","metadata":{meta},"items":["#)
            .into_bytes();
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            text.push(b',');
        }
        text.extend_from_slice(&item.json);
    }
    text.extend_from_slice(b"]}");
    text.into()
}

fn bookmark(kind: &Kind, version: u64) -> Bytes {
    let object = json!({
        "kind": kind.kind, "apiVersion": kind.api_version(),
        "metadata": {"resourceVersion": version.to_string(), "creationTimestamp": null}, "spec": {}, "status": {},
    });
    line("BOOKMARK", object.to_string().as_bytes())
}
