//! When is which device probed for which node?
//!
//! Pure. A pair that is new, whose device or Node was replaced or changed, whose Node has just turned Ready or fallen silent, or whose incident
//! has just ended is due at once, and one that a human has asked for nearly so; one that was found well by an earlier process somewhere within its period; after that every
//! period with a jitter, so that a thousand BMCs that were once probed together do not stay together. After a failure a pair
//! is looked at sooner, because one lost packet should not read "not ready" for a whole period.

use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

/// Pause after the first failure; each further one doubles it, up to the period.
const RETRY_PAUSE: Duration = Duration::from_secs(30);
/// A request is answered this long after the last probe at the earliest, so that nobody can make the operator hammer a BMC.
const REQUEST_PAUSE: Duration = Duration::from_secs(10);
/// A request for a whole fleet is spread over this time.
const FLEET_SPREAD: Duration = Duration::from_secs(30);
/// From the beginning of a probe to that of the next one.
const PACE: Duration = Duration::from_millis(20);
/// A kubelet renews its Lease every 10 s; with room for the jitter of this pause.
const DOUBT_PAUSE: Duration = Duration::from_secs(13);
/// Pause after the first look at the machine of a Node that has fallen silent, which may yet lose its power; each further one doubles it.
const SILENT_PAUSE: Duration = Duration::from_secs(10);
/// Pause after the first Off of a machine whose kubelet is suspected to be dead, which counts if it is read twice; each further one doubles it.
const SUSPECT_PAUSE: Duration = Duration::from_millis(600);
/// Pause while somebody else talks to the device.
const BUSY_PAUSE: Duration = Duration::from_secs(2);

/// A device and a node that it serves.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pair {
    /// FenceDevice name.
    pub device: String,
    /// Node name.
    pub node: String,
}

/// A pair that is to be probed, as the caches show it now.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The pair.
    pub pair: Pair,
    /// Everything that, once changed, makes earlier findings worthless: which Node and which settings.
    pub epoch: u64,
    /// The Node is Ready.
    pub node_ready: bool,
    /// And its kubelet is suspected to be dead.
    pub suspected: bool,
    /// Its boot: in another one the device has to show again that it reads On (S25).
    pub boot_id: String,
    /// The Node has an open incident, or the device's password may not be used for it yet: the device is left alone.
    pub fenced: bool,
    /// Pause between two probes.
    pub period: Duration,
    /// The stored status says that the device is ready for this node.
    pub known_well: bool,
    /// A human asked for a probe at this time, and none has been made since.
    pub requested: Option<Timestamp>,
    /// The device serves many nodes: a request for all of them is spread over a while.
    pub fleet: bool,
}

/// How a probe ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The device answered.
    Well,
    /// It reads Off beside a Ready Node: it is asked again when a living kubelet has renewed its Lease.
    Doubted,
    /// It did not, or not as it should.
    Failed,
    /// Somebody else talked to it; it was not asked.
    Busy,
    /// It was stopped, or what it found is worthless by now.
    Void,
}

#[derive(Debug)]
struct Slot {
    epoch: u64,
    node_ready: bool,
    suspected: bool,
    boot_id: String,
    fenced: bool,
    period: Duration,
    /// While a probe is under way: when the next one is wanted after it, if sooner than usual.
    due: Duration,
    failures: u32,
    /// Looks at a machine whose Node is not Ready, since it was.
    silent: u32,
    probes: u32,
    /// The request that was heard of last; each is answered once.
    requested: Option<Timestamp>,
    /// When the last probe ended.
    ended: Option<Duration>,
    /// When its Node last fell silent, and it was due for that.
    turned: Option<Duration>,
    /// The Node turned while the probe was under way, which may have looked before.
    turned_meanwhile: bool,
    /// Number of the probe that is under way.
    running: Option<u64>,
}

/// All pairs, and when each is due.
#[derive(Debug, Default)]
pub struct Schedule {
    slots: BTreeMap<Pair, Slot>,
    /// Every pair that is not being probed, but those whose turn came while they were fenced.
    queue: BTreeSet<(Duration, Pair)>,
    /// The same of nodes that are silent: what is due of them goes before the others, however late those are.
    silent: BTreeSet<(Duration, Pair)>,
    /// Probes that have been begun.
    begun: u64,
}

/// Begins one probe after the other: the first looks at a thousand devices would else all at once take memory and connections that are
/// never needed again.
#[derive(Debug, Default)]
pub struct Pace(Duration);

impl Pace {
    /// When the next probe may begin (time since boot).
    pub fn next(&self) -> Duration {
        self.0
    }

    /// One has been begun (time since boot).
    pub fn begun(&mut self, now: Duration) {
        self.0 = now + PACE;
    }
}

