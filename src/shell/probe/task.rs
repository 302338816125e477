//! The task: hears of changes, begins probes when they are due, takes in what they find.

use super::epoch::{epoch, epoch_of};
use super::gathering::Gathering;
use super::judge::{self, Finding};
use super::period::period;
use super::schedule::{Changes, Ended, Pace, Pair, Schedule, Wanted};
use super::status::NOT_READY_NODES_MAX;
use super::write::{Writer, patience};
use super::{Answer, Known, Prober, open_request, request};
use crate::shell::cache::Change;
use crate::shell::marks::{Marks, mark};
use crate::shell::tampered::Tampered;
use crate::shell::undecodable::Undecodable;
use fencing_api::device::FenceDevice;
use fencing_core::observed::{NodeView, Ready};
use fencing_core::select::serves;
use fencing_core::{control, identity};
use jiff::Timestamp;
use kube::{ResourceExt, core::DeserializeGuard};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tokio::time::sleep;

/// Probes that run at the same time: enough for 5,000 BMCs of 1.5 s each within five minutes.
const PROBES_MAX: usize = 32;
/// The task looks at its timers at least this often: a suspended host does not advance tokio's.
const SLEEP_MAX: Duration = Duration::from_secs(30);

struct Running {
    number: u64,
    epoch: u64,
    begun: Timestamp,
    /// Of the Node when it was begun.
    boot_id: String,
    task: AbortHandle,
}

/// The task's state: nobody else sees it.
pub(super) struct Task {
    prober: Arc<Prober>,
    schedule: Schedule,
    writer: Writer,
    probes: JoinSet<Option<Answer>>,
    running: HashMap<Pair, Running>,
    pairs: HashMap<Id, (Pair, u64)>,
    /// What matters of each Node and FenceDevice.
    marks: Marks,
    undecodable: Undecodable,
    tampered: Tampered,
    /// Nodes with an open incident.
    fenced: BTreeSet<String>,
    gathering: Gathering,
    /// A Node or FenceDevice has changed since all were compared, which is not done for each fence that begins or ends.
    is_survey_due: bool,
    pace: Pace,
}

impl Task {
    pub(super) fn new(prober: Arc<Prober>) -> Self {
        Self {
            writer: Writer::new(Arc::clone(&prober)),
            undecodable: Undecodable::new(prober.events.clone()),
            tampered: Tampered::new(prober.events.clone()),
            prober,
            schedule: Schedule::default(),
            probes: JoinSet::new(),
            running: HashMap::new(),
            pairs: HashMap::new(),
            marks: Marks::default(),
            fenced: BTreeSet::new(),
            gathering: Gathering::new(),
            is_survey_due: true,
            pace: Pace::default(),
        }
    }

    pub(super) async fn run(mut self, mut changes: mpsc::UnboundedReceiver<Change>) {
        loop {
            let now = self.prober.clock.since_boot();
            if self.gathering.take(now) {
                self.take_in(now);
                self.gathering.looked(self.prober.clock.since_boot());
            }
            if self.has_room(now)
                && let Some((pair, number)) = self.schedule.take_due(now)
            {
                self.begin(pair, number, now);
                self.pace.begun(now);
            }
            self.writer.write_due(&self.schedule, now);
            let pause = self.pause(now);
            tokio::select! {
                biased; // first what there is only so much of
                Some(ended) = self.probes.join_next_with_id() => self.ended(ended),
                () = self.writer.take_reply() => {}
                change = changes.recv() => match change {
                    Some(change) => self.heard(change),
                    None => return,
                },
                () = sleep(pause) => {}
            }
        }
    }

    /// May another probe be begun at this time since boot?
    fn has_room(&self, now: Duration) -> bool {
        self.probes.len() < PROBES_MAX && self.pace.next() <= now
    }

    /// How long nothing is due.
    fn pause(&self, now: Duration) -> Duration {
        // Where all places are taken, one that ends is what is waited for.
        let due = self.schedule.next_due();
        let due = due.map(|due| due.max(self.pace.next()));
        let probe = due.filter(|at| self.has_room(*at));
        let times = [probe, self.writer.next_due(), self.gathering.due()];
        let next = times.into_iter().flatten().min().unwrap_or(Duration::MAX);
        next.saturating_sub(now).min(SLEEP_MAX)
    }

