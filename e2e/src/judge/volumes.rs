//! What the volumes saw (S1), whoever was to blame: two writers, or a writer whose volume the storage had given away.

use std::collections::BTreeMap;

use super::Judgement;
use super::rules::{ATTACHED, ONE_WRITER};
use super::run::{Happened, JOURNAL, Line, Run, VOLUMES};
use crate::volume::journal::Happening;
use crate::volume::{WRITES, Write};

pub(super) fn check(run: &Run, judgement: &mut Judgement) {
    for (handle, lines) in &run.volumes {
        one_writer(handle, lines, judgement);
        attached(handle, lines, run, judgement);
    }
}

/// A line as it is told in a report.
pub(super) fn told(handle: &str, line: &Line<Write>) -> String {
    let Line { number, what } = line;
    let (node, boot, pod) = (&what.node, &what.boot, &what.pod);
    format!(
        "{VOLUMES}/{handle}/{WRITES}:{number} {node} boot {boot} pod {pod} at {:.6}",
        what.at.wall
    )
}

/// In one pass: the latest container to begin is the only one that may go on, unless both are on one node.
fn one_writer(handle: &str, lines: &[Line<Write>], judgement: &mut Judgement) {
    let mut begun: BTreeMap<(&str, &str, &str), usize> = BTreeMap::new();
    let mut first: Vec<&Line<Write>> = Vec::new();
    let mut reported: Vec<usize> = Vec::new();
    for line in lines {
        let write = &line.what;
        let container = (&*write.node, &*write.boot, &*write.pod);
        let index = *begun.entry(container).or_insert_with(|| {
            first.push(line);
            first.len() - 1
        });
        let later = first[index + 1..]
            .iter()
            .find(|other| other.what.node != write.node);
        if let Some(other) = later
            && !reported.contains(&index)
        {
            reported.push(index);
            let (one, other) = (told(handle, line), told(handle, other));
            let volume = format!("volume {handle}");
            judgement.broken(&ONE_WRITER, volume, write.at.wall, one, other);
        }
    }
}

fn attached(handle: &str, lines: &[Line<Write>], run: &Run, judgement: &mut Judgement) {
    let attach = |line: &&Line<Happened>| matches!(&line.what.happening, Happening::Attached { volume, .. } if volume == handle);
    let mut attaches = run.journal.iter().filter(attach).peekable();
    let mut holder: Option<&Line<Happened>> = None;
    let mut reported = None;
    for line in lines {
        while let Some(next) = attaches.next_if(|next| next.what.at < line.what.at) {
            holder = Some(next);
        }
        let Some(holder) = holder.filter(|it| it.what.happening.node() != line.what.node) else {
            continue;
        };
        if reported != Some(holder.number) {
            reported = Some(holder.number);
            let (number, at) = (holder.number, holder.what.at.wall);
            let given = format!(
                "{JOURNAL}:{number} given to {} at {at:.6}",
                holder.what.happening.node()
            );
            let (volume, at) = (format!("volume {handle}"), line.what.at.wall);
            judgement.broken(&ATTACHED, volume, at, told(handle, line), given);
        }
    }
}
