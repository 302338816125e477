//! Holds every write of an operator, and every command, against the invariants S1 to S3, S6 to S11, S14, S17, S18, S23 and S24, with the truth
//! of the machines at hand.
//!
//! It shares no code with the operator and believes no status: it keeps its own picture of the cluster, from the writes alone.

mod claims;
mod deletions;
mod early;
mod intents;
mod known;
#[cfg(test)]
mod slips;
mod taints;
#[cfg(test)]
mod tests;

use crate::libc::elapsed;
use crate::objects::{
    CLAIM, DETACHING, EFFECTS, OUT_OF_SERVICE, is_ended, is_leaving, ready, taint, text,
    tolerates_out_of_service,
};
use crate::plan::Plan;
use crate::tally::Tally;
use crate::words;
use crate::world::World;
use deletions::Marks;
use intents::Intent;
pub use known::Asked;
use known::{Known, ON_ITS_WAY};
use serde_json::Value;
use simapi::kinds::{ATTACHMENT, FENCE, Kind, NODE, POD};
use simapi::store::{Change, Key, Write};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use taints::without_ours;

/// One second after a signal nothing new is begun; what was begun then may be on its way for another.
const EFFECTS_END: Duration = Duration::from_secs(2);

/// Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Judge {
    world: World,
    late_effect: Duration,
    is_guarded: bool,
    state: Arc<Mutex<State>>,
}

impl fmt::Debug for Judge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Judge")
    }
}

