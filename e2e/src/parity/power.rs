//! Scenes around power-on and power-off.

use std::time::Duration;

use anyhow::{Result, bail};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use super::evidence::{self, Player};
use super::{PATIENCE, Stage};
use crate::control_plane::Component;
use crate::machine::Boot;
use crate::workload::Template;
use fencing_testbed::moment::Moment;

/// Cuts the power, and restores it once everybody had time to notice nothing.
async fn cycle(stage: &Stage<'_>, boot: Boot) {
    stage.machine.set_power(false);
    tokio::time::sleep(Duration::from_millis(500)).await;
    stage.machine.next_boot(boot);
    stage.machine.set_power(true);
}

/// Power-on with a bound pod: which sign of life comes first, and does the pod start by itself?
pub(super) async fn on(stage: &Stage<'_>) -> Result<String> {
    let player = Player::enter(stage, "power-on", Template::default()).await?;
    stage.machine.set_power(false);
    tokio::time::sleep(Duration::from_millis(500)).await;
    let lease = evidence::lease(stage).await?;
    stage.machine.set_power(true);
    let boot_id = stage.machine.boot_id();
    let (moved, ready, write) = tokio::try_join!(
        evidence::lease_moves(stage, &lease),
        evidence::first_node(stage, "be Ready again", |node| evidence::is_ready_in(
            node, &boot_id
        )),
        player.first_write(stage, &boot_id),
    )?;
    player.leave(stage).await?;
    Ok(evidence::in_order([
        (moved, "Lease"),
        (ready, "Ready"),
        (write.at, "first write of the same pod"),
    ]))
}

/// Power-on where the network plugin comes late: does a bound pod that needs no network of its own wait for it?
pub(super) async fn late_network(stage: &Stage<'_>) -> Result<String> {
    let template = Template {
        host_network: true, // any other pod needs the network plugin itself
        ..Template::default()
    };
    let player = Player::enter(stage, "late-network", template).await?;
    cycle(
        stage,
        Boot {
            pods_before_ready: true,
            ..Boot::default()
        },
    )
    .await;
    let boot_id = stage.machine.boot_id();
    let (ready, write) = tokio::try_join!(
        evidence::first_node(stage, "be Ready again", |node| evidence::is_ready_in(
            node, &boot_id
        )),
        player.first_write(stage, &boot_id),
    )?;
    player.leave(stage).await?;
    Ok(evidence::in_order([
        (ready, "Ready"),
        (write.at, "first write"),
    ]))
}

/// Power-on where no status update gets through: what still shows that the machine is alive?
pub(super) async fn status_refused(stage: &Stage<'_>) -> Result<String> {
    let player = Player::enter(stage, "status-refused", Template::default()).await?;
    let before = stage.machine.boot_id();
    stage.machine.set_power(false);
    tokio::time::sleep(Duration::from_millis(500)).await;
    let lease = evidence::lease(stage).await?;
    stage.machine.next_boot(Boot {
        status_refused: true,
        ..Boot::default()
    });
    stage.machine.set_power(true);
    let boot_id = stage.machine.boot_id();
    tokio::try_join!(
        evidence::lease_moves(stage, &lease),
        player.first_write(stage, &boot_id)
    )?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let node = Api::<Node>::all(stage.client())
        .get(stage.machine.name())
        .await?;
    let reported = if evidence::reported_boot(&node) == Some(&before) {
        "stays"
    } else {
        "changes"
    };
    cycle(stage, Boot::default()).await;
    stage.wait_ready().await?;
    player.leave(stage).await?;
    Ok(format!(
        "Lease moves, pod writes, boot ID in the API {reported}"
    ))
}

/// A deletion while the machine is off: does the pod start at power-on?
pub(super) async fn deleted_before(stage: &Stage<'_>) -> Result<String> {
    let player = Player::enter(stage, "deleted-before", Template::default()).await?;
    stage.machine.set_power(false);
    stage.workloads.delete_pod(&player.name, None).await?;
    stage.machine.set_power(true);
    let boot_id = stage.machine.boot_id();
    stage.workloads.wait_gone(&player.name, PATIENCE).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let written = player.writes(stage, &boot_id)?.len();
    Ok(format!(
        "{}, is deleted",
        if written == 0 {
            "never writes"
        } else {
            "writes"
        }
    ))
}

/// A deletion while the kubelet starts the pod. The moment is hit by trying: how far the start has come after a given time
/// is the affair of the machine, and of whatever else its host does.
pub(super) async fn deleted_in_flight(stage: &Stage<'_>) -> Result<String> {
    let mut aim = Aim::default();
    for attempt in 0..15 {
        let template = Template {
            ignores_sigterm: true,
            grace_seconds: Some(2),
            ..Template::default()
        };
        let scene = format!("in-flight-{attempt}");
        let player = Player::enter(stage, &scene, template).await?;
        cycle(stage, Boot::default()).await;
        let boot_id = stage.machine.boot_id();
        tokio::time::sleep(Duration::from_millis(aim.after_ms)).await;
        stage.workloads.delete_pod(&player.name, None).await?;
        let deleted = Moment::now();
        stage.workloads.wait_gone(&player.name, PATIENCE).await?;
        let writes = player.writes(stage, &boot_id)?;
        match (writes.first(), writes.last()) {
            (Some(first), _) if first.at < deleted => aim.came_late(),
            (_, Some(last)) => return Ok(in_flight(last.at.seconds_since(deleted)).to_owned()),
            _ => aim.came_early(),
        }
    }
    bail!("no deletion hit a start in flight: {aim:?}")
}

