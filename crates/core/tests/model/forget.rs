//! What an operator still remembers, and never asks again: left out where a configuration is too large for every test otherwise.
//!
//! That nothing hangs on it is the core's own doing, and what the core does is what the model is to show. So this is done only where the
//! configuration says so ([`World::forgets`]). All others keep everything, among them the same configuration in the soak; both ways it has
//! the same end, and each of the states that are left here stands for some of those there, and none is missing.
//!
//! [`World::forgets`]: crate::world::World::forgets

use crate::brain::Brain;
use crate::memory::Change;
use crate::state::State;

/// In `facts`: the record named a command that may still land.
const UNRESOLVED: u8 = 1 << 2;

/// Leaves out what neither operator asks again.
pub fn forget(brain: &mut Brain, s: &mut State) {
    for x in 0..s.operators.len() {
        let memory = s.operators[x].memory;
        // Of a command that may land the record is asked once (`core::plan::hydrate`); from then on the memory knows.
        if brain.meaning(memory).record_read {
            s.operators[x].facts &= !UNRESOLVED;
        }
        if is_superseded(brain, s, x) {
            s.operators[x].memory = brain.changed(memory, Change::Superseded);
        }
    }
}

/// It holds a claim that is not on the Node, nor on its way there, nor in what was read ahead. No nonce is drawn twice, so this one never
/// comes back, and what was learned under it goes with the next claim (`Memory::forget_claim`).
fn is_superseded(brain: &Brain, s: &State, x: usize) -> bool {
    let held = brain.meaning(s.operators[x].memory).claim;
    if held == 0 || s.node.claim() == Some(held) {
        return false;
    }
    let ahead = s.operators[x].ahead;
    if ahead != 0 && brain.look(ahead).node.claim() == Some(held) {
        return false;
    }
    let sent = s.operators.iter().map(|operator| operator.sent);
    let mut on_their_way = sent.chain(s.wire).filter(|request| *request != 0);
    !on_their_way.any(|request| brain.request(request).sets == held)
}
