//! Text as kubectl has it: tables in columns, ages in one or two units, sentences that fit 80 columns, words for a shell.

use fencing_api::settings::FenceMode;
use fencing_core::stage::Stage;
use jiff::{SignedDuration, Timestamp};

/// Columns of a terminal that everything is made to fit.
pub const WIDTH: usize = 80;
/// Between two columns, as kubectl has it.
const GAP: usize = 3;

/// Rows under these titles, each column as wide as its longest cell. No rows: nothing, not even the titles.
pub fn table<'a, R: AsRef<[String]>>(titles: impl AsRef<[&'a str]>, rows: &[R]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let titles = titles.as_ref().iter().map(|it| (*it).to_owned()).collect();
    let mut lines: Vec<Vec<String>> = vec![titles];
    lines.extend(rows.iter().map(|it| it.as_ref().to_vec()));
    let columns = lines.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        let cells = lines.iter().filter_map(|it| it.get(column));
        cells.map(|it| it.chars().count()).max().unwrap_or_default() + GAP
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |cells: &Vec<String>| {
        let padded = cells.iter().zip(&widths);
        let padded: String = padded
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        format!("{}\n", padded.trim_end())
    };
    lines.iter().map(line).collect()
}

/// So many of something, in words: `1 pod`, `2 pods`.
pub fn count(many: usize, one: &str, more: &str) -> String {
    match many {
        1 => format!("1 {one}"),
        many => format!("{many} {more}"),
    }
}

/// `<none>`, as kubectl shows what is not there.
pub fn or_none<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "<none>".to_owned(), |it| it.to_string())
}

/// How long ago, as kubectl says it; what lies ahead (of another clock) is no age.
pub fn age(since: Timestamp, now: Timestamp) -> String {
    duration(now.duration_since(since))
}

