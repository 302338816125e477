//! How the product speaks, as far as a machine can check it: no word of the private dialect where its users read, plurals that are right, and messages of
//! a fact and a hint, each short enough to be read at night.
//!
//! The meaning of a message is for people to judge. Names of tests, links and code between backquotes are not read.

use super::tidy::{root, sources, texts};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Words of a fact, and of a hint.
const WORDS_MAX: usize = 25;

/// What users read nowhere, and what stands in its place.
const DIALECT: [(&str, &str); 26] = [
    ("a human's word", "manual confirmation"),
    ("again and again", "repeatedly"),
    ("anew", "again; a Node is created again, a machine rebooted"),
    ("brake", "budget"),
    ("brakes", "budget"),
    ("by then", "say when"),
    ("calls for a human", "action required"),
    ("calls for people", "action required"),
    ("calls for you", "action required"),
    ("dark", "powered off; BMC unreachable"),
    ("given back", "removed"),
    ("gives back", "removes"),
    ("heard", "received"),
    ("land late", "may still take effect"),
    ("lands late", "may still take effect"),
    ("let go of", "released, cancelled or detached"),
    ("lets go of", "releases, cancels or detaches"),
    ("nobody", "say what is"),
    ("peace time", "periodic probe"),
    ("proven down", "confirmed off"),
    ("sees to", "handles"),
    ("somebody", "others, or by name who"),
    ("told", "reported, shown"),
    ("under way", "in progress"),
    ("whoever", "by name who"),
    ("word counts", "confirmation is valid"),
];

/// What no message of the program has beside that: devices report and read.
const PERSONS: [(&str, &str); 5] = [
    ("mark", "out-of-service taint"),
    ("marked", "tainted"),
    ("said", "reported, read"),
    ("says", "reports, reads"),
    ("tells", "reports, shows"),
];

/// A file, a phrase that stands there, and why.
const ALLOWED: [(&str, &str, &str); 2] = [
    (
        "docs/tutorial.md",
        "dark",
        "the demo's own command cuts a BMC's power by that name",
    ),
    (
        "docs/reference/kubectl-fence/generate.md",
        "(s)",
        "what the library for command lines says of its own command",
    ),
];

/// A text of the product, where it stands, and whether it is a message.
struct Text {
    place: String,
    words: String,
}

/// String literals of the crates, without tests and comments.
fn literals() -> Vec<Text> {
    let mut found = Vec::new();
    for room in ["src", "crates"] {
        let all = sources(room);
        let tests: BTreeSet<String> = all
            .iter()
            .flat_map(|(path, text)| test_modules(path, text))
            .collect();
        for (path, text) in &all {
            let name = path.display().to_string();
            let is_test = name.contains("/tests")
                || name.starts_with("crates/testbed")
                || tests.iter().any(|it| name.starts_with(it.as_str()));
            if is_test {
                continue;
            }
            let program = text
                .split("\n#[cfg(test)]\nmod ")
                .next()
                .unwrap_or_default();
            for (line, words) in strings(program) {
                found.push(Text {
                    place: format!("{name}:{line}"),
                    words,
                });
            }
        }
    }
    assert!(found.len() > 5_000, "{} literals", found.len());
    found
}

/// Paths, without their ending, of modules that a file has for tests alone.
fn test_modules(path: &Path, text: &str) -> Vec<String> {
    let stem = path.with_extension("");
    let is_root = ["mod", "lib", "main"].iter().any(|it| stem.ends_with(it));
    let folder = if is_root {
        path.parent().unwrap_or(path)
    } else {
        &stem
    };
    let lines: Vec<&str> = text.lines().collect();
    let pairs = lines.array_windows();
    let of_tests = pairs
        .filter(|[attribute, _]| attribute.starts_with("#[cfg(") && attribute.contains("test"));
    let named = of_tests.filter_map(|[_, item]| {
        let name = item
            .trim_start_matches("pub ")
            .strip_prefix("mod ")?
            .strip_suffix(';')?;
        Some(folder.join(name).display().to_string())
    });
    named.collect()
}

