//! Every state that can be reached, in the order of its distance from the first one.
//!
//! Breadth first, so that the way to the first violation is a shortest one. A state that has been seen is known by a fingerprint of 128
//! bits (with a hundred million states the chance that two share one is below 1 in 10^22), and states themselves are kept only until
//! their successors have been looked at. At the end the graph is searched backwards: from where can no end be reached any more?

use crate::brain::Brain;
use crate::event::Step;
use crate::judge::{self, Broken};
use crate::mutation::Mutation;
use crate::state::State;
use crate::world::World;
use crate::{forget, operator, requests};
use std::collections::{HashSet, VecDeque};

/// What was found.
pub struct Found {
    /// States that were reached.
    pub states: usize,
    /// Steps between them.
    pub transitions: usize,
    /// Steps to the farthest.
    pub depth: usize,
    /// Whether all of it was seen; otherwise the limit was reached.
    pub is_complete: bool,
    /// States from which no end can be reached.
    pub stuck: usize,
    /// What is left of them if operators forget, see [`Explorer::images`].
    pub images: Option<HashSet<u128>>,
    /// What was asked of the core.
    pub brain: Brain,
    /// The first violation, and the way to it.
    pub broken: Option<(Broken, Vec<String>)>,
}

/// Numbers the fingerprints that it is shown, from 0 on.
struct Read {
    prints: Vec<u128>,
    /// Open addressing: the number of the fingerprint that lives there, and one.
    places: Vec<u32>,
}

impl Read {
    fn new() -> Self {
        Self {
            prints: Vec::new(),
            places: vec![0; 1 << 16],
        }
    }

    /// Its number, and whether it is new.
    fn number(&mut self, print: u128) -> (u32, bool) {
        if self.prints.len() * 2 >= self.places.len() {
            self.grow();
        }
        let place = self.place(print);
        match self.places[place] {
            0 => {
                self.prints.push(print);
                self.places[place] = u32::try_from(self.prints.len()).expect("below 2^32 states");
                (self.places[place] - 1, true)
            }
            number => (number - 1, false),
        }
    }

    fn place(&self, print: u128) -> usize {
        let mask = self.places.len() - 1;
        let mut place = print as usize & mask;
        while self.places[place] != 0 && self.prints[self.places[place] as usize - 1] != print {
            place = (place + 1) & mask;
        }
        place
    }

    fn grow(&mut self) {
        self.places = vec![0; self.places.len() * 2];
        for number in 0..self.prints.len() {
            let place = self.place(self.prints[number]);
            self.places[place] = u32::try_from(number + 1).expect("below 2^32 states");
        }
    }
}

fn fingerprint(s: &State) -> u128 {
    let mut print: u128 = 0x243f_6a88_85a3_08d3_1319_8a2e_0370_7344;
    for pair in s.message().chunks_exact(2) {
        let word = u128::from(pair[0]) << 64 | u128::from(pair[1]);
        print = (print ^ word).wrapping_mul(0x0fc9_4e3b_f4e9_ab32_8665_8ad2_9f1e_51a5);
        print ^= print >> 61;
        print = print.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        print ^= print >> 67;
    }
    print
}

/// Explores the world until all of it is known, or so many states, or the first violation.
pub struct Explorer<'a> {
    world: &'a World,
    brain: Brain,
    /// The one invariant that is looked at; none: all of them.
    only: Option<Broken>,
    images: Option<HashSet<u128>>,
    seen: Read,
    parents: Vec<u32>,
    /// The numbers of each state's successors, one state after the other.
    edges: Vec<u32>,
    /// How many each has.
    counts: Vec<u8>,
    /// From here an end can be reached.
    ends: Vec<bool>,
    /// The states that have not been looked at, in order.
    ahead: VecDeque<State>,
}

impl<'a> Explorer<'a> {
    /// An explorer that stands at the first state.
    pub fn new(world: &'a World, mutation: Option<Mutation>) -> Self {
        let mut explorer = Self {
            world,
            only: None,
            images: None,
            brain: Brain::new(world.incident, mutation),
            seen: Read::new(),
            parents: Vec::new(),
            edges: Vec::new(),
            counts: Vec::new(),
            ends: Vec::new(),
            ahead: VecDeque::new(),
        };
        explorer.reach(world.first(), 0);
        explorer
    }

    /// Looks at one invariant and lets the others go.
    pub fn only(mut self, broken: Broken) -> Self {
        self.only = Some(broken);
        self
    }

    /// Keeps what is left of each state if its operators forget ([`forget`]).
    pub fn images(mut self) -> Self {
        self.images = Some(HashSet::new());
        self
    }

    /// With what was asked of the core before.
    pub fn knowing(mut self, brain: Brain) -> Self {
        self.brain = brain;
        self
    }

    fn reach(&mut self, s: State, parent: u32) -> u32 {
        let (number, is_new) = self.seen.number(fingerprint(&s));
        if is_new {
            self.parents.push(parent);
            self.ends.push(judge::has_ended(&s));
            self.ahead.push_back(s);
        }
        number
    }

