//! What a process of the operator does: its rounds, its requests, its work with the device, its death.
//!
//! Two of them act at any time, and neither knows of the other but by what stands in the cluster. Their decisions are the real core's;
//! what is retold here is only how the shell carries them out (`src/shell/incident`, `src/shell/jobs.rs`).

use crate::brain::Brain;
use crate::event::{Event, Step};
use crate::judge::{self, Broken};
use crate::memory::Change;
use crate::mutation::Mutation;
use crate::nonces;
use crate::power::spend_accepted;
use crate::state::{Command, Confirm, Entry, Job, Operator, Pod, State};
use crate::talk::{Act, Heard, Kind, Off, Write};
use crate::views::{Look, listed};
use crate::world::World;
use crate::{record, requests, turned_on};

/// What a round would read at this moment.
pub fn look(s: &State) -> Look {
    Look {
        node: s.node,
        pods: listed(&s.pods),
        attached: s.volume == crate::state::Volume::Here,
        attachment: (s.attachment, s.leaving),
        evidence: s.node.claim() == Some(s.record.evidence),
        lease: 0,
    }
}

/// Everything that a process may do next, and that may happen to it.
pub fn steps(world: &World, brain: &mut Brain, s: &State, x: usize, steps: &mut Vec<Step>) {
    let operator = &s.operators[x];
    if operator.finished {
        return;
    }
    if operator.sent == 0 {
        if let Some((next, broken)) = round(world, brain, s, x) {
            steps.push(Step::new(Event::Round(x), next, broken));
        }
        record::steps(world, brain, s, x, steps);
    } else {
        requests::answered(brain, s, x, steps);
    }
    if operator.begun {
        device(brain, s, x, steps);
        passing(world, brain, s, x, steps);
    }
}

/// One round: everything is read at once, the core decides, and its decision is begun to be carried out.
fn round(world: &World, brain: &mut Brain, s: &State, x: usize) -> Option<(State, Option<Broken>)> {
    let mut next = *s;
    if !next.operators[x].begun {
        record::begin(&mut next, x);
        if next.operators[x].finished {
            return Some((next, None));
        }
    }
    if next.operators[x].behind && !record::catch_up(brain, &mut next, x) {
        return Some((next, None));
    }
    let mut look = look(s);
    let ahead = std::mem::take(&mut next.operators[x].ahead);
    if ahead != 0 {
        look = brain.look(ahead);
        look.evidence = look.node.claim() == Some(s.record.evidence);
    }
    let reads_record = brain.needs(&next.operators[x], &look.node).record;
    if reads_record && !record::is_known(brain, &mut next, x) {
        return Some((next, None));
    }
    let free = nonces::free(brain, &next);
    let round = brain.round(&next.operators[x], look, free);
    remember(brain, &mut next, x, round.memory, round.awaits_more);
    let broken = act(brain, &mut next, x, round.act, s);
    if !world.reads_ahead {
        next.operators[x].ahead = 0;
    }
    let mut settled = next;
    settled.settle(brain);
    (settled != *s).then_some((next, broken))
}

/// The operator remembers this from now on.
pub fn remember(brain: &Brain, s: &mut State, x: usize, memory: u32, awaits_more: bool) {
    let (before, after) = (brain.meaning(s.operators[x].memory), brain.meaning(memory));
    s.operators[x].memory = memory;
    s.ghost.renewed[x] &= after.claim != 0;
    s.ghost.wrote[x] &= after.claim != 0;
    if awaits_more {
        let commands = s.commands.iter_mut().filter(|command| command.is_there);
        commands.for_each(|command| command.covered[x] = true);
    }
    if !after.may_land {
        s.commands
            .iter_mut()
            .for_each(|command| command.covered[x] = false);
    }
    if !after.busy {
        put_down(s, x);
    }
    if let Job::Look { since_drained } = &mut s.operators[x].job {
        let is_same = before.emptied == after.emptied;
        *since_drained &= before.drained && after.drained && is_same;
    }
    for entry in s.record.entries.iter_mut().filter(|entry| entry.own[x]) {
        entry.settled[x] |= after.is_settled && entry.open;
    }
    if !after.attempt {
        s.record
            .entries
            .iter_mut()
            .for_each(|entry| entry.own[x] = false);
    }
}

/// Its work with the device is given up; a command that has left stays on its way.
pub fn put_down(s: &mut State, x: usize) {
    s.operators[x].job = Job::None;
    s.commands
        .iter_mut()
        .for_each(|command| command.awaited[x] = false);
}

