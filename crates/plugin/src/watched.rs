//! What the API server tells by watches, with the user's rights: all objects of a kind, and whether that is up to date.
//!
//! A watch that fails begins anew by itself; until it does, what was seen last stays, and since when it is old is known. What this plugin cannot read,
//! for a newer operator has written it, is left out and named.

use super::cluster::{VIEWER, unreadable};
use fencing_cluster::client::AskError;
use fencing_drivers::clock;
use futures::{FutureExt, StreamExt};
use jiff::Timestamp;
use kube::core::DeserializeGuard;
use kube::runtime::reflector::{self, Store};
use kube::runtime::watcher::{Config, Error as WatchError, Event};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// Longest life of one watch, in seconds, so that a dead connection blinds us for no longer.
const WATCH_SECONDS_MAX: u32 = 45;

/// What could be read of a kind, or why it could not.
pub type Seen<T> = Result<Vec<T>, String>;

/// Something that does not work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// Since when what is shown is old; none: it is not, and lacks something.
    pub since: Option<Timestamp>,
    /// What, and what can be done about it.
    pub words: String,
}

/// Is it well? Shared with whoever finds out.
#[derive(Clone, Default)]
pub struct Health(Arc<Mutex<Option<Trouble>>>);

impl Health {
    /// What is not well.
    pub fn get(&self) -> Option<Trouble> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// All is well.
    pub fn well(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Takes note of what was found. What goes on goes on since its beginning.
    pub fn ill(&self, words: String, since: Timestamp) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let since = known.as_ref().and_then(|it| it.since).or(Some(since));
        *known = Some(Trouble { since, words });
    }
}

/// All objects of a kind.
pub struct Watched<K: Resource<DynamicType = ()> + Clone + 'static> {
    store: Store<DeserializeGuard<K>>,
    health: Health,
}

impl<K: Resource<DynamicType = ()> + Clone> Watched<K> {
    /// What was seen, or why nothing has been seen yet.
    pub fn seen<T>(&self, of: impl Fn(&K) -> T) -> Seen<T> {
        let is_filled = self.store.wait_until_ready();
        // Polled once: it never waits for what comes later.
        let is_filled = is_filled.now_or_never().is_some();
        match self.health.get() {
            Some(trouble) if !is_filled => Err(trouble.words),
            None if !is_filled => Err("waiting for the first answer of the API server".to_owned()),
            _ => {
                let all = self.store.state();
                let decoded = all.iter().filter_map(|it| it.0.as_ref().ok());
                Ok(decoded.map(of).collect())
            }
        }
    }

    /// What is not well: the watch, or what it brings.
    pub fn trouble(&self) -> Option<Trouble> {
        let left_out = || {
            let all = self.store.state();
            let unread = all.iter().filter_map(|it| {
                let invalid = it.0.as_ref().err()?;
                Some(unreadable::<K>(
                    invalid.metadata.name.as_deref(),
                    &invalid.error,
                ))
            });
            let unread: Vec<String> = unread.collect();
            let words = unread.join("; ");
            (!unread.is_empty()).then_some(Trouble { since: None, words })
        };
        self.health.get().or_else(left_out)
    }
}

/// Nobody shows who has written which field of a status; who has written the spec tells whose act that was ([`super::trail`]).
pub fn forget_fields<K: Resource>(object: &mut K) {
    if let Some(fields) = &mut object.meta_mut().managed_fields {
        fields.retain(|it| it.subresource.is_none());
    }
}

/// Watches all objects of a kind, cut down by `trim`, in `tasks`. Whatever comes is told to `changed`.
pub fn watch<K>(
    client: &Client,
    trim: fn(&mut K),
    changed: &Arc<Notify>,
    tasks: &mut JoinSet<()>,
) -> Watched<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let (store, writer) = reflector::store();
    let api: Api<DeserializeGuard<K>> = Api::all(client.clone());
    let objects = watcher(api, Config::default().timeout(WATCH_SECONDS_MAX))
        .modify(move |it: &mut DeserializeGuard<K>| {
            if let Ok(object) = &mut it.0 {
                trim(object);
            }
        })
        .default_backoff();
    let events = reflector::reflector(writer, objects);
    let (health, changed) = (Health::default(), Arc::clone(changed));
    let watched = Watched {
        store,
        health: health.clone(),
    };
    tasks.spawn(async move {
        let mut events = std::pin::pin!(events);
        while let Some(event) = events.next().await {
            match event {
                // It comes before any request.
                Ok(Event::Init) => continue,
                // The list gets into the store as a whole.
                Ok(Event::InitApply(_)) => {}
                Ok(_) => health.well(),
                Err(error) => health.ill(words::<K>(error), clock::wall()),
            }
            changed.notify_one();
        }
    });
    watched
}

