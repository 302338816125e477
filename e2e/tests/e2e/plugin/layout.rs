//! What was printed, as it looks in every run: ages, times and addresses are taken out, and then what they had moved is laid out anew, by the same
//! rules. So a text is compared to the last blank, and the rules with it: a table that is not laid out by them, or a line that is cut too early,
//! stays as it was printed, and differs from what is recorded.

use std::collections::BTreeSet;

use jiff::civil::DateTime;

use crate::story::tell::Names;

/// Columns of a terminal.
const WIDTH: usize = 80;
/// Blanks between two columns of a table.
const GAP: usize = 3;

/// The text, as it looks in every run.
pub fn canonical(text: &str, names: &Names) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut told = String::new();
    let mut at = 0;
    while at < lines.len() {
        let rest = &lines[at..];
        let (taken, shown) = table(rest, names)
            .or_else(|| story(rest, names))
            .unwrap_or_else(|| paragraph(rest, names));
        at += taken;
        told += &shown;
    }
    told
}

/// The text without names and ages of this run.
fn plain(text: &str, names: &Names) -> String {
    if DateTime::strptime("%F %T UTC", text).is_ok() {
        return "<time>".to_owned();
    }
    timeless(&names.plain(text))
}

/// The table that begins here, if one does: under titles in capitals.
fn table(lines: &[&str], names: &Names) -> Option<(usize, String)> {
    let titles = lines.first()?;
    let starts = starts(titles);
    let is_title = |sign: char| sign.is_ascii_uppercase() || " /".contains(sign);
    if starts.len() < 2 || !titles.chars().all(is_title) {
        return None;
    }
    let is_row = |line: &&&str| {
        let signs: Vec<char> = line.chars().collect();
        let is_gap = |at: &usize| signs.iter().take(*at).rev().take(2).all(|it| *it == ' ');
        !line.is_empty() && !line.starts_with(' ') && starts[1..].iter().all(is_gap)
    };
    let count = lines.iter().take_while(is_row).count();
    let rows: Vec<Vec<String>> = lines[..count].iter().map(|it| cells(it, &starts)).collect();
    let printed: String = lines[..count].iter().map(|it| format!("{it}\n")).collect();
    if count == 0 || laid_out(&rows) != printed {
        return None;
    }
    let rows = rows.iter().map(|row| {
        let cells = row.iter().map(|cell| plain(cell, names));
        cells.collect::<Vec<_>>()
    });
    Some((count, laid_out(&rows.collect::<Vec<_>>())))
}

/// Where the columns begin: after two blanks at least.
fn starts(titles: &str) -> Vec<usize> {
    let signs: Vec<char> = titles.chars().collect();
    let is_blank = |at: usize| signs.get(at) == Some(&' ');
    let begins = |at: &usize| {
        !is_blank(*at) && (*at == 0 || *at > 1 && is_blank(at - 1) && is_blank(at - 2))
    };
    (0..signs.len()).filter(begins).collect()
}

fn cells(line: &str, starts: &[usize]) -> Vec<String> {
    let ends = starts.iter().skip(1).copied().chain([usize::MAX]);
    let cut = |(start, end): (&usize, usize)| {
        let cell = line.chars().skip(*start).take(end - start);
        cell.collect::<String>().trim_end().to_owned()
    };
    starts.iter().zip(ends).map(cut).collect()
}

fn laid_out(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0) + GAP
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let padded = row.iter().zip(&widths);
        let padded = padded.map(|(cell, width)| format!("{cell:<width$}"));
        format!("{}\n", padded.collect::<String>().trim_end())
    };
    rows.iter().map(line).collect()
}

/// The moments of an incident that begin here, if they do: `+12s  what`. Two that are dated by the same second come in either order, and a device
/// is read as often as it takes: so they are sorted, and each stands once. Their order is held by the unit tests of `timeline`.
fn story(lines: &[&str], names: &Names) -> Option<(usize, String)> {
    let mut moments = BTreeSet::new();
    let mut at = 0;
    while let Some(line) = lines.get(at)
        && line.trim_start().starts_with('+')
    {
        let (taken, shown) = paragraph(&lines[at..], names);
        at += taken;
        moments.insert(shown);
    }
    (at > 0).then(|| (at, moments.into_iter().collect()))
}

