//! The records of a run: written down beside the audit log and the volumes, where the judge finds them.

use std::fs;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use anyhow::Result;
use jiff::SignedDuration;
use serde::Serialize;

use super::{Lab, objects};
use crate::judge::devices::Entry;
use crate::judge::run::{AUDIT, DEVICES, Extent, Happened, JOURNAL, RUN, Stall};
use crate::judge::{self, Judgement};
use fencing_testbed::exchange::Recorder;
use fencing_testbed::moment::Moment;

/// The logs of the devices of a lab, by the nodes of the machines behind them.
#[derive(Default)]
pub(super) struct Devices {
    logs: Mutex<Vec<(String, Option<Recorder>)>>,
}

impl Devices {
    /// The BMC of this node has this log, also when another is put in its place.
    pub(super) fn log(&self, node: &str, recorder: Recorder) {
        self.add(node, Some(recorder));
    }

    /// The BMC of this node now is one whose log the lab cannot read.
    pub(super) fn has_no_log(&self, node: &str) {
        self.add(node, None);
    }

    fn add(&self, node: &str, recorder: Option<Recorder>) {
        let mut logs = self.logs.lock().unwrap_or_else(PoisonError::into_inner);
        logs.push((node.to_owned(), recorder));
    }

    fn entries(&self) -> Vec<Entry> {
        let mut entries = Vec::new();
        let logs = self.logs.lock().unwrap_or_else(PoisonError::into_inner);
        for (node, recorder) in logs.iter() {
            let device = objects::device_of(node);
            let Some(recorder) = recorder else {
                entries.push(Entry::Unreadable { unreadable: device });
                continue;
            };
            entries.push(Entry::Whole {
                whole: device.clone(),
            });
            entries.extend(recorder().into_iter().map(|exchange| Entry::Of {
                device: device.clone(),
                node: node.clone(),
                exchange,
            }));
        }
        entries
    }
}

/// When the lab kept requests from arriving.
#[derive(Debug, Default, Clone)]
pub(super) struct Stalls(Arc<Mutex<Vec<Stall>>>);

/// The lab keeps requests from arriving until this is dropped.
#[derive(Debug)]
pub struct Stalling {
    stalls: Stalls,
    number: usize,
}

impl Stalls {
    fn begin(&self) -> Stalling {
        let mut stalls = self.all();
        // Not over yet.
        let until = Moment {
            monotonic_ns: u64::MAX,
            wall: jiff::Timestamp::MAX,
        };
        let from = Moment::now();
        stalls.push(Stall { from, until });
        let number = stalls.len() - 1;
        drop(stalls);
        Stalling {
            stalls: self.clone(),
            number,
        }
    }

    fn all(&self) -> MutexGuard<'_, Vec<Stall>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Stalling {
    fn drop(&mut self) {
        if let Some(stall) = self.stalls.all().get_mut(self.number) {
            stall.until = Moment::now();
        }
    }
}

impl Lab {
    /// Whoever keeps requests of the operator from arriving at the API server says so: the judge then does not take them for late.
    pub fn stalls_requests(&self) -> Stalling {
        self.stalls.begin()
    }

    /// Whoever sets the date of the operator that reads the devices says how far ahead it is meanwhile: the judge then finds the readings
    /// with the devices.
    pub fn notes_date_ahead(&self, seconds: i64) {
        self.ahead_seconds.store(seconds, Ordering::Relaxed);
    }

    /// See [`Lab::notes_date_ahead`].
    pub(super) fn date_ahead(&self) -> SignedDuration {
        SignedDuration::from_secs(self.ahead_seconds.load(Ordering::Relaxed))
    }

    /// Writes down what happened so far, and lets the judge read it.
    pub async fn judged(&self) -> Result<Judgement> {
        let begun = Instant::now();
        let directory = self.control_plane.files().directory();
        // What comes later is recorded in one place and not yet in another: it is not judged.
        let until = Moment::now();
        let audit = self.control_plane.audit();
        audit.settled().await?;
        let extent = Extent {
            audit_begin: audit.begin(),
            audit_end: audit.end_of_lines()?,
            until,
            stalls: self.stalls.all().clone(),
            ahead_seconds: self.date_ahead().as_secs(),
        };
        let journal = self.volumes.journal();
        journal.read_array(&self.control_plane.array()).await?;
        let happened = |(at, happening)| Happened { at, happening };
        let happened: Vec<_> = journal.entries().into_iter().map(happened).collect();
        fs::write(directory.join(DEVICES), lines(&self.devices.entries())?)?;
        fs::write(directory.join(JOURNAL), lines(&happened)?)?;
        fs::write(directory.join(RUN), serde_json::to_string(&extent)?)?;
        debug_assert!(directory.join(AUDIT).exists());
        let recorded = begun.elapsed();
        let judgement = judge::judge(directory)?;
        let (recorded, all) = (recorded.as_millis(), begun.elapsed().as_millis());
        let (took, counts) = (all - recorded, judgement.counts);
        let mut report = format!("{took} ms, after {recorded} ms to record: {counts}\n");
        for violation in &judgement.violations {
            report += &format!("{violation}\n");
        }
        fs::write(directory.join("judged.log"), report)?;
        Ok(judgement)
    }
}

fn lines<T: Serialize>(records: &[T]) -> Result<String> {
    let mut text = String::new();
    for record in records {
        text += &serde_json::to_string(record)?;
        text.push('\n');
    }
    Ok(text)
}
