//! The page of the guards: docs/protocol.md shows the lists of the code, and each guard has a mutant that takes it away.

use crate::pages::{read, root};
use fencing_core::plan::protocol::{self, Row};
use std::collections::BTreeSet;
use std::env;
use std::fmt::Write;
use std::fs;

const PAGE: &str = "docs/protocol.md";
const BEGIN: &str = "<!-- Printed from crates/core/src/plan/protocol.rs by `UPDATE=1 cargo test --test book`; do not edit. -->\n";
const END: &str = "<!-- end -->\n";

fn printed() -> String {
    let mut text = String::new();
    for (phase, guards) in protocol::page() {
        let _ = writeln!(
            text,
            "\n**{phase}**\n\n| guard | keeps | checks |\n|---|---|---|"
        );
        for (name, keeps, what) in guards {
            let _ = writeln!(text, "| `{name}` | {keeps} | {what} |");
        }
    }
    text
}

#[test]
fn the_guards_of_the_page_are_those_of_the_code() {
    let page = read(PAGE);
    let (before, rest) = page.split_once(BEGIN).expect("where the guards begin");
    let (shown, after) = rest.split_once(END).expect("where the guards end");
    let printed = format!("{}\n", printed());
    if env::var_os("UPDATE").is_some() {
        let text = format!("{before}{BEGIN}{printed}{END}{after}");
        fs::write(root().join(PAGE), text).expect("written");
        return;
    }
    assert_eq!(
        shown, printed,
        "{PAGE} shows other guards: UPDATE=1 cargo test --test book"
    );
}

/// A guard without one could be taken away unnoticed.
#[test]
fn each_guard_has_a_mutant() {
    let list = read("tests/mutants/list.txt");
    let places: BTreeSet<&str> = list
        .lines()
        .filter_map(|line| line.strip_prefix("core::"))
        .collect();
    let is_of =
        |guard: &str, place: &&&str| guard == **place || guard.ends_with(&format!("::{place}"));
    let guards = protocol::page();
    let bare = guards
        .iter()
        .flat_map(|(_, rows)| rows)
        .filter(|(name, ..): &&Row| !places.iter().any(|place| is_of(name, &place)));
    let bare: Vec<&str> = bare.map(|(name, ..)| *name).collect();
    assert_eq!(
        bare,
        Vec::<&str>::new(),
        "guards without a paragraph in tests/mutants/list.txt"
    );
}