    /// Goes everywhere, as far as `states_max` allows.
    pub fn explore(mut self, states_max: usize) -> Found {
        let (mut broken, mut depth, mut last_of_depth) = (None, 0, 1);
        let mut steps = Vec::new();
        let mut number = 0;
        while let Some(s) = self.ahead.pop_front() {
            if let Some(images) = &mut self.images {
                let mut left = s;
                forget::forget(&mut self.brain, &mut left);
                left.settle(&mut self.brain);
                images.insert(fingerprint(&left));
            }
            steps.clear();
            successors(self.world, &mut self.brain, &s, &mut steps);
            let mut count = 0;
            for step in &steps {
                let next = self.reach(step.next, number);
                self.edges.push(next);
                count += 1;
                let counts = |what: &Broken| self.only.is_none_or(|only| only == *what);
                if let Some(what) = step.broken.filter(counts) {
                    broken = Some((what, self.story(number, Some(next))));
                }
                if broken.is_some() {
                    break;
                }
            }
            self.counts.push(count);
            number += 1;
            if broken.is_some() || self.seen.prints.len() > states_max {
                break;
            }
            if number == last_of_depth {
                last_of_depth = u32::try_from(self.seen.prints.len()).expect("below 2^32");
                depth += usize::from(!self.ahead.is_empty());
            }
        }
        let is_complete = self.ahead.is_empty();
        let stuck = match is_complete && broken.is_none() {
            true => self.stuck(),
            false => Vec::new(),
        };
        if let Some(first) = stuck.first() {
            broken = Some((Broken::L3, self.story(*first, None)));
        }
        Found {
            states: self.seen.prints.len(),
            transitions: self.edges.len(),
            depth,
            is_complete,
            stuck: stuck.len(),
            images: self.images,
            brain: self.brain,
            broken,
        }
    }

    /// The states from which no end can be reached: what can reach one is found by going over all steps until nothing is new.
    fn stuck(&mut self) -> Vec<u32> {
        loop {
            let mut is_done = true;
            let mut end = self.edges.len();
            for number in (0..self.counts.len()).rev() {
                let begin = end - usize::from(self.counts[number]);
                if !self.ends[number] {
                    let successors = &self.edges[begin..end];
                    let reaches = successors.iter().any(|next| self.ends[*next as usize]);
                    is_done &= !reaches;
                    self.ends[number] = reaches;
                }
                end = begin;
            }
            if is_done {
                break;
            }
        }
        let numbers = (0u32..).zip(&self.ends);
        numbers
            .filter(|(_, ends)| !**ends)
            .map(|(number, _)| number)
            .collect()
    }

    /// The way to a state, and one step further, in words.
    fn story(&mut self, number: u32, last: Option<u32>) -> Vec<String> {
        let mut way: Vec<u32> = last.into_iter().collect();
        let mut at = number;
        while at != 0 {
            way.push(at);
            at = self.parents[at as usize];
        }
        let mut s = self.world.first();
        let (mut lines, mut is_swapped) = (Vec::new(), false);
        for number in way.into_iter().rev() {
            let print = self.seen.prints[number as usize];
            let mut steps = Vec::new();
            successors(self.world, &mut self.brain, &s, &mut steps);
            let matches = |step: &&Step| fingerprint(&step.next) == print;
            // The last one may lead to a known state by a way that breaks nothing, too.
            let is_last = Some(number) == last;
            let breaks = |step: &&Step| matches(step) && is_last && step.broken.is_some();
            let step = steps.iter().find(breaks).or(steps.iter().find(matches));
            let step = step.expect("the way that was found");
            let mut after = step.next;
            if step.is_swapped {
                after.operators.swap(0, 1);
            }
            let told = step.event.message(&self.brain, &s, &after);
            lines.push(match is_swapped {
                true => exchanged(&told),
                false => told,
            });
            is_swapped ^= step.is_swapped;
            s = step.next;
        }
        lines
    }
}

/// The other operator's name: the two have changed places in the state, and not in the story.
fn exchanged(told: &str) -> String {
    let (a, b) = ("operator A", "operator B");
    let parts = told.split(a).map(|part| part.replace(b, a));
    parts.collect::<Vec<_>>().join(b)
}

/// Everything that can happen next.
fn successors(world: &World, brain: &mut Brain, s: &State, steps: &mut Vec<Step>) {
    world.steps(brain, s, steps);
    requests::late(brain, s, steps);
    for x in 0..s.operators.len() {
        operator::steps(world, brain, s, x, steps);
    }
    for step in steps {
        judge::note(world, s, &mut step.next);
        if world.forgets {
            forget::forget(brain, &mut step.next);
        }
        step.is_swapped = step.next.settle(brain);
        if judge::two_writers(world, &step.next) || judge::is_torn(world, s, &step.next) {
            step.broken = Some(Broken::S1);
        }
    }
}
