//! One row of a list: a place, which is found by its name in whatever file it is, and what becomes of it.

use crate::tokens::{self, Token};
use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// What is done to a function, or whatever the place is.
pub enum Change {
    /// The condition that has this text is never met.
    Never(String),
    /// It does only this.
    Returns(String),
    /// The text, which stands there once, becomes another.
    Text { find: String, replace: String },
}

impl Change {
    pub fn of(lines: &[&str]) -> Option<Self> {
        let words = |line: &str, kind| {
            let rest = str::strip_prefix(line, kind)?;
            let is_whole = rest.is_empty() || rest.starts_with(' ');
            is_whole.then(|| rest.trim().to_owned())
        };
        match lines {
            [line] => None
                .or_else(|| words(line, "never").map(Self::Never))
                .or_else(|| words(line, "returns").map(Self::Returns))
                .or_else(|| Self::of(&[line, "+"])),
            [find, replace] => Some(Self::Text {
                find: words(find, "-")?,
                replace: words(replace, "+")?,
            }),
            _ => None,
        }
    }
}

/// A source file with its mutant.
pub struct Mutated {
    pub file: PathBuf,
    pub original: String,
    pub mutated: String,
}

/// All of the product's source files, but for their tests.
pub struct Sources {
    root: PathBuf,
    files: Vec<Source>,
}

struct Source {
    file: PathBuf,
    module: Vec<String>,
    text: String,
}

/// With its tokens, and for each bracket the place of its other one.
struct Parsed<'a> {
    source: &'a Source,
    tokens: Vec<Token<'a>>,
    partners: Vec<usize>,
}

impl Sources {
    pub fn below(root: &Path) -> Self {
        let mut files = Vec::new();
        read(&root.join("src"), &[], &mut files);
        for member in entries(&root.join("crates")) {
            let name = name(&member);
            read(&member.join("src"), &[name], &mut files);
        }
        let root = root.to_owned();
        Self { root, files }
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
        let root = &self.root;
        Places { root, of_name }
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

struct Place<'a> {
    parsed: Rc<Parsed<'a>>,
    path: Vec<&'a str>,
    range: Range<usize>,
}

pub struct Places<'a> {
    root: &'a Path,
    of_name: BTreeMap<&'a str, Vec<Place<'a>>>,
}

impl Places<'_> {
    /// The one place whose path begins with the first name and ends with the others.
    fn find(&self, wanted: &str) -> Result<&Place<'_>, String> {
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

    /// The file of a place.
    pub fn file(&self, wanted: &str) -> Option<&str> {
        let file = &self.find(wanted).ok()?.parsed.source.file;
        file.strip_prefix(self.root).ok()?.to_str()
    }

    /// The source without the guard.
    pub fn mutated(&self, place: &str, change: &Change) -> Result<Mutated, String> {
        let Place { parsed, range, .. } = self.find(place)?;
        let parsed = &**parsed;
        let Parsed {
            source,
            tokens,
            partners,
        } = parsed;
        let text = &source.text;
        let (span, new) = match change {
            Change::Text { find, replace } => {
                let (found, bound) = once(parsed, range, find)?;
                let span = tokens[found.start].start..tokens[found.end - 1].end();
                let new = with_names(replace, &bound)?;
                let within = found.start - range.start..found.end - range.start;
                known(&new, &tokens[range.clone()], &within)?;
                (span, new)
            }
            Change::Returns(value) => {
                let open = tokens::next(tokens, partners, range.start, &["{"]);
                let open = open.ok_or("it is no function")?;
                let span = tokens[open].end()..tokens[range.end - 1].start;
                (span, format!(" {value} "))
            }
            Change::Never(around) => {
                let found = condition(parsed, range, around)?;
                let span = tokens[found.start].start..tokens[found.end - 1].end();
                let or = tokens::next(tokens, partners, found.start, &["||"]);
                let condition = &text[span.clone()];
                let new = match or.is_some_and(|at| at < found.end) {
                    true => format!("({condition}) && false"),
                    false => format!("{condition} && false"),
                };
                (span, new)
            }
        };
        let mut mutated = text.clone();
        mutated.replace_range(span, &new);
        Ok(Mutated {
            file: source.file.clone(),
            original: text.clone(),
            mutated,
        })
    }
}

/// What the names with a `$` are in the source.
type Names<'a> = BTreeMap<&'a str, &'a str>;

