//! The API server for unit tests, and what the loops share before it.

use super::brakes::Brakes;
use super::cache::Caches;
use super::callers::Callers;
use super::context::{Board, Context, Delays, StrandedNodes};
use super::devices::Devices;
use super::events::Events;
use super::found_off::FoundOff;
use super::health::Health;
use super::knock::Knocked;
use super::lease::TermEnd;
use super::metrics::Metrics;
use super::observe::AttachmentLists;
use super::optional_rights::OptionalRights;
use super::outside::Outside;
use super::revision::Revision;
use super::wakes::Wakes;
use fencing_cluster::client::Clients;
pub use fencing_cluster::fake::{Fake, Seen, failure, list, node, out_of_service, tainted};
use fencing_drivers::address::{AddressRules, Lookup};
use fencing_drivers::clock::Clock;
use futures::FutureExt;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// A [`Fake`] that knows a few objects by the request that asks for them, and everything that the control loops share, over it.
/// It serves a BMC's requests as well as an API server's, so that the order of both can be seen.
pub struct Cluster {
    /// The server.
    pub server: Fake,
    answers: Arc<Mutex<BTreeMap<String, (u16, Value)>>>,
    delays: Arc<Mutex<BTreeMap<String, Duration>>>,
    /// Who says where the names of devices lead; unless it is set, the system.
    pub lookup: OnceLock<Lookup>,
    /// What becomes of each knock at a kubelet; unless it is set, the network tells.
    pub knock: OnceLock<Knocked>,
}

impl Cluster {
    /// One that knows nothing: every answer is 404.
    pub async fn new() -> Self {
        let answers = Arc::new(Mutex::new(BTreeMap::new()));
        let delays = Arc::new(Mutex::new(BTreeMap::new()));
        let (known, slow) = (Arc::clone(&answers), Arc::clone(&delays));
        let server = Fake::start(move |request| {
            let line = request.line.split('?').next().unwrap_or_default();
            let delay = slow.lock().expect("lock").get(line).copied();
            std::thread::sleep(delay.unwrap_or_default());
            let known = known.lock().expect("lock");
            let missing = || failure(404, "not found");
            known.get(line).cloned().unwrap_or_else(missing)
        })
        .await;
        Self {
            server,
            answers,
            delays,
            lookup: OnceLock::new(),
            knock: OnceLock::new(),
        }
    }

    /// The answer to a request, `GET /api/v1/...` without its query.
    pub fn put(&self, request: &str, status: u16, body: Value) {
        let mut answers = self.answers.lock().expect("lock");
        answers.insert(request.to_owned(), (status, body));
    }

    /// The answer to a request takes this long.
    pub fn delay(&self, request: &str, time: Duration) {
        let mut delays = self.delays.lock().expect("lock");
        delays.insert(request.to_owned(), time);
    }

    /// The requests so far, but for those of the watches.
    pub fn requests(&self) -> Vec<String> {
        let lines = self.server.seen().into_iter().map(|request| request.line);
        lines.filter(|line| !line.contains("limit=")).collect()
    }

    /// What the loops share; its caches stay empty.
    pub fn context(&self) -> Arc<Context> {
        self.watching().0
    }

    /// The same, with caches that fill as long as the tasks live.
    pub fn watching(&self) -> (Arc<Context>, JoinSet<()>) {
        let Clients { reads, writes, .. } = self.server.clients.clone();
        let metrics = Arc::new(Metrics::new().expect("metrics"));
        let (changes, _) = mpsc::unbounded_channel();
        let mut watches = JoinSet::new();
        let local = vec!["127.0.0.0/8".parse().expect("a range")];
        let lookup = self.lookup.get().cloned().unwrap_or_default();
        let rules = AddressRules::new(local, Vec::new()).with_lookup(lookup);
        let revision = Revision::default();
        let mut outside = Outside::network(&rules);
        if let Some(knocked) = self.knock.get().copied() {
            outside.kubelet = Arc::new(move |_| async move { knocked }.boxed());
        }
        let context = Context {
            caches: Caches::start(&writes, &revision, &changes, &mut watches),
            devices: Arc::new(Devices::new(
                reads.clone(),
                "ns".to_owned(),
                rules.clone(),
                Clock::SYSTEM,
            )),
            outside,
            events: Events::new(reads.clone(), None, Arc::clone(&metrics)).0,
            metrics,
            board: Board::default(),
            own_node: None,
            max_concurrent: None,
            wakes: Wakes::new().0,
            attachments: AttachmentLists::default(),
            brakes: Brakes::default(),
            delays: Delays::default(),
            stranded: StrandedNodes::default(),
            found_off: FoundOff::telling(changes),
            callers: Callers::default(),
            term_end: TermEnd::never(),
            deletion: OptionalRights::of_deletion(),
            early_detection: OptionalRights::of_early_detection(),
            revision,
            health: Health::default(),
            reads,
            writes,
        };
        (Arc::new(context), watches)
    }
}
