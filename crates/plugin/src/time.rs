//! How long something is to take, as a user writes it in a flag. How a time is shown is in [`table`](super::table).

use jiff::SignedDuration;

/// A time as users write it: `90s`, `1m30s`, `2h`, `1d`.
///
/// # Errors
/// The rule, in words.
pub fn time(text: &str) -> Result<SignedDuration, String> {
    match sum(text) {
        Some(seconds @ 1..) => Ok(SignedDuration::from_secs(seconds)),
        None | Some(_) => Err(
            "must be whole numbers with s, m, h or d, and more than none: 90s, 1m30s, 2h, 1d"
                .to_owned(),
        ),
    }
}

/// How long a request may take, as kubectl takes it: without a unit in seconds, and 0 for any time.
///
/// # Errors
/// The rule, in words.
pub fn limit(text: &str) -> Result<SignedDuration, String> {
    let seconds = text.parse::<u32>().ok().map(i64::from);
    let seconds = seconds.or_else(|| sum(text));
    seconds.map(SignedDuration::from_secs).ok_or_else(|| {
        "must be whole numbers with s, m or h, as 30s or 1m30s, or 0 for no limit".to_owned()
    })
}

/// Numbers, each with its unit, in seconds.
fn sum(text: &str) -> Option<i64> {
    let parts = text.split_inclusive(|it: char| it.is_ascii_alphabetic());
    let seconds = parts.map(|part| {
        let unit = part.chars().last()?;
        let many: u32 = part.strip_suffix(unit)?.parse().ok()?;
        let unit = match unit {
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => 86_400,
            _ => return None,
        };
        Some(i64::from(many) * unit)
    });
    seconds.sum::<Option<i64>>().filter(|_| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit() {
        for (text, seconds) in [
            ("90s", 90),
            ("30m", 1800),
            ("2h", 7200),
            ("1d", 86_400),
            ("1m30s", 90),
            ("2h30m", 9000),
        ] {
            assert_eq!(time(text), Ok(SignedDuration::from_secs(seconds)));
        }
        for text in [
            "",
            "2",
            "h",
            "0h",
            "-1h",
            "1.5h",
            "2h30",
            "0h0s",
            "2 h",
            "1\u{b5}",
            "99999999999d",
        ] {
            let error = time(text).expect_err(text);
            assert!(error.contains("1m30s"), "{error}");
        }
    }

    /// As kubectl has `--request-timeout`.
    #[test]
    fn a_limit_has_a_unit_or_is_seconds_and_none_is_0() {
        for (text, seconds) in [("0", 0), ("0s", 0), ("30", 30), ("1m30s", 90)] {
            assert_eq!(limit(text), Ok(SignedDuration::from_secs(seconds)));
        }
        for text in ["", "-1", "1.5", "soon", "s"] {
            let error = limit(text).expect_err(text);
            assert!(error.contains("0 for no limit"), "{error}");
        }
    }
}
