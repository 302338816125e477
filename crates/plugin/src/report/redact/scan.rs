//! Where in a text something could be that is replaced: runs of signs, and in them IP addresses, MAC addresses and UUIDs.
//!
//! Each is taken for one only where it stands alone: `shell::detect` has no IPv6 address in it, nor has a certificate's fingerprint a MAC address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Characters of a UUID with hyphens.
const UUID_LENGTH: usize = 36;
/// The same without.
const UUID_DIGITS: usize = 32;
/// Characters of a MAC address.
const MAC_LENGTH: usize = 17;

/// Paths of APIs that tell nothing of whose they are.
const PATHS: [&str; 3] = ["/redfish/v1", "/api", "/apis"];

/// A part of a word.
#[derive(Debug, PartialEq, Eq)]
pub enum Found<'a> {
    /// Stays.
    Text(&'a str),
    /// An IP address.
    Ip(IpAddr),
    /// The digits of a MAC address in lower case.
    Mac(String),
    /// A UUID, as it is spelled.
    Uuid(&'a str),
}

/// Of hosts, addresses and serial numbers.
pub fn is_of_word(sign: char) -> bool {
    sign.is_ascii_alphanumeric() || "-._:".contains(sign)
}

/// What may stand around a word in a sentence.
pub fn is_margin(sign: char) -> bool {
    "-._:".contains(sign)
}

/// Of base64 in either alphabet.
pub fn is_of_base64(sign: char) -> bool {
    sign.is_ascii_alphanumeric() || "+/-_=".contains(sign)
}

/// What no host and login of a URL has in it.
pub fn ends_authority(sign: char) -> bool {
    sign.is_whitespace() || "/?#\"'`<>(),;\\".contains(sign)
}

/// The text with each longest run of such signs replaced, where there is something to replace it.
pub fn mapped(
    text: &str,
    is_of_run: fn(char) -> bool,
    mut replace: impl FnMut(&str) -> Option<String>,
) -> String {
    let mut shown = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(is_of_run) {
        let (before, from) = rest.split_at(start);
        let end = from.find(|sign| !is_of_run(sign)).unwrap_or(from.len());
        let (run, after) = from.split_at(end);
        shown += before;
        shown += &replace(run).unwrap_or_else(|| run.to_owned());
        rest = after;
    }
    shown + rest
}

/// The text with each place of a phrase, in whichever case, replaced. The phrase is in lower case.
pub fn replaced(text: &str, phrase: &str, mut stand_in: impl FnMut() -> String) -> String {
    // Where a sign is longer in lower case the places would not be the same.
    let lower = text.to_ascii_lowercase();
    let mut shown = String::new();
    let mut done = 0;
    for (at, found) in lower.match_indices(phrase) {
        shown += text.get(done..at).unwrap_or_default();
        shown += &stand_in();
        done = at + found.len();
    }
    shown + text.get(done..).unwrap_or_default()
}

/// Each `%41` as the printable sign that it stands for.
pub fn without_percents(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        plain += before;
        let code = after
            .get(..2)
            .filter(|it| it.bytes().all(|it| it.is_ascii_hexdigit()));
        let code = code.and_then(|it| u8::from_str_radix(it, 16).ok());
        match code.filter(u8::is_ascii_graphic) {
            Some(code) => {
                plain.push(char::from(code));
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                plain.push('%');
                rest = after;
            }
        }
    }
    plain + rest
}

/// The text without the logins of its URLs (`https://user:password@host`), and without what follows `Basic` or `Bearer`.
pub fn without_logins(text: &str, left_out: &str) -> String {
    let mut shown = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        shown += before;
        let end = after.find(ends_authority).unwrap_or(after.len());
        let authority = after.get(..end).unwrap_or_default();
        rest = match authority.rfind('@') {
            Some(at) => {
                shown += left_out;
                after.get(at..).unwrap_or_default()
            }
            None => after,
        };
    }
    let text = shown + rest;
    let mut shown: Vec<&str> = Vec::new();
    for word in text.split(' ') {
        let before = shown.last().map(|it| it.trim_start_matches(['"', '\'']));
        let is_login = before.is_some_and(|it| {
            it.eq_ignore_ascii_case("basic") || it.eq_ignore_ascii_case("bearer")
        });
        shown.push(match is_login {
            true => left_out,
            false => word,
        });
    }
    shown.join(" ")
}

/// The text without the paths and queries of its URLs, but for those of an API that everybody knows, and without those of hosts that are public.
pub fn without_paths(text: &str, left_out: &str, is_public: fn(&str) -> bool) -> String {
    let mut shown = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        let end = after.find(ends_authority).unwrap_or(after.len());
        let (authority, path) = after.split_at(end);
        let end = path.find(ends_url).unwrap_or(path.len());
        let (path, after) = path.split_at(end);
        shown += before;
        shown += authority;
        let is_known = PATHS
            .iter()
            .any(|it| path.strip_prefix(it).is_some_and(begins_anew));
        if path.len() < 2 || is_known && !path.contains('?') || is_public(authority) {
            shown += path;
        } else {
            shown += path.get(..1).unwrap_or_default();
            shown += left_out;
        }
        rest = after;
    }
    shown + rest
}

