//! What the machines themselves show: when they had power, whoever turned them on or off.

use jiff::Timestamp;

use super::run::{Happened, JOURNAL, Line, Run};
use crate::volume::journal::Happening;

/// The record of when this node's machine got power, if it had it from before the one time until after the other.
pub(super) fn all_the_while<'a>(
    run: &'a Run,
    node: &str,
    from: Timestamp,
    to: Timestamp,
) -> Option<&'a Line<Happened>> {
    let mut since = None;
    for line in &run.journal {
        let (at, happening) = (line.what.at.wall, &line.what.happening);
        if happening.node() != node || at > to {
            continue;
        }
        match happening {
            Happening::PowerOn { .. } | Happening::Resumed { .. } => since = Some(line),
            Happening::PowerOff { .. } | Happening::Suspended { .. } if at >= from => return None,
            Happening::PowerOff { .. } | Happening::Suspended { .. } => since = None,
            Happening::Attached { .. } | Happening::Detached { .. } => {}
        }
    }
    since.filter(|line| line.what.at.wall < from)
}

/// Such a record as it is told in a report.
pub(super) fn told(line: &Line<Happened>) -> String {
    let (number, at) = (line.number, line.what.at.wall);
    let node = line.what.happening.node();
    format!("{JOURNAL}:{number} the machine of {node} has had power since {at:.6}")
}
