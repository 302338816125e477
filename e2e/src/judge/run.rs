//! The files that a run leaves behind, as the judge reads them: nothing else tells it anything.
//!
//! ```text
//! audit.log                   what was written to the API server, by whom, with objects (the API server's own log)
//! devices.jsonl               what fence devices were asked and commanded, and what they told
//! journal.jsonl               when the storage gave which volume to whom, and when machines got and lost power
//! volumes/HANDLE/writes.log   every line that a container wrote
//! run.json                    which part of the audit log is this run's, and until when everything was recorded
//! ```

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use jiff::{SignedDuration, Timestamp};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::devices::Entry;
use crate::audit::Request;
use crate::volume::journal::Happening;
use crate::volume::{WRITES, Write};
use fencing_testbed::moment::Moment;

pub(crate) const RUN: &str = "run.json";
pub(crate) const AUDIT: &str = "audit.log";
pub(crate) const DEVICES: &str = "devices.jsonl";
pub(crate) const JOURNAL: &str = "journal.jsonl";
pub(crate) const VOLUMES: &str = "volumes";

/// A time in which the lab itself kept requests from arriving: how late they arrived says nothing about whoever sent them.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Stall {
    /// When it began.
    pub from: Moment,
    /// When it was over.
    pub until: Moment,
}

/// Which part of the records is to be judged.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Extent {
    /// Where this run begins in the audit log, in bytes.
    pub audit_begin: u64,
    /// Where it ends there.
    pub audit_end: u64,
    /// Commands and lines of volumes from later on are not judged: what must have come before them may not be recorded.
    pub until: Moment,
    /// When the lab kept requests from arriving.
    #[serde(default)]
    pub stalls: Vec<Stall>,
    /// How far the lab had set the date of the operator ahead when it read devices.
    #[serde(default)]
    pub ahead_seconds: i64,
}

/// An entry of the journal.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Happened {
    /// When.
    pub at: Moment,
    /// What.
    #[serde(flatten)]
    pub happening: Happening,
}

/// The records of a run, as text.
#[derive(Debug, Clone)]
pub struct Texts {
    /// Until when everything was recorded.
    pub until: Moment,
    /// When the lab kept requests from arriving.
    pub stalls: Vec<Stall>,
    /// How far the lab had set the date of the operator ahead when it read devices.
    pub ahead_seconds: i64,
    /// Lines of the audit log before the first of `audit`.
    pub audit_skipped: usize,
    /// `audit.log`, the part that is this run's.
    pub audit: String,
    /// `devices.jsonl`
    pub devices: String,
    /// `journal.jsonl`
    pub journal: String,
    /// The lines of each volume, by its handle.
    pub volumes: BTreeMap<String, String>,
}

/// A record, and where it stands in its file, from 1.
#[derive(Debug, Clone)]
pub struct Line<T> {
    /// The number of the line.
    pub number: usize,
    /// What stands there.
    pub what: T,
}

/// The records of a run, read.
#[derive(Debug)]
pub struct Run {
    /// Until when everything was recorded.
    pub until: Timestamp,
    /// When the lab kept requests from arriving.
    pub stalls: Vec<Stall>,
    /// How far the lab had set the date of the operator ahead when it read devices.
    pub ahead: SignedDuration,
    /// Writes that the API server did, in the order in which it got them.
    pub writes: Vec<Line<Request>>,
    /// Exchanges with devices.
    pub devices: Vec<Line<Entry>>,
    /// Storage and power, oldest first.
    pub journal: Vec<Line<Happened>>,
    /// The lines of each volume, by its handle.
    pub volumes: BTreeMap<String, Vec<Line<Write>>>,
}

impl Texts {
    /// Reads the files of the run in this directory.
    pub fn read(directory: &Path) -> Result<Self> {
        let text = |name: &str| {
            let path = directory.join(name);
            std::fs::read(&path).with_context(|| format!("failed to read {}", path.display()))
        };
        is_recorded(directory)?;
        let extent: Extent = serde_json::from_slice(&text(RUN)?).context(RUN)?;
        let (begin, end) = (
            usize::try_from(extent.audit_begin)?,
            usize::try_from(extent.audit_end)?,
        );
        let audit = text(AUDIT)?;
        let skipped = audit.get(..begin).context("the audit log is shorter")?;
        let ours = audit.get(begin..end).context("the audit log is shorter")?;
        let mut volumes = BTreeMap::new();
        for entry in std::fs::read_dir(directory.join(VOLUMES))
            .into_iter()
            .flatten()
        {
            let (handle, file) = (entry?.file_name(), WRITES);
            let path = directory.join(VOLUMES).join(&handle).join(file);
            if path.exists() {
                let handle = handle.to_string_lossy().into_owned();
                volumes.insert(handle, std::fs::read_to_string(path)?);
            }
        }
        Ok(Self {
            until: extent.until,
            stalls: extent.stalls,
            ahead_seconds: extent.ahead_seconds,
            audit_skipped: skipped.iter().filter(|byte| **byte == b'\n').count(),
            audit: String::from_utf8_lossy(ours).into_owned(),
            devices: String::from_utf8(text(DEVICES)?)?,
            journal: String::from_utf8(text(JOURNAL)?)?,
            volumes,
        })
    }

