//! The real core, asked once for each different situation.
//!
//! Whatever an operator of the model does has been decided by [`step`], and what it has learned by [`learn`]. Both are pure, so that an
//! answer that was given once is given again: there are millions of states, and only thousands of situations.

use crate::memory::{self, Change, Meaning};
use crate::mutation::Mutation;
use crate::state::{Node, Operator};
use crate::talk::{Act, Heard, Kind, Off, Request, Round};
use crate::views::{self, DATE, Incident, Look, NOW, nonce};
use fencing_core::answer::{DeviceReply, Reply};
use fencing_core::attempt::OffResult;
use fencing_core::control::Control;
use fencing_core::decision::{DeviceOrder, Effect};
use fencing_core::memory::Memory;
use fencing_core::plan::{Moment, Needs, evicts_next, needs, step};
use fencing_core::reply::{Asked, learn};
use fencing_core::settings::Settings;
use fencing_core::taint::NodePatch;
use serde_json::Value;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};

/// Multiplies and folds: keys are small numbers.
#[derive(Default)]
pub struct Mix(u64);

impl Hasher for Mix {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, word: u64) {
        let mixed = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

type Map<K, V> = HashMap<K, V, BuildHasherDefault<Mix>>;

/// Gives each value a number, from 1 on.
struct Numbers<T> {
    values: Vec<T>,
    numbers: HashMap<T, u32>,
}

impl<T: Clone + Eq + Hash> Numbers<T> {
    fn new() -> Self {
        Self {
            values: Vec::new(),
            numbers: HashMap::new(),
        }
    }

    fn of(&mut self, value: T) -> u32 {
        let values = &mut self.values;
        *self.numbers.entry(value).or_insert_with_key(|value| {
            values.push(value.clone());
            u32::try_from(values.len()).expect("few values")
        })
    }

    fn get(&self, number: u32) -> &T {
        &self.values[number as usize - 1]
    }
}

/// The core, and what it has answered so far.
pub struct Brain {
    /// The incident that it is about.
    pub incident: Incident,
    /// What is wrong with the operator, if anything is.
    pub mutation: Option<Mutation>,
    settings: Vec<Settings>,
    memories: Numbers<Memory>,
    meanings: Vec<Meaning>,
    memories_named: HashMap<(u32, u8), u32>,
    requests_named: HashMap<(u16, (u8, u8)), u16>,
    requests: Numbers<Request>,
    looks: Numbers<Look>,
    needs: Map<u64, Needs>,
    rounds: Map<u64, Map<u64, Round>>,
    lessons: HashMap<(u32, u8, Heard), (u32, bool)>,
    changes: HashMap<(u32, Change), u32>,
    landings: HashMap<(u16, Node), Option<Node>>,
}

impl Brain {
    /// A core that knows nothing yet.
    pub fn new(mut incident: Incident, mutation: Option<Mutation>) -> Self {
        if mutation == Some(Mutation::AnyOffCounts) {
            incident.control = Control::ShownLately;
        }
        let settings = (0..32).map(|facts| views::settings(&incident, facts));
        let mut brain = Self {
            settings: settings.collect(),
            incident,
            mutation,
            memories: Numbers::new(),
            meanings: Vec::new(),
            memories_named: HashMap::new(),
            requests_named: HashMap::new(),
            requests: Numbers::new(),
            looks: Numbers::new(),
            needs: Map::default(),
            rounds: Map::default(),
            lessons: HashMap::new(),
            changes: HashMap::new(),
            landings: HashMap::new(),
        };
        assert_eq!(brain.remember(Memory::default()), Self::NOTHING);
        brain
    }

    /// The memory of a process that has just begun.
    pub const NOTHING: u32 = 1;

    fn remember(&mut self, memory: Memory) -> u32 {
        let number = self.memories.of(memory::settle(memory, &self.incident));
        if number as usize > self.meanings.len() {
            let memory = self.memories.get(number);
            let evicts_next = evicts_next(&self.settings[0], memory);
            self.meanings.push(Meaning {
                evicts_next,
                ..memory::meaning(memory)
            });
        }
        number
    }

    /// What a memory means.
    pub fn meaning(&self, memory: u32) -> Meaning {
        match memory {
            0 => Meaning::default(),
            _ => self.meanings[memory as usize - 1],
        }
    }

    /// The memory of one whose claim has this nonce instead.
    pub fn memory_named(&mut self, memory: u32, nonce: u8) -> u32 {
        if self.meaning(memory).claim == nonce {
            return memory;
        }
        if let Some(known) = self.memories_named.get(&(memory, nonce)) {
            return *known;
        }
        let mut named = self.memories.get(memory).clone();
        if let Some(held) = &mut named.claim {
            held.value = views::claim(nonce);
        }
        let named = self.remember(named);
        self.memories_named.insert((memory, nonce), named);
        named
    }

