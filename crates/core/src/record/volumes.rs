//! The node's volumes in the record, and when the last of them had detached.

use super::text::{cut, wall};
use crate::memory::Memory;
use crate::observed::{AttachmentView, Observed, Read};
use crate::release::{Hindrance, hindrance, hindrance_of_deletion};
use fencing_api::fence_status::{NodeFenceStatus, VolumeRecord, VolumeState};
use jiff::Timestamp;
use std::time::Duration;

/// Volumes kept.
pub(super) const VOLUMES_KEPT: usize = 128;

/// Takes the node's VolumeAttachments into the record; one that is not there any more has detached. Once all have, under our taint, that is
/// written down, and taken back if a pod or a volume comes after all; once the Node is gone, one that its deletion would have waited for. It is what
/// tells a successor who finds a new Node of its name that nothing was attached when it went.
pub fn volumes(
    status: &mut NodeFenceStatus,
    memory: &Memory,
    observed: &Observed,
    now: Duration,
    wall_now: Timestamp,
) {
    follow(status, &observed.attachments_cached, wall_now);
    if !memory.taint.seen {
        return;
    }
    match (
        memory.taint.detached_at,
        hindrance(observed.node.present(), observed),
    ) {
        (Some(at), _) if status.detached_time.is_none() => {
            status.detached_time = wall(at, now, wall_now);
        }
        // Of what could not be read nobody knows whether it has come back.
        (Some(_), _) | (None, None | Some(Hindrance::NotRead(_) | Hindrance::LastList)) => {}
        (None, Some(_)) if still_holds(observed) => {}
        (None, Some(_)) => status.detached_time = None,
    }
}

/// Does nothing speak against what was written? The Node could not be read; or it is gone, and neither a volume nor a pod that uses one is left.
fn still_holds(observed: &Observed) -> bool {
    match &observed.node {
        Read::Present(_) => false,
        Read::Absent => hindrance_of_deletion(observed).is_none(),
        Read::NotRead | Read::Failed(_) => true,
    }
}

fn follow(status: &mut NodeFenceStatus, attachments: &[AttachmentView], wall_now: Timestamp) {
    for attachment in attachments {
        volume(&mut status.volumes, attachment);
    }
    for volume in &mut status.volumes {
        let gone = !attachments
            .iter()
            .any(|attachment| attachment.name == volume.volume_attachment);
        if gone && volume.state != VolumeState::Detached {
            volume.state = VolumeState::Detached;
            volume.detached_time = Some(wall_now);
            volume.message = None;
        }
    }
    let detached = status
        .volumes
        .iter()
        .filter(|volume| volume.state == VolumeState::Detached)
        .count();
    status.volume_count = u32::try_from(status.volumes.len()).ok();
    status.volumes_detached = u32::try_from(detached).ok();
}

fn volume(volumes: &mut Vec<VolumeRecord>, attachment: &AttachmentView) {
    let state = match (&attachment.detach_error, attachment.deleting) {
        (Some(_), _) => VolumeState::DetachError,
        (None, true) => VolumeState::Detaching,
        (None, false) => VolumeState::Attached,
    };
    let message = attachment.detach_error.as_deref().map(cut);
    if let Some(known) = volumes
        .iter_mut()
        .find(|volume| volume.volume_attachment == attachment.name)
    {
        known.state = state;
        known.message = message;
    } else if volumes.len() < VOLUMES_KEPT {
        volumes.push(VolumeRecord {
            volume_attachment: attachment.name.clone(),
            persistent_volume: (!attachment.volume.is_empty()).then(|| attachment.volume.clone()),
            attacher: Some(attachment.attacher.clone()),
            state,
            detached_time: None,
            message,
        });
    }
}
