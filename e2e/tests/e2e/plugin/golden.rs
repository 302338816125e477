//! What was printed, without what this run alone has ([`canonical`]), and held by its words against what is recorded ([`difference`]).
//!
//! How words are laid out depends on the length of names and ages, so that is left to the unit tests of each screen (`crates/plugin/src/**`), where they are
//! fixed; that nothing is wider than a terminal, [`super::session`] looks at.

use std::collections::BTreeSet;

use jiff::civil::DateTime;

use crate::story::tell::Names;

/// What stands for an age.
const AGE: &str = "<age>";

/// The text without names, times and ages of this run.
pub fn canonical(text: &str, names: &Names) -> String {
    let lines = text.lines().map(|line| {
        // As `explain` dates the first of its moments.
        match DateTime::strptime("%F %T UTC", line).is_ok() {
            true => "<time>\n".to_owned(),
            false => format!("{}\n", names.plain(line)),
        }
    });
    timeless(&lines.collect::<String>())
}

/// The first block of a command in which the one says something else than the other, as both have it; none: they say the same.
pub fn difference(recorded: &str, told: &str) -> Option<String> {
    let (recorded, told) = (blocks(recorded), blocks(told));
    let count = recorded.len().max(told.len());
    let is_other = |at: &usize| {
        let [recorded, told] = [&recorded, &told].map(|it| it.get(*at).copied());
        recorded.map(words) != told.map(words)
    };
    let at = (0..count).find(is_other)?;
    let shown = |blocks: &[&str]| blocks.get(at).copied().unwrap_or("nothing").to_owned();
    Some(format!(
        "recorded is\n{}\nand it said\n{}",
        shown(&recorded),
        shown(&told)
    ))
}

/// A command with what it has printed; before the first, the title.
fn blocks(text: &str) -> Vec<&str> {
    text.split("\n$ ").collect()
}

/// What is said: the words in their order, and after them the moments of an incident (`+<age> what`). Two of those that are dated by the same
/// second come in either order, and a device is read as often as it takes: so they are sorted, and each stands once. Their order is held by the unit
/// tests of `timeline`.
fn words(block: &str) -> (Vec<&str>, BTreeSet<Vec<&str>>) {
    // Where a command is cut to fit the terminal depends on its names.
    let words: Vec<&str> = block.split_whitespace().filter(|it| *it != "\\").collect();
    let is_moment = |word: &str| word.strip_prefix('+') == Some(AGE);
    let mut parts = words.chunk_by(|_, next| !is_moment(next));
    let is_story = words.first().is_some_and(|it| is_moment(it));
    let before = if is_story { None } else { parts.next() };
    let moments = parts.map(<[&str]>::to_vec);
    (before.unwrap_or_default().to_vec(), moments.collect())
}

/// Without ages, which kubectl and we write like `2m10s`, and without the milliseconds of an answer.
fn timeless(text: &str) -> String {
    const AFTER: [char; 5] = [',', ';', ':', '.', ')'];
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|it| it.is_ascii_digit());
    let mut shown = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find([' ', '\n']).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        let core = word.trim_end_matches(AFTER);
        let age = core.strip_prefix('+').unwrap_or(core);
        // A line may end between a number and its unit.
        let next = after.split_whitespace().next().unwrap_or_default();
        let is_millis = is_number(core) && next.trim_end_matches(AFTER) == "ms";
        shown += &match (is_age(age), is_millis) {
            (true, _) => word.replacen(age, AGE, 1),
            (false, true) => word.replacen(core, "<n>", 1),
            (false, false) => word.to_owned(),
        };
        let blanks = after.len() - after.trim_start_matches([' ', '\n']).len();
        shown += &after[..blanks];
        rest = &after[blanks..];
    }
    shown
}

fn is_age(word: &str) -> bool {
    let is_of_age = |sign: char| sign.is_ascii_digit() || ".smhdy".contains(sign);
    word.starts_with(|sign: char| sign.is_ascii_digit())
        && word.ends_with(|sign: char| "smhdy".contains(sign))
        && word.chars().all(is_of_age)
}

#[test]
fn ages_are_taken_out_and_nothing_else() {
    let shown = |text: &str| canonical(text, &Names::of("node-1", "node-1-00000000"));
    assert_eq!(shown("2026-11-26 15:05:11 UTC\n"), "<time>\n");
    assert_eq!(
        shown(
            "Ready True for 2m10s), 38s; 1.5s ago: 3 of 5 nodes,\n  12 ms, 13\n  ms worker-1s 12\n"
        ),
        "Ready True for <age>), <age>; <age> ago: 3 of 5 nodes,\n  <n> ms, <n>\n  ms worker-1s 12\n"
    );
}

#[test]
fn a_word_more_less_or_elsewhere_is_a_difference_and_a_blank_is_none() {
    let recorded = "# A title\n\n$ kubectl fence a\nNODE       STAGE\nworker-1   Held\n\n$ kubectl fence b\nIt waits for\n  you\n";
    let cut = "# A title\n\n$ kubectl fence a\nNODE  STAGE\nworker-1  Held\n\n$ kubectl fence b\nIt waits\n  for you\n";
    assert_eq!(difference(recorded, cut), None);
    for (word, other) in [
        ("Held", "Open"),
        (" Held", ""),
        ("you", "you all"),
        // A word that moves to another command.
        (
            "Held\n\n$ kubectl fence b\nIt",
            "\n\n$ kubectl fence b\nHeld It",
        ),
        ("\n\n$ kubectl fence b\nIt waits for\n  you\n", ""),
    ] {
        let told = recorded.replacen(word, other, 1);
        assert!(difference(recorded, &told).is_some(), "{told}");
    }
}

#[test]
fn a_moment_counts_once_and_wherever_it_stands() {
    let head = "$ kubectl fence explain\nNode worker-1\n\n<time>\n";
    let one = format!(
        "{head}  +<age>  began\n  +<age>  read Off\n          at once\n  +<age>  read Off at once\n  +<age>  done\n"
    );
    let other = format!("{head}  +<age>  began\n  +<age>  done\n  +<age>  read Off at once\n");
    assert_eq!(difference(&one, &other), None);
    let silent = format!("{head}  +<age>  began\n  +<age>  read Off at once\n");
    assert!(difference(&one, &silent).is_some());
    assert!(difference(&one, &other.replace("Off", "On")).is_some());
}