/// A line, and those to which it runs on; cut anew where something in it was taken out.
fn paragraph(lines: &[&str], names: &Names) -> (usize, String) {
    let (lead, words) = led(lines);
    let indent = lead.chars().count();
    // What has more columns is no prose, an error is one line, and a command that is cut has its own way to say so.
    let is_prose = !words.contains("  ") && !words.starts_with("error: ") && !words.ends_with('\\');
    let all = match is_prose {
        true => continued(lines, indent),
        false => &lines[..1],
    };
    let told: Vec<String> = all.iter().map(|it| plain(it, names)).collect();
    if !is_prose || told.iter().zip(all).all(|(told, line)| told == line) {
        return (all.len(), told.iter().map(|it| format!("{it}\n")).collect());
    }
    let words = std::iter::once(words).chain(all[1..].iter().map(|it| it.trim_start()));
    let words = plain(&words.collect::<Vec<_>>().join(" "), names);
    let lead = format!("{:<indent$}", plain(lead.trim_end(), names));
    (all.len(), wrapped(&words, &lead, indent))
}

/// An indentation, and what stands before two blanks (`  State         `, `  +12s    `) or is the sign of an item whose lines hang, apart from the
/// words.
fn led<'a>(lines: &[&'a str]) -> (&'a str, &'a str) {
    let line = lines[0];
    let words = line.trim_start();
    let indent = line.len() - words.len();
    if let Some(item) = words.strip_prefix("- ")
        && continued(lines, indent + 2).len() > 1
    {
        return line.split_at(line.len() - item.len());
    }
    let key = words.find("  ").map_or(words, |at| &words[at..]);
    line.split_at(line.len() - key.trim_start().len())
}

/// The first line, and those that follow because its words had no room: of each the first word would not have fitted into the line before.
fn continued<'a, 'b>(lines: &'a [&'b str], indent: usize) -> &'a [&'b str] {
    let is_next = |pair: &&[&str]| {
        let words = pair[1].trim_start();
        let first = words.split(' ').next().unwrap_or_default();
        let had = pair[0].chars().count() + 1 + first.chars().count();
        // An item of a list, a title (`Cause:`), an Event and the second line of one begin a line of their own.
        let is_title =
            first.ends_with(':') && first.starts_with(|it: char| it.is_ascii_uppercase());
        let is_event = words.contains(" ago: ") || words.starts_with("Volume is already ");
        let is_item = words.starts_with("error: ") || words.starts_with("- ");
        let is_own = is_title || is_event || is_item;
        !words.is_empty() && !is_own && pair[1].len() - words.len() == indent && had > WIDTH
    };
    let more = lines.windows(2).take_while(is_next).count();
    &lines[..=more]
}

/// The words in lines of a terminal, the first after this lead, the others indented by so many.
fn wrapped(words: &str, lead: &str, indent: usize) -> String {
    let mut text = lead.to_owned();
    let mut column = indent;
    for word in words.split_whitespace() {
        let length = word.chars().count();
        if column > indent && column + 1 + length > WIDTH {
            text += &format!("\n{}", " ".repeat(indent));
            column = indent;
        } else if column > indent {
            text.push(' ');
            column += 1;
        }
        text += word;
        column += length;
    }
    text + "\n"
}

/// Without ages, which kubectl and we write like `2m10s`, and without the milliseconds of an answer.
fn timeless(text: &str) -> String {
    const AFTER: [char; 4] = [',', ':', '.', ')'];
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|it| it.is_ascii_digit());
    let words: Vec<&str> = text.split(' ').collect();
    let shown = words.iter().enumerate().map(|(at, word)| {
        let core = word.trim_end_matches(AFTER);
        let after = &word[core.len()..];
        let next = words.get(at + 1).map(|it| it.trim_end_matches(AFTER));
        match core.strip_prefix('+').unwrap_or(core) {
            age if is_age(age) => format!("{}<age>{after}", &core[..core.len() - age.len()]),
            number if is_number(number) && next == Some("ms") => format!("<n>{after}"),
            _ => (*word).to_owned(),
        }
    });
    shown.collect::<Vec<_>>().join(" ")
}