/// A time in one or two units, as kubectl says it (`HumanDuration`, upstream's apimachinery/pkg/util/duration).
pub fn duration(time: SignedDuration) -> String {
    let seconds = time.as_secs().max(0);
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let (days, years) = (hours / 24, hours / 24 / 365);
    let two = |many: i64, unit: &str, rest: i64, of: &str| match rest {
        0 => format!("{many}{unit}"),
        rest => format!("{many}{unit}{rest}{of}"),
    };
    match seconds {
        ..120 => format!("{seconds}s"),
        120..600 => two(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => two(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => two(days, "d", hours % 24, "h"),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => two(years, "y", days % 365, "d"),
        _ => format!("{years}y"),
    }
}

/// Words in lines of at most [`WIDTH`] columns, each indented by so many.
pub fn wrapped(words: &str, indent: usize) -> String {
    let mut text = String::new();
    let mut column = 0;
    for word in words.split_whitespace() {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > WIDTH {
            text.push('\n');
            column = 0;
        }
        match column {
            0 => {
                text.push_str(&" ".repeat(indent));
                column = indent;
            }
            _ => {
                text.push(' ');
                column += 1;
            }
        }
        text.push_str(word);
        column += length;
    }
    text.push('\n');
    text
}

/// The stages that an incident that frees volumes goes through, the present one in brackets. What stands outside of them (`Held`) comes first.
pub fn bar(stage: &str, mode: FenceMode) -> String {
    const WAY: [Stage; 10] = [
        Stage::Checking,
        Stage::Claiming,
        Stage::Quiescing,
        Stage::Fencing,
        Stage::Verifying,
        Stage::Tainting,
        Stage::Detaching,
        Stage::AwaitingRelease,
        Stage::PoweringOn,
        Stage::Recovered,
    ];
    // One that observes goes no way, and one that proves sends no command. Not every policy turns machines on.
    let is_gone = |it: &Stage| match (mode, it) {
        (FenceMode::Observe, _) => false,
        (FenceMode::ConfirmOnly, Stage::Fencing) => false,
        (_, Stage::PoweringOn) => stage == Stage::PoweringOn.to_string(),
        _ => true,
    };
    let way = WAY.into_iter().filter(is_gone);
    let way: Vec<String> = way.map(|it| it.to_string()).collect();
    let is_on_it = way.iter().any(|it| it == stage);
    let shown = way.iter().map(|it| match it == stage {
        true => format!("[{it}]"),
        false => it.clone(),
    });
    let aside = (!is_on_it).then(|| format!("[{stage}]"));
    let all: Vec<String> = aside.into_iter().chain(shown).collect();
    all.join(" > ")
}

/// A word of a command line for a shell.
pub fn quoted(word: &str) -> String {
    let is_plain = |sign: char| sign.is_ascii_alphanumeric() || "-_./:=,".contains(sign);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_stays_one_word_for_a_shell() {
        for (word, shown) in [
            ("metal3", "metal3"),
            ("", "''"),
            ("a b", "'a b'"),
            ("$(reboot)", "'$(reboot)'"),
            ("it's", r"'it'\''s'"),
        ] {
            assert_eq!(quoted(word), shown);
        }
    }

    #[test]
    fn a_table_is_as_wide_as_its_cells_and_ends_without_blanks() {
        let rows = [
            ["worker-1".to_owned(), "1".to_owned()],
            ["w".to_owned(), String::new()],
        ];
        let text = table(["NODE", "OPEN"], &rows);
        assert_eq!(text, "NODE       OPEN\nworker-1   1\nw\n");
        assert_eq!(table(["NODE"], &[] as &[[String; 1]]), "");
    }

    /// The examples of upstream's `TestHumanDuration`.
    #[test]
    fn times_are_told_as_kubectl_tells_them() {
        const MINUTE: i64 = 60;
        const HOUR: i64 = 60 * MINUTE;
        const DAY: i64 = 24 * HOUR;
        const YEAR: i64 = 365 * DAY;
        for (seconds, told) in [
            (1, "1s"),
            (70, "70s"),
            (190, "3m10s"),
            (70 * MINUTE, "70m"),
            (47 * HOUR, "47h"),
            (49 * HOUR, "2d1h"),
            (8 * DAY + 2 * HOUR, "8d"),
            (367 * DAY, "367d"),
            (4 * YEAR - DAY, "3y364d"),
            (4 * YEAR, "4y"),
            (8 * YEAR - HOUR, "7y364d"),
            (8 * YEAR, "8y"),
            (8 * YEAR + 364 * DAY, "8y"),
        ] {
            assert_eq!(duration(SignedDuration::from_secs(seconds)), told);
        }
        assert_eq!(duration(SignedDuration::from_secs(-5)), "0s");
    }

    #[test]
    fn sentences_fit_the_terminal() {
        let words = "word ".repeat(40);
        let text = wrapped(&words, 4);
        assert!(
            text.lines()
                .all(|it| it.len() <= WIDTH && it.starts_with("    word"))
        );
        assert_eq!(text.split_whitespace().count(), 40);
        // What has no blank is not cut: people copy it.
        let long = "x".repeat(100);
        assert_eq!(wrapped(&long, 2), format!("  {long}\n"));
    }

    #[test]
    fn the_stage_stands_in_brackets_wherever_it_is() {
        assert!(bar("Fencing", FenceMode::PowerOff).contains("> [Fencing] >"));
        assert!(!bar("Verifying", FenceMode::ConfirmOnly).contains("Fencing"));
        assert_eq!(bar("Observing", FenceMode::Observe), "[Observing]");
        assert!(bar("Held", FenceMode::PowerOff).starts_with("[Held] > Checking"));
        // What is done does not lie ahead.
        let last = "> AwaitingRelease > [PoweringOn] > Recovered";
        for mode in [FenceMode::PowerOff, FenceMode::ConfirmOnly] {
            let bar = bar("PoweringOn", mode);
            assert!(bar.starts_with("Checking") && bar.ends_with(last), "{bar}");
        }
        assert!(!bar("Fencing", FenceMode::PowerOff).contains("PoweringOn"));
    }
}
