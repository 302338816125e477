//! A state as a few words without gaps, and in one of the many orders that mean the same.
//!
//! Requests on their way have no order, it makes no difference which of the two operators is called A, nor which nonce is which
//! ([`nonces`]). Each such difference that is left out at least halves the number of states.

use crate::brain::Brain;
use crate::nonces;
use crate::state::{Command, ENTRIES, Entry, Job, Node, Operator, State};
use std::cmp::Ordering;

/// Puts small numbers side by side into words.
struct Packer {
    message: [u64; 6],
    at: usize,
    used: u32,
}

impl Packer {
    fn put(&mut self, value: u64, bits: u32) {
        debug_assert!(value < 1 << bits, "{value} has no room in {bits} bits");
        if self.used + bits > 64 {
            self.at += 1;
            self.used = 0;
        }
        self.message[self.at] |= value << self.used;
        self.used += bits;
    }

    fn flags(&mut self, flags: &[bool]) {
        for flag in flags {
            self.put(u64::from(*flag), 1);
        }
    }
}

impl State {
    /// The state without gaps: two states are the same if these words are.
    pub fn message(&self) -> [u64; 6] {
        let mut packer = Packer {
            message: [0; 6],
            at: 0,
            used: 0,
        };
        let p = &mut packer;
        p.put(self.node.bits(), Node::BITS);
        p.flags(&[self.on, self.suspended, self.lies, self.deceived]);
        p.put(u64::from(self.boot), 3);
        for pod in &self.pods {
            p.put(pod.object as u64, 2);
            p.put(pod.container as u64, 2);
            p.put(u64::from(pod.generation), 2);
            p.flags(&[pod.written]);
        }
        p.put(self.volume as u64, 2);
        p.put(u64::from(self.attachment), 2);
        p.flags(&[self.leaving]);
        let ghost = &self.ghost;
        p.flags(&[ghost.dark, ghost.released_well]);
        p.flags(&ghost.renewed);
        p.flags(&ghost.wrote);
        p.put(u64::from(ghost.claimed_boot), 3);
        self.pack_record(p);
        for operator in &self.operators {
            operator.pack(p);
        }
        for request in self.wire {
            p.put(u64::from(request), 12);
        }
        for command in &self.commands {
            p.flags(&[command.is_there, command.accepted, command.landed]);
            p.flags(&command.awaited);
            p.flags(&command.covered);
        }
        let left = &self.budget;
        for number in [
            left.power_ons,
            left.crashes,
            left.deletions,
            left.copies,
            left.foreign_taints,
            left.bindings,
            left.messages,
            left.lies,
            left.suspends,
            left.writes,
        ] {
            p.put(u64::from(number), 2);
        }
        p.put(left.commands.map_or(0, |left| u64::from(left) + 1), 3);
        packer.message
    }

    fn pack_record(&self, p: &mut Packer) {
        let record = &self.record;
        p.flags(&[record.ended, record.tainted]);
        p.put(u64::from(record.evidence), 4);
        p.put(u64::from(record.contradictions), 2);
        p.put(u64::from(record.claim), 4);
        for entry in &record.entries {
            p.flags(&[entry.is_there, entry.open]);
            p.flags(&entry.known);
            p.flags(&entry.own);
            p.flags(&entry.settled);
        }
    }

    /// Two states that differ only in the order of what has none, or in how claims are called, become the same. Were the operators
    /// exchanged?
    pub fn settle(&mut self, brain: &mut Brain) -> bool {
        self.leave_out();
        let [one, other] = self.operators;
        let order = one.at_a_glance().cmp(&other.at_a_glance());
        let is_swapped = match order.then_with(|| one.key(brain).cmp(&other.key(brain))) {
            Ordering::Less => true,
            Ordering::Greater => false,
            // What tells them apart is what others note about them.
            Ordering::Equal => {
                let (mut one, mut other) = (*self, *self);
                other.exchange();
                one.arrange(brain);
                other.arrange(brain);
                one.message() < other.message()
            }
        };
        if is_swapped {
            self.exchange();
        }
        self.arrange(brain);
        is_swapped
    }

