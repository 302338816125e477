//! What the API server and the volume show during a scene, and when they first did.

use std::fmt::Debug;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, ResourceExt};
use kube::runtime::wait::await_condition;
use serde::de::DeserializeOwned;

use super::{PATIENCE, Stage};
use crate::volume::Write;
use crate::workload::{self, Template};
use fencing_testbed::moment::Moment;

/// A pod that has written nothing for so long does not write.
const SILENCE: Duration = Duration::from_secs(3);

/// A pod of a scene, running on the stage's machine with a volume of its own.
pub(super) struct Player {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) volume: String,
}

impl Player {
    /// Creates the pod and its volume, bound to the stage's machine by the scheduler, and waits until it writes.
    pub(super) async fn enter(stage: &Stage<'_>, scene: &str, template: Template) -> Result<Self> {
        let volume = format!("parity-{}-{scene}", stage.machine.name());
        stage.workloads.volume(&volume).await?;
        let node = Some(stage.machine.name().to_owned());
        let template = Template {
            claim: Some(volume.clone()),
            node,
            ..template
        };
        stage.workloads.pod(scene, &template).await?;
        let pod = stage.workloads.wait_running(scene, PATIENCE).await?;
        let player = Self {
            name: scene.to_owned(),
            uid: pod.uid().unwrap_or_default(),
            volume,
        };
        player.first_write(stage, &stage.machine.boot_id()).await?;
        Ok(player)
    }

    /// Deletes the pod and waits until it is gone.
    pub(super) async fn leave(self, stage: &Stage<'_>) -> Result<()> {
        stage.workloads.delete_pod(&self.name, None).await?;
        stage.workloads.wait_gone(&self.name, PATIENCE).await
    }

    /// What the pod has written in `boot_id` so far.
    pub(super) fn writes(&self, stage: &Stage<'_>, boot_id: &str) -> Result<Vec<Write>> {
        let mut writes = stage.volumes.writes(&self.volume)?;
        writes.retain(|write| write.boot == boot_id && write.pod == self.uid);
        Ok(writes)
    }

    /// The pod's first write in `boot_id`, waited for.
    pub(super) async fn first_write(&self, stage: &Stage<'_>, boot_id: &str) -> Result<Write> {
        self.await_writes(stage, boot_id, "write", |writes| !writes.is_empty())
            .await?
            .into_iter()
            .next()
            .context("no write")
    }

    /// Waits until the pod has written nothing for half a second, and returns its last write.
    pub(super) async fn last_write(&self, stage: &Stage<'_>, boot_id: &str) -> Result<Write> {
        let is_silent = |writes: &[Write]| {
            writes
                .last()
                .is_some_and(|write| Moment::now().seconds_since(write.at) > 0.5)
        };
        self.await_writes(stage, boot_id, "fall silent", is_silent)
            .await?
            .into_iter()
            .next_back()
            .context("no write")
    }

    /// Is the pod writing at this moment?
    pub(super) async fn is_writing(&self, stage: &Stage<'_>, boot_id: &str) -> Result<bool> {
        let before = self.writes(stage, boot_id)?.len();
        let begin = Moment::now();
        // A pod that writes may still be held up by a laden host.
        while Moment::now().since(begin) < SILENCE {
            tokio::time::sleep(Duration::from_millis(100)).await;
            if self.writes(stage, boot_id)?.len() > before {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn await_writes(
        &self,
        stage: &Stage<'_>,
        boot_id: &str,
        what: &str,
        condition: impl Fn(&[Write]) -> bool,
    ) -> Result<Vec<Write>> {
        let begin = Moment::now();
        loop {
            let writes = self.writes(stage, boot_id)?;
            if condition(&writes) {
                return Ok(writes);
            }
            if Moment::now().since(begin) > PATIENCE {
                bail!(
                    "pod {} should {what} in boot {boot_id}, but has {} writes",
                    self.name,
                    writes.len()
                );
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// The moment from which on `condition` was seen to hold for the machine's Node.
pub(super) async fn first_node(
    stage: &Stage<'_>,
    what: &str,
    condition: impl Fn(&Node) -> bool,
) -> Result<Moment> {
    first(
        &Api::all(stage.client()),
        stage.machine.name(),
        what,
        |node| node.is_some_and(&condition),
    )
    .await
}

/// The moment from which on `condition` was seen to hold for a pod of the stage (`None`: it is gone).
pub(super) async fn first_pod(
    stage: &Stage<'_>,
    name: &str,
    what: &str,
    condition: impl Fn(Option<&Pod>) -> bool,
) -> Result<Moment> {
    first(&stage.workloads.api::<Pod>(), name, what, condition).await
}

/// The moment at which the machine's Lease was first seen renewed after `stored`.
pub(super) async fn lease_moves(stage: &Stage<'_>, stored: &Lease) -> Result<Moment> {
    let renewed = |lease: &Lease| lease.spec.as_ref().and_then(|spec| spec.renew_time.clone());
    let before = renewed(stored);
    let leases = Api::namespaced(stage.client(), "kube-node-lease");
    let moved = |lease: Option<&Lease>| lease.is_some_and(|lease| renewed(lease) != before);
    first(&leases, stage.machine.name(), "be renewed", moved).await
}

/// The machine's Lease as it is stored.
pub(super) async fn lease(stage: &Stage<'_>) -> Result<Lease> {
    let leases: Api<Lease> = Api::namespaced(stage.client(), "kube-node-lease");
    Ok(leases.get(stage.machine.name()).await?)
}

async fn first<K>(
    api: &Api<K>,
    name: &str,
    what: &str,
    condition: impl Fn(Option<&K>) -> bool,
) -> Result<Moment>
where
    K: kube::Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let seen = tokio::time::timeout(PATIENCE, await_condition(api.clone(), name, condition)).await;
    seen.with_context(|| format!("{name} should {what} within {PATIENCE:?}"))??;
    Ok(Moment::now())
}

/// Is the Node Ready, as reported by the boot with this ID?
pub(super) fn is_ready_in(node: &Node, boot_id: &str) -> bool {
    workload::ready_status(node) == Some("True") && reported_boot(node) == Some(boot_id)
}

/// The boot ID that the Node reports.
pub(super) fn reported_boot(node: &Node) -> Option<&str> {
    Some(node.status.as_ref()?.node_info.as_ref()?.boot_id.as_str())
}

/// The names of what happened, in the order in which it did.
pub(super) fn in_order<const N: usize>(mut moments: [(Moment, &str); N]) -> String {
    moments.sort_by_key(|(at, _)| *at);
    moments.map(|(_, what)| what).join(", ")
}
