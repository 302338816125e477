//! Many mutants in one source: a function that has some gets a body for each beside its own, and the environment says which one runs.

use crate::row::Edit;
use crate::tokens;
use std::fmt::Write;
use std::ops::Range;

/// Begins a body that has others beside it. What MUTANT names is on, and 0 is none.
const SWITCH: &str = "{ static MUTANT: ::std::sync::LazyLock<usize> = ::std::sync::LazyLock::new(|| \
    ::std::env::var(\"MUTANT\").ok().and_then(|it| it.parse().ok()).unwrap_or(0)); match *MUTANT {";

/// A source with its mutants.
pub struct Switched {
    pub text: String,
    /// Those that are in no function, or in one that cannot have another body.
    pub left: Vec<usize>,
    /// Whose a place in the text is. A function comes behind its bodies.
    places: Vec<(Range<usize>, Vec<usize>)>,
}

impl Switched {
    pub fn of(text: &str, edits: &[(usize, &Edit)]) -> Self {
        let mut switched = Self {
            text: String::new(),
            left: Vec::new(),
            places: Vec::new(),
        };
        let mut left: Vec<(usize, &Edit)> = edits.to_vec();
        let mut at = 0;
        for body in bodies(text) {
            let is_within = |edit: &Edit| body.start < edit.span.start && edit.span.end < body.end;
            let within: Vec<_> = left.extract_if(.., |(_, edit)| is_within(edit)).collect();
            if !within.is_empty() {
                switched.text += &text[at..body.start];
                switched.add(&text[body.clone()], body.start, &within);
                at = body.end;
            }
        }
        switched.text += &text[at..];
        switched.left = left.iter().map(|(number, _)| *number).collect();
        switched
    }

    fn add(&mut self, body: &str, start: usize, edits: &[(usize, &Edit)]) {
        let begin = self.text.len();
        self.text += SWITCH;
        for (number, edit) in edits {
            let _ = write!(self.text, " {number} => ");
            let begin = self.text.len();
            self.text += &body[..edit.span.start - start];
            self.text += &edit.new;
            self.text += &body[edit.span.end - start..];
            self.places.push((begin..self.text.len(), vec![*number]));
        }
        let _ = write!(self.text, " _ => {body} }} }}");
        let numbers = edits.iter().map(|(number, _)| *number).collect();
        self.places.push((begin..self.text.len(), numbers));
    }

    /// Who is to blame for an error at this byte.
    pub fn mutants_at(&self, byte: usize) -> &[usize] {
        let place = self.places.iter().find(|(place, _)| place.contains(&byte));
        place.map_or(&[], |(_, numbers)| numbers)
    }
}

/// The bodies of functions, but for those within others, of constant ones, and of those whose type depends on the body.
fn bodies(text: &str) -> Vec<Range<usize>> {
    let tokens = tokens::tokens(text);
    let partners = tokens::partners(&tokens);
    let mut found: Vec<Range<usize>> = Vec::new();
    for (_, range) in tokens::items(&tokens, &partners, &[]) {
        let before = range.start.checked_sub(1).map_or("", |it| tokens[it].text);
        let open = tokens::next(&tokens, &partners, range.start, &["{", ";"]);
        let Some(open) = open.filter(|open| tokens[*open].text == "{") else {
            continue;
        };
        let result = tokens::next(&tokens, &partners, range.start, &["->"]);
        let result = result
            .filter(|at| *at < open)
            .map_or(open..open, |at| at..open);
        let has_other_type = tokens[result].iter().any(|it| it.text == "impl");
        let body = tokens[open].start..tokens[range.end - 1].end();
        let is_within = found.last().is_some_and(|last| body.end <= last.end);
        if tokens[range.start].text == "fn" && before != "const" && !has_other_type && !is_within {
            found.push(body);
        }
    }
    found
}

#[test]
fn each_mutant_has_a_body_of_its_own() {
    let text = "const fn one() -> u8 { 1 } fn two(a: u8) -> u8 { fn b() -> u8 { 1 } a + b() } fn all() -> impl Fn() { || () }";
    let edit = |find: &str, new: &str| {
        let start = text.find(find).expect("a place of it");
        let (file, new) = (std::path::PathBuf::new(), new.to_owned());
        let span = start..start + find.len();
        Edit { file, span, new }
    };
    let edits = [
        edit("1 } fn two", "2 } fn two"),
        edit("a + b", "b"),
        edit("1 } a", "3 } a"),
        edit("||", "move ||"),
    ];
    let numbered: Vec<_> = (1..).zip(&edits).collect();
    let switched = Switched::of(text, &numbered);
    assert_eq!(switched.left, [1, 4]);
    let bodies = "match *MUTANT { 2 => { fn b() -> u8 { 1 } b() } 3 => { fn b() -> u8 { 3 } a + b() } \
        _ => { fn b() -> u8 { 1 } a + b() } } } fn all";
    assert!(switched.text.contains(bodies), "{}", switched.text);
    let blamed = |find| switched.mutants_at(switched.text.find(find).expect("a place of it"));
    assert_eq!(blamed("3 }"), [3]);
    assert_eq!(blamed("match"), [2, 3]);
    assert!(blamed("fn all").is_empty());
}
