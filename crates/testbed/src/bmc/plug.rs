//! A machine that is nothing but its plug, for tests that need no node.

use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

use crate::{moment::Moment, power::Power};

/// Power that is a boolean, and remembers when it changed.
#[derive(Debug)]
pub struct Plug {
    name: String,
    system_uuid: String,
    // The first entry is what it was made with; the last is what it is.
    changes: Mutex<Vec<(Moment, bool)>>,
}

impl Plug {
    /// A machine that is on.
    pub fn new(name: impl Into<String>, system_uuid: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            system_uuid: system_uuid.into(),
            changes: Mutex::new(vec![(Moment::now(), true)]),
        }
    }

    /// Each change of its power, with the state that it began with first.
    pub fn changes(&self) -> Vec<(Moment, bool)> {
        self.changes
            .lock()
            .expect("no panic while a plug is pulled")
            .clone()
    }

    /// Waits until it is on or off. Answers whether that came to pass `within` this time.
    pub async fn wait_until(&self, on: bool, within: Duration) -> bool {
        let end = Instant::now() + within;
        while self.is_on() != on {
            if Instant::now() >= end {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        true
    }
}

impl Power for Plug {
    fn name(&self) -> &str {
        &self.name
    }

    fn system_uuid(&self) -> &str {
        &self.system_uuid
    }

    fn is_on(&self) -> bool {
        self.changes().last().is_some_and(|(_, on)| *on)
    }

    fn set_power(&self, on: bool) {
        let mut changes = self
            .changes
            .lock()
            .expect("no panic while a plug is pulled");
        if changes.last().is_none_or(|(_, was_on)| *was_on != on) {
            changes.push((Moment::now(), on));
        }
    }
}