    /// Decides whether the change is worth a look at all pairs.
    fn heard(&mut self, change: Change) {
        let now = self.prober.clock.since_boot();
        let mut entry = None;
        let current = match &change {
            Change::Node(name) => self.prober.caches.node(name).map(|node| {
                let node = &node.view;
                let of_boot = (&node.uid, &node.boot_id, node.ready() == Ready::True);
                let is_suspect = self.prober.found_off.is_suspect(name);
                let of_machine = (&node.system_uuid, &node.provider_id, &node.addresses);
                mark((of_boot, is_suspect, of_machine, &node.labels))
            }),
            Change::Device(name) => {
                self.writer.mark(name, now, Duration::from_secs(1));
                entry = self.prober.caches.device_entry(name);
                self.undecodable.look(&change, entry.as_deref());
                self.tampered.look(&change, entry.as_deref());
                decoded(entry.as_ref()).map(|device| {
                    let pins = device.status.iter().flat_map(|status| &status.systems);
                    let pins: Vec<_> = pins.map(|pin| (&pin.node_uid, &pin.uuid)).collect();
                    mark((
                        device.uid(),
                        device.metadata.generation,
                        pins,
                        request(device),
                    ))
                })
            }
            Change::Fence(_) => {
                self.leave_fences_alone(now);
                return;
            }
            Change::Policy(name) => {
                let policy = self.prober.caches.policy(name);
                policy.map(|it| mark((it.uid(), it.metadata.generation)))
            }
            Change::Attachment(_) => return,
        };
        if self.marks.differs(change, current) {
            self.gathering.note(now);
            self.is_survey_due = true;
            if let Some(device) = decoded(entry.as_ref()) {
                self.writer.tell_of_request(device);
            }
        }
    }

    fn open_incidents(&self) -> BTreeSet<String> {
        let fences = self.prober.caches.fences.state();
        let open = fences.iter().filter_map(|guard| guard.0.as_ref().ok());
        let open = open.filter(|fence| !fence.is_ended());
        open.map(|fence| fence.spec.node_name.clone()).collect()
    }

    /// Stops at once what would be in the way of a new incident; the schedule hears of it soon.
    fn leave_fences_alone(&mut self, now: Duration) {
        let fenced = self.open_incidents();
        if fenced == self.fenced {
            return;
        }
        self.running.retain(|pair, running| {
            let in_the_way = fenced.contains(&pair.node);
            if in_the_way {
                running.task.abort();
            }
            !in_the_way
        });
        self.fenced = fenced;
        self.gathering.note(now);
    }

    /// Takes the caches in: which pairs there are, which systems are shared, who is being fenced.
    fn take_in(&mut self, now: Duration) {
        self.fenced = self.open_incidents();
        let policies = self.prober.caches.policies();
        let guards = self.prober.caches.devices.state();
        let devices: Vec<&FenceDevice> = guards
            .iter()
            .filter_map(|guard| guard.0.as_ref().ok())
            .collect();
        let nodes = self.prober.caches.nodes.state();
        let nodes: Vec<&NodeView> = nodes.iter().map(|node| &node.view).collect();
        let is_due = std::mem::take(&mut self.is_survey_due);
        let changed = is_due.then(|| self.prober.devices.survey(&devices, &nodes));
        for device in changed.into_iter().flatten() {
            self.writer.mark(&device, now, Duration::ZERO);
        }
        let by_name = nodes.iter().map(|node| (node.name.as_str(), *node));
        let by_name: HashMap<&str, &NodeView> = by_name.collect();
        let mut wanted = Vec::new();
        for device in &devices {
            let served: Vec<&NodeView> = match &device.spec.node_name {
                Some(name) => by_name.get(name.as_str()).copied().into_iter().collect(),
                None => nodes
                    .iter()
                    .copied()
                    .filter(|it| serves(device, it))
                    .collect(),
            };
            self.writer.note_shape(device, &served, now);
            let pairs = served.into_iter().map(|node| Wanted {
                period: period(device, node, &policies),
                ..self.wanted(device, node)
            });
            wanted.extend(pairs);
        }
        self.writer.forget_all_but(&devices);
        let Changes {
            reset,
            stop,
            fenced,
        } = self.schedule.want(wanted, now);
        for pair in &fenced {
            self.writer.mark(&pair.device, now, Duration::ZERO);
        }
        for pair in &reset {
            self.prober.forget(pair);
        }
        for pair in reset.iter().chain(&stop) {
            if let Some(running) = self.running.remove(pair) {
                running.task.abort();
            }
        }
        self.seed(&devices);
    }

    /// Pairs that are new get what an earlier process has left.
    fn seed(&self, devices: &[&FenceDevice]) {
        let mut known = self.prober.known();
        for device in devices {
            for (pair, _) in self.schedule.nodes_of(&device.name_any()) {
                if !known.contains_key(pair) {
                    known.insert(pair.clone(), Known::from_status(device, &pair.node));
                }
            }
        }
    }