/// Where the text stands.
fn once<'a>(
    parsed: &Parsed<'a>,
    within: &Range<usize>,
    text: &'a str,
) -> Result<(Range<usize>, Names<'a>), String> {
    let wanted = tokens::tokens(text);
    let fits = |start: usize| {
        let (end, names) = fits(parsed, start, &wanted, &Names::new())?;
        (end <= within.end).then_some((start..end, names))
    };
    let mut found: Vec<_> = within.clone().filter_map(fits).collect();
    match (found.pop(), found.len()) {
        (Some(one), 0) => Ok(one),
        (last, others) => {
            let times = others + usize::from(last.is_some());
            Err(format!("it has `{text}` {times} times"))
        }
    }
}

/// Where these tokens end if they begin here. A name with a `$` is a variable, or a field of one.
fn fits<'a>(
    parsed: &Parsed<'a>,
    at: usize,
    wanted: &[Token<'a>],
    names: &Names<'a>,
) -> Option<(usize, Names<'a>)> {
    let tokens = &parsed.tokens;
    let name = match wanted {
        [] => return Some((at, names.clone())),
        [dollar, name, ..] if dollar.text == "$" => name.text,
        [first, rest @ ..] if tokens.get(at)?.text == first.text => {
            return fits(parsed, at + 1, rest, names);
        }
        _ => return None,
    };
    if at > 0 && tokens[at - 1].text == "." {
        return None;
    }
    let mut end = at;
    while tokens.get(end)?.is_variable() {
        let there = &parsed.source.text[tokens[at].start..tokens[end].end()];
        if names.get(name).is_none_or(|it| *it == there) {
            let mut names = names.clone();
            names.insert(name, there);
            let found = fits(parsed, end + 1, &wanted[2..], &names);
            if found.is_some() {
                return found;
            }
        }
        if tokens.get(end + 1)?.text != "." {
            return None;
        }
        end += 2;
    }
    None
}

fn with_names(text: &str, names: &Names) -> Result<String, String> {
    let mut parts = text.split('$');
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|it: char| !it.is_alphanumeric() && it != '_');
        let (name, rest) = part.split_at(end.unwrap_or(part.len()));
        let there = names.get(name);
        whole += there.ok_or_else(|| format!("`${name}` is not in what is found"))?;
        whole += rest;
    }
    Ok(whole)
}

/// A variable that is neither in the place nor twice in the new text was renamed: the mutant would not build.
fn known(new: &str, place: &[Token], found: &Range<usize>) -> Result<(), String> {
    let new = tokens::tokens(new);
    let text = [&place[..found.start], &new, &place[found.end..]].concat();
    for at in found.start..found.start + new.len() {
        let it = &text[at];
        let is_field = at > 0 && [".", "::"].contains(&text[at - 1].text);
        let next = text.get(at + 1).map_or("", |it| it.text);
        let is_other = ["(", "!", "::", ":"].contains(&next);
        let of_it = |other: &&Token| other.text == it.text;
        let is_known = || place.iter().any(|it| of_it(&it)) || new.iter().filter(of_it).count() > 1;
        if it.is_variable() && it.text != "_" && !is_field && !is_other && !is_known() {
            return Err(format!("it has no `{}`", it.text));
        }
    }
    Ok(())
}

/// The condition that has this text, or the only one.
fn condition(parsed: &Parsed, within: &Range<usize>, around: &str) -> Result<Range<usize>, String> {
    let tokens = &parsed.tokens;
    let begins = |at: &usize| ["if", "while"].contains(&tokens[*at].text);
    let all = within.clone().filter(begins);
    let mut all = all.map(|at| at + 1..condition_end(tokens, &parsed.partners, at + 1));
    if around.is_empty() {
        let only = all.next().ok_or("it has no condition")?;
        return match all.next() {
            None => Ok(only),
            Some(_) => Err("it has several conditions: `never` needs a text of one".to_owned()),
        };
    }
    let (text, _) = once(parsed, within, around)?;
    let has_it = |it: &Range<usize>| it.start <= text.start && text.end <= it.end;
    let innermost = all.filter(has_it).min_by_key(Range::len);
    innermost.ok_or_else(|| format!("`{around}` stands in no condition"))
}

/// Its block or `=>`; a pattern may have braces too.
fn condition_end(tokens: &[Token], partners: &[usize], start: usize) -> usize {
    let mut from = start;
    loop {
        let end = tokens::next(tokens, partners, from, &["{", "=>"]).unwrap_or(tokens.len());
        let is_pattern = tokens.get(end).is_some_and(|it| it.text == "{")
            && tokens
                .get(partners[end] + 1)
                .is_some_and(|it| ["=", "|"].contains(&it.text));
        if !is_pattern {
            return end;
        }
        from = partners[end] + 1;
    }
}
