//! What cargo-mutants would change in some files: it names the mutants, and they are judged as those of the list are.

use crate::judge::{Mutant, Verdict, judge};
use crate::root;
use crate::row::Edit;
use crate::sources::Sources;
use crate::workspace::suites;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Those that no test has to catch, and why.
const SURVIVORS: &str = include_str!("survivors.txt");

/// Of cargo-mutants, one of its list.
#[derive(Deserialize)]
struct Listed {
    /// Its place and what it does.
    name: String,
    file: String,
    span: Span,
    replacement: String,
}

/// From its first character to behind its last one.
#[derive(Deserialize)]
struct Span {
    start: Character,
    end: Character,
}

/// Both count from one.
#[derive(Deserialize)]
struct Character {
    line: usize,
    column: usize,
}

impl Character {
    /// Its first byte.
    fn byte(&self, text: &str) -> usize {
        let mut lines = text.split_inclusive('\n');
        let before: usize = lines.by_ref().take(self.line - 1).map(str::len).sum();
        let line = lines.next().unwrap_or_default();
        let mut bytes = line.char_indices().map(|(at, _)| at);
        before + bytes.nth(self.column - 1).unwrap_or(line.len())
    }
}

/// As survivors.txt has it, without the place in the file, which moves with every edit.
fn without_place(name: &str) -> String {
    let (place, change) = name.split_once(": ").unwrap_or((name, ""));
    let file = place.split(':').next().unwrap_or_default();
    format!("{file}: {change}")
}

fn mutants(sources: &Sources, files: &str) -> Vec<Mutant> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["mutants", "--list", "--json", "--colors=never"]);
    for file in files.split_whitespace() {
        cargo.args(["--file", file]);
    }
    let output = cargo
        .current_dir(root())
        .stderr(Stdio::inherit())
        .output()
        .expect("cargo runs");
    let listed: Vec<Listed> = serde_json::from_slice(&output.stdout)
        .expect("a list of cargo-mutants, which has to be installed");
    let mutant = |listed: Listed| {
        let file = PathBuf::from(listed.file);
        let text = sources.text(&file);
        Mutant {
            name: without_place(&listed.name),
            suites: suites(sources.part(&file)),
            edit: Edit {
                span: listed.span.start.byte(text)..listed.span.end.byte(text),
                new: listed.replacement,
                file,
            },
        }
    };
    listed.into_iter().map(mutant).collect()
}

/// Survivors, and what stands under each.
fn survivors() -> BTreeMap<&'static str, &'static str> {
    let mut lines = SURVIVORS.lines().peekable();
    let mut survivors = BTreeMap::new();
    while let Some(line) = lines.next() {
        if let Some(survivor) = line.strip_prefix("- ") {
            let reason = lines.next_if(|line| line.starts_with("  "));
            survivors.insert(survivor, reason.unwrap_or_default());
        }
    }
    survivors
}

#[test]
#[ignore = "slow: the tests of its part for each mutant; `make cargo-mutants` runs it"]
fn every_mutant_of_cargo_mutants_is_caught_or_has_a_reason() {
    let files = std::env::var("FILES").unwrap_or_default();
    assert!(!files.trim().is_empty(), "FILES names the files to change");
    let only = std::env::var("ONLY").unwrap_or_default();
    let sources = Sources::below(root());
    let mut mutants = mutants(&sources, &files);
    mutants.retain(|mutant| mutant.name.contains(&only));
    let survivors = survivors();
    let mut wrong = BTreeSet::new();
    let mut survived = BTreeSet::new();
    for (mutant, verdict) in mutants.iter().zip(judge(&sources, &mutants)) {
        if verdict == Verdict::Survived {
            survived.insert(mutant.name.as_str());
            if !survivors.contains_key(mutant.name.as_str()) {
                wrong.insert(format!("survives without a reason: {}", mutant.name));
            }
        }
    }
    for survivor in survivors.keys() {
        let is_tried = |file: &str| survivor.starts_with(&format!("{file}: "));
        if survivor.contains(&only)
            && files.split_whitespace().any(is_tried)
            && !survived.contains(survivor)
        {
            wrong.insert(format!(
                "is caught by now, or is no mutant any more: {survivor}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
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
    let mut wrong = Vec::new();
    for (survivor, reason) in survivors() {
        let (file, mutant) = survivor.split_once(": ").expect("`- FILE: MUTANT`");
        let name = function(mutant);
        let is_there = fs::read_to_string(root().join(file)).is_ok_and(|text| {
            text.contains(&format!("fn {name}(")) || text.contains(&format!("fn {name}<"))
        });
        if !is_there {
            wrong.push(format!("{survivor}: no function `{name}` in {file}"));
        }
        if reason.trim().is_empty() {
            wrong.push(format!(
                "{survivor}: its reason stands in the line under it"
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "tests/mutants/survivors.txt: correct these entries:\n{}",
        wrong.join("\n")
    );
}
