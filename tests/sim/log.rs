//! What happened, line by line: the whole of it is what a replay is compared by, the story in it is what people read.

use crate::libc::elapsed;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How much a line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// One of many requests.
    Detail,
    /// Part of the story.
    Story,
}

struct Line {
    at: Duration,
    who: String,
    what: String,
    weight: Weight,
}

/// Cheap to clone; all clones are one.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<Line>>>);

impl Log {
    /// Part of the story.
    pub fn tell(&self, who: &str, what: impl Into<String>) {
        self.push(Weight::Story, who, what.into());
    }

    /// A detail.
    pub fn note(&self, who: &str, what: impl Into<String>) {
        self.push(Weight::Detail, who, what.into());
    }

    fn push(&self, weight: Weight, who: &str, what: String) {
        let line = Line {
            at: elapsed(),
            who: who.to_owned(),
            what,
            weight,
        };
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(line);
    }

    /// All lines of this weight and more.
    pub fn text(&self, least: Weight) -> String {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::new();
        for line in lines.iter().filter(|line| line.weight >= least) {
            let seconds = line.at.as_secs_f64();
            let _ = writeln!(text, "{seconds:>9.3} s  {:<14} {}", line.who, line.what);
        }
        text
    }
}