    /// Without what is nobody's concern any more.
    fn leave_out(&mut self) {
        for command in &mut self.commands {
            if command.landed && command.awaited == [false; 2] {
                *command = Command::default();
            }
        }
        for entry in &mut self.record.entries {
            let is_missed = entry.open || entry.known != [true; 2] || entry.own != [false; 2];
            if !is_missed {
                *entry = Entry::default();
            }
        }
        // Of two that differ in nothing, and that are nobody's concern, one says as much.
        for index in 1..ENTRIES {
            let entry = self.record.entries[index];
            let is_same = self.record.entries[..index].contains(&entry);
            if is_same && entry.own == [false; 2] {
                self.record.entries[index] = Entry::default();
            }
        }
        for index in 0..ENTRIES {
            if self.is_said_elsewhere(index) {
                self.record.entries[index] = Entry::default();
            }
        }
    }

    /// Of an entry that is closed and nobody's concern it is only asked who has not read it (`record::is_news`). Another one that the
    /// same operators have not read says as much, for good: an operator reads all entries at one moment, and forgets all at one moment.
    fn is_said_elsewhere(&self, index: usize) -> bool {
        let entries = &self.record.entries;
        let is_only_news = |it: &Entry| it.is_there && !it.open && it.own == [false; 2];
        let entry = &entries[index];
        let says_it = |(at, it): (usize, &Entry)| {
            let is_unread = (0..2).all(|x| entry.known[x] || !it.known[x]);
            let is_later_one = at > index && is_only_news(it) && it.known == entry.known;
            at != index && it.is_there && is_unread && !is_later_one
        };
        is_only_news(entry) && entries.iter().enumerate().any(says_it)
    }

    /// A becomes B, and B becomes A.
    fn exchange(&mut self) {
        self.operators.swap(0, 1);
        self.ghost.renewed.swap(0, 1);
        self.ghost.wrote.swap(0, 1);
        for command in &mut self.commands {
            command.awaited.swap(0, 1);
            command.covered.swap(0, 1);
        }
        for entry in &mut self.record.entries {
            entry.known.swap(0, 1);
            entry.own.swap(0, 1);
            entry.settled.swap(0, 1);
        }
    }

    fn arrange(&mut self, brain: &mut Brain) {
        self.wire.sort_unstable_by(|a, b| b.cmp(a));
        nonces::rename(brain, self);
        self.wire.sort_unstable_by(|a, b| b.cmp(a));
        self.commands.sort_unstable_by(|a, b| b.cmp(a));
        self.record.entries.sort_unstable_by(|a, b| b.cmp(a));
    }
}

impl Operator {
    /// A smaller number that is cheap and tells most of them apart.
    fn at_a_glance(&self) -> u16 {
        let flags = [
            self.begun,
            self.finished,
            self.current,
            self.behind,
            self.sent == 0,
        ];
        let kind = match self.job {
            Job::None => 0,
            Job::Look { .. } => 1,
            Job::Confirm { progress, .. } => 2 + progress as u16,
            Job::OffPrepared => 5,
            Job::OffSent => 6,
            Job::OnPrepared => 7,
        };
        let bits = kind << 8 | u16::from(self.facts);
        flags
            .iter()
            .fold(bits, |bits, flag| bits << 1 | u16::from(*flag))
    }

    /// A number that tells two processes apart, if anything does but how their claims are called, and what others note about them.
    fn key(mut self, brain: &mut Brain) -> [u64; 6] {
        nonces::hide(brain, &mut self);
        let mut packer = Packer {
            message: [0; 6],
            at: 0,
            used: 0,
        };
        self.pack(&mut packer);
        packer.message
    }

    fn pack(&self, p: &mut Packer) {
        p.put(u64::from(self.memory), 20);
        p.put(u64::from(self.sent), 12);
        p.put(u64::from(self.ahead), 10);
        p.flags(&[self.begun, self.finished, self.current, self.behind]);
        p.put(u64::from(self.facts), 5);
        p.put(u64::from(self.known_claim), 4);
        p.put(u64::from(self.evidence), 4);
        let (kind, more) = match self.job {
            Job::None => (0, 0),
            Job::Look { since_drained } => (1, u64::from(since_drained)),
            Job::Confirm {
                long,
                progress,
                pods: [one, other],
            } => {
                let progress = progress as u64;
                let pods = u64::from(one) << 5 | u64::from(other);
                (2, pods << 3 | progress << 1 | u64::from(long))
            }
            Job::OffPrepared => (3, 0),
            Job::OffSent => (4, 0),
            Job::OnPrepared => (5, 0),
        };
        p.put(kind, 3);
        p.put(more, 13);
    }
}