    /// The request with these nonces instead: of the claim that stood there, and of the one that it sets.
    pub fn request_named(&mut self, request: u16, named: (u8, u8)) -> u16 {
        if let Some(known) = self.requests_named.get(&(request, named)) {
            return *known;
        }
        let mut other = self.request(request).clone();
        let old = [other.claim, other.sets].map(views::claim);
        let new = [named.0, named.1].map(views::claim);
        replace(&mut other.operations, &old, &new);
        (other.claim, other.sets) = named;
        let other = u16::try_from(self.requests.of(other)).expect("few requests");
        self.requests_named.insert((request, named), other);
        other
    }

    /// A request.
    pub fn request(&self, request: u16) -> &Request {
        self.requests.get(u32::from(request))
    }

    /// The number of what was read.
    pub fn keep(&mut self, look: Look) -> u16 {
        u16::try_from(self.looks.of(look)).expect("few looks")
    }

    /// What was read.
    pub fn look(&self, look: u16) -> Look {
        *self.looks.get(u32::from(look))
    }

    /// What a round of this operator has to read.
    pub fn needs(&mut self, operator: &Operator, node: &Node) -> &Needs {
        let who = u64::from(operator.memory) << 5 | u64::from(operator.facts);
        let key = who << Node::BITS | node.bits();
        let (settings, memories) = (&self.settings, &self.memories);
        self.needs.entry(key).or_insert_with(|| {
            let view = (node.uid > 0).then(|| views::node_view(node, false));
            let memory = memories.get(operator.memory);
            needs(
                &settings[usize::from(operator.facts)],
                memory,
                view.as_ref(),
            )
        })
    }

    /// One round of the core over what was seen.
    pub fn round(&mut self, operator: &Operator, look: Look, free: u8) -> Round {
        let look = look.only(self.needs(operator, &look.node));
        let who =
            u64::from(operator.memory) << 9 | u64::from(operator.facts) << 4 | u64::from(free);
        let known = self
            .rounds
            .get(&who)
            .and_then(|rounds| rounds.get(&look.bits()));
        if let Some(round) = known {
            return *round;
        }
        let needs = self.needs(operator, &look.node).clone();
        let mut observed = look.observed(&self.incident, &needs);
        let mut memory = self.memories.get(operator.memory).clone();
        if let Some(mutation) = self.mutation {
            mutation.misread(&mut observed, &mut memory);
        }
        let moment = Moment {
            now: NOW,
            nonce: nonce(free),
            date: DATE.to_owned(),
        };
        let settings = &self.settings[usize::from(operator.facts)];
        let decision = step(settings, &mut memory, &observed, &moment);
        let awaits_more = memory::awaits_more(&memory);
        let act = self.act(decision.effect, &look, free);
        let round = Round {
            memory: self.remember(memory),
            act,
            awaits_more,
        };
        self.rounds
            .entry(who)
            .or_default()
            .insert(look.bits(), round);
        round
    }

    fn act(&mut self, effect: Effect, look: &Look, free: u8) -> Act {
        let patch = |kind, patch: NodePatch| (kind, patch.operations, Vec::new());
        let (kind, operations, pods) = match effect {
            Effect::Wait => return Act::Wait,
            Effect::Bind { .. } => unreachable!("the incident is bound"),
            Effect::RecordIntent(_) => return Act::Intent,
            Effect::RecordOn(_) => return Act::OnIntent,
            Effect::StoreEvidence(_) => return Act::Evidence,
            Effect::Close => return Act::Close,
            Effect::Device {
                order: DeviceOrder::Confirm { .. },
                ..
            } if self.mutation == Some(Mutation::EvictBeforeProve) => {
                let pods = views::pod_views(&self.incident, look.pods);
                let pods = pods.iter().map(views::pod_of).collect();
                (Kind::Evict, Value::Null, pods)
            }
            Effect::Device { order, .. } => {
                return match order {
                    DeviceOrder::ReadPower => Act::Look,
                    DeviceOrder::Off(_) => Act::Off,
                    DeviceOrder::On(_) => Act::On,
                    DeviceOrder::Confirm { window } => Act::Confirm {
                        long: window == views::LONG_WINDOW,
                    },
                };
            }
            Effect::Claim(it) => patch(Kind::Claim, it),
            Effect::DropClaim(it) => patch(Kind::DropClaim, it),
            Effect::Taint(it) => patch(Kind::Taint, it),
            Effect::Release(it) => patch(Kind::Release, it),
            Effect::Detach(_) => (Kind::Detach, Value::Null, Vec::new()),
            Effect::DeleteNode(_) => (Kind::DeleteNode, Value::Null, Vec::new()),
            Effect::Evict(eviction) => {
                let pods = eviction.pods.iter().map(views::pod_of).collect();
                (Kind::Evict, Value::Null, pods)
            }
        };
        let mut request = Request {
            kind,
            operations,
            pods,
            attachment: look.attachment.0 * u8::from(kind == Kind::Detach),
            as_read: look.node.as_read(kind == Kind::DeleteNode),
            uid: look.node.uid,
            claim: look.node.claim().unwrap_or_default(),
            sets: if kind == Kind::Claim { free } else { 0 },
        };
        if let Some(mutation) = self.mutation {
            mutation.garble(&mut request);
        }
        Act::Send(u16::try_from(self.requests.of(request)).expect("few requests"))
    }

