//! The store as it was at some moment, and how the cluster is put back to that.
//!
//! A backup is what a snapshot of etcd's disk is: a copy of its files while it stands still. Everything is started anew over it but for
//! what is under test and the machines, as Kubernetes' documentation asks of whoever restores an etcd.

use std::{path::PathBuf, process::Command, sync::atomic::Ordering};

use anyhow::{Context, Result, ensure};

use super::{Component, ControlPlane};
use fencing_testbed::process::{Process, Signal};

/// Those that work on what the API server has, and remember it.
const CONTROLLERS: [Component; 3] = [
    Component::ControllerManager,
    Component::Scheduler,
    Component::CsiAttacher,
];

/// A copy of the store.
#[derive(Debug)]
pub struct Backup(PathBuf);

impl ControlPlane {
    /// Copies the store, under a name of its own. Nothing is interrupted for longer than that takes.
    pub fn back_up(&self, name: &str) -> Result<Backup> {
        self.is_tampered.store(true, Ordering::Relaxed);
        let copy = self.files.scratch().join(format!("backup-{name}"));
        let processes = self.lock();
        let etcd = processes.get(&Component::Etcd).context("etcd runs")?;
        etcd.pause()?;
        let copied = copy_files(self.data(), &copy);
        etcd.signal(Signal::CONT)?;
        copied.map(|()| Backup(copy))
    }

    /// Puts the store back to what it was.
    pub async fn restore(&self, backup: &Backup) -> Result<()> {
        for component in CONTROLLERS
            .into_iter()
            .chain([Component::ApiServer, Component::Etcd])
        {
            self.stop_component(component)?;
        }
        std::fs::remove_dir_all(self.data())?;
        copy_files(backup.0.clone(), &self.data())?;
        for component in [Component::Etcd, Component::ApiServer]
            .into_iter()
            .chain(CONTROLLERS)
        {
            self.start_component(component).await?;
        }
        self.lock().values().try_for_each(Process::check)
    }

    fn data(&self) -> PathBuf {
        let kept = self.options.store_directory.clone();
        self.files.scratch().join(kept.unwrap_or("etcd".into()))
    }
}

/// `cp`, because it leaves out what was never written: etcd makes room for more than it has to say.
fn copy_files(from: PathBuf, to: &PathBuf) -> Result<()> {
    let mut command = Command::new("cp");
    command.args(["-r", "--sparse=always"]).args([&from, to]);
    let status = command.status().context("failed to run cp")?;
    ensure!(status.success(), "cp {}: {status}", from.display());
    Ok(())
}
