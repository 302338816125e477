//! Whose is an error of the compiler?

use serde_json::Value;
use std::fs;

/// Begins what is a mutant's, and is followed by its number.
pub const BEGIN: &str = "/*<";
/// Ends it.
pub const END: &str = "/*>*/";

/// The guard of an arm that a mutant takes away, up to the mutant's number.
pub const TAKEN_AWAY: &str = "crate::switched::on() != ";

/// The innermost mutant around this place of the compiler's.
pub fn mutant_at(span: &Value) -> Option<usize> {
    let file = span["file_name"].as_str()?;
    let at = usize::try_from(span["byte_start"].as_u64()?).ok()?;
    let text = fs::read_to_string(file).ok()?;
    within(text.get(..at)?)
}

/// Of a `match` whose arms do not cover all, the last arm that a mutant may take away: it has to cover what is left.
pub fn last_arm(message: &Value) -> Option<usize> {
    let scrutinee = message["spans"].get(0)?;
    let file = scrutinee["file_name"].as_str()?;
    let begin = scrutinee["byte_start"].as_u64()?;
    // Where the compiler proposes to put another arm.
    let children = message["children"].as_array()?.iter();
    let proposed = children.flat_map(|child| child["spans"].as_array().into_iter().flatten());
    let proposed = proposed.filter(|span| span["file_name"] == file);
    let end = proposed.filter_map(|span| span["byte_start"].as_u64()).max()?;
    let text = fs::read_to_string(file).ok()?;
    last_in(text.get(usize::try_from(begin).ok()?..usize::try_from(end).ok()?)?)
}

fn last_in(text: &str) -> Option<usize> {
    let (_, after) = text.rsplit_once(TAKEN_AWAY)?;
    let digits = after.find(|it: char| !it.is_ascii_digit())?;
    after.get(..digits)?.parse().ok()
}

/// Of the mutants that have begun in this text, the last one that has not ended.
fn within(before: &str) -> Option<usize> {
    let mut open = Vec::new();
    let mut rest = before;
    loop {
        match (rest.find(BEGIN), rest.find(END)) {
            (Some(begin), end) if end.is_none_or(|end| begin < end) => {
                rest = rest.get(begin + BEGIN.len()..)?;
                let digits = rest.find(|it: char| !it.is_ascii_digit())?;
                open.push(rest.get(..digits)?.parse().ok()?);
            }
            (_, Some(end)) => {
                open.pop();
                rest = rest.get(end + END.len()..)?;
            }
            _ => return open.pop(),
        }
    }
}

#[test]
fn the_innermost_that_has_not_ended_is_the_one() {
    assert_eq!(within("a /*<1>*/ b"), Some(1));
    assert_eq!(within("a /*<1>*/ b /*>*/ c"), None);
    assert_eq!(within("/*<1>*/ /*<22>*/ x /*>*/ y"), Some(1));
}

#[test]
fn the_last_arm_that_may_be_taken_away_is_the_one() {
    let arms = "0 if /*<1>*/ crate::switched::on() != 1 /*>*/ => a, n if /*<22>*/ crate::switched::on() != 22 /*>*/ => b,";
    assert_eq!(last_in(arms), Some(22));
    assert_eq!(last_in("0 => a, _ => b,"), None);
}
