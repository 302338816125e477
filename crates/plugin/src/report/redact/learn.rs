//! What only its place says: that a word is the name of a host, or a serial number.
//!
//! A host is what stands in a field for one, in a URL, or before a port; of a host that is learned so, whatever else is under its domain is one too, for
//! logs tell of devices that nobody has any more. The last part of a Redfish system's path is a serial number with some makers, and `1` with others.

use super::scan::{self, is_of_word};
use super::{Kind, Redactor, SERIAL_FIELDS, decoded};
use serde_json::Value;
use std::net::IpAddr;

/// Shorter ones stand in other words by chance.
const SERIAL_CHARACTERS_MIN: usize = 5;
/// Digits of a system's id that is no name of a slot or a board.
const SERIAL_DIGITS_MIN: usize = 4;
/// Hosts of everybody's, which tell nothing of a cluster.
const PUBLIC: [&str; 4] = ["kubernetes.io", "k8s.io", "nodefencing.io", "github.com"];
/// Fields that hold a host, with or without a scheme, a port and a path.
const HOST_FIELDS: [&str; 5] = ["address", "url", "endpoint", "server", "hostname"];
/// Fields that hold the id of a system, or its path.
const SYSTEM_FIELDS: [&str; 1] = ["systemID"];
/// What stands before the id of a system in a path (DSP0266, resource URIs).
const SYSTEMS: [&str; 3] = ["/Systems/", "/Chassis/", "/Managers/"];
/// Endings that a source file has before the number of a line.
const SOURCES: [&str; 2] = [".rs", ".go"];
/// Placeholder in the address of a fleet.
const NODE_NAME: &str = "${node.name}";

impl Redactor {
    /// Learns the hosts and serial numbers in an object.
    pub fn learn(&mut self, value: &Value) {
        match value {
            Value::Object(fields) => {
                for (key, field) in fields {
                    let key = key.as_str();
                    match field {
                        Value::String(text) if HOST_FIELDS.contains(&key) => self.learn_host(text),
                        Value::String(text) if SERIAL_FIELDS.contains(&key) => {
                            self.learn_serial(text);
                        }
                        Value::String(text) if SYSTEM_FIELDS.contains(&key) => {
                            self.learn_system(text.rsplit('/').next().unwrap_or_default());
                        }
                        other => self.learn(other),
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|it| self.learn(it)),
            Value::String(text) => self.learn_text(text),
            _ => {}
        }
    }

    /// Learns what a log tells. A line that is JSON is an object.
    pub fn learn_lines(&mut self, text: &str) {
        for line in text.lines() {
            match serde_json::from_str::<Value>(line) {
                Ok(value @ Value::Object(_)) => self.learn(&value),
                _ => self.learn_text(line),
            }
        }
    }

    /// Learns the hosts of the URLs in a text, and those that have a port, and the systems in its paths.
    pub fn learn_text(&mut self, text: &str) {
        let text = decoded(text);
        for (at, _) in text.match_indices("://") {
            let rest = text.get(at + 3..).unwrap_or_default();
            let end = rest.find(scan::ends_authority).unwrap_or(rest.len());
            self.learn_host(rest.get(..end).unwrap_or_default());
        }
        for word in text.split(|sign| !is_of_word(sign)) {
            if let Some(host) = before_port(word) {
                self.learn_host(host);
            }
        }
        for (at, found) in SYSTEMS.iter().flat_map(|it| text.match_indices(it)) {
            let rest = text.get(at + found.len()..).unwrap_or_default();
            let end = rest.find(scan::ends_authority).unwrap_or(rest.len());
            self.learn_system(rest.get(..end).unwrap_or_default());
        }
    }

    fn learn_host(&mut self, text: &str) {
        let text = decoded(text).to_lowercase();
        let text = text
            .split_once("://")
            .map_or(text.as_str(), |(_, rest)| rest);
        let authority = text.split(['/', '?', '#']).next().unwrap_or_default();
        let host = authority.rsplit('@').next().unwrap_or_default();
        let host = match host.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|it| it.is_ascii_digit()) => host,
            _ => host,
        };
        if host.contains(NODE_NAME) {
            for node in self.nodes.clone() {
                self.learn_word(&host.replace(NODE_NAME, &node), Kind::Address);
            }
            self.phrases.insert(host.to_owned(), Kind::Address);
        } else if host.parse::<IpAddr>().is_err() && !is_public(host) {
            self.learn_word(host, Kind::Address);
            self.learn_domain(host);
        }
    }

    /// Of `bmc-1.rack.example` that is `rack.example`; one word alone, such as `local`, is everybody's, and so are the names of Services.
    fn learn_domain(&mut self, host: &str) {
        let domain = host.split_once('.').map_or("", |(_, domain)| domain);
        let is_ours = domain.split('.').any(|it| it == "svc");
        if domain.contains('.') && !is_ours && !is_public(domain) {
            self.domains.insert(domain.to_owned());
        }
    }

    fn learn_serial(&mut self, text: &str) {
        let has_digit = text.bytes().any(|it| it.is_ascii_digit());
        if text.chars().count() >= SERIAL_CHARACTERS_MIN && has_digit {
            self.learn_word(&text.to_lowercase(), Kind::Serial);
        }
    }

    /// `437XR1138R2` is one of a machine, `System.Embedded.1` is one of a maker.
    fn learn_system(&mut self, id: &str) {
        let digits = id.bytes().filter(u8::is_ascii_digit).count();
        let is_of_tag = |it: u8| it.is_ascii_uppercase() || it.is_ascii_digit();
        if digits >= SERIAL_DIGITS_MIN || id.bytes().all(is_of_tag) {
            self.learn_serial(id);
        }
    }

    fn learn_word(&mut self, word: &str, kind: Kind) {
        let word = word.trim_matches(scan::is_margin);
        if word.is_empty() || self.nodes.contains(word) {
            return;
        }
        let known = match word.chars().all(is_of_word) {
            true => &mut self.words,
            false => &mut self.phrases,
        };
        known.insert(word.to_owned(), kind);
    }
}

/// The name in `NAME:PORT`, if it has a domain.
fn before_port(word: &str) -> Option<&str> {
    let (host, port) = word.trim_matches(scan::is_margin).rsplit_once(':')?;
    let is_port = port.parse::<u16>().is_ok_and(|it| it > 0);
    let (_, last) = host.rsplit_once('.')?;
    let is_name = !host.contains(':') && last.bytes().all(|it| it.is_ascii_alphabetic());
    let is_source = SOURCES.iter().any(|it| host.ends_with(it));
    (is_port && is_name && !is_source).then_some(host)
}

/// Is it under a domain of everybody's?
pub fn is_public(host: &str) -> bool {
    let is_of = |domain: &str| {
        let rest = host.strip_suffix(domain);
        rest.is_some_and(|it| it.is_empty() || it.ends_with('.'))
    };
    PUBLIC.into_iter().any(is_of)
}
