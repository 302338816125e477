//! Stories: what is seen of a cluster, line by line, and what the core decides, in its own words.
//!
//! Each `tests/golden/*.txt` is one incident. A line that begins with a time says what happens; the indented lines under it are
//! the core's decisions, replayed here over the real [`step`] and [`learn`]. `UPDATE=1` rewrites them; a stale file fails. The
//! language of the files is described in `tests/golden/README.md`.

mod bounds;
mod cluster;
mod properties;
mod story;

use std::fs;
use std::path::{Path, PathBuf};

fn stories() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut files: Vec<PathBuf> = fs::read_dir(&directory)
        .expect("tests/golden is readable")
        .map(|entry| entry.expect("an entry of tests/golden").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    files.sort();
    files
}

/// The first line that differs, for people.
fn difference(told: &str, retold: &str) -> String {
    let pairs = told.lines().zip(retold.lines()).enumerate();
    let first = pairs.into_iter().find(|(_, (told, retold))| told != retold);
    match first {
        Some((line, (told, retold))) => {
            format!("line {}:\n  file: {told}\n  now:  {retold}", line + 1)
        }
        None => "one is longer than the other".to_owned(),
    }
}

#[test]
fn every_story_is_told_as_it_stands() {
    let update = std::env::var_os("UPDATE").is_some_and(|value| value == "1");
    let mut stale = Vec::new();
    let stories = stories();
    println!("{} stories", stories.len());
    for file in stories {
        let told = fs::read_to_string(&file).expect("a story is readable");
        let name = file
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        let name = name.unwrap_or_default();
        let retold = match story::retell(&told) {
            Ok(retold) => retold,
            Err(error) => {
                stale.push(format!("{name}, {error}"));
                continue;
            }
        };
        if told == retold {
            continue;
        }
        if update {
            fs::write(&file, &retold).expect("a story is writable");
        } else {
            stale.push(format!("{name}, {}", difference(&told, &retold)));
        }
    }
    assert!(
        stale.is_empty(),
        "decisions have changed; look at each of them, then UPDATE=1:\n{}",
        stale.join("\n")
    );
}
