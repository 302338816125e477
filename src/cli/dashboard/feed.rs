//! What the API server tells: four watches with the user's rights, and whether they and the way to it are well.
//!
//! A watch that fails begins anew by itself; until it does, what was seen last stays, and since when it is old is said. A quiet cluster and a dead
//! connection look the same to a watch, so the API server is asked for its version every few seconds beside them.

use super::fleet::{Seen, World};
use crate::api::device::FenceDevice;
use crate::api::fence::NodeFence;
use crate::api::policy::NodeFencingPolicy;
use crate::cli::cluster::{Cluster, VIEWER};
use crate::clock;
use crate::shell::client::{AskError, ask};
use crate::shell::slim::SlimNode;
use futures::StreamExt;
use jiff::Timestamp;
use kube::core::DeserializeGuard;
use kube::runtime::reflector::{self, Store};
use kube::runtime::watcher::{Config, Error as WatchError, Event};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Longest life of one watch, in seconds, so that a dead connection blinds us for no longer.
const WATCH_SECONDS_MAX: u32 = 45;
/// Between two questions for the API server's version.
const BEAT: Duration = Duration::from_secs(3);

/// Something that does not work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Trouble {
    /// Since when.
    pub since: Timestamp,
    /// What, and what can be done about it.
    pub words: String,
}

/// Is it well? Shared with whoever finds out.
#[derive(Clone, Default)]
struct Health(Arc<Mutex<Option<Trouble>>>);

impl Health {
    fn get(&self) -> Option<Trouble> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn well(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Takes note of what was found. What goes on goes on since its beginning.
    fn ill(&self, words: String, since: Timestamp) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let since = known.as_ref().map_or(since, |it| it.since);
        *known = Some(Trouble { since, words });
    }
}

/// All objects of a kind.
struct Watched<K: Resource<DynamicType = ()> + Clone + 'static> {
    store: Store<DeserializeGuard<K>>,
    health: Health,
}

impl<K: Resource<DynamicType = ()> + Clone> Watched<K> {
    /// What was seen, or why nothing has been seen yet.
    fn seen<T>(&self, of: impl Fn(&K) -> T) -> Seen<T> {
        let is_filled = self.store.wait_until_ready();
        // Polled once: it never waits for what comes later.
        let is_filled = futures::FutureExt::now_or_never(is_filled).is_some();
        match self.health.get() {
            Some(trouble) if !is_filled => Err(trouble.words),
            None if !is_filled => Err("the first answer of the API server is awaited".to_owned()),
            _ => {
                let all = self.store.state();
                let decoded = all.iter().filter_map(|it| it.0.as_ref().ok());
                Ok(decoded.map(of).collect())
            }
        }
    }
}

/// The four watches and the way to the API server.
pub(super) struct Feed {
    nodes: Watched<SlimNode>,
    policies: Watched<NodeFencingPolicy>,
    devices: Watched<FenceDevice>,
    fences: Watched<NodeFence>,
    connection: Health,
}

impl Feed {
    /// Starts them in `tasks`. Whatever they find is told to `changed`.
    pub fn start(cluster: &Cluster, changed: &Arc<Notify>, tasks: &mut JoinSet<()>) -> Self {
        let client = &cluster.clients.writes;
        let connection = Health::default();
        tasks.spawn(ask_again(
            client.clone(),
            connection.clone(),
            Arc::clone(changed),
        ));
        Self {
            nodes: watch(client, SlimNode::trim, changed, tasks),
            policies: watch(client, forget_fields, changed, tasks),
            devices: watch(client, forget_fields, changed, tasks),
            fences: watch(client, forget_fields, changed, tasks),
            connection,
        }
    }

    /// Everything that is known now.
    pub fn world(&self) -> World {
        World {
            nodes: self.nodes.seen(SlimNode::view),
            policies: self.policies.seen(Clone::clone),
            devices: self.devices.seen(Clone::clone),
            fences: self.fences.seen(Clone::clone),
        }
    }

    /// What is not well of each kind, and of the way to the API server.
    pub fn troubles(&self) -> [(&'static str, Option<Trouble>); 5] {
        [
            ("connection", self.connection.get()),
            ("nodes", self.nodes.health.get()),
            ("policies", self.policies.health.get()),
            ("devices", self.devices.health.get()),
            ("fences", self.fences.health.get()),
        ]
    }
}

fn forget_fields<K: Resource>(object: &mut K) {
    object.meta_mut().managed_fields = None;
}

fn watch<K>(
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
            "you may not read {kind}: {message}; ClusterRole {VIEWER} has the right, whoever runs the cluster can bind it to you"
        ),
        AskError::Refused {
            code: 403, message, ..
        } => format!(
            "you may not read {kind}: {message}; a ClusterRole with get, list and watch on {kind} has the right, whoever runs the cluster can bind one to you"
        ),
        AskError::Refused { code: 404, .. } if is_ours => format!(
            "the cluster does not know {kind}: the operator is not installed there, or --context names another cluster than you mean"
        ),
        error => format!("{kind} cannot be watched, which is tried again: {error}"),
    }
}

/// Asks for the version again and again.
async fn ask_again(client: Client, health: Health, changed: Arc<Notify>) {
    let mut heard = clock::wall();
    loop {
        let was_well = health.get().is_none();
        match ask(client.apiserver_version()).await {
            // Whoever may not ask has an answer all the same.
            Ok(_) | Err(AskError::Refused { .. }) => {
                heard = clock::wall();
                health.well();
            }
            Err(error) => health.ill(error.to_string(), heard),
        }
        if was_well != health.get().is_none() {
            changed.notify_one();
        }
        sleep(BEAT).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_on_goes_on_since_its_beginning() {
        let at = |text: &str| text.parse::<Timestamp>().expect("a time");
        let (first, second) = (at("2027-01-02T18:00:00Z"), at("2027-01-02T18:00:30Z"));
        let health = Health::default();
        let since = || health.get().map(|it| (it.words, it.since));
        health.ill("silent".to_owned(), first);
        health.ill("refused".to_owned(), second);
        assert_eq!(since(), Some(("refused".to_owned(), first)));
        health.well();
        assert_eq!(since(), None);
        health.ill("silent".to_owned(), second);
        assert_eq!(since(), Some(("silent".to_owned(), second)));
    }
}
