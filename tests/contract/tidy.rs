//! Habits that a machine can check, so that no review has to: where the clock and the network may be named, that every
//! module says what it is for, and that the documents point at what exists.

use std::fs;
use std::path::{Path, PathBuf};

/// Lines of a file, those of its `mod tests` aside, above which a second idea is hiding in it.
const LINES_MAX: usize = 400;
/// Columns of a document, its tables and code blocks aside.
const COLUMNS_MAX: usize = 150;

/// Where Rust is written. (Each of `fuzz/targets` is one line, made by a macro of `fuzz/src`.)
const ROOMS: [&str; 8] = [
    "src",
    "crates",
    "e2e/src",
    "e2e/tests",
    "simapi",
    "fuzz/src",
    "tests",
    "benches",
];

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub fn sources(directory: &str) -> Vec<(PathBuf, String)> {
    let found = texts(directory, &["rs"]);
    assert!(found.len() >= 5, "no sources in {directory}");
    found
}

/// All texts below a folder whose names end so, by their path from the root.
pub fn texts(directory: &str, endings: &[&str]) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut left = vec![root().join(directory)];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(&directory)
            .expect("a directory")
            .map(|entry| entry.expect("an entry").path())
        {
            if entry.is_dir() {
                left.push(entry);
            } else if entry
                .extension()
                .is_some_and(|extension| endings.iter().any(|ending| extension == *ending))
            {
                let text = fs::read_to_string(&entry).expect("UTF-8");
                let path = entry.strip_prefix(root()).expect("below the root");
                found.push((path.to_owned(), text));
            }
        }
    }
    found
}

/// The text without the test module at its end. What else is there for tests alone ends nothing.
fn program(text: &str) -> &str {
    const TESTS: &str = "\n#[cfg(test)]\nmod tests {";
    text.split(TESTS).next().unwrap_or_default()
}

/// The same without comments: what the program does.
fn code(text: &str) -> String {
    program(text)
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn the_core_knows_no_clock_no_network_and_no_randomness() {
    // Crates and modules by their names, so that no way to import from them goes unseen.
    let forbidden = [
        "kube::",
        "use kube",
        "tokio",
        "futures",
        "rand::",
        "getrandom",
        "Instant",
        "SystemTime",
        "Timestamp::now",
        "clock::",
        "std::net",
        "std::fs",
        "std::env",
        "async ",
        ".await",
    ];
    for (path, text) in sources("crates/core/src") {
        for word in forbidden {
            assert!(
                !code(&text).contains(word),
                "{} names {word}: it decides over facts that are given",
                path.display()
            );
        }
    }
}

/// clippy.toml has std's clocks. tokio's stands still while the host is suspended.
#[test]
fn nobody_times_by_the_runtime_but_who_paces_writes() {
    for (path, text) in ["src", "crates"].into_iter().flat_map(sources) {
        let is_test =
            path.ends_with("tests.rs") || path.iter().any(|it| it == "tests" || it == "testbed");
        let paces = path.ends_with("shell/policy_status.rs") || path.ends_with("src/clock.rs");
        assert!(
            is_test || paces || !code(&text).contains("Instant"),
            "{} names an Instant: time comes from crates/drivers/src/clock.rs",
            path.display()
        );
    }
}

/// That nobody else makes one is for the compiler to see: its fields are private.
#[test]
fn a_proof_is_neither_copied_nor_stored() {
    let proof = fs::read_to_string(root().join("crates/core/src/proof.rs")).expect("the file");
    let (before, _) = proof.split_once("pub struct Proof {").expect("the type");
    let (_, derives) = before.rsplit_once("#[derive(").expect("its derives");
    let (derives, _) = derives.split_once(')').expect("their end");
    for forbidden in ["Clone", "Copy", "Serialize", "Deserialize"] {
        assert!(!derives.contains(forbidden), "a Proof is {forbidden}");
    }
}

#[test]
fn every_module_opens_with_what_it_is_for() {
    for (path, text) in ROOMS.into_iter().flat_map(sources) {
        // The tests of a module belong to it, and are introduced by it.
        let is_program = path.iter().any(|it| it == "src");
        let of_a_module = is_program && path.ends_with("tests.rs");
        assert!(
            of_a_module || text.starts_with("//!"),
            "{} does not open with a //! paragraph",
            path.display()
        );
    }
}

#[test]
fn no_file_hides_a_second_idea() {
    let mut too_long = Vec::new();
    for (path, text) in ROOMS.into_iter().flat_map(sources) {
        if program(&text).lines().count() > LINES_MAX {
            too_long.push(path.display().to_string());
        }
    }
    assert!(
        too_long.is_empty(),
        "files with more than {LINES_MAX} lines: {too_long:?}"
    );
}

/// The documents for people, by their path from the root.
fn documents() -> Vec<(PathBuf, String)> {
    let mut found = texts("docs", &["md"]);
    for document in [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "CHANGELOG.md",
        "crates/core/tests/golden/README.md",
    ] {
        let text = fs::read_to_string(root().join(document)).expect("the document");
        found.push((document.into(), text));
    }
    found
}

#[test]
fn documents_can_be_read_in_an_editor() {
    let mut too_wide = Vec::new();
    for (document, text) in documents() {
        let mut in_code = false;
        for (number, line) in (1..).zip(text.lines()) {
            in_code ^= line.trim_start().starts_with("```");
            let columns = line.chars().count();
            if !in_code && !line.trim_start().starts_with('|') && columns > COLUMNS_MAX {
                too_wide.push(format!("{}:{number} has {columns}", document.display()));
            }
        }
    }
    assert!(
        too_wide.is_empty(),
        "columns of a line, {COLUMNS_MAX} are allowed outside of tables and code; break it: {too_wide:#?}"
    );
}

/// What stands between backquotes in `text`, code blocks aside.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split("```")
        .step_by(2)
        .flat_map(|prose| prose.split('`').skip(1).step_by(2))
}

