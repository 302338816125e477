//! What a replica does while it leads, and what it keeps while it stands by.
//!
//! Standing by it watches, so that its caches are warm, and tries whether it could reach the devices. What a loop remembers ends with the term,
//! as if the process had ended, and the next leader takes up what stands in the API server. What stays never makes anybody bolder: the caches, the
//! newest version of the cluster that was seen (S18), and how many logins were refused (F53).

mod loops;
mod shown;

use super::alive::Candidate;
use super::brakes::Brakes;
use super::cache::{Caches, Change};
use super::callers::{self, Callers};
use super::context::{Board, Context, Delays, StrandedNodes};
use super::devices::Devices;
use super::early_detection;
use super::events::Events;
use super::found_off::FoundOff;
use super::guard::{self, Guard};
use super::headroom::Headroom;
use super::health::Gate;
use super::lease::{Elector, TermEnd};
use super::observe::AttachmentLists;
use super::optional_rights::OptionalRights;
use super::others;
use super::policy_status::PolicyStatuses;
use super::probe::Prober;
use super::revision::Revision;
use super::run::Equipment;
use super::standby::Standby;
use super::unfence;
use super::wakes::Wakes;
use crate::args::Settings;
use fencing_api::fence::NodeFence;
use fencing_cluster::client::Clients;
use fencing_cluster::stop::Stop;
use fencing_core::assess::others::Served;
use fencing_core::observed::Ready;
use fencing_drivers::clock::{self, Clock};
use futures::FutureExt;
use futures::future::pending;
use loops::{Ways, loops};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Pause between two looks at one's own node, and for a fence of it.
const OWN_NODE_PERIOD: Duration = Duration::from_secs(1);
/// Its own node is silent, as a cause to make room.
const UNREACHABLE: &str = "unreachable";
/// It makes room for that no sooner again than after this time: each term begins the waits of all policies anew, and Nodes flap by the minute.
const SILENCE_AGAIN: Duration = Duration::from_secs(600);
/// A replica that stands by is alive if it comes round this often.
const BEAT_PERIOD: Duration = Duration::from_secs(10);

/// What outlives a term.
pub struct Replica {
    equipment: Equipment,
    caches: Caches,
    devices: Arc<Devices>,
    standby: Arc<Standby>,
    revision: Revision,
    deletion: OptionalRights,
    early_detection: OptionalRights,
    events: Events,
    own_node: Option<String>,
    max_concurrent: Option<u32>,
    serves_callers: bool,
    headroom: bool,
    /// To say again what is in the caches.
    changes: mpsc::UnboundedSender<Change>,
    watches: JoinSet<()>,
}

impl Replica {
    /// Starts the caches. The other end tells of what changes in them.
    pub fn start(
        settings: &Settings,
        equipment: Equipment,
        events: Events,
    ) -> (Self, mpsc::UnboundedReceiver<Change>) {
        let (changes, changed) = mpsc::unbounded_channel();
        let mut watches = JoinSet::new();
        let reads = &equipment.clients.reads;
        let devices = Devices::through(
            equipment.outside.clone(),
            reads.clone(),
            settings.namespace.clone(),
            settings.addresses.clone(),
            Clock::SYSTEM,
        );
        let (revision, writes) = (Revision::default(), &equipment.clients.writes);
        let caches = Caches::start(writes, &revision, &changes, &mut watches);
        // The book of refused logins is among them: no new term has new tries.
        let devices = Arc::new(devices);
        let replica = Self {
            standby: Arc::new(Standby::new(caches.clone(), Arc::clone(&devices))),
            caches,
            devices,
            revision,
            deletion: OptionalRights::of_deletion(),
            early_detection: OptionalRights::of_early_detection(),
            own_node: settings.node_name.clone(),
            max_concurrent: settings.max_concurrent,
            serves_callers: settings.callers,
            headroom: settings.headroom,
            equipment,
            events,
            changes,
            watches,
        };
        (replica, changed)
    }