/// The string literals of Rust, with the line on which each begins.
fn strings(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let (mut at, mut line) = (0, 1);
    while let Some(sign) = text[at..].chars().next() {
        let rest = &text[at..];
        let end = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("r\"") || rest.starts_with("r#") {
            let hashes = rest[1..].chars().take_while(|it| *it == '#').count();
            let close = format!("\"{}", "#".repeat(hashes));
            match rest[1 + hashes..].starts_with('"') {
                true => {
                    let body = 2 + hashes;
                    let length = rest[body..].find(&close).expect("an end");
                    found.push((line, rest[body..body + length].to_owned()));
                    body + length + close.len()
                }
                false => 1,
            }
        } else if sign == '"' {
            let length = closing(&rest[1..]);
            found.push((line, unwrapped(&rest[1..=length])));
            length + 2
        } else if rest.starts_with("'\"'") || rest.starts_with("'\\") {
            2 + rest[2..].find('\'').unwrap_or(0).max(1)
        } else {
            sign.len_utf8()
        };
        line += rest[..end].matches('\n').count();
        at += end;
    }
    found
}

/// Where a literal ends, behind its first quote.
fn closing(rest: &str) -> usize {
    let mut is_escaped = false;
    let end = rest.char_indices().find(|(_, sign)| {
        let is_end = *sign == '"' && !is_escaped;
        is_escaped = *sign == '\\' && !is_escaped;
        is_end
    });
    end.expect("a closing quote").0
}

/// A literal that goes on in the next line has none of that line's indentation.
fn unwrapped(literal: &str) -> String {
    let mut parts = literal.split("\\\n");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.trim_start())
}

/// Pages and texts that are shipped, as users read them.
fn pages() -> Vec<Text> {
    const CHART: &str = "charts/node-fencing-operator";
    let mut all = texts("docs", &["md"]);
    all.retain(|(path, _)| !path.starts_with("docs/adr"));
    all.extend(texts("charts", &["md", "txt"]));
    for file in [
        "README.md",
        &format!("{CHART}/values.yaml"),
        &format!("{CHART}/files/alerts.yaml"),
    ] {
        let text = fs::read_to_string(root().join(file)).expect("a text");
        all.push((file.into(), text));
    }
    let lines = |(path, text): (std::path::PathBuf, String)| {
        let name = path.display().to_string();
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        (1..).zip(lines).map(move |(number, words)| Text {
            place: format!("{name}:{number}"),
            words,
        })
    };
    all.into_iter().flat_map(lines).collect()
}

/// The words alone: code between backquotes, links, placeholders and fences of code are none.
fn plain(text: &str) -> String {
    let prose: String = match text.trim_start().starts_with("```") {
        true => String::new(),
        false => text.split('`').step_by(2).collect::<Vec<_>>().join(" _ "),
    };
    let mut plain = String::new();
    let mut depth = 0_usize;
    let mut before = ' ';
    for sign in prose.chars() {
        let opens = sign == '{' || (sign == '(' && before == ']');
        depth += usize::from(opens);
        if depth == 0 {
            let is_word = sign.is_alphanumeric() || matches!(sign, '_' | '\'' | '-');
            plain.push(if is_word {
                sign.to_ascii_lowercase()
            } else {
                ' '
            });
        }
        let closes = sign == '}' || (sign == ')' && depth > 0);
        depth = depth.saturating_sub(usize::from(closes));
        before = sign;
    }
    format!(
        " {} ",
        plain.split_whitespace().collect::<Vec<_>>().join(" ")
    )
}

/// The phrases of the list that a text has, with what to write.
fn dialect<'a>(words: &str, list: &'a [(&'a str, &'a str)]) -> Vec<&'a (&'a str, &'a str)> {
    let plain = plain(words);
    let is_there = |(phrase, _): &&(&str, &str)| plain.contains(&format!(" {phrase} "));
    list.iter().filter(is_there).collect()
}

fn is_allowed(place: &str, phrase: &str) -> bool {
    let (file, _) = place.rsplit_once(':').unwrap_or_default();
    let mut allowed = ALLOWED.iter();
    allowed.any(|(path, word, why)| *path == file && *word == phrase && !why.is_empty())
}

/// `Word(s)`: a plural that leaves its reader to choose.
fn has_either_plural(words: &str) -> bool {
    words
        .match_indices("(s)")
        .any(|(at, _)| words[..at].ends_with(|sign: char| sign.is_ascii_alphabetic()))
}

/// The fact of a message, and its hint behind it.
fn parts<'a>(message: &'a str, verbs: &BTreeSet<String>) -> Vec<&'a str> {
    let is_hint = |rest: &str| {
        let first = rest
            .split(|sign: char| !sign.is_alphanumeric())
            .next()
            .unwrap_or_default();
        let depends = matches!(first, "once" | "if")
            && rest.split(';').next().is_some_and(|it| it.contains(", "));
        verbs.contains(first) || depends
    };
    let mut breaks = message.match_indices("; ");
    match breaks.find(|(at, sign)| is_hint(&message[at + sign.len()..])) {
        Some((at, sign)) => vec![&message[..at], &message[at + sign.len()..]],
        None => vec![message],
    }
}

