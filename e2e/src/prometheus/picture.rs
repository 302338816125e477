//! Panels of a dashboard as an SVG: nothing is drawn but the points that Prometheus gave.

use std::fmt::Write;

const WIDTH: f64 = 1200.0;
const MARGIN: f64 = 16.0;
/// From one end of a panel to the next one.
const GAP: f64 = 16.0;
/// Of a panel: above its plot for the title, below it for the times and the legend, beside it for the values.
const HEAD: f64 = 28.0;
const FOOT: f64 = 44.0;
const SIDE: f64 = 64.0;
/// What a last name of the legend takes, at most.
const LEGEND_END: f64 = 190.0;
/// Height of the plot of lines, and of one node's states.
const PLOT: f64 = 130.0;
const ROW: f64 = 22.0;
/// Points further apart (seconds) than this have nothing between them.
const APART: f64 = 5.0;
/// Of the first state, and so on.
const STATES: [&str; 11] = [
    "#9aa0a6", "#f2c94c", "#f2994a", "#7fb2e5", "#3d7fc1", "#8e7cc3", "#d64550", "#b5487a",
    "#7a2e2e", "#2f9e8f", "#6fbf73",
];
/// Of the first line, and so on.
const LINES: [&str; 6] = [
    "#3d7fc1", "#f2994a", "#2f9e8f", "#d64550", "#8e7cc3", "#6fbf73",
];

/// What a panel shows.
pub enum Kind {
    /// Values over time.
    Lines,
    /// A bar for each series, whose values stand for states: these, from 1.
    States(Vec<String>),
}

/// One panel: its title, and its series by what the legend calls them.
pub struct Panel {
    /// Its title.
    pub title: String,
    /// How its series are drawn.
    pub kind: Kind,
    /// What stands after a value.
    pub unit: &'static str,
    /// Names, and points: seconds since the epoch, and values.
    pub series: Vec<(String, Vec<(f64, f64)>)>,
}

/// A rectangle of the picture, and the time (seconds since the epoch) that it spans.
#[derive(Clone, Copy)]
struct Place {
    x: f64,
    y: f64,
    width: f64,
    from: f64,
    to: f64,
}

impl Place {
    fn at(&self, time: f64) -> f64 {
        let share = (time - self.from) / (self.to - self.from).max(1.0);
        self.x + SIDE + share.clamp(0.0, 1.0) * (self.width - SIDE - MARGIN)
    }
}

/// Draws the panels, states over the whole width and lines two beside each other, from one time (seconds since the epoch) to another.
pub fn draw(title: &str, panels: &[Panel], from: f64, to: f64) -> String {
    let mut body = String::new();
    text(&mut body, MARGIN, 34.0, 20.0, "start", "#202124", title);
    let mut y = 52.0;
    let mut is_second = false;
    for panel in panels {
        let is_wide = matches!(panel.kind, Kind::States(_));
        let half = (WIDTH - 2.0 * MARGIN - GAP) / 2.0;
        if is_wide && is_second {
            y += HEAD + PLOT + FOOT + GAP;
            is_second = false;
        }
        let place = Place {
            x: if is_second {
                MARGIN + half + GAP
            } else {
                MARGIN
            },
            y,
            width: if is_wide { WIDTH - 2.0 * MARGIN } else { half },
            from,
            to,
        };
        let height = panel.draw(&mut body, place);
        if is_wide || is_second {
            y += height + GAP;
        }
        is_second = !is_wide && !is_second;
    }
    if is_second {
        y += HEAD + PLOT + FOOT + GAP;
    }
    let font = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH:.0} {y:.0}\" font-family=\"{font}\">\n\
        <rect width=\"100%\" height=\"100%\" fill=\"#f4f5f7\"/>\n{body}</svg>\n"
    )
}

impl Panel {
    /// Returns its height.
    fn draw(&self, body: &mut String, place: Place) -> f64 {
        let plot = match self.kind {
            Kind::Lines => PLOT,
            #[expect(clippy::cast_precision_loss, reason = "a handful")]
            Kind::States(_) => ROW * self.series.len() as f64,
        };
        let height = HEAD + plot + FOOT;
        let Place { x, y, width, .. } = place;
        let _ = writeln!(
            body,
            r##"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" rx="4" fill="#ffffff" stroke="#d8dbe0"/>"##
        );
        text(
            body,
            x + 10.0,
            y + 19.0,
            13.0,
            "start",
            "#202124",
            &self.title,
        );
        times(body, place, y + HEAD + plot);
        let names: Vec<_> = match &self.kind {
            Kind::Lines => {
                self.lines(body, place);
                let names = self.series.iter().map(|(name, _)| name.as_str());
                LINES.into_iter().cycle().zip(names).collect()
            }
            Kind::States(states) => {
                self.states(body, place);
                let names = states.iter().map(String::as_str);
                let all = STATES.into_iter().cycle().zip(names).enumerate();
                let shown = all.filter(|(index, _)| self.shows(index + 1));
                shown.map(|(_, state)| state).collect()
            }
        };
        legend(body, place, y + height - 12.0, &names);
        height
    }

    fn shows(&self, state: usize) -> bool {
        let mut points = self.series.iter().flat_map(|(_, points)| points);
        points.any(|(_, value)| number(*value) == state)
    }