fn begins_anew(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with('/')
}

fn ends_url(sign: char) -> bool {
    sign.is_whitespace() || "\"'`<>(),;\\".contains(sign)
}

/// What is in a word, in its order. The word is of [`is_of_word`], so each sign is one byte.
pub fn parts(word: &str) -> Vec<Found<'_>> {
    let mut parts = Vec::new();
    let (mut at, mut kept) = (0, 0);
    while at < word.len() {
        match found(word, at) {
            Some((found, end)) => {
                if kept < at {
                    parts.push(Found::Text(word.get(kept..at).unwrap_or_default()));
                }
                parts.push(found);
                (at, kept) = (end, end);
            }
            None => at += 1,
        }
    }
    if kept < word.len() {
        parts.push(Found::Text(word.get(kept..).unwrap_or_default()));
    }
    parts
}

/// What begins here, and where it ends.
fn found(word: &str, at: usize) -> Option<(Found<'_>, usize)> {
    let before = word.get(..at)?.chars().last();
    uuid(word, at, before)
        .or_else(|| mac(word, at, before))
        .or_else(|| ipv6(word, at, before))
        .or_else(|| ipv4(word, at, before))
}

fn is_apart(sign: Option<char>) -> bool {
    !sign.is_some_and(|it| it.is_ascii_alphanumeric())
}

fn after(word: &str, end: usize) -> Option<char> {
    word.get(end..)?.chars().next()
}

fn uuid(word: &str, at: usize, before: Option<char>) -> Option<(Found<'_>, usize)> {
    let ends = [UUID_LENGTH, UUID_DIGITS].map(|length| at + length);
    let end = ends.into_iter().find(|end| {
        let text = word.get(at..*end).unwrap_or_default();
        let is_hex = |it: char| it.is_ascii_hexdigit();
        let mut groups = text.split('-').map(str::len);
        let is_shaped = text.len() == UUID_DIGITS || groups.by_ref().eq([8, 4, 4, 4, 12]);
        !text.is_empty()
            && is_shaped
            && text.chars().all(|it| is_hex(it) || it == '-')
            && text.matches('-').count() == if text.len() == UUID_DIGITS { 0 } else { 4 }
            && is_apart(after(word, *end))
    })?;
    is_apart(before).then_some((Found::Uuid(word.get(at..end)?), end))
}

fn mac(word: &str, at: usize, before: Option<char>) -> Option<(Found<'_>, usize)> {
    let end = at + MAC_LENGTH;
    let text = word.get(at..end)?;
    let is_alone = |sign: Option<char>| is_apart(sign) && sign != Some(':');
    // A colon at the end of a clause is followed by nothing.
    let next = after(word, end).filter(|it| *it != ':' || end + 1 < word.len());
    if !is_alone(before) || !is_alone(next) {
        return None;
    }
    let separator = text.get(2..3).filter(|it| matches!(*it, ":" | "-"))?;
    let pairs: Vec<&str> = text.split(separator).collect();
    let is_pair = |it: &&str| it.len() == 2 && it.bytes().all(|it| it.is_ascii_hexdigit());
    (pairs.len() == 6 && pairs.iter().all(is_pair))
        .then(|| (Found::Mac(pairs.concat().to_lowercase()), end))
}

fn ipv6(word: &str, at: usize, before: Option<char>) -> Option<(Found<'_>, usize)> {
    if !is_apart(before) || matches!(before, Some(':' | '_')) {
        return None;
    }
    let rest = word.get(at..)?;
    let is_of_it = |sign: char| sign.is_ascii_hexdigit() || matches!(sign, ':' | '.');
    let length = rest.find(|sign| !is_of_it(sign)).unwrap_or(rest.len());
    let run = rest.get(..length)?;
    if after(word, at + length).is_some_and(|it| it.is_ascii_alphanumeric() || it == '_') {
        return None;
    }
    let trimmed = [
        run,
        run.trim_end_matches('.'),
        run.trim_end_matches(['.', ':']),
    ];
    trimmed.into_iter().find_map(|text| {
        let ip: Ipv6Addr = text.parse().ok()?;
        // `::` alone separates words.
        (!ip.is_unspecified()).then_some((Found::Ip(ip.into()), at + text.len()))
    })
}

fn ipv4(word: &str, at: usize, before: Option<char>) -> Option<(Found<'_>, usize)> {
    if before.is_some_and(|it| it.is_ascii_digit() || it == '.') {
        return None;
    }
    let rest = word.get(at..)?;
    let length = rest
        .find(|sign: char| !sign.is_ascii_digit() && sign != '.')
        .unwrap_or(rest.len());
    let text = rest.get(..length)?.trim_end_matches('.');
    let mut numbers = text.split('.').map(|part| {
        let is_short = (1..=3).contains(&part.len());
        part.parse::<u8>().ok().filter(|_| is_short)
    });
    let mut next = || numbers.next().flatten();
    let ip = Ipv4Addr::new(next()?, next()?, next()?, next()?);
    numbers
        .next()
        .is_none()
        .then(|| (Found::Ip(ip.into()), at + text.len()))
}
