//! The NodeFence's status: who writes it, who reads it, and what becomes of an operator whose knowledge of it is old.
//!
//! A retelling of `src/shell/incident/round.rs`. Each write names the version that it is for, so it is done at once or refused; one that
//! is delayed until somebody else has written is a refused one.

use crate::brain::Brain;
use crate::event::{Event, Step};
use crate::memory::Change;
use crate::operator::{put_down, remember};
use crate::state::{Entry, Operator, Record, State};
use crate::talk::{Heard, Write};
use crate::world::World;

/// A process takes the incident up: what the record says is all that it knows.
pub fn begin(s: &mut State, x: usize) {
    if s.record.ended {
        finish(s, x);
        return;
    }
    s.operators[x] = Operator {
        begun: true,
        memory: Brain::NOTHING,
        ..Operator::default()
    };
    learn_record(s, x);
}

/// The incident is over for this process.
fn finish(s: &mut State, x: usize) {
    leave(s, x);
    s.operators[x] = Operator {
        finished: true,
        ..Operator::default()
    };
}

/// The process forgets what it knows.
fn leave(s: &mut State, x: usize) {
    put_down(s, x);
    s.operators[x] = Operator::default();
    s.commands
        .iter_mut()
        .for_each(|command| command.covered[x] = false);
    forget_entries(s, x);
}

/// The process knows nothing of the off commands in the record.
pub fn forget_entries(s: &mut State, x: usize) {
    for entry in &mut s.record.entries {
        (entry.own[x], entry.known[x], entry.settled[x]) = (false, false, false);
    }
}

/// The process knows the record as it stands.
fn learn_record(s: &mut State, x: usize) {
    let record = &mut s.record;
    record
        .entries
        .iter_mut()
        .for_each(|entry| entry.known[x] = entry.is_there);
    let facts = [
        record.evidence,
        record.tainted,
        record.entries.iter().any(|entry| entry.open),
    ];
    let bits = facts.into_iter().rev();
    let operator = &mut s.operators[x];
    let contradictions = record.contradictions;
    operator.facts = bits.fold(contradictions, |bits, fact| bits << 1 | u8::from(fact));
    know(s, x);
}

fn know(s: &mut State, x: usize) {
    let operator = &mut s.operators[x];
    operator.current = true;
    operator.behind = false;
    operator.known_claim = s.record.claim;
}

/// Does the record name a command that this process knows nothing of, or warn of a device that it would believe?
fn is_news(brain: &Brain, s: &State, x: usize) -> bool {
    let operator = &s.operators[x];
    let of_memory = brain.meaning(operator.memory).contradictions;
    let known = of_memory.max(operator.facts >> 3);
    let mut entries = s.record.entries.iter();
    let is_sent = entries.any(|entry| entry.is_there && !entry.known[x] && !entry.own[x]);
    is_sent || s.record.contradictions > known
}

/// Takes the record as it is. Was there any news in it?
fn adopt(brain: &mut Brain, s: &mut State, x: usize) -> bool {
    let is_news = is_news(brain, s, x);
    if is_news {
        learn_record(s, x);
        let theirs = s.record.entries.iter_mut().filter(|entry| !entry.own[x]);
        theirs.for_each(|entry| entry.settled[x] = false);
        let memory = brain.changed(s.operators[x].memory, Change::RecordUnread);
        remember(brain, s, x, memory, false);
    }
    know(s, x);
    is_news
}

/// After a write that was refused for its version: may this round go on?
pub fn catch_up(brain: &mut Brain, s: &mut State, x: usize) -> bool {
    if s.record.ended {
        finish(s, x);
        return false;
    }
    let meaning = brain.meaning(s.operators[x].memory);
    let theirs = s.record.claim;
    let is_taken = theirs != 0 && ![meaning.claim, s.operators[x].known_claim].contains(&theirs);
    if is_taken || (is_news(brain, s, x) && !meaning.tainted) {
        leave(s, x);
        return false;
    }
    adopt(brain, s, x);
    true
}

/// Before a process sees to a taint of another one, or releases: does it know the record? If not, it begins anew, or once more.
pub fn is_known(brain: &mut Brain, s: &mut State, x: usize) -> bool {
    if brain.meaning(s.operators[x].memory).last_check {
        return !adopt(brain, s, x);
    }
    if !s.operators[x].current {
        leave(s, x);
    }
    s.operators[x].begun
}

/// Writes the record, if its version is known; whoever else knows it knows an older one from then on.
fn write(brain: &Brain, s: &mut State, x: usize, change: impl FnOnce(&mut Record)) -> bool {
    if !s.operators[x].current {
        s.operators[x].behind = true;
        return false;
    }
    let meaning = brain.meaning(s.operators[x].memory);
    let record = &mut s.record;
    record.claim = meaning.claim;
    record.tainted |= meaning.tainted;
    record.contradictions = record.contradictions.max(meaning.contradictions);
    for entry in &mut record.entries {
        entry.open &= !entry.settled[x];
        entry.settled[x] = false;
    }
    change(record);
    s.operators[1 - x].current = false;
    know(s, x);
    true
}

fn outcome(is_written: bool, write: Write) -> Heard {
    match is_written {
        true => Heard::Done(write),
        false => Heard::Refused(write),
    }
}

/// An off command is written down before it is sent.
pub fn intent(brain: &Brain, s: &mut State, x: usize) -> Heard {
    let mut own = [false; 2];
    own[x] = true;
    let mut is_room = false;
    let is_written = write(brain, s, x, |record| {
        if let Some(free) = record.entries.iter_mut().find(|entry| !entry.is_there) {
            is_room = true;
            *free = Entry {
                is_there: true,
                open: true,
                known: own,
                own,
                settled: [false; 2],
            };
        }
    });
    // A full record is a bound of the model: the write is refused until an entry is closed.
    outcome(is_written && is_room, Write::Intent)
}

/// The evidence is stored.
pub fn evidence(brain: &Brain, s: &mut State, x: usize) -> Heard {
    let is_written = write(brain, s, x, |record| record.evidence = true);
    outcome(is_written, Write::Evidence)
}

/// The incident ends, and whatever is still open in the record is closed.
pub fn close(brain: &Brain, s: &mut State, x: usize) {
    let is_written = write(brain, s, x, |record| {
        record.ended = true;
        record.claim = 0;
        record.entries = Default::default();
    });
    if is_written {
        finish(s, x);
    }
}

/// What happens between a process and the record besides its rounds.
pub fn steps(world: &World, brain: &mut Brain, s: &State, x: usize, steps: &mut Vec<Step>) {
    if s.record.ended && s.operators[x].begun {
        let mut next = *s;
        finish(&mut next, x);
        steps.push(Step::new(Event::HearsOfEnd(x), next, None));
    }
    let operator = &s.operators[x];
    if !world.stages || !operator.begun || !operator.current || s.record.ended {
        return;
    }
    // A stage that lasts is written down.
    let mut next = *s;
    write(brain, &mut next, x, |_| {});
    let is_worth_it = next.record != s.record;
    if is_worth_it {
        steps.push(Step::new(Event::WritesStage(x), next, None));
    }
}
