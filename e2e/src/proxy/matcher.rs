//! Which requests a rule is about.

use std::{fmt, sync::Arc};

use http::Method;
use serde_json::Value;

/// A request as a matcher sees it.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Its method.
    pub method: Method,
    /// Its path without the query.
    pub path: String,
    /// Its query, empty if there is none.
    pub query: String,
    /// Its `Content-Type`, empty if there is none.
    pub content_type: String,
    /// Its body, `Null` if that is not JSON.
    pub body: Value,
}

impl Seen {
    /// Does the query hold this parameter, as it is written (percent-encoded)?
    pub fn has_parameter(&self, parameter: &str) -> bool {
        self.query.split('&').any(|other| other == parameter)
    }

    /// The segments of the path.
    pub fn segments(&self) -> Vec<&str> {
        self.path.split('/').skip(1).collect()
    }
}

type Condition = dyn Fn(&Seen) -> bool + Send + Sync;

/// Conditions that a request must all fulfil, and which of the requests that do.
#[derive(Clone)]
pub struct Matcher {
    name: String,
    conditions: Vec<Arc<Condition>>,
    pub(super) skip: u32,
    pub(super) times: Option<u32>,
}

impl Matcher {
    /// Each request. The name is for messages.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            conditions: Vec::new(),
            skip: 0,
            times: None,
        }
    }

    /// Only with this method.
    pub fn method(self, method: Method) -> Self {
        self.when(move |seen| seen.method == method)
    }

    /// Only with this path.
    pub fn path(self, path: impl Into<String>) -> Self {
        let path = path.into();
        self.when(move |seen| seen.path == path)
    }

    /// Only if this holds as well.
    pub fn when(mut self, condition: impl Fn(&Seen) -> bool + Send + Sync + 'static) -> Self {
        self.conditions.push(Arc::new(condition));
        self
    }

    /// Only of this Node, pod, NodeFence, ...: the path has a segment that is this name.
    pub fn of(self, name: impl Into<String>) -> Self {
        let name = name.into();
        self.when(move |seen| seen.segments().iter().any(|segment| *segment == name))
    }

    /// Only the nth that matches, counted from 1.
    pub fn nth(mut self, nth: u32) -> Self {
        self.skip = nth.saturating_sub(1);
        self.times = Some(1);
        self
    }

    /// Only the next so many.
    pub fn times(mut self, times: u32) -> Self {
        self.times = Some(times);
        self
    }

    /// Only the next.
    pub fn once(self) -> Self {
        self.times(1)
    }

    /// Does a request fulfil the conditions (whichever it is in number)?
    pub fn matches(&self, seen: &Seen) -> bool {
        self.conditions.iter().all(|condition| condition(seen))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Debug for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} (skip {}, times {:?})",
            self.name, self.skip, self.times
        )
    }
}
