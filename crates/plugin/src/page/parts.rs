//! Parts of a page: tables, lists of facts, times.

use super::super::table::duration;
use super::html::Html;
use jiff::{SignedDuration, Timestamp};
use std::fmt::Debug;

/// A table with its caption; the first cell of a row is its heading. No rows: nothing.
pub fn table(caption: &str, titles: &[&str], rows: Vec<Vec<Html>>) -> Html {
    if rows.is_empty() {
        return Html::default();
    }
    let titles = titles.iter();
    let titles: Html = titles
        .map(|it| Html::element("th", &[("scope", &"col")], *it))
        .collect();
    let head = Html::element("thead", &[], Html::element("tr", &[], titles));
    let row = |cells: Vec<Html>| {
        let cells = cells.into_iter().enumerate();
        let cells: Html = cells
            .map(|(index, cell)| match index {
                0 => Html::element("th", &[("scope", &"row")], cell),
                _ => Html::element("td", &[], cell),
            })
            .collect();
        Html::element("tr", &[], cells)
    };
    let body = Html::element("tbody", &[], rows.into_iter().map(row).collect::<Html>());
    let caption = Html::element("caption", &[], caption);
    Html::element("table", &[], caption.and(head).and(body))
}

/// The same of rows that have each cell beside the title of its column.
pub fn columns(caption: &str, rows: impl Iterator<Item = Vec<(&'static str, Html)>>) -> Html {
    let (mut titles, mut cells) = (Vec::new(), Vec::new());
    for row in rows {
        let (names, row): (Vec<_>, Vec<_>) = row.into_iter().unzip();
        titles = names;
        cells.push(row);
    }
    table(caption, &titles, cells)
}

/// Facts, each under its name; those that are not known are left out.
pub fn facts(facts: Vec<(&'static str, Option<Html>)>) -> Html {
    let known = facts
        .into_iter()
        .filter_map(|(name, fact)| Some((name, fact?)));
    let known: Html = known
        .map(|(name, fact)| {
            let pair = Html::element("dt", &[], name).and(Html::element("dd", &[], fact));
            Html::element("div", &[], pair)
        })
        .collect();
    Html::element("dl", &[], known)
}

/// Text as it was written by a machine.
pub fn code(words: &str) -> Html {
    Html::element("code", &[], words)
}

/// A name of the API, such as a state.
pub fn name(of: impl Debug) -> Html {
    Html::text(format!("{of:?}"))
}

/// What may not be there.
pub fn or_dash(words: Option<&String>) -> Html {
    Html::text(words.map_or("-", String::as_str))
}

/// A moment, absolute: in UTC, with a fraction of a second if the record has one.
pub fn utc(at: Timestamp) -> Html {
    let shown = match at.subsec_nanosecond() {
        0 => at.strftime("%F %T UTC").to_string(),
        _ => at.strftime("%F %T%.3f UTC").to_string(),
    };
    Html::element("time", &[("datetime", &at)], shown)
}

/// The same, or that it is not known.
pub fn utc_or_none(at: Option<Timestamp>) -> Html {
    at.map_or_else(|| Html::text("not recorded"), utc)
}

/// How long it took: below a minute in tenths of a second, where the record has them.
pub fn took(time: SignedDuration) -> String {
    let (seconds, tenths) = (time.as_secs(), time.subsec_millis() / 100);
    match (0..60).contains(&seconds) && tenths > 0 {
        true => format!("{seconds}.{tenths}s"),
        false => duration(time),
    }
}

/// A moment, by the time since another one.
pub fn since(at: Timestamp, first: Timestamp) -> Html {
    match at < first {
        true => Html::text(format!("-{}", took(first.duration_since(at)))),
        false => Html::text(format!("+{}", took(at.duration_since(first)))),
    }
}

/// How long ago that is, for a script to keep up.
pub fn ago(at: Timestamp, now: Timestamp) -> Html {
    let words = match at > now {
        true => format!("in {}", duration(at.duration_since(now))),
        false => format!("{} ago", duration(now.duration_since(at))),
    };
    Html::element("time", &[("datetime", &at), ("data-live", &"")], words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_took_no_second_is_told_in_tenths() {
        for (milliseconds, told) in [
            (0, "0s"),
            (99, "0s"),
            (430, "0.4s"),
            (9_000, "9s"),
            (59_900, "59.9s"),
            (60_900, "60s"),
            (190_500, "3m10s"),
            (-500, "0s"),
        ] {
            assert_eq!(took(SignedDuration::from_millis(milliseconds)), told);
        }
    }
}
