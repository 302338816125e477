//! Does a test notice when a guard of the protocol goes missing? Each entry of `list.txt` takes one away from a copy of the
//! sources, builds that and runs the tests of its part: one of them has to fail. A build for each, so `make mutants` runs it and
//! `make test` does not; `make test` only looks whether every entry still finds its guard.

#![allow(
    clippy::disallowed_methods,
    reason = "it measures how long a mutant takes"
)]

mod workspace;

use std::fs;
use std::path::Path;
use std::time::Instant;
use workspace::{Layer, Outcome, Workspace, layer};

const LIST: &str = include_str!("list.txt");
/// Guards that the simulation has to miss.
const OF_SIMULATION: &str = include_str!("simulation.txt");

/// One guard, and how to take it away.
struct Mutant {
    /// The invariant of docs/protocol.md that it serves, and what it does.
    guard: String,
    file: String,
    find: String,
    replace: String,
    layer: Layer,
}

fn mutants() -> Vec<Mutant> {
    let mut all = listed(LIST, layer);
    all.extend(listed(OF_SIMULATION, |_| workspace::SIMULATION));
    all
}

fn listed(list: &str, layer: fn(&str) -> Layer) -> Vec<Mutant> {
    let rows: Vec<&str> = list.lines().filter(|line| !line.starts_with('#')).collect();
    let paragraphs = rows
        .split(|line| line.is_empty())
        .filter(|lines| !lines.is_empty());
    let mutant = |lines: &[&str]| match lines {
        [guard, file, find, replace] => Mutant {
            guard: (*guard).to_owned(),
            file: (*file).to_owned(),
            find: find.strip_prefix("- ").expect("a line `- `").to_owned(),
            replace: replace.strip_prefix("+ ").expect("a line `+ `").to_owned(),
            layer: layer(file),
        },
        other => panic!("a mutant is four lines: {other:?}"),
    };
    paragraphs.map(mutant).collect()
}

/// What became of a mutant. Anything but `Noticed` is a failure.
enum Verdict {
    Noticed(String),
    Survived,
    DoesNotBuild(String),
    Matches(usize),
    Hangs,
}

impl Verdict {
    fn words(&self) -> String {
        match self {
            Self::Noticed(test) => format!("noticed by {test}"),
            Self::Survived => "SURVIVED".to_owned(),
            Self::DoesNotBuild(error) => format!("DOES NOT BUILD: {error}"),
            Self::Matches(times) => format!("MATCHES {times} TIMES"),
            Self::Hangs => "HANGS".to_owned(),
        }
    }
}

/// Takes the guard away, asks the tests, and puts it back.
fn judge(workspace: &Workspace, mutant: &Mutant) -> Verdict {
    let file = workspace.file(&mutant.file);
    let original = fs::read_to_string(&file).expect("a source is readable");
    let times = original.matches(&mutant.find).count();
    if times != 1 {
        return Verdict::Matches(times);
    }
    let mutated = original.replacen(&mutant.find, &mutant.replace, 1);
    fs::write(&file, mutated).expect("the mutant is written");
    let verdict = match workspace.test(mutant.layer) {
        Outcome::Passed => Verdict::Survived,
        Outcome::Failed(test) => Verdict::Noticed(test),
        Outcome::DoesNotBuild(error) => Verdict::DoesNotBuild(error),
        Outcome::Hangs => Verdict::Hangs,
    };
    fs::write(&file, original).expect("the guard is put back");
    verdict
}

#[test]
#[ignore = "slow: a build for each guard; `make mutants` runs it"]
fn every_guard_is_missed_when_it_is_gone() {
    let only = std::env::var("ONLY").unwrap_or_default();
    let is_meant = |mutant: &Mutant| {
        let mut parts = only.split('|');
        parts.any(|part| {
            let is_of_simulation = mutant.layer == workspace::SIMULATION;
            mutant.guard.contains(part)
                || mutant.file.contains(part)
                || part == "simulation" && is_of_simulation
        })
    };
    let mutants: Vec<Mutant> = mutants().into_iter().filter(is_meant).collect();
    assert!(!mutants.is_empty(), "no guard has `{only}` in its name");
    let workspace = Workspace::copy_of(Path::new(env!("CARGO_MANIFEST_DIR")));
    // Tests that fail by themselves would notice everything.
    let mut passed: Vec<Layer> = Vec::new();
    for layer in mutants.iter().map(|mutant| mutant.layer) {
        if !passed.contains(&layer) {
            let whole = matches!(workspace.test(layer), Outcome::Passed);
            assert!(whole, "the tests pass over the sources as they are");
            passed.push(layer);
        }
    }
    let mut grid = Vec::new();
    let mut missing = 0;
    for (number, mutant) in mutants.iter().enumerate() {
        let started = Instant::now();
        let verdict = judge(&workspace, mutant);
        missing += usize::from(!matches!(verdict, Verdict::Noticed(_)));
        let row = format!("{:<62} {}", mutant.guard, verdict.words());
        let seconds = started.elapsed().as_secs();
        println!("{}/{} {row} ({seconds} s)", number + 1, mutants.len());
        grid.push(row);
    }
    println!("\n{}", grid.join("\n"));
    println!("\n{} guards, {missing} not missed", grid.len());
    assert_eq!(missing, 0, "each guard's absence has to be noticed");
}

#[test]
fn every_guard_of_the_list_is_in_the_sources_once() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut wrong = Vec::new();
    for Mutant {
        guard, file, find, ..
    } in mutants()
    {
        let text = fs::read_to_string(source.join(&file)).expect("a source is readable");
        let times = text.matches(&find).count();
        if times != 1 {
            wrong.push(format!("{guard}: {file} has `{find}` {times} times"));
        }
    }
    assert!(
        wrong.is_empty(),
        "tests/mutants/list.txt has to find each guard once; correct these entries:\n{}",
        wrong.join("\n")
    );
}
