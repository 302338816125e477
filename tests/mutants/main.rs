//! Does a test notice when a guard of the protocol goes missing? Each entry of `list.txt` is a mutant: it takes one away from a copy of
//! the sources, builds that and runs the tests of its part. The mutant is caught if one of them fails, as it has to, and has survived if
//! none does. A build for each, so `make mutants` runs it and `make test` does not; `make test` only looks whether every entry still
//! finds its guard, and every survivor of cargo-mutants (`survivors.txt`) its function.

#![allow(
    clippy::disallowed_methods,
    reason = "it measures how long a mutant takes"
)]

mod row;
mod sources;
mod tokens;
mod workspace;

use row::{Change, Mutated};
use sources::{Places, Sources};
use std::fs;
use std::path::Path;
use std::time::Instant;
use workspace::{Layer, Outcome, Workspace, layer};

const LIST: &str = include_str!("list.txt");
/// Those that the simulation has to catch.
const OF_SIMULATION: &str = include_str!("simulation.txt");
/// Those of cargo-mutants that no test has to catch.
const SURVIVORS: &str = include_str!("survivors.txt");

/// One guard, and how to take it away.
struct Mutant {
    /// The file beside this one that has it.
    list: &'static str,
    /// The invariant of docs/protocol.md that it serves, and what it does.
    guard: String,
    place: String,
    change: Change,
    layer: Layer,
}

fn mutants() -> Vec<Mutant> {
    let mut all = listed("list.txt", LIST, layer);
    let of_simulation = |_: &str| workspace::SIMULATION;
    all.extend(listed("simulation.txt", OF_SIMULATION, of_simulation));
    all
}

fn listed(list: &'static str, text: &str, layer: fn(&str) -> Layer) -> Vec<Mutant> {
    let rows: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let paragraphs = rows
        .split(|line| line.is_empty())
        .filter(|lines| !lines.is_empty());
    let mutant = |lines: &[&str]| {
        let [guard, place, change @ ..] = lines else {
            panic!("{list}: a mutant is its guard, its place and the change: {lines:?}");
        };
        let change = Change::of(change);
        Mutant {
            list,
            guard: (*guard).to_owned(),
            place: (*place).to_owned(),
            change: change.unwrap_or_else(|| panic!("{list}: {guard}: no change as above")),
            layer: layer(place),
        }
    };
    paragraphs.map(mutant).collect()
}

/// What became of a mutant. Anything but `Caught` is a failure.
enum Verdict {
    Caught(String),
    Survived,
    DoesNotBuild(String),
    NotFound(String),
    Hangs,
}

impl Verdict {
    fn words(&self) -> String {
        match self {
            Self::Caught(test) => format!("caught by {test}"),
            Self::Survived => "SURVIVED".to_owned(),
            Self::DoesNotBuild(error) => format!("DOES NOT BUILD: {error}"),
            Self::NotFound(why) => format!("NOT FOUND: {why}"),
            Self::Hangs => "HANGS".to_owned(),
        }
    }
}

/// Takes the guard away, asks the tests, and puts it back.
fn judge(workspace: &Workspace, places: &Places, mutant: &Mutant) -> Verdict {
    let Mutated {
        file,
        original,
        mutated,
    } = match mutant.change.apply(places, &mutant.place) {
        Ok(mutated) => mutated,
        Err(why) => return Verdict::NotFound(why),
    };
    fs::write(&file, mutated).expect("the mutant is written");
    let verdict = match workspace.test(mutant.layer) {
        Outcome::Passed => Verdict::Survived,
        Outcome::Failed(test) => Verdict::Caught(test),
        Outcome::DoesNotBuild(error) => Verdict::DoesNotBuild(error),
        Outcome::Hangs => Verdict::Hangs,
    };
    fs::write(&file, original).expect("the guard is put back");
    verdict
}

