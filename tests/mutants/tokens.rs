//! The tokens of Rust source, and the items that they make up: as much of the grammar as it takes to find a guard.

use std::ops::Range;

const OPERATORS: [&str; 20] = [
    "..=", "&&", "||", "==", "!=", "<=", ">=", "->", "=>", "::", "..", "+=", "-=", "*=", "/=",
    "%=", "^=", "&=", "|=", "$",
];

const KEYWORDS: [&str; 21] = [
    "as", "async", "await", "break", "continue", "crate", "else", "false", "for", "if", "in",
    "let", "loop", "match", "move", "mut", "ref", "return", "super", "true", "while",
];

/// A word, a literal, an operator or a bracket.
#[derive(Clone, Copy)]
pub struct Token<'a> {
    pub text: &'a str,
    pub start: usize,
}

impl Token<'_> {
    pub fn end(&self) -> usize {
        self.start + self.text.len()
    }

    pub fn is_word(&self) -> bool {
        self.text.starts_with(is_of_word)
    }

    /// May it be the name of a variable?
    pub fn is_variable(&self) -> bool {
        let is_small = |it: char| it.is_ascii_lowercase() || it == '_';
        self.text.starts_with(is_small) && !KEYWORDS.contains(&self.text)
    }
}

fn is_of_word(it: char) -> bool {
    it.is_alphanumeric() || it == '_'
}

/// Without comments, and without the comma that rustfmt puts before a bracket that closes on a line of its own.
pub fn tokens(source: &str) -> Vec<Token<'_>> {
    let mut found: Vec<Token> = Vec::new();
    let mut start = 0;
    while start < source.len() {
        let rest = &source[start..];
        let text = &rest[..length(rest)];
        let is_blank = text.starts_with(char::is_whitespace);
        if !is_blank && !text.starts_with("//") && !text.starts_with("/*") {
            found.pop_if(|last| last.text == "," && [")", "]", "}"].contains(&text));
            found.push(Token { text, start });
        }
        start += text.len();
    }
    found
}

/// Of what this text begins with.
fn length(text: &str) -> usize {
    let up_to = |end: Option<usize>| end.unwrap_or(text.len());
    if text.starts_with(char::is_whitespace) {
        return up_to(text.find(|it: char| !it.is_whitespace()));
    }
    if text.starts_with("//") {
        return up_to(text.find('\n'));
    }
    if text.starts_with("/*") {
        return up_to(text.find("*/").map(|end| end + 2));
    }
    let raw = text.strip_prefix('b').unwrap_or(text).strip_prefix('r');
    if let Some(quoted) = raw.map(|it| it.trim_start_matches('#'))
        && quoted.starts_with('"')
    {
        let hashes = raw.map_or(0, |it| it.len() - quoted.len());
        let close = format!("\"{}", "#".repeat(hashes));
        let begin = text.len() - quoted.len() + 1;
        let end = text[begin..].find(&close);
        return up_to(end.map(|end| begin + end + close.len()));
    }
    if let Some(quoted) = text.strip_prefix('"') {
        let mut is_escaped = false;
        let end = quoted.find(|it: char| {
            let closes = it == '"' && !is_escaped;
            is_escaped = it == '\\' && !is_escaped;
            closes
        });
        return up_to(end.map(|end| end + 2));
    }
    if let Some(quoted) = text.strip_prefix('\'') {
        let character = quoted.chars().next().map_or(1, char::len_utf8);
        let end = match quoted.starts_with('\\') {
            true => quoted[2..].find('\'').map(|end| end + 4),
            false => quoted[character..]
                .starts_with('\'')
                .then_some(character + 2),
        };
        let lifetime = quoted.find(|it| !is_of_word(it));
        return end.unwrap_or(1 + lifetime.unwrap_or(quoted.len()));
    }
    if text.starts_with(is_of_word) {
        return up_to(text.find(|it| !is_of_word(it)));
    }
    let operator = OPERATORS.iter().find(|it| text.starts_with(**it));
    operator.map_or(text.chars().next().map_or(1, char::len_utf8), |it| it.len())
}

/// For each bracket the place of its other one.
pub fn partners(tokens: &[Token]) -> Vec<usize> {
    let mut partners = vec![0; tokens.len()];
    let mut open = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match token.text {
            "(" | "[" | "{" => open.push(at),
            ")" | "]" | "}" => {
                let begin = open.pop().expect("a bracket that was opened");
                (partners[begin], partners[at]) = (at, begin);
            }
            _ => {}
        }
    }
    partners
}

/// From here the next of these, brackets in between taken as one.
pub fn next(tokens: &[Token], partners: &[usize], from: usize, ends: &[&str]) -> Option<usize> {
    let mut at = from;
    while !ends.contains(&tokens.get(at)?.text) {
        let opens = ["(", "[", "{"].contains(&tokens[at].text);
        at = if opens { partners[at] + 1 } else { at + 1 };
    }
    Some(at)
}

/// The path of each function, type and constant, and its tokens; what stands within another one has the other's name in its path.
pub fn items<'a>(
    tokens: &[Token<'a>],
    partners: &[usize],
    module: &[&'a str],
) -> Vec<(Vec<&'a str>, Range<usize>)> {
    let mut found = Vec::new();
    let mut path = module.to_vec();
    let mut ends = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if ends.pop_if(|end| *end == at).is_some() {
            path.pop();
        }
        let kind = tokens[at].text;
        let name = tokens.get(at + 1).filter(|it| it.is_word());
        let name = name.map(|it| it.text).filter(|it| *it != "fn");
        let (name, end) = match kind {
            "fn" | "struct" | "enum" | "trait" | "mod" => (name, &["{", ";"][..]),
            "const" | "static" if tokens.get(at + 2).is_some_and(|it| it.text == ":") => {
                (name, &[";"][..])
            }
            "impl" => (implemented(&tokens[at + 1..]), &["{"][..]),
            _ => (None, &[][..]),
        };
        let end = name.and_then(|_| next(tokens, partners, at + 1, end));
        let (Some(name), Some(end)) = (name, end) else {
            at += 1;
            continue;
        };
        path.push(name);
        let is_block = tokens[end].text == "{";
        let last = if is_block { partners[end] } else { end };
        if kind != "impl" {
            found.push((path.clone(), at..last + 1));
        }
        if is_block {
            ends.push(last);
        } else {
            path.pop();
        }
        at = end + 1;
    }
    found
}

/// The type that an `impl` is for, from behind that.
fn implemented<'a>(tokens: &[Token<'a>]) -> Option<&'a str> {
    let mut depth = 0;
    let mut name = None;
    for (at, token) in tokens.iter().enumerate() {
        match token.text {
            "<" => depth += 1,
            ">" => depth -= 1,
            "{" | "where" => return name,
            "for" if tokens[at + 1].text != "<" => name = None,
            "mut" | "dyn" => {}
            _ if depth == 0 && token.is_word() => name = Some(token.text),
            _ => {}
        }
    }
    None
}