    fn lines(&self, body: &mut String, place: Place) {
        let values = self.series.iter().flat_map(|(_, points)| points);
        let highest = values.map(|(_, value)| *value).fold(0.0, f64::max);
        let top = if highest > 0.0 { highest * 1.1 } else { 1.0 };
        let floor = place.y + HEAD + PLOT;
        let height = |value: f64| floor - value / top * (PLOT - 6.0);
        for value in [0.0, highest] {
            let (y, x) = (height(value), place.x + SIDE);
            let _ = writeln!(
                body,
                r##"<line x1="{x:.1}" y1="{y:.1}" x2="{:.1}" y2="{y:.1}" stroke="#e3e5e8"/>"##,
                place.at(place.to)
            );
            let label = format!("{}{}", (value * 10.0).round() / 10.0, self.unit);
            text(body, x - 8.0, y + 4.0, 11.0, "end", "#5f6368", &label);
        }
        for (colour, (_, points)) in LINES.into_iter().cycle().zip(&self.series) {
            let mut path = String::new();
            let mut last: Option<(f64, f64)> = None;
            for (time, value) in points.iter().copied() {
                let (x, y) = (place.at(time), height(value));
                let _ = match last {
                    // What holds, holds until it is seen to be another.
                    Some((before, _)) if time - before <= APART => write!(path, "H{x:.1}V{y:.1}"),
                    _ => write!(path, "M{x:.1} {y:.1}h1"),
                };
                last = Some((time, value));
            }
            let _ = writeln!(
                body,
                r##"<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.8"/>"##
            );
        }
    }

    fn states(&self, body: &mut String, place: Place) {
        let mut y = place.y + HEAD;
        for (name, points) in &self.series {
            text(
                body,
                place.x + SIDE - 8.0,
                y + 15.0,
                11.0,
                "end",
                "#5f6368",
                name,
            );
            for (from, to, state) in stretches(points) {
                let (x, end) = (place.at(from), place.at(to));
                let _ = writeln!(
                    body,
                    r##"<rect x="{x:.1}" y="{:.1}" width="{:.1}" height="{:.1}" fill="{}"/>"##,
                    y + 2.0,
                    (end - x).max(1.0),
                    ROW - 4.0,
                    STATES[state.saturating_sub(1) % STATES.len()]
                );
            }
            y += ROW;
        }
    }
}

/// From when until when a state was seen, one after the other.
fn stretches(points: &[(f64, f64)]) -> Vec<(f64, f64, usize)> {
    let mut all: Vec<(f64, f64, usize)> = Vec::new();
    for (time, value) in points {
        let state = number(*value);
        match all.last_mut() {
            Some((_, to, before)) if time - *to <= APART => {
                // The one before lasted until this one was seen.
                *to = *time;
                if *before != state {
                    all.push((*time, *time, state));
                }
            }
            _ => all.push((*time, *time, state)),
        }
    }
    all
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "states are small whole numbers"
)]
fn number(value: f64) -> usize {
    value.round().max(0.0) as usize
}

/// Minutes since the beginning.
fn times(body: &mut String, place: Place, y: f64) {
    let mut minutes = 0.0;
    while place.from + 60.0 * minutes <= place.to {
        let x = place.at(place.from + 60.0 * minutes);
        let label = format!("{minutes:.0} min");
        text(body, x, y + 14.0, 10.0, "middle", "#5f6368", &label);
        minutes += 1.0;
    }
}

/// Colours and names, but for what needs none, as far as there is room.
fn legend(body: &mut String, place: Place, y: f64, names: &[(&str, &str)]) {
    let mut x = place.x + SIDE;
    for (index, (colour, name)) in names.iter().enumerate() {
        if name.is_empty() {
            continue;
        }
        if x > place.x + place.width - LEGEND_END {
            let rest = format!("and {} more", names.len() - index);
            text(body, x, y, 11.0, "start", "#3c4043", &rest);
            break;
        }
        let _ = writeln!(
            body,
            r##"<rect x="{x:.1}" y="{:.1}" width="10" height="10" fill="{colour}"/>"##,
            y - 9.0,
        );
        text(body, x + 14.0, y, 11.0, "start", "#3c4043", name);
        #[expect(clippy::cast_precision_loss, reason = "a name is short")]
        let length = name.chars().count() as f64;
        x += 30.0 + 6.2 * length;
    }
}

fn text(body: &mut String, x: f64, y: f64, size: f64, anchor: &str, fill: &str, words: &str) {
    let words = words.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(
        body,
        r##"<text x="{x:.1}" y="{y:.1}" font-size="{size}" text-anchor="{anchor}" fill="{fill}">{words}</text>"##
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_lasts_until_the_next_is_seen_and_not_over_a_gap() {
        let points = [(10.0, 1.0), (11.0, 1.0), (12.0, 4.0), (30.0, 4.0)];
        let expected = [(10.0, 12.0, 1), (12.0, 12.0, 4), (30.0, 30.0, 4)];
        assert_eq!(stretches(&points), expected);
    }

    #[test]
    fn a_picture_has_what_was_measured_and_breaks_on_no_name() {
        let panels = [
            Panel {
                title: "Stages".to_owned(),
                kind: Kind::States(vec!["Held".to_owned(), "Fencing".to_owned()]),
                unit: "",
                series: vec![("a<b&c".to_owned(), vec![(0.0, 2.0), (4.0, 2.0)])],
            },
            Panel {
                title: "Leaders".to_owned(),
                kind: Kind::Lines,
                unit: " s",
                series: vec![("one".to_owned(), vec![(0.0, 0.0), (2.0, 1.0)])],
            },
        ];
        let picture = draw("A run", &panels, 0.0, 60.0);
        assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"));
        assert!(picture.contains("a&lt;b&amp;c") && picture.contains(">Fencing<"));
        assert!(!picture.contains(">Held<"), "nothing was ever held");
        assert_eq!(picture.matches("<path").count(), 1);
        assert!(picture.contains(">1 s<") && picture.contains(">1 min<"));
    }
}
