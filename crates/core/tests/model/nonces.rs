//! How claims are called makes no difference: only which of them are the same.
//!
//! The core draws a nonce, and asks of two whether they are equal; it reads nothing else in them (but for the jitter of a pause, and
//! no pause lasts here). So of the states that differ in nothing but the names of their claims one is enough: the one in which they are
//! numbered as they are met on a fixed way through the state. Whatever can happen in one of them can happen in all, by other names.

use crate::brain::Brain;
use crate::state::{Node, Operator, State, Taint};

/// New names, by the old one; 0: none yet.
struct Names {
    new: [u8; 16],
    given: u8,
}

impl Names {
    fn of(&mut self, nonce: u8) -> u8 {
        let new = &mut self.new[usize::from(nonce)];
        if nonce != 0 && *new == 0 {
            self.given += 1;
            *new = self.given;
        }
        *new
    }
}

/// Calls the claims 1, 2, 3 in the order in which they are met.
pub fn rename(brain: &mut Brain, s: &mut State) {
    let mut names = Names {
        new: [0; 16],
        given: 0,
    };
    rename_on(&mut s.node, &mut names);
    s.record.claim = names.of(s.record.claim);
    s.record.evidence = names.of(s.record.evidence);
    for operator in &mut s.operators {
        rename_in(brain, operator, &mut names);
    }
    for request in &mut s.wire {
        *request = rename_request(brain, *request, &mut names);
    }
}

/// The first nonce that occurs nowhere: as good as one that nobody has ever used.
pub fn free(brain: &Brain, s: &State) -> u8 {
    let mut used: u16 = 1 | 1 << s.record.claim | 1 << s.record.evidence;
    used |= 1 << s.node.claim().unwrap_or_default();
    let mut sent = |request: u16| {
        if request != 0 {
            let request = brain.request(request);
            used |= 1 << request.claim | 1 << request.sets;
        }
    };
    s.wire.into_iter().for_each(&mut sent);
    s.operators.iter().for_each(|operator| sent(operator.sent));
    for operator in &s.operators {
        used |= 1 << brain.meaning(operator.memory).claim | 1 << operator.known_claim;
        used |= 1 << operator.evidence;
        if operator.ahead != 0 {
            used |= 1 << brain.look(operator.ahead).node.claim().unwrap_or_default();
        }
    }
    u8::try_from(used.trailing_ones()).expect("16 at most")
}

/// What is left of an operator if nobody knows how its claims are called.
pub fn hide(brain: &mut Brain, operator: &mut Operator) {
    let mut names = Names {
        new: [1; 16],
        given: 1,
    };
    names.new[0] = 0;
    rename_in(brain, operator, &mut names);
}

fn rename_on(node: &mut Node, names: &mut Names) {
    for taint in &mut node.taints {
        if let Some(nonce) = taint.nonce() {
            *taint = Taint::claim(names.of(nonce));
        }
    }
}

fn rename_in(brain: &mut Brain, operator: &mut Operator, names: &mut Names) {
    let held = brain.meaning(operator.memory).claim;
    if held != 0 {
        operator.memory = brain.memory_named(operator.memory, names.of(held));
    }
    operator.sent = rename_request(brain, operator.sent, names);
    operator.known_claim = names.of(operator.known_claim);
    operator.evidence = names.of(operator.evidence);
    if operator.ahead != 0 {
        let mut look = brain.look(operator.ahead);
        rename_on(&mut look.node, names);
        operator.ahead = brain.keep(look);
    }
}

fn rename_request(brain: &mut Brain, request: u16, names: &mut Names) -> u16 {
    if request == 0 {
        return 0;
    }
    let (claim, sets) = (brain.request(request).claim, brain.request(request).sets);
    let named = (names.of(claim), names.of(sets));
    match named == (claim, sets) {
        true => request,
        false => brain.request_named(request, named),
    }
}