    /// Reads what stands in them.
    pub fn parse(&self) -> Result<Run> {
        let mut writes = Vec::new();
        for (index, line) in self.audit.lines().enumerate() {
            if !may_be_a_write(line) {
                continue;
            }
            let number = self.audit_skipped + index + 1;
            let request: Request =
                serde_json::from_str(line).with_context(|| format!("{AUDIT}:{number}"))?;
            if request.is_complete() && request.is_write() && request.succeeded() {
                writes.push(Line {
                    number,
                    what: request,
                });
            }
        }
        // A request may end, and be logged, after one that came later and builds upon it.
        writes.sort_by_key(|write| write.what.received);
        let mut journal: Vec<Line<Happened>> = lines(&self.journal, JOURNAL)?;
        journal.sort_by_key(|line| line.what.at);
        let mut volumes = BTreeMap::new();
        for (handle, text) in &self.volumes {
            volumes.insert(handle.clone(), volume(handle, text, self.until)?);
        }
        Ok(Run {
            until: self.until.wall,
            stalls: self.stalls.clone(),
            ahead: SignedDuration::from_secs(self.ahead_seconds),
            writes,
            devices: lines(&self.devices, DEVICES)?,
            journal,
            volumes,
        })
    }
}

/// Whoever names something else than the directory of a test that came to its end hears what to name.
fn is_recorded(directory: &Path) -> Result<()> {
    let named = directory.display();
    ensure!(
        directory.is_dir(),
        "there is no directory {named}: name one of those that `ls -t target/lab/run` lists, the newest first"
    );
    ensure!(
        directory.join(RUN).exists(),
        "{named} has no {RUN}, which says what part of the audit log is this run's. It is written when the lab gives its verdict at the end of \
         a test: this one still runs, or failed before, or it is no test but `make lab`, which gives none. Name another run, or run the test again"
    );
    Ok(())
}

/// Most of the log is reads: they are not worth the parsing.
fn may_be_a_write(line: &str) -> bool {
    let is = |word: &str| line.contains(word);
    !is(r#""verb":"get""#) && !is(r#""verb":"list""#) && !is(r#""verb":"watch""#)
}

fn lines<T: DeserializeOwned>(text: &str, file: &str) -> Result<Vec<Line<T>>> {
    let line = |(index, line): (usize, &str)| {
        let number = index + 1;
        let what = serde_json::from_str(line).with_context(|| format!("{file}:{number}"))?;
        Ok(Line { number, what })
    };
    text.lines().enumerate().map(line).collect()
}

/// The lines of a volume in the order of the kernel's clock. What power loss cut short is left out, as is what came after the end.
fn volume(handle: &str, text: &str, until: Moment) -> Result<Vec<Line<Write>>> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let line = |(index, line): (usize, &str)| -> Result<Line<Write>> {
        let number = index + 1;
        let what = line
            .parse()
            .with_context(|| format!("{VOLUMES}/{handle}/{WRITES}:{number}"))?;
        Ok(Line { number, what })
    };
    let lines = whole.lines().enumerate().map(line);
    let mut lines = lines.collect::<Result<Vec<_>>>()?;
    lines.retain(|line| line.what.at <= until);
    lines.sort_by_key(|line| line.what.at);
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_record_of_a_run_is_said_with_the_way_out() {
        let directory = tempfile::tempdir().expect("a directory");
        let said = |path: &Path| format!("{:#}", Texts::read(path).expect_err("no run"));
        let gone = directory.path().join("gone");
        let words = said(&gone);
        assert!(
            words.starts_with(&format!("there is no directory {}: ", gone.display())),
            "{words}"
        );
        assert!(words.contains("`ls -t target/lab/run`"), "{words}");
        let words = said(directory.path());
        assert!(words.contains(" has no run.json, "), "{words}");
        assert!(
            words.ends_with("Name another run, or run the test again"),
            "{words}"
        );
    }
}