/// What became of a start that was in flight at the deletion, after which it wrote for so long.
fn in_flight(seconds: f64) -> &'static str {
    if seconds < 1.5 {
        "starts after the deletion, and ends before its grace period"
    } else {
        "starts after the deletion, writes for its grace period"
    }
}

/// When to delete a pod, learnt from the deletions that missed.
#[derive(Debug)]
struct Aim {
    /// From power-on.
    after_ms: u64,
    /// The latest that was too early, and the earliest that was too late.
    early_ms: Option<u64>,
    late_ms: Option<u64>,
}

impl Default for Aim {
    fn default() -> Self {
        Self {
            after_ms: 1400,
            early_ms: None,
            late_ms: None,
        }
    }
}

impl Aim {
    fn came_early(&mut self) {
        self.early_ms = Some(self.after_ms);
        self.again();
    }

    fn came_late(&mut self) {
        self.late_ms = Some(self.after_ms);
        self.again();
    }

    fn again(&mut self) {
        self.after_ms = match (self.early_ms, self.late_ms) {
            (Some(early), Some(late)) if early + 60 < late => early.midpoint(late),
            // The host has become slower or faster since one of them was learnt.
            (Some(early), Some(_)) if early == self.after_ms => self.forget_late(early),
            (Some(_), Some(late)) => self.forget_early(late),
            (Some(early), None) => early * 5 / 4,
            (None, Some(late)) => late * 4 / 5,
            (None, None) => self.after_ms,
        };
    }

    fn forget_late(&mut self, early_ms: u64) -> u64 {
        self.late_ms = None;
        early_ms * 5 / 4
    }

    fn forget_early(&mut self, late_ms: u64) -> u64 {
        self.early_ms = None;
        late_ms * 4 / 5
    }
}

/// An untolerated NoExecute taint that is there at power-on, with no deletion yet: the controller-manager, which would
/// delete the pod at once, is held meanwhile.
pub(super) async fn tainted(stage: &Stage<'_>) -> Result<String> {
    let player = Player::enter(stage, "tainted", Template::default()).await?;
    stage.machine.set_power(false);
    stage
        .plane
        .signal_component(Component::ControllerManager, rustix::process::Signal::STOP)?;
    let answer = power_on_tainted(stage, &player).await;
    stage
        .plane
        .signal_component(Component::ControllerManager, rustix::process::Signal::CONT)?;
    set_taints(stage, json!([])).await?;
    player.leave(stage).await?;
    answer
}

async fn power_on_tainted(stage: &Stage<'_>, player: &Player) -> Result<String> {
    set_taints(
        stage,
        json!([{"key": "parity.nodefencing.io/barrier", "effect": "NoExecute"}]),
    )
    .await?;
    stage.machine.set_power(true);
    let boot_id = stage.machine.boot_id();
    let ended = |pod: Option<&Pod>| reason(pod).is_some();
    let pod = stage
        .workloads
        .wait_pod(&player.name, PATIENCE, "be refused", ended)
        .await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let written = if player.writes(stage, &boot_id)?.is_empty() {
        "never writes"
    } else {
        "writes"
    };
    Ok(format!(
        "{}, {written}",
        reason(pod.as_ref()).unwrap_or_default()
    ))
}

/// `PHASE: REASON` of a pod that has a reason.
fn reason(pod: Option<&Pod>) -> Option<String> {
    let status = pod?.status.as_ref()?;
    Some(format!(
        "{}: {}",
        status.phase.as_ref()?,
        status.reason.as_ref()?
    ))
}

async fn set_taints(stage: &Stage<'_>, taints: serde_json::Value) -> Result<()> {
    let patch = Patch::Merge(json!({"spec": {"taints": taints}}));
    Api::<Node>::all(stage.client())
        .patch(stage.machine.name(), &PatchParams::default(), &patch)
        .await?;
    Ok(())
}

/// The power cut itself.
pub(super) async fn off(stage: &Stage<'_>) -> Result<String> {
    let player = Player::enter(stage, "power-cut", Template::default()).await?;
    let boot_id = stage.machine.boot_id();
    stage.machine.set_power(false);
    let dark = Moment::now();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let late = player
        .writes(stage, &boot_id)?
        .iter()
        .filter(|write| write.at > dark)
        .count();
    stage.machine.set_power(true);
    stage.wait_ready().await?;
    player.leave(stage).await?;
    Ok(if late == 0 {
        "not one write after it".to_owned()
    } else {
        format!("{late} writes after it")
    })
}
