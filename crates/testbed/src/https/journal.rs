//! What a server was asked, in order; a test can wait for something to be asked.

use std::{fmt, sync::Mutex, time::Duration};

use anyhow::{Result, bail};
use tokio::sync::watch;

/// Entries that are only ever added or completed.
#[derive(Debug)]
pub struct Journal<T> {
    entries: Mutex<Vec<T>>,
    changed: watch::Sender<()>,
}

impl<T: Clone + fmt::Debug> Default for Journal<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Clone + fmt::Debug> Journal<T> {
    /// None yet.
    pub fn new() -> Self {
        Self {
            entries: Mutex::default(),
            changed: watch::channel(()).0,
        }
    }

    /// Adds an entry; the index that is returned names it from then on.
    pub fn push(&self, entry: T) -> usize {
        let mut entries = self
            .entries
            .lock()
            .expect("no panic while a journal is changed");
        entries.push(entry);
        let index = entries.len() - 1;
        drop(entries);
        self.changed.send_replace(());
        index
    }

    /// Completes an entry.
    pub fn amend(&self, index: usize, change: impl FnOnce(&mut T)) {
        change(
            &mut self
                .entries
                .lock()
                .expect("no panic while a journal is changed")[index],
        );
        self.changed.send_replace(());
    }

    /// One entry, as it is now.
    pub fn entry(&self, index: usize) -> T {
        self.entries
            .lock()
            .expect("no panic while a journal is changed")[index]
            .clone()
    }

    /// All entries.
    pub fn entries(&self) -> Vec<T> {
        self.entries
            .lock()
            .expect("no panic while a journal is changed")
            .clone()
    }

    /// Waits for an entry, past or future, that fulfils the condition.
    pub async fn wait_for(&self, within: Duration, mut is_it: impl FnMut(&T) -> bool) -> Result<T> {
        let mut changed = self.changed.subscribe();
        let mut find = || {
            let entries = self
                .entries
                .lock()
                .expect("no panic while a journal is changed");
            entries.iter().find(|entry| is_it(entry)).cloned()
        };
        let search = async {
            loop {
                changed.borrow_and_update();
                if let Some(entry) = find() {
                    return entry;
                }
                // The sender lives as long as `self`.
                let _ = changed.changed().await;
            }
        };
        match tokio::time::timeout(within, search).await {
            Ok(entry) => Ok(entry),
            Err(_) => {
                let entries = self.entries();
                let last = &entries[entries.len().saturating_sub(20)..];
                bail!(
                    "no such request came in {within:?}; the last of {}: {last:#?}",
                    entries.len()
                )
            }
        }
    }
}
