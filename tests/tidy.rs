//! Habits that a machine can check, so that no review has to: where the clock and the network may be named, that every
//! module says what it is for, and that the documents point at what exists.

use std::fs;
use std::path::{Path, PathBuf};

/// Lines of a file, those of its `mod tests` aside, above which a second idea is hiding in it.
const LINES_MAX: usize = 400;
/// Files that are longer and are still to be divided. Nothing is ever added here.
const TOO_LONG: [&str; 2] = ["src/core/incident.rs", "src/shell/detect.rs"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn sources(directory: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut left = vec![root().join(directory)];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(&directory)
            .expect("a directory")
            .map(|entry| entry.expect("an entry").path())
        {
            if entry.is_dir() {
                left.push(entry);
            } else if entry.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&entry).expect("UTF-8");
                found.push((
                    entry
                        .strip_prefix(root())
                        .expect("below the root")
                        .to_owned(),
                    text,
                ));
            }
        }
    }
    assert!(found.len() > 5, "no sources in {directory}");
    found
}

/// The text without comments and without its test module: what the program does.
fn code(text: &str) -> String {
    let before_tests = text.split("#[cfg(test)]").next().unwrap_or_default();
    before_tests
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
    for (path, text) in sources("src/core") {
        for word in forbidden {
            assert!(
                !code(&text).contains(word),
                "{} names {word}: it decides over facts that are given",
                path.display()
            );
        }
    }
}

/// That nobody else makes one is for the compiler to see: its fields are private.
#[test]
fn a_proof_is_neither_copied_nor_stored() {
    let proof = fs::read_to_string(root().join("src/core/proof.rs")).expect("the file");
    let (before, _) = proof.split_once("pub struct Proof {").expect("the type");
    let (_, derives) = before.rsplit_once("#[derive(").expect("its derives");
    let (derives, _) = derives.split_once(')').expect("their end");
    for forbidden in ["Clone", "Copy", "Serialize", "Deserialize"] {
        assert!(!derives.contains(forbidden), "a Proof is {forbidden}");
    }
}

#[test]
fn every_module_opens_with_what_it_is_for() {
    for (path, text) in ["src", "e2e/src", "e2e/tests", "tests"]
        .into_iter()
        .flat_map(sources)
    {
        // The tests of a module belong to it, and are introduced by it.
        let of_a_module = path.starts_with("src") && path.ends_with("tests.rs");
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
    for (path, text) in ["src", "e2e/src", "e2e/tests", "tests"]
        .into_iter()
        .flat_map(sources)
    {
        let program = text.split("#[cfg(test)]").next().unwrap_or_default();
        if program.lines().count() > LINES_MAX {
            too_long.push(path.display().to_string());
        }
    }
    too_long.sort();
    assert_eq!(
        too_long, TOO_LONG,
        "the files with more than {LINES_MAX} lines, and those that are known to have them"
    );
}

#[test]
fn documents_point_at_what_exists() {
    for document in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"] {
        let text = fs::read_to_string(root().join(document)).expect("the document");
        for target in text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
        {
            let local = !target.starts_with("http") && !target.starts_with('#');
            assert!(
                !local || root().join(target).exists(),
                "{document} links to {target}, which does not exist"
            );
        }
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
    ];
    for (path, text) in ["src", "e2e/src", "e2e/tests", "tests"]
        .into_iter()
        .flat_map(sources)
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
