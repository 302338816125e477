//! Stories: what is seen of a cluster, line by line, and what the core decides, in its own words.
//!
//! Each `crates/core/tests/golden/PHASE/*.txt` is one incident. A line that begins with a time says what happens; the indented lines under it are
//! the core's decisions, replayed here over the real [`step`] and [`learn`]. `UPDATE=1` rewrites them; a stale file fails, and `STORY=people/85`
//! replays those whose path has that in it. The language of the files is described in `crates/core/tests/golden/README.md`.

mod bounds;
mod cluster;
mod others;
mod properties;
#[path = "../../../../tests/stale/mod.rs"]
mod stale;
mod story;

use std::fs;
use std::path::Path;

/// Their paths from the root, of those that were asked for.
fn stories() -> Vec<String> {
    let asked = std::env::var("STORY").unwrap_or_default();
    let entries = |folder: &Path| {
        let entries = fs::read_dir(folder).expect("a folder of crates/core/tests/golden");
        entries.map(|entry| entry.expect("an entry of it").path())
    };
    let mut files: Vec<String> = entries(&root().join("tests/golden"))
        .filter(|path| path.is_dir())
        .flat_map(|folder| entries(&folder))
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .map(|path| {
            let path = path.strip_prefix(root()).expect("a path below the root");
            path.to_string_lossy().into_owned()
        })
        .filter(|path| path.contains(&asked))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no story has `{asked}` in its path");
    files
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn every_story_is_told_as_it_stands() {
    let (mut retold, mut wrong) = (Vec::new(), Vec::new());
    for file in stories() {
        let told = fs::read_to_string(root().join(&file)).expect("a story is readable");
        match story::retell(&told) {
            Ok(story) => retold.push((file, story)),
            // It stops at an event that no longer fits, because the core decided something else above it.
            Err(error) if error.contains('\n') => {
                let first = stale::difference(&told, &error);
                wrong.push(format!("{file}, {error}\nfirst difference at {first}"));
            }
            Err(error) => wrong.push(format!("{file}, {error}")),
        }
    }
    println!("{} stories", retold.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    stale::check("golden", retold);
}
