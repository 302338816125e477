//! `docs/an-incident.md`: what it shows is what a run of the lab has shown (`e2e/tests/e2e/story`), section by section.

use crate::pages::{read, root};
use std::fs;

const PAGE: &str = "docs/an-incident.md";
/// `<!-- story clean: Events, oldest first -->`, and a block after it.
const MARK: &str = "<!-- story ";

/// The section of a story with this title.
fn section(story: &str, title: &str) -> String {
    let text = read(&format!("e2e/tests/e2e/story/{story}.txt"));
    let sections = text.split("\n## ").skip(1);
    let mut named = sections.filter_map(|section| section.split_once('\n'));
    let found = named.find(|(name, _)| *name == title);
    let (_, body) = found.unwrap_or_else(|| panic!("story {story} has no section `{title}`"));
    body.trim_matches('\n').to_owned()
}

/// The page with each block after a mark as the story has it.
fn as_told(page: &str) -> String {
    let mut parts = page.split(MARK);
    let mut told = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (mark, rest) = part
            .split_once(" -->\n```text\n")
            .expect("a block after the mark");
        let (story, title) = mark.split_once(": ").expect("a story and a title");
        let (_, after) = rest.split_once("```\n").expect("the end of the block");
        let body = section(story, title);
        told += &format!("{MARK}{mark} -->\n```text\n{body}\n```\n{after}");
    }
    told
}

#[test]
fn an_incident_is_shown_as_the_lab_has_shown_it() {
    let page = read(PAGE);
    assert!(page.contains(MARK), "{PAGE} shows nothing");
    let told = as_told(&page);
    if std::env::var_os("UPDATE").is_some() {
        fs::write(root().join(PAGE), told).expect("the file must be writable");
        return;
    }
    assert!(
        page == told,
        "{PAGE} is stale: run `UPDATE=1 cargo test --test book` and commit the result"
    );
}
