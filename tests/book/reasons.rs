//! What each reason means, from `tests/data/reasons.txt`, and that none is missing there.

use crate::pages::{read, root};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Where the sources name reasons of conditions and Events. Tests aside, whatever looks like one there has to be explained.
const NAMED_IN: [&str; 25] = [
    "crates/core/src/plan",
    "crates/core/src/control.rs",
    "crates/core/src/escalation.rs",
    "crates/core/src/assess.rs",
    "crates/core/src/assess/others.rs",
    "crates/core/src/assess/words.rs",
    "crates/core/src/hold.rs",
    "crates/core/src/identity.rs",
    "crates/core/src/protection/levels.rs",
    "crates/core/src/exclusions.rs",
    "crates/core/src/record.rs",
    "crates/core/src/record/confirmed.rs",
    "crates/core/src/remediation.rs",
    "crates/drivers/src/address.rs",
    "crates/drivers/src/error.rs",
    "src/shell/detect.rs",
    "src/shell/detect",
    "src/shell/early_detection.rs",
    "src/shell/early_detection",
    "src/shell/guard.rs",
    "src/shell/incident",
    "src/shell/probe",
    "src/shell/tampered.rs",
    "src/shell/undecodable.rs",
    "src/shell/unfence.rs",
];

/// A section: what it is about, and its words with what they mean.
pub struct Section {
    pub id: String,
    pub title: String,
    pub words: Vec<(String, String)>,
}

pub fn sections() -> Vec<Section> {
    let text = read("tests/data/reasons.txt");
    let mut found: Vec<Section> = Vec::new();
    for line in text
        .lines()
        .filter(|it| !it.is_empty() && !it.starts_with('#'))
    {
        if let Some((id, title)) = line.strip_prefix('[').and_then(|it| it.split_once("] ")) {
            found.push(Section {
                id: id.to_owned(),
                title: title.to_owned(),
                words: Vec::new(),
            });
            continue;
        }
        let (word, meaning) = line.split_once(" | ").unwrap_or((line, ""));
        let section = found.last_mut().expect("a section comes first");
        section.words.push((word.to_owned(), meaning.to_owned()));
    }
    found
}

/// The words of a source that look like reasons: literals in PascalCase.
fn words_of(text: &str) -> BTreeSet<String> {
    let program = text.split("#[cfg(test)]").next().unwrap_or_default();
    let lines = program.lines().map(str::trim);
    let code = lines.filter(|line| !line.starts_with("//"));
    let literals = code.flat_map(|line| line.split('"').skip(1).step_by(2));
    let is_word = |word: &&str| {
        word.len() > 1
            && word.starts_with(|sign: char| sign.is_ascii_uppercase())
            && word.bytes().all(|sign| sign.is_ascii_alphabetic())
            && word.bytes().any(|sign| sign.is_ascii_lowercase())
    };
    literals.filter(is_word).map(str::to_owned).collect()
}

/// Where each word stands.
fn words_of_the_sources() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut take = |path: &Path| {
        let is_test = path.ends_with("tests.rs") || path.extension().is_none_or(|it| it != "rs");
        if is_test {
            return;
        }
        let text = fs::read_to_string(path).expect("UTF-8");
        for word in words_of(&text) {
            found.insert(word, path.display().to_string());
        }
    };
    for place in NAMED_IN {
        let path = root().join(place);
        if path.is_dir() {
            for entry in fs::read_dir(path).expect("a folder") {
                take(&entry.expect("an entry").path());
            }
        } else {
            take(&path);
        }
    }
    found
}

#[test]
fn every_reason_is_explained_and_every_explained_one_exists() {
    let sections = sections();
    let explained: BTreeSet<&String> = sections
        .iter()
        .flat_map(|section| section.words.iter().map(|(word, _)| word))
        .collect();
    let named = words_of_the_sources();
    for (word, path) in &named {
        assert!(
            explained.contains(word),
            "{path} names `{word}`, which tests/data/reasons.txt does not explain"
        );
    }
    for word in explained {
        assert!(
            named.contains_key(word),
            "tests/data/reasons.txt explains `{word}`, which no source names"
        );
    }
}

#[test]
fn every_call_for_a_human_has_its_row_in_the_runbook() {
    let runbook = read("docs/runbooks/NodeFencingEscalated.md");
    let rows: BTreeSet<&str> = runbook
        .lines()
        .filter_map(|line| line.strip_prefix("| "))
        .filter_map(|row| row.split(" |").next())
        .filter(|word| *word != "reason")
        .collect();
    let sections = sections();
    let calls = sections.iter().find(|it| it.id == "escalation");
    let calls = calls.expect("the section").words.iter();
    assert_eq!(rows, calls.map(|(word, _)| word.as_str()).collect());
}
