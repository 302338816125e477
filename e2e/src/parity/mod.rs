//! The same questions to a simulated and to a real node: does the one stand for the other?
//!
//! Each question plays one scene on a machine (a power cut, a deletion at a bad moment, a partition) and answers with what
//! the API server and the volume saw of it, in words. Both kinds of node must give the answers of [`EXPECTED`], so that
//! what is shown on simulated nodes is known to hold on real ones.

mod evidence;
mod life;
mod power;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use futures::future::BoxFuture;
use kube::Client;

use crate::control_plane::ControlPlane;
use crate::machine::{Ailment, Boot, Machine};
use crate::volume::Volumes;
use crate::workload::Workloads;

/// Where the scenes are played: one machine, and a namespace for its pods.
pub struct Stage<'a> {
    /// The control plane, whose controller-manager is stopped for a moment in one scene.
    pub plane: &'a ControlPlane,
    /// The volumes that the machine's node mounts.
    pub volumes: &'a Arc<Volumes>,
    /// A namespace of its own.
    pub workloads: &'a Workloads,
    /// The machine.
    pub machine: &'a dyn Machine,
}

/// A question and what a node must answer to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// What was asked.
    pub question: &'static str,
    /// What was seen.
    pub answer: String,
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:<58}  {}", self.question, self.answer)
    }
}

type Scene = for<'a> fn(&'a Stage<'a>) -> BoxFuture<'a, Result<String>>;

/// Every question, the answer that a node of either kind must give, and how it is found out.
const SCENES: &[(&str, &str, Scene)] = &[
    (
        "a bound pod, after power-on",
        "Lease, Ready, first write of the same pod",
        |stage| Box::pin(power::on(stage)),
    ),
    (
        "a bound pod, the network plugin late",
        "first write, Ready",
        |stage| Box::pin(power::late_network(stage)),
    ),
    (
        "a bound pod, every status update refused",
        "Lease moves, pod writes, boot ID in the API stays",
        |stage| Box::pin(power::status_refused(stage)),
    ),
    (
        "a pod whose deletion began before power-on",
        "never writes, is deleted",
        |stage| Box::pin(power::deleted_before(stage)),
    ),
    (
        "a pod deleted while its start is in flight",
        "starts after the deletion, writes for its grace period",
        |stage| Box::pin(power::deleted_in_flight(stage)),
    ),
    (
        "an untolerated NoExecute taint at power-on",
        "Failed: TaintToleration, never writes",
        |stage| Box::pin(power::tainted(stage)),
    ),
    ("power cut", "not one write after it", |stage| {
        Box::pin(power::off(stage))
    }),
    (
        "a graceful deletion",
        "last write, then pod gone and volume detached",
        |stage| Box::pin(life::deleted(stage)),
    ),
    (
        "a forced deletion on a live node",
        "ends within its grace period",
        |stage| Box::pin(life::deleted_by_force(stage)),
    ),
    (
        "a partition, then healed",
        "Ready=Unknown while writing; Ready again, the same container",
        |stage| Box::pin(life::partitioned(stage)),
    ),
    (
        "a hung kubelet, then a power cycle",
        "Ready=Unknown while writing; Ready again with a new boot ID",
        |stage| Box::pin(life::hung(stage)),
    ),
    (
        "a hung unmount, then cured",
        "stops writing, Terminating and attached; then gone",
        |stage| Box::pin(life::unmount_hung(stage)),
    ),
];

/// What both kinds of node must answer.
pub fn expected() -> Vec<Answer> {
    let answer = |(question, answer, _): &(&'static str, &str, Scene)| Answer {
        question,
        answer: (*answer).to_owned(),
    };
    SCENES.iter().map(answer).collect()
}

/// Plays all scenes, in order, each on a healthy node. A scene that cannot be played is an error.
pub async fn ask(stage: &Stage<'_>) -> Result<Vec<Answer>> {
    let mut answers = Vec::new();
    for (question, _, scene) in SCENES {
        let context = || format!("{question} ({} node)", stage.machine.kind());
        stage.heal().await.with_context(context)?;
        let answer = scene(stage).await.with_context(context)?;
        answers.push(Answer { question, answer });
    }
    stage.heal().await?;
    Ok(answers)
}

/// Long enough for anything in a scene on a busy machine; nothing waits for it when all is well.
const PATIENCE: Duration = Duration::from_secs(120);

impl Stage<'_> {
    fn client(&self) -> Client {
        self.plane.admin()
    }

    /// Brings the machine back to health: power, no ailment, Ready in the boot it is in.
    async fn heal(&self) -> Result<()> {
        self.machine.ail(Ailment::default());
        self.machine.next_boot(Boot::default());
        self.machine.set_power(true);
        self.wait_ready().await
    }

    /// Waits until the Node is Ready with the boot ID of the machine.
    async fn wait_ready(&self) -> Result<()> {
        let boot_id = self.machine.boot_id();
        evidence::first_node(self, "be Ready in this boot", |node| {
            evidence::is_ready_in(node, &boot_id)
        })
        .await
        .map(drop)
    }
}
