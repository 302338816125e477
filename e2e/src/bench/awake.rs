//! Keeps the cores awake while something is measured.
//!
//! A virtual core that has nothing to do is given to somebody else, and comes back when that suits the hypervisor: each of the
//! dozens of small waits of a fence then costs a wake-up that is neither the operator's nor Kubernetes'. So each core has a process
//! that counts for nothing: with the policy `SCHED_IDLE` it runs only when nobody else wants to (sched(7)), but for the
//! hypervisor the core is busy.

use std::sync::Arc;
use std::{fs, thread};

use anyhow::{Context, Result};

use crate::process::{Guard, Process, Spec};
use crate::toolchain::lab_directory;

/// One process a core, until this is dropped.
pub(super) struct Awake {
    _spinners: Vec<Process>,
    _guard: Arc<Guard>,
}

impl Awake {
    /// Starts them. Needs chrt(1) of util-linux.
    pub(super) fn every_core() -> Result<Self> {
        let guard = Guard::start()?;
        fs::create_dir_all(lab_directory())?;
        let log = lab_directory().join("awake.log");
        let spin = ["--idle", "0", "sh", "-c", "while :; do :; done"];
        let cores = thread::available_parallelism()?.get();
        let spinners = (0..cores).map(|core| {
            let spec = Spec::new(&format!("awake-{core}"), "chrt", &log).args(spin);
            spec.spawn(&guard)
        });
        let spinners: Result<_> = spinners.collect();
        Ok(Self {
            _spinners: spinners.context("the cores cannot be kept awake")?,
            _guard: guard,
        })
    }
}