fn act(brain: &mut Brain, s: &mut State, x: usize, act: Act, before: &State) -> Option<Broken> {
    let heard = match act {
        Act::Wait => return None,
        Act::Send(request) => {
            s.operators[x].sent = request;
            let kind = brain.request(request).kind;
            if kind == Kind::Evict {
                s.operators[x].ahead = brain.keep(look(before));
            }
            return judge::sent(before, x, kind);
        }
        Act::Look => {
            put_down(s, x);
            let since_drained = brain.meaning(s.operators[x].memory).drained;
            s.operators[x].job = Job::Look { since_drained };
            return None;
        }
        Act::Confirm { long } => {
            put_down(s, x);
            s.operators[x].job = Job::Confirm {
                long,
                progress: Confirm::Begun,
                pods: [0; 2],
            };
            (s.ghost.renewed[x], s.ghost.wrote[x]) = (false, false);
            return None;
        }
        Act::Off | Act::On => {
            put_down(s, x);
            s.operators[x].job = turned_on::prepared(act);
            return None;
        }
        Act::OnIntent => Heard::Done(Write::OnIntent),
        Act::Intent => match brain.mutation {
            Some(Mutation::OffBeforeIntent) => Heard::Done(Write::Intent),
            _ => record::intent(brain, s, x),
        },
        Act::Evidence => {
            if brain.meaning(s.operators[x].memory).evicts_next {
                s.operators[x].ahead = brain.keep(look(before));
            }
            match brain.mutation {
                Some(Mutation::TaintBeforeEvidence) => Heard::Done(Write::Evidence),
                _ => record::evidence(brain, s, x),
            }
        }
        Act::Close => {
            record::close(brain, s, x);
            return None;
        }
    };
    if !matches!(heard, Heard::Done(_)) {
        s.operators[x].ahead = 0;
    }
    hear(brain, s, x, heard);
    None
}

/// It hears what came of what it has begun.
pub fn hear(brain: &mut Brain, s: &mut State, x: usize, heard: Heard) {
    let (memory, awaits_more) = brain.hear(&s.operators[x], heard);
    remember(brain, s, x, memory, awaits_more);
}

/// What the device answers to the work that is under way.
fn device(brain: &mut Brain, s: &State, x: usize, steps: &mut Vec<Step>) {
    let reads_off = s.reads_off();
    let mut answered = |brain: &mut Brain, event: Event, heard: Heard| {
        let mut next = *s;
        next.operators[x].ahead = 0;
        hear(brain, &mut next, x, heard);
        steps.push(Step::new(event, next, None));
    };
    match s.operators[x].job {
        Job::None => {}
        Job::Look { since_drained } => {
            let has_claim = brain.meaning(s.operators[x].memory).claim != 0;
            let heard = Heard::Looked {
                is_on: !reads_off && brain.mutation != Some(Mutation::LookBelieved),
                since_drained: since_drained || !brain.meaning(s.operators[x].memory).drained,
                pods: (!has_claim).then(|| listed(&s.pods)),
            };
            answered(brain, Event::Looked(x), heard);
        }
        Job::Confirm {
            long,
            progress,
            pods,
        } => {
            if !reads_off && brain.mutation == Some(Mutation::TaintWithoutProof) {
                let heard = Heard::Confirmed {
                    is_off: true,
                    long,
                    pods: Some(listed(&s.pods)),
                };
                answered(brain, Event::OffAgain(x), heard);
            } else if !reads_off && progress == Confirm::Begun {
                let heard = Heard::Confirmed {
                    is_off: false,
                    long,
                    pods: None,
                };
                answered(brain, Event::NotOffInTime(x), heard);
            }
            if reads_off && progress != Confirm::Begun {
                let in_time = progress == Confirm::Listed;
                let heard = Heard::Confirmed {
                    is_off: true,
                    long,
                    pods: in_time.then_some(pods),
                };
                answered(brain, Event::OffAgain(x), heard);
            }
            reading(s, x, steps);
        }
        Job::OffPrepared => leave(brain, s, x, steps),
        Job::OnPrepared => turned_on::leaves(brain, s, x, steps),
        Job::OffSent => {
            answered(brain, Event::NoAnswer(x), Heard::Commanded(Off::Unknown));
            accepted(brain, s, x, steps);
            already_off(brain, s, x, steps);
        }
    }
}

/// The device says that it has taken the command, which may have taken effect by then or not.
fn accepted(brain: &mut Brain, s: &State, x: usize, steps: &mut Vec<Step>) {
    let mut next = *s;
    let sent = next
        .commands
        .iter_mut()
        .filter(|command| command.awaited[x]);
    sent.for_each(|command| command.accepted = true);
    spend_accepted(&mut next);
    hear(brain, &mut next, x, Heard::Commanded(Off::Accepted));
    steps.push(Step::new(Event::Accepted(x), next, None));
}

/// The command arrives at a machine that is off, and its device says so: nothing of it is still to come.
fn already_off(brain: &mut Brain, s: &State, x: usize, steps: &mut Vec<Step>) {
    let mut next = *s;
    let mut commands = next.commands.iter_mut();
    let sent = commands.find(|command| command.awaited[x] && !command.landed);
    if let (false, Some(command)) = (s.on, sent) {
        command.landed = true;
        hear(brain, &mut next, x, Heard::Commanded(Off::Needless));
        steps.push(Step::new(Event::AlreadyOff(x), next, None));
    }
}

