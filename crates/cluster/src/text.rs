//! Small helpers for text that people read.

use std::error::Error;

/// An error and its causes in one line. A cause that its effect already quotes is not repeated: many libraries do both.
#[must_use]
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        cause = error.source();
    }
    text.split(['\n', '\r'])
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect::<Vec<_>>()
        .join("; ")
}

/// At most `bytes_max` bytes of `text`, cut between characters and marked with an ellipsis if anything is missing.
#[must_use]
pub fn shortened(text: &str, bytes_max: usize) -> String {
    const ELLIPSIS: &str = "\u{2026}";
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let mut end = bytes_max.saturating_sub(ELLIPSIS.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let kept = text.get(..end).unwrap_or_default();
    format!("{kept}{ELLIPSIS}")
}

/// The first of these, so many at most, each between two marks, and how many more there are.
#[must_use]
pub fn listed(names: &[String], mark: &str, named_max: usize) -> String {
    let named = names.iter().take(named_max);
    let named: Vec<_> = named.map(|it| format!("{mark}{it}{mark}")).collect();
    match names.len().saturating_sub(named_max) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{words}")]
    struct Failure {
        words: &'static str,
        source: Option<Box<Failure>>,
    }

    fn failure(words: &'static str, source: Option<Failure>) -> Failure {
        Failure {
            words,
            source: source.map(Box::new),
        }
    }

    #[test]
    fn causes_follow_their_effects_once_and_on_one_line() {
        let error = failure(
            "cannot connect: refused",
            Some(failure("refused", Some(failure("os error\n 111\n", None)))),
        );
        assert_eq!(chain(&error), "cannot connect: refused: os error; 111");
    }

    #[test]
    fn text_is_cut_between_characters_and_never_too_long() {
        assert_eq!(shortened("short", 5), "short");
        assert_eq!(shortened("longer", 5), "lo\u{2026}");
        let wide = "\u{1f525}".repeat(400);
        for bytes_max in 3..40 {
            let cut = shortened(&wide, bytes_max);
            assert!(
                cut.len() <= bytes_max && cut.ends_with('\u{2026}'),
                "{bytes_max}: {cut}"
            );
        }
        assert_eq!(shortened(&wide, 1024).len(), 1023);
    }
}
