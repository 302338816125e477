//! The product's sources, and the places in them by their names, in whatever file they are.

use crate::tokens::{self, Token};
use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// All of the product's source files, but for their tests.
pub struct Sources {
    pub files: Vec<Source>,
}

/// One of them, and the path of its module.
pub struct Source {
    /// Its path below the root.
    pub file: PathBuf,
    pub module: Vec<String>,
    pub text: String,
}

/// With its tokens, and for each bracket the place of its other one.
pub struct Parsed<'a> {
    pub source: &'a Source,
    pub tokens: Vec<Token<'a>>,
    pub partners: Vec<usize>,
}

impl Sources {
    pub fn below(root: &Path) -> Self {
        let mut files = Vec::new();
        read(&root.join("src"), &[], &mut files);
        for member in entries(&root.join("crates")) {
            let name = name(&member);
            read(&member.join("src"), &[name], &mut files);
        }
        for source in &mut files {
            let file = source.file.strip_prefix(root).expect("below the root");
            source.file = file.to_owned();
        }
        Self { files }
    }

    fn of(&self, file: &Path) -> &Source {
        let found = self.files.iter().find(|source| source.file == file);
        found.expect("a source of the product")
    }

    pub fn text(&self, file: &Path) -> &str {
        &self.of(file).text
    }

    /// What the places in it begin with.
    pub fn part(&self, file: &Path) -> &str {
        &self.of(file).module[0]
    }

    /// Every place, by its name.
    pub fn places(&self) -> Places<'_> {
        let mut of_name: BTreeMap<&str, Vec<Place>> = BTreeMap::new();
        for source in &self.files {
            let tokens = tokens::tokens(&source.text);
            let partners = tokens::partners(&tokens);
            let module: Vec<&str> = source.module.iter().map(String::as_str).collect();
            let items = tokens::items(&tokens, &partners, &module);
            let parsed = Rc::new(Parsed {
                source,
                tokens,
                partners,
            });
            for (path, range) in items {
                let parsed = parsed.clone();
                let name = path[path.len() - 1];
                of_name.entry(name).or_default().push(Place {
                    parsed,
                    path,
                    range,
                });
            }
        }
        Places { of_name }
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.map(|it| it.expect("an entry").path()).collect()
}

fn name(path: &Path) -> String {
    let stem = path.file_stem().expect("a name");
    stem.to_string_lossy().into_owned()
}

fn read(folder: &Path, module: &[String], files: &mut Vec<Source>) {
    for file in entries(folder) {
        let name = name(&file);
        let mut module = module.to_vec();
        if !["mod", "lib", "main"].contains(&name.as_str()) {
            module.push(name);
        }
        if module.last().is_some_and(|it| it == "tests") {
            continue;
        }
        if file.is_dir() {
            read(&file, &module, files);
        } else if file.extension().is_some_and(|it| it == "rs") {
            let text = fs::read_to_string(&file).expect("a source is readable");
            files.push(Source { file, module, text });
        }
    }
}

/// A function, a type or a constant, and which tokens of its file it is.
pub struct Place<'a> {
    pub parsed: Rc<Parsed<'a>>,
    path: Vec<&'a str>,
    pub range: Range<usize>,
}

/// All places.
pub struct Places<'a> {
    of_name: BTreeMap<&'a str, Vec<Place<'a>>>,
}

impl Places<'_> {
    /// The one place whose path begins with the first name and ends with the others.
    pub fn find(&self, wanted: &str) -> Result<&Place<'_>, String> {
        let names: Vec<&str> = wanted.split("::").collect();
        let places = self.of_name.get(names[names.len() - 1]);
        let is_it = |place: &&Place| {
            place.path.first() == names.first() && place.path[1..].ends_with(&names[1..])
        };
        let found: Vec<&Place> = places.into_iter().flatten().filter(is_it).collect();
        match found[..] {
            [one] => Ok(one),
            _ => Err(format!("there are {} of `{wanted}`", found.len())),
        }
    }
}