#[test]
#[ignore = "slow: a build for each guard; `make mutants` runs it"]
fn every_mutant_is_caught() {
    let only = std::env::var("ONLY").unwrap_or_default();
    let workspace = Workspace::copy_of(Path::new(env!("CARGO_MANIFEST_DIR")));
    let sources = Sources::below(workspace.root());
    let places = sources.places();
    let is_meant = |mutant: &Mutant| {
        let file = places.file(&mutant.place);
        let mut parts = only.split('|');
        parts.any(|part| {
            let is_of_simulation = mutant.layer == workspace::SIMULATION;
            mutant.guard.contains(part)
                || mutant.place.contains(part)
                || file.is_some_and(|it| it.contains(part))
                || part == "simulation" && is_of_simulation
        })
    };
    let mutants: Vec<Mutant> = mutants().into_iter().filter(is_meant).collect();
    assert!(!mutants.is_empty(), "no guard has `{only}` in its name");
    // Tests that fail by themselves would catch everything.
    let mut passed: Vec<Layer> = Vec::new();
    for layer in mutants.iter().map(|mutant| mutant.layer) {
        if !passed.contains(&layer) {
            let whole = matches!(workspace.test(layer), Outcome::Passed);
            assert!(
                whole,
                "the sources as they are pass; or see target/mutants/output.txt"
            );
            passed.push(layer);
        }
    }
    let mut grid = Vec::new();
    let mut not_caught = 0;
    for (number, mutant) in mutants.iter().enumerate() {
        let started = Instant::now();
        let verdict = judge(&workspace, &places, mutant);
        not_caught += usize::from(!matches!(verdict, Verdict::Caught(_)));
        let row = format!("{:<62} {}", mutant.guard, verdict.words());
        let seconds = started.elapsed().as_secs();
        println!("{}/{} {row} ({seconds} s)", number + 1, mutants.len());
        grid.push(row);
    }
    println!("\n{}", grid.join("\n"));
    println!("\n{} mutants, {not_caught} not caught", grid.len());
    assert_eq!(not_caught, 0, "a test has to catch each mutant");
}

#[test]
fn every_guard_of_the_list_is_in_the_sources_once() {
    let sources = Sources::below(Path::new(env!("CARGO_MANIFEST_DIR")));
    let places = sources.places();
    let mut wrong = Vec::new();
    for mutant in mutants() {
        let Mutant {
            list, guard, place, ..
        } = &mutant;
        if let Err(why) = mutant.change.apply(&places, place) {
            wrong.push(format!("tests/mutants/{list}: {guard}: {place}: {why}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "each guard has to be found once; correct these entries:\n{}",
        wrong.join("\n")
    );
}

/// The function that a mutant of cargo-mutants changes: `replace < with <= in NAME`, `replace NAME -> TYPE with VALUE`.
fn function(mutant: &str) -> &str {
    let path = mutant.rsplit_once(" in ").map_or_else(
        || {
            let replaced = mutant.strip_prefix("replace ").unwrap_or(mutant);
            let end = replaced.find(" -> ").or_else(|| replaced.find(" with "));
            &replaced[..end.unwrap_or(replaced.len())]
        },
        |(_, path)| path,
    );
    path.rsplit_once("::").map_or(path, |(_, name)| name)
}

#[test]
fn every_survivor_is_about_a_function_that_exists() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"));
    let survivors = SURVIVORS.lines().filter_map(|line| line.strip_prefix("- "));
    let mut wrong = Vec::new();
    for survivor in survivors {
        let (file, mutant) = survivor.split_once(": ").expect("`- FILE: MUTANT`");
        let name = function(mutant);
        let is_there = fs::read_to_string(source.join(file)).is_ok_and(|text| {
            text.contains(&format!("fn {name}(")) || text.contains(&format!("fn {name}<"))
        });
        if !is_there {
            wrong.push(format!("{survivor}: no function `{name}` in {file}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "tests/mutants/survivors.txt: correct these entries:\n{}",
        wrong.join("\n")
    );
}