    /// Stands by, leads, stands by again, until `stop`; then the Lease is given back.
    ///
    /// Ends before only if the loops or the watches do, which they never should.
    pub async fn run(
        mut self,
        mut changed: mpsc::UnboundedReceiver<Change>,
        mut elector: Elector,
        stop: Stop,
    ) {
        let mut watches = std::mem::take(&mut self.watches);
        elector.notes_age_in(self.revision.clone());
        let candidate = Candidate::new(self.equipment.alive.apart.clone(), elector);
        tokio::select! {
            biased;
            () = stop.wait() => {}
            ended = watches.join_next() => tracing::error!(?ended, "a watch has ended"),
            () = self.terms(&mut changed, &candidate) => {}
        }
        // Cut off in the middle of whatever was done: every step is safe to lose its process at.
        candidate.release().await;
    }

    /// One term after the other. Ends if the loops do.
    async fn terms(&self, changed: &mut mpsc::UnboundedReceiver<Change>, candidate: &Candidate) {
        // Asked by one task only: of several that wait for one kube store, only the last is woken.
        if self.caches.ready().await.is_err() {
            return;
        }
        self.equipment.health.open(Gate::Caches);
        let mut left_for = BTreeMap::new();
        loop {
            self.shows_standby();
            tokio::select! {
                biased;
                () = candidate.elected() => {}
                never = self.stand_by(changed) => match never {},
            }
            self.caches.tell_all(&self.changes);
            let end = candidate.term_end();
            let cause = tokio::select! {
                // First: who has found out that it leads no more does nothing more.
                biased;
                () = candidate.lost() => continue,
                cause = self.own_node_fails(&left_for) => cause,
                // The Lease is kept on another thread: each time before anything goes on here its end is looked at (F13).
                led = end.lasts(self.lead(changed, end.clone())) => match led {
                    Some(()) => return,
                    None => {
                        candidate.stood_still().await;
                        continue;
                    }
                },
            };
            tracing::warn!(
                cause,
                "this replica runs on a node that is to be fenced or is unreachable, another one has to fence it"
            );
            left_for.insert(cause, clock::since_boot());
            candidate.release().await;
            self.shows_standby();
            tokio::select! {
                biased;
                () = candidate.let_others() => {}
                never = self.stand_by(changed) => match never {},
            }
        }
    }

    /// Waits until the node that this replica runs on is to be fenced or is suspected, for which it has not made room yet: it cannot fence that one
    /// itself, and a leader whose kubelet hangs would go on renewing its Lease.
    async fn own_node_fails(&self, left_for: &BTreeMap<String, Duration>) -> String {
        loop {
            let is_own = |fence: &NodeFence| Some(&fence.spec.node_name) == self.own_node.as_ref();
            let fences = self.caches.open_fences(is_own).into_iter();
            let mut causes = fences.chain(self.own_silence());
            let is_new = |cause: &String| match left_for.get(cause) {
                None => true,
                Some(at) => cause == UNREACHABLE && clock::since_boot() >= *at + SILENCE_AGAIN,
            };
            if let Some(cause) = causes.find(is_new) {
                return cause;
            }
            sleep(OWN_NODE_PERIOD).await;
        }
    }

    /// Is its own node unreachable? Then the other replica leads before the wait of a policy is over.
    fn own_silence(&self) -> Option<String> {
        let node = self.caches.node(self.own_node.as_ref()?)?;
        (node.view.ready() == Ready::Unknown).then(|| UNREACHABLE.to_owned())
    }

    /// Watches, and tries whether the devices could be reached.
    async fn stand_by(&self, changed: &mut mpsc::UnboundedReceiver<Change>) -> Infallible {
        let looking = async {
            match self.equipment.outside.from_standby {
                true => self.standby.run().await,
                false => pending().await,
            }
        };
        tokio::select! {
            never = self.follow(changed) => never,
            never = looking => never,
        }
    }

    /// Changes are of no use before a term, which begins with all there is: but for what they show of the age of the cluster.
    async fn follow(&self, changed: &mut mpsc::UnboundedReceiver<Change>) -> Infallible {
        loop {
            self.equipment.health.beat();
            tokio::select! {
                biased;
                Some(change) = changed.recv() => self.note_age(&change),
                () = sleep(BEAT_PERIOD) => {}
            }
        }
    }

