//! What a BMC was asked, in order and with times: the oracle for what the operator really sent.

use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use jiff::Timestamp;
use tokio::sync::watch;

/// Whether a request carried credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Auth {
    /// No `Authorization` header.
    None,
    /// The right user and password.
    Right,
    /// Anything else.
    Wrong,
}

/// One request.
#[derive(Debug, Clone)]
pub struct Entry {
    /// When it arrived.
    pub at: Instant,
    /// The same by the wall clock, for time lines.
    pub time: Timestamp,
    /// Its method.
    pub method: String,
    /// Its path with the query.
    pub path: String,
    /// Did it carry credentials?
    pub auth: Auth,
    /// Number of its connection.
    pub connection: u64,
    /// `ResetType`, if it was a reset.
    pub reset_type: Option<String>,
    /// `OData-Version`, `Accept` and `If-Match` as sent.
    pub headers: SentHeaders,
    /// The status it was answered with; `None` if it was not answered (yet).
    pub status: Option<u16>,
    /// Was it a reset that the BMC accepted? (Whether it then took effect is the machine's to say.)
    pub accepted: bool,
}

/// The headers that decide how picky BMCs answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SentHeaders {
    /// `OData-Version`
    pub odata_version: Option<String>,
    /// `Accept`
    pub accept: Option<String>,
    /// `If-Match`
    pub if_match: Option<String>,
}

/// A reset that was received, accepted or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PowerCommand {
    /// When it arrived.
    pub at: Instant,
    /// The same by the wall clock.
    pub time: Timestamp,
    /// `ForceOff`, `On`, ...
    pub reset_type: String,
    /// The path it was sent to, which names the system.
    pub path: String,
    /// Was it accepted?
    pub accepted: bool,
    /// What it was answered with; `None` if it was not answered (yet).
    pub status: Option<u16>,
}

/// The requests of one BMC.
#[derive(Debug)]
pub(super) struct Log {
    entries: Mutex<Vec<Entry>>,
    changed: watch::Sender<u64>,
}

impl Log {
    pub(super) fn new() -> Self {
        Self {
            entries: Mutex::default(),
            changed: watch::channel(0).0,
        }
    }

    /// Adds a request; its index names it from then on.
    pub(super) fn push(&self, entry: Entry) -> usize {
        let mut entries = self
            .entries
            .lock()
            .expect("no panic while the log is changed");
        entries.push(entry);
        let index = entries.len() - 1;
        drop(entries);
        self.changed.send_modify(|count| *count += 1);
        index
    }

    pub(super) fn amend(&self, index: usize, change: impl FnOnce(&mut Entry)) {
        change(
            &mut self
                .entries
                .lock()
                .expect("no panic while the log is changed")[index],
        );
        self.changed.send_modify(|count| *count += 1);
    }

    pub(super) fn entries(&self) -> Vec<Entry> {
        self.entries
            .lock()
            .expect("no panic while the log is changed")
            .clone()
    }

    pub(super) fn power_commands(&self) -> Vec<PowerCommand> {
        let command = |entry: Entry| {
            entry.reset_type.map(|reset_type| PowerCommand {
                at: entry.at,
                time: entry.time,
                reset_type,
                path: entry.path,
                accepted: entry.accepted,
                status: entry.status,
            })
        };
        self.entries().into_iter().filter_map(command).collect()
    }

    /// Waits for an entry, past or future, that fulfils the condition.
    pub(super) async fn wait_for(
        &self,
        within: Duration,
        mut is_it: impl FnMut(&Entry) -> bool,
    ) -> Result<Entry> {
        let mut changed = self.changed.subscribe();
        let search = async {
            loop {
                changed.borrow_and_update();
                if let Some(entry) = self.entries().into_iter().find(&mut is_it) {
                    return entry;
                }
                if changed.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        match tokio::time::timeout(within, search).await {
            Ok(entry) => Ok(entry),
            Err(_) => bail!(
                "the BMC received no such request in {within:?}; it received {:#?}",
                self.entries()
            ),
        }
    }
}
