//! Does a test notice when a guard of the protocol goes missing? Each entry of `list.txt` is a mutant: it takes one away, and is caught if a
//! test of its part fails, as it has to, and has survived if none does.
//!
//! `make mutants` tries them all in one build of a copy of the sources, in which each is behind a switch ([`switch`]); what cannot be switched gets a
//! build of its own. `make cargo-mutants` does the same with whatever cargo-mutants changes in some files. `make test` only looks whether every
//! entry still finds its guard, and every survivor of cargo-mutants (`survivors.txt`) its function.

#![allow(
    clippy::disallowed_methods,
    reason = "it measures how long a mutant takes"
)]

mod cargo_mutants;
mod judge;
mod row;
mod sources;
mod switch;
mod tokens;
mod workspace;

use judge::{Mutant, Verdict, judge};
use row::Change;
use sources::Sources;
use std::path::Path;
use workspace::suites;

const LIST: &str = include_str!("list.txt");
/// Those that the simulation has to catch.
const OF_SIMULATION: &str = include_str!("simulation.txt");

/// A guard, and how to take it away.
struct Row {
    /// The file beside this one that has it.
    list: &'static str,
    /// The invariant of docs/protocol.md that it serves, and what it does.
    guard: &'static str,
    place: &'static str,
    change: Change,
}

fn rows() -> Vec<Row> {
    let mut all = listed("list.txt", LIST);
    all.extend(listed("simulation.txt", OF_SIMULATION));
    all
}

fn listed(list: &'static str, text: &'static str) -> Vec<Row> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let paragraphs = lines
        .split(|line| line.is_empty())
        .filter(|lines| !lines.is_empty());
    let row = |lines: &[&'static str]| {
        let [guard, place, change @ ..] = lines else {
            panic!("{list}: a mutant is its guard, its place and the change: {lines:?}");
        };
        let change = Change::of(change);
        Row {
            list,
            guard,
            place,
            change: change.unwrap_or_else(|| panic!("{list}: {guard}: no change as above")),
        }
    };
    paragraphs.map(row).collect()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
#[ignore = "slow: the tests of its part for each guard; `make mutants` runs it"]
fn every_mutant_is_caught() {
    let only = std::env::var("ONLY").unwrap_or_default();
    let sources = Sources::below(root());
    let places = sources.places();
    let mut mutants = Vec::new();
    for row in rows() {
        let edit = row.change.edit(&places, row.place);
        let edit = edit.unwrap_or_else(|why| panic!("{}: {}: {why}", row.list, row.guard));
        let part = match row.list {
            "simulation.txt" => "simulation",
            _ => row.place.split("::").next().unwrap_or_default(),
        };
        let file = edit.file.to_string_lossy();
        let names = [row.guard, row.place, &file, part];
        if only
            .split('|')
            .any(|it| names.iter().any(|name| name.contains(it)))
        {
            mutants.push(Mutant {
                name: row.guard.to_owned(),
                suites: suites(part),
                edit,
            });
        }
    }
    assert!(!mutants.is_empty(), "no guard has `{only}` in its name");
    let verdicts = judge(&sources, &mutants);
    let is_caught = |verdict: &&Verdict| verdict.is_caught();
    let not_caught = verdicts.len() - verdicts.iter().filter(is_caught).count();
    assert_eq!(not_caught, 0, "a test has to catch each mutant");
}

#[test]
fn every_guard_of_the_list_is_in_the_sources_once() {
    let sources = Sources::below(root());
    let places = sources.places();
    let mut wrong = Vec::new();
    for Row {
        list,
        guard,
        place,
        change,
    } in rows()
    {
        if let Err(why) = change.edit(&places, place) {
            wrong.push(format!("tests/mutants/{list}: {guard}: {place}: {why}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "each guard has to be found once; correct these entries:\n{}",
        wrong.join("\n")
    );
}
