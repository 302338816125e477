//! Figures of `docs/safety.md` that files of ours decide: they stand there as they are.

use crate::pages::{below, read};
use serde_json::Value;
use simapi::script::{self, Verb};

/// What the API server is asked to judge: tables in `tests/data/api`.
fn rows(table: &str) -> usize {
    let text = read(&format!("tests/data/api/{table}.yaml"));
    let rows: Vec<Value> = serde_saphyr::from_str(&text).expect("a table");
    rows.len()
}

/// Requests of the scripts that both API servers are played. That its store forgets its past is none.
fn requests() -> usize {
    let scripts = script::ALL.iter().map(|name| {
        let text = read(&format!("simapi/scripts/{name}.yaml"));
        script::read(&text).expect("a script")
    });
    let steps = scripts.flatten();
    steps.filter(|step| step.method != Verb::Compact).count()
}

/// Those of `LET_THROUGH` in `simapi/tests/verdicts.rs`: what only the real one refuses.
fn let_through() -> usize {
    let text = read("simapi/tests/verdicts.rs");
    let (_, rest) = text.split_once("LET_THROUGH: [&str; ").expect("the list");
    let (count, _) = rest.split_once(']').expect("its length");
    count.parse().expect("a number")
}

/// Bad histories that the judge of the records is given: in their lists each begins a line of its own.
fn bad_histories() -> usize {
    let lists = ["bad_histories", "bad_deletions", "bad_reports"];
    let texts = lists.map(|list| read(&format!("e2e/src/judge/tests/{list}.rs")));
    let lines = texts.iter().flat_map(|text| text.lines());
    lines.filter(|line| line.starts_with("    (")).count()
}

/// Files with properties that are tried on drawn values.
fn properties() -> usize {
    let has_properties = |path: &String| {
        let text = read(path);
        text.lines()
            .any(|line| line.trim_start().starts_with("proptest!"))
    };
    let files = ["src", "crates", "tests"].map(|folder| below(folder, "rs"));
    files.into_iter().flatten().filter(has_properties).count()
}

#[test]
fn the_figures_of_docs_safety_are_those_of_the_files() {
    let list = read("tests/mutants/list.txt");
    let is_mutant = |it: &&str| !it.starts_with('#') && !it.trim().is_empty();
    let all = list.split("\n\n").filter(is_mutant).count();
    // A mutant has its place on a line of its own.
    let mutants = |of: &str| list.lines().filter(|it| it.starts_with(of)).count();
    let (core, drivers) = (mutants("core::"), mutants("drivers::"));
    let shell = all - core - drivers;
    let stories = below("crates/core/tests/golden", "txt").len();
    let guarded: usize = ["admission", "words", "notes", "deletions"]
        .map(rows)
        .iter()
        .sum();
    let (objects, let_through) = (rows("verdicts"), let_through());
    let safety = read("docs/safety.md");
    for figure in [
        format!("what the core decides is compared with them word for word | {stories} |"),
        format!("| {} files of them;", properties()),
        format!(
            "| {all} in the list ({core} of the core, {shell} of the shell and the API types, {drivers} of the drivers)"
        ),
        format!("| {guarded} rows without a cluster"),
        format!("| the same answers to the {} requests of", requests()),
        format!(
            "on {} of {objects} objects of users the same verdicts, word for word; {let_through} are let through",
            objects - let_through
        ),
        format!("| {} seeded bad histories,", bad_histories()),
    ] {
        assert!(
            safety.contains(&figure),
            "docs/safety.md does not say `{figure}`"
        );
    }
}
