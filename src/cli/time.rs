//! How long something is to take, as a user writes it in a flag. How a time is shown is in [`table`](super::table).

use jiff::SignedDuration;

/// A time as users write it: `90s`, `30m`, `2h`, `1d`.
///
/// # Errors
/// The rule, in words.
pub fn time(text: &str) -> Result<SignedDuration, String> {
    let rule = "must be a whole number with s, m, h or d, and more than none: 90s, 30m, 2h, 1d";
    let unit = match text.chars().last() {
        Some('s') => 1,
        Some('m') => 60,
        Some('h') => 3600,
        Some('d') => 86_400,
        _ => return Err(rule.to_owned()),
    };
    let many = text
        .get(..text.len() - 1)
        .and_then(|it| it.parse::<u32>().ok());
    match many {
        None | Some(0) => Err(rule.to_owned()),
        Some(many) => Ok(SignedDuration::from_secs(i64::from(many) * unit)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit() {
        for (text, seconds) in [("90s", 90), ("30m", 1800), ("2h", 7200), ("1d", 86_400)] {
            assert_eq!(time(text), Ok(SignedDuration::from_secs(seconds)));
        }
        for text in [
            "",
            "2",
            "h",
            "0h",
            "-1h",
            "1.5h",
            "2h30m",
            "2 h",
            "1\u{b5}",
            "99999999999d",
        ] {
            let error = time(text).expect_err(text);
            assert!(error.contains("30m"), "{error}");
        }
    }
}