/// What a change of the wanted pairs means for those that were known.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Their findings are worthless, and a running probe is to be stopped.
    pub reset: Vec<Pair>,
    /// A running probe is to be stopped; the findings stay.
    pub stop: Vec<Pair>,
    /// An incident of its node has begun.
    pub fenced: Vec<Pair>,
}

impl Schedule {
    /// Takes over the pairs that are wanted now (time since boot).
    pub fn want(&mut self, wanted: Vec<Wanted>, now: Duration) -> Changes {
        let mut changes = Changes::default();
        let kept: BTreeSet<&Pair> = wanted.iter().map(|wanted| &wanted.pair).collect();
        let gone = self.slots.keys().filter(|pair| !kept.contains(pair));
        changes.reset = gone.cloned().collect();
        for pair in &changes.reset {
            self.forget(pair);
        }
        for wanted in wanted {
            match self.slots.get_mut(&wanted.pair) {
                Some(slot) if slot.epoch == wanted.epoch => {
                    if wanted.fenced && slot.running.is_some() {
                        changes.stop.push(wanted.pair.clone());
                    }
                    if wanted.fenced && !slot.fenced {
                        changes.fenced.push(wanted.pair.clone());
                    }
                    let has_booted = wanted.boot_id != slot.boot_id;
                    let turned =
                        (wanted.node_ready, wanted.suspected) != (slot.node_ready, slot.suspected);
                    let ready_now = wanted.node_ready && has_booted;
                    let freed_now = slot.fenced && !wanted.fenced;
                    let sooner = wanted.period < slot.period;
                    let asked = wanted.requested.is_some() && wanted.requested != slot.requested;
                    // A Node that flaps is no reason for a login each time.
                    let soon = slot.turned.map_or(now, |last| now.max(last + BUSY_PAUSE));
                    if turned {
                        slot.silent = 0;
                        slot.turned_meanwhile = slot.running.is_some();
                        let is_silent = !wanted.node_ready || wanted.suspected;
                        slot.turned = is_silent.then_some(soon).or(slot.turned);
                    }
                    slot.node_ready = wanted.node_ready;
                    slot.suspected = wanted.suspected;
                    slot.boot_id.clone_from(&wanted.boot_id);
                    slot.fenced = wanted.fenced;
                    slot.period = wanted.period;
                    slot.requested = wanted.requested.or(slot.requested);
                    let due = if ready_now || freed_now {
                        Some(now)
                    } else if turned {
                        Some(soon)
                    } else if sooner {
                        Some(now)
                    } else {
                        asked.then(|| slot.request_due(&wanted, now))
                    };
                    if let Some(due) = due {
                        self.set_due(&wanted.pair, due);
                    }
                }
                Some(_) => {
                    changes.reset.push(wanted.pair.clone());
                    self.forget(&wanted.pair);
                    self.begin(wanted, now);
                }
                None => self.begin(wanted, now),
            }
        }
        changes
    }

    fn begin(&mut self, wanted: Wanted, now: Duration) {
        let is_well = wanted.known_well && wanted.node_ready;
        let spread = if is_well && wanted.requested.is_none() {
            wanted.period.mul_f64(fraction(&wanted.pair, 0))
        } else {
            Duration::ZERO
        };
        let slot = Slot {
            epoch: wanted.epoch,
            node_ready: wanted.node_ready,
            suspected: wanted.suspected,
            boot_id: wanted.boot_id.clone(),
            fenced: wanted.fenced,
            period: wanted.period,
            due: now + spread,
            failures: 0,
            silent: 0,
            probes: 0,
            requested: wanted.requested,
            ended: None,
            turned: None,
            turned_meanwhile: false,
            running: None,
        };
        let (due, pair) = (slot.due, wanted.pair);
        self.slots.insert(pair.clone(), slot);
        self.enqueue(due, &pair);
    }

    fn enqueue(&mut self, due: Duration, pair: &Pair) {
        let is_silent = |slot: &Slot| !slot.node_ready || slot.suspected;
        let queue = match self.slots.get(pair).is_some_and(is_silent) {
            true => &mut self.silent,
            false => &mut self.queue,
        };
        queue.insert((due, pair.clone()));
    }

    fn dequeue(&mut self, due: Duration, pair: &Pair) {
        let entry = (due, pair.clone());
        // Which of them it stands in is told by how the Node was.
        let _ = self.queue.remove(&entry) || self.silent.remove(&entry);
    }

    fn forget(&mut self, pair: &Pair) {
        if let Some(slot) = self.slots.remove(pair) {
            self.dequeue(slot.due, pair);
        }
    }

