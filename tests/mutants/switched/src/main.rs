//! All mutants of cargo-mutants in one build, each behind a switch: a build for each of two thousand takes a night, this an hour.
//!
//! `switched rewrite LIST` reads `cargo mutants --list --json`, and changes the sources below the current directory: an expression that has
//! mutants becomes a `match` over the number in the environment variable MUTANT, a function body returns early, an arm of a `match` is passed
//! over. What cannot be switched (constant functions, conditions with `let`, functions that return `impl`) is named on standard output, for
//! cargo-mutants itself to try. `switched failed MESSAGES` names the mutants in which errors of `cargo check --message-format json` lie: they
//! do not build, and `rewrite` leaves them out the next time (`--without FILE`).

mod place;
mod source;

use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::{env, fs};

/// Of cargo-mutants, one of its list.
#[derive(Debug, Clone, Deserialize)]
pub struct Mutant {
    /// Its place and what it does.
    pub name: String,
    /// Path below the root.
    pub file: String,
    /// What kind of change it is.
    pub genre: String,
    /// What stands there instead.
    pub replacement: String,
    /// What is replaced.
    pub span: Span,
    /// The function around it.
    pub function: Option<Function>,
}

/// A function that has mutants.
#[derive(Debug, Clone, Deserialize)]
pub struct Function {
    /// All of it, its body at the end.
    pub span: Span,
}

/// From its first character to behind its last one.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Span {
    /// The first.
    pub start: Place,
    /// Behind the last.
    pub end: Place,
}

/// Both count from one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct Place {
    /// Line.
    pub line: usize,
    /// Character of it.
    pub column: usize,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["rewrite", list] => rewrite(list, None),
        ["rewrite", list, "--without", without] => rewrite(list, Some(without)),
        ["failed", messages] => failed(messages),
        _ => Err("say: rewrite LIST [--without FILE], or failed MESSAGES".into()),
    }
}

/// Numbers are places in the list, from one, and stay what they are.
fn rewrite(list: &str, without: Option<&str>) -> Result<(), Box<dyn Error>> {
    let mutants: Vec<Mutant> = serde_json::from_str(&fs::read_to_string(list)?)?;
    let without = without.map(fs::read_to_string).transpose()?;
    let without: BTreeSet<usize> = without
        .iter()
        .flat_map(|text| text.lines())
        .filter_map(|line| line.parse().ok())
        .collect();
    let mut of_files: BTreeMap<&str, Vec<(usize, &Mutant)>> = BTreeMap::new();
    for (number, mutant) in (1..).zip(&mutants) {
        if !without.contains(&number) {
            of_files
                .entry(&mutant.file)
                .or_default()
                .push((number, mutant));
        }
    }
    for (file, mutants) in of_files {
        let text = fs::read_to_string(file)?;
        let (text, left) = source::switched(&text, &mutants)?;
        fs::write(file, text)?;
        for number in left {
            println!("{number}");
        }
    }
    Ok(())
}

/// The compiler names the innermost place; the marks of `source` around it say whose it is.
fn failed(messages: &str) -> Result<(), Box<dyn Error>> {
    let mut numbers = BTreeSet::new();
    let mut lost = Vec::new();
    for line in fs::read_to_string(messages)?.lines() {
        let message: serde_json::Value = serde_json::from_str(line)?;
        let message = &message["message"];
        if message["level"] != "error" {
            continue;
        }
        let spans = message["spans"].as_array().into_iter().flatten();
        let mut found: Vec<usize> = spans.filter_map(place::mutant_at).collect();
        // Not all is covered.
        if message["code"]["code"] == "E0004" {
            found.extend(place::last_arm(message));
        }
        if found.is_empty() && !message["spans"].as_array().is_none_or(Vec::is_empty) {
            lost.push(message["rendered"].to_string());
        }
        numbers.extend(found);
    }
    for words in lost {
        eprintln!("of no mutant: {words}");
    }
    for number in numbers {
        println!("{number}");
    }
    Ok(())
}
