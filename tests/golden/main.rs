//! Stories: what is seen of a cluster, line by line, and what the core decides, in its own words.
//!
//! Each `tests/golden/*.txt` is one incident. A line that begins with a time says what happens; the indented lines under it are
//! the core's decisions, replayed here over the real [`step`] and [`learn`]. `UPDATE=1` rewrites them; a stale file fails. The
//! language of the files is described in `tests/golden/README.md`.

mod bounds;
mod cluster;
mod properties;
#[path = "../stale/mod.rs"]
mod stale;
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

#[test]
fn every_story_is_told_as_it_stands() {
    let (mut retold, mut wrong) = (Vec::new(), Vec::new());
    for file in stories() {
        let told = fs::read_to_string(&file).expect("a story is readable");
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        match story::retell(&told) {
            Ok(story) => retold.push((format!("tests/golden/{name}"), story)),
            Err(error) => wrong.push(format!("{name}, {error}")),
        }
    }
    println!("{} stories", retold.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    stale::check("golden", retold);
}
