//! The book in `docs/`: nothing in it is missing, stale or untrue as far as a machine can tell.
//!
//! That its links lead somewhere is for `tests/contract/tidy.rs`. Here: every page is in the contents; every object is one that the API server would
//! take; every field, flag, target and kind that a page or a command names exists; commands that need nothing are run; what can be counted
//! in files is as many as the argument says; and the reference is what the code says, byte for byte. `UPDATE=1 cargo test --test book` writes the reference anew.

mod commands;
mod fields;
mod figures;
mod incident;
mod objects;
mod pages;
mod plugin;
mod protocol;
mod reasons;
mod reference;
mod release;
mod schema;
mod shell;

use pages::{documents, of_the_book, read};
use std::collections::BTreeSet;

/// How-tos begin with what one gets, and end with how to see it and how to go back.
const FIRST: &str = "What you get";
const LAST: [&str; 2] = ["See that it worked", "Undo it"];

#[test]
fn every_page_is_in_the_contents_once() {
    let summary = read("docs/SUMMARY.md");
    let mut named: Vec<&str> = summary
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
        .collect();
    named.sort_unstable();
    let pages = of_the_book();
    let written: Vec<&str> = pages
        .iter()
        .filter_map(|page| page.path.strip_prefix("docs/"))
        .filter(|path| *path != "SUMMARY.md")
        .collect();
    assert_eq!(named, written, "docs/SUMMARY.md, and what is in docs");
}

#[test]
fn every_page_has_one_title() {
    for page in of_the_book() {
        let titles = page.prose().filter(|line| line.starts_with("# ")).count();
        assert!(
            titles == 1 || page.path.ends_with("SUMMARY.md"),
            "{} has {titles} titles",
            page.path
        );
    }
}

#[test]
fn a_how_to_says_what_one_gets_how_to_see_it_and_how_to_go_back() {
    let mut seen = BTreeSet::new();
    for page in documents() {
        if !page.path.starts_with("docs/how-to/") {
            continue;
        }
        let headings: Vec<&str> = page
            .prose()
            .filter_map(|line| line.strip_prefix("## "))
            .collect();
        assert_eq!(headings.first(), Some(&FIRST), "{}", page.path);
        assert!(headings.ends_with(&LAST), "{}: {headings:?}", page.path);
        seen.insert(page.path);
    }
    assert!(seen.len() > 8, "{seen:?}");
}
