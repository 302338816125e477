//! What a replica does while it leads, and what it keeps while it stands by.
//!
//! Standing by it watches, so that its caches are warm, and does nothing else. A term begins from nothing but those: what a loop remembers
//! ends with it, as if the process had ended, and the next leader takes up what stands in the API server.

use super::brakes::Brakes;
use super::cache::{Caches, Change};
use super::client::Clients;
use super::context::{Board, Context, Delays};
use super::control;
use super::devices::Devices;
use super::events::Events;
use super::health::{Gate, Health};
use super::history;
use super::lease::Elector;
use super::metrics::{Metrics, Snapshot};
use super::policy_status::PolicyStatuses;
use super::probe::Prober;
use super::revision::Revision;
use super::stop::Stop;
use crate::args::Settings;
use crate::clock::Clock;
use futures::FutureExt;
use futures::future::BoxFuture;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// A replica that stands by is alive if it comes round this often.
const BEAT_PERIOD: Duration = Duration::from_secs(10);

/// What outlives a term.
pub struct Replica {
    clients: Clients,
    caches: Caches,
    devices: Arc<Devices>,
    revision: Revision,
    events: Events,
    metrics: Arc<Metrics>,
    health: Health,
    own_node: Option<String>,
    /// To say again what is in the caches.
    changes: mpsc::UnboundedSender<Change>,
    _watches: JoinSet<()>,
}

impl Replica {
    /// Starts the caches. The other end tells of what changes in them.
    pub fn start(
        settings: &Settings,
        clients: Clients,
        events: Events,
        metrics: Arc<Metrics>,
        health: Health,
    ) -> (Self, mpsc::UnboundedReceiver<Change>) {
        let (changes, changed) = mpsc::unbounded_channel();
        let mut watches = JoinSet::new();
        let devices = Devices::new(
            clients.reads.clone(),
            settings.namespace.clone(),
            settings.addresses.clone(),
            Clock::SYSTEM,
        );
        let replica = Self {
            caches: Caches::start(&clients.reads, &changes, &mut watches),
            // The book of refused logins is among them: no new term has new tries.
            devices: Arc::new(devices),
            revision: Revision::default(),
            own_node: settings.node_name.clone(),
            clients,
            events,
            metrics,
            health,
            changes,
            _watches: watches,
        };
        (replica, changed)
    }

    /// Stands by, leads, stands by again, until `stop`; then the Lease is given back.
    ///
    /// Ends before only if the loops do, which they never should.
    pub async fn run(
        self,
        mut changed: mpsc::UnboundedReceiver<Change>,
        mut elector: Elector,
        stop: Stop,
    ) {
        // Asked by one task only: of several that wait for one kube store, only the last is woken.
        let Some(Ok(())) = stop.or(self.caches.ready()).await else {
            return;
        };
        self.health.open(Gate::Caches);
        loop {
            self.shows(false, Snapshot::default);
            let elected = async {
                tokio::select! {
                    () = elector.elected() => {}
                    () = self.stand_by(&mut changed) => {}
                }
            };
            if stop.or(elected).await.is_none() {
                return;
            }
            self.caches.tell_all(&self.changes);
            let term = async {
                tokio::select! {
                    // First: who leads no more does nothing more.
                    biased;
                    () = elector.lost() => true,
                    () = self.lead(&mut changed, &stop) => false,
                }
            };
            match stop.or(term).await {
                Some(true) => {}
                Some(false) => return,
                // Cut off in the middle of whatever they do: every step is safe to lose its process at.
                None => return elector.release().await,
            }
        }
    }

    /// Changes are of no use before a term, which begins with all there is.
    async fn stand_by(&self, changed: &mut mpsc::UnboundedReceiver<Change>) {
        loop {
            self.health.beat();
            tokio::select! {
                change = changed.recv() => if change.is_none() { return },
                () = sleep(BEAT_PERIOD) => {}
            }
        }
    }

    /// Runs the control loops. They end only by a mistake.
    async fn lead(&self, changed: &mut mpsc::UnboundedReceiver<Change>, stop: &Stop) {
        let Clients { reads, writes } = self.clients.clone();
        let (wake, woken) = mpsc::unbounded_channel();
        let (caches, devices) = (self.caches.clone(), Arc::clone(&self.devices));
        let (events, metrics) = (self.events.clone(), Arc::clone(&self.metrics));
        let prober = Arc::new(Prober::new(
            caches.clone(),
            Arc::clone(&devices),
            writes.clone(),
            Clock::SYSTEM,
            events.clone(),
            Arc::clone(&metrics),
        ));
        let delays = Delays::default();
        let policies = Arc::new(PolicyStatuses::new(
            caches.clone(),
            Arc::clone(&prober),
            writes.clone(),
            Clock::SYSTEM,
            events.clone(),
            delays.clone(),
        ));
        let (to_prober, of_devices) = mpsc::unbounded_channel();
        let (to_policies, of_policies) = mpsc::unbounded_channel();
        let context = Arc::new(Context {
            reads,
            writes,
            caches,
            devices,
            events,
            metrics,
            board: Board::default(),
            delays,
            own_node: self.own_node.clone(),
            wake,
            brakes: Brakes::default(),
            revision: self.revision.clone(),
            health: self.health.clone(),
        });
        let (board, looks, states) = (
            context.board.clone(),
            Arc::clone(&prober),
            Arc::clone(&policies),
        );
        // They show what the caches and the incidents are at the moment of a scrape.
        self.shows(true, move || {
            let (policies, protected) = states.snapshot();
            Snapshot {
                incidents: board.rows(),
                devices: looks.snapshot(),
                policies,
                protected,
                ..Snapshot::default()
            }
        });
        let peace = [
            prober.run(of_devices, stop.clone()).boxed(),
            policies.run(of_policies, stop.clone()).boxed(),
        ];
        let ways = Ways {
            changed,
            woken,
            others: [to_prober, to_policies],
        };
        loops(context, ways, peace).await;
    }

    /// What the gauges show from now on.
    fn shows(&self, leads: bool, gauges: impl Fn() -> Snapshot + Send + Sync + 'static) {
        let caches = self.caches.clone();
        self.metrics.gauges_from(move || Snapshot {
            leads,
            watches: caches.ages(),
            ..gauges()
        });
    }
}

/// Who is told of what.
struct Ways<'a> {
    changed: &'a mut mpsc::UnboundedReceiver<Change>,
    woken: mpsc::UnboundedReceiver<String>,
    others: [mpsc::UnboundedSender<Change>; 2],
}

/// The loops of the incidents and the detector, and beside them `peace`: what is no hurry.
async fn loops(context: Arc<Context>, ways: Ways<'_>, peace: [BoxFuture<'static, ()>; 2]) {
    let names = futures::stream::unfold(ways.woken, |mut woken| async {
        Some((woken.recv().await?, woken))
    });
    let incidents = control::run_incidents(Arc::clone(&context), Arc::default(), names);
    let detector = control::run_detector(Arc::clone(&context), ways.changed, ways.others);
    // On tasks of their own: a look at thousands of devices never delays an incident.
    let mut peace: JoinSet<()> = peace.into_iter().collect();
    peace.spawn(history::run(context));
    tokio::select! {
        _ = futures::future::join(incidents, detector) => {}
        Some(ended) = peace.join_next() => {
            tracing::error!(?ended, "the probes, or the statuses of the policies, have ended");
        }
    }
}
