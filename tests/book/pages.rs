//! The documents, and the blocks in them.

use std::fs;
use std::path::{Path, PathBuf};

/// A document.
pub struct Page {
    /// From the root of the repository.
    pub path: String,
    /// Whole.
    pub text: String,
}

/// What stands between two fences.
pub struct Block {
    /// Where, for a message.
    pub place: String,
    /// What the fence says: a language, and what follows it.
    pub info: String,
    /// Without the indentation of a list.
    pub text: String,
}

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// All files below a folder whose names end so, by their path from the root, in order.
pub fn below(folder: &str, extension: &str) -> Vec<String> {
    let (mut left, mut found) = (vec![PathBuf::from(folder)], Vec::new());
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(root().join(&folder)).expect("a folder") {
            let entry = entry.expect("an entry");
            let path = folder.join(entry.file_name());
            if entry.path().is_dir() {
                left.push(path);
            } else if path.extension().is_some_and(|it| it == extension) {
                found.push(path.to_str().expect("UTF-8").to_owned());
            }
        }
    }
    found.sort();
    found
}

/// Everything in `docs`, in order.
pub fn of_the_book() -> Vec<Page> {
    let paths = below("docs", "md");
    paths.iter().map(|path| page(path)).collect()
}

/// The book, and what else is written for people who use the operator.
pub fn documents() -> Vec<Page> {
    let others = [
        "README.md",
        "SECURITY.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "fuzz/README.md",
        "charts/node-fencing-operator/README.md",
        "charts/node-fencing-policies/README.md",
    ];
    of_the_book().into_iter().chain(others.map(page)).collect()
}

fn page(path: &str) -> Page {
    Page {
        path: path.to_owned(),
        text: read(path),
    }
}

impl Page {
    /// The lines outside of blocks.
    pub fn prose(&self) -> impl Iterator<Item = &str> {
        let mut is_inside = false;
        self.text.lines().filter(move |line| {
            let is_fence = line.trim_start().starts_with("```");
            is_inside ^= is_fence;
            !is_inside && !is_fence
        })
    }

    /// What stands between backquotes outside of blocks.
    pub fn quoted(&self) -> Vec<String> {
        let prose: Vec<&str> = self.prose().collect();
        let prose = prose.join("\n");
        prose
            .split('`')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect()
    }

    pub fn blocks(&self) -> Vec<Block> {
        let mut found = Vec::new();
        let mut open: Option<(usize, Block)> = None;
        for (number, line) in (1..).zip(self.text.lines()) {
            let fence = line.trim_start().strip_prefix("```");
            match (fence, &mut open) {
                (Some(info), None) => {
                    let indent = line.len() - line.trim_start().len();
                    let block = Block {
                        place: format!("{}:{number}", self.path),
                        info: info.trim().to_owned(),
                        text: String::new(),
                    };
                    open = Some((indent, block));
                }
                (Some(_), Some(_)) => found.extend(open.take().map(|(_, block)| block)),
                (None, Some((indent, block))) => {
                    block.text.push_str(line.get(*indent..).unwrap_or_default());
                    block.text.push('\n');
                }
                (None, None) => {}
            }
        }
        assert!(open.is_none(), "{}: a block does not end", self.path);
        found
    }
}

/// Where a package of the workspace is.
pub fn folder(package: &str) -> PathBuf {
    match package.strip_prefix("fencing-") {
        Some(room) => root().join("crates").join(room),
        None if package == env!("CARGO_PKG_NAME") => root().to_owned(),
        None => root().join(package),
    }
}

/// The packages that cargo takes where none is named.
pub fn default_members() -> Vec<PathBuf> {
    let crates = fs::read_dir(root().join("crates")).expect("the crates");
    let crates = crates.map(|entry| entry.expect("an entry").path());
    crates.chain([root().to_owned()]).collect()
}
