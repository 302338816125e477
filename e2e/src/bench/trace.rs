//! What the operator did: each of its requests to the API server and to the BMC between the policy's deadline and the
//! taint, and all its writes, with their offsets. Where its own time goes, and which write is one too many, is read off here.

use std::fmt;

use anyhow::Result;
use jiff::{SignedDuration, Timestamp};

use super::cut::ms;
use crate::audit::Request;
use crate::lab::Lab;
use fencing_testbed::bmc::Entry;

/// How long before the deadline the trace begins: what is late is sometimes late because something came right before it.
const BEFORE: SignedDuration = SignedDuration::from_millis(100);
/// How long after the taint it ends.
const AFTER: SignedDuration = SignedDuration::from_millis(100);

/// Requests in the order in which they arrived.
#[derive(Debug)]
pub(super) struct Trace {
    /// Between deadline and taint.
    requests: Vec<Line>,
    /// From the power loss until some time after the quarantine was lifted, Events too.
    writes: Vec<Line>,
}

/// The times that a trace is made from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    /// `Ready=Unknown` was stored.
    pub unknown: Timestamp,
    /// The policy's condition has held long enough.
    pub deadline: Timestamp,
    /// `out-of-service` was stored.
    pub tainted: Timestamp,
}

#[derive(Debug)]
struct Line {
    /// Milliseconds from the deadline.
    at_ms: f64,
    /// How long the answer took, if that is known.
    took_ms: Option<f64>,
    what: String,
}

impl Trace {
    /// Of the node whose machine lost power, and of all requests of the operator since.
    pub(super) fn of(lab: &Lab, node: &str, times: Times, all: &[Request]) -> Result<Self> {
        let Times {
            unknown,
            deadline,
            tainted,
        } = times;
        let wanted = |at: Timestamp| at >= deadline - BEFORE && at <= tainted + AFTER;
        let mut requests = vec![
            Line::mark(deadline, unknown, "Ready=Unknown is stored"),
            Line::mark(deadline, deadline, "the policy's deadline"),
            Line::mark(deadline, tainted, "out-of-service is stored"),
        ];
        let within = all.iter().filter(|request| wanted(request.received));
        requests.extend(within.map(|request| Line::request(deadline, request)));
        for entry in lab.rig_of(node)?.bmc.log() {
            if wanted(entry.at.wall) {
                requests.push(Line::of_bmc(deadline, &entry));
            }
        }
        let writes = all.iter().filter(|request| request.is_write());
        let mut writes: Vec<_> = writes.map(|write| Line::request(deadline, write)).collect();
        for lines in [&mut requests, &mut writes] {
            lines.sort_by(|one, other| one.at_ms.total_cmp(&other.at_ms));
        }
        Ok(Self { requests, writes })
    }
}

impl Line {
    fn request(deadline: Timestamp, request: &Request) -> Self {
        Self {
            at_ms: ms(deadline, request.received),
            took_ms: Some(ms(request.received, request.answered)),
            what: format!("api  {}", request.summary()),
        }
    }

    fn of_bmc(deadline: Timestamp, entry: &Entry) -> Self {
        let status = entry.status.map(|status| status.to_string());
        let status = status.as_deref().unwrap_or("no answer");
        Self {
            at_ms: ms(deadline, entry.at.wall),
            took_ms: None,
            what: format!(
                "bmc  {} {} -> {status}, connection {}",
                entry.method, entry.path, entry.connection
            ),
        }
    }

    fn mark(deadline: Timestamp, at: Timestamp, what: &str) -> Self {
        Self {
            at_ms: ms(deadline, at),
            took_ms: None,
            what: format!("---  {what}"),
        }
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            ("between deadline and taint", &self.requests),
            (
                "all writes until 2 s after the quarantine is lifted",
                &self.writes,
            ),
        ];
        for (title, lines) in parts {
            writeln!(f, "  ms from the deadline   took (ms): {title}")?;
            for line in lines {
                let took = line.took_ms.map(|took| format!("{took:.1}"));
                let took = took.unwrap_or_default();
                writeln!(f, "{:>12.1} {took:>8}  {}", line.at_ms, line.what)?;
            }
        }
        Ok(())
    }
}