/// Why a watch does not work, and what can be done about it.
fn words<K: Resource<DynamicType = ()>>(error: WatchError) -> String {
    let kind = K::plural(&());
    let error = match error {
        WatchError::InitialListFailed(error)
        | WatchError::WatchStartFailed(error)
        | WatchError::WatchFailed(error) => error,
        WatchError::WatchError(status) => kube::Error::Api(status),
        error => return format!("{kind} cannot be watched: {error}"),
    };
    let is_ours = K::group(&()) == "nodefencing.io";
    match AskError::from(error) {
        AskError::Refused {
            code: 403, message, ..
        } if is_ours => format!(
            "no right to read {kind}: {message}; ask an administrator for ClusterRole {VIEWER}"
        ),
        AskError::Refused {
            code: 403, message, ..
        } => format!(
            "no right to read {kind}: {message}; ask an administrator for get, list and watch on {kind}"
        ),
        AskError::Refused { code: 404, .. } if is_ours => format!(
            "the cluster has no {kind}; install the operator, or select another cluster with --context"
        ),
        error => format!("{kind} cannot be watched, retrying: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencing_api::policy::NodeFencingPolicy;
    use fencing_cluster::fake::{Fake, failure};
    use kube::ResourceExt;
    use serde_json::json;
    use std::time::Duration;
    use tokio::time::timeout;

    #[test]
    fn what_goes_on_goes_on_since_its_beginning() {
        let at = |text: &str| text.parse::<Timestamp>().expect("a time");
        let (first, second) = (at("2027-01-02T18:00:00Z"), at("2027-01-02T18:00:30Z"));
        let health = Health::default();
        let since = || health.get().map(|it| (it.words, it.since));
        health.ill("silent".to_owned(), first);
        health.ill("refused".to_owned(), second);
        assert_eq!(since(), Some(("refused".to_owned(), Some(first))));
        health.well();
        assert_eq!(since(), None);
        health.ill("silent".to_owned(), second);
        assert_eq!(since(), Some(("silent".to_owned(), Some(second))));
    }
    #[tokio::test]
    async fn what_a_newer_operator_has_written_is_named_and_the_rest_is_shown() {
        let server = Fake::start(|request| match request.line.contains("watch=true") {
            true => failure(403, "not now"),
            false => {
                let policy = |name: &str, mode: &str| json!({"metadata": {"name": name, "resourceVersion": "1"}, "spec": {"nodeSelector": {}, "fence": {"mode": mode}}});
                let items = [policy("old", "PowerOff"), policy("new", "Teleport")];
                (200, json!({"metadata": {"resourceVersion": "1"}, "items": items}))
            }
        })
        .await;
        let (changed, mut tasks) = (Arc::new(Notify::new()), JoinSet::new());
        let policies: Watched<NodeFencingPolicy> =
            watch(&server.clients.writes, forget_fields, &changed, &mut tasks);
        let until_filled = async {
            while policies.seen(ResourceExt::name_any).is_err() {
                changed.notified().await;
            }
        };
        let filled = timeout(Duration::from_secs(20), until_filled).await;
        assert!(filled.is_ok(), "{:?}", policies.trouble());
        policies.health.well();
        assert_eq!(
            policies.seen(ResourceExt::name_any),
            Ok(vec!["old".to_owned()])
        );
        let trouble = policies.trouble().expect("what is left out");
        assert_eq!(trouble.since, None);
        let words = "NodeFencingPolicy new is left out";
        assert!(trouble.words.contains(words), "{}", trouble.words);
    }
}