fn is_age(word: &str) -> bool {
    let is_of_age = |sign: char| sign.is_ascii_digit() || ".smhdy".contains(sign);
    word.starts_with(|sign: char| sign.is_ascii_digit())
        && word.ends_with(|sign: char| "smhdy".contains(sign))
        && word.chars().all(is_of_age)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        canonical(text, &Names::of("node-1", "node-1-00000000"))
    }

    #[test]
    fn ages_are_taken_out_and_nothing_else() {
        assert_eq!(shown("2026-11-26 15:05:11 UTC\n"), "<time>\n");
        assert_eq!(
            shown("Ready True for 2m10s), 1.5s ago: 3 of 5 nodes, 12 ms\n  worker-1s\n"),
            "Ready True for <age>), <age> ago: 3 of 5 nodes, <n> ms\n  worker-1s\n"
        );
    }

    #[test]
    fn a_table_looks_the_same_whatever_its_ages() {
        let short = "NODE     AGE   STAGE\nnode-1   2s    Held\nIt waits\n";
        let long = "NODE     AGE     STAGE\nnode-1   2m10s   Held\nIt waits\n";
        let told = "NODE       AGE     STAGE\nworker-1   <age>   Held\nIt waits\n";
        assert_eq!((shown(short).as_str(), shown(long).as_str()), (told, told));
    }

    #[test]
    fn a_table_that_is_laid_out_otherwise_is_seen() {
        let right = "NODE     AGE   STAGE\nnode-1   2s    Held\n";
        for wrong in [
            "NODE      AGE   STAGE\nnode-1    2s    Held\n",
            "NODE     AGE   STAGE\nnode-1   2s     Held\n",
            "NODE     AGE   STAGE\nnode-1   2s    Held \n",
            "NODE    AGE   STAGE\nnode-1  2s    Held\n",
            " NODE     AGE   STAGE\n node-1   2s    Held\n",
        ] {
            assert_ne!(shown(wrong), shown(right), "{wrong}");
        }
    }

    #[test]
    fn a_paragraph_is_cut_where_it_would_be_with_the_words_that_stand_for_others() {
        let of = |age: &str, cut: usize| {
            let words = format!("  It waits for {age} {}", "word ".repeat(14));
            let (one, other) = words.trim_end().split_at(cut);
            format!("{one}\n  {}\n", other.trim_start())
        };
        // The last word that fits, and then one more.
        assert_eq!(shown(&of("2s", 77)), shown(&of("120m10s", 77)));
        assert!(
            shown(&of("2s", 77))
                .lines()
                .all(|it| it.chars().count() <= WIDTH)
        );
        assert_ne!(shown(&of("2s", 77)), shown(&of("2s", 72)), "cut too early");
        let indented = of("2s", 77).replace("\n  ", "\n   ");
        assert_ne!(
            shown(&of("2s", 77)),
            shown(&indented),
            "another indentation"
        );
    }

    #[test]
    fn what_does_not_vary_is_left_to_the_last_blank() {
        let text = "  a\n\n   b  c\n(exit code 1)\n";
        assert_eq!(shown(text), text);
    }

    #[test]
    fn moments_are_sorted_and_each_stands_once() {
        let one = "  +0s     began\n  +12s    read Off (`Off`, 3 ms)\n  +13s    read Off (`Off`, 12 ms)\n  +13s    done\n";
        let other = "  +0s     began\n  +1m0s   done\n  +1m0s   read Off (`Off`, 3 ms)\n";
        assert_eq!(shown(one), shown(other));
        assert_eq!(
            shown(one),
            "  +<age>  began\n  +<age>  done\n  +<age>  read Off (`Off`, <n> ms)\n"
        );
    }
}
