//! Tests that need what this host may not have: each one that is skipped says so, is counted, and fails where nothing may be skipped.

use std::fs::OpenOptions;
use std::io::Write;

use anyhow::{Context, Result, ensure};

use crate::paths::lab_directory;

/// Set to `1` where nothing may be missing, real machines least of all: a test that would be skipped fails.
const REQUIRE_REAL: &str = "LAB_REQUIRE_REAL";
/// Below the lab's directory: one line for each test that was skipped. `make e2e` empties it, and prints it at its end.
const SKIPPED: &str = "skipped";

/// Is it there? `false`: the test is to end here, and has been counted as skipped; `test` names it where its thread does not, and `what` is
/// what there then is none of.
pub fn or_skip(available: Result<(), String>, what: &str, test: &str) -> Result<bool> {
    let Err(reason) = available else {
        return Ok(true);
    };
    ensure!(
        std::env::var_os(REQUIRE_REAL).is_none_or(|value| value != "1"),
        "{REQUIRE_REAL} is set, but there are no {what} here: {reason}"
    );
    // The test harness calls a test's thread like the test, unless it has but one thread.
    let thread = std::thread::current();
    let test = thread.name().filter(|name| *name != "main").unwrap_or(test);
    let line = format!("SKIPPED {test}: no {what} here: {reason}\n");
    // Not by eprintln!, which the harness swallows when a test passes.
    std::io::stderr().write_all(line.as_bytes())?;
    std::fs::create_dir_all(lab_directory())?;
    let path = lab_directory().join(SKIPPED);
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .with_context(|| format!("failed to open {}", path.display()))?;
    file.write_all(line.as_bytes())?;
    Ok(false)
}
