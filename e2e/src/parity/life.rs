//! Scenes on a machine that has power: deletions, and the ways in which a node breaks.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::api::{Api, ListParams};

use super::evidence::{self, Player};
use super::{PATIENCE, Stage};
use crate::machine::Ailment;
use crate::volume::journal::{Happening, Journal};
use crate::workload::{self, Template};
use fencing_testbed::moment::Moment;

/// `kubectl delete pod`: what ends in which order?
pub(super) async fn deleted(stage: &Stage<'_>) -> Result<String> {
    let player = Player::enter(stage, "deleted", Template::default()).await?;
    let boot_id = stage.machine.boot_id();
    let gone = evidence::first_pod(stage, &player.name, "be gone", |pod| pod.is_none());
    let (gone, _) = tokio::try_join!(gone, stage.workloads.delete_pod(&player.name, None))?;
    let last = player.last_write(stage, &boot_id).await?;
    let detached = detached(stage, &player.volume).await?;
    // Of the last two either may be first: attach/detach needs no pod that is gone, only one whose containers have ended.
    // Source: `DetermineVolumeAction`, `pkg/controller/volume/attachdetach/util`, and `IsPodTerminated`, `pkg/volume/util` (v1.36).
    Ok(if last.at < gone.min(detached) {
        "last write, then pod gone and volume detached".to_owned()
    } else {
        evidence::in_order([
            (last.at, "last write"),
            (gone, "pod gone"),
            (detached, "volume detached"),
        ])
    })
}

/// `kubectl delete pod --force` while the node lives: the API server forgets the pod at once, the node does not.
pub(super) async fn deleted_by_force(stage: &Stage<'_>) -> Result<String> {
    let template = Template {
        ignores_sigterm: true,
        grace_seconds: Some(2),
        ..Template::default()
    };
    let player = Player::enter(stage, "forced", template).await?;
    let boot_id = stage.machine.boot_id();
    stage.workloads.delete_pod(&player.name, Some(0)).await?;
    let deleted = Moment::now();
    let seconds = player
        .last_write(stage, &boot_id)
        .await?
        .at
        .seconds_since(deleted);
    // A second for the kubelet to see it, and one to act.
    Ok(if seconds < 4.0 {
        "ends within its grace period".to_owned()
    } else {
        format!("writes for {seconds:.1} s")
    })
}

/// A node that cannot reach the API server, and later can.
pub(super) async fn partitioned(stage: &Stage<'_>) -> Result<String> {
    let player = Player::enter(stage, "partitioned", Template::default()).await?;
    let boot_id = stage.machine.boot_id();
    let unknown = unknown_while(
        stage,
        &player,
        Ailment {
            partitioned: true,
            ..Ailment::default()
        },
    )
    .await?;
    stage.machine.ail(Ailment::default());
    stage.wait_ready().await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let writes = player.writes(stage, &boot_id)?;
    // By its numbers: a pause between two writes may be the host's.
    let is_one_container = writes
        .windows(2)
        .all(|pair| pair[1].sequence == pair[0].sequence + 1);
    ensure!(
        player.is_writing(stage, &boot_id).await?,
        "the pod should go on writing after the partition"
    );
    player.leave(stage).await?;
    let container = match is_one_container {
        true => "the same container",
        false => "another container",
    };
    Ok(format!("{unknown}; Ready again, {container}"))
}

/// A kubelet that does nothing any more, on a machine that goes on, until somebody cycles its power.
pub(super) async fn hung(stage: &Stage<'_>) -> Result<String> {
    let player = Player::enter(stage, "hung", Template::default()).await?;
    let before = stage.machine.boot_id();
    let unknown = unknown_while(
        stage,
        &player,
        Ailment {
            kubelet_hung: true,
            ..Ailment::default()
        },
    )
    .await?;
    stage.machine.set_power(false);
    stage.machine.set_power(true);
    stage.wait_ready().await?;
    let renewed = if stage.machine.boot_id() == before {
        "the old"
    } else {
        "a new"
    };
    player.leave(stage).await?;
    Ok(format!("{unknown}; Ready again with {renewed} boot ID"))
}

/// What the API server says about a node with `ailment`, and whether its pod goes on writing.
async fn unknown_while(stage: &Stage<'_>, player: &Player, ailment: Ailment) -> Result<String> {
    stage.machine.ail(ailment);
    let is_unknown = |node: &Node| workload::ready_status(node) == Some("Unknown");
    evidence::first_node(stage, "be Unknown", is_unknown).await?;
    let writing = if player.is_writing(stage, &stage.machine.boot_id()).await? {
        "writing"
    } else {
        "silent"
    };
    Ok(format!("Ready=Unknown while {writing}"))
}

/// A volume that cannot be unmounted: the pod ends, but neither it nor the attachment goes.
pub(super) async fn unmount_hung(stage: &Stage<'_>) -> Result<String> {
    let template = Template {
        grace_seconds: Some(1),
        ..Template::default()
    };
    let player = Player::enter(stage, "unmount-hung", template).await?;
    stage.machine.ail(Ailment {
        unmount_hung: true,
        ..Ailment::default()
    });
    stage.workloads.delete_pod(&player.name, None).await?;
    player.last_write(stage, &stage.machine.boot_id()).await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let pod = stage
        .workloads
        .wait_pod(&player.name, PATIENCE, "be seen", |_| true)
        .await?;
    let pod = if pod.is_some() { "Terminating" } else { "gone" };
    let attachment = if is_attached(stage, &player.volume).await? {
        "attached"
    } else {
        "detached"
    };
    stage.machine.ail(Ailment::default());
    stage.workloads.wait_gone(&player.name, PATIENCE).await?;
    detached(stage, &player.volume).await?;
    Ok(format!("stops writing, {pod} and {attachment}; then gone"))
}

/// Is there a VolumeAttachment of `volume` to the stage's machine?
async fn is_attached(stage: &Stage<'_>, volume: &str) -> Result<bool> {
    let attachments: Api<VolumeAttachment> = Api::all(stage.client());
    let is_it = |attachment: &VolumeAttachment| {
        let of = attachment.spec.source.persistent_volume_name.as_deref();
        of == Some(volume) && attachment.spec.node_name == stage.machine.name()
    };
    Ok(attachments
        .list(&ListParams::default())
        .await?
        .iter()
        .any(is_it))
}

/// Waits until `volume` is detached from the stage's machine, and says when it was.
async fn detached(stage: &Stage<'_>, volume: &str) -> Result<Moment> {
    let begin = Moment::now();
    while is_attached(stage, volume).await? {
        ensure!(
            Moment::now().since(begin) < PATIENCE,
            "volume {volume} should be detached"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let journal = stage.volumes.journal();
    journal.read_array(&stage.plane.array()).await?;
    last_detach(journal, volume).context("the array should have detached the volume")
}

/// When the storage took `volume` away last.
fn last_detach(journal: &Journal, volume: &str) -> Option<Moment> {
    let entries = journal.entries();
    let last = entries.iter().rev().find(|(_, happening)| {
        matches!(happening, Happening::Detached { volume: of, .. } if of == volume)
    });
    last.map(|(at, _)| *at)
}