/// Is this written like the path of a file or folder of ours? If so, where it has to be.
fn as_path(word: &str) -> Option<PathBuf> {
    let plain = |sign: char| sign.is_ascii_alphanumeric() || "/._-".contains(sign);
    let (first, _) = word.split_once('/')?;
    let base = match first {
        "src" | "crates" | "tests" | "e2e" | "simapi" | "fuzz" | "benches" | "docs" | "deploy"
        | "crds" | "charts" | "image" | ".ci" => "",
        "api" | "cluster" | "core" | "drivers" | "plugin" => "crates",
        "shell" => "src",
        _ => return None,
    };
    word.chars()
        .all(plain)
        .then(|| root().join(base).join(word.trim_end_matches('/')))
}

/// The anchors that a Markdown document offers: its headings, as GitHub writes them.
fn anchors(text: &str) -> Vec<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let slug = |line: &str| {
        line.trim_start_matches('#')
            .trim()
            .to_lowercase()
            .chars()
            .filter(|sign| sign.is_alphanumeric() || " -_".contains(*sign))
            .map(|sign| if sign == ' ' { '-' } else { sign })
            .collect()
    };
    headings.map(slug).collect()
}

#[test]
fn documents_point_at_what_exists() {
    for (document, text) in documents() {
        let (name, folder) = (document.display(), document.parent().expect("a folder"));
        for word in quoted(&text) {
            assert!(
                as_path(word).is_none_or(|path| path.exists()),
                "{name} names `{word}`, which does not exist"
            );
        }
        let mut pieces = text.split("](").peekable();
        while let (Some(before), Some(after)) = (pieces.next(), pieces.peek()) {
            let label = before.rsplit('[').next().unwrap_or_default();
            let target = after.split(')').next().unwrap_or_default();
            if target.starts_with("http") {
                continue;
            }
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = match file {
                "" => root().join(&document),
                file => root().join(folder).join(file),
            };
            assert!(
                path.exists(),
                "{name} links to {target}, which does not exist"
            );
            let is_test = label.matches('_').count() > 1 && !label.contains(['.', '/', ' ']);
            if !anchor.is_empty() || is_test {
                let there = fs::read_to_string(&path).expect("a text");
                assert!(
                    anchor.is_empty() || anchors(&there).iter().any(|one| one == anchor),
                    "{name} links to {target}, which has no such heading"
                );
                // A function, or a name that a macro makes one of.
                let is_there = there.contains(&format!("fn {label}("))
                    || there.contains(&format!(" {label}: "));
                assert!(
                    !is_test || is_there,
                    "{name} links to test {label}, which is not in {target}"
                );
            }
        }
    }
}

