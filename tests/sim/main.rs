//! The operator in a world of its own, hundreds of times: what it does when everything around it goes wrong at once.
//!
//! The tasks that run here are the program's own (`shell::run::work`): caches, detector, incidents, prober, statuses, history. Around them
//! everything is made up: an API server in memory behind kube's client (crate `simapi`), machines with kubelets and BMCs, a
//! controller-manager and a CSI driver with the habits of the real ones, and time itself, which jumps from one event to the next, so that
//! a virtual hour takes seconds. All of it, time and randomness included ([`libc`]), follows from one number, the seed: a
//! seed that fails once fails always.
//!
//! Each seed draws a cluster, a policy and a few of the faults of `docs/faults.md` ([`plan`], [`faults`]); lets them happen; then makes
//! everything good again, and requires every NodeFence to end. Meanwhile [`judge`] holds every write and every command against the
//! invariants of `docs/protocol.md`, with the truth of the machines at hand.
//!
//! | to | run |
//! |---|---|
//! | read what happens in a seed | `make sim SEED=7` |
//! | see requests too, and the operator's own log | the same with `DETAIL=1`, and with `RUST_LOG=info` |
//! | play other seeds | `SEEDS=300..600 cargo test --test sim seeds -- --nocapture` |
//! | play 50,000, and 100,000 disturbances ([`disturbances`]) | `make soak` |
//!
//! Each seed has a process of its own, since some sources of chance (the order of tokio's and ahash's tables) are the process's.

mod bounds;
mod controllers;
mod device;
mod dice;
mod disturbances;
mod faults;
mod judge;
mod kubelet;
mod libc;
mod log;
mod many;
mod matrix;
mod network;
mod objects;
mod operator;
mod plan;
mod play;
mod process;
mod stage;
mod tally;
mod words;
mod world;

use log::Weight;
use std::env;
use std::ops::Range;

/// The seeds of `make test`.
const SEEDS: Range<u64> = 600..900;

/// All of them are judged.
const BOUNDS: [&str; 15] = [
    "L1",
    "L2",
    "L3",
    "L4 commands",
    "L4 successor",
    "L5",
    "L6",
    "L7",
    "L8",
    "S10 claim by hand",
    "S11 power-on",
    "S24 report",
    "S24 silence",
    "S9 attachment deleted",
    "S9 node deleted",
];

/// The one seed that somebody wants to read.
fn wanted() -> Option<u64> {
    let seed = env::var("SEED").ok()?;
    Some(
        seed.parse()
            .unwrap_or_else(|_| panic!("SEED={seed} is no number; say SEED=7")),
    )
}

fn seeds() -> Range<u64> {
    if let Some(seed) = wanted() {
        return seed..seed + 1;
    }
    let Ok(given) = env::var("SEEDS") else {
        return SEEDS;
    };
    let range = given.split_once("..").and_then(|(from, to)| {
        let range: Range<u64> = from.parse().ok()?..to.parse().ok()?;
        (!range.is_empty()).then_some(range)
    });
    range.unwrap_or_else(|| panic!("SEEDS={given} is no range of seeds; say SEEDS=300..600"))
}

#[test]
fn three_hundred_seeds_break_nothing_and_come_to_an_end() {
    let seeds = seeds();
    let summary = many::play(seeds.clone());
    println!("{summary}");
    assert!(summary.violations.is_empty(), "{summary}");
    if seeds.end - seeds.start >= SEEDS.end - SEEDS.start {
        let never = faults::all()
            .into_iter()
            .filter(|fault| !summary.faults.contains_key(*fault));
        assert_eq!(
            never.collect::<Vec<_>>(),
            Vec::<&str>::new(),
            "never happened: {summary}"
        );
        let bounds: Vec<&str> = summary.bounds.keys().map(String::as_str).collect();
        assert_eq!(bounds, BOUNDS, "judged: {summary}");
        assert!(
            summary.tainted > 0,
            "no node was ever put out of service: {summary}"
        );
    }
}

#[test]
fn a_seed_is_replayed_byte_for_byte() {
    let seeds = wanted().map_or_else(|| vec![3, 4, 5, 6], |seed| vec![seed]);
    for seed in seeds {
        let (one, other) = (many::whole_log(seed), many::whole_log(seed));
        assert!(one.lines().count() > 100, "{one}");
        let differs = one
            .lines()
            .zip(other.lines())
            .find(|(one, other)| one != other);
        assert_eq!(differs, None, "seed {seed}");
        assert_eq!(one.len(), other.len(), "seed {seed}");
    }
    assert_ne!(many::whole_log(3), many::whole_log(4));
}

/// Prints what happens in seed `SEED`; without it, looks whether the story of a seed is told.
#[test]
fn timeline() {
    let seed = wanted();
    let story = many::story(seed.unwrap_or(1));
    if seed.is_some() {
        println!("{story}");
        return;
    }
    for word in [
        "PLAN",
        "its power fails",
        "is Unknown",
        "all is made good again",
        "says Ready",
    ] {
        assert!(story.contains(word), "nothing is told of `{word}`: {story}");
    }
}

/// S24: as many more as `make soak` has seeds. What is printed is to be read in docs/figures.md.
#[test]
fn seeds_of_disturbances_report_no_machine_that_runs() {
    if wanted().is_some() {
        return;
    }
    let seeds = seeds();
    let is_soak = seeds.end - seeds.start > 2 * (SEEDS.end - SEEDS.start);
    let least = if is_soak { disturbances::GOAL } else { 700 };
    let found = disturbances::play(least);
    println!("{found}");
    assert!(found.violations.is_empty(), "{found}");
    assert!(found.disturbances() >= least, "{found}");
    // It is no proof where nobody is suspected, or where nobody would be reported.
    assert!(found.silences() > 50 && found.reports() > 3, "{found}");
}

/// Not a check of its own: `seeds_of_disturbances_report_no_machine_that_runs` starts it once for each run, since a process has one virtual clock, and
/// judges what it prints.
#[test]
#[ignore = "seeds_of_disturbances_report_no_machine_that_runs starts it, in a process of its own"]
fn one_run_of_disturbances() {
    if let Ok(filter) = env::var("RUST_LOG") {
        let log = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_ansi(false);
        log.init();
    }
    disturbances::one_run();
}

#[test]
#[ignore = "the other tests run it, in a process of its own for each seed"]
fn one_seed() {
    let Some(seed) = env::var(many::SEED).ok().and_then(|seed| seed.parse().ok()) else {
        panic!("{} is not set", many::SEED);
    };
    if let Ok(filter) = env::var("RUST_LOG") {
        let log = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_ansi(false);
        log.init();
    }
    let (outcome, log) = play::play(seed);
    match env::var(process::LOG).as_deref() {
        Ok("story") => print!("{}{}", process::MARK, log.text(Weight::Story)),
        Ok(_) => print!("{}{}", process::MARK, log.text(Weight::Detail)),
        Err(_) => {}
    }
    println!(
        "{}{}",
        process::MARK,
        serde_json::to_string(&outcome).expect("JSON")
    );
}
