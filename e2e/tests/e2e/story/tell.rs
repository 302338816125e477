//! What differs from run to run, taken out of a text: times, ages, UIDs, the hash in a name, nonces, ports. Tables are laid out anew, for
//! their columns are as wide as what stood in them.

use jiff::Timestamp;

/// In place of the hash of an outage.
const HASH: &str = "5c0ffee5";

/// Names of this run, and what stands for them.
pub struct Names(Vec<(String, &'static str)>);

impl Names {
    /// The node that fails, its NodeFence, and its machine's system UUID. The other node is not named in what is told.
    pub fn of(node: &str, fence: &str) -> Self {
        let hash = fence.rsplit_once('-').map_or(fence, |(_, hash)| hash);
        Self(vec![(hash.to_owned(), HASH), (node.to_owned(), "worker-1")])
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
    } else if uuid::Uuid::try_parse(core).is_ok() {
        "<uid>".to_owned()
    } else if let Some((fence, nonce)) = core.split_once(&format!("{HASH}-"))
        && !nonce.is_empty()
    {
        format!("{fence}{HASH}-<nonce>")
    } else if let Some((_, port)) = core.split_once("127.0.0.1:")
        && port.bytes().all(|sign| sign.is_ascii_digit())
    {
        "127.0.0.1:<port>".to_owned()
    } else {
        core.to_owned()
    };
    shown + tail
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
