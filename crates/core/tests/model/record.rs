//! The NodeFence's status: who writes it, who reads it, and what becomes of an operator whose knowledge of it is old.
//!
//! A retelling of `src/shell/incident/round.rs`. Each write names the version that it is for, so it is done at once or refused; one that
//! is delayed until somebody else has written is a refused one.

use crate::brain::Brain;
use crate::event::{Event, Step};
use crate::memory::Change;
use crate::mutation::Mutation;
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
    s.operators[x].evidence = s.record.evidence;
    learn_facts(s, x);
    know(s, x);
}

/// What the core is told of the record.
fn learn_facts(s: &mut State, x: usize) {
    let record = &mut s.record;
    record
        .entries
        .iter_mut()
        .for_each(|entry| entry.known[x] = entry.is_there);
    let facts = [
        s.operators[x].evidence != 0,
        record.tainted,
        record.entries.iter().any(|entry| entry.open),
    ];
    let bits = facts.into_iter().rev();
    let operator = &mut s.operators[x];
    let contradictions = record.contradictions;
    operator.facts = bits.fold(contradictions, |bits, fact| bits << 1 | u8::from(fact));
}

fn know(s: &mut State, x: usize) {
    let operator = &mut s.operators[x];
    operator.current = true;
    operator.behind = false;
    operator.known_claim = s.record.claim;
}

/// Has the other process proven the machine down, and this one does not know it?
fn is_proven_by_another(brain: &Brain, s: &State, x: usize) -> bool {
    let operator = &s.operators[x];
    let known = [0, brain.meaning(operator.memory).claim, operator.evidence];
    brain.mutation != Some(Mutation::EvidenceUnread) && !known.contains(&s.record.evidence)
}

/// Does the record name a command or a proof that this process knows nothing of, or warn of a device that it would believe?
fn is_news(brain: &Brain, s: &State, x: usize) -> bool {
    let operator = &s.operators[x];
    let of_memory = brain.meaning(operator.memory).contradictions;
    let known = of_memory.max(operator.facts >> 3);
    let mut entries = s.record.entries.iter();
    let is_sent = entries.any(|entry| entry.is_there && !entry.known[x] && !entry.own[x]);
    is_sent || is_proven_by_another(brain, s, x) || s.record.contradictions > known
}

/// Takes the record as it is. Was there any news in it?
fn adopt(brain: &mut Brain, s: &mut State, x: usize) -> bool {
    let is_news = is_news(brain, s, x);
    if is_proven_by_another(brain, s, x) {
        s.operators[x].evidence = s.record.evidence;
    }
    if is_news {
        learn_facts(s, x);
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
    record.evidence = s.operators[x].evidence;
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
    let claim = brain.meaning(s.operators[x].memory).claim;
    let is_written = write(brain, s, x, |record| record.evidence = claim);
    if is_written {
        s.operators[x].evidence = claim;
    }
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

/// Another process is at work, and this one leaves the node alone for a while (`Observed::claim_of_other_process`): it reads the record, no more.
fn stands_by(brain: &mut Brain, s: &State, x: usize, steps: &mut Vec<Step>) {
    let mut next = *s;
    if !next.operators[x].begun {
        begin(&mut next, x);
    } else if next.operators[x].behind {
        catch_up(brain, &mut next, x);
    }
    if next != *s {
        steps.push(Step::new(Event::StandsBy(x), next, None));
    }
}

/// What happens between a process and the record besides its rounds.
pub fn steps(world: &World, brain: &mut Brain, s: &State, x: usize, steps: &mut Vec<Step>) {
    if s.record.ended && s.operators[x].begun {
        let mut next = *s;
        finish(&mut next, x);
        steps.push(Step::new(Event::HearsOfEnd(x), next, None));
    }
    if !world.stages || s.record.ended {
        return;
    }
    stands_by(brain, s, x, steps);
    let operator = &s.operators[x];
    if !operator.begun {
        return;
    }
    // A stage that lasts is written down; whoever knows an older record learns that by the refusal.
    let mut next = *s;
    let is_written = write(brain, &mut next, x, |_| {});
    let is_worth_it = next.record != s.record || (!is_written && !operator.behind);
    if is_worth_it {
        steps.push(Step::new(Event::WritesStage(x), next, None));
    }
}
