//! Is the protocol safe, whatever happens in between? All of it is tried.
//!
//! Two operators act at the same time on one node: the real [`step`] and [`learn`] of the core decide, and their JSON Patches are really
//! applied. Around them everything that can happen does, at every moment and in every order: power comes and goes, the network breaks,
//! kubelets start pods, requests arrive late or never, operators die. `cargo test --test model -- --nocapture` prints what was explored.
//! What each file is for:
//!
//! - `world`: the rules of the cluster. `configurations`, `budget`: how often what may happen. `operator`, `requests`, `record`: how an operator acts on it.
//! - `incident`: what the incident is about. `power`: the machine and its commands. `life`: what tells of a living kubelet. `turned_on`: it is turned on again by its operator.
//! - `judge`: what must hold. `mutation`: what can be taken away. `mutants`: the model notices each.
//! - `state`, `pack`, `nonces`, `forget`, `explore`, `event`: one state, what makes no difference in it, all states, and how the way to one
//!   is told.
//! - `early`, `early_state`, `early_operator`, `early_guards`: a world of its own, before a machine is reported as off.
//! - `brain`, `talk`, `memory`, `views`, `server`: the real core, and the cluster in its types.
//!
//! [`step`]: fencing_core::plan::step
//! [`learn`]: fencing_core::reply::learn

mod brain;
mod budget;
mod configurations;
mod early;
mod early_guards;
mod early_operator;
mod early_state;
mod event;
mod explore;
mod forget;
mod incident;
mod judge;
mod life;
mod memory;
mod mutants;
mod mutation;
mod nonces;
mod operator;
mod pack;
mod power;
mod record;
mod requests;
mod server;
mod state;
mod talk;
mod turned_on;
mod views;
mod world;

use configurations::{of_every_test, of_the_soak, those_that_are_small};
use explore::{Explorer, Found};
use std::env;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;
use world::World;

/// States of one configuration in the soak, if `SOAK_STATES` says nothing else: enough for most of them to be explored to their end.
const SOAK_STATES: usize = 54_000_000;
/// All of them together have more than that, unless `SOAK_STATES` lowers it.
const SOAKED_MIN: usize = 100_000_000;

/// One line of the table, and the story if there is one.
fn row(world: &World, found: &Found, seconds: f64) -> String {
    let budget = &world.budget;
    let mut row = format!(
        "{:29} {:?} {}op on{} late{} crash{} del{} copy{} taint{} bind{} lie{} susp{} write{} offs{}{} | {:>10} states {:>11} steps depth {:>3} | {} violations {} stuck {:>6.1} s{}\n",
        world.name,
        world.incident.mode,
        1 + usize::from(world.two),
        budget.power_ons,
        budget.messages,
        budget.crashes,
        budget.deletions,
        budget.copies,
        budget.foreign_taints,
        budget.bindings,
        budget.lies,
        budget.suspends,
        budget.writes,
        budget
            .commands
            .map_or("-".to_owned(), |left| left.to_string()),
        if world.forgets { " forgets" } else { "" },
        found.states,
        found.transitions,
        found.depth,
        usize::from(found.broken.is_some()),
        found.stuck,
        seconds,
        if found.is_complete { "" } else { ", not all" },
    );
    if let Some((broken, story)) = &found.broken {
        row += &format!("{broken:?}: {}\n", broken.message());
        for (number, line) in (1..).zip(story) {
            row += &format!("{number:>4}. {line}\n");
        }
    }
    row
}

/// Explores these, two at a time, prints a row for each as it is done, and returns how many states there were.
#[expect(clippy::disallowed_methods, reason = "it says how long it took")]
fn explore_all(worlds: &[World], states_max: usize) -> Vec<Found> {
    let explore = |world: &World| {
        let begun = Instant::now();
        let found = Explorer::new(world, None).explore(states_max);
        let row = row(world, &found, begun.elapsed().as_secs_f64());
        // At once, and not at the end of the test.
        let _ = std::io::stderr().write_all(row.as_bytes());
        found
    };
    let next = AtomicUsize::new(0);
    let work = || -> Vec<Found> {
        let taken = || worlds.get(next.fetch_add(1, Ordering::Relaxed));
        std::iter::from_fn(taken).map(explore).collect()
    };
    thread::scope(|scope| {
        let other = scope.spawn(work);
        let mut found = work();
        found.extend(other.join().expect("an exploration"));
        found
    })
}

fn states(found: &[Found]) -> usize {
    found.iter().map(|found| found.states).sum()
}

#[test]
fn nothing_that_can_happen_breaks_the_protocol() {
    let found = explore_all(&of_every_test(), usize::MAX);
    let states = states(&found);
    let is_good = |found: &Found| found.broken.is_none() && found.stuck == 0 && found.is_complete;
    println!("{states} states");
    assert!(found.iter().all(is_good), "see the rows above");
    assert!(
        states >= 1_500_000,
        "{states} states are fewer than the protocol is owed"
    );
}

/// Where operators forget, the states are those that are left of all states if it is done there: none is missing, and none is new.
#[test]
fn what_operators_forget_hides_nothing() {
    for mut world in those_that_are_small() {
        let all = Explorer::new(&world, None).images().explore(usize::MAX);
        world.forgets = true;
        let forgetful = Explorer::new(&world, None).images();
        // What has the same number has to mean the same.
        let left = forgetful.knowing(all.brain).explore(usize::MAX);
        println!("{}: {} are left of {}", world.name, left.states, all.states);
        assert!(all.broken.is_none() && left.broken.is_none());
        assert!(left.states < all.states, "nothing is forgotten");
        assert!(all.images == left.images, "{}", world.name);
    }
}

/// `make soak`.
#[test]
#[ignore = "far more states than every run of the tests has time for; `make soak` runs it"]
fn nothing_breaks_the_protocol_in_a_hundred_million_states() {
    let states_max = env::var("SOAK_STATES").map_or(SOAK_STATES, |given| {
        let states = given.parse().ok().filter(|states: &usize| *states > 0);
        states.unwrap_or_else(|| {
            panic!("SOAK_STATES={given} is no number of states; say SOAK_STATES=20000000")
        })
    });
    let found = explore_all(&of_the_soak(), states_max);
    let states = states(&found);
    println!("{states} states");
    let is_good = |found: &Found| found.broken.is_none() && found.stuck == 0;
    assert!(found.iter().all(is_good), "see the rows above");
    assert!(
        states >= SOAKED_MIN || states_max < SOAK_STATES,
        "{states} states are fewer than {SOAKED_MIN}"
    );
}