    /// S18: a cluster that goes back while this replica stands by has gone back for its next term, too.
    fn note_age(&self, change: &Change) {
        if let Change::Node(name) = change
            && let Some(node) = self.caches.node(name)
        {
            self.revision.saw(Some(&node.view.resource_version));
        }
    }

    /// Runs the control loops. They end only by a mistake.
    async fn lead(&self, changed: &mut mpsc::UnboundedReceiver<Change>, term_end: TermEnd) {
        self.devices.forget_survey();
        // Before anything is begun or given up for want of it.
        let client = &self.equipment.clients.reads;
        let _ = self.deletion.look(client, &self.caches).await;
        let (wakes, woken) = Wakes::new();
        let found_off = FoundOff::telling(self.changes.clone());
        let context = self.context(wakes, found_off, term_end);
        let (reads, caches) = (context.reads.clone(), self.caches.clone());
        let prober = self.prober(&context);
        let (found, guard) = watch::channel(Guard::default());
        let guarding = guard::run(context.writes.clone(), caches.clone(), found);
        let (found, served) = watch::channel(Served::default());
        let looking_around = others::run(reads.clone(), found);
        let deletion = self.deletion.clone();
        let deleting = deletion.run(reads.clone(), caches.clone(), self.changes.clone());
        let (to_prober, of_devices) = mpsc::unbounded_channel();
        let (to_policies, of_policies) = mpsc::unbounded_channel();
        let rights = self.early_detection.clone();
        let asking = rights.clone().run(reads, caches, self.changes.clone());
        let reporting = early_detection::run(Arc::clone(&context), rights);
        let called = callers::run(
            self.serves_callers,
            Arc::clone(&context),
            self.changes.clone(),
        );
        let unfencing = unfence::run(Arc::clone(&context), served.clone());
        let policies = Arc::new(PolicyStatuses::new(
            Arc::clone(&context),
            Arc::clone(&prober),
            Clock::SYSTEM,
            (guard, served),
        ));
        let headroom = self.headroom.then(|| self.headroom_of(&context));
        self.shows_term(&context, &prober, &policies, headroom.clone());
        let peace = [
            prober.run(of_devices).boxed(),
            policies.run(of_policies).boxed(),
            guarding.boxed(),
            looking_around.boxed(),
            deleting.boxed(),
            unfencing.boxed(),
            asking.boxed(),
            reporting.boxed(),
            called.boxed(),
            headroom.map_or_else(|| pending().boxed(), |it| it.run().boxed()),
        ];
        let ways = Ways {
            changed,
            woken,
            others: [to_prober, to_policies],
        };
        loops(context, ways, peace).await;
    }

    /// What the loops of this term share.
    fn context(&self, wakes: Wakes, found_off: FoundOff, term_end: TermEnd) -> Arc<Context> {
        let Equipment {
            clients,
            outside,
            metrics,
            health,
            ..
        } = self.equipment.clone();
        let Clients { reads, writes, .. } = clients;
        Arc::new(Context {
            reads,
            writes,
            caches: self.caches.clone(),
            devices: Arc::clone(&self.devices),
            outside,
            events: self.events.clone(),
            metrics,
            board: Board::default(),
            delays: Delays::default(),
            stranded: StrandedNodes::default(),
            found_off,
            callers: Callers::default(),
            own_node: self.own_node.clone(),
            max_concurrent: self.max_concurrent,
            wakes,
            attachments: AttachmentLists::default(),
            brakes: Brakes::default(),
            deletion: self.deletion.clone(),
            early_detection: self.early_detection.clone(),
            revision: self.revision.clone(),
            term_end,
            health,
        })
    }

    /// What probes the devices in peace time.
    fn prober(&self, context: &Context) -> Arc<Prober> {
        Arc::new(Prober::new(
            self.caches.clone(),
            Arc::clone(&self.devices),
            context.writes.clone(),
            Clock::SYSTEM,
            self.events.clone(),
            Arc::clone(&context.metrics),
            context.found_off.clone(),
        ))
    }

    /// What looks for room for the pods of each node.
    fn headroom_of(&self, context: &Context) -> Arc<Headroom> {
        let (client, caches) = (context.reads.clone(), self.caches.clone());
        Arc::new(Headroom::new(client, caches, Clock::SYSTEM))
    }
}

#[cfg(test)]
mod tests;
