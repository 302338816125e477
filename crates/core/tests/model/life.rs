//! The signs of life that nothing but a running kubelet gives: it renews its Lease, and writes of its pods.

use crate::brain::Brain;
use crate::event::{Event, Step};
use crate::memory::Change;
use crate::operator;
use crate::state::State;
use crate::world::World;

/// What only a kubelet writes of a pod: once of each, which is enough for a list to differ from the one before.
pub fn writes_pods(s: &State, can: &mut impl FnMut(Event, bool, &dyn Fn(&mut State))) {
    for index in 0..s.pods.len() {
        let pod = &s.pods[index];
        let may_write = s.on && s.budget.writes > 0 && pod.is_on_node() && !pod.written;
        can(Event::WritesPod(index), may_write, &|n| {
            n.budget.writes -= 1;
            n.pods[index].written = true;
            for (wrote, operator) in n.ghost.wrote.iter_mut().zip(&n.operators) {
                *wrote |= operator.job.is_to_list();
            }
        });
    }
}

/// The Lease is renewed, and nothing else is written.
pub fn renews_lease(world: &World, brain: &mut Brain, s: &State, steps: &mut Vec<Step>) {
    if !s.on || s.node.uid == 0 {
        return;
    }
    let mut next = *s;
    renew_lease(brain, &mut next);
    if world.budget.lies > 0 || world.lies {
        next.ghost.renewed = next.operators.map(|it| brain.meaning(it.memory).claim != 0);
    }
    if next != *s {
        steps.push(Step::new(Event::RenewsLease, next, None));
    }
}

/// A renewal: whatever was the newest one until now has another name, one that the operator uses for nothing else.
fn renew_lease(brain: &mut Brain, s: &mut State) {
    for x in 0..s.operators.len() {
        let operator = s.operators[x];
        let held = brain.meaning(operator.memory).lease;
        let ahead = (operator.ahead != 0).then(|| brain.look(operator.ahead));
        let read = ahead.map(|look| look.lease);
        let free = (1..)
            .find(|name| held != Some(*name) && read != Some(*name))
            .unwrap_or(1);
        if held == Some(0) {
            let memory = brain.changed(operator.memory, Change::Lease(free));
            operator::remember(brain, s, x, memory, false);
        }
        if let Some(mut look) = ahead.filter(|look| look.lease == 0) {
            look.lease = free;
            s.operators[x].ahead = brain.keep(look);
        }
    }
}
