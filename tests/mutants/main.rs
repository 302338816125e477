//! Does a test notice when a guard of the protocol goes missing? Each entry of `list.txt` removes one from a copy of the
//! sources under `target/mutants`, builds that, and runs the core's unit tests and the golden stories over it: one of them has to
//! fail. Slow (a build for each), so `make mutants` runs it and `make test` does not.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One guard, and how to remove it.
struct Mutant {
    guard: String,
    file: String,
    find: String,
    replace: String,
}

fn mutants(list: &str) -> Vec<Mutant> {
    let rows: Vec<&str> = list.lines().filter(|line| !line.starts_with('#')).collect();
    let paragraphs = rows
        .split(|line| line.is_empty())
        .filter(|lines| !lines.is_empty());
    let mutant = |lines: &[&str]| match lines {
        [guard, file, find, replace] => Mutant {
            guard: (*guard).to_owned(),
            file: (*file).to_owned(),
            find: find.strip_prefix("- ").expect("a line `- `").to_owned(),
            replace: replace.strip_prefix("+ ").expect("a line `+ `").to_owned(),
        },
        other => panic!("a mutant is four lines: {other:?}"),
    };
    paragraphs.map(mutant).collect()
}

fn copy(from: &Path, to: &Path) {
    if from.is_dir() {
        fs::create_dir_all(to).expect("a directory for the copy");
        for entry in fs::read_dir(from).expect("a readable directory") {
            let path = entry.expect("an entry").path();
            copy(&path, &to.join(path.file_name().expect("a name")));
        }
    } else {
        fs::copy(from, to).expect("a file is copied");
    }
}

/// Runs the tests that have to notice, and says whether all of them passed; `None`: it did not even build.
fn passes(workspace: &Path, target: &Path) -> Option<bool> {
    let cargo = |arguments: &[&str]| {
        Command::new(env!("CARGO"))
            .args(arguments)
            .current_dir(workspace)
            .env("CARGO_TARGET_DIR", target)
            .env_remove("UPDATE")
            .output()
            .expect("cargo runs")
    };
    let tests = ["test", "--quiet", "--lib", "--test", "golden"];
    if !cargo(&[&tests[..], &["--no-run"]].concat())
        .status
        .success()
    {
        return None;
    }
    let run = [
        &tests[..],
        &["--no-fail-fast", "--", "core::", "every_story"],
    ]
    .concat();
    Some(cargo(&run).status.success())
}

#[test]
#[ignore = "slow: a build for each guard; `make mutants` runs it"]
fn every_guard_is_missed_when_it_is_gone() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"));
    let workspace = source.join("target/mutants/workspace");
    let target: PathBuf = source.join("target/mutants/target");
    let _ = fs::remove_dir_all(&workspace);
    for part in [
        "Cargo.toml",
        "Cargo.lock",
        "rust-toolchain.toml",
        "src",
        "tests",
        "e2e/Cargo.toml",
        "e2e/src",
    ] {
        if let Some(parent) = workspace.join(part).parent() {
            fs::create_dir_all(parent).expect("a directory for the copy");
        }
        copy(&source.join(part), &workspace.join(part));
    }
    assert_eq!(
        passes(&workspace, &target),
        Some(true),
        "the tests pass over the sources as they are"
    );
    let mut survivors = Vec::new();
    for mutant in mutants(include_str!("list.txt")) {
        let file = workspace.join(&mutant.file);
        let original = fs::read_to_string(&file).expect("a source is readable");
        assert!(
            original.contains(&mutant.find),
            "{} has no `{}`",
            mutant.file,
            mutant.find
        );
        fs::write(&file, original.replacen(&mutant.find, &mutant.replace, 1)).expect("a mutant");
        let verdict = match passes(&workspace, &target) {
            Some(false) => "noticed",
            Some(true) => "SURVIVES",
            None => "DOES NOT BUILD",
        };
        fs::write(&file, original).expect("the source is restored");
        println!("{verdict:<15} {}", mutant.guard);
        if verdict != "noticed" {
            survivors.push(mutant.guard);
        }
    }
    assert!(
        survivors.is_empty(),
        "no test notices that these are gone: {survivors:#?}"
    );
}

#[test]
fn every_guard_of_the_list_is_in_the_sources() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"));
    for mutant in mutants(include_str!("list.txt")) {
        let text = fs::read_to_string(source.join(&mutant.file)).expect("a source is readable");
        assert!(
            text.contains(&mutant.find),
            "{} has no `{}`",
            mutant.file,
            mutant.find
        );
    }
}
