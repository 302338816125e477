//! What the Makefile names exists.

use super::tidy::root;
use std::fs;

/// `make check` names a dozen e2e tests exactly: one that was renamed would not be run, without a word.
#[test]
fn the_dozen_of_make_check_exists() {
    let read = |path: &str| fs::read_to_string(root().join(path)).expect("a file");
    let makefile = read("Makefile");
    let (_, rest) = makefile.split_once("E2E_DOZEN = ").expect("the dozen");
    let (names, _) = rest.split_once("\nE2E_BUILD").expect("what follows it");
    let names: Vec<&str> = names.split_whitespace().filter(|it| *it != "\\").collect();
    assert_eq!(names.len(), 12);
    for name in names {
        let (module, test) = name.split_once("::").expect("module::test");
        let source = read(&format!("e2e/tests/e2e/{module}.rs"));
        assert!(source.contains(test), "{name}");
    }
}
