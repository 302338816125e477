//! Keeps the cores awake while something is measured.
//!
//! A virtual core that has nothing to do is given to somebody else, and comes back when that suits the hypervisor: each of the
//! dozens of small waits of a fence then costs a wake-up that is neither the operator's nor Kubernetes'. So each core has a process
//! that counts for nothing: with the policy `SCHED_IDLE` it runs only when nobody else in its control group wants to (sched(7)), but
//! for the hypervisor the core is busy. Figures that were measured so do not compare with those of a machine that dozes.

use std::thread;

use anyhow::{Context, Result};

use crate::paths::lab_directory;
use crate::process::{Guard, Process, Spec};

/// What each of them does, for `sh`.
const SPIN: &str = "while :; do :; done";

/// One process a core, until this is dropped.
pub struct Awake {
    spinners: Vec<Process>,
}

impl Awake {
    /// Starts them. Needs taskset(1) and chrt(1) of util-linux.
    pub fn every_core() -> Result<Self> {
        let guard = Guard::start()?;
        let log = lab_directory().join("awake.log");
        let cores = thread::available_parallelism()?.get();
        let spinners = (0..cores).map(|core| {
            let core = core.to_string();
            let arguments = ["-c", &core, "chrt", "--idle", "0", "sh", "-c", SPIN];
            let spec = Spec::new(&format!("awake-{core}"), "taskset", &log).args(arguments);
            spec.spawn(&guard)
        });
        Ok(Self {
            spinners: spinners.collect::<Result<_>>()?,
        })
    }

    /// Fails if a core was not kept awake all the time.
    pub fn check(&self) -> Result<()> {
        let checked = self.spinners.iter().try_for_each(Process::check);
        checked.context("the cores were not kept awake")
    }
}
