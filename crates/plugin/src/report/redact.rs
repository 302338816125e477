//! Stand-ins for addresses: the same one for the same address in every file, so that what belongs together can still be seen, and nothing more.
//!
//! What looks like an address is one, wherever it stands: IP addresses, MAC addresses and UUIDs in any spelling. Names of hosts and serial numbers
//! look like nothing, so they are learned first from what says what they are ([`learn`]), and then replaced wherever they stand, in whichever
//! case. What is written in percent or base64 encoding is looked at decoded. Too much is replaced rather than too little.

mod learn;
mod scan;

use base64::Engine as _;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use base64::{alphabet, engine::DecodePaddingMode};
use fencing_core::reading::{orderless, usable_uuid};
use scan::Found;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// What stands for a secret that should not be here at all.
pub const LEFT_OUT: &str = "left-out";
/// Encodings within encodings that are looked into.
const DEPTH: usize = 3;
/// Shortest base64 that is looked into: that of the shortest IP address.
const BASE64_CHARACTERS_MIN: usize = 10;
/// Fields that hold a serial number.
const SERIAL_FIELDS: [&str; 2] = ["serialNumber", "machineID"];
/// Fields whose text is never shown.
const SECRET_FIELDS: [&str; 6] = [
    "password",
    "token",
    "community",
    "secret",
    "authorization",
    "stringData",
];

/// What something is, by which its stand-in is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Address,
    Mac,
    Uuid,
    Serial,
    Encoded,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::Mac => "mac",
            Self::Uuid => "uuid",
            Self::Serial => "serial",
            Self::Encoded => "encoded",
        }
    }
}

/// Knows what stands for what.
#[derive(Debug, Default)]
pub struct Redactor {
    /// The number of each thing, in its one spelling.
    numbers: BTreeMap<(Kind, String), usize>,
    counts: BTreeMap<Kind, usize>,
    /// Learned, in lower case: one word.
    words: BTreeMap<String, Kind>,
    /// Learned, in lower case: with signs that no word has.
    phrases: BTreeMap<String, Kind>,
    /// What learned hosts are under, in lower case.
    domains: BTreeSet<String>,
    /// Names of Nodes, which are shown.
    nodes: BTreeSet<String>,
}

impl Redactor {
    /// These names are shown, also where they are names of hosts.
    pub fn keep(&mut self, nodes: impl IntoIterator<Item = String>) {
        self.nodes
            .extend(nodes.into_iter().map(|it| it.to_lowercase()));
    }

    /// Replaces what is in an object, the names of its fields included.
    pub fn value(&mut self, value: Value) -> Value {
        match value {
            Value::Object(fields) => {
                let mut shown = Map::new();
                for (key, field) in fields {
                    let field = self.field(&key, field);
                    shown.insert(self.text(&key), field);
                }
                Value::Object(shown)
            }
            Value::Array(items) => items.into_iter().map(|it| self.value(it)).collect(),
            Value::String(text) => Value::String(self.text(&text)),
            other => other,
        }
    }

    fn field(&mut self, key: &str, value: Value) -> Value {
        match value {
            Value::String(_) if SECRET_FIELDS.iter().any(|it| it.eq_ignore_ascii_case(key)) => {
                Value::String(LEFT_OUT.to_owned())
            }
            Value::String(text) if SERIAL_FIELDS.contains(&key) && !text.trim().is_empty() => {
                Value::String(self.stand_in(Kind::Serial, text.trim().to_lowercase()))
            }
            other => self.value(other),
        }
    }

    /// Replaces what is in a text. A line that is JSON stays JSON.
    pub fn lines(&mut self, text: &str) -> String {
        let mut shown = String::new();
        for line in text.lines() {
            shown += &match serde_json::from_str::<Value>(line) {
                Ok(value @ Value::Object(_)) => self.value(value).to_string(),
                _ => self.text(line),
            };
            shown.push('\n');
        }
        shown
    }

    /// Replaces what is in a text.
    pub fn text(&mut self, text: &str) -> String {
        self.shown(text, DEPTH)
    }