    pub(super) fn wanted(&self, device: &FenceDevice, node: &NodeView) -> Wanted {
        let status = device.status.as_ref();
        let was_ready = status.is_some_and(|status| {
            status.observed_generation == device.metadata.generation
                && status.not_ready_nodes.len() < NOT_READY_NODES_MAX
                && !status.not_ready_nodes.contains(&node.name)
        });
        let recognised = identity::is_recognised(device, node);
        let is_shown = control::by(control::kept(device, node), &node.boot_id).is_shown();
        Wanted {
            pair: Pair {
                device: device.name_any(),
                node: node.name.clone(),
            },
            epoch: epoch(device, &node.uid, &node.system_uuid),
            node_ready: node.ready() == Ready::True,
            suspected: self.prober.found_off.is_suspect(&node.name),
            boot_id: node.boot_id.clone(),
            fenced: self.fenced.contains(&node.name) || !control::may_log_in(device, Some(node)),
            period: Duration::from_secs(device.spec.probe.period_seconds.into()),
            known_well: was_ready && recognised && is_shown,
            requested: open_request(device),
            fleet: device.spec.node_name.is_none(),
        }
    }

    fn begin(&mut self, pair: Pair, number: u64, now: Duration) {
        let entry = self.prober.caches.device_entry(&pair.device);
        let device = decoded(entry.as_ref());
        let node = self.prober.caches.node(&pair.node);
        let (Some(device), Some(node), false) = (device, node, self.fenced.contains(&pair.node))
        else {
            self.schedule.ended(&pair, number, Ended::Void, now);
            return;
        };
        let node = &node.view;
        let epoch = epoch_of(device, node);
        let boot_id = node.boot_id.clone();
        let is_well = node.ready() == Ready::True && !self.prober.found_off.is_suspect(&pair.node);
        let ready_in = is_well.then_some(boot_id.as_str());
        let how = self.prober.look(device, &pair, ready_in, now);
        let doubt = self.prober.doubt_of(&pair);
        let name = pair.node.clone();
        let prober = Arc::clone(&self.prober);
        let task = self.probes.spawn(async move {
            let device = decoded(entry.as_ref())?;
            prober.probe(device, &name, how, doubt).await
        });
        self.pairs.insert(task.id(), (pair.clone(), number));
        let running = Running {
            number,
            epoch,
            begun: self.prober.clock.wall(),
            boot_id,
            task,
        };
        self.running.insert(pair, running);
    }

    fn ended(&mut self, ended: Result<(Id, Option<Answer>), JoinError>) {
        let now = self.prober.clock.since_boot();
        let id = ended.as_ref().map_or_else(JoinError::id, |(id, _)| *id);
        let Some((pair, number)) = self.pairs.remove(&id) else {
            return;
        };
        // One that was stopped or begun anew meanwhile is not there any more, or has another number.
        let running = self.running.remove_entry(&pair);
        let running = running.and_then(|(pair, running)| match running.number == number {
            true => Some(running),
            false => {
                self.running.insert(pair, running);
                None
            }
        });
        let how = match (ended, running) {
            (Ok((_, None)), Some(_)) => Ended::Busy,
            (Ok((_, Some(answer))), Some(running)) => self.found(&pair, &running, answer, now),
            _ => Ended::Void,
        };
        self.schedule.ended(&pair, number, how, now);
    }

    /// Keeps what was found, if it still is about the same device and the same Node.
    fn found(&mut self, pair: &Pair, running: &Running, answer: Answer, now: Duration) -> Ended {
        let Answer {
            mut outcome,
            trimmed_keys,
            extent,
            renewed,
            doubt,
            upkeep,
        } = answer;
        let entry = self.prober.caches.device_entry(&pair.device);
        let node = self.prober.caches.node(&pair.node);
        let (Some(device), Some(node)) = (decoded(entry.as_ref()), node) else {
            return Ended::Void;
        };
        // What was read in another boot says nothing of this one (S25).
        let node = &node.view;
        let is_same_boot = node.boot_id == running.boot_id;
        if epoch_of(device, node) != running.epoch || !is_same_boot {
            return Ended::Void;
        }
        let ended = match (&outcome, &doubt) {
            (Err(_), _) => Ended::Failed,
            (Ok(_), Some(_)) if !renewed => Ended::Doubted,
            (Ok(_), _) => Ended::Well,
        };
        let mut known = self.prober.known();
        let known = known.entry(pair.clone()).or_default();
        let before = known.finding.take().and_then(|finding| finding.identity);
        known.note(&mut outcome, upkeep, extent, now);
        let named = outcome.as_ref().ok();
        let identity = named.map(|probe| probe.reading.identity.clone()).or(before);
        let finding = Finding {
            at: running.begun,
            node: judge::essence(node.clone()),
            outcome,
            identity,
            trimmed_keys,
            renewed,
            control: known.control.clone(),
            on_node: known.upkeep.on_node.clone(),
            asked: judge::asked(device),
        };
        known.doubt = doubt.filter(|_| !renewed);
        let judgement = self.prober.judged(device, &pair.node, &finding);
        self.prober
            .tell_of_off(device, &finding, &judgement, known.on_asked);
        known.take(device, finding, &judgement);
        self.writer.mark(&pair.device, now, patience(device));
        ended
    }
}

fn decoded(entry: Option<&Arc<DeserializeGuard<FenceDevice>>>) -> Option<&FenceDevice> {
    entry?.0.as_ref().ok()
}
