//! The grid of `docs/faults.md`: every fault, and the tests that show what comes of it. `make faults` prints it.

use std::collections::BTreeMap;
use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// The numbers that faults have. Those between belong to none.
const NUMBERS: [RangeInclusive<u32>; 2] = [1..=24, 33..=57];

/// A row of a table: its cells.
type Row = Vec<String>;

fn document() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/faults.md")
}

/// The rows of all tables whose last column says what shows them.
fn rows() -> Vec<Row> {
    let text = fs::read_to_string(document()).expect("the document");
    let cells = |line: &str| -> Row {
        let line = line.trim_start_matches('|').trim_end_matches('|');
        line.split(" | ")
            .map(|cell| cell.trim().to_owned())
            .collect()
    };
    let (mut found, mut is_inside) = (Vec::new(), false);
    for line in text.lines() {
        let row = line.starts_with('|').then(|| cells(line));
        match row {
            None => is_inside = false,
            Some(row) if row.last().is_some_and(|last| last == "shown by") => is_inside = true,
            Some(row) if is_inside && !line.starts_with("|---") => found.push(row),
            Some(_) => {}
        }
    }
    found
}

/// The numbers in `F16, F17`; none: a row of another table.
fn numbers(cell: &str) -> Vec<u32> {
    let ids = cell
        .split(", ")
        .map(|id| id.strip_prefix('F')?.parse().ok());
    ids.collect::<Option<_>>().unwrap_or_default()
}

/// The tests that a row names, by the names that they have there.
fn tests(row: &Row) -> Vec<String> {
    let mut found = Vec::new();
    let mut pieces = row.last().map_or("", String::as_str).split("](").peekable();
    while let (Some(before), Some(after)) = (pieces.next(), pieces.peek()) {
        let label = before.rsplit('[').next().unwrap_or_default();
        let target = after.split(')').next().unwrap_or_default();
        if is_there(label, target) {
            found.push(label.to_owned());
        }
    }
    found
}

/// A golden file, a function, or a name that a macro makes one of.
fn is_there(label: &str, target: &str) -> bool {
    let path = document().with_file_name(target);
    let text = fs::read_to_string(&path);
    let text = text.unwrap_or_else(|error| panic!("{label} is in {target}: {error}"));
    let is_there = label.starts_with("golden ")
        || text.contains(&format!("fn {label}("))
        || text.contains(&format!(" {label}: "));
    // A file may be named as a whole, for what is not one test.
    let is_file = label.contains(['.', '/']);
    assert!(is_there || is_file, "there is no {label} in {target}");
    is_there
}

#[test]
fn every_fault_is_shown_by_tests_that_exist() {
    let (mut shown, mut missing) = (BTreeMap::new(), Vec::new());
    let (mut others, mut other_rows) = (0, 0);
    for row in rows() {
        let found = tests(&row);
        let is_open = row.join(" ").to_lowercase().contains("not yet shown");
        let own = numbers(&row[0]);
        if own.is_empty() {
            other_rows += 1;
            // Rows of the drivers may be those of their own grid.
            let is_shown =
                !found.is_empty() || row.last().is_some_and(|it| it.contains("the grid"));
            others += usize::from(is_shown);
        }
        if is_open || (found.is_empty() && !own.is_empty()) {
            missing.push(row.join(" | "));
        }
        for number in own {
            let twice = shown.insert(number, (row[1].clone(), found.clone()));
            assert!(twice.is_none(), "F{number:02} has two rows");
        }
    }
    for (number, (words, tests)) in &shown {
        println!("F{number:02}  {} tests  {words}", tests.len());
        tests.iter().for_each(|test| println!("       {test}"));
    }
    let all: Vec<u32> = NUMBERS.into_iter().flatten().collect();
    assert!(shown.keys().eq(&all), "the rows are {:?}", shown.keys());
    assert!(missing.is_empty(), "not yet shown:\n{}", missing.join("\n"));
    println!("F {}/{} (F01 to F24, F33 to F57)", shown.len(), all.len());
    assert_eq!(
        others, other_rows,
        "a row of the other tables is shown by nothing"
    );
    println!("devices and inputs {others}/{other_rows}");
}