    /// What the operator remembers after it has heard something, and whether it knows of a late command that it did not know of before.
    pub fn hear(&mut self, operator: &Operator, heard: Heard) -> (u32, bool) {
        let key = (operator.memory, operator.facts, heard);
        if let Some(known) = self.lessons.get(&key) {
            return *known;
        }
        let mut memory = self.memories.get(operator.memory).clone();
        let (asked, reply) = self.reply(heard);
        let settings = &self.settings[usize::from(operator.facts)];
        learn(settings, &mut memory, asked, reply, NOW);
        let lesson = (memory::awaits_more(&memory), self.remember(memory));
        let lesson = (lesson.1, lesson.0);
        self.lessons.insert(key, lesson);
        lesson
    }

    fn reply(&self, heard: Heard) -> (Asked, Reply) {
        let message = String::new;
        match heard {
            Heard::Done(write) => (write.asked(), Reply::Done),
            Heard::Refused(write) => (write.asked(), Reply::Refused(422, message())),
            Heard::Unknown(write) => (write.asked(), Reply::Unknown(message())),
            device => (Asked::Device, Reply::Device(1, self.device_reply(device))),
        }
    }

    fn device_reply(&self, heard: Heard) -> DeviceReply {
        match heard {
            Heard::Looked {
                is_on,
                since_drained,
                pods,
            } => {
                let asked = match since_drained {
                    true => views::JUST_NOW,
                    false => views::BEFORE_DRAINED,
                };
                views::looked(&self.incident, is_on, asked, pods)
            }
            Heard::Confirmed { is_off, long, pods } => {
                let window = match long {
                    true => views::LONG_WINDOW,
                    false => views::WINDOW,
                };
                views::confirmed(&self.incident, is_off, window, pods)
            }
            Heard::Commanded(off) => {
                let result = match off {
                    Off::NotSent => OffResult::NotSent(String::new()),
                    Off::Accepted => OffResult::Accepted,
                    Off::Needless => OffResult::AlreadyOff,
                    Off::Unknown => OffResult::Unknown(String::new()),
                };
                DeviceReply::Commanded {
                    answers: Vec::new(),
                    results: [(views::DEVICE.to_owned(), result)].into(),
                }
            }
            Heard::TurnedOn(is_sent) => DeviceReply::TurnedOn(crate::turned_on::answer(is_sent)),
            Heard::Done(_) | Heard::Refused(_) | Heard::Unknown(_) => unreachable!("no device"),
        }
    }

    /// The memory after something else than a round or an answer has changed it.
    pub fn changed(&mut self, memory: u32, change: Change) -> u32 {
        if let Some(known) = self.changes.get(&(memory, change)) {
            return *known;
        }
        let changed = memory::changed(self.memories.get(memory).clone(), change);
        let changed = self.remember(changed);
        self.changes.insert((memory, change), changed);
        changed
    }

    /// The Node after this patch, or none if one of its tests fails.
    pub fn patched(&mut self, request: u16, node: Node) -> Option<Node> {
        let key = (request, node);
        if let Some(known) = self.landings.get(&key) {
            return *known;
        }
        let patched = crate::server::patched(&self.request(request).operations, &node);
        self.landings.insert(key, patched);
        patched
    }
}

/// Puts new words in the place of old ones.
fn replace(value: &mut Value, old: &[String], new: &[String]) {
    match value {
        Value::String(message) => {
            if let Some(place) = old.iter().position(|old| old == message) {
                message.clone_from(&new[place]);
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|it| replace(it, old, new)),
        Value::Object(fields) => fields.values_mut().for_each(|it| replace(it, old, new)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
