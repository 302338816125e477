//! Whose is an error of the compiler?

use serde_json::Value;
use std::fs;

/// Begins what is a mutant's, and is followed by its number.
pub const BEGIN: &str = "/*<";
/// Ends it.
pub const END: &str = "/*>*/";

/// The innermost mutant around this place of the compiler's.
pub fn mutant_at(span: &Value) -> Option<usize> {
    let file = span["file_name"].as_str()?;
    let at = usize::try_from(span["byte_start"].as_u64()?).ok()?;
    let text = fs::read_to_string(file).ok()?;
    within(text.get(..at)?)
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
