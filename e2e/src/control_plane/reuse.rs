//! Using a control plane again, for a test that must not notice.
//!
//! Everything that remembers ends with a use: the controllers, the storage array, and whatever the lab started beside
//! them are killed, and start anew on an empty cluster with fresh logs. Only the store and the API server live on, whose
//! start is the expensive one; and an API server's memory is a mirror of its store.

use std::{path::PathBuf, sync::atomic::Ordering, time::Duration};

use anyhow::{Context, Result, ensure};

use super::{Component, ControlPlane, clients, snapshot::Snapshot};
use crate::{audit::Request, rights};
use fencing_testbed::{eventually::eventually, process::Guard};

/// As whom the controller-manager asks for the tokens of its controllers, which is the first that it does.
const CONTROLLER_MANAGER: &str = "system:kube-controller-manager";
/// A busy machine starts it in less.
const LIMIT: Duration = Duration::from_secs(30);

impl ControlPlane {
    /// What the API server has now.
    pub(super) async fn snapshot(&self) -> Result<Snapshot> {
        Snapshot::read(&self.store()).await
    }

    /// May another use follow? Not if somebody stopped or signalled a component, nor on a store that is to stay.
    pub(super) fn is_reusable(&self) -> bool {
        let is_tampered = self.is_tampered.load(Ordering::Relaxed);
        !is_tampered && self.options.store_directory.is_none() && self.check().is_ok()
    }

    /// Ends this use: kills everything but the store and the API server.
    pub(super) fn retire(&self) {
        rights::record(self);
        self.guard.end();
        // Dropping a process waits until it is gone.
        let mut processes = self.lock();
        processes
            .retain(|component, _| matches!(component, Component::Etcd | Component::ApiServer));
    }

    /// Begins another use under this name, with what `baseline` holds and nothing else. Fails if anything is not as it was.
    pub(super) async fn renew(&mut self, name: &str, baseline: &Snapshot) -> Result<()> {
        self.check()?;
        name.clone_into(&mut self.options.name);
        self.files.renew(name, &self.authority)?;
        self.guard = Guard::start()?;
        // The last one lived on a runtime that is no more.
        self.admin = clients::client(&self.files.kubeconfig("admin")).await?;

        let audit = self.audit();
        let (store, mut empty_since) = (self.store(), Ok(0));
        let restored = baseline.restore(&store, || empty_since = audit.end_of_lines());
        restored.await.context("the store is not as it was")?;
        self.audit_begin = empty_since?;
        self.start_controllers().await?;

        let audit = self.audit();
        // What it waits for in a new control plane is there already.
        eventually("the controller-manager works", LIMIT, async || {
            self.check()?;
            let written = audit.requests(|request| request.user.username == CONTROLLER_MANAGER)?;
            ensure!(!written.is_empty(), "it has written nothing");
            Ok(())
        })
        .await?;
        audit.settled().await?;
        let strays: Vec<_> = audit
            .requests(is_stray)?
            .iter()
            .map(Request::summary)
            .collect();
        ensure!(strays.is_empty(), "somebody is still there: {strays:?}");
        // In the midst of a line would begin what nobody can read: the controllers write at any time.
        self.audit_begin = audit.end_of_lines()?;
        Ok(())
    }

    fn store(&self) -> PathBuf {
        self.files.socket("etcd.sock:0")
    }
}

/// A write, while nobody but the controllers is there to write.
fn is_stray(request: &Request) -> bool {
    const CONTROLLERS: [&str; 4] = [
        "system:apiserver",
        CONTROLLER_MANAGER,
        "system:kube-scheduler",
        "csi-attacher",
    ];
    let user = request.user.username.as_str();
    let is_controller =
        CONTROLLERS.contains(&user) || user.starts_with("system:serviceaccount:kube-system:");
    request.is_write() && !is_controller
}