/// `kubectl fence check` sends whoever reads it to a place in the book.
#[test]
fn every_hint_of_check_leads_to_a_page_and_a_heading_that_exist() {
    let mut seen = 0;
    for (path, text) in sources("crates/plugin/src/check") {
        for hint in code(&text)
            .split('"')
            .filter(|it| it.starts_with("docs/") && it.contains(".md"))
        {
            let (page, heading) = hint.split_once('#').unwrap_or((hint, ""));
            let there = fs::read_to_string(root().join(page)).unwrap_or_default();
            let is_there = anchors(&there).iter().any(|it| it == heading);
            assert!(is_there, "{}: {hint} leads nowhere", path.display());
            seen += 1;
        }
    }
    assert!(seen >= 15, "only {seen} hints");
}

/// Who looks for something begins there.
#[test]
fn every_room_has_its_place_in_the_architecture() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("the document");
    for folder in
        "crates/core/src crates/drivers/src crates/cluster/src src/shell crates/plugin/src"
            .split(' ')
    {
        let title = format!("**The rooms of `{folder}`**");
        let (_, rooms) = text.split_once(&title).expect("its rooms");
        let end = rooms.find("\n**The rooms of").or(rooms.find("\n## "));
        let named: Vec<&str> = quoted(&rooms[..end.expect("their end")]).collect();
        let no_rooms = ["lib", "mod", "tests", "fixtures", "fake"];
        for entry in fs::read_dir(root().join(folder)).expect("a folder") {
            let file = entry.expect("an entry").file_name();
            let room = file.to_str().expect("UTF-8").trim_end_matches(".rs");
            let is_named = named.contains(&room) || no_rooms.contains(&room);
            assert!(is_named, "ARCHITECTURE.md: {title} lack `{room}`");
        }
    }
}

/// The ids in a text: a letter of `S`, `L`, `F`, `R` and one or two digits, as a word of its own.
fn ids(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|sign: char| !sign.is_alphanumeric() && sign != '_');
    words.filter(|word| {
        let digits = word.strip_prefix(['S', 'L', 'F', 'R']).unwrap_or_default();
        (1..=2).contains(&digits.len()) && digits.bytes().all(|digit| digit.is_ascii_digit())
    })
}

#[test]
fn every_id_that_is_cited_is_explained() {
    let explained: Vec<String> = ["docs/protocol.md", "docs/faults.md"]
        .into_iter()
        .map(|document| fs::read_to_string(root().join(document)).expect("the document"))
        .flat_map(|text| {
            // The first cell of a row, or the heading of a section of its own.
            let rows = text.lines().filter_map(|line| {
                line.strip_prefix("| ")
                    .or_else(|| line.strip_prefix("### "))
            });
            let first = rows.filter_map(|row| row.split(" |").next().map(str::to_owned));
            let first: Vec<String> = first.collect();
            first
                .iter()
                .flat_map(|cell| ids(cell))
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .collect();
    let cited = ROOMS
        .into_iter()
        .chain(["crates/testbed", "e2e", "deploy"])
        .flat_map(|folder| texts(folder, &["rs", "txt", "yaml", "md"]))
        .chain(documents());
    for (path, text) in cited {
        for id in ids(&text) {
            assert!(
                explained.iter().any(|one| one == id),
                "{} cites {id}, which neither docs/protocol.md nor docs/faults.md explains",
                path.display()
            );
        }
    }
    for (path, text) in texts("crds", &["yaml"]) {
        assert_eq!(
            ids(&text).next(),
            None,
            "{} cites an id: its readers have kubectl, and not our documents",
            path.display()
        );
    }
}

#[test]
fn nothing_is_left_undone_or_tied_to_a_machine() {
    // Put together here, so that this file does not find itself.
    let marks = [
        "TO".to_owned() + "DO",
        "FIX".to_owned() + "ME",
        "/ro".to_owned() + "ot/",
        "/wo".to_owned() + "rk/",
        // Documents that are not in this repository.
        "DES".to_owned() + "IGN",
        "FAU".to_owned() + "LTS",
        "PRO".to_owned() + "OF §",
        "REAL-".to_owned() + "NODES",
    ];
    for (path, text) in ROOMS
        .into_iter()
        .chain(["crates/testbed", "e2e", "deploy", "docs", ".github"])
        .flat_map(|folder| texts(folder, &["rs", "txt", "yaml", "yml", "md"]))
    {
        for mark in &marks {
            assert!(
                !text.contains(mark.as_str()),
                "{} contains {mark}",
                path.display()
            );
        }
    }
}