/// Readings for a proof go on: off for the first time, the list of pods after it, and from the beginning if it is on again.
fn reading(s: &State, x: usize, steps: &mut Vec<Step>) {
    let Job::Confirm { long, progress, .. } = s.operators[x].job else {
        return;
    };
    let (event, progress, pods) = match (progress, s.reads_off()) {
        (Confirm::Begun, true) => (Event::OffOnce(x), Confirm::OffOnce, [0; 2]),
        (Confirm::OffOnce, true) => (Event::Listed(x), Confirm::Listed, listed(&s.pods)),
        (Confirm::OffOnce | Confirm::Listed, false) => (Event::OnAgain(x), Confirm::Begun, [0; 2]),
        _ => return,
    };
    let mut next = *s;
    // Of a pod that is gone nothing is listed, and whoever has deleted it may have done so by force.
    let shows = |pod: &Pod| pod.is_on_node() && pod.written;
    next.ghost.wrote[x] &= progress != Confirm::Listed || s.pods.iter().any(shows);
    next.operators[x].job = Job::Confirm {
        long,
        progress,
        pods,
    };
    steps.push(Step::new(event, next, None));
}

/// Right before an off command leaves, the claim is read once more.
fn leave(brain: &mut Brain, s: &State, x: usize, steps: &mut Vec<Step>) {
    let held = brain.meaning(s.operators[x].memory);
    let node = &s.node;
    let is_claimed = node.uid == 1
        && node.claim() == Some(held.claim)
        && node.boot == held.boot
        && (!node.ready || node.is_marked());
    let is_checked = brain.mutation != Some(Mutation::OffWithoutClaim);
    let mut next = *s;
    if !is_claimed && is_checked {
        hear(brain, &mut next, x, Heard::Commanded(Off::NotSent));
        steps.push(Step::new(Event::OffNotSent(x), next, None));
        return;
    }
    let mut entries = s.record.entries.iter();
    let is_written = entries.any(|entry| entry.own[x] && entry.open);
    let broken = (!is_claimed || !is_written).then_some(Broken::S11);
    match &mut next.budget.commands {
        Some(0) => {
            let (event, off) = match s.on {
                true => (Event::Refuses(x), Off::NotSent),
                false => (Event::AlreadyOff(x), Off::Needless),
            };
            hear(brain, &mut next, x, Heard::Commanded(off));
            steps.push(Step::new(event, next, broken));
            return;
        }
        Some(left) => *left -= 1,
        None => {}
    }
    let Some(free) = next.commands.iter_mut().find(|command| !command.is_there) else {
        return;
    };
    *free = Command {
        is_there: true,
        ..Command::default()
    };
    free.awaited[x] = true;
    // Whoever has read that it is written down waits for as long as it may take to be sent, too (`core::plan::hydrate`).
    let is_known = |entry: &Entry| entry.own[x] && entry.open && entry.known[1 - x];
    let waits = brain.meaning(s.operators[1 - x].memory).may_land;
    free.covered[1 - x] = waits && s.record.entries.iter().any(is_known);
    next.operators[x].job = Job::OffSent;
    steps.push(Step::new(Event::OffLeaves(x), next, broken));
}

/// Time passes for an operator, or it dies.
fn passing(world: &World, brain: &mut Brain, s: &State, x: usize, steps: &mut Vec<Step>) {
    let operator = &s.operators[x];
    let meaning = brain.meaning(operator.memory);
    let other = brain.meaning(s.operators[1 - x].memory);
    let mut commands = s.commands.iter();
    // Whoever knows of a command waits as long as it may take: to be sent by a process that has written it down, and to land.
    let may_land = commands.any(|it| it.is_there && it.covered[x]) || other.is_unsent;
    let over = match brain.mutation {
        Some(Mutation::ReleaseBeforeLateOff) => meaning.may_land,
        _ => meaning.may_land && !may_land,
    };
    for (passes, change) in [
        (over, Change::LateEffect),
        (meaning.looked_just_now, Change::Look),
        (world.proofs_die && meaning.proven_just_now, Change::Proof),
        (meaning.turns_on, Change::PowerOnOver),
    ] {
        if passes {
            let mut next = *s;
            let memory = brain.changed(operator.memory, change);
            remember(brain, &mut next, x, memory, false);
            steps.push(Step::new(Event::Passes(x, change), next, None));
        }
    }
    if s.operators[x].ahead != 0 && operator.sent == 0 {
        let mut next = *s;
        next.operators[x].ahead = 0;
        steps.push(Step::new(Event::ReadsAnew(x), next, None));
    }
    if s.budget.crashes > 0 {
        let mut next = *s;
        next.budget.crashes -= 1;
        let request = next.operators[x].sent;
        put_down(&mut next, x);
        next.operators[x] = Operator::default();
        for command in &mut next.commands {
            command.covered[x] = false;
        }
        record::forget_entries(&mut next, x);
        // If there is no room for it, it was lost with its sender.
        requests::put_on_wire(&mut next, request);
        steps.push(Step::new(Event::Dies(x), next, None));
    }
}
