//! The table of a benchmark: median, minimum and maximum, as Markdown that is also readable at the prompt.

use std::fmt;

/// A heading and rows.
#[derive(Debug)]
pub(super) struct Table {
    heading: String,
    rows: Vec<[String; 4]>,
}

impl Table {
    /// No rows yet.
    pub(super) fn new(heading: String) -> Self {
        let titles = ["", "median", "min", "max"].map(str::to_owned);
        Self {
            heading,
            rows: vec![titles],
        }
    }

    /// A row of measurements in `unit`, with so many digits after the point.
    pub(super) fn row(
        &mut self,
        name: &str,
        unit: &str,
        digits: usize,
        values: impl Iterator<Item = f64>,
    ) {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let show = |value: Option<f64>| {
            let number = value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"));
            format!("{number} {unit}").trim_end().to_owned()
        };
        let (min, max) = (values.first().copied(), values.last().copied());
        self.rows
            .push([name.to_owned(), show(median(&values)), show(min), show(max)]);
    }

    /// A row of words.
    pub(super) fn words(&mut self, name: &str, words: &str) {
        self.rows.push([
            name.to_owned(),
            words.to_owned(),
            String::new(),
            String::new(),
        ]);
    }
}

/// The median of sorted values.
fn median(values: &[f64]) -> Option<f64> {
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    if values.len() % 2 == 1 {
        return Some(upper);
    }
    Some((values.get(middle - 1)? + upper) / 2.0)
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n", self.heading)?;
        for (number, [name, median, min, max]) in self.rows.iter().enumerate() {
            writeln!(f, "| {name} | {median} | {min} | {max} |")?;
            if number == 0 {
                writeln!(f, "|---|---|---|---|")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_shows_median_minimum_and_maximum_whatever_the_order() {
        let mut table = Table::new("Two.".to_owned());
        table.row("odd", "s", 1, [3.0, 1.0, 2.0].into_iter());
        table.row("even", "", 0, [4.0, 1.0, 2.0, 100.0].into_iter());
        table.words("said", "no");
        let lines = [
            "Two.",
            "",
            "|  | median | min | max |",
            "|---|---|---|---|",
            "| odd | 2.0 s | 1.0 s | 3.0 s |",
            "| even | 3 | 1 | 100 |",
            "| said | no |  |  |",
            "",
        ];
        assert_eq!(table.to_string(), lines.join("\n"));
    }
}
