//! What differs from run to run, taken out of a text: times, ages, UIDs, the hash in a name, nonces, ports. Tables are laid out anew, for
//! their columns are as wide as what stood in them.

use std::net::SocketAddr;

use jiff::Timestamp;

/// In place of the hash of an outage.
pub const HASH: &str = "5c0ffee5";
/// Of a UID as it is written.
const UID_LENGTH: usize = 36;
/// Indentation of the key under which a description has the readings of the proof.
const READINGS_DEPTH: usize = 4;

/// Names of this run, and what stands for them.
pub struct Names(Vec<(String, &'static str)>);

impl Names {
    /// The node that fails, its NodeFence, and its machine's system UUID. The other node is not named in what is told.
    pub fn of(node: &str, fence: &str) -> Self {
        let hash = fence.rsplit_once('-').map_or(fence, |(_, hash)| hash);
        Self(vec![(hash.to_owned(), HASH), (node.to_owned(), "worker-1")])
    }

    /// Another name of this run, and what stands for it.
    pub fn add(&mut self, name: &str, stand_in: &'static str) {
        self.0.push((name.to_owned(), stand_in));
    }

    /// The text without what this run alone has.
    pub fn plain(&self, text: &str) -> String {
        let mut plain = text.to_owned();
        for (name, stand_in) in &self.0 {
            plain = plain.replace(name.as_str(), stand_in);
        }
        let is_of_word = |sign: char| sign.is_ascii_alphanumeric() || "-:._".contains(sign);
        let mut told = String::new();
        let mut rest = plain.as_str();
        while let Some(start) = rest.find(is_of_word) {
            let (before, from) = rest.split_at(start);
            let end = from.find(|sign| !is_of_word(sign)).unwrap_or(from.len());
            let (word, after) = from.split_at(end);
            told.push_str(before);
            told.push_str(&stand_in(word));
            rest = after;
        }
        told + rest
    }
}

/// What stands for a word: mostly itself.
fn stand_in(word: &str) -> String {
    let (core, tail) = match word.strip_suffix(['.', ':']) {
        Some(core) => word.split_at(core.len()),
        None => (word, ""),
    };
    let shown = if core.parse::<Timestamp>().is_ok() {
        "<time>".to_owned()
    } else if let Some((uid, rest)) = core.split_at_checked(UID_LENGTH)
        && uuid::Uuid::try_parse(uid).is_ok()
    {
        format!("<uid>{rest}")
    } else if let Some((id, number)) = core.split_once('-')
        && is_hex(id, 8)
        && number.bytes().all(|sign| sign.is_ascii_digit())
    {
        format!("<id>-{number}")
    } else if core
        .strip_prefix("csi-")
        .is_some_and(|hash| is_hex(hash, 64))
    {
        "csi-<hash>".to_owned()
    } else if let Some((fence, nonce)) = core.split_once(&format!("{HASH}-"))
        && !nonce.is_empty()
    {
        format!("{fence}{HASH}-<nonce>")
    } else if core.starts_with("127.") && core.parse::<SocketAddr>().is_ok() {
        "<address>".to_owned()
    } else {
        core.to_owned()
    };
    shown + tail
}

/// Events, a line each. At the moment when everything has detached a read of the power may be under way, and then the words are about it.
pub fn told(lines: &str) -> String {
    let line = |line: &str| match line.contains(" AwaitingRelease ") {
        true => line.replace(
            "reading the power from FenceDevice worker-1-bmc",
            "all volumes detached; reading the machine's power once more before the release",
        ),
        false => line.to_owned(),
    };
    let lines: Vec<_> = lines.lines().map(line).collect();
    lines.join("\n")
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|sign| sign.is_ascii_hexdigit())
}

/// A description without the numbers that differ, and with one of the readings that follow one another: how many it took differs, too.
pub fn described(lines: &[String]) -> String {
    let mut told: Vec<String> = Vec::new();
    let (mut is_reading, mut readings) = (false, 0);
    for line in lines {
        let (key, value) = line.split_once(':').unwrap_or((line, ""));
        let key_alone = key.trim_start();
        let depth = key.len() - key_alone.len();
        if is_reading && depth <= READINGS_DEPTH {
            (is_reading, readings) = (false, 0);
        }
        if key_alone == "Readings" {
            is_reading = true;
        } else if is_reading && key_alone == "Device" {
            readings += 1;
            if readings == 2 {
                told.push(format!("{}...", " ".repeat(depth)));
            }
        }
        if readings > 1 {
            continue;
        }
        let blanks = value.len() - value.trim_start().len();
        let padded = format!("{key}:{}", " ".repeat(blanks));
        told.push(match key_alone {
            "Resource Version" | "Round Trip Millis" => format!("{padded}<n>"),
            _ => line.trim_end().to_owned(),
        });
    }
    told.join("\n")
}

/// A table of kubectl's, laid out anew; the cells of the columns named `ages` are taken out.
pub fn table(text: &str, ages: &[&str], names: &Names) -> String {
    let mut lines = text.lines();
    let header = lines.next().unwrap_or_default();
    let starts = starts(header);
    let cells = |line: &str| -> Vec<String> {
        let ends = starts.iter().skip(1).copied().chain([usize::MAX]);
        let cut = |(start, end): (&usize, usize)| {
            let cell = line.chars().skip(*start).take(end.saturating_sub(*start));
            names.plain(cell.collect::<String>().trim())
        };
        starts.iter().zip(ends).map(cut).collect()
    };
    let titles = cells(header);
    let aged = |row: Vec<String>| -> Vec<String> {
        let pairs = titles.iter().zip(row);
        let cell = |(title, cell): (&String, String)| match ages.contains(&title.as_str()) {
            true => "<age>".to_owned(),
            false => cell,
        };
        pairs.map(cell).collect()
    };
    let rows = lines.filter(|line| !line.trim().is_empty() && !line.contains("----"));
    let mut rows: Vec<Vec<String>> = rows.map(|line| aged(cells(line))).collect();
    rows.insert(0, titles.clone());
    laid_out(&rows)
}

/// Where the columns begin: after two blanks at least.
fn starts(header: &str) -> Vec<usize> {
    let signs: Vec<char> = header.chars().collect();
    let blank = |at: usize| signs.get(at).is_none_or(|sign| *sign == ' ');
    let is_first = |at: usize| at == 0 || blank(at - 1) && (at == 1 || blank(at - 2));
    let begins = |at: &usize| !blank(*at) && is_first(*at);
    (0..signs.len()).filter(begins).collect()
}

fn laid_out(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let padded = row.iter().zip(&widths);
        let padded: Vec<_> = padded
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        text.push_str(padded.join("   ").trim_end());
        text.push('\n');
    }
    text
}