    /// The pair that has been due longest, if any is, those of silent nodes first; and the number of its probe, which has begun.
    pub fn take_due(&mut self, now: Duration) -> Option<(Pair, u64)> {
        loop {
            let is_due = |queue: &BTreeSet<(Duration, Pair)>| {
                queue.first().is_some_and(|(due, _)| *due <= now)
            };
            // The others get each fourth probe: a rack of dead BMCs takes its time.
            let is_others_turn = self.begun % 4 == 3 && is_due(&self.queue);
            let queue = match is_due(&self.silent) && !is_others_turn {
                true => &mut self.silent,
                false => &mut self.queue,
            };
            let (due, pair) = queue.pop_first()?;
            if due > now {
                queue.insert((due, pair));
                return None;
            }
            let slot = self.slots.get_mut(&pair)?;
            // One that is being fenced comes back when its incident has ended.
            if !slot.fenced {
                self.begun += 1;
                slot.running = Some(self.begun);
                slot.due = Duration::MAX;
                return Some((pair, self.begun));
            }
        }
    }

    /// The probe with this number has ended. One that was begun for settings or a Node of the past changes nothing.
    pub fn ended(&mut self, pair: &Pair, number: u64, how: Ended, now: Duration) {
        let Some(slot) = self.slots.get_mut(pair) else {
            return;
        };
        if slot.running != Some(number) {
            return;
        }
        slot.running = None;
        slot.ended = Some(now);
        let pause = match how {
            Ended::Busy | Ended::Void => BUSY_PAUSE,
            Ended::Well if slot.node_ready && !slot.suspected => {
                slot.failures = 0;
                slot.period
            }
            Ended::Well => {
                slot.failures = 0;
                doubled(SILENT_PAUSE, &mut slot.silent).min(slot.period)
            }
            Ended::Doubted => {
                slot.failures = 0;
                let pause = match slot.suspected {
                    true => doubled(SUSPECT_PAUSE, &mut slot.silent),
                    false => DOUBT_PAUSE,
                };
                pause.min(DOUBT_PAUSE).min(slot.period)
            }
            // Seconds count, and one packet that is lost must not take half a minute.
            Ended::Failed if slot.suspected => {
                doubled(BUSY_PAUSE, &mut slot.silent).min(slot.period)
            }
            Ended::Failed => doubled(RETRY_PAUSE, &mut slot.failures).min(slot.period),
        };
        slot.probes = slot.probes.wrapping_add(1);
        let jitter = 0.9 + 0.2 * fraction(pair, slot.probes);
        // What was asked for meanwhile, this one has not answered: it may have looked before.
        let earliest = match std::mem::take(&mut slot.turned_meanwhile) {
            true => now,
            false => now + REQUEST_PAUSE,
        };
        let wanted = slot.due.max(earliest);
        let due = wanted.min(now + pause.mul_f64(jitter));
        self.set_due(pair, due);
    }

    fn set_due(&mut self, pair: &Pair, due: Duration) {
        let Some(slot) = self.slots.get_mut(pair) else {
            return;
        };
        let before = std::mem::replace(&mut slot.due, due);
        let is_running = slot.running.is_some();
        self.dequeue(before, pair);
        if !is_running {
            self.enqueue(due, pair);
        }
    }

    /// When the next pair is due (time since boot).
    pub fn next_due(&self) -> Option<Duration> {
        let of_both = self.queue.first().into_iter().chain(self.silent.first());
        of_both.map(|(due, _)| *due).min()
    }

    /// All nodes of a device, and whether each is kept from being probed by an incident.
    pub fn nodes_of<'a>(&'a self, device: &str) -> impl Iterator<Item = (&'a Pair, bool)> + 'a {
        let from = Pair {
            device: device.to_owned(),
            node: String::new(),
        };
        let device = device.to_owned();
        self.slots
            .range(from..)
            .take_while(move |(pair, _)| pair.device == device)
            .map(|(pair, slot)| (pair, slot.fenced))
    }
}

impl Slot {
    /// When a request is answered: not again at once, and the nodes of a fleet one after the other.
    fn request_due(&self, wanted: &Wanted, now: Duration) -> Duration {
        let spread = match wanted.fleet {
            true => FLEET_SPREAD.mul_f64(fraction(&wanted.pair, self.probes)),
            false => Duration::ZERO,
        };
        let earliest = self.ended.map_or(now, |ended| ended + REQUEST_PAUSE);
        now.max(earliest).min(self.due.max(now)) + spread
    }
}

/// The pause after so many, which one more makes twice as long.
fn doubled(pause: Duration, count: &mut u32) -> Duration {
    let doubled = pause * 2u32.saturating_pow((*count).min(16));
    *count += 1;
    doubled
}

/// A number from 0 to 1 that is always the same for the same pair and count, and evenly spread over all of them.
fn fraction(pair: &Pair, count: u32) -> f64 {
    let mut hasher = DefaultHasher::new();
    (pair, count).hash(&mut hasher);
    let [.., a, b] = hasher.finish().to_le_bytes();
    f64::from(u16::from_le_bytes([a, b])) / f64::from(u16::MAX)
}

#[cfg(test)]
mod tests;
