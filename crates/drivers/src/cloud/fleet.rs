//! What one list of a provider says of all machines of an account: for probes in peace time alone, so that a thousand nodes take a few calls.
//!
//! A list may be some seconds old, and says less of a machine than the machine's own document does. So it answers for a machine that it shows
//! running, and that was read whole before; every other one is read by itself. No proof and no command ever rests on it.

mod list;

use super::MachineId;
use fencing_core::reading::{Identity, same_system};
use list::Lists;
pub use list::Pages;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Machines that are remembered: those of Nodes that are gone go once there are so many.
const MACHINES_MAX: usize = 16_384;
/// Nodes, and runs without one, that are remembered of a machine: with more it is not known where it may run.
const PLACES_MAX: usize = 8;
/// Longest name of a run in bytes: a UUID is shorter.
const RUN_BYTES_MAX: usize = 64;

/// By the id of a machine: when it was asked, since boot, and where it runs; none: it has read Off there.
type LastOn = HashMap<String, (Duration, Option<String>)>;

/// The machines of an account.
#[derive(Debug, Default)]
pub struct Fleet {
    /// What its lists have shown.
    lists: Lists,
    /// Who each machine was when it was read whole.
    read: Mutex<HashMap<MachineId, Identity>>,
    /// Where each machine may run, for providers that forget it with the machine's end. By its id alone: the addresses of its Node may be others
    /// in its next run.
    places: Arc<Mutex<HashMap<String, Places>>>,
    /// Where each machine was when it read On last, if it has not read Off there since, and when that was asked for, since boot. By its id alone, too.
    on: Arc<Mutex<LastOn>>,
}

/// A node on which a machine was seen.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Its name, which another node may have later.
    pub node: String,
    /// Its uid; empty: it was not read while the machine was there.
    pub uid: String,
    /// The UUID of its system, by which one that registers itself again is the same.
    pub system_uuid: String,
}

impl Place {
    /// Some node of this name.
    #[must_use]
    pub fn named(node: &str) -> Self {
        Self {
            node: node.to_owned(),
            uid: String::new(),
            system_uuid: String::new(),
        }
    }

    /// Is it known which node that is?
    #[must_use]
    pub fn is_known(&self) -> bool {
        !self.uid.is_empty()
    }

    /// Is this the very node? One that is not known is none.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        let is_known = self.is_known() && other.is_known();
        let is_it = self.uid == other.uid || same_system(&self.system_uuid, &other.system_uuid);
        self.node == other.node && is_known && is_it
    }

    /// As far as is known.
    fn may_be(&self, other: &Self) -> bool {
        let is_known = self.is_known() && other.is_known();
        self.node == other.node && (!is_known || self.is(other))
    }
}

/// Where the runs of a machine may still be. One that has ended by the words of its provider may go on where its host is cut off, also while
/// another run is elsewhere.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    /// The nodes on which it was seen.
    nodes: BTreeSet<Place>,
    /// Runs that had no node yet when they were seen last.
    runs: BTreeSet<String>,
    /// There is more than can be remembered.
    is_more: bool,
    /// How often the machine was seen somewhere.
    looks: u64,
}

impl Places {
    /// All nodes on which it may run; none: they are not known.
    #[must_use]
    pub fn nodes(&self) -> Option<&BTreeSet<Place>> {
        let is_known = self.runs.is_empty() && !self.is_more && !self.nodes.is_empty();
        is_known.then_some(&self.nodes)
    }

    /// The nodes beside these.
    #[must_use]
    pub fn beside(&self, own: &BTreeSet<Place>) -> Vec<Place> {
        let nodes = self.nodes.iter();
        let beside = nodes.filter(|it| !own.iter().any(|own| own.may_be(it)));
        beside.cloned().collect()
    }

    /// Is it on these nodes alone, and is it known which nodes they are?
    #[must_use]
    pub fn are_known_to_be(&self, own: &BTreeSet<Place>) -> bool {
        self.beside(own).is_empty() && self.nodes.iter().all(Place::is_known)
    }

    /// This run was seen on these nodes; without one it may yet go anywhere. What was known before stays.
    fn add(&mut self, run: &str, nodes: &BTreeSet<Place>) {
        self.looks += 1;
        if nodes.is_empty() {
            self.runs.insert(run.to_owned());
        } else {
            self.runs.remove(run);
        }
        for place in nodes {
            let is_told = self.nodes.iter().any(|it| it.may_be(place));
            if place.is_known() || !is_told {
                self.nodes.retain(|it| !it.may_be(place));
                self.nodes.insert(place.clone());
            }
        }
        let is_named = (1..=RUN_BYTES_MAX).contains(&run.len());
        if self.nodes.len() + self.runs.len() > PLACES_MAX || !is_named {
            self.is_more = true;
            self.nodes.clear();
            self.runs.clear();
        }
    }
}

impl Fleet {
    /// The same machines behind another login: where they were is known still, and what it shows of them is read anew.
    #[must_use]
    pub fn behind_another_login(&self) -> Self {
        Self {
            places: Arc::clone(&self.places),
            on: Arc::clone(&self.on),
            ..Self::default()
        }
    }

    /// Who this machine is, by a reading of itself.
    pub fn note(&self, id: &MachineId, identity: &Identity) {
        let mut read = self.read();
        if read.len() >= MACHINES_MAX && !read.contains_key(id) {
            read.clear();
        }
        read.insert(id.clone(), identity.clone());
    }

    /// A run of the machine was seen on these nodes; none: it has no node yet. Where the machine may run with that.
    pub fn note_places(&self, id: &MachineId, run: &str, nodes: &BTreeSet<Place>) -> Places {
        let mut all = self.places();
        if all.len() >= MACHINES_MAX && !all.contains_key(&id.id) {
            all.clear();
        }
        let places = all.entry(id.id.clone()).or_default();
        places.add(run, nodes);
        places.clone()
    }

    /// The machine runs on none of these nodes any more, as was found out after it was seen like this. Where it was seen since counts.
    pub fn drop_places(&self, id: &MachineId, seen: Places, nodes: &[Place]) -> Places {
        let mut all = self.places();
        let Some(places) = all.get_mut(&id.id) else {
            return seen;
        };
        if places.looks == seen.looks {
            places.nodes.retain(|it| !nodes.contains(it));
        }
        places.clone()
    }

    /// The machine read On in this place, when it was asked at this time; none: it is not told where, or it has read Off there. A list may come late.
    pub fn note_on(&self, id: &MachineId, asked: Duration, place: Option<&str>) {
        let mut all = self.on();
        let known = all.get(&id.id);
        if known.is_some_and(|(at, _)| *at > asked) {
            return;
        }
        if all.len() >= MACHINES_MAX && known.is_none() {
            all.clear();
        }
        all.insert(id.id.clone(), (asked, place.map(str::to_owned)));
    }

    /// Where the machine read On last, as far as this process knows.
    pub fn last_on(&self, id: &MachineId) -> Option<String> {
        self.on().get(&id.id).and_then(|(_, place)| place.clone())
    }

    /// Where the machine may run, as far as this process knows.
    pub fn places_of(&self, id: &MachineId) -> Places {
        self.places().get(&id.id).cloned().unwrap_or_default()
    }

    fn places(&self) -> MutexGuard<'_, HashMap<String, Places>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn on(&self) -> MutexGuard<'_, LastOn> {
        self.on.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self) -> MutexGuard<'_, HashMap<MachineId, Identity>> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
