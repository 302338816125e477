//! The log: one line an event on standard error, for humans or as JSON.
//!
//! A bad filter must never keep an operator from running, so it is replaced by the default and reported. A panic becomes a
//! line of the log like everything else; its message is never built from what a device or a Secret said.

use fencing_cluster::text;
use std::io::{IsTerminal, stderr};
use tracing::Subscriber;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;

/// What is logged unless `--log-filter` says otherwise.
pub const DEFAULT_FILTER: &str = "info";

/// Added to every filter. kube's client reports each failed request as an error without saying what it was for, and the whole body
/// of an answer that it cannot decode, which may be a Secret (S16). The same failure comes back to the caller, which logs it
/// with its context or deals with it.
const QUIET: &str = "kube_client::client=off";

/// How the log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For a human at a terminal.
    Text,
    /// One JSON object a line.
    Json,
}

impl LogFormat {
    /// Text if standard error is a terminal, else JSON.
    #[must_use]
    pub fn for_this_terminal() -> Self {
        if stderr().is_terminal() {
            Self::Text
        } else {
            Self::Json
        }
    }
}

/// Why there is no log.
#[derive(Debug, thiserror::Error)]
#[error("failed to start the log: {0}")]
pub struct Error(#[from] tracing::subscriber::SetGlobalDefaultError);

/// Starts the log of this process. To be called once.
///
/// # Errors
/// [`Error`] if there is a log already.
pub fn start(format: LogFormat, filter: &str) -> Result<(), Error> {
    let (filter, complaint) = filter_or_default(filter);
    match format {
        LogFormat::Text => tracing::subscriber::set_global_default(text(filter, stderr))?,
        LogFormat::Json => tracing::subscriber::set_global_default(json(filter, stderr))?,
    }
    log_panics();
    if let Some(complaint) = complaint {
        tracing::warn!("{complaint}");
    }
    Ok(())
}

/// Says why the process ends: in the log, or bare if the filter lets no error through.
pub fn last_words(error: &dyn std::error::Error) {
    let words = text::chain(error);
    if tracing::enabled!(tracing::Level::ERROR) {
        tracing::error!("{words}");
    } else {
        eprintln!("error: {words}");
    }
}

/// The filter, or the default one and what is wrong with the one given.
fn filter_or_default(given: &str) -> (EnvFilter, Option<String>) {
    // What the text says of every module comes after the default, and takes its place.
    let parse = |text: &str| EnvFilter::builder().parse(format!("{DEFAULT_FILTER},{QUIET},{text}"));
    let refused = |why: &str| {
        (
            parse(DEFAULT_FILTER).unwrap_or_default(),
            Some(bad(given, why)),
        )
    };
    if let Some(word) = given
        .split(',')
        .map(str::trim)
        .find(|it| is_a_bare_word(it))
    {
        return refused(&format!(
            "`{word}` is no level: off, error, warn, info, debug or trace"
        ));
    }
    match parse(given) {
        Ok(filter) if !given.trim().is_empty() => (filter, None),
        Ok(_) => refused("it is empty"),
        Err(error) => refused(&error.to_string()),
    }
}

/// The filter would take it for the name of a module whose events are all wanted, and somebody has mistyped a level.
fn is_a_bare_word(directive: &str) -> bool {
    let is_word = directive
        .chars()
        .all(|it| it.is_alphanumeric() || it == '_');
    is_word && !directive.is_empty() && directive.parse::<LevelFilter>().is_err()
}

fn bad(given: &str, why: &str) -> String {
    format!(
        "--log-filter: `{}` must be a level or a list such as info,kube=debug ({why}); {DEFAULT_FILTER} is used",
        given.escape_debug()
    )
}

fn text<W>(filter: EnvFilter, writer: W) -> impl Subscriber + Send + Sync
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let color = stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer)
        .with_ansi(color)
        .finish()
}

/// The fields of an event at the top level; those of its spans, such as the name of the NodeFence, under `span`.
fn json<W>(filter: EnvFilter, writer: W) -> impl Subscriber + Send + Sync
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_current_span(true)
        .with_span_list(false)
        .with_env_filter(filter)
        .with_writer(writer)
        .finish()
}

fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let message = panic.payload_as_str().unwrap_or("no message");
        let location = panic.location().map(ToString::to_string);
        let thread = std::thread::current();
        tracing::error!(
            location = location.as_deref().unwrap_or("unknown"),
            thread = thread.name().unwrap_or("unnamed"),
            "a task of this program panicked, which is a bug: {message}"
        );
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("lock").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl Memory {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().expect("lock").clone()).expect("UTF-8")
        }
    }

    fn speak() {
        let incident = tracing::info_span!("incident", fence = "worker-1-x7");
        incident.in_scope(|| tracing::info!(stage = "Claiming", "line one\nline two"));
        tracing::debug!("not shown");
        tracing::error!(target: "kube_client::client::builder", "not shown either");
    }

    #[test]
    fn json_is_one_object_a_line_with_the_name_of_the_incident() {
        let memory = Memory::default();
        let writer = memory.clone();
        let (filter, complaint) = filter_or_default("info");
        assert_eq!(complaint, None);
        tracing::subscriber::with_default(json(filter, move || writer.clone()), speak);
        let text = memory.text();
        assert_eq!(text.lines().count(), 1, "{text}");
        let line: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(line["level"], "INFO");
        assert_eq!(line["message"], "line one\nline two");
        assert_eq!(line["stage"], "Claiming");
        assert_eq!(line["span"]["fence"], "worker-1-x7");
        assert!(
            line["timestamp"]
                .as_str()
                .is_some_and(|at| at.ends_with('Z'))
        );
    }

    #[test]
    fn text_names_the_incident_too() {
        let memory = Memory::default();
        let writer = memory.clone();
        let (filter, _) = filter_or_default("info");
        tracing::subscriber::with_default(text(filter, move || writer.clone()), speak);
        let text = memory.text();
        assert!(
            text.contains("worker-1-x7") && text.contains("Claiming"),
            "{text}"
        );
        assert!(!text.contains("not shown"), "{text}");
    }

    #[test]
    fn a_bad_filter_is_replaced_and_reported() {
        const LEVEL: &str = "error parsing level filter: expected one of \"off\", \"error\", \"warn\", \"info\", \"debug\", \"trace\", or a number 0-5";
        const NO_LEVEL: &str = "`warning` is no level: off, error, warn, info, debug or trace";
        for (bad, why) in [
            ("info,kube=loud", LEVEL),
            ("", "it is empty"),
            ("warning", NO_LEVEL),
            ("warning,kube=debug", NO_LEVEL),
            ("=,=", "invalid filter directive"),
            ("a=b=c", LEVEL),
        ] {
            let (filter, complaint) = filter_or_default(bad);
            let words = format!(
                "--log-filter: `{bad}` must be a level or a list such as info,kube=debug ({why}); info is used"
            );
            assert_eq!(complaint, Some(words));
            assert!(filter.to_string().contains("info"), "{filter}");
        }
        for good in [
            "off",
            "debug",
            "info,kube=debug",
            "node_fencing_operator::core=trace",
        ] {
            assert_eq!(filter_or_default(good).1, None, "{good}");
        }
    }
}
