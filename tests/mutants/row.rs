//! What a row of a list does to its place.

use crate::sources::{Parsed, Place, Places};
use crate::tokens::{self, Token};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;

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

    /// What it changes in the sources.
    pub fn edit(&self, places: &Places, place: &str) -> Result<Edit, String> {
        let Place { parsed, range, .. } = places.find(place)?;
        let parsed = &**parsed;
        let Parsed {
            source,
            tokens,
            partners,
        } = parsed;
        let text = &source.text;
        let (span, new) = match self {
            Self::Text { find, replace } => {
                let (found, bound) = once(parsed, range, find)?;
                let span = tokens[found.start].start..tokens[found.end - 1].end();
                let new = with_names(replace, &bound)?;
                let within = found.start - range.start..found.end - range.start;
                known(&new, &tokens[range.clone()], &within)?;
                (span, new)
            }
            Self::Returns(value) => {
                let open = tokens::next(tokens, partners, range.start, &["{"]);
                let open = open.ok_or("it is no function")?;
                let span = tokens[open].end()..tokens[range.end - 1].start;
                (span, format!(" {value} "))
            }
            Self::Never(around) => {
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
        Ok(Edit {
            file: source.file.clone(),
            span,
            new,
        })
    }
}

/// A text that stands instead of another one.
pub struct Edit {
    pub file: PathBuf,
    /// Bytes of the file.
    pub span: Range<usize>,
    pub new: String,
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

#[test]
fn a_change_is_found_by_its_tokens() {
    let text = "impl Round {
        fn ends(&self, pod: &Pod) -> bool {
            if self.memory.tainted || pod.is_gone(
                self.now,
            ) {
                return false;
            }
            !self.is_due
        }
    }";
    let source = crate::sources::Source {
        file: PathBuf::from("crates/core/src/plan.rs"),
        module: vec!["core".to_owned(), "plan".to_owned()],
        text: text.to_owned(),
    };
    let sources = crate::sources::Sources {
        files: vec![source],
    };
    let places = sources.places();
    let mutated = |lines: &[&str]| {
        let change = Change::of(lines).expect("a change");
        let edit = change.edit(&places, "core::Round::ends")?;
        let mut text = text.to_owned();
        text.replace_range(edit.span, &edit.new);
        Ok::<_, String>(text.split_whitespace().collect::<String>())
    };
    for (lines, becomes) in [
        (
            &["never tainted"][..],
            "if(self.memory.tainted||pod.is_gone(self.now,))&&false{",
        ),
        (
            &["never"],
            "if(self.memory.tainted||pod.is_gone(self.now,))&&false{",
        ),
        (&["returns true"], "->bool{true}"),
        (&["- || $node.is_gone($t)"], "ifself.memory.tainted{"),
        (&["- !$m.is_due", "+ $m.is_due"], "}self.is_due}"),
        (
            &["- $m.tainted", "+ $m.tainted && pod.is_due"],
            "ifself.memory.tainted&&pod.is_due||pod",
        ),
    ] {
        let whole = mutated(lines).expect("a place that is found");
        assert!(whole.contains(becomes), "{lines:?}: {whole}");
    }
    for (lines, why) in [
        (&["never is_due"][..], "`is_due` stands in no condition"),
        (&["- self"], "it has `self` 4 times"),
        (&["- $m.tainted", "+ node.is_due"], "it has no `node`"),
        (
            &["- $m.tainted", "+ $s.tainted"],
            "`$s` is not in what is found",
        ),
    ] {
        assert_eq!(mutated(lines).err().as_deref(), Some(why));
    }
}