fn verbs() -> BTreeSet<String> {
    let text = fs::read_to_string(root().join("tests/data/hints.txt")).expect("the verbs");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .flat_map(str::split_whitespace)
        .map(str::to_owned)
        .collect()
}

/// Is it a sentence for people? What is shorter is a name or a part of one; the schema's rules and help texts have their pages.
fn is_message(text: &Text) -> bool {
    let is_help = text.words.starts_with("Examples:") || text.words.starts_with('<');
    text.words.split_whitespace().count() >= 4 && !is_help && !text.place.starts_with("crates/api/")
}

/// One line of it where a literal has several: each of a list of steps begins with `#`.
fn lines_of(text: &Text) -> Vec<&str> {
    match text.words.contains('\n') {
        true => text
            .words
            .lines()
            .filter_map(|it| it.trim_start().strip_prefix("# "))
            .collect(),
        false => vec![&text.words],
    }
}

#[test]
fn messages_have_no_word_of_the_dialect() {
    let list: Vec<(&str, &str)> = DIALECT.iter().chain(&PERSONS).copied().collect();
    let mut found = Vec::new();
    for text in literals().iter().filter(|it| is_message(it)) {
        for (phrase, better) in dialect(&text.words, &list) {
            if !is_allowed(&text.place, phrase) {
                found.push(format!("{}: `{phrase}`, write: {better}", text.place));
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn pages_have_no_word_of_the_dialect() {
    let mut found = Vec::new();
    for text in pages() {
        for (phrase, better) in dialect(&text.words, &DIALECT) {
            if !is_allowed(&text.place, phrase) {
                found.push(format!("{}: `{phrase}`, write: {better}", text.place));
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn plurals_are_right() {
    let all = literals().into_iter().filter(is_message).chain(pages());
    let found: Vec<String> = all
        .filter(|it| has_either_plural(&it.words) && !is_allowed(&it.place, "(s)"))
        .map(|it| it.place)
        .collect();
    assert!(
        found.is_empty(),
        "write the number with its noun (`counted`): {found:#?}"
    );
}

#[test]
fn messages_are_a_short_fact_and_a_short_hint() {
    let verbs = verbs();
    let mut found = Vec::new();
    for text in literals().iter().filter(|it| is_message(it)) {
        for line in lines_of(text) {
            for part in parts(line, &verbs) {
                let count = part.split_whitespace().count();
                if count > WORDS_MAX {
                    found.push(format!(
                        "{}: {count} words, at most {WORDS_MAX}: {part}",
                        text.place
                    ));
                }
            }
        }
    }
    assert!(
        found.is_empty(),
        "shorten it, or put a hint apart by `; ` and a verb of tests/data/hints.txt: {found:#?}"
    );
}

#[test]
fn the_lint_finds_what_it_looks_for() {
    let list: Vec<(&str, &str)> = DIALECT.iter().chain(&PERSONS).copied().collect();
    for (words, phrase) in [
        ("Nobody answers, and so on", "nobody"),
        ("the taint that somebody set", "somebody"),
        ("the machine was proven down, twice", "proven down"),
        ("the device said that it is off", "said"),
    ] {
        let found = dialect(words, &list);
        assert_eq!(found.first().map(|it| it.0), Some(phrase), "{words}");
    }
    for words in [
        "`nobody` may",
        "a {whoever} of it",
        "[a test](somebody.rs) of it",
        "told_once",
        "```text told",
    ] {
        assert!(dialect(words, &list).is_empty(), "{words}");
    }
    assert!(has_either_plural("2 pod(s) wait") && !has_either_plural("the unit (s) of it"));
    let long = "word ".repeat(WORDS_MAX);
    let message = format!("{long}; see {long}");
    let counts = parts(&message, &verbs())
        .into_iter()
        .map(|it| it.split_whitespace().count());
    assert_eq!(counts.collect::<Vec<_>>(), [WORDS_MAX, WORDS_MAX + 1]);
    let literals =
        strings("a(\"one\"); // \"two\"\nb('\"', r#\"three \"4\"\"#, \"fi\\\"ve \\\n     six\")");
    let literals: Vec<_> = literals.into_iter().map(|(_, words)| words).collect();
    assert_eq!(literals, ["one", "three \"4\"", "fi\\\"ve six"]);
}
