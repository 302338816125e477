//! Control planes that go from test to test.
//!
//! Half of a simulated test's CPU time is the start of an API server with `deploy/` applied, and CPU time is what a test
//! run is short of. So [`take`] hands out one that another test of this process has finished with, if there is one with
//! the same [`Options`], and starts one otherwise. Whoever has it still has it alone, with a cluster as empty as a new
//! one: what could carry something from one test to the next is this.
//!
//! * Objects, also those that resist deletion: all go, and the store is then compared with what it held when `deploy/` had
//!   just been applied, byte by byte. A changed or lost one ends the control plane.
//! * The memory of controllers (what is attached where, backoffs, the health of nodes), of the external-attacher and of
//!   the storage array, with its faults: they are killed and started anew.
//! * Processes of the last test, above all an operator: killed before the objects are deleted, see [`Guard`]. What one had
//!   sent, and lands between that and the first word of the new controller-manager, is found in the audit log and ends the
//!   control plane.
//! * The audit log: read from where this use began.
//! * Files, volumes, tokens: each use has a directory of its own.
//! * The memory of the API server, which lives on: a mirror of the store, that it keeps by watching it. What it has built
//!   upon that (CustomResourceDefinitions, RBAC, admission policies) has not changed, or see above. Resource versions go on
//!   where they were.
//!
//! A control plane is given back only by a test that came to its verdict, and never after somebody laid hands on one of
//! its components. The others are killed when their test ends; so are, with the process, those that wait here.
//!
//! [`Guard`]: fencing_testbed::process::Guard

use std::{
    ops::Deref,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result};

use super::{ControlPlane, Options, snapshot::Snapshot};

/// A new one takes less on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Those that nobody has now.
static FREE: Mutex<Vec<Pooled>> = Mutex::new(Vec::new());

struct Pooled {
    plane: ControlPlane,
    /// What its store held at the beginning.
    baseline: Snapshot,
}

/// A control plane with `deploy/` applied. Dropping it ends it, unless it is to be given back.
pub struct Lent {
    /// Always there, but for the end of `drop`.
    pooled: Option<Pooled>,
    is_to_be_given_back: AtomicBool,
}

/// Takes a control plane that is as good as new, or starts one.
pub async fn take(options: Options) -> Result<Lent> {
    while let Some(mut pooled) = free(&options) {
        let renewed = pooled.plane.renew(&options.name, &pooled.baseline);
        let renewed = tokio::time::timeout(PATIENCE, renewed).await;
        match renewed.context("it takes too long").flatten() {
            Ok(()) => return Ok(Lent::new(pooled)),
            Err(error) => eprintln!(
                "lab: {}: a used control plane is given up: {error:#}",
                options.name
            ),
        }
    }
    start(options).await
}

/// Starts one that nobody has used before.
pub async fn start(options: Options) -> Result<Lent> {
    let plane = ControlPlane::start(options).await?;
    plane.apply_deploy().await?;
    let baseline = plane.snapshot().await?;
    Ok(Lent::new(Pooled { plane, baseline }))
}

/// Removes one from the pool that was set up like this.
fn free(options: &Options) -> Option<Pooled> {
    let mut all = lock();
    let is_alike = |pooled: &Pooled| {
        let name = options.name.clone();
        let theirs = pooled.plane.options().clone();
        Options { name, ..theirs } == *options
    };
    let found = all.iter().position(is_alike)?;
    Some(all.swap_remove(found))
}

fn lock() -> MutexGuard<'static, Vec<Pooled>> {
    FREE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Lent {
    fn new(pooled: Pooled) -> Self {
        Self {
            pooled: Some(pooled),
            is_to_be_given_back: AtomicBool::new(false),
        }
    }

    /// Gives it back at its end: whoever had it is content with it.
    pub fn give_back_at_end(&self) {
        self.is_to_be_given_back.store(true, Ordering::Relaxed);
    }
}

impl Deref for Lent {
    type Target = ControlPlane;

    fn deref(&self) -> &ControlPlane {
        let pooled = self.pooled.as_ref();
        &pooled.expect("only the end of its life takes it").plane
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let is_to_be_given_back = self.is_to_be_given_back.load(Ordering::Relaxed);
        if let Some(pooled) = self.pooled.take()
            && is_to_be_given_back
            && !std::thread::panicking()
            && pooled.plane.is_reusable()
        {
            pooled.plane.retire();
            lock().push(pooled);
        }
    }
}