#[derive(Default)]
struct State {
    objects: BTreeMap<(&'static str, Key), Arc<Value>>,
    /// Who has put each of these taints on a Node, by its uid.
    effects: Effects,
    /// What the deletions of the operator rest on.
    marks: Marks,
    /// The claim of each Node, and since when it stands.
    claims: BTreeMap<String, (String, Duration)>,
    /// The one that stood there before, and until when.
    former: BTreeMap<String, ((String, Duration), Duration)>,
    /// Every claim that was put on each Node, and when.
    claimed: BTreeMap<String, Vec<(String, Duration)>>,
    /// NodeFences that a human has deleted, as they were.
    deleted: BTreeMap<String, Arc<Value>>,
    /// Since when no pod can start on a node; none: one can.
    quiet: BTreeMap<String, Option<Duration>>,
    /// Pods whose deletion etcd has forgotten.
    undeleted: BTreeSet<String>,
    /// Records as they were when etcd forgot them, by the claim that their evidence is for.
    forgotten: BTreeMap<String, Arc<Value>>,
    /// Until when a write may rest on what was there before etcd was put back.
    restored_until: Duration,
    /// All offs that were ever written down.
    begun: BTreeSet<Intent>,
    /// What each process of the operator knows at first hand.
    known: BTreeMap<String, Known>,
    /// The readings of a proof span this time.
    window: Duration,
    /// Commands that are still to take effect: machine, when sent, when they land.
    offs: Vec<(String, Duration, Duration)>,
    /// Those of them that etcd has forgotten: machine, when sent, which processes knew of it.
    forgotten_offs: Vec<(String, Duration, BTreeSet<String>)>,
    /// Operators that were asked to end, and when.
    ended: BTreeMap<String, Duration>,
    /// A policy wants nodes to be reported early.
    is_early: bool,
    /// Boots that were.
    reported: BTreeSet<early::Boot>,
    tally: Tally,
}

impl Judge {
    /// Begins to listen.
    pub fn new(world: &World, plan: &Plan) -> Self {
        let state = State {
            window: Duration::from_secs(plan.read_period),
            is_early: plan.is_early,
            ..State::default()
        };
        let judge = Self {
            world: world.clone(),
            late_effect: Duration::from_secs(plan.late_effect),
            is_guarded: plan.is_guarded,
            state: Arc::new(Mutex::new(state)),
        };
        let listener = judge.clone();
        world
            .api
            .listen(Box::new(move |write| listener.heard(write)));
        judge
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn broken(&self, id: &str, what: &str) {
        self.world.violation(format!("{id}: {what}"));
    }

    /// What was counted.
    pub fn tally(&self) -> Tally {
        self.state().tally.clone()
    }

    /// What may be put back with etcd.
    pub fn past(&self) -> Past {
        Past(self.state().effects.clone())
    }

    /// etcd was put back: what is there now was never written. What processes know of it stays as it is.
    pub fn restored(&self, past: Past) {
        let kinds: [&'static Kind; 4] = [&NODE, &POD, &ATTACHMENT, &FENCE];
        let mut objects = BTreeMap::new();
        for kind in kinds {
            for object in self.world.api.all(kind) {
                let namespace = text(&object, "/metadata/namespace").to_owned();
                let name = text(&object, "/metadata/name").to_owned();
                objects.insert((kind.plural, (namespace, name)), object);
            }
        }
        let nodes = self.world.api.all(&NODE);
        let mut state = self.state();
        let leaving = state.of_kind(&POD).filter(|pod| is_leaving(pod));
        let leaving = leaving.map(|pod| text(pod, "/metadata/uid").to_owned());
        state.undeleted = leaving.collect();
        state.note_forgotten();
        state.restored_until = elapsed() + ON_ITS_WAY;
        state.objects = objects;
        state.keep_forgotten();
        state.note_forgotten_offs();
        state.effects = past.0;
        state.reported.clear();
        for node in nodes {
            let name = text(&node, "/metadata/name");
            state.note_claim(name, Some(&node));
            state.note_quiet(name);
            state.note_marks(name, Some(&node), "etcd");
        }
    }

    /// An operator begins to live, or has ended.
    pub fn lives(&self, operator: &str, lives: bool) {
        self.state().tally.lives(operator, lives);
    }

    /// An operator was asked to end.
    pub fn ends(&self, operator: &str) {
        self.state().ended.insert(operator.to_owned(), elapsed());
    }

    /// A command takes effect at this moment.
    pub fn lands(&self, machine: &str, at: Duration) {
        self.state().offs.push((machine.to_owned(), elapsed(), at));
    }

    /// It has.
    pub fn landed(&self, machine: &str) {
        let now = elapsed();
        self.state()
            .offs
            .retain(|(name, _, at)| name != machine || *at > now);
    }

    fn heard(&self, write: &Write) {
        let is_ours = write.actor.starts_with("operator");
        let mut found = Vec::new();
        {
            let mut state = self.state();
            if is_ours {
                if let Some(words) = words::of(write) {
                    self.world.log.tell(&write.actor, words);
                }
                found.extend(state.ended_writes(write));
                found.extend(state.by_whom(write));
                found.extend(state.of_operator(&self.world, write, self.late_effect));
                // Without the admission policies nothing but the time between a read and a write is in the way.
                found.retain(|(id, _)| self.is_guarded || *id != "S6");
                state.tally.wrote(write);
                self.count_deletion(write);
                if state.is_claim_by_hand(write) {
                    self.world.judged("S10 claim by hand");
                }
            }
            found.extend(state.refuted(write));
            state.follow(write);
        }
        for (id, what) in found {
            self.broken(id, &format!("{} ({})", what, write.actor));
        }
    }
}

/// What the judge remembers and etcd has.
pub struct Past(Effects);

/// By the key of the taint and the uid of the Node.
type Effects = BTreeMap<(&'static str, String), String>;

type Found = Vec<(&'static str, String)>;

impl State {
    fn get(&self, kind: &Kind, name: &str) -> Option<Arc<Value>> {
        let key = (kind.plural, (String::new(), name.to_owned()));
        self.objects.get(&key).cloned()
    }

    fn fence(&self, name: &str) -> Option<Arc<Value>> {
        self.get(&FENCE, name)
    }

    fn of_kind(&self, kind: &'static Kind) -> impl Iterator<Item = &Arc<Value>> {
        let all = self
            .objects
            .iter()
            .filter(move |((plural, _), _)| *plural == kind.plural);
        all.map(|(_, object)| object)
    }

    /// Keeps the picture.
    fn follow(&mut self, write: &Write) {
        let key = (write.kind.plural, write.key.clone());
        match write.change {
            Change::Deleted => drop(self.objects.remove(&key)),
            Change::Added | Change::Modified => {
                self.objects.insert(key, Arc::clone(&write.new));
            }
        }
        if *write.kind == POD || *write.kind == ATTACHMENT {
            let node = text(&write.new, "/spec/nodeName");
            self.note_quiet(node);
            self.note_left(node);
        }
        self.note_deleted(write);
        if *write.kind != NODE {
            self.conditions_of_release();
            return;
        }
        let (name, uid) = (&write.key.1, text(&write.new, "/metadata/uid"));
        let was = write.old.as_ref().map_or("", |old| ready(old));
        if ready(&write.new) == "Unknown" && was != "Unknown" {
            self.tally.unknown(name);
        }
        let old = write.old.as_deref();
        for key in EFFECTS {
            let had = old.and_then(|old| taint(old, key));
            let has = taint(&write.new, key);
            if has.is_some() && has != had {
                self.effects
                    .insert((key, uid.to_owned()), write.actor.to_string());
            }
        }
        let now = (write.change != Change::Deleted).then_some(&*write.new);
        self.note_claim(name, now);
        self.note_marks(name, now, &write.actor);
        self.conditions_of_release();
    }

    fn note_quiet(&mut self, node: &str) {
        let is_quiet = self.startable(node).next().is_none();
        let since = self.quiet.entry(node.to_owned()).or_default();
        match is_quiet {
            true => drop(since.get_or_insert_with(elapsed)),
            false => *since = None,
        }
    }

    /// May a write that arrives now rest on what was there before etcd was put back?
    fn rests_on_the_past(&self) -> bool {
        elapsed() < self.restored_until
    }

    /// Pods that the node's kubelet would start.
    fn startable(&self, node: &str) -> impl Iterator<Item = &Arc<Value>> {
        let is_excused = self.rests_on_the_past();
        let all = self.of_kind(&POD);
        all.filter(move |pod| {
            let was_leaving = is_excused && self.undeleted.contains(text(pod, "/metadata/uid"));
            text(pod, "/spec/nodeName") == node
                && !was_leaving
                && !is_leaving(pod)
                && !tolerates_out_of_service(pod)
        })
    }

    /// Notes when nothing but time hinders a release.
    fn conditions_of_release(&mut self) {
        let open: Vec<(String, String)> = self.tally.unreleased().collect();
        for (fence, node) in open {
            let is_free = self.hindrances(&node).is_empty();
            self.tally.free(&fence, is_free);
        }
    }

    /// L8.
    fn ended_writes(&self, write: &Write) -> Found {
        let ended = self.ended.get(&*write.actor);
        let is_late =
            ended.is_some_and(|at| elapsed() > *at + EFFECTS_END) && write.kind.plural != "events";
        let words = format!(
            "{} {} was written after the end",
            write.kind.kind, write.key.1
        );
        is_late.then_some(("L8", words)).into_iter().collect()
    }

    /// L3: a record that has ended. Where etcd was put back, to a later state perhaps, its version may be by chance the one that the sender has
    /// read before; then it may be ended once more, and not be opened.
    fn written_again(&self, old: &Value, write: &Write) -> Found {
        let opens = !is_ended(&write.new);
        let is_excused = self.rests_on_the_past() && !opens;
        let differs = old["status"]["conditions"] != write.new["status"]["conditions"];
        let words = format!("{} had ended and is written again", write.key.1);
        let is_bad = differs && !is_excused;
        is_bad.then_some(("L3", words)).into_iter().collect()
    }

    fn of_operator(&mut self, world: &World, write: &Write, late_effect: Duration) -> Found {
        let Some(old) = &write.old else {
            return Vec::new();
        };
        if write.change == Change::Deleted || *write.kind == ATTACHMENT {
            return self.deletion(world, write, old, late_effect);
        }
        if *write.kind == FENCE && write.change == Change::Modified && is_ended(old) {
            return self.written_again(old, write);
        }
        if *write.kind != NODE {
            return Vec::new();
        }
        let (node, mut found) = (&write.key.1, Vec::new());
        if early::turns_ready(old, &write.new) {
            found.extend(self.report(world, write, old));
        } else if without_ours(old) != without_ours(&write.new) {
            found.push((
                "S7",
                format!("{node}: something else than our taints was changed"),
            ));
        }
        let had = |key| taint(old, key);
        let has = |key| taint(&write.new, key);
        let gets = |key| has(key).is_some() && had(key).is_none();
        let mut got = [CLAIM, OUT_OF_SERVICE, DETACHING].into_iter();
        if let Some(key) = got.find(|key| gets(key) && ready(old) == "True") {
            found.push(("S6", format!("{node} is Ready and gets {key}")));
        }
        found.extend(self.claims_unbound(write));
        for key in EFFECTS {
            if gets(key) {
                found.extend(self.takes_effect(world, write, old, key));
            }
            if had(key).is_some() && has(key).is_none() {
                found.extend(self.release(world, write, old, late_effect, key));
            }
        }
        found
    }
}

/// The NodeFence that a claim names.
pub fn owner(claim: &str) -> &str {
    claim.rsplit_once('-').map_or("", |(fence, _)| fence)
}