    fn shown(&mut self, text: &str, depth: usize) -> String {
        let text = scan::without_logins(&decoded(text), LEFT_OUT);
        let text = scan::without_paths(&text, LEFT_OUT, learn::is_public);
        let mut text = text;
        let phrases: Vec<(String, Kind)> = self.phrases.clone().into_iter().collect();
        for (phrase, kind) in phrases {
            text = scan::replaced(&text, &phrase, || self.stand_in(kind, phrase.clone()));
        }
        let text = match depth {
            0 => text,
            _ => scan::mapped(&text, scan::is_of_base64, |run| self.base64(run, depth - 1)),
        };
        scan::mapped(&text, scan::is_of_word, |word| Some(self.word(word)))
    }

    /// A stand-in for what says something else once it is decoded and redacted.
    fn base64(&mut self, run: &str, depth: usize) -> Option<String> {
        let run = run.trim_matches('=');
        if run.len() < BASE64_CHARACTERS_MIN {
            return None;
        }
        let text = base64_text(run)?;
        (self.shown(&text, depth) != text).then(|| self.stand_in(Kind::Encoded, text))
    }

    /// A word without what is known or looks like an address.
    fn word(&mut self, word: &str) -> String {
        if let Some(shown) = self.known(word) {
            return shown;
        }
        let parts = scan::parts(word);
        let parts = parts.into_iter().map(|part| match part {
            Found::Text(text) => text.to_owned(),
            Found::Ip(ip) => self.stand_in(Kind::Address, ip.to_canonical().to_string()),
            Found::Mac(digits) => self.stand_in(Kind::Mac, digits),
            // Zeros and other values of unconfigured boards name no machine, and that is worth knowing.
            Found::Uuid(text) => match usable_uuid(text) {
                Some(uuid) => {
                    let key = u128::from_be_bytes(orderless(uuid)).to_string();
                    self.stand_in(Kind::Uuid, key)
                }
                None => text.to_owned(),
            },
        });
        parts.collect()
    }

    /// A word that was learned, with its port and with what stands around it.
    fn known(&mut self, word: &str) -> Option<String> {
        let core = word.trim_matches(scan::is_margin);
        let start = word.find(core)?;
        let (before, rest) = word.split_at(start);
        let after = rest.get(core.len()..)?;
        let (host, port) = match core.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|it| it.is_ascii_digit()) => {
                (host, format!(":{port}"))
            }
            _ => (core, String::new()),
        };
        let key = host.to_lowercase();
        let is_of_domain = || {
            let below = key
                .match_indices('.')
                .filter_map(|(at, _)| key.get(at + 1..));
            below.into_iter().any(|it| self.domains.contains(it)) && !self.nodes.contains(&key)
        };
        let learned = self.words.get(&key).copied();
        let kind = learned.or_else(|| is_of_domain().then_some(Kind::Address))?;
        Some(format!("{before}{}{port}{after}", self.stand_in(kind, key)))
    }

    fn stand_in(&mut self, kind: Kind, key: String) -> String {
        let number = self.numbers.get(&(kind, key.clone())).copied();
        let number = number.unwrap_or_else(|| {
            let count = self.counts.entry(kind).or_default();
            *count += 1;
            self.numbers.insert((kind, key), *count);
            *count
        });
        format!("{}-{number}", kind.word())
    }
}

/// The text with its percent encodings, and theirs, in plain.
fn decoded(text: &str) -> String {
    let mut text = text.to_owned();
    for _ in 0..DEPTH {
        let plain = scan::without_percents(&text);
        if plain == text {
            break;
        }
        text = plain;
    }
    text
}

/// What the run says, if it is base64 of printable text, in either alphabet, with or without its padding.
fn base64_text(run: &str) -> Option<String> {
    let lenient = GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true);
    let alphabets = [alphabet::STANDARD, alphabet::URL_SAFE];
    let decoded = alphabets.into_iter().find_map(|it| {
        let engine = GeneralPurpose::new(&it, lenient);
        engine.decode(run).ok()
    });
    let text = String::from_utf8(decoded?).ok()?;
    let is_plain = |sign: char| !sign.is_control() || sign.is_whitespace();
    text.chars().all(is_plain).then_some(text)
}

#[cfg(test)]
mod tests;
