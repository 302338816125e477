//! `-o`: tables for people, versioned JSON and YAML for programs, names for `xargs`.
//!
//! What programs read has a version of its own ([`VERSION`]): within it fields are added, and none changes its meaning or goes.

use super::Error;
use super::page::html::is_unseen;
use clap::ValueEnum;
use serde::Serialize;
use std::borrow::Cow;
use std::io::{self, Write as _};

/// Version of everything that is printed for programs.
pub const VERSION: &str = "cli.nodefencing.io/v1";

/// In which form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// A table that fits 80 columns
    Table,
    /// With further columns
    Wide,
    /// JSON of `cli.nodefencing.io/v1`
    Json,
    /// The same as YAML
    Yaml,
    /// `TYPE/name`, one a line
    Name,
}

/// What a program reads.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Envelope<'a, T> {
    /// [`VERSION`].
    pub api_version: &'static str,
    /// What it is.
    pub kind: &'a str,
    /// The rest.
    #[serde(flatten)]
    pub content: &'a T,
}

/// The content as JSON or YAML.
///
/// # Errors
/// It cannot be written as such, which is a fault of the program.
pub fn serialized<T: Serialize>(form: Form, kind: &str, content: &T) -> Result<String, Error> {
    let envelope = Envelope {
        api_version: VERSION,
        kind,
        content,
    };
    let failed = |words: String| Error::No(format!("{kind} cannot be written: {words}"));
    match form {
        Form::Yaml => {
            let value = serde_json::to_value(&envelope).map_err(|it| failed(it.to_string()))?;
            serde_saphyr::to_string(&value).map_err(|it| failed(it.to_string()))
        }
        _ => {
            let text = serde_json::to_string_pretty(&envelope);
            text.map(|it| it + "\n")
                .map_err(|it| failed(it.to_string()))
        }
    }
}

/// Writes to standard output, what has no shape of its own by its number.
///
/// # Errors
/// [`Error::Io`].
pub fn print(text: &str) -> Result<(), Error> {
    print_raw(&visible(text))
}

/// The same of what is ours to the last sign.
///
/// # Errors
/// [`Error::Io`].
pub fn print_raw(text: &str) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// What others have written (an Event, a reason) moves no cursor and turns no text around: what has no shape of its own is shown by its number.
pub fn visible(text: &str) -> Cow<'_, str> {
    let is_hidden = |sign: char| is_unseen(sign) && !matches!(sign, '\n' | '\t');
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let signs = text.chars().map(|sign| match is_hidden(sign) {
        true => format!("[U+{:04X}]", u32::from(sign)),
        false => sign.to_string(),
    });
    Cow::Owned(signs.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_have_written_moves_no_cursor() {
        assert_eq!(visible("a\tb\n\u{e9}"), "a\tb\n\u{e9}");
        assert_eq!(visible("\x1b[2Jgone\u{202e}"), "[U+001B][2Jgone[U+202E]");
    }
}
