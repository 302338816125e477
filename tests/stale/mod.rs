//! Files of the repository that are made by a test: compared with what they should be, or written anew with `UPDATE=1`. Of several tests.

use std::fs;
use std::path::Path;

/// Compares files, by their paths from the root, with what they should be, or writes those that differ when `UPDATE` is 1. `test` is the name
/// of the binary that this is called from.
pub fn check(test: &str, files: impl IntoIterator<Item = (impl AsRef<str>, String)>) {
    let is_update = std::env::var_os("UPDATE").is_some_and(|value| value == "1");
    let mut stale = Vec::new();
    for (path, expected) in files {
        let path = path.as_ref();
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
        // One that is not there yet is empty.
        let actual = fs::read_to_string(&file).unwrap_or_default();
        if actual == expected {
            continue;
        }
        if is_update {
            let folder = file.parent().expect("a file is in a folder");
            fs::create_dir_all(folder).expect("the folder must be writable");
            fs::write(&file, expected).expect("the file must be writable");
        } else {
            stale.push(format!("{path}, {}", difference(&actual, &expected)));
        }
    }
    assert!(
        stale.is_empty(),
        "stale files; look at each difference, then run `UPDATE=1 cargo test --test {test}` and commit the result:\n{}",
        stale.join("\n")
    );
}

/// The first line that differs, for people.
pub fn difference(actual: &str, expected: &str) -> String {
    let mut pairs = (1..).zip(actual.lines().zip(expected.lines()));
    match pairs.find(|(_, (actual, expected))| actual != expected) {
        Some((line, (actual, expected))) => {
            format!("line {line}:\n  file: {actual}\n  now:  {expected}")
        }
        None => "one is longer than the other".to_owned(),
    }
}
