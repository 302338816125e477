//! An incident drawn over time: a bar for each span, a mark for each attempt and each reading.
//!
//! Whoever does not see it has the same in the tables beneath; its name says so.

use super::html::Html;
use super::parts::took;
use super::spans::Span;
use fencing_api::fence::NodeFence;
use jiff::{SignedDuration, Timestamp};
use std::fmt::Display;

/// Of the picture, in units of its own: how wide it is, where the plot begins and ends, how high a row is.
const WIDTH: i64 = 760;
const BEGIN: i64 = 240;
const END: i64 = 660;
const ROW: i64 = 24;
/// So wide is what took no time.
const BAR_MIN: i64 = 3;
/// Of the axis.
const TICKS: i64 = 4;

/// The whole time that is drawn.
#[derive(Clone, Copy)]
struct Axis {
    from: Timestamp,
    until: Timestamp,
}

impl Axis {
    fn length(self) -> i64 {
        let length = self.until.duration_since(self.from).as_millis();
        i64::try_from(length).unwrap_or(i64::MAX).max(1)
    }

    fn at(self, time: Timestamp) -> i64 {
        let since = time.duration_since(self.from).as_millis();
        let since = i64::try_from(since).unwrap_or_default();
        let share = since.clamp(0, self.length()).saturating_mul(END - BEGIN);
        BEGIN + share / self.length()
    }
}

/// Draws it. The id has to be of this incident alone in the page.
pub(super) fn chart(fence: &NodeFence, spans: &[Span], id: &str, now: Timestamp) -> Html {
    let Some(first) = spans.first() else {
        return Html::default();
    };
    let until = spans.iter().map(|it| it.until.unwrap_or(now)).max();
    let axis = Axis {
        from: first.from,
        until: until.unwrap_or(now),
    };
    let mut rows: Vec<Html> = Vec::new();
    for span in spans {
        rows.push(bar(span, axis, rows.len(), now));
    }
    for (name, shape, times) in marks(fence) {
        if !times.is_empty() {
            rows.push(points(name, shape, &times, axis, rows.len()));
        }
    }
    let bottom = top(rows.len());
    let height = bottom + ROW;
    let (title, words) = (format!("{id}-title"), format!("{id}-words"));
    let name = format!("Timeline of the incident of node {}", fence.spec.node_name);
    let said = format!(
        "{} spans over {}; the tables that follow have the same.",
        spans.len(),
        took(axis.until.duration_since(axis.from))
    );
    let content = Html::element("title", &[("id", &title)], name)
        .and(Html::element("desc", &[("id", &words)], said))
        .and(ticks(axis, bottom))
        .and(rows.into_iter().collect::<Html>());
    let attributes: [(_, &dyn Display); 5] = [
        ("class", &"chart"),
        ("role", &"img"),
        ("viewBox", &format_args!("0 0 {WIDTH} {height}")),
        ("aria-labelledby", &title),
        ("aria-describedby", &words),
    ];
    Html::element("svg", &attributes, content)
}

fn top(row: usize) -> i64 {
    i64::try_from(row).unwrap_or_default().saturating_mul(ROW)
}

fn bar(span: &Span, axis: Axis, row: usize, now: Timestamp) -> Html {
    let until = span.until.unwrap_or(now);
    let (from, to) = (axis.at(span.from), axis.at(until));
    let kind = if span.until.is_none() { "now" } else { "bar" };
    // A page that is not loaded anew would soon say a wrong time.
    let lasted = span.until.map(|it| took(it.duration_since(span.from)));
    let lasted = lasted.unwrap_or_else(|| "goes on".to_owned());
    label(&span.name, row)
        .and(Html::element(
            "rect",
            &[
                ("class", &kind),
                ("x", &from),
                ("y", &(top(row) + 5)),
                ("width", &(to - from).max(BAR_MIN)),
                ("height", &(ROW - 10)),
            ],
            "",
        ))
        .and(text("start", END + 12, top(row) + 16, &lasted))
}

/// Which marks there are: what of, drawn how, when.
fn marks(fence: &NodeFence) -> [(&'static str, &'static str, Vec<Timestamp>); 2] {
    let status = fence.status.as_ref();
    let attempts = status.iter().flat_map(|it| &it.attempts);
    let evidence = status.and_then(|it| it.evidence.as_ref());
    let readings = evidence.into_iter().flat_map(|it| &it.readings);
    [
        // A triangle and a rhombus: not told apart by colour.
        (
            "Asked of devices",
            "l5 10 h-10 z",
            attempts.map(|it| it.start_time).collect(),
        ),
        (
            "Readings of the proof",
            "l4 5 l-4 5 l-4 -5 z",
            readings.map(|it| it.time).collect(),
        ),
    ]
}

fn points(name: &str, shape: &str, times: &[Timestamp], axis: Axis, row: usize) -> Html {
    let drawn: Html = times
        .iter()
        .map(|at| {
            let path = format!("M{} {} {shape}", axis.at(*at), top(row) + 7);
            Html::element("path", &[("class", &"mark"), ("d", &path)], "")
        })
        .collect();
    let count = match times.len() {
        1 => "once".to_owned(),
        many => format!("{many} times"),
    };
    label(name, row)
        .and(drawn)
        .and(text("start", END + 12, top(row) + 16, &count))
}

fn label(words: &str, row: usize) -> Html {
    text("end", BEGIN - 10, top(row) + 16, words)
}

fn ticks(axis: Axis, bottom: i64) -> Html {
    let tick = |number: i64| {
        let x = BEGIN + (END - BEGIN) * number / TICKS;
        let since = SignedDuration::from_millis(axis.length() / TICKS * number);
        let attributes: [(_, &dyn Display); 5] = [
            ("class", &"tick"),
            ("x1", &x),
            ("x2", &x),
            ("y1", &0),
            ("y2", &bottom),
        ];
        let words = format!("+{}", took(since));
        Html::element("line", &attributes, "").and(text("middle", x, bottom + 16, &words))
    };
    (0..=TICKS).map(tick).collect()
}

fn text(anchor: &str, x: i64, y: i64, words: &str) -> Html {
    let attributes: [(_, &dyn Display); 3] = [("text-anchor", &anchor), ("x", &x), ("y", &y)];
    Html::element("text", &attributes, words)
}
