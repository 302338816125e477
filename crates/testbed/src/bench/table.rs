//! The tables of a benchmark: one column a kind of node, each cell a median with minimum and maximum, as Markdown that is
//! also readable at the prompt.

use std::fmt;

/// A heading and rows.
#[derive(Debug)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// No rows yet; these are the columns.
    pub fn new(first: &str, others: impl IntoIterator<Item = String>) -> Self {
        let mut table = Self { rows: Vec::new() };
        table.words(first, others);
        table
    }

    /// A row of words.
    pub fn words(&mut self, name: &str, words: impl IntoIterator<Item = String>) {
        let cells = std::iter::once(name.to_owned()).chain(words);
        self.rows.push(cells.collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, cells) in self.rows.iter().enumerate() {
            writeln!(f, "| {} |", cells.join(" | "))?;
            if number == 0 {
                writeln!(f, "|{}", "---|".repeat(cells.len()))?;
            }
        }
        Ok(())
    }
}

/// `MEDIAN UNIT (MINIMUM to MAXIMUM)` with so many digits after the point; the median alone where all are shown alike.
pub fn spread(unit: &str, digits: usize, values: impl Iterator<Item = f64>) -> String {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let Some(median) = median(&values) else {
        return "-".to_owned();
    };
    let show = |value: f64| format!("{value:.digits$}");
    let (min, max) = (show(values[0]), show(values[values.len() - 1]));
    let middle = format!("{} {unit}", show(median));
    if min == max {
        middle.trim_end().to_owned()
    } else {
        format!("{} ({min} to {max})", middle.trim_end())
    }
}

/// The median of sorted values.
pub fn median(values: &[f64]) -> Option<f64> {
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    if values.len() % 2 == 1 {
        return Some(upper);
    }
    Some((values.get(middle - 1)? + upper) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_shows_median_minimum_and_maximum_whatever_the_order() {
        let cell = |values: &[f64]| spread("s", 1, values.iter().copied());
        assert_eq!(cell(&[3.0, 1.0, 2.0]), "2.0 s (1.0 to 3.0)");
        assert_eq!(cell(&[4.0, 1.0, 2.0, 100.0]), "3.0 s (1.0 to 100.0)");
        assert_eq!(cell(&[2.0, 2.01]), "2.0 s");
        assert_eq!(cell(&[]), "-");
        assert_eq!(spread("", 0, [7.0, 9.0, 8.0].into_iter()), "8 (7 to 9)");
    }

    #[test]
    fn a_table_is_markdown() {
        let mut table = Table::new("", ["one".to_owned(), "two".to_owned()]);
        table.words("said", ["no".to_owned(), "yes".to_owned()]);
        let lines = [
            "|  | one | two |",
            "|---|---|---|",
            "| said | no | yes |",
            "",
        ];
        assert_eq!(table.to_string(), lines.join("\n"));
    }
}
