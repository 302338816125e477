//! What differs from run to run, taken out of a line of the tutorial and of a line that a lab prints: which node is which, times, ages,
//! hashes, UIDs, addresses, and how wide a column is.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use jiff::Timestamp;

/// How long the hash in the name of a NodeFence is, and a nonce, and what is told of a boot ID.
const HASH_DIGITS: usize = 8;
/// And one in the name of a VolumeAttachment.
const LONG_HASH_DIGITS: usize = 64;

/// The nodes of this run, each with its name in the tutorial.
#[derive(Debug, Default)]
pub struct Names(BTreeMap<String, String>);

impl Names {
    /// These nodes, in the order in which the tutorial numbers them.
    pub fn of(nodes: &[String]) -> Self {
        let numbered = (1..).zip(nodes);
        Self(
            numbered
                .map(|(number, node)| (node.clone(), format!("node-{number}")))
                .collect(),
        )
    }

    /// In the tutorial's words.
    pub fn told(&self, text: &str) -> String {
        replaced(text, |node| self.0.get(node).cloned())
    }

    /// In those of this run.
    pub fn typed(&self, text: &str) -> String {
        replaced(text, |node| {
            let mut all = self.0.iter();
            let found = all.find(|(_, told)| *told == node);
            found.map(|(real, _)| real.clone())
        })
    }
}

/// The text with other names for nodes: `node-` and a number, whatever stands before and after it.
fn replaced(text: &str, name: impl Fn(&str) -> Option<String>) -> String {
    let mut parts = text.split("node-");
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        let (number, rest) = part.split_at(digits);
        let node = format!("node-{number}");
        whole += &name(&node).unwrap_or(node);
        whole += rest;
    }
    whole
}

/// The line without what another run has otherwise.
pub fn plain(line: &str) -> String {
    let words = line
        .split_whitespace()
        .map(|word| match word.parse::<Timestamp>() {
            Ok(_) => "<time>".to_owned(),
            Err(_) => without_numbers(word),
        });
    words.collect::<Vec<_>>().join(" ")
}

fn without_numbers(word: &str) -> String {
    let is_of_piece = |sign: char| sign.is_ascii_alphanumeric() || "-.".contains(sign);
    let (mut whole, mut rest) = (String::new(), word);
    while let Some(start) = rest.find(is_of_piece) {
        let (before, from) = rest.split_at(start);
        let end = from.find(|sign| !is_of_piece(sign)).unwrap_or(from.len());
        let (piece, after) = from.split_at(end);
        whole += before;
        whole += &stand_in(piece);
        rest = after;
    }
    whole + rest
}

fn stand_in(piece: &str) -> String {
    if uuid::Uuid::try_parse(piece).is_ok() {
        return "<uid>".to_owned();
    }
    if piece.parse::<Ipv4Addr>().is_ok() {
        return "<address>".to_owned();
    }
    if piece.contains('.') && piece.parse::<f64>().is_ok() {
        return "<seconds>".to_owned();
    }
    if is_age(piece) {
        return "<age>".to_owned();
    }
    let hash = |part: &str| match part.len() {
        HASH_DIGITS | LONG_HASH_DIGITS if part.bytes().all(|it| it.is_ascii_hexdigit()) => {
            "<hash>".to_owned()
        }
        _ => part.to_owned(),
    };
    piece.split('-').map(hash).collect::<Vec<_>>().join("-")
}

/// As kubectl has it: `8s`, `2m44s`.
fn is_age(piece: &str) -> bool {
    let units = piece.trim_start_matches(|sign: char| sign.is_ascii_digit());
    let is_unit = |sign: char| "smhd".contains(sign);
    units.len() < piece.len()
        && piece.ends_with(is_unit)
        && piece
            .chars()
            .all(|sign| sign.is_ascii_digit() || is_unit(sign))
}

#[test]
fn what_differs_is_taken_out_and_the_rest_stays() {
    for (line, expected) in [
        (
            "   15.961  node/node-1  POWER CUT",
            "<seconds> node/node-1 POWER CUT",
        ),
        (
            "+ taint nodefencing.io/claim=node-1-1e53107b-b34861df:NoExecute",
            "+ taint nodefencing.io/claim=node-1-<hash>-<hash>:NoExecute",
        ),
        (
            "quarantine=068b1cfa-acf2-45d1-bac4-9a39d8ec5b71:NoSchedule",
            "quarantine=<uid>:NoSchedule",
        ),
        (
            "database-0   1/1     Running   0  2m44s",
            "database-0 1/1 Running 0 <age>",
        ),
        ("127.77.0.1 node-2", "<address> node-2"),
        ("Time: 2026-11-24T16:28:47.345452596Z", "Time: <time>"),
        (
            "csi.lab.nodefencing.io reads On (On): s",
            "csi.lab.nodefencing.io reads On (On): s",
        ),
    ] {
        assert_eq!(plain(line), expected);
    }
}

#[test]
fn nodes_change_their_names_at_once_and_back() {
    let nodes = ["node-2", "node-3", "node-1"].map(str::to_owned);
    let names = Names::of(&nodes);
    let (real, told) = (
        "fence/node-2-1e53107b node-3-bmc node-fencing node-1",
        "fence/node-1-1e53107b node-2-bmc node-fencing node-3",
    );
    assert_eq!(names.told(real), told);
    assert_eq!(names.typed(told), real);
}
